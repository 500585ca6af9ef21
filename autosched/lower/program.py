"""A whole pipeline: its kernels in order, the arrays they pass to each other, and one workspace for the intermediates."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from autosched.analysis.bound import BoundPipeline
from autosched.lower.ir import KernelIR, Slot
from autosched.lower.kernel import lower_kernel
from autosched.lower.layout import GlobalArray, global_arrays
from autosched.schedule.placement import Placed, place
from autosched.schedule.plan import Namer
from autosched.schedule.types import Level, Schedule

WORKSPACE_ALIGN = 256

C_WORDS = frozenset(
    """auto bool break case catch char class const constexpr continue default delete do double else enum explicit export
    extern false float for friend goto if inline int long mutable namespace new operator private protected public
    register restrict return short signed sizeof static struct switch template this throw true try typedef typename
    typeid union unsigned using virtual void volatile wchar_t while asm and or not xor bitand bitor compl and_eq or_eq
    xor_eq not_eq main min max abs exp log sin cos tan pow sqrt floor ceil round trunc fmod threadIdx blockIdx blockDim
    gridDim warpSize KERNEL GLOBAL_IN GLOBAL_OUT SCALAR SHARED REGISTER LOAD STORE BARRIER ITER UNROLL""".split()
)
"""Names that generated code may not use for the user's things."""


@dataclass(frozen=True)
class Program:
    """Everything a backend needs to compile and run a scheduled pipeline.

    ``inputs`` and ``outputs`` give the caller's arrays in order, under their public names; ``workspace`` places the
    intermediate buffers in ``workspace_bytes`` of scratch memory.
    """

    bound: BoundPipeline
    schedule: Schedule
    kernels: tuple[KernelIR, ...]
    inputs: Mapping[str, GlobalArray]
    outputs: Mapping[str, GlobalArray]
    workspace: tuple[Slot, ...]
    workspace_bytes: int
    names: Mapping[str, str]


def lower(bound: BoundPipeline, schedule: Schedule, *, split_interior: bool = True) -> Program:
    """Lower a validated schedule.

    Args:
        bound: The pipeline with its shapes.
        schedule: A schedule that `autosched.schedule.validate.validate` accepts for it.
        split_interior: Whether kernels get a separate body for blocks that need no clamps and guards.
    """
    names = identifiers(bound)
    levels = schedule.computed
    roots = [n for n in bound.funcs if levels.get(n) is Level.ROOT]
    arrays = global_arrays(bound, names, roots)
    namer = Namer()
    kernels = []
    for k in schedule.kernels:
        label = namer(f"{bound.pipeline.name}_{'_'.join(names[f] for f in k.root_funcs)}"[:80])
        kernels.append(lower_kernel(bound, k, label, arrays, names, split_interior=split_interior))
    slots, size = _place_workspace(arrays, kernels)
    outputs: dict[str, GlobalArray] = {}
    for public, func in bound.outputs.items():
        count = len(bound.funcs[func].dtypes)
        for c in range(count):
            outputs[public if count == 1 else f"{public}_{c}"] = arrays[func, c]
    return Program(
        bound=bound, schedule=schedule, kernels=tuple(kernels), inputs={n: arrays[n, 0] for n in bound.inputs},
        outputs=outputs, workspace=slots, workspace_bytes=size, names=names,
    )  # fmt: skip


def identifiers(bound: BoundPipeline) -> dict[str, str]:
    """Return a C identifier for every input, Func and scalar parameter, close to the user's name."""
    namer = Namer(C_WORDS)
    sources = (*bound.inputs, *bound.funcs, *(p.name for p in bound.scalars))
    return {name: namer(name if not name.startswith(("as_", "_")) else f"u{name}") for name in sources}


def _place_workspace(
    arrays: Mapping[tuple[str, int], GlobalArray], kernels: list[KernelIR]
) -> tuple[tuple[Slot, ...], int]:
    lifetimes: dict[str, tuple[int, int]] = {}
    for k, kernel in enumerate(kernels):
        for b in (*kernel.reads, *kernel.writes):
            first, _ = lifetimes.get(b.name, (k, k))
            lifetimes[b.name] = (first, k)
    buffers = {a.buffer.name: a.buffer for a in arrays.values() if a.role == "workspace"}
    requests = [
        Placed(n, b.count * b.dtype.bytes_, *lifetimes[n]) for n, b in buffers.items() if n in lifetimes
    ]
    placed, total = place(requests, WORKSPACE_ALIGN)
    return tuple(Slot(buffers[p.name], p.offset) for p in placed), total
