// What another lane of the warp has, whose number differs in one bit; `lanes` says which take part.
#define SHUFFLE(T, value, distance, lanes) __shfl_xor_sync(lanes, (T)(value), distance)
// The lanes of the thread's own group, which are `width` neighbours in threadIdx.x.
#define LANES(width) (((1u << width) - 1u) << (AS_THREAD % 32u & ~(width - 1u)))
#define AS_THREAD (threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z))
