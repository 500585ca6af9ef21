"""A whole pipeline: its kernels in order, the arrays between them, one workspace for the intermediates."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.analysis.identifiers import Namer, avoid_reserved
from autosched.lower.global_layout import GlobalArray, global_arrays
from autosched.lower.ir import KernelIR, SharedSlot
from autosched.lower.lower_kernel import Arrays, lower_kernel
from autosched.schedule.kernel import vector_access as rules
from autosched.schedule.kernel.memory_layout import workspace_layout
from autosched.schedule.rewrites import apply_rewrites
from autosched.schedule.types import Schedule


@dataclass(frozen=True)
class ProgramLayout:
    """A scheduled pipeline before its kernels are lowered: what they are called, and the arrays between them.

    ``labels`` name the kernels; ``arrays`` are in global memory; ``inputs`` and ``outputs`` give the caller's arrays in
    order, under their public names; ``workspace`` places the intermediate buffers in ``workspace_bytes`` of scratch
    memory.
    """

    bound: BoundPipeline
    schedule: Schedule
    labels: tuple[str, ...]
    arrays: Arrays
    inputs: Mapping[str, GlobalArray]
    outputs: Mapping[str, GlobalArray]
    workspace: tuple[SharedSlot, ...]
    workspace_bytes: int
    names: Mapping[str, str]


@dataclass(frozen=True)
class Program(ProgramLayout):
    """Everything a backend needs to compile and run a scheduled pipeline."""

    kernels: tuple[KernelIR, ...]

    def without_vectors(self) -> Program:
        """Return the same for arrays of any alignment: kernels that access one element at a time."""
        return replace(self, kernels=tuple(replace(k, vectors=False) for k in self.kernels))


def lower(
    bound: BoundPipeline, schedule: Schedule, *, split_interior: bool = True, vectors: bool | None = None
) -> Program:
    """Lower a validated schedule.

    Args:
        bound: The pipeline with its shapes.
        schedule: A schedule that `autosched.schedule.legality.validate.validate` accepts for it.
        split_interior: Whether kernels get a separate body for blocks that need no clamps and guards.
        vectors: Whether the CUDA code of kernels joins a thread's accesses to neighbouring elements; as
            `autosched.schedule.kernel.vector_access.VECTORS` says when left out.
    """
    found = outline(bound, schedule)
    numbers = range(len(schedule.kernels))
    kernels = [lower_kernel_of(found, number, split_interior=split_interior, vectors=vectors) for number in numbers]
    return Program(**vars(found), kernels=tuple(kernels))


def outline(bound: BoundPipeline, schedule: Schedule) -> ProgramLayout:
    """Return what can be said of a validated schedule's program before its kernels are lowered; see `lower`."""
    bound = apply_rewrites(bound, schedule)
    names = bound.identifiers
    stored = schedule.materialised | {n for n in bound.outputs.values() if 0 in bound.funcs[n].extents}
    arrays = global_arrays(bound, names, [n for n in bound.funcs if n in stored])
    namer = Namer()
    roots = ("_".join(names[f] for f in k.root_funcs) for k in schedule.kernels)
    placed, size = workspace_layout(bound, schedule)
    return ProgramLayout(
        bound=bound,
        schedule=schedule,
        labels=tuple(namer(avoid_reserved(f"{bound.pipeline.name}_{funcs}")[:80]) for funcs in roots),
        arrays=arrays,
        inputs={n: arrays[n, 0] for n in bound.inputs},
        outputs={name: arrays[func, component] for name, func, component in bound.output_components},
        workspace=tuple(SharedSlot(arrays[key].buffer, p.offset) for key, p in placed.items()),
        workspace_bytes=size,
        names=names,
    )


def lower_kernel_of(
    of: ProgramLayout, number: int, *, split_interior: bool = True, vectors: bool | None = None
) -> KernelIR:
    """Return one kernel of a program, lowered; see `lower`.

    Its code depends on nothing else of the schedule but reductions in pieces and outputs together, so that schedules
    that share kernels need not lower each by itself.
    """
    kernel, label = of.schedule.kernels[number], of.labels[number]
    found = lower_kernel(of.bound, kernel, label, of.arrays, of.names, split_interior=split_interior)
    return replace(found, vectors=rules.VECTORS if vectors is None else vectors)
