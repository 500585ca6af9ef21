
// Kernels are known in this file only, so that several exports can be linked into one program.
#undef KERNEL
#define KERNEL(name, ...) static __global__ void __launch_bounds__(__VA_ARGS__) name

template <class T>
struct as_same {
    typedef T type;
};

template <class... P>
static cudaError_t as_launch(void (*kernel)(P...), dim3 grid, dim3 block, size_t shared_bytes, cudaStream_t stream,
                             typename as_same<P>::type... arguments) {
    void *addresses[] = {(void *)&arguments...};
    return cudaLaunchKernel((const void *)kernel, grid, block, addresses, shared_bytes, stream);
}

#define AS_LAUNCH(kernel, ...) as_launch(kernel, __VA_ARGS__)
// More than 48 KiB of shared memory a block are given to kernels that ask for them, on each device anew.
#define AS_ALLOW_SHARED(kernel, bytes) \
    cudaFuncSetAttribute((const void *)kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes)
