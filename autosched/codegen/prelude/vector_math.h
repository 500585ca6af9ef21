// glibc has elementary functions of whole vectors (libmvec), exact to 4 units in the last place. gcc calls them in loops
// over lanes, and those of one number for what vectors leave over.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__cplusplus)
#if __has_include(<features.h>)
#include <features.h>
#endif
#if defined(__GLIBC__) && __GLIBC_PREREQ(2, 22)
#define AS_VECTOR_MATH
#define AS_OF_ONE(name)                                                                                               \
    extern __attribute__((simd("notinbranch"))) double name(double);                                                  \
    extern __attribute__((simd("notinbranch"))) float name##f(float);
#define AS_OF_TWO(name)                                                                                               \
    extern __attribute__((simd("notinbranch"))) double name(double, double);                                          \
    extern __attribute__((simd("notinbranch"))) float name##f(float, float);
AS_OF_ONE(exp)
AS_OF_ONE(log)
AS_OF_ONE(sin)
AS_OF_ONE(cos)
AS_OF_TWO(pow)
#if __GLIBC_PREREQ(2, 35)
AS_OF_ONE(tan)
AS_OF_ONE(tanh)
AS_OF_ONE(asin)
AS_OF_ONE(acos)
AS_OF_ONE(atan)
AS_OF_TWO(atan2)
AS_OF_TWO(hypot)
#endif
#endif
#endif
