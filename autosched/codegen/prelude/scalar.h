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

// FUNCTIONS: one in each paragraph. scalar.py adds those that exist once for each type.

// The IEEE bits of a float32.
AS_FN unsigned int as_bits_f32(float x) {
#ifdef __CUDACC__
    return __float_as_uint(x);
#else
    unsigned int bits;
    __builtin_memcpy(&bits, &x, sizeof bits);
    return bits;
#endif
}

// The float32 with these IEEE bits.
AS_FN float as_from_bits_f32(unsigned int bits) {
#ifdef __CUDACC__
    return __uint_as_float(bits);
#else
    float x;
    __builtin_memcpy(&x, &bits, sizeof x);
    return x;
#endif
}

// The IEEE bits of a float64.
AS_FN unsigned long long as_bits_f64(double x) {
#ifdef __CUDACC__
    return (unsigned long long)__double_as_longlong(x);
#else
    unsigned long long bits;
    __builtin_memcpy(&bits, &x, sizeof bits);
    return bits;
#endif
}

// The float64 with these IEEE bits.
AS_FN double as_from_bits_f64(unsigned long long bits) {
#ifdef __CUDACC__
    return __longlong_as_double((long long)bits);
#else
    double x;
    __builtin_memcpy(&x, &bits, sizeof x);
    return x;
#endif
}

// The value of a float16 given by its bits; every float16 is a float32.
#ifdef __CUDACC__
extern "C" __device__ float __nv_half2float(unsigned short half);  // of libdevice
#endif
AS_FN float as_f16_to_f32(unsigned short half) {
#ifdef __CUDACC__
    return __nv_half2float(half);
#else
    const unsigned int magnitude = half & 0x7fffu, sign = (half & 0x8000u) << 16;
    // Normal numbers change the exponent's bias by 112; infinity and NaN by as much again.
    const unsigned int rebias = magnitude < 0x7c00u ? 112u << 23 : 224u << 23;
    const unsigned int subnormal = as_bits_f32((float)(int)magnitude * 0x1p-24f);
    return as_from_bits_f32(sign | (magnitude < 0x0400u ? subnormal : (magnitude << 13) + rebias));
#endif
}

// The bits of the float16 nearest to x, ties to even; too large gives infinity.
#ifdef __CUDACC__
extern "C" __device__ unsigned short __nv_float2half_rn(float x);  // of libdevice
#endif
AS_FN unsigned short as_f32_to_f16(float x) {
#ifdef __CUDACC__
    return __nv_float2half_rn(x);
#else
    const unsigned int bits = as_bits_f32(x), sign = (bits >> 16) & 0x8000u, magnitude = bits & 0x7fffffffu;
    const unsigned int odd = (magnitude >> 13) & 1u;
    const unsigned int normal = (magnitude - (112u << 23) + 0x0fffu + odd) >> 13;
    // The unit of float32 in [0.5, 1) is the smallest float16, so this addition rounds as wanted.
    const unsigned int subnormal = as_bits_f32(as_from_bits_f32(magnitude) + 0.5f) - 0x3f000000u;
    const unsigned int finite = magnitude < 0x38800000u ? subnormal : normal;
    const unsigned int special = magnitude > 0x7f800000u ? 0x7e00u : 0x7c00u;
    return (unsigned short)(sign | (magnitude < 0x477ff000u ? finite : special));
#endif
}

// The bits of the float16 nearest to a float64. By way of float32 it would be rounded twice.
AS_FN unsigned short as_f64_to_f16(double x) {
    const unsigned long long bits = as_bits_f64(x), magnitude = bits & 0x7fffffffffffffffULL;
    const unsigned long long odd = (magnitude >> 42) & 1ULL;
    const unsigned long long normal = (magnitude - (1008ULL << 52) + 0x1ffffffffffULL + odd) >> 42;
    const unsigned long long subnormal = as_bits_f64(AS_MATH(fabs)(x) + 0x1p28) - 0x41b0000000000000ULL;
    const unsigned long long finite = magnitude < 0x3f10000000000000ULL ? subnormal : normal;
    const unsigned long long special = magnitude > 0x7ff0000000000000ULL ? 0x7e00ULL : 0x7c00ULL;
    const unsigned long long rounded = magnitude < 0x40effe0000000000ULL ? finite : special;
    return (unsigned short)(((bits >> 48) & 0x8000ULL) | rounded);
}

