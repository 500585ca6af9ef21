"""Sioutas' scheduler as a strategy: inline, group, tile, nest (section 4, Figure 5)."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from autosched.analysis.bound import BoundPipeline
from autosched.featurize.build import build_kernel
from autosched.featurize.model import Featurizer
from autosched.featurize.structure import Structure
from autosched.schedule.types import Kernel, Schedule
from autosched.schedule.validate import kernel_reasons, reasons
from autosched.search.analytical import analytical_model
from autosched.search.cost import CostModel
from autosched.search.evaluate import Counts
from autosched.search.roots import root_kernels, schedule_roots
from autosched.search.sioutas.cost import GroupPricer
from autosched.search.sioutas.deadline import Deadline
from autosched.search.sioutas.fusion import NestedFusion, is_severe
from autosched.search.sioutas.grouping import Grouper
from autosched.search.sioutas.inlining import Inliner
from autosched.search.sioutas.partition import Partition, Roots
from autosched.target import Target

if TYPE_CHECKING:
    from autosched.search.ranked import Found

Ints = NDArray[np.int64]
Mode = Literal["nested", "overlapped", "none"]

MOST_TRIED = 8
"""Tilings of a group that are checked, the cheapest first, before it is split."""


@dataclass(frozen=True, slots=True)
class Sioutas:
    """The scheduler of Sioutas et al. 2020 in one of the three modes of its evaluation (section 5.1).

    Attributes:
        mode: ``none`` tiles every stage that is not inlined in a kernel of its own, ``overlapped`` also groups stages
            by overlapped tiles in shared memory, ``nested`` also moves members of groups with severe needs into the
            threads of their consumers.
    """

    mode: Mode = "nested"

    def search(
        self, bound: BoundPipeline, target: Target, *, cost: CostModel | None = None, seconds: float | None = None,
        seed: int = 0, count: int = 1,
    ) -> Found:  # fmt: skip
        """Return the one schedule this strategy has; see `autosched.search.strategy.Strategy.search`.

        The decisions follow the paper's own cost; ``cost`` only predicts the time of the result.
        """
        from autosched.search.ranked import Found, Ranked  # that module lists this strategy

        started = time.perf_counter()
        deadline = Deadline(None if seconds is None else started + seconds)
        run = _Run(bound, target, self.mode, deadline, cost or analytical_model(target))
        schedule, predicted = run.schedule()
        elapsed = time.perf_counter() - started
        return Found((Ranked(schedule, predicted),), run.counts, elapsed, deadline.cut_short, "; ".join(run.notes))


@dataclass
class _Run:
    """One search."""

    bound: BoundPipeline
    target: Target
    mode: Mode
    deadline: Deadline
    model: CostModel
    counts: Counts = field(default_factory=Counts)
    notes: list[str] = field(default_factory=list)
    featurizer: Featurizer = field(init=False)
    pricer: GroupPricer = field(init=False)

    def __post_init__(self) -> None:
        self.featurizer = Featurizer(self.bound, self.target)
        self.pricer = GroupPricer(self.bound, self.target)

    def schedule(self) -> tuple[Schedule, float]:
        """Return a legal schedule and its predicted seconds."""
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
        total = 0.0
        queue = sorted(partition.members, key=lambda g: (order[g[0].func], g[0].number))
        while queue:
            group = queue.pop()
            found = self._tiled(partition, group)
            if found is None:
                queue += [group, *partition.split(group)]
                continue
            kernels.append(found[0])
            total += found[1]
        self.counts.seconds["tiling"] += time.perf_counter() - tiled
        kernels.sort(key=lambda k: (order[k.roots[0].tiling.stage.func], k.roots[0].tiling.stage.number))
        schedule = Schedule.of(self.bound, kernels)
        illegal = reasons(self.bound, schedule, self.target)
        if illegal:
            self.notes.append(f"the result was illegal ({illegal[0]}); this is the baseline schedule")
            return schedule_roots(self.bound, self.target), float("nan")
        if self.deadline.cut_short:
            self.notes.append("the time budget ended before all merges and tile sizes were tried")
        return schedule, total

    def _tiled(self, partition: Partition, group: Roots) -> tuple[Kernel, float] | None:
        """Return the kernel of a group with its predicted seconds; None if the group has to be split."""
        structure = partition.structure(group)
        rows = self._tilings(structure, partition.structure(group, ()))
        why = "no tiling fits the device"
        for params, shared_bytes, threads in rows:
            kernel = build_kernel(self.featurizer.model(structure), params)
            illegal = kernel_reasons(self.bound, kernel, self.target)
            if not illegal:
                if self.mode == "nested" and structure.spots and is_severe(self.target, shared_bytes, threads):
                    return self._nested(structure, params)
                return kernel, self._predicted(structure, params)
            why = illegal[0]
            self.counts.pruned[f"illegal in the end: {why}"] += 1
        name = str(group[0])
        if structure.spots:
            self.notes.append(f"the group of {name} was split: {why}")
            return None
        self.notes.append(f"{name} has the baseline's tile: {why}")
        func = self.bound.funcs[group[0].func]
        baseline = root_kernels(self.bound, func, self.target, set(partition.inlined))
        wanted = next(k for k in baseline if k.roots[0].tiling.stage == group[0])
        return wanted, float("nan")

    def _tilings(self, structure: Structure, alone: Structure) -> Sequence[tuple[Ints, int, int]]:
        """Return the tilings of a group to try, cheapest first, each with its shared memory and threads."""
        rules = self.pricer.price(alone).rules if structure.spots else None
        found = [self.pricer.price(structure, rules=rules)]
        if not self.deadline.passed():
            found.insert(0, self.pricer.price(structure, final=True))
        rows: list[tuple[Ints, int, int]] = []
        for priced in found:
            self.counts.considered["tile"] += priced.considered
            self.counts.kernels += len(priced.params)
            self.counts.pruned.update(dict(priced.pruned))
            triples = zip(priced.params, priced.shared_bytes.tolist(), priced.threads.tolist(), strict=True)
            rows += [t for _, t in zip(range(MOST_TRIED), triples, strict=False)]
        return rows

    def _nested(self, structure: Structure, params: Ints) -> tuple[Kernel, float]:
        """Return a group after nested fusion, with its predicted seconds."""
        nested, fewer, kept = NestedFusion(self.featurizer, self.target).run(structure, params)
        self.counts.considered["nest"] += len(structure.spots)
        if kept:
            self.counts.pruned["no legal place inside a thread"] += len(kept)
        return build_kernel(self.featurizer.model(nested), fewer), self._predicted(nested, fewer)

    def _predicted(self, structure: Structure, params: Ints) -> float:
        """Return the seconds that the cost model predicts for a kernel; NaN where it reads too much to be looked at."""
        model = self.featurizer.model(structure)
        if model.overflow:
            return float("nan")
        return float(self.model.cost(self.featurizer.evaluate([model], [params[None, :]]))[0])
