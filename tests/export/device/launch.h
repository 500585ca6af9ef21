// Launches kernels, which are members of as_kernel, in the emulator. Comes after the emulator's own texts.

#include <stdio.h>

template <int... i>
struct Indices {};

template <int n, int... i>
struct IndicesUpTo : IndicesUpTo<n - 1, n - 1, i...> {};

template <int... i>
struct IndicesUpTo<0, i...> {
    typedef Indices<i...> type;
};

extern "C" int as_emulator_launch(const as_launch *launch);

struct dim3 {
    unsigned x, y, z;
    dim3(unsigned x, unsigned y, unsigned z) : x(x), y(y), z(z) {}
};

// What a launch passes for a parameter of a kernel, and what the kernel gets of it.
template <class T>
struct Passed {
    typedef T type;
    static constexpr as_u64 written = 0;
    static void *address(T &value) { return &value; }
    static T made(as_thread *, void *argument, int) { return *(T *)argument; }
};

template <class T, as_i64 count>
struct Passed<as_global_in<T, count>> {
    typedef const T *type;
    static constexpr as_u64 written = 0;
    static void *address(type pointer) { return (void *)pointer; }
    static as_global_in<T, count> made(as_thread *, void *argument, int i) { return {(const T *)argument, i}; }
};

template <class T, as_i64 count>
struct Passed<as_global_out<T, count>> {
    typedef T *type;
    static constexpr as_u64 written = count;
    static void *address(type pointer) { return pointer; }
    static as_global_out<T, count> made(as_thread *thread, void *argument, int i) {
        return {(T *)argument, i, thread->as_block_state->global_cells[i]};
    }
};

template <class F, F kernel>
struct Emulated;

template <class... P, void (as_kernel::*kernel)(P...)>
struct Emulated<void (as_kernel::*)(P...), kernel> {
    // Bytes of shared memory that the kernel may ask for.
    static inline size_t allowed_shared = 48 * 1024;

    static cudaError_t allow_shared(size_t bytes) {
        allowed_shared = bytes;
        return cudaSuccess;
    }

    static cudaError_t launch(const char *name, dim3 grid, dim3 block, size_t shared_bytes, cudaStream_t,
                              typename Passed<P>::type... values) {
        if (shared_bytes > allowed_shared) return cudaErrorInvalidValue;
        void *arguments[] = {Passed<P>::address(values)...};
        const as_u64 written[] = {Passed<P>::written...};
        const as_u64 count = (as_u64)grid.x * grid.y * grid.z;
        as_u64 *const blocks = (as_u64 *)malloc(count * sizeof(as_u64));
        for (as_u64 i = 0; i < count; i++) blocks[i] = i;
        as_u64 barriers = 0, warp_barriers = 0, shuffles = 0;
        as_error error;
        as_launch description = {};
        description.entry = entry;
        description.arguments = arguments;
        description.grid[0] = grid.x, description.grid[1] = grid.y, description.grid[2] = grid.z;
        description.block[0] = block.x, description.block[1] = block.y, description.block[2] = block.z;
        description.shared_bytes = shared_bytes;
        description.stack_bytes = 1 << 20;
        description.blocks = blocks;
        description.block_count = count;
        description.written_counts = written;
        description.parameter_count = sizeof...(P);
        description.workers = 2;
        description.use_fibers = description.single_writer = description.granule = 1;
        description.barriers = &barriers;
        description.warp_barriers = &warp_barriers;
        description.shuffles = &shuffles;
        description.error = &error;
        if (as_emulator_launch(&description) != 0) {
            fprintf(stderr, "%s: error %d at line %d, %s[%lld]\n", name, error.kind, error.line, error.buffer,
                    (long long)error.index);
            abort();
        }
        free(blocks);
        return cudaSuccess;
    }

private:
    static void entry(as_thread *thread, void *const *arguments) {
        enter(thread, arguments, typename IndicesUpTo<sizeof...(P)>::type());
    }

    template <int... i>
    static void enter(as_thread *thread, void *const *arguments, Indices<i...>) {
        (static_cast<as_kernel *>(thread)->*kernel)(Passed<P>::made(thread, arguments[i], i)...);
    }
};

#define AS_EMULATED(kernel) Emulated<decltype(&as_kernel::kernel), &as_kernel::kernel>
#define AS_LAUNCH(kernel, ...) AS_EMULATED(kernel)::launch(#kernel, __VA_ARGS__)
#define AS_ALLOW_SHARED(kernel, bytes) AS_EMULATED(kernel)::allow_shared(bytes)
