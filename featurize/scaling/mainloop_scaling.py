"""Kernels with a mainloop: features of one step, multiplied by the number of steps where each step repeats them.

The step is a kernel of a pipeline whose reduction has the terms of one step
(`autosched.analysis.rewrites.mainloop_step`). The producers of a step are block-level producers of it. An epilogue that
reads the sums at its own points is left out: it stores as many bytes as the sums would.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from math import prod

import numpy as np
from numpy.typing import NDArray

from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.analysis.rewrites.cache_read import cached_source, insert_cache_reads
from autosched.analysis.rewrites.mainloop_step import restrict_to_step
from autosched.featurize.regions.memory_kinds import GLOBAL
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
"""Features that every step repeats."""

READ_OF_A_STEP = frozenset({"num_global_mem_loads_per_block"})
"""Features that determine whether a step repeats global requests: requests of stages without loads are stores."""

_OF_LOADS = (
    "global_requests_per_block", "global_requests_per_border_block", "num_global_mem_loads_per_block",
    "global_loads_per_border_block",
)  # fmt: skip
_OF_STORES = ("num_shared_mem_stores_per_block",)
"""Features of a copy's loads and stores, which grow where vectors are copied element by element."""


class FeatureScaling(ABC):
    """Scales the features of one step to those of a kernel."""

    def repeated(self, step: BatchEvaluation) -> BatchEvaluation:
        """Return candidates of the one-step pipeline with the features of all steps."""
        features = step.features.copy()
        for k, model in enumerate(step.models):
            candidates = step.batch.sketch == k
            features[candidates] = self.scaled(step.features[candidates], model.rows)
        return replace(step, features=features)

    @abstractmethod
    def scaled(self, features: Floats, rows: Sequence[StageId]) -> Floats:
        """Return the features of the kernel, ``float64[..., rows, F]``, from those of one step.

        Args:
            features: Features of one step.
            rows: The stage of each row; further rows are not scaled.
        """


@dataclass(frozen=True)
class MainloopScaling(FeatureScaling):
    """The steps of a kernel with a mainloop.

    Attributes:
        bound: The pipeline with the terms of one step.
        count: Number of steps.
        host: The stage of the reduction.
        mainloop_producers: Producers that a block computes in every step.
        inside: Thread-level producers of every step.
        async_copies: Those of ``mainloop_producers`` that are copied asynchronously.
    """

    bound: BoundPipeline
    count: int
    host: StageId
    mainloop_producers: frozenset[str]
    inside: frozenset[str] = frozenset()
    async_copies: frozenset[str] = frozenset()

    def repeated(self, step: BatchEvaluation) -> BatchEvaluation:
        """Return candidates of the one-step pipeline with the features of all steps; sums are stored once."""
        every = super().repeated(step)
        requests = [INDEX["global_requests_per_block"], INDEX["global_requests_per_border_block"]]
        loads, stored = step.features[:, :, INDEX["num_global_mem_loads_per_block"]] > 0, global_store_requests(step)
        for k, model in enumerate(step.models):
            (row,) = (n for n, stage in enumerate(model.rows) if stage == self.host)
            again = np.where((step.batch.sketch == k) & loads[:, row], (self.count - 1) * stored[:, row], 0.0)
            every.features[:, row, requests] -= again[:, None]
        return every

    @property
    def text(self) -> str:
        """Key that differs between kernels with the same step; stored, so that its wording is fixed."""
        terms = [d.extent for d in self.bound.stage(*self.host).reductions]
        text = f"{self.count} steps of {terms} by {self.host} in {self.bound.buffers}"
        return text + (f" past registers {','.join(sorted(self.async_copies))}" if self.async_copies else "")

    def scaled(self, features: Floats, rows: Sequence[StageId]) -> Floats:
        """Return the features of the kernel, ``float64[..., rows, F]``, from those of one step.

        Args:
            features: Features of one step.
            rows: The stage of each row; further rows are not scaled.
        """
        array_total = array_bytes(self.bound, (*self.bound.inputs, *self.bound.funcs))  # further reads are repetitions
        repeated = [INDEX[name] for name in OF_EVERY_STEP]
        requests = [INDEX["global_requests_per_block"], INDEX["global_requests_per_border_block"]]
        read = [INDEX["unique_global_bytes_read_by_kernel"], INDEX["unique_input_bytes_read_by_kernel"]]
        loads, steps = INDEX["num_global_mem_loads_per_block"], INDEX["streaming_steps"]
        copied, in_block = INDEX["asynchronous_bytes_per_block"], INDEX["shared_bytes_at_task"]
        features = apply_async_copies(features, rows, self.async_copies)
        scaled = features.copy()
        for k, stage in enumerate(rows):
            if stage != self.host and stage.func not in self.mainloop_producers | self.inside:
                continue
            times = self.count + (
                self.bound.buffers > 1 and stage.func in self.mainloop_producers
            )  # the last step prefetches too
            scaled[..., k, repeated] *= times
            stores_alone = (stage == self.host) & (features[..., k, loads] == 0)
            scaled[..., k, requests] *= np.where(stores_alone, 1, times)[..., None]
            scaled[..., k, read] = np.minimum(features[..., k, read] * self.count, array_total)
            scaled[..., k, steps] = self.count
            if stage.func in self.async_copies:
                scaled[..., k, copied] = features[..., k, in_block] * times
        barriers = self.count * (1 if self.bound.buffers > 1 else 2)
        scaled[..., 0, INDEX["steps_per_block"]] += barriers - len(self.mainloop_producers)
        return scaled


