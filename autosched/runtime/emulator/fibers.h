// One fiber for each CUDA thread of a block, reused for every block a worker runs.
//
// A fiber is entered once through ucontext, which gives it its stack, and from then on through
// _setjmp/_longjmp, which unlike swapcontext make no system call. A thread that reaches a barrier jumps
// straight to the next thread of the round; only the last one returns to the scheduler.
//
// No object with a destructor may live on a fiber across a switch, and no exception may leave one.

#include <setjmp.h>
#include <stddef.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include <new>
#include <vector>

class FiberPool {
public:
    typedef void (*Body)(void* owner, unsigned fiber);

    // `body(owner, i)` is run by fiber i each time it is resumed after having finished.
    FiberPool(unsigned count, size_t stack_bytes, Body body, void* owner)
        : body_(body), owner_(owner), fibers_(count), order_(count) {
        size_t page = (size_t)sysconf(_SC_PAGESIZE);
        // An odd number of pages a stack, and tops that differ by a few cache lines: otherwise the hot ends
        // of all stacks fall into the same cache sets. The lowest page of each is a guard.
        size_t pages = (stack_bytes + page - 1) / page + 2;
        stride_ = (pages | 1) * page;
        bytes_ = stride_ * count;
        void* memory = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (memory == MAP_FAILED) throw std::bad_alloc();
        memory_ = (char*)memory;
        for (unsigned i = 0; i < count; i++) {
            char* stack = memory_ + i * stride_;
            if (mprotect(stack, page, PROT_NONE) != 0) {
                munmap(memory_, bytes_);
                throw std::bad_alloc();
            }
            start(i, stack, stride_ - (i % 16) * 192);
        }
    }

    ~FiberPool() { munmap(memory_, bytes_); }
    FiberPool(const FiberPool&) = delete;
    FiberPool& operator=(const FiberPool&) = delete;

    // The order in which the next round resumes the fibers; the scheduler shuffles it.
    std::vector<unsigned>& order() { return order_; }

    // Resume every fiber once; returns when each has finished or waits, or when one gave up.
    void run_round() {
        position_ = 0;
        if (!_setjmp(scheduler_)) resume_next();
    }

    // Called on fiber i: let the others run; returns in the next round.
    void wait(unsigned i) {
        if (!_setjmp(fibers_[i])) resume_next();
    }

    // Called on a fiber: leave it for good and return from run_round. The pool cannot be used after this.
    [[noreturn]] void give_up() { _longjmp(scheduler_, 1); }

private:
    [[noreturn]] void resume_next() {
        if (position_ < order_.size()) _longjmp(fibers_[order_[position_++]], 1);
        _longjmp(scheduler_, 1);
    }

    void start(unsigned i, char* stack, size_t bytes) {
        ucontext_t context;
        if (getcontext(&context) != 0) throw std::bad_alloc();
        context.uc_stack.ss_sp = stack;
        context.uc_stack.ss_size = bytes;
        context.uc_link = nullptr;
        // makecontext passes ints only, so a pointer travels in two.
        unsigned long long self = (unsigned long long)(size_t)this;
        makecontext(&context, (void (*)())main, 3, (unsigned)self, (unsigned)(self >> 32), i);
        if (!_setjmp(scheduler_)) setcontext(&context);
    }

    static void main(unsigned low, unsigned high, unsigned i) {
        FiberPool* pool = (FiberPool*)(size_t)((unsigned long long)high << 32 | low);
        if (!_setjmp(pool->fibers_[i])) _longjmp(pool->scheduler_, 1);
        for (;;) {
            pool->body_(pool->owner_, i);
            pool->wait(i);
        }
    }

    struct Jump {
        jmp_buf buffer;
        operator jmp_buf&() { return buffer; }
    };

    Body body_;
    void* owner_;
    char* memory_ = nullptr;
    size_t stride_ = 0, bytes_ = 0, position_ = 0;
    std::vector<Jump> fibers_;
    std::vector<unsigned> order_;
    jmp_buf scheduler_;
};
