// The part of the CUDA runtime that exported code uses, on the host: device memory is host memory, filled with bytes
// that no kernel may rely on, and streams run at once.
#pragma once

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

typedef enum { cudaSuccess = 0, cudaErrorInvalidValue = 1, cudaErrorMemoryAllocation = 2 } cudaError_t;
typedef enum { cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost, cudaMemcpyDeviceToDevice } cudaMemcpyKind;
typedef struct CUstream_st *cudaStream_t;

static inline const char *cudaGetErrorString(cudaError_t error) {
    return error == cudaSuccess ? "no error" : error == cudaErrorInvalidValue ? "invalid argument" : "out of memory";
}

static inline cudaError_t cudaMalloc(void **memory, size_t bytes) {
    if (posix_memalign(memory, 256, bytes ? bytes : 1) != 0) return cudaErrorMemoryAllocation;
    memset(*memory, 0xcd, bytes);
    return cudaSuccess;
}

static inline cudaError_t cudaFree(void *memory) {
    free(memory);
    return cudaSuccess;
}

static inline cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, cudaMemcpyKind) {
    memcpy(to, from, bytes);
    return cudaSuccess;
}

static inline cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, cudaMemcpyKind, cudaStream_t) {
    memcpy(to, from, bytes);
    return cudaSuccess;
}

static inline cudaError_t cudaStreamCreate(cudaStream_t *stream) {
    *stream = nullptr;
    return cudaSuccess;
}

static inline cudaError_t cudaStreamSynchronize(cudaStream_t) {
    return cudaSuccess;
}

static inline cudaError_t cudaStreamDestroy(cudaStream_t) {
    return cudaSuccess;
}
