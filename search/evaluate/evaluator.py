"""Cached costs and legality of kernels; candidates with one sketch are evaluated in batches."""

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
from autosched.featurize.sketch.candidate_layout import CandidateLayout
from autosched.featurize.sketch.kernel_from_sketch import planned_kernel
from autosched.featurize.sketch.sketch import KernelSketch
from autosched.schedule.legality.validate import kernel_violations
from autosched.search.cost.protocol import CostModel, Floats, all_comparable, features_read
from autosched.search.evaluate.counts import Counts
from autosched.search.evaluate.cross_rewrite_cache import CrossRewriteCache
from autosched.search.evaluate.guide_limits import GuideLimits, guide_limits
from autosched.search.evaluate.pruning_rules import LEGAL, PRUNED_BY, REASONS, early_reasons, late_reasons
from autosched.search.settings import SearchSettings
from autosched.search.space.row_scans import seconds_of_all_steps
from autosched.target import Target

Ints = NDArray[np.int64]
Params = tuple[int, ...]

ALIGNMENT = 64
"""Tiles that agree modulo this are equivalent for floor divisions, whose divisors are small powers of two."""


class KernelVerdict(NamedTuple):
    """Verdict on one kernel.

    Attributes:
        cost: Predicted seconds; NaN if it was pruned before it was costed.
        reason: Reason for pruning, empty if it is not pruned.
    """

    cost: float
    reason: str


Verdicts = dict[Params, KernelVerdict]


class _VerdictCache(dict[KernelSketch, Verdicts]):
    """Verdicts by sketch, shared with other rewrites where the kernel computes the same."""

    def __init__(self, shared_cache: CrossRewriteCache[Verdicts] | None, bound: BoundPipeline) -> None:
        self._shared_cache = shared_cache
        self._func_ids = {} if shared_cache is None else shared_cache.func_ids(bound)

    def __missing__(self, sketch: KernelSketch) -> Verdicts:
        verdicts: Verdicts = {}
        if self._shared_cache is not None:
            verdicts = self._shared_cache.shared(sketch, self._func_ids, verdicts)
        self[sketch] = verdicts
        return verdicts


TOO_MANY_READS = KernelVerdict(float("inf"), "too many loads at one point because of inlining")


