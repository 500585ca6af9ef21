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

// Begins to copy 4, 8 or 16 bytes from global to shared memory; the thread goes on meanwhile.
template <int bytes>
static __device__ __forceinline__ void as_copy(void* target, const void* source) {
    static_assert(bytes == 4 || bytes == 8 || bytes == 16, "no copy has so many bytes");
#if __CUDA_ARCH__ >= 800
    const unsigned at = (unsigned)__cvta_generic_to_shared(target);
    if (bytes == 16)
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(at), "l"(source) : "memory");
    else
        asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(at), "l"(source), "n"(bytes) : "memory");
#else
    for (int k = 0; k < bytes / 4; k++) static_cast<int*>(target)[k] = static_cast<const int*>(source)[k];
#endif
}

static __device__ __forceinline__ void as_wait_for_copies() {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_all;" ::: "memory");
#endif
}

#define AS_FN static __device__ __forceinline__
// KERNEL(name, threads of a block[, least blocks of a multiprocessor])
#define KERNEL(name, ...) extern "C" __global__ void __launch_bounds__(__VA_ARGS__) name
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
#define COPY(load_site, store_site, T, n, target, source, target_index, source_index) \
    as_copy<sizeof(T) * n>((target) + (target_index), (source) + (source_index))
#define ATOMIC_ADD(site, T, buffer, index, value) atomicAdd((T*)&(buffer)[index], (T)(value))
#define ATOMIC_MIN(site, T, buffer, index, value) atomicMin((T*)&(buffer)[index], (T)(value))
#define ATOMIC_MAX(site, T, buffer, index, value) atomicMax((T*)&(buffer)[index], (T)(value))
#define ATOMIC_AND(site, T, buffer, index, value) atomicAnd((T*)&(buffer)[index], (T)(value))
#define ATOMIC_OR(site, T, buffer, index, value) atomicOr((T*)&(buffer)[index], (T)(value))
#define ATOMIC_XOR(site, T, buffer, index, value) atomicXor((T*)&(buffer)[index], (T)(value))
#define WAIT_FOR_COPIES() as_wait_for_copies()
#define BARRIER() __syncthreads()
#define ITER(depth, value) ((void)0)
#define UNROLL _Pragma("unroll")
#define ROLLED _Pragma("unroll 1")
