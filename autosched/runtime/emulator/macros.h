// The emulator's side of the generated code contract: views that check every access, and the macros.
// The other side, for NVRTC, is autosched/codegen/prelude/cuda.h.
//
// The driver defines before this text: AS_TRACED (0 or 1), AS_GRANULE (bytes of shared memory that share
// one cell), and AS_SITE_DEPTH(site), the number of serial loops around a site.

static inline __attribute__((always_inline)) void as_record(
    as_thread* thread, as_space space, int parameter, int bytes, as_i64 element, as_place place, int length = 1) {
    if (AS_TRACED)
        thread->as_block_state->record(thread, place.site(), place.depth(), space, parameter, bytes, element, length);
}

// Neighbouring elements that are moved in one access.
template <class T, int n>
struct as_vector {
    T at[n];
};

template <class T, class... Values>
static inline as_vector<T, sizeof...(Values)> as_vector_of(Values... values) {
    return {{(T)values...}};
}

// Out of line: a kernel has hundreds of accesses, and its compile time is what most runs spend.
#define AS_NOINLINE __attribute__((noinline))

template <class T, as_i64 count>
struct as_global_in {
    const T* data;
    int parameter;

    AS_NOINLINE T as_load(as_thread* thread, as_i64 index, as_place place) const {
        as_check_bounds(thread, index, count, place);
        as_record(thread, AS_GLOBAL, parameter, sizeof(T), index, place);
        return data[index];
    }

    template <int n>
    AS_NOINLINE as_vector<T, n> as_load_vector(as_thread* thread, as_i64 index, as_place place) const {
        as_check_vector(thread, index, count, n, 0, place);
        as_record(thread, AS_GLOBAL, parameter, sizeof(T), index, place, n);
        as_vector<T, n> found;
        for (int k = 0; k < n; k++) found.at[k] = data[index + k];
        return found;
    }
};

template <class T, as_i64 count>
struct as_global_out {
    T* data;
    int parameter;
    as_cell* cells;

    AS_NOINLINE T as_load(as_thread* thread, as_i64 index, as_place place) const {
        as_check_bounds(thread, index, count, place);
        as_record(thread, AS_GLOBAL, parameter, sizeof(T), index, place);
        as_global_read(thread, cells + index, index, place);
        return data[index];
    }

    AS_NOINLINE void as_store(as_thread* thread, as_i64 index, T value, as_place place) const {
        as_check_bounds(thread, index, count, place);
        as_record(thread, AS_GLOBAL, parameter, sizeof(T), index, place);
        as_global_write(thread, cells + index, index, place);
        data[index] = value;
    }

