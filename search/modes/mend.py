"""Kernels that spill, with tiles that leave a thread more registers.

No feature says how many registers a thread needs: compilers order instructions as they see fit. So kernels of the best
schedules that are found to spill get the tiles that are predicted to be fastest among those with fewer threads in a
block, each of which then has more registers, and among those with fewer points in a thread, until the compiler spills
no longer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import isnan

import numpy as np
from numpy.typing import NDArray

from autosched.errors import AutoschedError, CompileError
from autosched.featurize.build import build_kernel
from autosched.featurize.describe import describe_kernel
from autosched.featurize.model import BatchEvaluation
from autosched.featurize.schema import INDEX
from autosched.schedule.types import Kernel, Schedule
from autosched.search.cost import CostModel, comparable, features_read
from autosched.search.decide import Decider
from autosched.search.evaluate import Evaluator
from autosched.search.modes.spills import SpillTable, has_compiler
from autosched.search.ranked import Ranked
from autosched.search.retile import Retiler
from autosched.search.together import finish_together

Floats = NDArray[np.float64]

LIMITS = ((512, 16), (256, 16), (256, 8), (256, 4), (128, 2), (128, 1))
"""Threads of a block and points of a thread that are allowed, tried in order."""
WARP_FEATURE, POINTS_FEATURE = "num_warps_per_block", "points_computed_per_thread"


@dataclass(frozen=True)
class Limited:
    """A cost model for which kernels beyond a limit take forever.

    Attributes:
        model: Predicts the others.
        threads: Threads of a block at most.
        points: Points of a root stage that a thread computes at most.
        warp_size: Threads of a warp.
    """

    model: CostModel
    threads: int
    points: int
    warp_size: int

    @property
    def name(self) -> str:
        """Name of the model."""
        return self.model.name

    @property
    def reads(self) -> frozenset[str] | None:
        """Features that are read; None for all."""
        read = features_read(self.model)
        return None if read is None else read | {WARP_FEATURE, POINTS_FEATURE}

    def cost(self, found: BatchEvaluation) -> Floats:
        """Return the predicted seconds, ``float64[M]``, infinite beyond the limits."""
        root = found.features[:, 0]
        over = root[:, INDEX[WARP_FEATURE]] * self.warp_size > self.threads
        over |= root[:, INDEX[POINTS_FEATURE]] > self.points
        return np.where(over, np.inf, self.model.cost(found))


def with_mended(ranked: Sequence[Ranked], table: SpillTable, count: int = 1) -> tuple[Ranked, ...]:
    """Return schedules, the one predicted to be fastest first, with mended ones where the best spill.

    Args:
        ranked: Schedules of one pipeline, the best first.
        table: Knows what they spill; for a processor, and where there is no compiler, nothing is mended.
        count: How many of the best are looked at; the best of each way of rewriting the pipeline always is.
    """
    if table.target.kind != "cuda" or not has_compiler(table.target):
        return tuple(ranked)
    mender = Mender(table)
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
    return tuple(sorted(found, key=lambda r: (isnan(r.seconds), comparable(r.seconds))))


@dataclass
class Mender:
    """Gives kernels that spill other tiles; what was found for one kernel is known for the next schedule.

    Args:
        table: Knows what kernels spill.
    """

    table: SpillTable
    _mended: dict[Kernel, tuple[Kernel, float] | None] = field(init=False, default_factory=dict)
    _limited: dict[tuple[int, int, int], Evaluator] = field(init=False, default_factory=dict)

    def mended(self, ranked: Ranked) -> Ranked | None:
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
            if not bytes_ or kernel.stream is not None:
                continue
            if kernel not in self._mended:
                self._mended[kernel] = self._of_kernel(ranked.schedule, evaluator, k, bytes_)
            found = self._mended[kernel]
            if found is not None:
                kernels[k] = found[0]
                seconds += found[1]
        changed = replace(ranked.schedule, kernels=tuple(kernels))
        return None if changed == ranked.schedule else replace(ranked, schedule=changed, seconds=seconds, state=None)

    def _of_kernel(self, schedule: Schedule, evaluator: Evaluator, k: int, bytes_: int) -> tuple[Kernel, float] | None:
        """Return the first kernel that does not spill, or the one that spills least, and what that is said to cost."""
        kernels = schedule.kernels
        best: tuple[Kernel, float] | None = None
        for threads, points in LIMITS:
            found = self._within(evaluator, kernels[k], threads, points)
            if found is None:
                continue
            other = replace(schedule, kernels=(*kernels[:k], found[0], *kernels[k + 1 :]))
            left = self.table.of(other)[k]
            if left < bytes_:
                best, bytes_ = found, left
            if not bytes_:
                break
        return best

    def _within(self, evaluator: Evaluator, kernel: Kernel, threads: int, points: int) -> tuple[Kernel, float] | None:
        """Return a kernel with the tiles predicted to be fastest within limits, and by how much it is slower."""
        try:
            structure, params = describe_kernel(evaluator.bound, kernel)
        except AutoschedError:
            return None
        limited = self._limited.get((id(evaluator), threads, points))
        if limited is None:
            model = Limited(evaluator.model, threads, points, evaluator.target.warp_size)
            limited = Evaluator(evaluator.bound, evaluator.target, model, evaluator.settings)
            self._limited[id(evaluator), threads, points] = limited
        decider = Decider(limited)
        structure = decider.places.one(structure)
        limited.evaluate([(structure, params)])
        if np.isfinite(limited.known(structure, params).cost):
            return None  # it is within these limits, and spills
        ((other, tiles),) = finish_together(limited, [Retiler(limited, decider).descend(structure, params)])
        cost = limited.known(other, tiles).cost
        if not np.isfinite(cost):
            return None
        evaluator.evaluate([(structure, params)])
        built = build_kernel(limited.kernel_model(other), np.array(tiles, np.int64))
        return built, cost - evaluator.known(structure, params).cost
