// The checks behind LOAD and STORE: bounds, initialisation, races. Compiled into every kernel.

static inline __attribute__((always_inline)) void as_check_bounds(
    as_thread* thread, as_i64 index, as_i64 count, as_place place) {
    if (__builtin_expect((as_u64)index >= (as_u64)count, 0))
        thread->as_block_state->fail(thread, AS_OUT_OF_BOUNDS, place.buffer, index, place.line(), -1);
}

// An access of n elements, the first of which is element `before + index` from an aligned address.
static inline __attribute__((always_inline)) void as_check_vector(
    as_thread* thread, as_i64 index, as_i64 count, int n, as_i64 before, as_place place) {
    as_check_bounds(thread, index, count, place);
    as_check_bounds(thread, index + n - 1, count, place);
    if (__builtin_expect((before + index) % n != 0, 0))
        thread->as_block_state->fail(thread, AS_MISALIGNED, place.buffer, index, place.line(), -1);
}

// Shared memory. A word is (epoch << 16) | code, with the code thread + 1, or that of several threads: of one warp, as
// readers or atomic writers, or of several warps. Two accesses of one granule conflict when no barrier of the block, and
// none of their warp if they have one in common, is between them, they come from different threads, and one of them is a
// write. Since both orders are looked for (the last write at a read, the last readers at a write), what is found does
// not depend on the thread order.
enum {
    AS_READERS_OF_WARP = 0x1000,
    AS_ATOMIC_OF_WARP = 0x2000,
    AS_OF_WARP = 0xf000,
    AS_ATOMIC_WRITERS = 0xfffe,
    AS_SEVERAL_READERS = 0xffff
};

static inline unsigned as_warp(const as_thread* thread) { return thread->as_linear / AS_WARP_SIZE; }

// Whether a code names threads of the thread's warp alone.
static inline bool as_of_own_warp(const as_thread* thread, as_u64 code) {
    unsigned kind = (unsigned)code & AS_OF_WARP;
    if (kind == 0) return (code - 1) / AS_WARP_SIZE == as_warp(thread);
    return kind != AS_OF_WARP && (code & ~(as_u64)AS_OF_WARP) == as_warp(thread);
}

// Whether no barrier is between an earlier access with this word and what the thread does now.
static inline bool as_concurrent(const as_thread* thread, as_u64 word) {
    as_u64 epoch = word >> 16;
    if (epoch >= thread->as_since) return true;
    return epoch >= thread->as_block_state->since && !as_of_own_warp(thread, word & 0xffff);
}

static inline bool as_is_atomic(as_u64 code) {
    return code == AS_ATOMIC_WRITERS || (code & AS_OF_WARP) == AS_ATOMIC_OF_WARP;
}

// The thread of a code, if it is one.
static inline int as_named_thread(as_u64 code) { return code & AS_OF_WARP ? -1 : (int)code - 1; }

static inline void as_shared_read(
    as_thread* thread, as_u64 first, int granules, as_i64 index, as_place place) {
    as_block* block = thread->as_block_state;
    as_u64 self = thread->as_linear + 1, epoch = block->epoch;
    for (as_cell* cell = block->shared_cells + first; granules-- > 0; cell++) {
        as_u64 writer = cell->write & 0xffff, reader = cell->read & 0xffff;
        if (cell->write >> 16 < block->first_epoch)
            block->fail(thread, AS_UNINITIALISED_READ, place.buffer, index, place.line(), -1);
        if (writer != self && as_concurrent(thread, cell->write))
            block->fail(thread, AS_RACE, place.buffer, index, place.line(), as_named_thread(writer));
        as_u64 code = self;
        if (reader != self && as_concurrent(thread, cell->read))
            code = as_of_own_warp(thread, reader) ? AS_READERS_OF_WARP | as_warp(thread) : AS_SEVERAL_READERS;
        cell->read = epoch << 16 | code;
    }
}

static inline void as_shared_write(
    as_thread* thread, as_u64 first, int granules, as_i64 index, as_place place) {
    as_block* block = thread->as_block_state;
    as_u64 self = thread->as_linear + 1, epoch = block->epoch;
    for (as_cell* cell = block->shared_cells + first; granules-- > 0; cell++) {
        as_u64 writer = cell->write & 0xffff, reader = cell->read & 0xffff;
        if (writer != self && as_concurrent(thread, cell->write))
            block->fail(thread, AS_RACE, place.buffer, index, place.line(), as_named_thread(writer));
        if (reader != self && as_concurrent(thread, cell->read))
            block->fail(thread, AS_RACE, place.buffer, index, place.line(), as_named_thread(reader));
        cell->write = epoch << 16 | self;
    }
}

// An atomic operation on initialised memory. Those of one interval do not conflict with each other, but with every
// other access of any thread: nothing says which comes first.
static inline void as_shared_atomic(
    as_thread* thread, as_u64 first, int granules, as_i64 index, as_place place) {
    as_block* block = thread->as_block_state;
    as_u64 epoch = block->epoch;
    for (as_cell* cell = block->shared_cells + first; granules-- > 0; cell++) {
        as_u64 writer = cell->write & 0xffff, reader = cell->read & 0xffff;
        if (cell->write >> 16 < block->first_epoch)
            block->fail(thread, AS_UNINITIALISED_READ, place.buffer, index, place.line(), -1);
        bool written = as_concurrent(thread, cell->write);
        if (written && !as_is_atomic(writer))
            block->fail(thread, AS_RACE, place.buffer, index, place.line(), as_named_thread(writer));
        if (as_concurrent(thread, cell->read))
            block->fail(thread, AS_RACE, place.buffer, index, place.line(), as_named_thread(reader));
        bool others = written && !as_of_own_warp(thread, writer);
        as_u64 code = others ? (as_u64)AS_ATOMIC_WRITERS : AS_ATOMIC_OF_WARP | as_warp(thread);
        cell->write = epoch << 16 | code;
    }
}

