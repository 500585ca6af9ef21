// The emulator's runtime: runs the blocks of one launch on a few workers. Compiled once as a shared
// library after abi.h, fibers.h and trace.h.

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <system_error>
#include <thread>

struct as_error {
    int kind, line, other_line;
    as_i64 index;
    unsigned block[3], thread[3], other_thread[3];
    int has_other;  // other_thread (of the same block) is known
    char buffer[64];
};

// Mirrored by native.py.
struct as_launch {
    as_entry_function entry;
    void* const* arguments;
    unsigned grid[3], block[3];
    as_u64 shared_bytes, seed, stack_bytes;
    const as_u64* blocks;  // linear indices of the blocks to run
    as_u64 block_count;
    const as_u64* written_counts;  // by parameter: its number of elements where it is written, else 0
    int parameter_count, workers, use_fibers, single_writer, granule, site_count;
    as_i64 *site_counts, *parameter_counts;  // null unless traced
    as_u64 *barriers, *warp_barriers, *shuffles;
    as_error* error;
};

struct FreeDeleter {
    void operator()(void* memory) const { free(memory); }
};

template <class T>
static std::unique_ptr<T, FreeDeleter> allocate_zeroed(size_t count) {
    // Untouched pages of calloc cost nothing, so shadows of large buffers are cheap where few blocks run.
    T* memory = (T*)calloc(count ? count : 1, sizeof(T));
    if (!memory) throw std::bad_alloc();
    return std::unique_ptr<T, FreeDeleter>(memory);
}

class Launch {
public:
    explicit Launch(const as_launch& arguments) : args(arguments) {
        for (int i = 0; i < args.parameter_count; i++) {
            shadows_.push_back(args.written_counts[i] ? allocate_zeroed<as_cell>(args.written_counts[i]) : nullptr);
            global_cells.push_back(shadows_.back().get());
        }
    }

    // The position in args.blocks of the next block to run; false when none is left. After an error only
    // earlier blocks are of interest, and those have all been handed out.
    bool next(as_u64& position) {
        position = next_++;
        return position < args.block_count && !failed_;
    }

    // Keep the error of the earliest block, so that what is reported does not depend on the workers.
    void report(as_u64 position, const as_error& error) {
        std::lock_guard<std::mutex> lock(mutex_);
        if (!failed_ || position < error_position_) {
            *args.error = error;
            error_position_ = position;
        }
        failed_ = true;
    }

    const as_launch& args;
    std::vector<as_cell*> global_cells;

private:
    std::vector<std::unique_ptr<as_cell, FreeDeleter>> shadows_;
    std::atomic<as_u64> next_{0};
    std::atomic<bool> failed_{false};
    as_u64 error_position_ = 0;
    std::mutex mutex_;
};

// Runs blocks one after another on one processor. It is the as_block of all of them.
class Worker : as_block {
public:
    explicit Worker(Launch& launch)
        : launch_(launch), args_(launch.args), threads_(args_.block[0] * args_.block[1] * args_.block[2]),
          trace_(args_.site_count, args_.parameter_count, (threads_.size() + AS_WARP_SIZE - 1) / AS_WARP_SIZE),
          order_(threads_.size()), arrivals_(threads_.size()), distances_(threads_.size()) {
        shared_bytes = args_.shared_bytes;
        // Real shared memory is aligned to more than any element; malloc's 16 bytes are enough here.
        shared_memory_ = allocate_zeroed<unsigned char>(shared_bytes);
        shadow_ = allocate_zeroed<as_cell>(shared_bytes / args_.granule + 1);
        shared = shared_memory_.get();
        shared_cells = shadow_.get();
        global_cells = launch.global_cells.data();
        single_writer = args_.single_writer;
        epoch = first_epoch = since = 1;
        barrier = on_barrier;
        as_block::warp_barrier = on_warp_barrier;
        as_block::shuffle = on_shuffle;
        fail = on_fail;
        record = on_record;
        iteration = on_iteration;
        for (unsigned i = 0; i < threads_.size(); i++) {
            as_thread& thread = threads_[i];
            thread.threadIdx = {i % args_.block[0], i / args_.block[0] % args_.block[1],
                                i / args_.block[0] / args_.block[1]};
            thread.as_block_state = this;
            thread.as_linear = i;
            memset(thread.as_iteration, 0, sizeof thread.as_iteration);
            thread.as_copies = nullptr;
            thread.as_copies_begun = thread.as_copies_room = 0;
        }
    }

    ~Worker() {
        for (as_thread& thread : threads_) free(thread.as_copies);
    }

