// gcc 12 replaces a conversion to integers and back by trunc, which keeps the sign of zero. An OR with an opaque zero
// stands between the two.
#define AS_NO_BITS int as_none = 0; __asm__("" : "+r"(as_none))
#define AS_CONVERTED(i) ((i) | as_none)