// Global memory that the kernel writes. Blocks may run on several processors at once, so a cell's words are
// exchanged atomically. A word is (block << 36) | (epoch within the block << 12) | code, with the code
// thread + 1, or one of those below. Accesses by different threads conflict, unless both are reads or they come from one
// block with a barrier of the block, or of the warp that they have in common, between them.
enum { AS_LANES = 0x800, AS_ATOMIC = 0xffd, AS_SEVERAL_THREADS = 0xffe, AS_SEVERAL_BLOCKS = 0xfff };

static inline as_u64 as_global_tag(const as_thread* thread) {
    const as_block* block = thread->as_block_state;
    return block->linear << 36 | (block->epoch - block->first_epoch) << 12 | (thread->as_linear + 1);
}

// Whether a code of global memory names threads of the thread's warp alone.
static inline bool as_of_lanes(const as_thread* thread, as_u64 code) {
    if (code < AS_LANES) return (code - 1) / AS_WARP_SIZE == as_warp(thread);
    return code < AS_ATOMIC && code - AS_LANES == as_warp(thread);
}

// Whether an earlier access with tag `then` happened before the access `now`, or was the same thread's.
static inline bool as_ordered(const as_thread* thread, as_u64 then, as_u64 now) {
    as_u64 code = then & 0xfff;
    if (code == 0) return true;
    if (code == AS_SEVERAL_BLOCKS || then >> 36 != now >> 36) return false;
    const as_block* block = thread->as_block_state;
    as_u64 epoch = block->first_epoch + (then >> 12 & 0xffffff);
    if (code == (now & 0xfff) || epoch < block->since) return true;
    return epoch < thread->as_since && as_of_lanes(thread, code);
}

static inline int as_other_thread(as_u64 then, as_u64 now) {
    as_u64 code = then & 0xfff;
    return code < AS_LANES && then >> 36 == now >> 36 ? (int)code - 1 : -1;
}

static inline void as_global_read(
    as_thread* thread, as_cell* cell, as_i64 index, as_place place) {
    as_u64 now = as_global_tag(thread);
    as_u64 then = __atomic_exchange_n(&cell->read, now, __ATOMIC_SEQ_CST);
    if (then != now && (then & 0xfff) != 0) {
        as_u64 merged = now;
        if ((then & 0xfff) == AS_SEVERAL_BLOCKS || then >> 36 != now >> 36)
            merged = now | AS_SEVERAL_BLOCKS;
        else if (!as_ordered(thread, then, now))
            merged = (now & ~(as_u64)0xfff)
                | (as_of_lanes(thread, then & 0xfff) ? AS_LANES + as_warp(thread) : (as_u64)AS_SEVERAL_THREADS);
        __atomic_store_n(&cell->read, merged, __ATOMIC_SEQ_CST);
    }
    as_u64 write = __atomic_load_n(&cell->write, __ATOMIC_SEQ_CST);
    if ((write & 0xfff) == AS_ATOMIC || !as_ordered(thread, write, now))
        thread->as_block_state->fail(thread, AS_RACE, place.buffer, index, place.line(), as_other_thread(write, now));
}

static inline void as_global_write(
    as_thread* thread, as_cell* cell, as_i64 index, as_place place) {
    as_block* block = thread->as_block_state;
    as_u64 now = as_global_tag(thread);
    as_u64 then = __atomic_exchange_n(&cell->write, now, __ATOMIC_SEQ_CST);
    as_u64 read = __atomic_load_n(&cell->read, __ATOMIC_SEQ_CST);
    bool same_thread = then >> 36 == now >> 36 && (then & 0xfff) == (now & 0xfff);
    if (block->single_writer && then != 0 && !same_thread)
        block->fail(thread, AS_WRITE_CONFLICT, place.buffer, index, place.line(), as_other_thread(then, now));
    if ((then & 0xfff) == AS_ATOMIC || !as_ordered(thread, then, now))
        block->fail(thread, AS_RACE, place.buffer, index, place.line(), as_other_thread(then, now));
    if (!as_ordered(thread, read, now))
        block->fail(thread, AS_RACE, place.buffer, index, place.line(), as_other_thread(read, now));
}

// An atomic operation: within a kernel, elements that are combined so are accessed in no other way.
static inline void as_global_atomic(
    as_thread* thread, as_cell* cell, as_i64 index, as_place place) {
    as_block* block = thread->as_block_state;
    as_u64 now = (as_global_tag(thread) & ~(as_u64)0xfff) | AS_ATOMIC;
    as_u64 then = __atomic_exchange_n(&cell->write, now, __ATOMIC_SEQ_CST);
    as_u64 read = __atomic_load_n(&cell->read, __ATOMIC_SEQ_CST);
    if (then != 0 && (then & 0xfff) != AS_ATOMIC)
        block->fail(thread, AS_RACE, place.buffer, index, place.line(), as_other_thread(then, now));
    if (read != 0)
        block->fail(thread, AS_RACE, place.buffer, index, place.line(), as_other_thread(read, now));
}
