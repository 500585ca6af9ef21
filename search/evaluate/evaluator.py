"""Costs and legality of kernels, each worked out once: candidates with one structure are a batch."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import InitVar, dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.analysis.rewrites.mainloop_step import with_one_step
from autosched.featurize.featurizer import MAX_BATCH, Featurizer, SketchFeaturizer
from autosched.featurize.sketch.kernel_from_sketch import planned_kernel
from autosched.featurize.sketch.sketch import KernelSketch
from autosched.schedule.legality.validate import kernel_violations
from autosched.search.cost.protocol import CostModel, Floats, all_comparable, features_read
from autosched.search.evaluate.counts import Counts
from autosched.search.evaluate.cross_rewrite_cache import CrossRewriteCache
from autosched.search.evaluate.pruning_rules import LEGAL, PRUNED_BY, REASONS, early_reasons, late_reasons
from autosched.search.settings import SearchSettings
from autosched.search.space.row_scans import seconds_of_all_steps
from autosched.target import Target

Ints = NDArray[np.int64]
Params = tuple[int, ...]

ALIGNMENT = 64
"""Tiles that agree modulo this lie alike to the steps of floor divisions, whose divisors are small powers of two."""


class KernelVerdict(NamedTuple):
    """What is known of one kernel: predicted seconds, and the reason it is pruned (empty if it is not)."""

    cost: float
    reason: str


Verdicts = dict[Params, KernelVerdict]


class _Known(dict[KernelSketch, Verdicts]):
    """Verdicts by structure; those of structures that other ways have, too, are theirs."""

    def __init__(self, alike: CrossRewriteCache[Verdicts] | None, bound: BoundPipeline) -> None:
        self._alike = alike
        self._functions = {} if alike is None else alike.functions(bound)

    def __missing__(self, structure: KernelSketch) -> Verdicts:
        own: Verdicts = {}
        found = self[structure] = own if self._alike is None else self._alike.shared(structure, self._functions, own)
        return found


TOO_MANY_READS = KernelVerdict(float("inf"), "inlining reads too much at one point")


@dataclass
class KernelEvaluator:
    """Costs kernels of one bound pipeline.

    Args:
        bound: The pipeline; scans over rows have one step in the one that is kept.
        target: Device limits.
        model: Predicts times.
        settings: Pruning rules.
        counts: What was done.
        uneven: The new THREAD Member of structures where its reads may not become constant by unrolling.
        like: Costs kernels of a pipeline that differs in nothing but how many buffers are staged, if one does.
        alike: What is known of kernels of other ways of computing the same, by the same model with the same settings.
    """

    bound: BoundPipeline
    target: Target
    model: CostModel
    settings: SearchSettings
    counts: Counts = field(default_factory=Counts)
    uneven: dict[KernelSketch, str] = field(default_factory=dict)
    like: InitVar[KernelEvaluator | None] = None
    alike: InitVar[CrossRewriteCache[Verdicts] | None] = None
    featurizer: Featurizer = field(init=False)
    _wanted: frozenset[str] | None = field(init=False)
    _known: _Known = field(init=False)
    _in_registers: dict[tuple[object, ...], bool] = field(init=False, default_factory=dict)

    def __post_init__(self, like: KernelEvaluator | None, alike: CrossRewriteCache[Verdicts] | None) -> None:
        self.bound = with_one_step(self.bound)
        self._known = _Known(alike, self.bound)
        self.featurizer = (
            Featurizer(self.bound, self.target) if like is None else like.featurizer.with_buffers_of(self.bound)
        )
        read = features_read(self.model)
        self._wanted = None if read is None else read | PRUNED_BY

    def kernel_model(self, structure: KernelSketch) -> SketchFeaturizer:
        """Return the model of a structure."""
        return self.featurizer.model(structure)

    def known(self, structure: KernelSketch, params: Params) -> KernelVerdict:
        """Return what was found for a kernel that has been evaluated."""
        found = self._known[structure][params]
        if math.isnan(found.cost):
            self.evaluate([(structure, params)])
            found = self._known[structure][params]
        return found

    def verdicts(self, structure: KernelSketch) -> Mapping[Params, KernelVerdict]:
        """Return what was found for kernels of a structure; those that were pruned at once cost NaN."""
        return self._known[structure]

    def may_stay(self, structure: KernelSketch, params: Params) -> bool:
        """Return whether a kernel that came about without a choice is not to be pruned; one at root is only slow."""
        return not (structure.spots or structure.inlined) or not self._known[structure][params].reason

    def evaluate(self, wanted: Iterable[tuple[KernelSketch, Params]], *, prune: bool = False) -> None:
        """Work out the verdicts of kernels, those with one structure together.

        Args:
            wanted: The kernels.
            prune: Whether those that need not be looked at further are not costed.
        """
        fresh: dict[KernelSketch, dict[Params, None]] = {}
        last: KernelSketch | None = None
        known: dict[Params, KernelVerdict] = {}
        for structure, params in wanted:
            self.counts.asked += 1
            if structure is not last:  # those of one structure come one after the other
                last, known = structure, self._known[structure]
            if params not in known or (not prune and math.isnan(known[params].cost)):
                fresh.setdefault(structure, {})[params] = None
        models: list[SketchFeaturizer] = []
        tables: list[list[Params]] = []
        room = MAX_BATCH
        for structure, new in fresh.items():
            model = self.kernel_model(structure)
            rows = list(new)
            self.counts.kernels += sum(r not in self._known[structure] for r in rows)
            if model.overflow:
                self._known[structure].update(dict.fromkeys(rows, TOO_MANY_READS))
                continue
            while rows:
                models.append(model)
                tables.append(rows[:room])
                rows = rows[room:]
                room -= len(tables[-1])
                if room == 0:
                    self._evaluate(models, tables, prune)
                    models, tables, room = [], [], MAX_BATCH
        if models:
            self._evaluate(models, tables, prune)

    def early_reason(self, structure: KernelSketch, params: Params) -> str:
        """Return why a kernel is pruned, as far as that follows from how it is laid out; it is not costed."""
        model = self.kernel_model(structure)
        if model.overflow:
            return TOO_MANY_READS.reason
        layout = model.tables.lay_out([model], [np.array([params], np.int64)])
        return REASONS[early_reasons(layout, self.settings, self.target)[0]]

    def _evaluate(self, models: Sequence[SketchFeaturizer], tables: Sequence[list[Params]], prune: bool) -> None:
        shared = models[0].tables
        apart = [k for k, m in enumerate(models) if m.tables is not shared]
        if apart:  # copies of sources have tables of their own
            self._evaluate([models[k] for k in apart], [tables[k] for k in apart], prune)
            mine = [k for k, m in enumerate(models) if m.tables is shared]
            models, tables = [models[k] for k in mine], [tables[k] for k in mine]
        self.counts.batches += 1
        started = time.perf_counter()
        params = [np.array(rows, np.int64).reshape(len(rows), -1) for rows in tables]
        layout = shared.lay_out(models, params)
        codes = early_reasons(layout, self.settings, self.target)
        chosen = codes == 0 if prune else np.ones(len(codes), bool)
        costs = np.full(len(codes), np.nan)
        if chosen.any():
            found = shared.featurized(models, layout.take(chosen), self._wanted)
            featurized = time.perf_counter()
            costs[chosen] = seconds_of_all_steps(self.model, found, self.target)
            costed = time.perf_counter()
            late = late_reasons(found, self.settings)
            codes[chosen] = np.where(codes[chosen] > 0, codes[chosen], late)
            self.counts.seconds["cost"] += costed - featurized
            self.counts.seconds["pruning"] += time.perf_counter() - costed
            self.counts.seconds["features"] += featurized - started
        else:
            self.counts.seconds["features"] += time.perf_counter() - started
        self._remember(models, tables, all_comparable(costs), codes)

    def _remember(
        self, models: Sequence[SketchFeaturizer], tables: Sequence[list[Params]], costs: Floats, codes: Ints
    ) -> None:
        """Take over costs and reasons of the kernels of some structures, in their order."""
        kernels = [(self._known[m.structure], row) for m, rows in zip(models, tables, strict=True) for row in rows]
        for (known, row), cost, code in zip(kernels, costs.tolist(), codes.tolist(), strict=True):
            if code and row not in known:
                self.counts.pruned[REASONS[code]] += 1
            known[row] = KernelVerdict(cost, REASONS[code])

    def is_sound(self, structure: KernelSketch, params: Params) -> bool:
        """Return whether a kernel that has been evaluated passes the checks that are too dear for every candidate."""
        func = self.uneven.get(structure)
        if func is None:
            return True
        found = self._known[structure][params]
        if found.reason:
            return False
        started = time.perf_counter()
        reason = self._uneven_reason(self.kernel_model(structure), func, params)
        if reason:
            self.counts.pruned[reason] += 1
            self._known[structure][params] = KernelVerdict(found.cost, reason)
        self.counts.seconds["pruning"] += time.perf_counter() - started
        return not reason

    def _uneven_reason(self, model: SketchFeaturizer, func: str, params: Params) -> str:
        """Return whether the scalar checks, which know every index exactly, keep a THREAD Member in registers.

        That depends on what lies between it and the root alone, on the points of each thread, and on how tiles lie to
        the steps of floor divisions, so it is worked out once for kernels that agree in these.
        """
        s, layout = model.structure, model.layout
        inside = frozenset(p.func for p in s.spots) | s.inlined
        way = self.featurizer.tables.demands.funcs_between(func, inside) | {func}
        part = KernelSketch(s.stages, tuple(p for p in s.spots if p.func in way), s.inlined & way)
        serial = params[layout.root_serial]
        tile = tuple(t * n % ALIGNMENT for t, n in zip(params[layout.root_threads], serial, strict=True))
        members = tuple(n for name, where in layout.members if name in way for n in params[where])
        key = part, serial, tile, members
        if key not in self._in_registers:
            whole = np.array([*params[: layout.root_serial.stop], *members], np.int64)
            kernel, plan = planned_kernel(self.featurizer.model(part), whole)
            self._in_registers[key] = not kernel_violations(self.bound, kernel, self.target, plan)
        return LEGAL if self._in_registers[key] else "read at an index that no unrolling makes constant"
