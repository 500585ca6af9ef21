// Waits for the threads of the warp, which are the bits of `lanes`; orders their accesses to memory.
#define WARP_BARRIER(lanes) __syncwarp(lanes)
