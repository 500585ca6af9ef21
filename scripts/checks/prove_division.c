// Compares a division by a constant with the processor's own. The scalar prelude comes before this text, and
//
//     #define QUOTIENT(x) ...    the expression that generated code has for x / divisor, or one of any divisor

enum { BLOCK = 1 << 16 };  // dividends that are compared at a time

enum dividends {
    EVERY,    // all 2**32 floats, in blocks 0 to 65535
    SAMPLED,  // 2**24 of them, every exponent as often, in blocks 0 to 255
    EDGES,    // the 128 around each power of two, zero, infinity, of either sign: block 0
};

static inline unsigned dividend_bits(enum dividends kind, unsigned number) {
    if (kind == EVERY) return number;
    if (kind == SAMPLED) return number << 8 | (as_hash_u32(number) & 255);
    return (number >> 7 << 23) + (number & 127) - 64;
}

// Both are NaN, or have the same bits.
static inline bool agree(float a, float b) {
    return ((a != a) & (b != b)) | (as_bits_f32(a) == as_bits_f32(b));
}

// The divisor is no literal here: nothing but a division can come of it.
static inline bool is_wrong(unsigned bits, float divisor) {
    const float x = as_from_bits_f32(bits);
    return !agree(QUOTIENT(x), x / divisor);
}

static inline unsigned count_wrong(enum dividends kind, unsigned block, float divisor) {
    unsigned wrong = 0;
#pragma omp simd reduction(+ : wrong)
    for (unsigned i = 0; i < BLOCK; i++) wrong += is_wrong(dividend_bits(kind, block * BLOCK + i), divisor);
    return wrong;
}

// Compare the blocks [first, first + blocks); return how many quotients differ, and one such dividend.
long long check_dividends(enum dividends kind, unsigned first, unsigned blocks, float divisor, float* example) {
    long long wrong = 0;
#pragma omp parallel for schedule(static) reduction(+ : wrong)
    for (unsigned block = first; block < first + blocks; block++) {
        const unsigned found = kind == EVERY     ? count_wrong(EVERY, block, divisor)
                               : kind == SAMPLED ? count_wrong(SAMPLED, block, divisor)
                                                 : count_wrong(EDGES, block, divisor);
        if (found) {
            wrong += found;
            for (unsigned i = 0; i < BLOCK; i++) {
                const unsigned bits = dividend_bits(kind, block * BLOCK + i);
                if (is_wrong(bits, divisor)) {
#pragma omp atomic write
                    *example = as_from_bits_f32(bits);
                }
            }
        }
    }
    return wrong;
}

// The inverse of an odd number modulo 2**32: each of Newton's steps doubles the digits that are right.
static inline unsigned inverse(unsigned odd) {
    unsigned result = odd;
    for (int step = 0; step < 4; step++) result *= 2 - odd * result;
    return result;
}

// Check the dividends whose quotient by C is nearest to the midpoint N / 2 of two floats, N odd:
// 2**shift X = N C + k with a small k. C has `zeros` trailing zero bits, and so has k.
static long long check_midpoints(unsigned C, int zeros, int shift, int k, long long* checked) {
    const float divisor = (float)C;
    const unsigned period = 1u << (shift - zeros);
    const unsigned residue = (0u - (unsigned)(k / (1 << zeros)) * inverse(C >> zeros)) & (period - 1);
    const unsigned below = residue < 1u << 24 ? ((1u << 24) - residue + period - 1) / period : 0;
    long long wrong = 0;
    for (unsigned N = residue + below * period; N < 1u << 25; N += period) {
        const unsigned X = (unsigned)(((long long)N * C + k) >> shift);
        if (X < 1u << 23 || X >= 1u << 24 || (X < C) != (shift == 25)) continue;
        const float x = (float)X;
        wrong += !agree(QUOTIENT(x), x / divisor);
        *checked += 1;
    }
    return wrong;
}

// Check the hardest dividends of the divisors [first, last); returns how many quotients differ.
long long check_hardest(unsigned first, unsigned last, int reach, long long* checked) {
    long long wrong = 0, total = 0;
#pragma omp parallel for schedule(static) reduction(+ : wrong, total)
    for (unsigned C = first; C < last; C++) {
        const int zeros = __builtin_ctz(C), step = 1 << zeros;
        if (step > reach) continue;  // the quotients keep farther from every midpoint
        for (int k = step; k <= reach; k += 2 * step) {
            for (int shift = 24; shift <= 25; shift++) {
                wrong += check_midpoints(C, zeros, shift, k, &total);
                wrong += check_midpoints(C, zeros, shift, -k, &total);
            }
        }
    }
    *checked = total;
    return wrong;
}