    Worker(const Worker&) = delete;
    Worker& operator=(const Worker&) = delete;

    void run() {
        try {
            if (args_.use_fibers)
                fibers_.reset(new FiberPool((unsigned)threads_.size(), args_.stack_bytes, run_thread, this));
            while (!failed_ && launch_.next(position_)) {
                start_block(args_.blocks[position_]);
                if (fibers_)
                    run_fibers();
                else
                    run_loop();
                if (!failed_ && args_.site_counts) trace_.end_block();
                epoch++;
            }
        } catch (const std::bad_alloc&) {
            fail_block(threads_[0], AS_OUT_OF_MEMORY, "", -1, 0, -1);
        }
    }

    TraceCollector& trace() { return trace_; }
    as_u64 barriers_passed() const { return barriers_passed_; }
    as_u64 warp_barriers_passed() const { return warp_barriers_passed_; }
    as_u64 lanes_shuffled() const { return lanes_shuffled_; }

private:
    // Where a thread stands: the id of a barrier or shuffle, or one of these. Those at a shuffle or at a barrier of their
    // warp wait for `lanes`.
    enum { RUNNING = -1, ENDED = -2 };
    enum : unsigned { NOBODY = ~0u };
    struct Arrival {
        int barrier, line;
        unsigned lanes;
        bool exchanges;  // lanes at a shuffle
    };

    void start_block(as_u64 linear_block) {
        linear = linear_block;
        first_epoch = since = epoch;
        as_dim3 index = {(unsigned)(linear % args_.grid[0]), (unsigned)(linear / args_.grid[0] % args_.grid[1]),
                         (unsigned)(linear / args_.grid[0] / args_.grid[1])};
        for (as_thread& thread : threads_) {
            thread.blockIdx = index;
            thread.as_copies_begun = 0;
            thread.as_since = epoch;
        }
        random_ = args_.seed + linear * 0xd1342543de82ef95;
    }

    // Without a barrier a thread can run from start to end on the worker's own stack.
    void run_loop() {
        start_order(order_);
        if (_setjmp(abandon_)) return;
        for (next_thread_ = 0; next_thread_ < order_.size();)
            args_.entry(&threads_[order_[next_thread_++]], args_.arguments);
    }

    void run_fibers() {
        for (Arrival& arrival : arrivals_) arrival = {RUNNING, 0, 0, false};
        start_order(fibers_->order());
        for (;; shuffle(fibers_->order())) {
            fibers_->run_round();
            if (failed_ || lanes_go_on(fibers_->order())) {
                if (failed_) return;
                continue;
            }
            const Arrival& first = arrivals_[0];
            for (unsigned i = 1; i < arrivals_.size(); i++)
                if (arrivals_[i].barrier != first.barrier) {
                    unsigned waiting = first.barrier == ENDED ? i : 0, other = i - waiting;
                    fail_block(threads_[waiting], AS_DIVERGENT_BARRIER, "", -1, arrivals_[waiting].line, (int)other);
                    return;
                }
            if (first.barrier == ENDED) return;
            barriers_passed_++;
            begin_epoch(0);
            if (failed_) return;
            since = epoch;
            for (as_thread& thread : threads_) thread.as_since = epoch;
            if (args_.site_counts) trace_.end_interval();
        }
    }

    // A thread's accesses from now on are after a barrier.
    void begin_epoch(unsigned thread) {
        if (++epoch - first_epoch >= 1 << 24)
            fail_block(threads_[thread], AS_TOO_MANY_BARRIERS, "", -1, arrivals_[thread].line, -1);
    }

    // Let lanes go on of which all have come to one shuffle or barrier of their warp, and return whether there are any.
    // The others wait; where nobody goes on and some wait, they wait for a lane that will never come.
    bool lanes_go_on(std::vector<unsigned>& order) {
        bool waiting = false;
        for (const Arrival& arrival : arrivals_) waiting |= arrival.lanes != 0;
        if (!waiting) {
            if (order.size() < threads_.size()) every_thread(order);
            return false;
        }
        order.clear();
        for (unsigned i = 0; i < arrivals_.size(); i++)
            if (arrivals_[i].lanes && absent_lane(i) == NOBODY) arrivals_[i].exchanges ? exchange(i, order) : pass(i, order);
        if (!order.empty()) return true;
        for (unsigned i = 0; i < arrivals_.size() && !failed_; i++)
            if (arrivals_[i].lanes) fail_lanes(i, absent_lane(i));
        return true;
    }

