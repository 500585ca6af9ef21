// gcc 12 miscompiles gathers at indices that it can prove to be 0 or 1. An OR with an opaque zero hides their range.
#define AS_UNKNOWN_ZERO int as_zero = 0; __asm__("" : "+r"(as_zero))
#define AS_BOOLEAN_INDEX(i) ((i) | as_zero)
