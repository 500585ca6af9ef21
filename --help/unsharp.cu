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

AS_FN int as_min_i32(int a, int b) {
    return b < a ? b : a;
}

AS_FN int as_max_i32(int a, int b) {
    return b > a ? b : a;
}

// computes output; with input.staged, gray, blur_y, ratio; inlines input_clamped, blur_x, sharpen
KERNEL(unsharp_output, 144)(
    GLOBAL_IN(float, input, 11796480),
    GLOBAL_OUT(float, output, 11796480))
{
    SHARED(float, input_staged, 3024, 0);
    SHARED(float, gray, 1008, 12096);
    SHARED(float, blur_y, 576, 16128);
    const int y_b = blockIdx.y;  // 192 blocks
    const int x_b = blockIdx.x;  // 40 blocks
    if ((((y_b >= 1) & (y_b <= 190)) & (x_b >= 1)) & (x_b <= 38)) {  // interior: no clamps, no guards
        // input.staged: 3 x 14 x 72 points in shared memory
        {
            const int y_t1 = threadIdx.y;  // y: 4 threads
            const int x_t1 = threadIdx.x;  // x: 36 threads
            for (int c_s1 = 0; c_s1 < 3; c_s1++) {  // c: 3 points
                ITER(0, c_s1);
                for (int y_s1 = 0; y_s1 < 4; y_s1++) {  // y: 4 points
                    ITER(1, y_s1);
                    if (4*y_t1 + y_s1 <= 13) {
                        const int input_at1 = 3932160*c_s1 + 20480*y_b + 10240*y_t1 + 2560*y_s1 + 64*x_b + 2*x_t1;
                        const auto input_x2 = LOAD_VECTOR(0, float, 2, input, input_at1 - 7684);
                        const float input_v1 = input_x2.at[0];
                        const int input_staged_at3 = 1008*c_s1 + 288*y_t1 + 72*y_s1 + 2*x_t1;
                        const float input_v2 = input_x2.at[1];
                        STORE_VECTOR(1, float, 2, input_staged, input_staged_at3, input_v1, input_v2);
                    }
                }
            }
        }
        BARRIER();
        // gray: 14 x 72 points in shared memory
        {
            const int y_t2 = threadIdx.y;  // y: 4 threads
            const int x_t2 = threadIdx.x;  // x: 36 threads
            UNROLL
            for (int y_s2 = 0; y_s2 < 4; y_s2++) {  // y: 4 points
                ITER(0, y_s2);
                if (4*y_t2 + y_s2 <= 13) {
                    const int input_staged_at1_1 = 288*y_t2 + 72*y_s2 + 2*x_t2;
                    const auto input_staged_x2 = LOAD_VECTOR(2, float, 2, input_staged, input_staged_at1_1);
                    const float input_staged_v4 = input_staged_x2.at[0];
                    const auto input_staged_x2_1 = LOAD_VECTOR(3, float, 2, input_staged, input_staged_at1_1 + 1008);
                    const float input_staged_v1_1 = input_staged_x2_1.at[0];
                    const auto input_staged_x2_2 = LOAD_VECTOR(4, float, 2, input_staged, input_staged_at1_1 + 2016);
                    const float input_staged_v2_1 = input_staged_x2_2.at[0];
                    const float gray_e = ((0.299f * input_staged_v4) + (0.587f * input_staged_v1_1)) + (0.114f * input_staged_v2_1);
                    const float input_staged_v5 = input_staged_x2.at[1];
                    const float input_staged_v1_2 = input_staged_x2_1.at[1];
                    const float input_staged_v2_2 = input_staged_x2_2.at[1];
                    const float gray_e1 = ((0.299f * input_staged_v5) + (0.587f * input_staged_v1_2)) + (0.114f * input_staged_v2_2);
                    STORE_VECTOR(5, float, 2, gray, input_staged_at1_1, gray_e, gray_e1);
                }
            }
        }
        BARRIER();
        // blur_y: 8 x 70 points in shared memory
        {
            const int y_t3 = threadIdx.y;  // y: 4 threads
            const int x_t3 = threadIdx.x;  // x: 35 threads
            if (x_t3 < 35) {
                UNROLL
                for (int y_s3 = 0; y_s3 < 2; y_s3++) {  // y: 2 points
                    ITER(0, y_s3);
                    const int gray_at3 = 144*y_t3 + 72*y_s3 + 2*x_t3;
                    const float gray_v8 = LOAD(6, gray, gray_at3 + 217);
                    const float gray_v1_1 = LOAD(7, gray, gray_at3 + 145);
                    const float gray_v2_1 = LOAD(8, gray, gray_at3 + 289);
                    const float gray_v3_1 = LOAD(9, gray, gray_at3 + 73);
                    const float gray_v4_1 = LOAD(10, gray, gray_at3 + 361);
                    const float gray_v5_1 = LOAD(11, gray, gray_at3 + 1);
                    const float gray_v6_1 = LOAD(12, gray, gray_at3 + 433);
                    const float blur_y_e = (((0.26596153f * gray_v8) + (0.21296534f * (gray_v1_1 + gray_v2_1))) + (0.10934005f * (gray_v3_1 + gray_v4_1))) + (0.03599398f * (gray_v5_1 + gray_v6_1));
                    const float gray_v9 = LOAD(13, gray, gray_at3 + 218);
                    const float gray_v1_2 = LOAD(14, gray, gray_at3 + 146);
                    const float gray_v2_2 = LOAD(15, gray, gray_at3 + 290);
                    const float gray_v3_2 = LOAD(16, gray, gray_at3 + 74);
                    const float gray_v4_2 = LOAD(17, gray, gray_at3 + 362);
                    const float gray_v5_2 = LOAD(18, gray, gray_at3 + 2);
                    const float gray_v6_2 = LOAD(19, gray, gray_at3 + 434);
                    const float blur_y_e1 = (((0.26596153f * gray_v9) + (0.21296534f * (gray_v1_2 + gray_v2_2))) + (0.10934005f * (gray_v3_2 + gray_v4_2))) + (0.03599398f * (gray_v5_2 + gray_v6_2));
                    STORE_VECTOR(20, float, 2, blur_y, gray_at3, blur_y_e, blur_y_e1);
                }
            }
        }
        BARRIER();
        // output: this block's tile
        {
            const int y_t = threadIdx.y;  // y: 4 threads
            const int x_t = threadIdx.x;  // x: 32 threads
            if (x_t < 32) {
                REGISTER(float, ratio, 4);
                UNROLL
                for (int y_s4 = 0; y_s4 < 2; y_s4++) {  // y: 2 points
                    ITER(0, y_s4);
                    const int gray_at1_1 = 144*y_t + 72*y_s4 + 2*x_t;
                    const auto gray_x2 = LOAD_VECTOR(21, float, 2, gray, gray_at1_1 + 220);
                    const float gray_v7_1 = gray_x2.at[0];
                    const auto blur_y_x2_1 = LOAD_VECTOR(22, float, 2, blur_y, gray_at1_1 + 2);
                    const float blur_y_v7 = blur_y_x2_1.at[1];
                    const float blur_y_v1_1 = blur_y_x2_1.at[0];
                    const auto blur_y_x2_2 = LOAD_VECTOR(23, float, 2, blur_y, gray_at1_1 + 4);
                    const float blur_y_v2_1 = blur_y_x2_2.at[0];
                    const auto blur_y_x2 = LOAD_VECTOR(24, float, 2, blur_y, gray_at1_1);
                    const float blur_y_v3_1 = blur_y_x2.at[1];
                    const float blur_y_v4_1 = blur_y_x2_2.at[1];
                    const float blur_y_v5_1 = blur_y_x2.at[0];
                    const auto blur_y_x2_3 = LOAD_VECTOR(25, float, 2, blur_y, gray_at1_1 + 6);
                    const float blur_y_v6_1 = blur_y_x2_3.at[0];
                    const float blur_x1_1 = (((0.26596153f * blur_y_v7) + (0.21296534f * (blur_y_v1_1 + blur_y_v2_1))) + (0.10934005f * (blur_y_v3_1 + blur_y_v4_1))) + (0.03599398f * (blur_y_v5_1 + blur_y_v6_1));
                    const float sharpen1_1 = (2.0f * gray_v7_1) - blur_x1_1;
                    STORE(26, ratio, 2*y_s4, sharpen1_1 / gray_v7_1);
                    const float gray_v7_2 = gray_x2.at[1];
                    const float blur_y_v6_2 = blur_y_x2_3.at[1];
                    const float blur_x1_2 = (((0.26596153f * blur_y_v2_1) + (0.21296534f * (blur_y_v7 + blur_y_v4_1))) + (0.10934005f * (blur_y_v1_1 + blur_y_v6_1))) + (0.03599398f * (blur_y_v3_1 + blur_y_v6_2));
                    const float sharpen1_2 = (2.0f * gray_v7_2) - blur_x1_2;
                    STORE(27, ratio, 2*y_s4 + 1, sharpen1_2 / gray_v7_2);
                }
                UNROLL
                for (int c_s = 0; c_s < 3; c_s++) {  // c: 3 points
                    ITER(0, c_s);
                    UNROLL
                    for (int y_s = 0; y_s < 2; y_s++) {  // y: 2 points
                        ITER(1, y_s);
                        const float ratio_v1 = LOAD(28, ratio, 2*y_s);
                        const int input_staged_at2_1 = 1008*c_s + 144*y_t + 72*y_s + 2*x_t;
                        const auto input_staged_x2_3 = LOAD_VECTOR(29, float, 2, input_staged, input_staged_at2_1 + 220);
                        const float input_staged_v3_1 = input_staged_x2_3.at[0];
                        const int output_at1 = 3932160*c_s + 20480*y_b + 5120*y_t + 2560*y_s + 64*x_b + 2*x_t;
                        const float output_e = ratio_v1 * input_staged_v3_1;
                        const float ratio_v2 = LOAD(30, ratio, 2*y_s + 1);
                        const float input_staged_v3_2 = input_staged_x2_3.at[1];
                        const float output_e1 = ratio_v2 * input_staged_v3_2;
                        STORE_VECTOR(31, float, 2, output, output_at1, output_e, output_e1);
                    }
                }
            }
        }
    } else {
        // input.staged: 3 x 14 x 72 points in shared memory
        {
            const int y_t1 = threadIdx.y;  // y: 4 threads
            const int x_t1 = threadIdx.x;  // x: 36 threads
            for (int c_s1 = 0; c_s1 < 3; c_s1++) {  // c: 3 points
                ITER(0, c_s1);
                for (int y_s1 = 0; y_s1 < 4; y_s1++) {  // y: 4 points
                    ITER(1, y_s1);
                    for (int x_s1 = 0; x_s1 < 2; x_s1++) {  // x: 2 points
                        ITER(2, x_s1);
                        if (((((4*y_t1 + y_s1 <= 13) & (4*y_t1 + as_max_i32(8*y_b - 3, 0) + y_s1 <= 8*y_b + 10)) & (4*y_t1 + as_max_i32(8*y_b - 3, 0) + y_s1 <= 1535)) & (2*x_t1 + as_max_i32(64*x_b - 4, 0) + x_s1 <= 64*x_b + 67)) & (2*x_t1 + as_max_i32(64*x_b - 4, 0) + x_s1 <= 2559)) {
                            const int input_at = 3932160*c_s1 + 10240*y_t1 + 2560*as_max_i32(8*y_b - 3, 0) + 2560*y_s1 + 2*x_t1 + as_max_i32(64*x_b - 4, 0) + x_s1;
                            const float input_v = LOAD(32, input, input_at);
                            const int input_staged_at = 1008*c_s1 + 288*y_t1 + 72*y_s1 + 2*x_t1 + x_s1;
                            STORE(33, input_staged, input_staged_at, input_v);
                        }
                    }
                }
            }
        }
        BARRIER();
        // gray: 14 x 72 points in shared memory
        {
            const int y_t2 = threadIdx.y;  // y: 4 threads
            const int x_t2 = threadIdx.x;  // x: 36 threads
            UNROLL
            for (int y_s2 = 0; y_s2 < 4; y_s2++) {  // y: 4 points
                ITER(0, y_s2);
                UNROLL
                for (int x_s2 = 0; x_s2 < 2; x_s2++) {  // x: 2 points
                    ITER(1, x_s2);
                    if (((4*y_t2 + y_s2 <= 13) & (2*x_t2 + as_max_i32(64*x_b - 4, -3) + x_s2 <= 64*x_b + 67)) & (2*x_t2 + as_max_i32(64*x_b - 4, -3) + x_s2 <= 2562)) {
                        const int input_staged_at1 = -72*as_max_i32(8*y_b - 3, 0) + 72*as_min_i32(as_max_i32(8*y_b + 4*y_t2 + y_s2 - 3, 0), 1535) - as_max_i32(64*x_b - 4, 0) + as_min_i32(as_max_i32(2*x_t2 + as_max_i32(64*x_b - 4, -3) + x_s2, 0), 2559);
                        const float input_staged_v = LOAD(34, input_staged, input_staged_at1);
                        const float input_staged_v1 = LOAD(35, input_staged, input_staged_at1 + 1008);
                        const float input_staged_v2 = LOAD(36, input_staged, input_staged_at1 + 2016);
                        const int gray_at = 288*y_t2 + 72*y_s2 + 2*x_t2 + x_s2;
                        STORE(37, gray, gray_at, ((0.299f * input_staged_v) + (0.587f * input_staged_v1)) + (0.114f * input_staged_v2));
                    }
                }
            }
        }
        BARRIER();
        // blur_y: 8 x 70 points in shared memory
        {
            const int y_t3 = threadIdx.y;  // y: 4 threads
            const int x_t3 = threadIdx.x;  // x: 35 threads
            if (x_t3 < 35) {
                UNROLL
                for (int y_s3 = 0; y_s3 < 2; y_s3++) {  // y: 2 points
                    ITER(0, y_s3);
                    UNROLL
                    for (int x_s3 = 0; x_s3 < 2; x_s3++) {  // x: 2 points
                        ITER(1, x_s3);
                        const int gray_at1 = 144*y_t3 + 72*y_s3 + 64*x_b + 2*x_t3 - as_max_i32(64*x_b - 4, -3) + x_s3;
                        const float gray_v = LOAD(38, gray, gray_at1 + 213);
                        const float gray_v1 = LOAD(39, gray, gray_at1 + 141);
                        const float gray_v2 = LOAD(40, gray, gray_at1 + 285);
                        const float gray_v3 = LOAD(41, gray, gray_at1 + 69);
                        const float gray_v4 = LOAD(42, gray, gray_at1 + 357);
                        const float gray_v5 = LOAD(43, gray, gray_at1 - 3);
                        const float gray_v6 = LOAD(44, gray, gray_at1 + 429);
                        const int blur_y_at = 144*y_t3 + 72*y_s3 + 2*x_t3 + x_s3;
                        STORE(45, blur_y, blur_y_at, (((0.26596153f * gray_v) + (0.21296534f * (gray_v1 + gray_v2))) + (0.10934005f * (gray_v3 + gray_v4))) + (0.03599398f * (gray_v5 + gray_v6)));
                    }
                }
            }
        }
        BARRIER();
        // output: this block's tile
        {
            const int y_t = threadIdx.y;  // y: 4 threads
            const int x_t = threadIdx.x;  // x: 32 threads
            if (x_t < 32) {
                REGISTER(float, ratio, 4);
                UNROLL
                for (int y_s4 = 0; y_s4 < 2; y_s4++) {  // y: 2 points
                    ITER(0, y_s4);
                    UNROLL
                    for (int x_s4 = 0; x_s4 < 2; x_s4++) {  // x: 2 points
                        ITER(1, x_s4);
                        const int gray_at2 = 144*y_t + 72*y_s4 + 64*x_b + 2*x_t - as_max_i32(64*x_b - 4, -3) + x_s4;
                        const float gray_v7 = LOAD(46, gray, gray_at2 + 216);
                        const int blur_y_at1 = 144*y_t + 72*y_s4 + 2*x_t + x_s4;
                        const float blur_y_v = LOAD(47, blur_y, blur_y_at1 + 3);
                        const float blur_y_v1 = LOAD(48, blur_y, blur_y_at1 + 2);
                        const float blur_y_v2 = LOAD(49, blur_y, blur_y_at1 + 4);
                        const float blur_y_v3 = LOAD(50, blur_y, blur_y_at1 + 1);
                        const float blur_y_v4 = LOAD(51, blur_y, blur_y_at1 + 5);
                        const float blur_y_v5 = LOAD(52, blur_y, blur_y_at1);
                        const float blur_y_v6 = LOAD(53, blur_y, blur_y_at1 + 6);
                        const float blur_x1 = (((0.26596153f * blur_y_v) + (0.21296534f * (blur_y_v1 + blur_y_v2))) + (0.10934005f * (blur_y_v3 + blur_y_v4))) + (0.03599398f * (blur_y_v5 + blur_y_v6));
                        const float sharpen1 = (2.0f * gray_v7) - blur_x1;
                        STORE(54, ratio, 2*y_s4 + x_s4, sharpen1 / gray_v7);
                    }
                }
                UNROLL
                for (int c_s = 0; c_s < 3; c_s++) {  // c: 3 points
                    ITER(0, c_s);
                    UNROLL
                    for (int y_s = 0; y_s < 2; y_s++) {  // y: 2 points
                        ITER(1, y_s);
                        UNROLL
                        for (int x_s = 0; x_s < 2; x_s++) {  // x: 2 points
                            ITER(2, x_s);
                            const float ratio_v = LOAD(55, ratio, 2*y_s + x_s);
                            const int input_staged_at2 = 1008*c_s + 576*y_b + 144*y_t - 72*as_max_i32(8*y_b - 3, 0) + 72*y_s + 64*x_b + 2*x_t - as_max_i32(64*x_b - 4, 0) + x_s;
                            const float input_staged_v3 = LOAD(56, input_staged, input_staged_at2);
                            const int output_at = 3932160*c_s + 20480*y_b + 5120*y_t + 2560*y_s + 64*x_b + 2*x_t + x_s;
                            STORE(57, output, output_at, ratio_v * input_staged_v3);
                        }
                    }
                }
            }
        }
    }
}
