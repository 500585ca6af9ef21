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

// Shared memory. A word is (epoch << 16) | (thread + 1), or 0xffff below the epoch for several readers.
// Two accesses of one granule conflict when they fall into the same epoch (no barrier between them),
// come from different threads, and one of them is a write. Since both orders are looked for (the last
// write at a read, the last readers at a write), what is found does not depend on the thread order.
enum { AS_SEVERAL_READERS = 0xffff, AS_ATOMIC_WRITER = 0xfffe };

// The thread that wrote last, if it can be named.
static inline int as_writing_thread(as_u64 writer) { return writer == AS_ATOMIC_WRITER ? -1 : (int)writer - 1; }

static inline void as_shared_read(
    as_thread* thread, as_u64 first, int granules, as_i64 index, as_place place) {
    as_block* block = thread->as_block_state;
    as_u64 self = thread->as_linear + 1, epoch = block->epoch;
    for (as_cell* cell = block->shared_cells + first; granules-- > 0; cell++) {
        as_u64 write_epoch = cell->write >> 16, writer = cell->write & 0xffff;
        if (write_epoch < block->first_epoch)
            block->fail(thread, AS_UNINITIALISED_READ, place.buffer, index, place.line(), -1);
        if (write_epoch == epoch && writer != self)
            block->fail(thread, AS_RACE, place.buffer, index, place.line(), as_writing_thread(writer));
        bool others = cell->read >> 16 == epoch && (cell->read & 0xffff) != self;
        cell->read = epoch << 16 | (others ? (as_u64)AS_SEVERAL_READERS : self);
    }
}

static inline void as_shared_write(
    as_thread* thread, as_u64 first, int granules, as_i64 index, as_place place) {
    as_block* block = thread->as_block_state;
    as_u64 self = thread->as_linear + 1, epoch = block->epoch;
    for (as_cell* cell = block->shared_cells + first; granules-- > 0; cell++) {
        as_u64 writer = cell->write & 0xffff, reader = cell->read & 0xffff;
        if (cell->write >> 16 == epoch && writer != self)
            block->fail(thread, AS_RACE, place.buffer, index, place.line(), as_writing_thread(writer));
        if (cell->read >> 16 == epoch && reader != self)
            block->fail(thread, AS_RACE, place.buffer, index, place.line(), reader == AS_SEVERAL_READERS ? -1 : (int)reader - 1);
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
        as_u64 write_epoch = cell->write >> 16, writer = cell->write & 0xffff, reader = cell->read & 0xffff;
        if (write_epoch < block->first_epoch)
            block->fail(thread, AS_UNINITIALISED_READ, place.buffer, index, place.line(), -1);
        if (write_epoch == epoch && writer != AS_ATOMIC_WRITER)
            block->fail(thread, AS_RACE, place.buffer, index, place.line(), (int)writer - 1);
        if (cell->read >> 16 == epoch)
            block->fail(thread, AS_RACE, place.buffer, index, place.line(), reader == AS_SEVERAL_READERS ? -1 : (int)reader - 1);
        cell->write = epoch << 16 | AS_ATOMIC_WRITER;
    }
}

// Global memory that the kernel writes. Blocks may run on several processors at once, so a cell's words are
// exchanged atomically. A word is (block << 36) | (epoch within the block << 12) | code, with the code
// thread + 1, or one of the two below. Accesses by different threads conflict, unless both are reads or
// they come from one block with a barrier between them.
enum { AS_ATOMIC = 0xffd, AS_SEVERAL_THREADS = 0xffe, AS_SEVERAL_BLOCKS = 0xfff };

static inline as_u64 as_global_tag(const as_thread* thread) {
    const as_block* block = thread->as_block_state;
    return block->linear << 36 | (block->epoch - block->first_epoch) << 12 | (thread->as_linear + 1);
}

// Whether an earlier access with tag `then` happened before the access `now`, or was the same thread's.
static inline bool as_ordered(as_u64 then, as_u64 now) {
    as_u64 code = then & 0xfff;
    if (code == 0) return true;
    if (code == AS_SEVERAL_BLOCKS || then >> 36 != now >> 36) return false;
    return code == (now & 0xfff) || (then >> 12) < (now >> 12);
}

static inline int as_other_thread(as_u64 then, as_u64 now) {
    as_u64 code = then & 0xfff;
    return code < AS_ATOMIC && then >> 36 == now >> 36 ? (int)code - 1 : -1;
}

static inline void as_global_read(
    as_thread* thread, as_cell* cell, as_i64 index, as_place place) {
    as_u64 now = as_global_tag(thread);
    as_u64 then = __atomic_exchange_n(&cell->read, now, __ATOMIC_SEQ_CST);
    if (then != now && (then & 0xfff) != 0) {
        as_u64 merged = now;
        if ((then & 0xfff) == AS_SEVERAL_BLOCKS || then >> 36 != now >> 36)
            merged = now | AS_SEVERAL_BLOCKS;
        else if (then >> 12 == now >> 12)
            merged = (now & ~(as_u64)0xfff) | AS_SEVERAL_THREADS;
        __atomic_store_n(&cell->read, merged, __ATOMIC_SEQ_CST);
    }
    as_u64 write = __atomic_load_n(&cell->write, __ATOMIC_SEQ_CST);
    if ((write & 0xfff) == AS_ATOMIC || !as_ordered(write, now))
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
    if ((then & 0xfff) == AS_ATOMIC || !as_ordered(then, now))
        block->fail(thread, AS_RACE, place.buffer, index, place.line(), as_other_thread(then, now));
    if (!as_ordered(read, now))
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
