"""Kernels that spill, with tiles that leave a thread more registers.

No feature says how many registers a thread needs: compilers order instructions as they see fit. So kernels of the best
schedules that are found to spill get the tiles that are predicted to be fastest among those with fewer threads in a
block, each of which then has more registers, and among those with fewer points in a thread, until the compiler spills
no longer.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from math import isnan

import numpy as np
from numpy.typing import NDArray

from autosched.analysis.rewrites.cache_read import cached_source
from autosched.errors import AutoschedError, CompileError
from autosched.featurize.schema import INDEX
from autosched.featurize.sketch.kernel_from_sketch import build_kernel
from autosched.featurize.sketch.sketch import KernelSketch
from autosched.featurize.sketch.sketch_from_kernel import describe_kernel
from autosched.featurize.tables.pipeline_tables import BatchEvaluation
from autosched.schedule.types import Kernel, Schedule
from autosched.search.beam.state import Params
from autosched.search.cost.protocol import CostModelWrapper, rounded_cost
from autosched.search.evaluate.batched import run_batched
from autosched.search.evaluate.evaluator import KernelEvaluator
from autosched.search.refine.retile import Retiler
from autosched.search.results import RankedSchedule
from autosched.search.space.option_enumeration import OptionEnumerator
from autosched.search.strategies.compute_root import schedule_roots
from autosched.search.tune.spill_filter import SpillTable, compiler_problem

Floats = NDArray[np.float64]

LIMITS = ((512, 16), (256, 16), (256, 8), (256, 4), (256, 2), (256, 1), (128, 1))
"""Threads of a block and points of a thread that are allowed, tried in order."""
WARP_FEATURE, POINTS_FEATURE = "num_warps_per_block", "points_computed_per_thread"


@dataclass(frozen=True)
class RegisterLimitedModel(CostModelWrapper):
    """A cost model for which kernels beyond a limit take forever.

    Attributes:
        model: Predicts the others.
        threads: Threads of a block at most.
        points: Points of a root stage that a thread computes at most.
        warp_size: Threads of a warp.
    """

    threads: int
    points: int
    warp_size: int
    also_reads = frozenset({WARP_FEATURE, POINTS_FEATURE})

    def cost(self, found: BatchEvaluation) -> Floats:
        """Return the predicted seconds, ``float64[M]``, infinite beyond the limits."""
        root = found.features[:, 0]
        over = root[:, INDEX[WARP_FEATURE]] * self.warp_size > self.threads
        over |= root[:, INDEX[POINTS_FEATURE]] > self.points
        return np.where(over, np.inf, self.model.cost(found))


def with_repaired(ranked: Sequence[RankedSchedule], table: SpillTable, count: int = 1) -> tuple[RankedSchedule, ...]:
    """Return schedules, the one predicted to be fastest first, with mended ones where the best spill.

    Args:
        ranked: Schedules of one pipeline, the best first.
        table: Knows what they spill; for a processor, and where there is no compiler, nothing is mended.
        count: How many of the best are looked at; the best of each way of rewriting the pipeline always is.
    """
    if table.target.kind != "cuda" or compiler_problem(table.target):
        return tuple(ranked)
    mender = SpillRepair(table)
    firsts = {r.schedule.rewrites: r for r in reversed(ranked)}
    found = list(ranked)
    for k, r in enumerate(ranked):
        if k >= count and firsts[r.schedule.rewrites] is not r:
            continue
        try:
            mended = mender.mended(r)
        except CompileError:  # of this schedule, which whoever compiles all will say
            continue
        if mended is not None:
            found.append(mended)
    return tuple(sorted(found, key=lambda r: (isnan(r.seconds), rounded_cost(r.seconds))))


@dataclass
class SpillRepair:
    """Gives kernels that spill other tiles; what was found for one kernel is known for the next schedule.

    Args:
        table: Knows what kernels spill.
    """

    table: SpillTable
    _mended: dict[Kernel, tuple[Kernel, float] | None] = field(init=False, default_factory=dict)
    _limited: dict[tuple[int, int, int], KernelEvaluator] = field(init=False, default_factory=dict)

    def mended(self, ranked: RankedSchedule) -> RankedSchedule | None:
        """Return a schedule with other tiles where its kernels spill, with its predicted time.

        Returns:
            None if nothing spills, or nothing spills less.

        Raises:
            CompileError: If there is no compiler, or it refuses the schedule.
        """
        evaluator = ranked.evaluator
        if evaluator is None:
            return None
        kernels, seconds = list(ranked.schedule.kernels), ranked.seconds
        for k, bytes_ in enumerate(self.table.of(ranked.schedule)):
            kernel = kernels[k]
            if not bytes_ or kernel.mainloop_at is not None:
                continue
            if kernel not in self._mended:
                self._mended[kernel] = self._of_kernel(ranked.schedule, evaluator, k, bytes_)
            found = self._mended[kernel]
            if found is not None:
                kernels[k] = found[0]
                seconds += found[1]
        changed = replace(ranked.schedule, kernels=tuple(kernels))
        return None if changed == ranked.schedule else replace(ranked, schedule=changed, seconds=seconds, state=None)

    def _of_kernel(
        self, schedule: Schedule, evaluator: KernelEvaluator, k: int, bytes_: int
    ) -> tuple[Kernel, float] | None:
        """Return the first kernel that does not spill, or the one that spills least, and what that is said to cost."""
        kernels = schedule.kernels
        best: tuple[Kernel, float] | None = None
        for found in self._others(evaluator, kernels[k]):
            other = replace(schedule, kernels=(*kernels[:k], found[0], *kernels[k + 1 :]))
            left = self.table.of(other)[k]
            if left < bytes_:
                best, bytes_ = found, left
            if not bytes_:
                break
        return best

    def _others(self, evaluator: KernelEvaluator, kernel: Kernel) -> Iterator[tuple[Kernel, float]]:
        """Yield kernels within tighter and tighter limits, with what they are predicted to take longer.

        A kernel then does without copies of what it reads, whose addresses take registers, too; and without Members
        that the baseline schedule inlines, which may ask for large tiles.
        """
        try:
            structure, params = describe_kernel(evaluator.bound, kernel)
        except AutoschedError:
            return
        if structure.lanes:
            return  # other lanes than those that the evaluator's pipeline has, if any
        evaluator.evaluate([(structure, params)])
        before = evaluator.known(structure, params).cost
        starts = [(structure, params), *_lighter_variant(evaluator, kernel, structure, params)]
        for start in starts:
            for threads, points in LIMITS:
                limited = self._evaluator(evaluator, threads, points)
                decider = OptionEnumerator(limited)
                first = decider.places.one(start[0]), start[1]
                limited.evaluate([first])
                if start is starts[0] and np.isfinite(limited.known(*first).cost):
                    continue  # it is within these limits, and spills
                (best,) = run_batched(limited, [Retiler(limited, decider).descend(*first, far=True)])
                cost = limited.known(*best).cost
                if np.isfinite(cost):
                    yield build_kernel(limited.kernel_model(best[0]), np.array(best[1], np.int64)), cost - before

    def _evaluator(self, evaluator: KernelEvaluator, threads: int, points: int) -> KernelEvaluator:
        key = id(evaluator), threads, points
        if key not in self._limited:
            model = RegisterLimitedModel(evaluator.model, threads, points, evaluator.target.warp_size)
            self._limited[key] = KernelEvaluator(evaluator.bound, evaluator.target, model, evaluator.settings)
        return self._limited[key]


def _lighter_variant(
    evaluator: KernelEvaluator, kernel: Kernel, structure: KernelSketch, params: Params
) -> Iterator[tuple[KernelSketch, Params]]:  # fmt: skip
    """Yield kernels that compute the same with fewer Members: none but copies, and none that the baseline inlines."""
    inside = {m.func for m in kernel.fused if cached_source(m.func) is None}
    if kernel.fused and not inside:
        bare = replace(structure, spots=())
        yield bare, params[: OptionEnumerator(evaluator).places.layout(bare).root_serial.stop]
    inside |= {i.func for i in kernel.inlined}
    for other in schedule_roots(evaluator.bound, evaluator.target).kernels if kernel.fused else ():
        same = [r.tiling.stage for r in other.roots] == [r.tiling.stage for r in kernel.roots]
        if same and not other.fused and {i.func for i in other.inlined} == inside:
            plain = describe_kernel(evaluator.bound, other)
            if not plain[0].lanes:
                yield plain
