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
#define UNROLL _Pragma("GCC unroll 64")