def global_store_requests(evaluation: BatchEvaluation) -> Floats:
    """Return the warp instructions that store to global memory in a block, ``float64[M, rows]``."""
    batch, kinds = evaluation.batch, evaluation.accesses.kinds
    stores = (kinds["memory"] == GLOBAL) & (kinds["store"] == 1)
    candidate = batch.nests.candidate
    of_nest = np.bincount(batch.readers, evaluation.traffic.requests * stores, len(candidate))
    requests = np.zeros(evaluation.features.shape[:2])
    requests[candidate, np.arange(len(candidate)) - batch.nests.start[candidate]] = of_nest
    return requests


def apply_async_copies(features: Floats, rows: Sequence[StageId], funcs: Collection[str]) -> Floats:
    """Return the features of a step, ``float64[..., rows, F]``, with asynchronous copies of some Funcs."""
    if not funcs:
        return features
    copied = features.copy()
    for k, stage in enumerate(rows):
        if stage.func in funcs:
            _to_async_copy(copied[..., k, :])
    return copied


def _to_async_copy(row: Floats) -> None:
    """Turn loads and stores, ``float64[..., F]``, into async copies, in place.

    Copies are of vectors if loads and stores have equal vectors, else of elements. Elements copied in place of vectors
    have the stride of the vectors, with the bank conflicts of that stride.
    """
    loads, stores = INDEX["global_requests_per_block"], INDEX["shared_requests_per_block"]
    elements = row[..., INDEX["points_computed_per_thread"]] * row[..., INDEX["num_active_warps_per_block"]]
    same_vectors = row[..., loads] == row[..., stores]
    for names, requests in ((_OF_LOADS, row[..., loads]), (_OF_STORES, row[..., stores])):
        split = np.where(same_vectors, 1.0, elements / np.maximum(requests, 1))
        for name in names:
            row[..., INDEX[name]] *= split
    row[..., [stores, INDEX["global_registers_per_block"]]] = 0


def array_bytes(bound: BoundPipeline, names: Iterable[str]) -> float:
    """Return the total bytes of inputs and Funcs."""
    total = 0
    for name in names:
        i, f = bound.inputs.get(name), bound.funcs.get(name)
        total += prod(i.shape) * i.dtype.bytes_ if i is not None else 0
        total += prod(f.extents) * sum(d.bytes_ for d in f.dtypes) if f is not None else 0
    return float(total)


def single_step_kernel(bound: BoundPipeline, kernel: Kernel) -> tuple[MainloopScaling, Kernel] | None:
    """Return the scaling of a kernel with a mainloop, and the kernel of one step; None without a mainloop.

    Args:
        bound: The pipeline, rewritten by the schedule's rfactors.
        kernel: A legal kernel.
    """
    at = kernel.mainloop_at
    if at is None:
        return None
    host = kernel.tiling(at.host)
    blocks = len(host.of_kind(LoopKind.BLOCK))
    mainloops, inside = host.loops[blocks : at.depth], host.loops[at.depth :]
    terms = {w.dim: prod(p.extent for p in inside if p.dim == w.dim) for w in mainloops}
    single = tuple(Loop(w.dim, LoopKind.REDUCTION, 1) for w in mainloops if all(p.dim != w.dim for p in inside))
    threads = 1 + max((k for k, p in enumerate(inside) if p.kind is LoopKind.THREAD), default=-1)
    step = StageTiling(at.host, (*host.loops[:blocks], *inside[:threads], *single, *inside[threads:]))
    tilings = [r.tiling for r in kernel.roots if r.tiling.stage.func == at.host.func]
    roots = tuple(Root(step if t.stage == at.host else t) for t in tilings)
    needed = _needed(bound, kernel, [t.stage for t in tilings])
    producers = [m for m in kernel.fused if m.func in needed]
    members = tuple(_in_step(m, at, tilings[0].stage, blocks, len(step.loops) - len(host.loops)) for m in producers)
    mainloop_producers = frozenset(m.func for m in kernel.fused if m.at.level is Level.MAINLOOP)
    step_pipeline = restrict_to_step(
        bound, at.host.func, at.host.number, terms, 2 if kernel.double_buffered else 1,
        computed=any(cached_source(name) is None for name in mainloop_producers),
    )  # fmt: skip
    repeated: set[str] = set()
    for m in reversed(members):  # hosts come after their producers
        if m.at.level is Level.THREAD and (m.at.host == at.host or m.at.host.func in mainloop_producers | repeated):
            repeated.add(m.func)
    async_copies = frozenset(m.func for m in kernel.fused if m.asynchronous)
    count = prod(p.extent for p in mainloops)
    steps = MainloopScaling(step_pipeline, count, at.host, mainloop_producers, frozenset(repeated), async_copies)
    return steps, replace(kernel, roots=roots, fused=members)


def _needed(bound: BoundPipeline, kernel: Kernel, stages: Sequence[StageId]) -> set[str]:
    """Return the Funcs that some stages of a kernel read, directly or through other producers."""
    rewritten, inlined = insert_cache_reads(bound, kernel.cache_reads), {i.func for i in kernel.inlined}
    needed: set[str] = set()
    queue = list(stages)
    while queue:
        read = transitive_sources(rewritten, rewritten.stage(*queue.pop()), inlined) - needed
        needed |= read
        queue += [t.stage for m in kernel.fused if m.func in read for t in m.tilings]
    return needed


def _in_step(m: FusedProducer, mainloop: ComputeAt, first: StageId, blocks: int, deeper: int) -> FusedProducer:
    """Return a producer of the kernel of one step: at BLOCK of the first root, or in the same thread as before."""
    match m.at.level:
        case Level.MAINLOOP | Level.BLOCK:
            return replace(m, at=ComputeAt(Level.BLOCK, first, blocks), buffers=1, asynchronous=False)
        case Level.THREAD if m.at.host == mainloop.host:
            return replace(m, at=replace(m.at, depth=m.at.depth + deeper))
    return m
