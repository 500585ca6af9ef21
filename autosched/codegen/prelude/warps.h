// Waits for the threads of the warp, which are the bits of `lanes`; orders their accesses to memory.
#define WARP_BARRIER(lanes) __syncwarp(lanes)
// A buffer in the slice of shared memory of the thread's warp, which is row threadIdx.y of the block.
#define WARP_SHARED(T, name, count, byte_offset, slice_bytes) \
    T* const name = reinterpret_cast<T*>(as_shared + threadIdx.y * (slice_bytes) + (byte_offset))
