// What the generated kernels and the emulator's runtime share: plain structs, no standard headers.
// The runtime is compiled once, the kernels of a pipeline on their own; they meet only through these layouts, and the
// kernel reaches the runtime only through the function pointers in as_block.

typedef long long as_i64;
typedef unsigned long long as_u64;

enum { AS_WARP_SIZE = 32, AS_MAX_THREADS = 1024, AS_MAX_LOOP_DEPTH = 32 };

// The order is known to Python (ErrorKind in errors.py).
enum as_error_kind {
    AS_NO_ERROR,
    AS_OUT_OF_BOUNDS,
    AS_UNINITIALISED_READ,
    AS_RACE,
    AS_WRITE_CONFLICT,
    AS_DIVERGENT_BARRIER,
    AS_SHARED_SIZE,
    AS_OUT_OF_MEMORY,
    AS_TOO_MANY_BARRIERS,
    AS_MISALIGNED,
    AS_ABSENT_LANE
};

enum as_space { AS_GLOBAL, AS_SHARED };

struct as_dim3 {
    unsigned x, y, z;
};

// The history of one element (or one granule of shared memory): who wrote it last and who read it last.
// The packing of the two words differs between shared and global memory, see checks.h. Zero is "never".
struct as_cell {
    as_u64 write, read;
};

// One place in the generated text, as the macros know it. Two words, so that it travels in registers; with
// more, compile time grows quadratically with the number of accesses.
struct as_place {
    const char* buffer;
    as_u64 packed;  // line, site, number of serial loops around the site: 24, 32 and 8 bits

    constexpr as_place(const char* name, unsigned line, unsigned site, unsigned depth)
        : buffer(name), packed((as_u64)line << 40 | (as_u64)site << 8 | depth) {}
    int line() const { return (int)(packed >> 40); }
    int site() const { return (int)(packed >> 8 & 0xffffffff); }
    int depth() const { return (int)(packed & 0xff); }
};

struct as_thread;

struct as_block {
    unsigned char* shared;
    as_u64 shared_bytes;
    as_cell* shared_cells;          // one for each granule
    as_cell* const* global_cells;   // by parameter; null where the parameter is not written
    as_u64 epoch;                   // barriers of the block or of a warp, counted over all blocks this worker has run
    as_u64 first_epoch;             // its value when this block started
    as_u64 since;                   // its value after the last barrier of the whole block
    as_u64 linear;                  // x + grid.x * (y + grid.y * z)
    int single_writer;              // an element of global memory has at most one writing thread
    void (*barrier)(as_thread*, int id, int line);
    void (*warp_barrier)(as_thread*, unsigned lanes, int id, int line);
    void (*shuffle)(as_thread*, unsigned lanes, int distance, int id, int line);
    __attribute__((noreturn)) void (*fail)(as_thread*, int kind, const char* buffer, as_i64 index, int line, int other);
    void (*record)(as_thread*, int site, int depth, int space, int parameter, int bytes, as_i64 element, int length);
    unsigned (*iteration)(as_thread*, unsigned outer, as_i64 value);
};

// A copy to shared memory that a thread has begun: the bytes are there once it waits for them.
struct as_copy {
    void* target;
    int bytes;
    unsigned char data[16];
};

// One CUDA thread. The kernel is a member function of a struct derived from it, so that threadIdx and
// blockIdx are ordinary names there and no thread-local storage is read in inner loops.
struct as_thread {
    as_dim3 threadIdx, blockIdx;
    as_block* as_block_state;
    unsigned as_linear;                              // x + block.x * (y + block.y * z)
    as_u64 as_since;                                 // the epoch after the last barrier of its warp or block
    unsigned as_iteration[AS_MAX_LOOP_DEPTH + 1];    // traced: id of the counters of the outermost d loops
    as_copy* as_copies;                              // under way, as_copies_begun of them
    unsigned as_copies_begun, as_copies_room;
    as_u64 as_given, as_received;                    // by a shuffle: to another lane, from another lane
};

typedef void (*as_entry_function)(as_thread*, void* const* arguments);
