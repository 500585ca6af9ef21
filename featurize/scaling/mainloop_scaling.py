"""Kernels that compute reductions in steps: features of one step, times the steps for what every step does.

The step is a kernel of a pipeline whose reduction has the terms of one step
(`autosched.analysis.rewrites.mainloop_step`), what is staged in a step being Members of the block. A Func that reads
the sums at its own points is left out: it stores as much as the sums themselves would take.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from math import prod

import numpy as np
from numpy.typing import NDArray

from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.analysis.rewrites.cache_read import insert_cache_reads
from autosched.analysis.rewrites.mainloop_step import restrict_to_step
from autosched.featurize.schema import INDEX
from autosched.featurize.tables.pipeline_tables import BatchEvaluation
from autosched.schedule.legality.fused_producers import transitive_sources
from autosched.schedule.types import ComputeAt, FusedProducer, Kernel, Level, Loop, LoopKind, Root, StageId, StageTiling

Floats = NDArray[np.float64]

OF_EVERY_STEP = (
    "num_realizations", "num_productions", "points_computed_per_thread", "points_computed_total",
    "points_computed_minimum", "num_scalars", "float_operations_per_block", "double_operations_per_block",
    "integer_operations_per_block", "special_operations_per_block", "index_instructions_per_block",
    "integer_instructions_per_block", "num_shared_mem_loads_per_block", "num_shared_mem_stores_per_block",
    "shared_requests_per_block", "num_global_mem_loads_per_block", "unique_bytes_read_per_task",
    "unique_lines_read_per_task", "global_sectors_of_block", "global_allocation_bytes_read_per_realization",
    "float_instructions_per_block", "global_loads_per_border_block", "looped_groups_per_thread",
    "global_registers_per_block", "global_rounds_per_thread", "shared_rounds_per_thread",
)  # fmt: skip
"""Features that count what a block does, so that they count again in every step."""

READ_OF_A_STEP = frozenset({"num_global_mem_loads_per_block"})
"""Features that tell what is done in every step: global requests of stages that load nothing are stores."""

_OF_LOADS = (
    "global_requests_per_block", "global_requests_per_border_block", "num_global_mem_loads_per_block",
    "global_loads_per_border_block",
)  # fmt: skip
_OF_STORES = ("num_shared_mem_stores_per_block",)
"""Features of a copy's loads and stores, which are more where vectors are copied element by element."""


class FeatureScaling(ABC):
    """What a kernel repeats of one step's kernel."""

    def repeated(self, found: BatchEvaluation) -> BatchEvaluation:
        """Return candidates of one step's pipeline with the features of all steps."""
        features = found.features.copy()
        for k, model in enumerate(found.models):
            mine = found.batch.structure == k
            features[mine] = self.scaled(found.features[mine], model.rows)
        return replace(found, features=features)

    @abstractmethod
    def scaled(self, features: Floats, rows: Sequence[StageId]) -> Floats:
        """Return the features of the kernel, ``float64[..., rows, F]``, from those of one step.

        Args:
            features: What one step has.
            rows: The stage of each row; further rows are left as they are.
        """


@dataclass(frozen=True)
class MainloopScaling(FeatureScaling):
    """The steps of a kernel that computes a reduction in steps.

    Attributes:
        bound: The pipeline with the terms of one step.
        count: How often a block does what the kernel of one step does.
        host: The stage whose terms are added up in steps.
        staged: Funcs that are staged in every step.
        inside: Funcs that threads compute for themselves in every step.
        past: Those staged Funcs that are copied past registers.
    """

    bound: BoundPipeline
    count: int
    host: StageId
    staged: frozenset[str]
    inside: frozenset[str] = frozenset()
    past: frozenset[str] = frozenset()

    @property
    def text(self) -> str:
        """What tells kernels apart that have one step in common."""
        terms = [d.extent for d in self.bound.stage(*self.host).reductions]
        text = f"{self.count} steps of {terms} by {self.host} in {self.bound.buffers}"
        return text + (f" past registers {','.join(sorted(self.past))}" if self.past else "")

    def scaled(self, features: Floats, rows: Sequence[StageId]) -> Floats:
        """Return the features of the kernel, ``float64[..., rows, F]``, from those of one step.

        Args:
            features: What one step has.
            rows: The stage of each row; further rows are left as they are.
        """
        everything = array_bytes(self.bound, (*self.bound.inputs, *self.bound.funcs))  # more is read again
        often = [INDEX[name] for name in OF_EVERY_STEP]
        requests = [INDEX["global_requests_per_block"], INDEX["global_requests_per_border_block"]]
        read = [INDEX["unique_global_bytes_read_by_kernel"], INDEX["unique_input_bytes_read_by_kernel"]]
        loads, walked = INDEX["num_global_mem_loads_per_block"], INDEX["streaming_steps"]
        copied, in_block = INDEX["asynchronous_bytes_per_block"], INDEX["shared_bytes_at_task"]
        features = apply_async_copies(features, rows, self.past)
        found = features.copy()
        for k, stage in enumerate(rows):
            if stage != self.host and stage.func not in self.staged | self.inside:
                continue
            times = self.count + (self.bound.buffers > 1 and stage.func in self.staged)  # the last one loads once more
            found[..., k, often] *= times
            stores_alone = (stage == self.host) & (features[..., k, loads] == 0)
            found[..., k, requests] *= np.where(stores_alone, 1, times)[..., None]
            found[..., k, read] = np.minimum(features[..., k, read] * self.count, everything)
            found[..., k, walked] = self.count
            if stage.func in self.past:
                found[..., k, copied] = features[..., k, in_block] * times
        barriers = self.count * (1 if self.bound.buffers > 1 else 2)
        found[..., 0, INDEX["steps_per_block"]] += barriers - len(self.staged)
        return found


