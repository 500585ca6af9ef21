"""The passes over kernel IR, in the order in which they run.

`autosched.lower.lower_kernel` emits the IR of a kernel and partitions it (`partition_interior`). The passes below then
prepare it for one printer. `print_cuda` and `print_c` run the list first; the printers themselves run no passes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from autosched.lower.ir import KernelIR
from autosched.lower.passes.coalesce_accesses import coalesce_accesses
from autosched.lower.passes.cpu.expand_private_arrays import expand_private_arrays
from autosched.lower.passes.cpu.lower_thread_nests import lower_thread_nests
from autosched.lower.passes.insert_async_copies import insert_async_copies
from autosched.lower.passes.promote_integers import promote_integers
from autosched.lower.verify import verify

KernelPass = Callable[[KernelIR], KernelIR]

CUDA_PASSES: tuple[KernelPass, ...] = (
    coalesce_accesses,
    insert_async_copies,
    promote_integers,
)
"""Passes before `autosched.codegen.cuda`."""

CPU_PASSES: tuple[KernelPass, ...] = (
    expand_private_arrays,
    lower_thread_nests,
)
"""Passes before `autosched.codegen.c`.

`lower_thread_nests` calls the rewrites of loops in the order that its docstring gives. They do not run
over the whole kernel one by one, because they share one `Namer` in the order of the text, on which names depend.
"""

CPU_PASSES_WITHOUT_WORKAROUNDS: tuple[KernelPass, ...] = (
    expand_private_arrays,
    partial(lower_thread_nests, guarded=False),
)
"""The same without compiler workarounds, for texts that are only compared."""

NOT_VERIFIED = frozenset({lower_thread_nests})
"""Passes whose result has no thread nests, for which `verify` has no invariants."""


def run_passes(kernel: KernelIR, passes: Sequence[KernelPass], *, check: bool = False) -> KernelIR:
    """Return the result of passes applied in order.

    Args:
        kernel: A verified kernel.
        passes: `CUDA_PASSES` or `CPU_PASSES`.
        check: Whether `verify` runs after each pass, as in tests. Otherwise only the results of `lower_kernel` and
            `coalesce_accesses` are verified, because a search lowers thousands of kernels.

    Raises:
        CompileError: An internal error: a pass violated an invariant of the IR.
    """
    for run in passes:
        kernel = run(kernel)
        if check and run not in NOT_VERIFIED:
            verify(kernel)
    return kernel
