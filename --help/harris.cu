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

// Scalar operations whose corner cases are the same in C (gnu11), C++ and CUDA C++. Needs no header.
// Every function starts with AS_FN; AS_MATH(f) is the function f of the C mathematics library.

#if defined(__CUDACC__)
#pragma nv_diag_suppress 177  // a function that only the other branch of an #ifdef calls
#ifndef AS_FN
#define AS_FN static __device__ __forceinline__
#endif
#define AS_MATH(name) name
#define AS_INF_F32 __int_as_float(0x7f800000)
#define AS_NAN_F32 __int_as_float(0x7fffffff)
#define AS_INF_F64 __longlong_as_double(0x7ff0000000000000LL)
#define AS_NAN_F64 __longlong_as_double(0x7fffffffffffffffLL)
#else
#ifndef AS_FN
#define AS_FN static inline
#endif
#define AS_MATH(name) __builtin_##name
#define AS_INF_F32 __builtin_inff()
#define AS_NAN_F32 __builtin_nanf("")
#define AS_INF_F64 __builtin_inf()
#define AS_NAN_F64 __builtin_nan("")
#ifndef __cplusplus
#define bool _Bool
#endif
#endif

// computes output; with gray, ix, iy; inlines ixx, sxx, iyy, syy, ixy, sxy, det, trace
KERNEL(harris_output, 64)(
    GLOBAL_IN(float, input, 11796480),
    GLOBAL_OUT(float, output, 3907620))
{
    SHARED(float, gray, 720, 0);
    const int y_b = blockIdx.y;  // 96 blocks
    const int x_b = blockIdx.x;  // 80 blocks
    if ((y_b <= 94) & (x_b <= 78)) {  // interior: no clamps, no guards
        // gray: 20 x 36 points in shared memory
        {
            const int y_t1 = threadIdx.y;  // y: 4 threads
            const int x_t1 = threadIdx.x;  // x: 12 threads
            if (x_t1 < 12) {
                UNROLL
                for (int y_s1 = 0; y_s1 < 5; y_s1++) {  // y: 5 points
                    ITER(0, y_s1);
                    UNROLL
                    for (int x_s1 = 0; x_s1 < 3; x_s1++) {  // x: 3 points
                        ITER(1, x_s1);
                        const int input_at = 40960*y_b + 12800*y_t1 + 2560*y_s1 + 32*x_b + 3*x_t1 + x_s1;
                        const float input_v = LOAD(0, input, input_at + 2561);
                        const float input_v1 = LOAD(1, input, input_at + 3934721);
                        const float input_v2 = LOAD(2, input, input_at + 7866881);
                        const int gray_at = 180*y_t1 + 36*y_s1 + 3*x_t1 + x_s1;
                        STORE(3, gray, gray_at, ((0.299f * input_v) + (0.587f * input_v1)) + (0.114f * input_v2));
                    }
                }
            }
        }
        BARRIER();
        // output: this block's tile
        {
            const int y_t = threadIdx.y;  // y: 4 threads
            const int x_t = threadIdx.x;  // x: 16 threads
            UNROLL
            for (int y_s = 0; y_s < 4; y_s++) {  // y: 4 points
                ITER(0, y_s);
                REGISTER(float, ix1, 9);
                const int gray_at1_1 = 144*y_t + 36*y_s + 2*x_t;
                const auto gray_x2_1 = LOAD_VECTOR(4, float, 2, gray, gray_at1_1 + 2);
                const float gray_v12 = gray_x2_1.at[0];
                const auto gray_x2 = LOAD_VECTOR(5, float, 2, gray, gray_at1_1);
                const float gray_v1_1 = gray_x2.at[0];
                const auto gray_x2_7 = LOAD_VECTOR(6, float, 2, gray, gray_at1_1 + 74);
                const float gray_v2_1 = gray_x2_7.at[0];
                const auto gray_x2_6 = LOAD_VECTOR(7, float, 2, gray, gray_at1_1 + 72);
                const float gray_v3_1 = gray_x2_6.at[0];
                const auto gray_x2_4 = LOAD_VECTOR(8, float, 2, gray, gray_at1_1 + 38);
                const float gray_v4_1 = gray_x2_4.at[0];
                const auto gray_x2_3 = LOAD_VECTOR(9, float, 2, gray, gray_at1_1 + 36);
                const float gray_v5_1 = gray_x2_3.at[0];
                STORE(10, ix1, 0, (((gray_v12 - gray_v1_1) + (gray_v2_1 - gray_v3_1)) + (2.0f * (gray_v4_1 - gray_v5_1))) * 0.083333336f);
                const float gray_v13 = gray_x2_1.at[1];
                const float gray_v1_2 = gray_x2.at[1];
                const float gray_v2_2 = gray_x2_7.at[1];
                const float gray_v3_2 = gray_x2_6.at[1];
                const float gray_v4_2 = gray_x2_4.at[1];
                const float gray_v5_2 = gray_x2_3.at[1];
                STORE(11, ix1, 1, (((gray_v13 - gray_v1_2) + (gray_v2_2 - gray_v3_2)) + (2.0f * (gray_v4_2 - gray_v5_2))) * 0.083333336f);
                const auto gray_x2_2 = LOAD_VECTOR(12, float, 2, gray, gray_at1_1 + 4);
                const float gray_v14 = gray_x2_2.at[0];
                const auto gray_x2_8 = LOAD_VECTOR(13, float, 2, gray, gray_at1_1 + 76);
                const float gray_v2_3 = gray_x2_8.at[0];
                const auto gray_x2_5 = LOAD_VECTOR(14, float, 2, gray, gray_at1_1 + 40);
                const float gray_v4_3 = gray_x2_5.at[0];
                STORE(15, ix1, 2, (((gray_v14 - gray_v12) + (gray_v2_3 - gray_v2_1)) + (2.0f * (gray_v4_3 - gray_v4_1))) * 0.083333336f);
                const auto gray_x2_10 = LOAD_VECTOR(16, float, 2, gray, gray_at1_1 + 110);
                const float gray_v2_4 = gray_x2_10.at[0];
                const auto gray_x2_9 = LOAD_VECTOR(17, float, 2, gray, gray_at1_1 + 108);
                const float gray_v3_3 = gray_x2_9.at[0];
                STORE(18, ix1, 3, (((gray_v4_1 - gray_v5_1) + (gray_v2_4 - gray_v3_3)) + (2.0f * (gray_v2_1 - gray_v3_1))) * 0.083333336f);
                const float gray_v2_5 = gray_x2_10.at[1];
                const float gray_v3_4 = gray_x2_9.at[1];
                STORE(19, ix1, 4, (((gray_v4_2 - gray_v5_2) + (gray_v2_5 - gray_v3_4)) + (2.0f * (gray_v2_2 - gray_v3_2))) * 0.083333336f);
                const auto gray_x2_11 = LOAD_VECTOR(20, float, 2, gray, gray_at1_1 + 112);
                const float gray_v2_6 = gray_x2_11.at[0];
                STORE(21, ix1, 5, (((gray_v4_3 - gray_v4_1) + (gray_v2_6 - gray_v2_4)) + (2.0f * (gray_v2_3 - gray_v2_1))) * 0.083333336f);
                const auto gray_x2_13 = LOAD_VECTOR(22, float, 2, gray, gray_at1_1 + 146);
                const float gray_v2_7 = gray_x2_13.at[0];
                const auto gray_x2_12 = LOAD_VECTOR(23, float, 2, gray, gray_at1_1 + 144);
                const float gray_v3_5 = gray_x2_12.at[0];
                STORE(24, ix1, 6, (((gray_v2_1 - gray_v3_1) + (gray_v2_7 - gray_v3_5)) + (2.0f * (gray_v2_4 - gray_v3_3))) * 0.083333336f);
                const float gray_v2_8 = gray_x2_13.at[1];
                const float gray_v3_6 = gray_x2_12.at[1];
                STORE(25, ix1, 7, (((gray_v2_2 - gray_v3_2) + (gray_v2_8 - gray_v3_6)) + (2.0f * (gray_v2_5 - gray_v3_4))) * 0.083333336f);
                const auto gray_x2_14 = LOAD_VECTOR(26, float, 2, gray, gray_at1_1 + 148);
                const float gray_v2_9 = gray_x2_14.at[0];
                STORE(27, ix1, 8, (((gray_v2_3 - gray_v2_1) + (gray_v2_9 - gray_v2_7)) + (2.0f * (gray_v2_6 - gray_v2_4))) * 0.083333336f);
                REGISTER(float, iy1, 9);
                STORE(28, iy1, 0, (((gray_v3_1 - gray_v1_1) + (gray_v2_1 - gray_v12)) + (2.0f * (gray_v3_2 - gray_v1_2))) * 0.083333336f);
                STORE(29, iy1, 1, (((gray_v3_2 - gray_v1_2) + (gray_v2_2 - gray_v13)) + (2.0f * (gray_v2_1 - gray_v12))) * 0.083333336f);
                STORE(30, iy1, 2, (((gray_v2_1 - gray_v12) + (gray_v2_3 - gray_v14)) + (2.0f * (gray_v2_2 - gray_v13))) * 0.083333336f);
                STORE(31, iy1, 3, (((gray_v3_3 - gray_v5_1) + (gray_v2_4 - gray_v4_1)) + (2.0f * (gray_v3_4 - gray_v5_2))) * 0.083333336f);
                STORE(32, iy1, 4, (((gray_v3_4 - gray_v5_2) + (gray_v2_5 - gray_v4_2)) + (2.0f * (gray_v2_4 - gray_v4_1))) * 0.083333336f);
                STORE(33, iy1, 5, (((gray_v2_4 - gray_v4_1) + (gray_v2_6 - gray_v4_3)) + (2.0f * (gray_v2_5 - gray_v4_2))) * 0.083333336f);
                STORE(34, iy1, 6, (((gray_v3_5 - gray_v3_1) + (gray_v2_7 - gray_v2_1)) + (2.0f * (gray_v3_6 - gray_v3_2))) * 0.083333336f);
                STORE(35, iy1, 7, (((gray_v3_6 - gray_v3_2) + (gray_v2_8 - gray_v2_2)) + (2.0f * (gray_v2_7 - gray_v2_1))) * 0.083333336f);
                STORE(36, iy1, 8, (((gray_v2_7 - gray_v2_1) + (gray_v2_9 - gray_v2_3)) + (2.0f * (gray_v2_8 - gray_v2_2))) * 0.083333336f);
                const float ix_v18 = LOAD(37, ix1, 0);
                const float ixx1_1 = ix_v18 * ix_v18;
                const float ix_v1_1 = LOAD(38, ix1, 1);
                const float ixx2_1 = ix_v1_1 * ix_v1_1;
                const float ix_v2_1 = LOAD(39, ix1, 2);
                const float ixx3_1 = ix_v2_1 * ix_v2_1;
                const float ix_v3_1 = LOAD(40, ix1, 3);
                const float ixx4_1 = ix_v3_1 * ix_v3_1;
                const float ix_v4_1 = LOAD(41, ix1, 4);
                const float ixx5_1 = ix_v4_1 * ix_v4_1;
                const float ix_v5_1 = LOAD(42, ix1, 5);
                const float ixx6_1 = ix_v5_1 * ix_v5_1;
                const float ix_v6_1 = LOAD(43, ix1, 6);
                const float ixx7_1 = ix_v6_1 * ix_v6_1;
                const float ix_v7_1 = LOAD(44, ix1, 7);
                const float ixx8_1 = ix_v7_1 * ix_v7_1;
                const float ix_v8_1 = LOAD(45, ix1, 8);
                const float ixx9_1 = ix_v8_1 * ix_v8_1;
                const float sxx1_1 = (((((((ixx1_1 + ixx2_1) + ixx3_1) + ixx4_1) + ixx5_1) + ixx6_1) + ixx7_1) + ixx8_1) + ixx9_1;
                const float iy_v18 = LOAD(46, iy1, 0);
                const float iyy1_1 = iy_v18 * iy_v18;
                const float iy_v1_1 = LOAD(47, iy1, 1);
                const float iyy2_1 = iy_v1_1 * iy_v1_1;
                const float iy_v2_1 = LOAD(48, iy1, 2);
                const float iyy3_1 = iy_v2_1 * iy_v2_1;
                const float iy_v3_1 = LOAD(49, iy1, 3);
                const float iyy4_1 = iy_v3_1 * iy_v3_1;
                const float iy_v4_1 = LOAD(50, iy1, 4);
                const float iyy5_1 = iy_v4_1 * iy_v4_1;
                const float iy_v5_1 = LOAD(51, iy1, 5);
                const float iyy6_1 = iy_v5_1 * iy_v5_1;
                const float iy_v6_1 = LOAD(52, iy1, 6);
                const float iyy7_1 = iy_v6_1 * iy_v6_1;
                const float iy_v7_1 = LOAD(53, iy1, 7);
                const float iyy8_1 = iy_v7_1 * iy_v7_1;
                const float iy_v8_1 = LOAD(54, iy1, 8);
                const float iyy9_1 = iy_v8_1 * iy_v8_1;
                const float syy1_1 = (((((((iyy1_1 + iyy2_1) + iyy3_1) + iyy4_1) + iyy5_1) + iyy6_1) + iyy7_1) + iyy8_1) + iyy9_1;
                const float ix_v9_1 = LOAD(55, ix1, 0);
                const float iy_v9_1 = LOAD(56, iy1, 0);
                const float ixy1_1 = ix_v9_1 * iy_v9_1;
                const float ix_v10_1 = LOAD(57, ix1, 1);
                const float iy_v10_1 = LOAD(58, iy1, 1);
                const float ixy2_1 = ix_v10_1 * iy_v10_1;
                const float ix_v11_1 = LOAD(59, ix1, 2);
                const float iy_v11_1 = LOAD(60, iy1, 2);
                const float ixy3_1 = ix_v11_1 * iy_v11_1;
                const float ix_v12_1 = LOAD(61, ix1, 3);
                const float iy_v12_1 = LOAD(62, iy1, 3);
                const float ixy4_1 = ix_v12_1 * iy_v12_1;
                const float ix_v13_1 = LOAD(63, ix1, 4);
                const float iy_v13_1 = LOAD(64, iy1, 4);
                const float ixy5_1 = ix_v13_1 * iy_v13_1;
                const float ix_v14_1 = LOAD(65, ix1, 5);
                const float iy_v14_1 = LOAD(66, iy1, 5);
                const float ixy6_1 = ix_v14_1 * iy_v14_1;
                const float ix_v15_1 = LOAD(67, ix1, 6);
                const float iy_v15_1 = LOAD(68, iy1, 6);
                const float ixy7_1 = ix_v15_1 * iy_v15_1;
                const float ix_v16_1 = LOAD(69, ix1, 7);
                const float iy_v16_1 = LOAD(70, iy1, 7);
                const float ixy8_1 = ix_v16_1 * iy_v16_1;
                const float ix_v17_1 = LOAD(71, ix1, 8);
                const float iy_v17_1 = LOAD(72, iy1, 8);
                const float ixy9_1 = ix_v17_1 * iy_v17_1;
                const float sxy1_1 = (((((((ixy1_1 + ixy2_1) + ixy3_1) + ixy4_1) + ixy5_1) + ixy6_1) + ixy7_1) + ixy8_1) + ixy9_1;
                const float det1_1 = (sxx1_1 * syy1_1) - (sxy1_1 * sxy1_1);
                const float trace1_1 = sxx1_1 + syy1_1;
                const int output_at1 = 40864*y_b + 10216*y_t + 2554*y_s + 32*x_b + 2*x_t;
                const float output_e = det1_1 - ((0.04f * trace1_1) * trace1_1);
                REGISTER(float, ix2, 9);
                STORE(73, ix2, 0, (((gray_v13 - gray_v1_2) + (gray_v2_2 - gray_v3_2)) + (2.0f * (gray_v4_2 - gray_v5_2))) * 0.083333336f);
                STORE(74, ix2, 1, (((gray_v14 - gray_v12) + (gray_v2_3 - gray_v2_1)) + (2.0f * (gray_v4_3 - gray_v4_1))) * 0.083333336f);
                const float gray_v15 = gray_x2_2.at[1];
                const float gray_v2_10 = gray_x2_8.at[1];
                const float gray_v4_4 = gray_x2_5.at[1];
                STORE(75, ix2, 2, (((gray_v15 - gray_v13) + (gray_v2_10 - gray_v2_2)) + (2.0f * (gray_v4_4 - gray_v4_2))) * 0.083333336f);
                STORE(76, ix2, 3, (((gray_v4_2 - gray_v5_2) + (gray_v2_5 - gray_v3_4)) + (2.0f * (gray_v2_2 - gray_v3_2))) * 0.083333336f);
                STORE(77, ix2, 4, (((gray_v4_3 - gray_v4_1) + (gray_v2_6 - gray_v2_4)) + (2.0f * (gray_v2_3 - gray_v2_1))) * 0.083333336f);
                const float gray_v2_11 = gray_x2_11.at[1];
                STORE(78, ix2, 5, (((gray_v4_4 - gray_v4_2) + (gray_v2_11 - gray_v2_5)) + (2.0f * (gray_v2_10 - gray_v2_2))) * 0.083333336f);
                STORE(79, ix2, 6, (((gray_v2_2 - gray_v3_2) + (gray_v2_8 - gray_v3_6)) + (2.0f * (gray_v2_5 - gray_v3_4))) * 0.083333336f);
                STORE(80, ix2, 7, (((gray_v2_3 - gray_v2_1) + (gray_v2_9 - gray_v2_7)) + (2.0f * (gray_v2_6 - gray_v2_4))) * 0.083333336f);
                const float gray_v2_12 = gray_x2_14.at[1];
                STORE(81, ix2, 8, (((gray_v2_10 - gray_v2_2) + (gray_v2_12 - gray_v2_8)) + (2.0f * (gray_v2_11 - gray_v2_5))) * 0.083333336f);
                REGISTER(float, iy2, 9);
                STORE(82, iy2, 0, (((gray_v3_2 - gray_v1_2) + (gray_v2_2 - gray_v13)) + (2.0f * (gray_v2_1 - gray_v12))) * 0.083333336f);
                STORE(83, iy2, 1, (((gray_v2_1 - gray_v12) + (gray_v2_3 - gray_v14)) + (2.0f * (gray_v2_2 - gray_v13))) * 0.083333336f);
                STORE(84, iy2, 2, (((gray_v2_2 - gray_v13) + (gray_v2_10 - gray_v15)) + (2.0f * (gray_v2_3 - gray_v14))) * 0.083333336f);
                STORE(85, iy2, 3, (((gray_v3_4 - gray_v5_2) + (gray_v2_5 - gray_v4_2)) + (2.0f * (gray_v2_4 - gray_v4_1))) * 0.083333336f);
                STORE(86, iy2, 4, (((gray_v2_4 - gray_v4_1) + (gray_v2_6 - gray_v4_3)) + (2.0f * (gray_v2_5 - gray_v4_2))) * 0.083333336f);
                STORE(87, iy2, 5, (((gray_v2_5 - gray_v4_2) + (gray_v2_11 - gray_v4_4)) + (2.0f * (gray_v2_6 - gray_v4_3))) * 0.083333336f);
                STORE(88, iy2, 6, (((gray_v3_6 - gray_v3_2) + (gray_v2_8 - gray_v2_2)) + (2.0f * (gray_v2_7 - gray_v2_1))) * 0.083333336f);
                STORE(89, iy2, 7, (((gray_v2_7 - gray_v2_1) + (gray_v2_9 - gray_v2_3)) + (2.0f * (gray_v2_8 - gray_v2_2))) * 0.083333336f);
                STORE(90, iy2, 8, (((gray_v2_8 - gray_v2_2) + (gray_v2_12 - gray_v2_10)) + (2.0f * (gray_v2_9 - gray_v2_3))) * 0.083333336f);
                const float ix_v19 = LOAD(91, ix2, 0);
                const float ixx1_2 = ix_v19 * ix_v19;
                const float ix_v1_2 = LOAD(92, ix2, 1);
                const float ixx2_2 = ix_v1_2 * ix_v1_2;
                const float ix_v2_2 = LOAD(93, ix2, 2);
                const float ixx3_2 = ix_v2_2 * ix_v2_2;
                const float ix_v3_2 = LOAD(94, ix2, 3);
                const float ixx4_2 = ix_v3_2 * ix_v3_2;
                const float ix_v4_2 = LOAD(95, ix2, 4);
                const float ixx5_2 = ix_v4_2 * ix_v4_2;
                const float ix_v5_2 = LOAD(96, ix2, 5);
                const float ixx6_2 = ix_v5_2 * ix_v5_2;
                const float ix_v6_2 = LOAD(97, ix2, 6);
                const float ixx7_2 = ix_v6_2 * ix_v6_2;
                const float ix_v7_2 = LOAD(98, ix2, 7);
                const float ixx8_2 = ix_v7_2 * ix_v7_2;
                const float ix_v8_2 = LOAD(99, ix2, 8);
                const float ixx9_2 = ix_v8_2 * ix_v8_2;
                const float sxx1_2 = (((((((ixx1_2 + ixx2_2) + ixx3_2) + ixx4_2) + ixx5_2) + ixx6_2) + ixx7_2) + ixx8_2) + ixx9_2;
                const float iy_v19 = LOAD(100, iy2, 0);
                const float iyy1_2 = iy_v19 * iy_v19;
                const float iy_v1_2 = LOAD(101, iy2, 1);
                const float iyy2_2 = iy_v1_2 * iy_v1_2;
                const float iy_v2_2 = LOAD(102, iy2, 2);
                const float iyy3_2 = iy_v2_2 * iy_v2_2;
                const float iy_v3_2 = LOAD(103, iy2, 3);
                const float iyy4_2 = iy_v3_2 * iy_v3_2;
                const float iy_v4_2 = LOAD(104, iy2, 4);
                const float iyy5_2 = iy_v4_2 * iy_v4_2;
                const float iy_v5_2 = LOAD(105, iy2, 5);
                const float iyy6_2 = iy_v5_2 * iy_v5_2;
                const float iy_v6_2 = LOAD(106, iy2, 6);
                const float iyy7_2 = iy_v6_2 * iy_v6_2;
                const float iy_v7_2 = LOAD(107, iy2, 7);
                const float iyy8_2 = iy_v7_2 * iy_v7_2;
                const float iy_v8_2 = LOAD(108, iy2, 8);
                const float iyy9_2 = iy_v8_2 * iy_v8_2;
                const float syy1_2 = (((((((iyy1_2 + iyy2_2) + iyy3_2) + iyy4_2) + iyy5_2) + iyy6_2) + iyy7_2) + iyy8_2) + iyy9_2;
                const float ix_v9_2 = LOAD(109, ix2, 0);
                const float iy_v9_2 = LOAD(110, iy2, 0);
                const float ixy1_2 = ix_v9_2 * iy_v9_2;
                const float ix_v10_2 = LOAD(111, ix2, 1);
                const float iy_v10_2 = LOAD(112, iy2, 1);
                const float ixy2_2 = ix_v10_2 * iy_v10_2;
                const float ix_v11_2 = LOAD(113, ix2, 2);
                const float iy_v11_2 = LOAD(114, iy2, 2);
                const float ixy3_2 = ix_v11_2 * iy_v11_2;
                const float ix_v12_2 = LOAD(115, ix2, 3);
                const float iy_v12_2 = LOAD(116, iy2, 3);
                const float ixy4_2 = ix_v12_2 * iy_v12_2;
                const float ix_v13_2 = LOAD(117, ix2, 4);
                const float iy_v13_2 = LOAD(118, iy2, 4);
                const float ixy5_2 = ix_v13_2 * iy_v13_2;
                const float ix_v14_2 = LOAD(119, ix2, 5);
                const float iy_v14_2 = LOAD(120, iy2, 5);
                const float ixy6_2 = ix_v14_2 * iy_v14_2;
                const float ix_v15_2 = LOAD(121, ix2, 6);
                const float iy_v15_2 = LOAD(122, iy2, 6);
                const float ixy7_2 = ix_v15_2 * iy_v15_2;
                const float ix_v16_2 = LOAD(123, ix2, 7);
                const float iy_v16_2 = LOAD(124, iy2, 7);
                const float ixy8_2 = ix_v16_2 * iy_v16_2;
                const float ix_v17_2 = LOAD(125, ix2, 8);
                const float iy_v17_2 = LOAD(126, iy2, 8);
                const float ixy9_2 = ix_v17_2 * iy_v17_2;
                const float sxy1_2 = (((((((ixy1_2 + ixy2_2) + ixy3_2) + ixy4_2) + ixy5_2) + ixy6_2) + ixy7_2) + ixy8_2) + ixy9_2;
                const float det1_2 = (sxx1_2 * syy1_2) - (sxy1_2 * sxy1_2);
                const float trace1_2 = sxx1_2 + syy1_2;
                const float output_e1 = det1_2 - ((0.04f * trace1_2) * trace1_2);
                STORE_VECTOR(127, float, 2, output, output_at1, output_e, output_e1);
            }
        }
    } else {
        // gray: 20 x 36 points in shared memory
        {
            const int y_t1 = threadIdx.y;  // y: 4 threads
            const int x_t1 = threadIdx.x;  // x: 12 threads
            if (x_t1 < 12) {
                UNROLL
                for (int y_s1 = 0; y_s1 < 5; y_s1++) {  // y: 5 points
                    ITER(0, y_s1);
                    UNROLL
                    for (int x_s1 = 0; x_s1 < 3; x_s1++) {  // x: 3 points
                        ITER(1, x_s1);
                        if ((16*y_b + 5*y_t1 + y_s1 + 1 <= 1534) & (32*x_b + 3*x_t1 + x_s1 + 1 <= 2558)) {
                            const int input_at = 40960*y_b + 12800*y_t1 + 2560*y_s1 + 32*x_b + 3*x_t1 + x_s1;
                            const float input_v = LOAD(128, input, input_at + 2561);
                            const float input_v1 = LOAD(129, input, input_at + 3934721);
                            const float input_v2 = LOAD(130, input, input_at + 7866881);
                            const int gray_at = 180*y_t1 + 36*y_s1 + 3*x_t1 + x_s1;
                            STORE(131, gray, gray_at, ((0.299f * input_v) + (0.587f * input_v1)) + (0.114f * input_v2));
                        }
                    }
                }
            }
        }
        BARRIER();
        // output: this block's tile
        {
            const int y_t = threadIdx.y;  // y: 4 threads
            const int x_t = threadIdx.x;  // x: 16 threads
            UNROLL
            for (int y_s = 0; y_s < 4; y_s++) {  // y: 4 points
                ITER(0, y_s);
                UNROLL
                for (int x_s = 0; x_s < 2; x_s++) {  // x: 2 points
                    ITER(1, x_s);
                    REGISTER(float, ix, 9);
                    UNROLL
                    for (int y_s3 = 0; y_s3 < 3; y_s3++) {  // y: 3 points
                        ITER(2, y_s3);
                        UNROLL
                        for (int x_s3 = 0; x_s3 < 3; x_s3++) {  // x: 3 points
                            ITER(3, x_s3);
                            if ((16*y_b + 4*y_t + y_s + y_s3 + 2 <= 1533) & (32*x_b + 2*x_t + x_s + x_s3 + 2 <= 2557)) {
                                const int gray_at1 = 144*y_t + 36*y_s + 36*y_s3 + 2*x_t + x_s + x_s3;
                                const float gray_v = LOAD(132, gray, gray_at1 + 2);
                                const float gray_v1 = LOAD(133, gray, gray_at1);
                                const float gray_v2 = LOAD(134, gray, gray_at1 + 74);
                                const float gray_v3 = LOAD(135, gray, gray_at1 + 72);
                                const float gray_v4 = LOAD(136, gray, gray_at1 + 38);
                                const float gray_v5 = LOAD(137, gray, gray_at1 + 36);
                                STORE(138, ix, 3*y_s3 + x_s3, (((gray_v - gray_v1) + (gray_v2 - gray_v3)) + (2.0f * (gray_v4 - gray_v5))) * 0.083333336f);
                            }
                        }
                    }
                    REGISTER(float, iy, 9);
                    UNROLL
                    for (int y_s2 = 0; y_s2 < 3; y_s2++) {  // y: 3 points
                        ITER(2, y_s2);
                        UNROLL
                        for (int x_s2 = 0; x_s2 < 3; x_s2++) {  // x: 3 points
                            ITER(3, x_s2);
                            if ((16*y_b + 4*y_t + y_s + y_s2 + 2 <= 1533) & (32*x_b + 2*x_t + x_s + x_s2 + 2 <= 2557)) {
                                const int gray_at2 = 144*y_t + 36*y_s + 36*y_s2 + 2*x_t + x_s + x_s2;
                                const float gray_v6 = LOAD(139, gray, gray_at2 + 72);
                                const float gray_v7 = LOAD(140, gray, gray_at2);
                                const float gray_v8 = LOAD(141, gray, gray_at2 + 74);
                                const float gray_v9 = LOAD(142, gray, gray_at2 + 2);
                                const float gray_v10 = LOAD(143, gray, gray_at2 + 73);
                                const float gray_v11 = LOAD(144, gray, gray_at2 + 1);
                                STORE(145, iy, 3*y_s2 + x_s2, (((gray_v6 - gray_v7) + (gray_v8 - gray_v9)) + (2.0f * (gray_v10 - gray_v11))) * 0.083333336f);
                            }
                        }
                    }
                    if ((16*y_b + 4*y_t + y_s + 3 <= 1532) & (32*x_b + 2*x_t + x_s + 3 <= 2556)) {
                        const float ix_v = LOAD(146, ix, 0);
                        const float ixx1 = ix_v * ix_v;
                        const float ix_v1 = LOAD(147, ix, 1);
                        const float ixx2 = ix_v1 * ix_v1;
                        const float ix_v2 = LOAD(148, ix, 2);
                        const float ixx3 = ix_v2 * ix_v2;
                        const float ix_v3 = LOAD(149, ix, 3);
                        const float ixx4 = ix_v3 * ix_v3;
                        const float ix_v4 = LOAD(150, ix, 4);
                        const float ixx5 = ix_v4 * ix_v4;
                        const float ix_v5 = LOAD(151, ix, 5);
                        const float ixx6 = ix_v5 * ix_v5;
                        const float ix_v6 = LOAD(152, ix, 6);
                        const float ixx7 = ix_v6 * ix_v6;
                        const float ix_v7 = LOAD(153, ix, 7);
                        const float ixx8 = ix_v7 * ix_v7;
                        const float ix_v8 = LOAD(154, ix, 8);
                        const float ixx9 = ix_v8 * ix_v8;
                        const float sxx1 = (((((((ixx1 + ixx2) + ixx3) + ixx4) + ixx5) + ixx6) + ixx7) + ixx8) + ixx9;
                        const float iy_v = LOAD(155, iy, 0);
                        const float iyy1 = iy_v * iy_v;
                        const float iy_v1 = LOAD(156, iy, 1);
                        const float iyy2 = iy_v1 * iy_v1;
                        const float iy_v2 = LOAD(157, iy, 2);
                        const float iyy3 = iy_v2 * iy_v2;
                        const float iy_v3 = LOAD(158, iy, 3);
                        const float iyy4 = iy_v3 * iy_v3;
                        const float iy_v4 = LOAD(159, iy, 4);
                        const float iyy5 = iy_v4 * iy_v4;
                        const float iy_v5 = LOAD(160, iy, 5);
                        const float iyy6 = iy_v5 * iy_v5;
                        const float iy_v6 = LOAD(161, iy, 6);
                        const float iyy7 = iy_v6 * iy_v6;
                        const float iy_v7 = LOAD(162, iy, 7);
                        const float iyy8 = iy_v7 * iy_v7;
                        const float iy_v8 = LOAD(163, iy, 8);
                        const float iyy9 = iy_v8 * iy_v8;
                        const float syy1 = (((((((iyy1 + iyy2) + iyy3) + iyy4) + iyy5) + iyy6) + iyy7) + iyy8) + iyy9;
                        const float ix_v9 = LOAD(164, ix, 0);
                        const float iy_v9 = LOAD(165, iy, 0);
                        const float ixy1 = ix_v9 * iy_v9;
                        const float ix_v10 = LOAD(166, ix, 1);
                        const float iy_v10 = LOAD(167, iy, 1);
                        const float ixy2 = ix_v10 * iy_v10;
                        const float ix_v11 = LOAD(168, ix, 2);
                        const float iy_v11 = LOAD(169, iy, 2);
                        const float ixy3 = ix_v11 * iy_v11;
                        const float ix_v12 = LOAD(170, ix, 3);
                        const float iy_v12 = LOAD(171, iy, 3);
                        const float ixy4 = ix_v12 * iy_v12;
                        const float ix_v13 = LOAD(172, ix, 4);
                        const float iy_v13 = LOAD(173, iy, 4);
                        const float ixy5 = ix_v13 * iy_v13;
                        const float ix_v14 = LOAD(174, ix, 5);
                        const float iy_v14 = LOAD(175, iy, 5);
                        const float ixy6 = ix_v14 * iy_v14;
                        const float ix_v15 = LOAD(176, ix, 6);
                        const float iy_v15 = LOAD(177, iy, 6);
                        const float ixy7 = ix_v15 * iy_v15;
                        const float ix_v16 = LOAD(178, ix, 7);
                        const float iy_v16 = LOAD(179, iy, 7);
                        const float ixy8 = ix_v16 * iy_v16;
                        const float ix_v17 = LOAD(180, ix, 8);
                        const float iy_v17 = LOAD(181, iy, 8);
                        const float ixy9 = ix_v17 * iy_v17;
                        const float sxy1 = (((((((ixy1 + ixy2) + ixy3) + ixy4) + ixy5) + ixy6) + ixy7) + ixy8) + ixy9;
                        const float det1 = (sxx1 * syy1) - (sxy1 * sxy1);
                        const float trace1 = sxx1 + syy1;
                        const int output_at = 40864*y_b + 10216*y_t + 2554*y_s + 32*x_b + 2*x_t + x_s;
                        STORE(182, output, output_at, det1 - ((0.04f * trace1) * trace1));
                    }
                }
            }
        }
    }
}
