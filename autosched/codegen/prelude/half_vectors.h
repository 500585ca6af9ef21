// Vectors of 32 bytes in place of 64: those of arrays that are not aligned cross fewer cache lines.
#if defined(__AVX512F__) && defined(__GNUC__) && !defined(__clang__)
#define HALF_VECTORS __attribute__((target("prefer-vector-width=256")))
#else
#define HALF_VECTORS
#endif