@dataclass
class KernelEvaluator:
    """Costs kernels of one bound pipeline.

    Args:
        bound: The pipeline; the attribute has one step of each scan over rows.
        target: Device limits.
        model: Cost model.
        settings: Pruning rules.
        counts: Statistics.
        dynamic_reads: The last placed producer at THREAD, by sketch, where it may be read at indices that stay dynamic
            after unrolling.
        sibling: Evaluator of a pipeline that differs only in the number of buffers, whose features are reused, if any.
        shared_cache: Verdicts shared with the evaluators of other rewrites, with the same model and settings, if any.
    """

    bound: BoundPipeline
    target: Target
    model: CostModel
    settings: SearchSettings
    counts: Counts = field(default_factory=Counts)
    dynamic_reads: dict[KernelSketch, str] = field(default_factory=dict)
    sibling: InitVar[KernelEvaluator | None] = None
    shared_cache: InitVar[CrossRewriteCache[Verdicts] | None] = None
    featurizer: Featurizer = field(init=False)
    _wanted: frozenset[str] | None = field(init=False)
    _verdicts: _VerdictCache = field(init=False)
    _register_legality: dict[tuple[object, ...], bool] = field(init=False, default_factory=dict)

    def __post_init__(self, sibling: KernelEvaluator | None, shared_cache: CrossRewriteCache[Verdicts] | None) -> None:
        self.bound = with_one_step(self.bound)
        self._verdicts = _VerdictCache(shared_cache, self.bound)
        self.featurizer = (
            Featurizer(self.bound, self.target) if sibling is None else sibling.featurizer.with_buffers_of(self.bound)
        )
        read = features_read(self.model)
        self._wanted = None if read is None else read | PRUNED_BY

    def kernel_model(self, sketch: KernelSketch) -> SketchFeaturizer:
        """Return the featurizer of a sketch."""
        return self.featurizer.model(sketch)

    def verdict(self, sketch: KernelSketch, params: Params) -> KernelVerdict:
        """Return the verdict on an evaluated kernel; a kernel pruned without a cost is costed first."""
        verdict = self._verdicts[sketch][params]
        if math.isnan(verdict.cost):
            self.evaluate([(sketch, params)])
            verdict = self._verdicts[sketch][params]
        return verdict

    def verdicts(self, sketch: KernelSketch) -> Mapping[Params, KernelVerdict]:
        """Return the verdicts on all evaluated kernels of a sketch; those pruned before they were costed cost NaN."""
        return self._verdicts[sketch]

    def may_keep(self, sketch: KernelSketch, params: Params) -> bool:
        """Return whether a kernel without an alternative is kept: legal, or at root alone, where it is merely slow."""
        return not (sketch.locations or sketch.inlined) or not self._verdicts[sketch][params].reason

    def evaluate(self, kernels: Iterable[tuple[KernelSketch, Params]], *, prune: bool = False) -> None:
        """Evaluate kernels in batches and cache their verdicts.

        Args:
            kernels: The kernels.
            prune: Whether kernels that break an early rule are not costed.
        """
        fresh: dict[KernelSketch, dict[Params, None]] = {}
        last: KernelSketch | None = None
        verdicts: Verdicts = {}
        for sketch, params in kernels:
            self.counts.requested += 1
            if sketch is not last:  # kernels of one sketch are mostly consecutive
                last, verdicts = sketch, self._verdicts[sketch]
            if params not in verdicts or (not prune and math.isnan(verdicts[params].cost)):
                fresh.setdefault(sketch, {})[params] = None
        models: list[SketchFeaturizer] = []
        tables: list[list[Params]] = []
        space = MAX_BATCH
        for sketch, new in fresh.items():
            model = self.kernel_model(sketch)
            rows = list(new)
            self.counts.kernels += sum(r not in self._verdicts[sketch] for r in rows)
            if model.overflow:
                self._verdicts[sketch].update(dict.fromkeys(rows, TOO_MANY_READS))
                continue
            while rows:
                models.append(model)
                tables.append(rows[:space])
                rows = rows[space:]
                space -= len(tables[-1])
                if space == 0:
                    self._evaluate(models, tables, prune)
                    models, tables, space = [], [], MAX_BATCH
        if models:
            self._evaluate(models, tables, prune)

    def add(self, verdicts: Iterable[tuple[KernelSketch, Params, KernelVerdict]], counts: Counts) -> None:
        """Add verdicts and statistics of an evaluator of the same pipeline in another process."""
        for sketch, params, verdict in verdicts:
            self._verdicts[sketch][params] = verdict
        self.counts.add(counts)

    def early_reason(self, sketch: KernelSketch, params: Params) -> str:
        """Return the reason why an early rule prunes a kernel, empty if none does; the kernel is not costed."""
        model = self.kernel_model(sketch)
        if model.overflow:
            return TOO_MANY_READS.reason
        layout = model.tables.lay_out([model], [np.array([params], np.int64)])
        return REASONS[early_reasons(layout, self.settings, self.target, self._limits([model], layout))[0]]

    def _evaluate(self, models: Sequence[SketchFeaturizer], tables: Sequence[list[Params]], prune: bool) -> None:
        """Evaluate one batch of kernels, given as tile sizes by sketch."""
        shared = models[0].tables
        separate = [k for k, m in enumerate(models) if m.tables is not shared]
        if separate:  # kernels with cache reads have separate tables
            self._evaluate([models[k] for k in separate], [tables[k] for k in separate], prune)
            same = [k for k, m in enumerate(models) if m.tables is shared]
            models, tables = [models[k] for k in same], [tables[k] for k in same]
        self.counts.batches += 1
        self.counts.nests += sum(len(m.rows) * len(rows) for m, rows in zip(models, tables, strict=True))
        started = time.perf_counter()
        params = [np.array(rows, np.int64).reshape(len(rows), -1) for rows in tables]
        layout = shared.lay_out(models, params)
        codes = early_reasons(layout, self.settings, self.target, self._limits(models, layout))
        chosen = codes == 0 if prune else np.ones(len(codes), bool)
        costs = np.full(len(codes), np.nan)
        if chosen.any():
            evaluation = shared.featurized(models, layout.take(chosen), self._wanted)
            featurized = time.perf_counter()
            costs[chosen] = seconds_of_all_steps(self.model, evaluation, self.target)
            costed = time.perf_counter()
            late = late_reasons(evaluation, self.settings)
            codes[chosen] = np.where(codes[chosen] > 0, codes[chosen], late)
            self.counts.seconds["cost"] += costed - featurized
            self.counts.seconds["pruning"] += time.perf_counter() - costed
            self.counts.seconds["features"] += featurized - started
        else:
            self.counts.seconds["features"] += time.perf_counter() - started
        self._store_verdicts(models, tables, all_comparable(costs), codes)

    def _limits(self, models: Sequence[SketchFeaturizer], layout: CandidateLayout) -> GuideLimits | None:
        """Return the limits of the guide on laid-out candidates; None if it has none."""
        if self.target.kind != "cuda" or not self.settings.guide:
            return None
        sketches = [models[k].sketch for k in layout.sketches]
        return guide_limits(self.settings.guide, sketches, layout.batch.sketch)

    def _store_verdicts(
        self, models: Sequence[SketchFeaturizer], tables: Sequence[list[Params]], costs: Floats, codes: Ints
    ) -> None:
        """Cache costs and reasons of the kernels of several sketches, given in their order."""
        kernels = [(self._verdicts[m.sketch], row) for m, rows in zip(models, tables, strict=True) for row in rows]
        for (verdicts, row), cost, code in zip(kernels, costs.tolist(), codes.tolist(), strict=True):
            if code and row not in verdicts:
                self.counts.pruned[REASONS[code]] += 1
            verdicts[row] = KernelVerdict(cost, REASONS[code])

    def passes_exact_checks(self, sketch: KernelSketch, params: Params) -> bool:
        """Return whether an evaluated kernel passes the exact checks, which are too expensive for every candidate."""
        func = self.dynamic_reads.get(sketch)
        if func is None:
            return True
        verdict = self._verdicts[sketch][params]
        if verdict.reason:
            return False
        started = time.perf_counter()
        reason = self._dynamic_index_reason(self.kernel_model(sketch), func, params)
        if reason:
            self.counts.pruned[reason] += 1
            self._verdicts[sketch][params] = KernelVerdict(verdict.cost, reason)
        self.counts.seconds["pruning"] += time.perf_counter() - started
        return not reason

    def _dynamic_index_reason(self, model: SketchFeaturizer, func: str, params: Params) -> str:
        """Return why a producer at THREAD cannot stay in registers by the exact checks; empty if it can.

        The result depends on the Funcs between producer and root, on the points of a thread, and on tile sizes modulo
        `ALIGNMENT`. It is cached by these.
        """
        s, layout = model.sketch, model.layout
        inside = frozenset(p.func for p in s.locations) | s.inlined
        between = self.featurizer.tables.demands.funcs_between(func, inside) | {func}
        part = KernelSketch(s.stages, tuple(p for p in s.locations if p.func in between), s.inlined & between)
        serial = params[layout.root_serial]
        tile = tuple(t * n % ALIGNMENT for t, n in zip(params[layout.root_threads], serial, strict=True))
        members = tuple(n for name, where in layout.members if name in between for n in params[where])
        key = part, serial, tile, members
        if key not in self._register_legality:
            whole = np.array([*params[: layout.root_serial.stop], *members], np.int64)
            kernel, plan = planned_kernel(self.featurizer.model(part), whole)
            self._register_legality[key] = not kernel_violations(self.bound, kernel, self.target, plan)
        return LEGAL if self._register_legality[key] else "a register array is read at an index that stays dynamic"
