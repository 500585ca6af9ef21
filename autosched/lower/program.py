"""A whole pipeline: its kernels in order, the arrays between them, one workspace for the intermediates."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from autosched.analysis.bound import BoundPipeline
from autosched.analysis.naming import Namer, unreserved
from autosched.lower.ir import KernelIR, Slot
from autosched.lower.kernel import lower_kernel
from autosched.lower.layout import GlobalArray, global_arrays
from autosched.schedule import vectors as rules
from autosched.schedule.placement import workspace_layout
from autosched.schedule.types import Kernel, Schedule
from autosched.schedule.views import as_scheduled


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

    def without_vectors(self) -> Program:
        """Return the same for arrays of any alignment: kernels that access one element at a time."""
        return replace(self, kernels=tuple(replace(k, vectors=False) for k in self.kernels))


Known = Callable[[Kernel, str, Callable[[], KernelIR]], KernelIR]
"""Returns a kernel that was lowered before, by its schedule and name, or what the function given last makes."""


def lower(
    bound: BoundPipeline, schedule: Schedule, *, split_interior: bool = True, vectors: bool | None = None,
    known: Known | None = None,
) -> Program:  # fmt: skip
    """Lower a validated schedule.

    Args:
        bound: The pipeline with its shapes.
        schedule: A schedule that `autosched.schedule.validate.validate` accepts for it.
        split_interior: Whether kernels get a separate body for blocks that need no clamps and guards.
        vectors: Whether the CUDA code of kernels joins a thread's accesses to neighbouring elements; as
            `autosched.schedule.vectors.VECTORS` says when left out.
        known: Returns kernels of other schedules of the same pipeline with the same splits and joins, lowered with the
            same options, where this one shares them, and keeps the others. A kernel's code depends on nothing else of a
            schedule.
    """
    bound = as_scheduled(bound, schedule)
    names = bound.identifiers
    stored = schedule.stored
    arrays = global_arrays(bound, names, [n for n in bound.funcs if n in stored])
    namer = Namer()
    kernels = []
    for k in schedule.kernels:
        label = namer(unreserved(f"{bound.pipeline.name}_{'_'.join(names[f] for f in k.root_funcs)}")[:80])

        def lowered(k: Kernel = k, label: str = label) -> KernelIR:
            kernel = lower_kernel(bound, k, label, arrays, names, split_interior=split_interior)
            return replace(kernel, vectors=rules.VECTORS if vectors is None else vectors)

        kernels.append(lowered() if known is None else known(k, label, lowered))
    placed, size = workspace_layout(bound, schedule)
    outputs: dict[str, GlobalArray] = {}
    for name, func, component in bound.returned:
        outputs[name] = arrays[func, component]
    return Program(
        bound=bound, schedule=schedule, kernels=tuple(kernels), inputs={n: arrays[n, 0] for n in bound.inputs},
        outputs=outputs, workspace=tuple(Slot(arrays[key].buffer, p.offset) for key, p in placed.items()),
        workspace_bytes=size, names=names,
    )  # fmt: skip
