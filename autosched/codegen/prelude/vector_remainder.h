// Remainders of whole vectors, which glibc lacks: gcc calls these in loops over lanes. A fused multiplication and
// subtraction is exact for quotients below 2^23 (2^52 in float64), even where division rounded them up to the next
// whole number. Vectors with a larger quotient, a zero, an infinity or a NaN take the remainders of one number.
#if defined(AS_VECTOR_MATH) && defined(__FMA__)
#define AS_VECTOR_REMAINDER(isa, lanes, T, I, name, letter, limit)                                                    \
    typedef T name##_x##lanes##isa __attribute__((vector_size(sizeof(T) * lanes)));                                   \
    __attribute__((weak, visibility("hidden"))) name##_x##lanes##isa _ZGV##isa##N##lanes##vv_##name(                  \
        name##_x##lanes##isa a, name##_x##lanes##isa b) {                                                             \
        T x[lanes], y[lanes], out[lanes];                                                                             \
        I slow[lanes], any = 0;                                                                                       \
        __builtin_memcpy(x, &a, sizeof x);                                                                            \
        __builtin_memcpy(y, &b, sizeof y);                                                                            \
        for (int i = 0; i < lanes; i++) {                                                                             \
            const T p = __builtin_fabs##letter(x[i]), q = __builtin_fabs##letter(y[i]);                               \
            const T whole = __builtin_trunc##letter(p / q), rest = __builtin_fma##letter(-whole, q, p);               \
            out[i] = __builtin_copysign##letter(rest < 0 ? rest + q : rest, x[i]);                                    \
            slow[i] = (whole < limit ? 0 : 1) | (q < __builtin_inf##letter() ? 0 : 1);                                \
        }                                                                                                             \
        for (int i = 0; i < lanes; i++) any |= slow[i];                                                               \
        if (__builtin_expect(any != 0, 0)) {                                                                          \
            for (int i = 0; i < lanes; i++) {                                                                         \
                out[i] = name(x[i], y[i]);                                                                            \
                __asm__ volatile(""); /* one at a time: vectors would call this function again */                     \
            }                                                                                                         \
        }                                                                                                             \
        __builtin_memcpy(&a, out, sizeof out);                                                                        \
        return a;                                                                                                     \
    }
AS_OF_TWO(fmod)
AS_VECTOR_REMAINDER(b, 4, float, int, fmodf, f, 0x1p23f)
AS_VECTOR_REMAINDER(b, 2, double, long long, fmod, , 0x1p52)
AS_VECTOR_REMAINDER(c, 8, float, int, fmodf, f, 0x1p23f)
AS_VECTOR_REMAINDER(c, 4, double, long long, fmod, , 0x1p52)
AS_VECTOR_REMAINDER(d, 8, float, int, fmodf, f, 0x1p23f)
AS_VECTOR_REMAINDER(d, 4, double, long long, fmod, , 0x1p52)
#ifdef __AVX512F__
AS_VECTOR_REMAINDER(e, 16, float, int, fmodf, f, 0x1p23f)
AS_VECTOR_REMAINDER(e, 8, double, long long, fmod, , 0x1p52)
#endif
#endif
