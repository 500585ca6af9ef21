// gcc 12 and 13 count -1 for 1 where they vectorise a sum of conditions in straight-line code (PR 114231).
#if defined(__GNUC__) && !defined(__clang__) && __GNUC__ >= 12 && __GNUC__ <= 13
#define AS_NO_SLP __attribute__((optimize("no-tree-slp-vectorize")))
#else
#define AS_NO_SLP
#endif
