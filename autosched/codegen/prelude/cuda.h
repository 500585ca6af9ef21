// The generated code contract under NVRTC: every macro is what one would write by hand.
// Nothing is included: NVRTC has no standard headers.

extern __shared__ __align__(16) unsigned char as_shared[];

// Neighbouring elements that are moved in one access, at an address that is a multiple of their size.
template <class T, int n>
struct __align__(sizeof(T) * n) as_vector {
    T at[n];
};

template <class T, class... Values>
static __device__ __forceinline__ as_vector<T, sizeof...(Values)> as_vector_of(Values... values) {
    return {{(T)values...}};
}

#define AS_FN static __device__ __forceinline__
#define KERNEL(name, max_threads) extern "C" __global__ void __launch_bounds__(max_threads) name
#define GLOBAL_IN(T, name, count) const T* __restrict__ name
#define GLOBAL_OUT(T, name, count) T* __restrict__ name
#define SCALAR(T, name) const T name
#define SHARED(T, name, count, byte_offset) T* const name = reinterpret_cast<T*>(as_shared + (byte_offset))
#define REGISTER(T, name, count) T name[count]
#define LOAD(site, buffer, index) (buffer)[index]
#define STORE(site, buffer, index, value) (buffer)[index] = (value)
#define LOAD_VECTOR(site, T, n, buffer, index) (*reinterpret_cast<const as_vector<T, n>*>((buffer) + (index)))
#define STORE_VECTOR(site, T, n, buffer, index, ...) \
    (*reinterpret_cast<as_vector<T, n>*>((buffer) + (index)) = as_vector_of<T>(__VA_ARGS__))
#define BARRIER() __syncthreads()
#define ITER(depth, value) ((void)0)
#define UNROLL _Pragma("unroll")
