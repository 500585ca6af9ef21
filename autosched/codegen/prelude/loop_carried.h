// Ends the body of a loop that carries a dependence: what an iteration stores, a later one reads or stores to. It keeps
// compilers from doing several iterations at once, whatever they make of the addresses; gcc 12 takes some in vectors.
#define CARRIES_DEPENDENCE __asm__ volatile("" : : : "memory")
