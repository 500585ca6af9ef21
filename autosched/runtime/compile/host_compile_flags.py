"""Compiler flags for generated C: bit-identical results with every compiler, and vectorised lane loops."""

from __future__ import annotations

EVERYWHERE: tuple[str, ...] = (
    "-O3",
    "-march=native",
    "-ffp-contract=off",
    "-fno-math-errno",
    "-fno-trapping-math",
)
"""Options for any compiler; contraction is off, so that results equal the interpreter's bit for bit."""

NO_IVOPTS = "-fno-ivopts"
"""Works around gcc's PR 110702: before 12.4 and 13.3, rewritten addresses may lose their base object, which drops
stores and misdirects masked loads."""

NO_BIT_TESTS = "-fno-bit-tests"
"""Keeps gcc from turning a chain of comparisons with constants into a switch, which it does not vectorise."""
BIT_TESTS = (12, 0)
"""First version of gcc that has the option."""

ALIGNED = "-falign-functions=64"
"""Makes the alignment of a kernel independent of the kernels before it: the time of branchy loops depends on their
alignment."""

GNU: tuple[str, ...] = (
    # gcc 12 interchanges reduction loops that accumulate in memory, which changes the order of float additions.
    "-fno-loop-interchange",
    ALIGNED,
    # Sums stay in registers if all loops inside the reduction are unrolled (as eight points of two vectors); by
    # default gcc unrolls up to 200 instructions. A limit of 800 doubles the compile time of stencils.
    "--param=max-completely-peeled-insns=400",
    # A lane-uniform condition, as in boundary blocks, keeps gcc 12 from vectorising a loop unless the loop is
    # unswitched; by default gcc unswitches loops of at most 50 instructions.
    "--param=max-unswitch-insns=1000",
    # To align accesses to per-thread arrays, gcc peels up to 63 scalar iterations before the vector loop, and as many
    # after it; vectors that cross cache lines cost less.
    "--param=vect-max-peeling-for-alignment=0",
    # Combining three or four instructions rarely succeeds in this code, and the search takes up to half of the compile
    # time of unrolled code.
    "--param=max-combine-insns=2",
    # For a maximum or minimum inside another one, jump threading turns each instruction into several comparisons and
    # blends.
    "-fno-thread-jumps",
)
"""Options for gcc."""


OTHERS: tuple[str, ...] = (
    ALIGNED,
    # clang warns of every loop with a vectorisation pragma that it does not vectorise.
    "-Wno-pass-failed",
)
"""Options for clang and other compilers, which reject gcc's optimisation options."""


def kernel_options(gnu: tuple[int, int] | None) -> tuple[str, ...]:
    """Return the options of generated kernels.

    Args:
        gnu: Version of gcc, major and minor; None for another compiler.
    """
    if gnu is None:
        return (*EVERYWHERE, *OTHERS)
    careful = gnu < (12, 4) or (13, 0) <= gnu < (13, 3)
    return (*EVERYWHERE, *((NO_IVOPTS,) if careful else ()), *((NO_BIT_TESTS,) if gnu >= BIT_TESTS else ()), *GNU)