// The float16 nearest to x, held as a float32.
AS_FN float as_round_f16(float x) {
#ifdef __CUDACC__
    return as_f16_to_f32(as_f32_to_f16(x));
#else
    const unsigned int bits = as_bits_f32(x), magnitude = bits & 0x7fffffffu, exponent = magnitude & 0x7f800000u;
    // A number whose unit is that of the float16: adding it rounds as wanted, and taking it away is exact.
    const float shift = as_from_bits_f32((exponent < 0x38800000u ? 0x38800000u : exponent) + (13u << 23));
    const unsigned int finite = as_bits_f32((as_from_bits_f32(magnitude) + shift) - shift);
    const unsigned int special = magnitude > 0x7f800000u ? 0x7fc00000u : 0x7f800000u;
    return as_from_bits_f32((bits & 0x80000000u) | (magnitude < 0x477ff000u ? finite : special));
#endif
}

// The float16 nearest to a float64, held as a float32.
AS_FN float as_round_f16_f64(double x) {
    return as_f16_to_f32(as_f64_to_f16(x));
}

// The value of a bfloat16 given by its bits: the upper half of a float32.
AS_FN float as_bf16_to_f32(unsigned short upper) {
    return as_from_bits_f32((unsigned int)upper << 16);
}

// The bits of a bfloat16 that is held as a float32.
AS_FN unsigned short as_bf16_bits(float x) {
    return (unsigned short)(as_bits_f32(x) >> 16);
}

// The bfloat16 nearest to x, ties to even, held as a float32; too large gives infinity.
AS_FN float as_round_bf16(float x) {
#if defined(__CUDACC__) && __CUDA_ARCH__ >= 800
    unsigned int bits;  // a pair of bfloat16, the lower one zero: one instruction at full rate, and no shift
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(x), "f"(0.0f));
    return as_from_bits_f32(bits);
#else
    // A carry into the exponent rounds correctly, too: the largest numbers become infinite. A NaN becomes a quiet one,
    // as its upper half alone may be an infinity.
    const unsigned int bits = as_bits_f32(x), odd = (bits >> 16) & 1u;
    const unsigned int number = bits + 0x7fffu + odd, quiet = bits | 0x400000u;
    return as_from_bits_f32(((bits & 0x7fffffffu) > 0x7f800000u ? quiet : number) & 0xffff0000u);
#endif
}

// A bijection that mixes well: autosched/lang/hashing.py says what it is.
AS_FN unsigned int as_hash_u32(unsigned int x) {
    x ^= x >> 16;
    x *= 0x7feb352du;
    x ^= x >> 15;
    x *= 0x846ca68bu;
    x ^= x >> 16;
    return x;
}

// x / c for dividends outside the range of as_div_const_f32, through float64; c > 0, and q = x / c where x is
// infinity or NaN.
AS_FN float as_div_const_wide_f32(float x, float c, float q) {
    const double n = x, d = c, r = 1.0 / d, w = n * r;
    const double quotient = AS_MATH(fma)(AS_MATH(fma)(d, w, -n), -r, w);
    return AS_MATH(fabsf)(x) <= 0x1.fffffep127f ? (float)quotient : q;
}

// Exactly x / c, where c and r = 1 / c rounded are literals that autosched/codegen/divide.py allows; it has the
// proof. Processors divide vectors faster than they would take this way.
#ifndef AS_DIV_CONST_BY_FMA
#ifdef __CUDACC__
#define AS_DIV_CONST_BY_FMA 1
#else
#define AS_DIV_CONST_BY_FMA 0
#endif
#endif
AS_FN float as_div_const_f32(float x, float c, float r) {
#if AS_DIV_CONST_BY_FMA
    if (c < 0.0f) {
        x = -x;
        c = -c;
        r = -r;
    }
    const float least = c > 0x1p25f ? c * 0x1p-125f : 0x1p-100f;
    const float most = c < 0x1p-25f ? c * 0x1p126f : 0x1p101f;
    const float q = x * r;
    // Twice the bits less one orders magnitudes with zero last: zero is no tiny number, and keeps its sign below.
    const bool tiny = as_bits_f32(x) * 2u - 1u < as_bits_f32(least) * 2u - 1u;
    if (tiny || !(AS_MATH(fabsf)(x) <= most)) return as_div_const_wide_f32(x, c, q);
    return AS_MATH(fmaf)(AS_MATH(fmaf)(c, q, -x), -r, q);
#else
    (void)r;
    return x / c;
#endif
}

// Exactly x / c, where r is 1 / c rounded: the form of as_div_const_f32 for positive c and numbers of usual size. For
// powers of two the product x r is the quotient already.
AS_FN float as_div_by_f32(float x, float c, float r) {
#if AS_DIV_CONST_BY_FMA
    const bool usual = c >= 0x1p-25f && c <= 0x1p25f;
    const bool tiny = as_bits_f32(x) * 2u - 1u < as_bits_f32(0x1p-100f) * 2u - 1u;
    if (usual && !tiny && AS_MATH(fabsf)(x) <= 0x1p101f) {
        const float q = x * r;
        return AS_MATH(fmaf)(AS_MATH(fmaf)(c, q, -x), -r, q);
    }
#else
    (void)r;
#endif
    return x / c;
}
