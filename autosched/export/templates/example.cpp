// Calls @name@ once.
//
//     @name@_example [@usage@]
//
// The files hold the elements of the arrays, nothing else: inputs are read, outputs written. Without files the inputs
// are zero.

#include "@name@.h"

#include <cstdio>
#include <cstdlib>
#include <vector>

struct Array {
    const char *name;
    size_t bytes;
    int is_output;
    void *memory;  // on the device
};

@values@static Array arrays[] = {
@rows@};
static const int count = @count@;

static void check(cudaError_t error, const char *what) {
    if (error != cudaSuccess) {
        std::fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(error));
        std::exit(1);
    }
}

static void transfer(char *elements, size_t bytes, const char *path, bool write) {
    std::FILE *file = std::fopen(path, write ? "wb" : "rb");
    size_t done = 0;
    if (file) done = write ? std::fwrite(elements, 1, bytes, file) : std::fread(elements, 1, bytes, file);
    if (!file || std::fclose(file) != 0 || done != bytes) {
        std::fprintf(stderr, "%s: cannot %s %zu bytes\n", path, write ? "write" : "read", bytes);
        std::exit(1);
    }
}

int main(int argc, char **argv) {
    const bool files = argc == count + 1;
    if (argc != 1 && !files) {
        std::fprintf(stderr, "usage: %s [@usage@]\n", argv[0]);
        return 2;
    }
    for (int i = 0; i < count; i++) {
        Array &array = arrays[i];
        check(cudaMalloc(&array.memory, array.bytes), array.name);
        if (array.is_output) continue;
        std::vector<char> elements(array.bytes);
        if (files) transfer(elements.data(), array.bytes, argv[i + 1], false);
        check(cudaMemcpy(array.memory, elements.data(), array.bytes, cudaMemcpyHostToDevice), array.name);
    }
    void *workspace = nullptr;
    if (@name@_workspace_bytes() != 0) check(cudaMalloc(&workspace, @name@_workspace_bytes()), "workspace");
    cudaStream_t stream;
    check(cudaStreamCreate(&stream), "stream");

    const cudaError_t error = @call@;
    check(error, "@name@");
    check(cudaStreamSynchronize(stream), "@name@");

    for (int i = 0; i < count; i++) {
        Array &array = arrays[i];
        if (array.is_output) {
            std::vector<char> elements(array.bytes);
            check(cudaMemcpy(elements.data(), array.memory, array.bytes, cudaMemcpyDeviceToHost), array.name);
            if (files) transfer(elements.data(), array.bytes, argv[i + 1], true);
            std::printf("%s: %zu bytes\n", array.name, array.bytes);
        }
        check(cudaFree(array.memory), array.name);
    }
    check(cudaFree(workspace), "workspace");
    check(cudaStreamDestroy(stream), "stream");
    return 0;
}
