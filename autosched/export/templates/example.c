/*
 * Calls @name@ once.
 *
 *     @name@_example [@usage@]
 *
 * The files hold the elements of the arrays, nothing else: inputs are read, outputs written. Without files the inputs
 * are zero.
 */

#include "@name@.h"

#include <stdio.h>
#include <stdlib.h>

struct array {
    const char *name;
    size_t bytes;
    int is_output;
    void *memory;
};

@values@static struct array arrays[] = {
@rows@};
static const int count = @count@;

static int transfer(const struct array *array, const char *path) {
    FILE *file = fopen(path, array->is_output ? "wb" : "rb");
    size_t done = 0;
    if (file && array->is_output) done = fwrite(array->memory, 1, array->bytes, file);
    if (file && !array->is_output) done = fread(array->memory, 1, array->bytes, file);
    if (file && fclose(file) == 0 && done == array->bytes) return 1;
    fprintf(stderr, "%s: cannot %s %zu bytes\n", path, array->is_output ? "write" : "read", array->bytes);
    return 0;
}

int main(int argc, char **argv) {
    const int files = argc == count + 1;
    if (argc != 1 && !files) {
        fprintf(stderr, "usage: %s [@usage@]\n", argv[0]);
        return 2;
    }
    for (int i = 0; i < count; i++) {
        arrays[i].memory = calloc(1, arrays[i].bytes ? arrays[i].bytes : 1);
        if (!arrays[i].memory) return 1;
        if (files && !arrays[i].is_output && !transfer(&arrays[i], argv[i + 1])) return 1;
    }
    /* aligned_alloc wants a multiple of the alignment. */
    const size_t lines = @name@_workspace_bytes() / @prefix@_WORKSPACE_ALIGNMENT + 1;
    void *workspace = aligned_alloc(@prefix@_WORKSPACE_ALIGNMENT, lines * @prefix@_WORKSPACE_ALIGNMENT);
    if (!workspace) return 1;

    const int error = @call@;
    if (error != @prefix@_SUCCESS) {
        fprintf(stderr, "@name@: an argument does not fit\n");
        return 1;
    }

    for (int i = 0; i < count; i++) {
        if (arrays[i].is_output) {
            if (files && !transfer(&arrays[i], argv[i + 1])) return 1;
            printf("%s: %zu bytes\n", arrays[i].name, arrays[i].bytes);
        }
        free(arrays[i].memory);
    }
    free(workspace);
    return 0;
}
