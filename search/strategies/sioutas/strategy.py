"""Sioutas' scheduler as a strategy: inline, group, tile, nest (section 4, Figure 5)."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.analysis.rewrites.mainloop_step import with_one_step
from autosched.featurize.featurizer import Featurizer
from autosched.featurize.sketch.kernel_from_sketch import build_kernel
from autosched.featurize.sketch.sketch import KernelSketch
from autosched.schedule.legality.validate import kernel_violations, violations
from autosched.schedule.types import Kernel, Schedule
from autosched.search.cost.gpu_analytical import analytical_model
from autosched.search.cost.protocol import CostModel
from autosched.search.evaluate.counts import Counts
from autosched.search.results import RankedSchedule, SearchResult
from autosched.search.space.row_scans import seconds_of_all_steps
from autosched.search.strategies.compute_root import root_kernels, schedule_roots
from autosched.search.strategies.sioutas.deadline import Deadline
from autosched.search.strategies.sioutas.fusion import NestedFusion, is_severe
from autosched.search.strategies.sioutas.group_cost import GroupPricer
from autosched.search.strategies.sioutas.grouping import Grouper
from autosched.search.strategies.sioutas.inlining import Inliner
from autosched.search.strategies.sioutas.partition import Partition, Roots
from autosched.target import Target

Ints = NDArray[np.int64]
Mode = Literal["nested", "overlapped", "none"]

MOST_TRIED = 8
"""Tilings of a group, the cheapest ones, that are checked for legality before it is split."""


@dataclass(frozen=True, slots=True)
class Sioutas:
    """The scheduler of Sioutas et al. 2020 in one of the three modes of its evaluation (section 5.1).

    Attributes:
        mode: ``none`` computes every stage that is not inlined in a kernel of its own. ``overlapped`` also groups
            stages by overlapped tiles in shared memory. ``nested`` also moves members of groups with high resource use
            into the threads of their consumers.
    """

    mode: Mode = "nested"

    def search(
        self, bound: BoundPipeline, target: Target, *, cost: CostModel | None = None, seconds: float | None = None,
        seed: int = 0, count: int = 1,
    ) -> SearchResult:  # fmt: skip
        """Return one schedule; see `autosched.search.strategies.protocol.Strategy.search`.

        Decisions follow the cost of the paper; ``cost`` only predicts the time of the result.
        """
        started = time.perf_counter()
        deadline = Deadline(None if seconds is None else started + seconds)
        run = _Run(bound, target, self.mode, deadline)
        schedule = run.schedule()
        model = cost or analytical_model(target)
        predicted = run.predicted(model)
        elapsed = time.perf_counter() - started
        return SearchResult(
            (RankedSchedule(schedule, predicted),), run.counts, elapsed, deadline.cut_short, "; ".join(run.notes),
            model=model.name,
        )  # fmt: skip

    def schedule(self, bound: BoundPipeline, target: Target, *, seconds: float | None = None) -> Schedule:
        """Return the schedule without a predicted time.

        Args:
            bound: The pipeline.
            target: Device limits.
            seconds: Time budget, or None.
        """
        deadline = Deadline(None if seconds is None else time.perf_counter() + seconds)
        return _Run(bound, target, self.mode, deadline).schedule()


@dataclass
class _Run:
    """One search."""

    bound: BoundPipeline
    target: Target
    mode: Mode
    deadline: Deadline
    counts: Counts = field(default_factory=Counts)
    notes: list[str] = field(default_factory=list)
    featurizer: Featurizer = field(init=False)
    pricer: GroupPricer = field(init=False)
    _sketches: list[tuple[KernelSketch, Ints] | None] = field(init=False, default_factory=list)
    """Sketch and tile sizes of each kernel; None for a kernel with the baseline's tiling."""

    def __post_init__(self) -> None:
        self.bound = with_one_step(self.bound)
        self.featurizer = Featurizer(self.bound, self.target)
        self.pricer = GroupPricer(self.bound, self.target)

    def schedule(self) -> Schedule:
        """Return a legal schedule."""
        considered: Counter[str] = self.counts.considered
        started = time.perf_counter()
        inlined = Inliner(self.pricer, self.deadline, considered).run()
        partition = Partition(self.bound, inlined)
        grouped = time.perf_counter()
        self.counts.seconds["inlining"] += grouped - started
        if self.mode != "none":
            Grouper(self.pricer, partition, self.deadline, considered).run()
        tiled = time.perf_counter()
        self.counts.seconds["grouping"] += tiled - grouped
        order = {name: k for k, name in enumerate(self.bound.funcs)}
        kernels: list[Kernel] = []
        queue = sorted(partition.members, key=lambda g: (order[g[0].func], g[0].number))
        while queue:
            group = queue.pop()
            kernel = self._tiled(partition, group)
            if kernel is None:
                queue += [group, *partition.split(group)]
                continue
            kernels.append(kernel[0])
            self._sketches.append(kernel[1])
        self.counts.seconds["tiling"] += time.perf_counter() - tiled
        kernels.sort(key=lambda k: (order[k.roots[0].tiling.stage.func], k.roots[0].tiling.stage.number))
        schedule = Schedule.for_pipeline(self.bound, kernels)
        illegal = violations(self.bound, schedule, self.target)
        if illegal:
            self.notes.append(f"the result was illegal ({illegal[0]}); this is the baseline schedule")
            self._sketches = [None]
            return schedule_roots(self.bound, self.target)
        if self.deadline.cut_short:
            self.notes.append("the time budget ended before all merges and tile sizes were tried")
        return schedule

    def predicted(self, cost: CostModel) -> float:
        """Return the predicted seconds of the schedule; NaN if a kernel has no sketch or too many loads."""
        described = [kernel for kernel in self._sketches if kernel is not None]
        models = [self.featurizer.model(sketch) for sketch, _ in described]
        if len(described) < len(self._sketches) or any(model.overflow for model in models):
            return float("nan")
        if not models:
            return 0.0
        evaluation = self.featurizer.evaluate(models, [params[None, :] for _, params in described])
        return float(sum(seconds_of_all_steps(cost, evaluation, self.target).tolist()))

    def _tiled(self, partition: Partition, group: Roots) -> tuple[Kernel, tuple[KernelSketch, Ints] | None] | None:
        """Return the kernel of a group with its sketch and tile sizes; None if the group has to be split."""
        sketch = partition.sketch(group)
        rows = self._tilings(sketch, partition.sketch(group, ()))
        why = "no tiling fits the device"
        for params, severe in rows:
            kernel = build_kernel(self.featurizer.model(sketch), params)
            illegal = kernel_violations(self.bound, kernel, self.target)
            if not illegal:
                if self.mode == "nested" and sketch.locations and severe:
                    return self._nested(sketch, params)
                return kernel, (sketch, params)
            why = illegal[0]
            self.counts.pruned[f"illegal in the end: {why}"] += 1
        name = str(group[0])
        if sketch.locations:
            self.notes.append(f"the group of {name} was split: {why}")
            return None
        self.notes.append(f"{name} has the baseline's tile: {why}")
        func = self.bound.rewritten.funcs[group[0].func]
        baseline = root_kernels(self.bound.rewritten, func, self.target, set(partition.inlined))
        baseline_kernel = next(k for k in baseline if k.roots[0].tiling.stage == group[0])
        return baseline_kernel, None

    def _tilings(self, sketch: KernelSketch, alone: KernelSketch) -> Sequence[tuple[Ints, bool]]:
        """Return the tilings of a group to try, cheapest first, and whether each one's resource use is severe."""
        rules = self.pricer.price(alone).rules if sketch.locations else None
        groups = [self.pricer.price(sketch, rules=rules)]
        if not self.deadline.passed():
            groups.insert(0, self.pricer.price(sketch, final=True))
        rows: list[tuple[Ints, bool]] = []
        for priced in groups:
            self.counts.considered["tile"] += priced.considered
            self.counts.kernels += len(priced.params)
            self.counts.pruned.update(dict(priced.pruned))
            for k in range(min(MOST_TRIED, len(priced.params))):
                used = int(priced.shared_bytes[k]), float(priced.occupancy[k]), int(priced.active_threads[k])
                rows.append((priced.params[k], is_severe(*used)))
        return rows

    def _nested(self, sketch: KernelSketch, params: Ints) -> tuple[Kernel, tuple[KernelSketch, Ints]]:
        """Return the kernel of a group after nested fusion, with its sketch and tile sizes."""
        nested, fewer, at_block = NestedFusion(self.featurizer, self.target).run(sketch, params)
        self.counts.considered["nest"] += len(sketch.locations)
        if at_block:
            self.counts.pruned["no legal place inside a thread"] += len(at_block)
        return build_kernel(self.featurizer.model(nested), fewer), (nested, fewer)