    // The first thread that a thread waits for and that is not there with the same lanes.
    unsigned absent_lane(unsigned thread) const {
        const Arrival& mine = arrivals_[thread];
        unsigned warp = thread / AS_WARP_SIZE * AS_WARP_SIZE;
        for (unsigned i = warp; i < warp + AS_WARP_SIZE; i++) {
            if (!(mine.lanes >> (i - warp) & 1)) continue;
            if (i >= arrivals_.size() || arrivals_[i].barrier != mine.barrier || arrivals_[i].lanes != mine.lanes) return i;
        }
        return NOBODY;
    }

    void exchange(unsigned thread, std::vector<unsigned>& order) {
        unsigned lanes = arrivals_[thread].lanes, warp = thread / AS_WARP_SIZE * AS_WARP_SIZE;
        for (unsigned lane = 0; lane < AS_WARP_SIZE; lane++) {
            if (!(lanes >> lane & 1)) continue;
            as_thread& to = threads_[warp + lane];
            to.as_received = threads_[warp + (lane ^ distances_[warp + lane])].as_given;
            arrivals_[warp + lane] = {RUNNING, 0, 0, false};
            order.push_back(warp + lane);
            lanes_shuffled_++;
        }
    }

    // All threads of a warp go on after its barrier, which is one of the block if that has no other warp.
    void pass(unsigned thread, std::vector<unsigned>& order) {
        unsigned warp = thread / AS_WARP_SIZE * AS_WARP_SIZE, end = warp_end(warp);
        warp_barriers_passed_++;
        begin_epoch(thread);
        if (threads_.size() <= AS_WARP_SIZE) {
            since = epoch;
            if (args_.site_counts) trace_.end_interval();
        }
        for (unsigned i = warp; i < end; i++) {
            threads_[i].as_since = epoch;
            arrivals_[i] = {RUNNING, 0, 0, false};
            order.push_back(i);
        }
    }

    unsigned warp_end(unsigned warp) const { return std::min<unsigned>(warp + AS_WARP_SIZE, threads_.size()); }

    void fail_lanes(unsigned thread, unsigned absent) {
        int other = absent < threads_.size() ? (int)absent : -1;
        int kind = arrivals_[thread].exchanges ? AS_ABSENT_LANE : AS_DIVERGENT_BARRIER;
        fail_block(threads_[thread], kind, "", -1, arrivals_[thread].line, other);
    }

    // From the same permutation in every block, so that the order follows from seed and block alone.
    void start_order(std::vector<unsigned>& order) {
        every_thread(order);
        shuffle(order);
    }

    void every_thread(std::vector<unsigned>& order) {
        order.resize(threads_.size());
        for (unsigned i = 0; i < order.size(); i++) order[i] = i;
    }

    void shuffle(std::vector<unsigned>& order) {
        for (unsigned i = (unsigned)order.size(); i > 1; i--) std::swap(order[i - 1], order[random() % i]);
    }

    // splitmix64: any seed is a good one.
    as_u64 random() {
        as_u64 z = random_ += 0x9e3779b97f4a7c15;
        z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
        z = (z ^ z >> 27) * 0x94d049bb133111eb;
        return (z ^ z >> 31) >> 32;
    }

    static void run_thread(void* owner, unsigned i) {
        Worker* worker = (Worker*)owner;
        worker->args_.entry(&worker->threads_[i], worker->args_.arguments);
        worker->arrivals_[i] = {ENDED, 0, 0, false};
    }

    static Worker* of(as_thread* thread) { return static_cast<Worker*>(thread->as_block_state); }

    static void on_barrier(as_thread* thread, int id, int line) {
        Worker* worker = of(thread);
        worker->arrivals_[thread->as_linear] = {id, line, 0, false};
        worker->fibers_->wait(thread->as_linear);
    }

    // The lanes are all threads of the warp: those that are missing in `lanes` would not wait.
    static void on_warp_barrier(as_thread* thread, unsigned lanes, int id, int line) {
        Worker* worker = of(thread);
        unsigned self = thread->as_linear, warp = self / AS_WARP_SIZE * AS_WARP_SIZE;
        for (unsigned i = warp; i < worker->warp_end(warp); i++)
            if (!(lanes >> (i - warp) & 1)) on_fail(thread, AS_DIVERGENT_BARRIER, "", -1, line, (int)i);
        worker->arrivals_[self] = {id, line, lanes, false};
        worker->fibers_->wait(self);
    }