def apply_async_copies(features: Floats, rows: Sequence[StageId], past: Collection[str]) -> Floats:
    """Return the features of a step, ``float64[..., rows, F]``, of which some Funcs are copied past registers."""
    if not past:
        return features
    found = features.copy()
    for k, stage in enumerate(rows):
        if stage.func in past:
            _copy_past_registers(found[..., k, :])
    return found


def _copy_past_registers(row: Floats) -> None:
    """Turn loads and stores, ``float64[..., F]``, into copies: of vectors if both are of the same, else of elements.

    Elements of what would be vectors lie as far apart as these are long, so that threads meet in as many banks.
    """
    loads, stores = INDEX["global_requests_per_block"], INDEX["shared_requests_per_block"]
    elements = row[..., INDEX["points_computed_per_thread"]] * row[..., INDEX["num_active_warps_per_block"]]
    alike = row[..., loads] == row[..., stores]
    for names, requests in ((_OF_LOADS, row[..., loads]), (_OF_STORES, row[..., stores])):
        split = np.where(alike, 1.0, elements / np.maximum(requests, 1))
        for name in names:
            row[..., INDEX[name]] *= split
    row[..., [stores, INDEX["global_registers_per_block"]]] = 0


def array_bytes(bound: BoundPipeline, names: Iterable[str]) -> float:
    """Return the bytes of inputs and Funcs together."""
    total = 0
    for name in names:
        i, f = bound.inputs.get(name), bound.funcs.get(name)
        total += prod(i.shape) * i.dtype.bytes_ if i is not None else 0
        total += prod(f.extents) * sum(d.bytes_ for d in f.dtypes) if f is not None else 0
    return float(total)


def single_step_kernel(bound: BoundPipeline, kernel: Kernel) -> tuple[MainloopScaling, Kernel] | None:
    """Return the steps of a kernel with MAINLOOP Members and the kernel of one step; None if it has no such Members.

    Args:
        bound: The pipeline, as `autosched.schedule.types.Schedule.splits` makes it.
        kernel: A legal kernel.
    """
    at = kernel.mainloop_at
    if at is None:
        return None
    host = kernel.tiling(at.host)
    blocks = len(host.of_kind(LoopKind.BLOCK))
    walked, inside = host.loops[blocks : at.depth], host.loops[at.depth :]
    terms = {w.dim: prod(p.extent for p in inside if p.dim == w.dim) for w in walked}
    alone = tuple(Loop(w.dim, LoopKind.REDUCTION, 1) for w in walked if all(p.dim != w.dim for p in inside))
    threads = 1 + max((k for k, p in enumerate(inside) if p.kind is LoopKind.THREAD), default=-1)
    step = StageTiling(at.host, (*host.loops[:blocks], *inside[:threads], *alone, *inside[threads:]))
    own = [r.tiling for r in kernel.roots if r.tiling.stage.func == at.host.func]
    roots = tuple(Root(step if t.stage == at.host else t) for t in own)
    needed = _needed(bound, kernel, [t.stage for t in own])
    kept = [m for m in kernel.fused if m.func in needed]
    members = tuple(_in_step(m, at, own[0].stage, blocks, len(step.loops) - len(host.loops)) for m in kept)
    staged = frozenset(m.func for m in kernel.fused if m.at.level is Level.MAINLOOP)
    view = restrict_to_step(bound, at.host.func, at.host.number, terms, 2 if kernel.double_buffered else 1)
    repeated: set[str] = set()
    for m in reversed(members):  # hosts come after what they hold
        if m.at.level is Level.THREAD and (m.at.host == at.host or m.at.host.func in staged | repeated):
            repeated.add(m.func)
    past = frozenset(m.func for m in kernel.fused if m.asynchronous)
    steps = MainloopScaling(view, prod(p.extent for p in walked), at.host, staged, frozenset(repeated), past)
    return steps, replace(kernel, roots=roots, fused=members)


def _needed(bound: BoundPipeline, kernel: Kernel, stages: Sequence[StageId]) -> set[str]:
    """Return what some stages of a kernel read, directly or through other Members."""
    viewed, inlined = insert_cache_reads(bound, kernel.cache_reads), {i.func for i in kernel.inlined}
    found: set[str] = set()
    queue = list(stages)
    while queue:
        read = transitive_sources(viewed, viewed.stage(*queue.pop()), inlined) - found
        found |= read
        queue += [t.stage for m in kernel.fused if m.func in read for t in m.tilings]
    return found


def _in_step(m: FusedProducer, stream: ComputeAt, first: StageId, blocks: int, deeper: int) -> FusedProducer:
    """Return a Member of the kernel of one step: at BLOCK of the first root, or in the same thread as before."""
    match m.at.level:
        case Level.MAINLOOP | Level.BLOCK:
            return replace(m, at=ComputeAt(Level.BLOCK, first, blocks), buffers=1, asynchronous=False)
        case Level.THREAD if m.at.host == stream.host:
            return replace(m, at=replace(m.at, depth=m.at.depth + deeper))
    return m
