"""What compilers are told of generated C: the same bits everywhere, and vectors where there are lanes."""

from __future__ import annotations

EVERYWHERE: tuple[str, ...] = (
    "-O3",
    "-march=native",
    "-ffp-contract=off",
    "-fno-math-errno",
    "-fno-trapping-math",
)
"""Options for any compiler; contraction is off so that results are the interpreter's, bit for bit."""

NO_IVOPTS = "-fno-ivopts"
"""gcc before 12.4 and 13.3 may rewrite addresses such that it loses track of what they point to (its PR 110702): stores
vanish, masked loads go astray."""

ALIGNED = "-falign-functions=64"
"""Where a kernel begins is then the same whatever kernels come before it: a loop with many branches takes up to a third
longer at one place than at another."""

GNU: tuple[str, ...] = (
    # gcc 12 interchanges reduction loops that accumulate in memory, and so adds floats in another order.
    "-fno-loop-interchange",
    ALIGNED,
    # Sums stay in registers where all loops inside the reduction are unrolled, eight points of two vectors, say; by
    # itself gcc unrolls up to 200 instructions. With 800 stencils take twice as long to compile.
    "--param=max-completely-peeled-insns=400",
    # A condition that is the same in all lanes, as in blocks at a border, keeps gcc 12 from forming vectors unless it
    # is taken out of the loop; by itself gcc does that in loops of at most 50 instructions.
    "--param=max-unswitch-insns=1000",
    # gcc takes up to 63 lanes one by one until an array of Members begins at a multiple of the vectors, and as many at
    # the end; vectors across two lines cost less.
    "--param=vect-max-peeling-for-alignment=0",
    # Three and four instructions that are one are hardly ever found in this code (a few in 100,000), and searching for
    # them takes a tenth of the time of compiling, half of it where much is written out.
    "--param=max-combine-insns=2",
    # What a maximum or minimum inside another one found out gcc takes along as a condition: both are then compared and
    # blended several times over, where each of them is an instruction.
    "-fno-thread-jumps",
)
"""Options for gcc."""


OTHERS: tuple[str, ...] = (
    ALIGNED,
    # clang complains of every loop that it was to take in vectors and has not.
    "-Wno-pass-failed",
)
"""Options for clang and the like, which refuse to be asked for optimisations that they do not know."""


def kernel_options(gnu: tuple[int, int] | None) -> tuple[str, ...]:
    """Return the options of generated kernels.

    Args:
        gnu: Version of gcc, major and minor; None for another compiler.
    """
    if gnu is None:
        return (*EVERYWHERE, *OTHERS)
    careful = gnu < (12, 4) or (13, 0) <= gnu < (13, 3)
    return (*EVERYWHERE, *((NO_IVOPTS,) if careful else ()), *GNU)
