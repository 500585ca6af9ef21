"""Forma's code generator as a strategy: every stencil fused, all else in global memory (section 2)."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.featurize.featurizer import Featurizer
from autosched.featurize.sketch.kernel_from_sketch import build_kernel
from autosched.featurize.sketch.sketch_from_kernel import describe_kernel
from autosched.schedule.legality.validate import kernel_violations, violations
from autosched.schedule.types import Kernel, Schedule
from autosched.search.cost.gpu_analytical import analytical_model
from autosched.search.cost.protocol import CostModel
from autosched.search.evaluate.counts import Counts
from autosched.search.evaluate.evaluator import KernelEvaluator
from autosched.search.results import RankedSchedule, SearchResult
from autosched.search.settings import SearchSettings
from autosched.search.strategies.compute_root import root_kernels, schedule_roots
from autosched.search.strategies.forma.fusion_groups import FusionGroup, StencilDAG, compute_tile, find_stencils
from autosched.search.strategies.forma.group_tiling import group_tilings
from autosched.search.strategies.sioutas.deadline import Deadline
from autosched.target import Target

MOST_TRIED = 8
"""Tilings of a group, the preferred ones, that are checked for legality before a member goes to memory."""
MOST_NOTES = 3
"""Deviations that the note of a result describes."""


@dataclass(frozen=True, slots=True)
class Forma:
    """The code generator of Ravishankar et al. 2015.

    Each stencil in global memory is computed tile by tile, with all stencils that it needs fused into its kernel
    (Algorithms 1 and 2). What is no stencil has the kernels of the baseline.

    Attributes:
        fuse: Whether stencils are fused. Otherwise each has a kernel of its own, as in the version of Forma that the
            paper compares with.
    """

    fuse: bool = True

    def search(
        self, bound: BoundPipeline, target: Target, *, cost: CostModel | None = None, seconds: float | None = None,
        seed: int = 0, count: int = 1,
    ) -> SearchResult:  # fmt: skip
        """Return one schedule; see `autosched.search.strategies.protocol.Strategy.search`.

        Decisions follow the rules of the paper; ``cost`` only predicts the time of the result.
        """
        started = time.perf_counter()
        run = _Run(bound.rewritten, target, self.fuse, Deadline(None if seconds is None else started + seconds))
        schedule = run.schedule()
        model = cost or analytical_model(target)
        predicted = _predicted(run.bound, schedule, target, model)
        elapsed = time.perf_counter() - started
        more = [f"{len(run.notes) - MOST_NOTES} more like these"] if len(run.notes) > MOST_NOTES else []
        note = "; ".join([*run.notes[:MOST_NOTES], *more])
        return SearchResult(
            (RankedSchedule(schedule, predicted),), run.counts, elapsed, run.deadline.cut_short, note, model=model.name
        )  # fmt: skip


@dataclass
class _Run:
    """One search."""

    bound: BoundPipeline
    target: Target
    fuse: bool
    deadline: Deadline
    counts: Counts = field(default_factory=Counts)
    notes: list[str] = field(default_factory=list)
    dag: StencilDAG = field(init=False)
    featurizer: Featurizer = field(init=False)

    def __post_init__(self) -> None:
        self.dag = find_stencils(self.bound)
        self.featurizer = Featurizer(self.bound, self.target)

    def schedule(self) -> Schedule:
        """Return a legal schedule: the kernels of all Funcs in global memory (Algorithm 2)."""
        order = {name: k for k, name in enumerate(self.bound.funcs)}
        in_memory = set(self.dag.in_memory)
        kernels: list[Kernel] = []
        done: set[str] = set()
        while waiting := in_memory - done:
            name = max(waiting, key=order.__getitem__)  # consumers first: their members may still go to memory
            done.add(name)
            kernels += self._kernels(name, in_memory)
        kernels.sort(key=lambda k: (order[k.roots[0].tiling.stage.func], k.roots[0].tiling.stage.number))
        schedule = Schedule.for_pipeline(self.bound, kernels)
        illegal = violations(self.bound, schedule, self.target)
        if illegal:
            self.notes.insert(0, f"the result was illegal ({illegal[0]}); this is the baseline schedule")
            return schedule_roots(self.bound, self.target)
        if self.deadline.cut_short:
            self.notes.insert(0, "the time budget ended before all stencils were fused")
        return schedule

    def _kernels(self, name: str, in_memory: set[str]) -> list[Kernel]:
        """Return the kernels of a Func in memory; the Funcs that they load are added to ``in_memory``."""
        func = self.bound.funcs[name]
        cut: dict[str, str] = {}
        while self.fuse and name in self.dag.offsets and not self.deadline.passed():
            group, refused = compute_tile(self.dag, name, frozenset(in_memory | cut.keys()))
            if refused:
                self.counts.pruned.update(f"in memory: {why}" for why in refused.values())
                in_memory.update(refused)
                continue
            kernel, reason = self._tiled(group)
            if kernel is not None:
                loaded = {self.dag.behind(s) for s in group.loads}
                in_memory.update(loaded & cut.keys())
                self.notes += [
                    f"{n} is in memory, not in the kernel of {name}: {why}" for n, why in cut.items() if n in loaded
                ]
                return [kernel]
            if not group.members:
                self.notes.append(f"{name} has the baseline's tile: {reason}")
                break
            cut[next(iter(group.members))] = reason
        sources = {self.dag.behind(s) for stage in func.nonempty_stages for s in stage.sources}
        in_memory |= sources & self.bound.funcs.keys() - {name}
        return root_kernels(self.bound, func, self.target, set(self.dag.boundaries))

    def _tiled(self, group: FusionGroup) -> tuple[Kernel | None, str]:
        """Return the kernel of a group, or None and the reason why no tiling is legal.

        If there is none with copies of arrays in memory, the group reads them in place.
        """
        reason = ""
        for copies in (True, False):
            tilings = group_tilings(self.dag, group, self.target, copies=copies)
            reason = tilings.reason or reason
            self.counts.considered["tile"] += len(tilings.params)
            for params in tilings.params[:MOST_TRIED]:
                kernel = build_kernel(self.featurizer.model(tilings.sketch), params)
                self.counts.kernels += 1
                illegal = kernel_violations(self.bound, kernel, self.target)
                if not illegal:
                    return kernel, ""
                reason = illegal[0]
            if self.target.kind != "cuda":
                break
        return None, reason


def _predicted(bound: BoundPipeline, schedule: Schedule, target: Target, cost: CostModel) -> float:
    """Return the predicted seconds of a schedule."""
    evaluator = KernelEvaluator(bound, target, cost, SearchSettings())
    kernels = [describe_kernel(evaluator.bound, k) for k in schedule.kernels]
    evaluator.evaluate(kernels)
    return sum(evaluator.verdict(sketch, params).cost for sketch, params in kernels)