    static void on_shuffle(as_thread* thread, unsigned lanes, int distance, int id, int line) {
        Worker* worker = of(thread);
        unsigned self = thread->as_linear, lane = self % AS_WARP_SIZE, other = lane ^ (unsigned)distance;
        if (other >= AS_WARP_SIZE || !(lanes >> lane & 1) || !(lanes >> other & 1))
            on_fail(thread, AS_ABSENT_LANE, "", -1, line, -1);
        worker->arrivals_[self] = {id, line, lanes, true};
        worker->distances_[self] = (unsigned)distance;
        worker->fibers_->wait(self);
    }

    // As part of the type, which clang asks of a function that the pointer may hold.
    __attribute__((noreturn)) static void on_fail(
        as_thread* thread, int kind, const char* buffer, as_i64 index, int line, int other) {
        Worker* worker = of(thread);
        worker->fail_block(*thread, kind, buffer, index, line, other);
        if (worker->fibers_) worker->fibers_->give_up();
        _longjmp(worker->abandon_, 1);
    }

    static void on_record(as_thread* thread, int site, int depth, int space, int parameter, int bytes, as_i64 element,
                          int length) {
        Worker* worker = of(thread);
        bool stored = true;
        try {
            worker->trace_.record(
                thread->as_linear, site, thread->as_iteration[depth], space, parameter, bytes, element, length);
        } catch (const std::bad_alloc&) {
            stored = false;  // no exception may leave a fiber, nor a jump its handler
        }
        if (!stored) on_fail(thread, AS_OUT_OF_MEMORY, "", -1, 0, -1);
    }

    static unsigned on_iteration(as_thread* thread, unsigned outer, as_i64 value) {
        unsigned id = 0;
        try {
            id = of(thread)->trace_.iteration(outer, value);
        } catch (const std::bad_alloc&) {
        }
        if (id == 0) on_fail(thread, AS_OUT_OF_MEMORY, "", -1, 0, -1);
        return id;
    }

    void fail_block(const as_thread& thread, int kind, const char* buffer, as_i64 index, int line, int other) {
        failed_ = true;
        as_error error;
        memset(&error, 0, sizeof error);
        error.kind = kind;
        error.line = line;
        error.index = index;
        memcpy(error.block, &thread.blockIdx, sizeof error.block);
        memcpy(error.thread, &thread.threadIdx, sizeof error.thread);
        if (other >= 0) {
            error.has_other = 1;
            error.other_line = arrivals_[other].line;
            memcpy(error.other_thread, &threads_[other].threadIdx, sizeof error.other_thread);
        }
        strncpy(error.buffer, buffer, sizeof error.buffer - 1);
        launch_.report(position_, error);
    }

    Launch& launch_;
    const as_launch& args_;
    std::vector<as_thread> threads_;
    TraceCollector trace_;
    std::vector<unsigned> order_;
    std::vector<Arrival> arrivals_;
    std::vector<unsigned> distances_;  // between lanes, of the shuffle where a thread waits
    std::unique_ptr<unsigned char, FreeDeleter> shared_memory_;
    std::unique_ptr<as_cell, FreeDeleter> shadow_;
    std::unique_ptr<FiberPool> fibers_;
    jmp_buf abandon_;
    as_u64 random_ = 0, position_ = 0, barriers_passed_ = 0, warp_barriers_passed_ = 0, lanes_shuffled_ = 0;
    size_t next_thread_ = 0;
    bool failed_ = false;
};

// Returns 0, or the kind of the error described in *launch->error.
extern "C" __attribute__((visibility("default"))) int as_emulator_launch(const as_launch* arguments) {
    arguments->error->kind = AS_NO_ERROR;
    try {
        Launch launch(*arguments);
        std::vector<std::unique_ptr<Worker>> workers;
        for (int i = 0; i < arguments->workers; i++) workers.emplace_back(new Worker(launch));
        std::vector<std::thread> threads;
        try {
            for (size_t i = 1; i < workers.size(); i++) threads.emplace_back(&Worker::run, workers[i].get());
        } catch (const std::system_error&) {
            // Blocks are handed out one by one, so fewer workers do the same work.
        }
        workers[0]->run();
        for (std::thread& thread : threads) thread.join();
        TraceCollector& trace = workers[0]->trace();
        for (size_t i = 0; i < workers.size(); i++) {
            *arguments->barriers += workers[i]->barriers_passed();
            *arguments->warp_barriers += workers[i]->warp_barriers_passed();
            *arguments->shuffles += workers[i]->lanes_shuffled();
            if (i > 0) trace.merge(workers[i]->trace());
        }
        if (arguments->site_counts) trace.write(arguments->site_counts, arguments->parameter_counts);
    } catch (const std::exception&) {
        arguments->error->kind = AS_OUT_OF_MEMORY;
    }
    return arguments->error->kind;
}
