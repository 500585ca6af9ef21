"""Repair of kernels that spill: tiles that need fewer registers, or leave more of them to each thread.

No feature predicts the registers of a thread, as these depend on the compiler's instruction order. So spilling kernels
of the best schedules are retiled: first with fewer threads per block, so that each has more registers, then with fewer
points per thread, until the compiler reports no spills. Kernels with mainloops and sliding windows are retiled step by
step (`autosched.search.tune.step_repair`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf, isnan

import numpy as np
from numpy.typing import NDArray

from autosched.analysis.pipeline_rewrites import PipelineRewrites
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
from autosched.search.tune.step_repair import lighter_steps

Floats = NDArray[np.float64]

LIMITS = ((512, 16), (256, 16), (256, 8), (256, 4), (256, 2), (256, 1), (128, 1))
"""Limits of threads per block and points per thread, in the order of trial."""
WARP_FEATURE, POINTS_FEATURE = "num_warps_per_block", "points_computed_per_thread"


@dataclass(frozen=True)
class RegisterLimitedModel(CostModelWrapper):
    """A cost model with infinite cost for kernels beyond a limit.

    Attributes:
        model: The model for all other kernels.
        threads: Most threads of a block.
        points: Most points of a root stage in a thread.
        warp_size: Threads of a warp.
    """

    threads: int
    points: int
    warp_size: int
    also_reads = frozenset({WARP_FEATURE, POINTS_FEATURE})

    def cost(self, evaluation: BatchEvaluation) -> Floats:
        """Return the predicted seconds, ``float64[M]``, infinite beyond the limits."""
        root = evaluation.features[:, 0]
        over = root[:, INDEX[WARP_FEATURE]] * self.warp_size > self.threads
        over |= root[:, INDEX[POINTS_FEATURE]] > self.points
        return np.where(over, np.inf, self.model.cost(evaluation))


def with_repaired(ranked: Sequence[RankedSchedule], table: SpillTable, count: int = 1) -> tuple[RankedSchedule, ...]:
    """Return schedules in the order of their predicted times, with repaired variants of spilling ones.

    Args:
        ranked: Schedules of one pipeline, the best first.
        table: Spilled bytes; for a CPU, and without a compiler, nothing is repaired.
        count: Number of the best schedules to check; the best schedule of each rewrite is always checked.
    """
    if table.target.kind != "cuda" or compiler_problem(table.target):
        return tuple(ranked)
    repair = SpillRepair(table)
    firsts = {r.schedule.rewrites: r for r in reversed(ranked)}
    result = list(ranked)
    _compile_rewrites(ranked[0], firsts, table)
    checked = [r for k, r in enumerate(ranked) if k < count or firsts[r.schedule.rewrites] is r]
    # Those that spill least take the fewest compilations until they do not.
    known = {id(r): table.spilled_bytes(r.schedule) for r in checked}
    for r in sorted(checked, key=lambda r: inf if (spilled := known[id(r)]) is None else spilled):
        if table.is_exhausted():
            break
        try:
            repaired = repair.repaired(r)
        except CompileError:  # of this schedule; the caller's own compilation reports it
            continue
        if repaired is not None:
            result.append(repaired)
    return tuple(sorted(result, key=lambda r: (isnan(r.seconds), rounded_cost(r.seconds))))


def _compile_rewrites(
    best: RankedSchedule, firsts: Mapping[PipelineRewrites, RankedSchedule], table: SpillTable
) -> None:
    """Compile the best schedule of each rewrite if the best of all spills, before compilations go to its repair.

    Other rewrites have other groups of outputs in their kernels, and may need no repair. Where their source would take
    the limit on compiling, it is left to the repair.
    """
    try:
        if not sum(table.of(best.schedule)):
            return
        for first in sorted(firsts.values(), key=lambda r: rounded_cost(r.seconds)):
            if table.has_room(first.schedule):
                table.of(first.schedule)
    except CompileError:  # the loop over schedules handles it
        return


@dataclass
class SpillRepair:
    """Retiles kernels that spill; results are cached by kernel, for all schedules.

    Args:
        table: Spilled bytes of kernels.
    """

    table: SpillTable
    _cache: dict[Kernel, tuple[Kernel, float] | None] = field(init=False, default_factory=dict)
    _limited: dict[tuple[int, int, int], KernelEvaluator] = field(init=False, default_factory=dict)

    def repaired(self, ranked: RankedSchedule) -> RankedSchedule | None:
        """Return a schedule with retiled kernels in place of spilling ones, and its predicted time.

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
            if not bytes_:
                continue
            if kernel not in self._cache:
                self._cache[kernel] = self._repair_kernel(ranked.schedule, evaluator, k, bytes_)
            replacement = self._cache[kernel]
            if replacement is not None:
                kernels[k] = replacement[0]
                seconds += replacement[1]
        schedule = replace(ranked.schedule, kernels=tuple(kernels))
        return None if schedule == ranked.schedule else replace(ranked, schedule=schedule, seconds=seconds, state=None)

    def _repair_kernel(
        self, schedule: Schedule, evaluator: KernelEvaluator, k: int, bytes_: int
    ) -> tuple[Kernel, float] | None:
        """Return the first variant that does not spill, or the one that spills least, and its extra predicted time."""
        kernels = schedule.kernels
        best: tuple[Kernel, float] | None = None
        for variant in self._variants(evaluator, kernels[k]):
            changed = replace(schedule, kernels=(*kernels[:k], variant[0], *kernels[k + 1 :]))
            if self.table.is_exhausted():
                break
            try:
                spilled = self.table.of(changed)[k]
            except CompileError:
                if not self.table.is_late():
                    raise
                break
            if spilled < bytes_:
                best, bytes_ = variant, spilled
            if not bytes_:
                break
        return best

    def _variants(self, evaluator: KernelEvaluator, kernel: Kernel) -> Iterator[tuple[Kernel, float]]:
        """Yield variants of a kernel within tighter and tighter limits, with their extra predicted time.

        Variants without cache reads, whose addresses need registers, come next, then variants without fused producers
        that the baseline inlines, which may need large tiles. Kernels with a mainloop or a sliding window keep it
        (`lighter_steps`).
        """
        if kernel.mainloop_at is not None:
            yield from lighter_steps(evaluator, kernel)
            return
        try:
            sketch, params = describe_kernel(evaluator.bound, kernel)
        except AutoschedError:
            return
        if sketch.lanes:
            return  # lane loops that the evaluator's pipeline does not have
        evaluator.evaluate([(sketch, params)])
        before = evaluator.verdict(sketch, params).cost
        starts = [(sketch, params), *_lighter_variants(evaluator, kernel, sketch, params)]
        for start in starts:
            for threads, points in LIMITS:
                limited = self._evaluator(evaluator, threads, points)
                decider = OptionEnumerator(limited)
                first = decider.compute_locations.one(start[0]), start[1]
                limited.evaluate([first])
                if start is starts[0] and np.isfinite(limited.verdict(*first).cost):
                    continue  # the kernel is within these limits, and spills
                (best,) = run_batched(limited, [Retiler(limited, decider).descend(*first, far=True)])
                cost = limited.verdict(*best).cost
                if np.isfinite(cost):
                    yield build_kernel(limited.kernel_model(best[0]), np.array(best[1], np.int64)), cost - before

    def _evaluator(self, evaluator: KernelEvaluator, threads: int, points: int) -> KernelEvaluator:
        key = id(evaluator), threads, points
        if key not in self._limited:
            model = RegisterLimitedModel(evaluator.model, threads, points, evaluator.target.warp_size)
            self._limited[key] = KernelEvaluator(evaluator.bound, evaluator.target, model, evaluator.settings)
        return self._limited[key]


def _lighter_variants(
    evaluator: KernelEvaluator, kernel: Kernel, sketch: KernelSketch, params: Params
) -> Iterator[tuple[KernelSketch, Params]]:  # fmt: skip
    """Yield equivalent kernels without cache reads, if all fused producers are such, and with producers inlined."""
    computed = {m.func for m in kernel.fused if cached_source(m.func) is None}
    if kernel.fused and not computed:
        uncached = replace(sketch, locations=())
        yield uncached, params[: OptionEnumerator(evaluator).compute_locations.layout(uncached).root_serial.stop]
    computed |= {i.func for i in kernel.inlined}
    for baseline in schedule_roots(evaluator.bound, evaluator.target).kernels if kernel.fused else ():
        same_roots = [r.tiling.stage for r in baseline.roots] == [r.tiling.stage for r in kernel.roots]
        if same_roots and not baseline.fused and {i.func for i in baseline.inlined} == computed:
            inlined = describe_kernel(evaluator.bound, baseline)
            if not inlined[0].lanes:
                yield inlined
