"""Costs and legality of kernels, each worked out once: candidates with one structure are a batch."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from autosched.analysis.bound import BoundPipeline
from autosched.analysis.cost import operations
from autosched.featurize.build import build_kernel
from autosched.featurize.model import Evaluation, Featurizer, KernelModel
from autosched.featurize.nests import NestShape
from autosched.featurize.schema import INDEX
from autosched.featurize.structure import Structure
from autosched.schedule.checks.members import MAX_UNROLLED_LOADS
from autosched.schedule.derived import is_unrolled, reduction_is_unrolled
from autosched.schedule.tiles import calls_through
from autosched.schedule.types import Level
from autosched.schedule.validate import kernel_reasons
from autosched.search.cost import CostModel, comparable
from autosched.search.settings import SearchSettings
from autosched.target import Target

Ints = NDArray[np.int64]
Params = tuple[int, ...]

LEGAL = ""
ALIGNMENT = 64
"""Tiles that agree modulo this lie alike to the steps of floor divisions, whose divisors are small powers of two."""


@dataclass
class Counts:
    """What a search did.

    Attributes:
        kernels: Distinct kernels that were costed.
        asked: Kernels asked for, those found in the cache included.
        batches: Calls of the featurizer.
        considered: Candidates by kind of decision.
        pruned: Candidates left out, by reason.
        buckets: Buckets of alike candidates, by the number of candidates in them (rounded down to a power of two).
        seconds: Time by activity.
    """

    kernels: int = 0
    asked: int = 0
    batches: int = 0
    considered: Counter[str] = field(default_factory=Counter)
    pruned: Counter[str] = field(default_factory=Counter)
    buckets: Counter[int] = field(default_factory=Counter)
    seconds: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))

    @property
    def hit_rate(self) -> float:
        """Share of the kernels asked for that were known."""
        return 1 - self.kernels / self.asked if self.asked else 0.0

    @property
    def mean_batch(self) -> float:
        """Kernels per call of the featurizer."""
        return self.kernels / self.batches if self.batches else 0.0


@dataclass(frozen=True, slots=True)
class Verdict:
    """What is known of one kernel: predicted seconds, and the reason it is pruned (empty if it is not)."""

    cost: float
    reason: str


@dataclass
class Evaluator:
    """Costs kernels of one bound pipeline.

    Args:
        bound: The pipeline.
        target: Device limits.
        model: Predicts times.
        settings: Pruning rules.
        counts: What was done.
        uneven: Structures with a new THREAD Member whose reads may not become constant by unrolling.
    """

    bound: BoundPipeline
    target: Target
    model: CostModel
    settings: SearchSettings
    counts: Counts = field(default_factory=Counts)
    uneven: set[Structure] = field(default_factory=set)
    featurizer: Featurizer = field(init=False)
    _known: dict[Structure, dict[Params, Verdict]] = field(init=False, default_factory=dict)
    _loads: dict[tuple[object, ...], int] = field(init=False, default_factory=dict)
    _in_registers: dict[tuple[object, ...], bool] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self.featurizer = Featurizer(self.bound, self.target)

    def kernel_model(self, structure: Structure) -> KernelModel:
        """Return the model of a structure."""
        return self.featurizer.model(structure)

    def known(self, structure: Structure, params: Params) -> Verdict:
        """Return what was found for a kernel that has been evaluated."""
        return self._known[structure][params]

    def evaluate(self, wanted: Iterable[tuple[Structure, Params]]) -> None:
        """Work out the verdicts of kernels, those with one structure together."""
        fresh: dict[Structure, dict[Params, None]] = {}
        for structure, params in wanted:
            self.counts.asked += 1
            if params not in self._known.setdefault(structure, {}):
                fresh.setdefault(structure, {})[params] = None
        for structure, rows in fresh.items():
            self._evaluate(structure, list(rows))

    def _evaluate(self, structure: Structure, rows: list[Params]) -> None:
        known = self._known[structure]
        model = self.kernel_model(structure)
        self.counts.kernels += len(rows)
        self.counts.batches += 1
        if model.overflow:
            for r in rows:
                known[r] = Verdict(float("inf"), "inlining reads too much at one point")
            return
        started = time.perf_counter()
        found = model.evaluate(np.array(rows, np.int64).reshape(len(rows), -1))
        featurized = time.perf_counter()
        costs = self.model.cost(model, found.features)
        costed = time.perf_counter()
        reasons = self._reasons(model, found)
        if structure in self.uneven:
            reasons = [self._uneven_reason(model, r) if reasons[k] == LEGAL else reasons[k] for k, r in enumerate(rows)]
        for k, r in enumerate(rows):
            known[r] = Verdict(comparable(float(costs[k])), reasons[k])
            if reasons[k]:
                self.counts.pruned[reasons[k]] += 1
        self.counts.seconds["features"] += featurized - started
        self.counts.seconds["cost"] += costed - featurized
        self.counts.seconds["pruning"] += time.perf_counter() - costed

    def _reasons(self, model: KernelModel, found: Evaluation) -> list[str]:
        """Return why each kernel is pruned (Anderson, section 6.6)."""
        s, t, g = self.settings, self.target, found.geometry
        n = len(found.features)
        threads = g.block.prod(axis=1)
        bad: list[tuple[str, Any]] = [
            ("more threads than a block can have", (threads > t.max_threads_per_block) | (g.thread_dims > 3)),
            ("threads beyond the device's limit in a dimension", (g.block > np.array(t.max_block_dim)).any(axis=1)),
            ("more shared memory than a block can have", found.shared_bytes > t.shared_per_block_optin),
            ("more blocks than a grid can have", g.blocks > t.max_grid[0]),
        ]
        small = np.ones(n, bool)
        serial = np.ones(n, bool)
        for spot in model.structure.spots:
            func = self.bound.funcs[spot.func]
            if spot.level is Level.THREAD:
                points = g.extents[spot.func].prod(axis=1)
                small &= (points <= s.max_thread_points) & (
                    points * sum(d.bytes_ for d in func.dtypes) <= s.max_thread_bytes
                )
                host = g.nest(spot.host)
                small &= host.serial.prod(axis=1) <= s.max_serial_points
        for nest in g.nests:
            if nest.level is Level.BLOCK:
                serial &= nest.serial.prod(axis=1) <= 4 * s.max_serial_points
        bad.append(("too much code when unrolled", self._unrolled_loads(model, g.nests) > MAX_UNROLLED_LOADS))
        bad.append(("too large for a thread's registers", ~small))
        bad.append(("serial loops too long to unroll", ~serial))
        rows = found.features[:, : len(model.rows)]
        needed = np.maximum(rows[:, :, INDEX["points_computed_minimum"]], 1)
        repeated = rows[:, :, INDEX["points_computed_total"]] / needed
        bad.append(("too much computed again", (repeated > s.max_recompute).any(axis=1)))
        for k, name in enumerate(model.inlined):
            inlined = found.features[:, len(model.rows) + k]
            points = np.maximum(inlined[:, INDEX["points_computed_minimum"]], 1)
            func = self.bound.funcs[name]
            if func.boundary is None and not _trivial(self.featurizer, name):
                bad.append(("too much computed again", inlined[:, INDEX["inlined_calls"]] / points > s.max_recompute))
            calls = max(model.accesses_of(r).calls.get(name, 0) for r in model.rows)
            bad.append(("an inlined Func is evaluated too often", np.full(n, calls >= s.max_inlined_calls)))
        idle = rows[:, :, INDEX["idle_lane_wastage"]].max(axis=1)
        bad.append(("too many idle lanes", idle > s.max_idle_lanes))
        reasons = [LEGAL] * n
        for reason, mask in reversed(bad):
            for k in np.flatnonzero(mask).tolist():
                reasons[k] = reason
        return reasons

    def _uneven_reason(self, model: KernelModel, params: Params) -> str:
        """Return whether the scalar checks, which know every index exactly, keep a THREAD Member in registers.

        That depends on the points of each thread and on how tiles lie to the steps of floor divisions, so it is worked
        out once for kernels that agree in these.
        """
        s, layout = model.structure, model.layout
        serial = params[layout.root_serial]
        tile = tuple(t * n % ALIGNMENT for t, n in zip(params[layout.root_threads], serial, strict=True))
        key = s.stages, s.spots, s.inlined, serial, tile, params[layout.root_serial.stop :]
        if key not in self._in_registers:
            kernel = build_kernel(model, np.array(params, np.int64))
            self._in_registers[key] = not kernel_reasons(self.bound, kernel, self.target)
        return LEGAL if self._in_registers[key] else "read at an index that no unrolling makes constant"

    def _unrolled_loads(self, model: KernelModel, nests: Sequence[NestShape]) -> Ints:
        """Return the loads of a kernel with its loops unrolled (see the legality check of the same purpose)."""
        total = np.zeros(len(nests[0].times), np.int64)
        inlined = set(model.structure.inlined)
        for nest in nests:
            key = model.structure.stages, model.structure.inlined, nest.id
            if key not in self._loads:
                self._loads[key] = calls_through(self.bound, [nest.id], inlined)
            points = nest.serial.prod(axis=1)
            copies = np.where(is_unrolled(points) | (nest.level is Level.THREAD), points, 1) * nest.times
            terms = np.where(reduction_is_unrolled(points, nest.reduction_points), nest.reduction_points, 1)
            total += copies * terms * self._loads[key]
        return total


def _trivial(featurizer: Featurizer, name: str) -> bool:
    """Whether a Func is so cheap that computing it again is never too much: a copy or a few operations."""
    func = featurizer.bound.funcs[name]
    stage = func.stages[0]
    return operations(stage) + sum(stage.load_counts.values()) <= 1 + max(d.bytes_ for d in func.dtypes)
