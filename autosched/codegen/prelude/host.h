// The generated code contract on the host: blocks are iterations of an OpenMP loop, thread loops are ordinary loops.

#ifndef __cplusplus
#define bool _Bool
#define true 1
#define false 0
#endif
#define AS_FN static inline
#define GLOBAL_IN(T, name, count) const T* restrict name
#define GLOBAL_OUT(T, name, count) T* restrict name
#define SCALAR(T, name) const T name
#define SHARED(T, name, count, byte_offset) T* const name = (T*)(as_shared + (byte_offset))
// Aligned by name: gcc 12 may otherwise store aligned vectors to arrays of a leaf function that are not aligned.
#define REGISTER(T, name, count) T name[count] __attribute__((aligned(64)))
#define LOAD(site, buffer, index) (buffer)[index]
#define STORE(site, buffer, index, value) (buffer)[index] = (value)
// Tried again until no other thread of the host has come between.
#define AS_ATOMIC(T, buffer, index, value, combined)                                                                  \
    do {                                                                                                              \
        T* const as_at = (T*)&(buffer)[index];                                                                        \
        const T as_b = (T)(value);                                                                                    \
        T as_a, as_now;                                                                                               \
        __atomic_load(as_at, &as_a, __ATOMIC_RELAXED);                                                                \
        do as_now = (combined);                                                                                       \
        while (!__atomic_compare_exchange(as_at, &as_a, &as_now, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED));             \
    } while (0)
#define ATOMIC_ADD(site, T, buffer, index, value) AS_ATOMIC(T, buffer, index, value, as_a + as_b)
#define ATOMIC_MIN(site, T, buffer, index, value) AS_ATOMIC(T, buffer, index, value, as_a < as_b ? as_a : as_b)
#define ATOMIC_MAX(site, T, buffer, index, value) AS_ATOMIC(T, buffer, index, value, as_a < as_b ? as_b : as_a)
#define ATOMIC_AND(site, T, buffer, index, value) AS_ATOMIC(T, buffer, index, value, as_a & as_b)
#define ATOMIC_OR(site, T, buffer, index, value) AS_ATOMIC(T, buffer, index, value, as_a | as_b)
#define ATOMIC_XOR(site, T, buffer, index, value) AS_ATOMIC(T, buffer, index, value, as_a ^ as_b)
// Processors that store a vector where each lane says.
#if defined(__AVX512F__) || defined(__ARM_FEATURE_SVE)
#define AS_SCATTERS
#endif
// Keeps gcc 12 from doing several iterations at once: where a loop adds to several registers it loses some of them,
// where addresses follow from data it loads these again in every lane, and where they are not affine it forms no vectors.
#define ONE_BY_ONE __asm__ volatile("")
#define UNROLL _Pragma("GCC unroll 64")
