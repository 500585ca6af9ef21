// Addresses in vectors: where gcc 12 knows that an index is 0 or 1, as that of a condition is, it loads from other places.
// The bits of a zero that it does not know keep it from knowing.
#define AS_UNKNOWN_ZERO int as_zero = 0; __asm__("" : "+r"(as_zero))
#define AS_BOOLEAN_INDEX(i) ((i) | as_zero)
