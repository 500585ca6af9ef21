/* A stand-in for the CUDA driver (libcuda.so.1) that runs no kernel and records each launch.
 *
 *     gcc -shared -fPIC -o libcuda.so.1 launch_recorder.c
 *
 * Modules are written to $LAUNCH_RECORD/module_N.ptx. Each launch is a line of $LAUNCH_RECORD/launches:
 * module, kernel, grid, block, bytes of dynamic shared memory, then every parameter as 8 bytes in hexadecimal (of a
 * shorter one the first bytes count). Device memory is address space of the host. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

typedef int Result;
enum { MOST = 512, OUT_OF_MEMORY = 2, NO_CONTEXT = 201 };
struct function {
    char name[240];
    int module, parameters;
};
static const char *images[MOST];
static struct function functions[MOST];
static int modules, known, depth;
static void *contexts[16];

static FILE *open_record(const char *name, const char *mode) {
    char path[1024];
    snprintf(path, sizeof path, "%s/%s", getenv("LAUNCH_RECORD"), name);
    FILE *file = fopen(path, mode);
    if (!file) abort();
    return file;
}

/* Parameters of a kernel: as often as ".param" stands in the parentheses behind its name. */
static int count_parameters(const char *ptx, const char *name) {
    char entry[300];
    snprintf(entry, sizeof entry, ".entry %s(", name);
    const char *at = strstr(ptx, entry), *end = at ? strchr(at, ')') : 0;
    int n = 0;
    while (at && (at = strstr(at + 1, ".param")) && at < end) n++;
    return n;
}

Result cuInit(unsigned flags) { return 0; }
Result cuDeviceGetCount(int *n) { *n = 1; return 0; }
Result cuDeviceGet(int *device, int i) { *device = i; return 0; }
Result cuDeviceGetAttribute(int *value, int attribute, int device) { *value = 132; return 0; }
Result cuDeviceGetName(char *name, int n, int device) { strncpy(name, "recorder", n); return 0; }
Result cuDeviceTotalMem_v2(size_t *bytes, int device) { *bytes = 1ull << 37; return 0; }
Result cuCtxCreate_v2(void **c, unsigned flags, int device) { *c = malloc(8); contexts[depth++] = *c; return 0; }
Result cuCtxDestroy_v2(void *c) { return 0; }
Result cuCtxGetApiVersion(void *c, unsigned *version) { *version = 13000; return 0; }
Result cuCtxGetDevice(int *device) { *device = 0; return 0; }
Result cuCtxPushCurrent_v2(void *c) { if (depth == 16) return 1; contexts[depth++] = c; return 0; }
Result cuCtxPopCurrent_v2(void **c) { if (!depth) return NO_CONTEXT; *c = contexts[--depth]; return 0; }
Result cuCtxSynchronize(void) { return 0; }
Result cuProfilerStop(void) { return 0; }

Result cuModuleLoadData(void **module, const void *image) {
    char name[64];
    snprintf(name, sizeof name, "module_%d.ptx", modules);
    FILE *file = open_record(name, "w");
    fputs(image, file);
    fclose(file);
    images[modules] = strdup(image);
    *module = (void *)(uintptr_t)++modules;
    return 0;
}
Result cuModuleLoadDataEx(void **module, const void *image, unsigned n, void *options, void **values) {
    return cuModuleLoadData(module, image);
}
Result cuModuleUnload(void *module) { return 0; }
Result cuModuleGetFunction(void **function, void *module, const char *name) {
    struct function *f = &functions[known++];
    strncpy(f->name, name, sizeof f->name - 1);
    f->module = (int)(uintptr_t)module - 1;
    f->parameters = count_parameters(images[f->module], name);
    *function = f;
    return 0;
}

Result cuMemAlloc_v2(uint64_t *p, size_t n) {
    *p = (uint64_t)mmap(0, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return *p == (uint64_t)MAP_FAILED ? OUT_OF_MEMORY : 0;
}
Result cuMemFree_v2(uint64_t p) { return 0; }
Result cuMemcpyHtoD_v2(uint64_t to, const void *from, size_t n) { return 0; }
Result cuMemcpyDtoH_v2(void *to, uint64_t from, size_t n) { return 0; }
Result cuMemcpyDtoD_v2(uint64_t to, uint64_t from, size_t n) { return 0; }
Result cuMemcpyHtoDAsync_v2(uint64_t to, const void *from, size_t n, void *stream) { return 0; }
Result cuMemcpyDtoHAsync_v2(void *to, uint64_t from, size_t n, void *stream) { return 0; }
Result cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t from, size_t n, void *stream) { return 0; }
Result cuMemcpy3D_v2(const void *copy) { return 1; }
Result cuPointerGetAttribute(void *result, int attribute, uint64_t p) { return 1; }
Result cuStreamSynchronize(void *stream) { return 0; }

Result cuLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                      unsigned shared, void *stream, void **arguments, void **extra) {
    struct function *f = function;
    FILE *file = open_record("launches", "a");
    fprintf(file, "%d %s %u %u %u %u %u %u %u", f->module, f->name, gx, gy, gz, bx, by, bz, shared);
    for (int k = 0; k < f->parameters; k++) {
        uint64_t value;
        memcpy(&value, arguments[k], sizeof value);
        fprintf(file, " %016llx", (unsigned long long)value);
    }
    fputc('\n', file);
    fclose(file);
    return 0;
}