    // Blocks run side by side, so it is an atomic operation of the host, too.
    template <class U, class Combine>
    AS_NOINLINE void as_atomic(as_thread* thread, as_i64 index, U value, as_place place, Combine combine) const {
        as_check_bounds(thread, index, count, place);
        as_record(thread, AS_GLOBAL, parameter, sizeof(T), index, place);
        as_global_atomic(thread, cells + index, index, place);
        U* at = (U*)(data + index);
        U before, after;
        __atomic_load(at, &before, __ATOMIC_RELAXED);
        do after = combine(before, value);
        while (!__atomic_compare_exchange(at, &before, &after, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
    }

    template <int n>
    AS_NOINLINE as_vector<T, n> as_load_vector(as_thread* thread, as_i64 index, as_place place) const {
        as_check_vector(thread, index, count, n, 0, place);
        as_record(thread, AS_GLOBAL, parameter, sizeof(T), index, place, n);
        as_vector<T, n> found;
        for (int k = 0; k < n; k++) {
            as_global_read(thread, cells + index + k, index + k, place);
            found.at[k] = data[index + k];
        }
        return found;
    }

    template <int n>
    AS_NOINLINE void as_store_vector(as_thread* thread, as_i64 index, as_vector<T, n> value, as_place place) const {
        as_check_vector(thread, index, count, n, 0, place);
        as_record(thread, AS_GLOBAL, parameter, sizeof(T), index, place, n);
        for (int k = 0; k < n; k++) {
            as_global_write(thread, cells + index + k, index + k, place);
            data[index + k] = value.at[k];
        }
    }
};

// A buffer at a byte offset of the block's shared memory, or of the slice of the thread's warp.
template <class T, as_i64 count, as_u64 offset, as_u64 slice = 0>
struct as_shared_view {
    static_assert(offset % sizeof(T) == 0, "a shared buffer is not aligned to its element size");
    static_assert(slice % sizeof(T) == 0, "a warp's slice of shared memory is not aligned to an element size");
    static_assert(slice == 0 || offset + count * sizeof(T) <= slice, "a shared buffer is larger than a warp's slice");
    static_assert(sizeof(T) % AS_GRANULE == 0, "the shared granule does not divide the element size");
    enum { granules = sizeof(T) / AS_GRANULE };
    as_u64 first;  // its distance from the start of shared memory in elements
    T* data;

    as_shared_view(as_thread* thread, const char* buffer, int line) {
        as_block* block = thread->as_block_state;
        first = (offset + slice * thread->threadIdx.y) / sizeof(T);
        if ((first + count) * sizeof(T) > block->shared_bytes)
            block->fail(thread, AS_SHARED_SIZE, buffer, (first + count) * sizeof(T), line, -1);
        data = (T*)block->shared + first;
    }

    AS_NOINLINE T as_load(as_thread* thread, as_i64 index, as_place place) const {
        as_check_bounds(thread, index, count, place);
        as_record(thread, AS_SHARED, -1, sizeof(T), first + index, place);
        as_shared_read(thread, (first + index) * granules, granules, index, place);
        return data[index];
    }

    AS_NOINLINE void as_store(as_thread* thread, as_i64 index, T value, as_place place) const {
        as_check_bounds(thread, index, count, place);
        as_record(thread, AS_SHARED, -1, sizeof(T), first + index, place);
        as_shared_write(thread, (first + index) * granules, granules, index, place);
        data[index] = value;
    }

    template <class U, class Combine>
    AS_NOINLINE void as_atomic(as_thread* thread, as_i64 index, U value, as_place place, Combine combine) const {
        as_check_bounds(thread, index, count, place);
        as_record(thread, AS_SHARED, -1, sizeof(T), first + index, place);
        as_shared_atomic(thread, (first + index) * granules, granules, index, place);
        U* at = (U*)(data + index);
        *at = combine(*at, value);
    }

    template <int n>
    AS_NOINLINE as_vector<T, n> as_load_vector(as_thread* thread, as_i64 index, as_place place) const {
        as_check_vector(thread, index, count, n, first, place);
        as_record(thread, AS_SHARED, -1, sizeof(T), first + index, place, n);
        as_vector<T, n> found;
        for (int k = 0; k < n; k++) {
            as_shared_read(thread, (first + index + k) * granules, granules, index + k, place);
            found.at[k] = data[index + k];
        }
        return found;
    }

    // Where a copy of neighbouring elements is to arrive. It may do so at any time, so it is a write from now on.
    template <int n>
    AS_NOINLINE T* as_claim(as_thread* thread, as_i64 index, as_place place) const {
        as_check_vector(thread, index, count, n, first, place);
        as_record(thread, AS_SHARED, -1, sizeof(T), first + index, place, n);
        for (int k = 0; k < n; k++)
            as_shared_write(thread, (first + index + k) * granules, granules, index + k, place);
        return data + index;
    }

    template <int n>
    AS_NOINLINE void as_store_vector(as_thread* thread, as_i64 index, as_vector<T, n> value, as_place place) const {
        as_check_vector(thread, index, count, n, first, place);
        as_record(thread, AS_SHARED, -1, sizeof(T), first + index, place, n);
        for (int k = 0; k < n; k++) {
            as_shared_write(thread, (first + index + k) * granules, granules, index + k, place);
            data[index + k] = value.at[k];
        }
    }
};

template <class T, as_i64 count>
struct as_register_array {
    T data[count];
    as_u64 written[(count + 63) / 64];

    as_register_array() {
        for (as_u64& word : written) word = 0;
    }

    AS_NOINLINE T as_load(as_thread* thread, as_i64 index, as_place place) const {
        as_check_bounds(thread, index, count, place);
        if (!(written[index / 64] >> (index % 64) & 1))
            thread->as_block_state->fail(thread, AS_UNINITIALISED_READ, place.buffer, index, place.line(), -1);
        return data[index];
    }

    // What a lane gives to others, which may not need it: a pattern where nothing was written.
    AS_NOINLINE T as_give(as_thread* thread, as_i64 index, as_place place) const {
        as_check_bounds(thread, index, count, place);
        if (written[index / 64] >> (index % 64) & 1) return data[index];
        T pattern;
        __builtin_memset(&pattern, 0xa5, sizeof(T));
        return pattern;
    }

    AS_NOINLINE void as_store(as_thread* thread, as_i64 index, T value, as_place place) {
        as_check_bounds(thread, index, count, place);
        written[index / 64] |= (as_u64)1 << (index % 64);
        data[index] = value;
    }
};

template <class T, int n, class Target, class Source>
AS_NOINLINE static void as_begin_copy(
    as_thread* thread, const Target& target, const Source& source, as_i64 to, as_i64 from, as_place writes,
    as_place reads) {
    static_assert(sizeof(T) * n == 4 || sizeof(T) * n == 8 || sizeof(T) * n == 16, "no copy has so many bytes");
    const as_vector<T, n> value = source.template as_load_vector<n>(thread, from, reads);
    if (thread->as_copies_begun == thread->as_copies_room) {
        const unsigned room = thread->as_copies_room ? 2 * thread->as_copies_room : 16;
        as_copy* grown = (as_copy*)__builtin_realloc(thread->as_copies, room * sizeof(as_copy));
        if (!grown) thread->as_block_state->fail(thread, AS_OUT_OF_MEMORY, "", -1, writes.line(), -1);
        thread->as_copies = grown;
        thread->as_copies_room = room;
    }
    as_copy& copy = thread->as_copies[thread->as_copies_begun++];
    copy.target = target.template as_claim<n>(thread, to, writes);
    copy.bytes = sizeof(T) * n;
    __builtin_memcpy(copy.data, &value, sizeof(T) * n);
}

static inline void as_wait_for_copies(as_thread* thread) {
    for (unsigned k = 0; k < thread->as_copies_begun; k++)
        __builtin_memcpy(thread->as_copies[k].target, thread->as_copies[k].data, thread->as_copies[k].bytes);
    thread->as_copies_begun = 0;
}

// Out of what another lane gives, once all lanes that take part have come here.
template <class T>
AS_NOINLINE static T as_shuffled(as_thread* thread, T value, int distance, unsigned lanes, int id, int line) {
    static_assert(sizeof(T) <= sizeof(as_u64), "lanes exchange up to 8 bytes");
    T found;
    __builtin_memcpy(&thread->as_given, &value, sizeof(T));
    thread->as_block_state->shuffle(thread, lanes, distance, id, line);
    __builtin_memcpy(&found, &thread->as_received, sizeof(T));
    return found;
}

// The distance of another lane, in the bits of its number.
static inline int as_lane_distance(const as_thread* thread, as_i64 lane) {
    return lane < 0 || lane >= AS_WARP_SIZE ? AS_WARP_SIZE : (int)(thread->as_linear % AS_WARP_SIZE) ^ (int)lane;
}

static inline void as_enter_iteration(as_thread* thread, int depth, as_i64 value) {
    unsigned outer = thread->as_iteration[depth];
    thread->as_iteration[depth + 1] = thread->as_block_state->iteration(thread, outer, value);
}

#define AS_PLACE(site, buffer) as_place(#buffer, __LINE__, site, AS_SITE_DEPTH(site))

#define AS_FN static inline
#define KERNEL(name, ...) void as_kernel::name
#define GLOBAL_IN(T, name, count) as_global_in<T, count> name
#define GLOBAL_OUT(T, name, count) as_global_out<T, count> name
#define SCALAR(T, name) const T name
#define SHARED(T, name, count, byte_offset) as_shared_view<T, count, byte_offset> name(this, #name, __LINE__)
#define WARP_SHARED(T, name, count, byte_offset, slice_bytes) \
    as_shared_view<T, count, byte_offset, slice_bytes> name(this, #name, __LINE__)
#define REGISTER(T, name, count) as_register_array<T, count> name
#define LOAD(site, buffer, index) (buffer).as_load(this, index, AS_PLACE(site, buffer))
#define STORE(site, buffer, index, value) (buffer).as_store(this, index, value, AS_PLACE(site, buffer))
#define LOAD_VECTOR(site, T, n, buffer, index) (buffer).template as_load_vector<n>(this, index, AS_PLACE(site, buffer))
#define STORE_VECTOR(site, T, n, buffer, index, ...) \
    (buffer).template as_store_vector<n>(this, index, as_vector_of<T>(__VA_ARGS__), AS_PLACE(site, buffer))
#define COPY(load_site, store_site, T, n, target, source, target_index, source_index) \
    as_begin_copy<T, n>( \
        this, target, source, target_index, source_index, AS_PLACE(store_site, target), AS_PLACE(load_site, source))
#define AS_ATOMIC_OP(site, T, buffer, index, value, combined) \
    (buffer).template as_atomic<T>( \
        this, index, (T)(value), AS_PLACE(site, buffer), [](T a, T b) -> T { return combined; })
#define ATOMIC_ADD(site, T, buffer, index, value) AS_ATOMIC_OP(site, T, buffer, index, value, a + b)
#define ATOMIC_MIN(site, T, buffer, index, value) AS_ATOMIC_OP(site, T, buffer, index, value, a < b ? a : b)
#define ATOMIC_MAX(site, T, buffer, index, value) AS_ATOMIC_OP(site, T, buffer, index, value, a < b ? b : a)
#define ATOMIC_AND(site, T, buffer, index, value) AS_ATOMIC_OP(site, T, buffer, index, value, a & b)
#define ATOMIC_OR(site, T, buffer, index, value) AS_ATOMIC_OP(site, T, buffer, index, value, a | b)
#define ATOMIC_XOR(site, T, buffer, index, value) AS_ATOMIC_OP(site, T, buffer, index, value, a ^ b)
#define SHUFFLE(T, value, distance, lanes) as_shuffled<T>(this, (T)(value), distance, lanes, __COUNTER__, __LINE__)
#define SHUFFLE_LANE(T, value, lane, lanes) \
    as_shuffled<T>(this, (T)(value), as_lane_distance(this, lane), lanes, __COUNTER__, __LINE__)
#define GIVEN(site, buffer, index) (buffer).as_give(this, index, AS_PLACE(site, buffer))
#define LANES(width) (((1u << width) - 1u) << (this->as_linear % AS_WARP_SIZE & ~(width - 1u)))
#define WAIT_FOR_COPIES() as_wait_for_copies(this)
#define BARRIER() this->as_block_state->barrier(this, __COUNTER__, __LINE__)
#define WARP_BARRIER(lanes) this->as_block_state->warp_barrier(this, lanes, __COUNTER__, __LINE__)
#define UNROLL
#define ROLLED
#if AS_TRACED
#define ITER(depth, value) as_enter_iteration(this, depth, value)
#else
#define ITER(depth, value) ((void)0)
#endif
