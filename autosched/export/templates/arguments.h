// An array as a caller passes it.
typedef struct {
    const void *address;
    size_t bytes, alignment;
    int written;
} as_argument;

// Whether every array is there and aligned, and what is written shares memory with nothing else.
static int as_arguments_fit(const as_argument *arguments, int count) {
    for (int i = 0; i < count; i++) {
        const as_argument a = arguments[i];
        const uintptr_t start = (uintptr_t)a.address;
        if (a.bytes == 0) continue;
        if (start == 0 || start % a.alignment != 0) return 0;
        for (int k = 0; k < i; k++) {
            const as_argument b = arguments[k];
            const uintptr_t other = (uintptr_t)b.address;
            const int shared = b.bytes != 0 && start < other + b.bytes && other < start + a.bytes;
            if (shared && (a.written || b.written)) return 0;
        }
    }
    return 1;
}
