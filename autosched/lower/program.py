"""Lower a scheduled pipeline: kernels in order, the arrays between them, one workspace for intermediates."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.analysis.identifiers import Namer, avoid_reserved
from autosched.lower.global_layout import Arrays, GlobalArray, global_arrays
from autosched.lower.ir import KernelIR, SharedSlot
from autosched.lower.lower_kernel import lower_kernel
from autosched.schedule.kernel import vector_access
from autosched.schedule.kernel.memory_layout import workspace_layout
from autosched.schedule.rewrites import apply_rewrites
from autosched.schedule.types import Schedule


@dataclass(frozen=True)
class ProgramLayout:
    """A scheduled pipeline before its kernels are lowered: names of the kernels, and the arrays between them.

    Attributes:
        bound: The pipeline, with the schedule's rewrites.
        schedule: The schedule.
        labels: Identifier of each kernel.
        arrays: Arrays in global memory.
        inputs: The caller's input arrays by public name, in order.
        outputs: The caller's output arrays by public name, in order.
        workspace: Slots of the intermediate arrays in scratch memory.
        workspace_bytes: Size of the scratch memory.
        names: Identifier of each source and parameter in generated code.
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
        """Return the program for arrays of any alignment: its kernels access one element at a time."""
        return replace(self, kernels=tuple(replace(k, vectors=False) for k in self.kernels))


def lower(
    bound: BoundPipeline, schedule: Schedule, *, split_interior: bool = True, vectors: bool | None = None
) -> Program:
    """Lower a validated schedule.

    Args:
        bound: The pipeline with its shapes.
        schedule: A schedule that `autosched.schedule.legality.validate.validate` accepts for it.
        split_interior: Whether interior blocks get a second body without clamps and guards.
        vectors: Whether CUDA code coalesces a thread's accesses to neighbouring elements; the default is
            `autosched.schedule.kernel.vector_access.VECTORS`.
    """
    layout = outline(bound, schedule)
    numbers = range(len(schedule.kernels))
    kernels = [lower_kernel_of(layout, number, split_interior=split_interior, vectors=vectors) for number in numbers]
    return Program(**vars(layout), kernels=tuple(kernels))


def outline(bound: BoundPipeline, schedule: Schedule) -> ProgramLayout:
    """Return the layout of a validated schedule's program, without lowering its kernels; see `lower`."""
    bound = apply_rewrites(bound, schedule)
    names = bound.identifiers
    materialised = schedule.materialised | {n for n in bound.outputs.values() if 0 in bound.funcs[n].extents}
    arrays = global_arrays(bound, names, [n for n in bound.funcs if n in materialised])
    namer = Namer()
    roots = ("_".join(names[f] for f in k.root_funcs) for k in schedule.kernels)
    slots, size = workspace_layout(bound, schedule)
    return ProgramLayout(
        bound=bound,
        schedule=schedule,
        labels=tuple(namer(avoid_reserved(f"{bound.pipeline.name}_{funcs}")[:80]) for funcs in roots),
        arrays=arrays,
        inputs={n: arrays[n, 0] for n in bound.inputs},
        outputs={name: arrays[func, component] for name, func, component in bound.output_components},
        workspace=tuple(SharedSlot(arrays[key].buffer, slot.offset) for key, slot in slots.items()),
        workspace_bytes=size,
        names=names,
    )


def lower_kernel_of(
    layout: ProgramLayout, number: int, *, split_interior: bool = True, vectors: bool | None = None
) -> KernelIR:
    """Return the IR of one kernel of a program; see `lower`.

    Besides the kernel, the code depends only on the schedule's rfactor and horizontal-fusion rewrites: schedules that
    share both the kernel and these can share the code.
    """
    kernel, label = layout.schedule.kernels[number], layout.labels[number]
    lowered = lower_kernel(layout.bound, kernel, label, layout.arrays, layout.names, split_interior=split_interior)
    return replace(lowered, vectors=vector_access.VECTORS if vectors is None else vectors)
