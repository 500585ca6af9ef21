// Elements of a table of 256 bytes at 64 positions. A shuffle of two vectors reads half of the table.
#if defined(__AVX512VBMI__) && defined(__GNUC__) && !defined(__clang__)
typedef unsigned char as_u8x64 __attribute__((vector_size(64), aligned(1), may_alias));
typedef signed char as_i8x64 __attribute__((vector_size(64)));
AS_FN void as_lookup_u8(unsigned char* values, const unsigned char* table, const unsigned char* positions) {
    const as_u8x64* const part = (const as_u8x64*)table;
    const as_u8x64 at = *(const as_u8x64*)positions;
    const as_u8x64 low = __builtin_shuffle(part[0], part[1], at), high = __builtin_shuffle(part[2], part[3], at);
    const as_u8x64 is_high = (as_u8x64)((as_i8x64)at < 0);
    *(as_u8x64*)values = (high & is_high) | (low & ~is_high);
}
#else
AS_FN void as_lookup_u8(unsigned char* values, const unsigned char* table, const unsigned char* positions) {
    for (int k = 0; k < 64; k++) values[k] = table[positions[k]];
}
#endif
