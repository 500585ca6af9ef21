// The generated code contract under NVRTC: every macro is what one would write by hand.
// Nothing is included: NVRTC has no standard headers.

extern __shared__ __align__(16) unsigned char as_shared[];

#define AS_FN static __device__ __forceinline__
#define KERNEL(name, max_threads) extern "C" __global__ void __launch_bounds__(max_threads) name
#define GLOBAL_IN(T, name, count) const T* __restrict__ name
#define GLOBAL_OUT(T, name, count) T* __restrict__ name
#define SCALAR(T, name) const T name
#define SHARED(T, name, count, byte_offset) T* const name = reinterpret_cast<T*>(as_shared + (byte_offset))
#define REGISTER(T, name, count) T name[count]
#define LOAD(site, buffer, index) (buffer)[index]
#define STORE(site, buffer, index, value) (buffer)[index] = (value)
#define BARRIER() __syncthreads()
#define ITER(depth, value) ((void)0)
#define UNROLL _Pragma("unroll")
