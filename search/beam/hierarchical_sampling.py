"""Hierarchical sampling of a decision's options: log2 of every bucket, or all of them (Anderson, section 3)."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from autosched.featurize.sketch.sketch import KernelSketch
from autosched.featurize.tables.unique import distinct
from autosched.search.evaluate.batched import EvaluationCoroutine, Kernel
from autosched.search.evaluate.evaluator import KernelEvaluator
from autosched.search.space.decisions import Option, TileOptions
from autosched.search.space.option_enumeration import OptionEnumerator

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


class BucketTable:
    """Costs and legality of a list of options, as far as they have been evaluated.

    Args:
        options: The options; those of `TileOptions` are not built.
    """

    def __init__(self, options: Sequence[Option]) -> None:
        self.options = options
        self.cost: Floats = np.full(len(options), np.nan)
        self.legal = np.zeros(len(options), bool)

    def missing(self, positions: Ints) -> list[int]:
        """Return the given positions whose options have not been evaluated."""
        missing: list[int] = positions[np.isnan(self.cost[positions])].tolist()
        return missing

    def requests(self, missing: Sequence[int]) -> list[Kernel]:
        """Return the kernels to evaluate for the options at given positions."""
        if isinstance(self.options, TileOptions):
            return [(self.options.sketch, self.options.tilings[k]) for k in missing]
        return [(p.sketch, p.params) for k in missing for p in self.options[k].added]

    def record(self, missing: Sequence[int], evaluator: KernelEvaluator) -> None:
        """Record costs and legality of the options at given positions from their evaluated kernels."""
        if not missing:
            return
        if isinstance(self.options, TileOptions):
            by_tiling, tilings = evaluator.verdicts(self.options.sketch), self.options.tilings
            verdicts = [by_tiling[tilings[k]] for k in missing]
            self.cost[missing] = [v.cost for v in verdicts]
            self.legal[missing] = [not v.reason for v in verdicts]
        else:
            for k in missing:
                verdicts = [evaluator.verdicts(p.sketch)[p.params] for p in self.options[k].added]
                self.cost[k] = sum(v.cost for v in verdicts)
                self.legal[k] = not any(v.reason for v in verdicts)
        # Options that were pruned before they were costed count as evaluated.
        self.cost[missing] = np.where(np.isnan(self.cost[missing]), np.inf, self.cost[missing])


class _Draws:
    """Random draws from buckets of options: log2 of the size of each bucket, at least one option.

    Args:
        buckets: ``int64[options]``, bucket of each option, numbered without gaps.
        rng: Random generator.

    Attributes:
        sizes: ``int64[buckets]``, options of each bucket.
    """

    def __init__(self, buckets: Ints, rng: np.random.Generator) -> None:
        self.sizes = np.bincount(buckets)
        shuffled = np.argsort(rng.random(len(buckets)))
        small = np.uint16 if len(self.sizes) < 1 << 16 else np.int64  # NumPy sorts 16-bit integers by radix
        by_bucket = np.argsort(buckets[shuffled].astype(small), kind="stable")
        self._positions: Ints = shuffled[by_bucket]  # in random order within each bucket
        self._buckets = buckets[self._positions]
        self._end = np.cumsum(self.sizes)
        self._begin = self._end - self.sizes
        self._from = self._begin
        self._to = self._from + np.maximum(np.log2(self.sizes).astype(np.int64), 1)

    @property
    def remaining(self) -> bool:
        """Whether there are options left to draw."""
        return bool((self._from < self._to).any())

    def drawn(self) -> Ints:
        """Return the positions of the current draw, bucket by bucket."""
        self._now = _ranges(self._from, self._to)
        return self._positions[self._now]

    def with_likely(self) -> Ints:
        """Return the positions of the current draw and of likely further draws, to evaluate them in one batch.

        A bucket with illegal options is drawn a few options at a time. As many further ones are added as it has drawn
        so far, since a small batch takes almost as long as a large one.
        """
        again = (self._from > self._begin) & (self._to > self._from)
        beyond = np.minimum(self._to + np.where(again, self._to - self._begin, 0), self._end)
        return self._positions[_ranges(self._from, beyond)]

    def next(self, legal: Bools) -> None:
        """Replace the illegal options of the current draw by the next ones of their buckets."""
        accepted = np.bincount(self._buckets[self._now[legal]], minlength=len(self.sizes))
        missing = self._to - self._from - accepted
        self._from = self._to
        self._to = np.minimum(self._to + missing, self._end)


def _gathered(tables: Sequence[BucketTable]) -> tuple[Bools, Bools]:
    """Return masks over the options of all tables: evaluated, and legal."""
    cost = np.concatenate([t.cost for t in tables])
    return ~np.isnan(cost), np.concatenate([t.legal for t in tables])


def _by_table(positions: Ints, first: Ints) -> list[Ints]:
    """Return positions in the concatenated tables as positions in each table, in the same order.

    Args:
        positions: ``int64[N]``.
        first: ``int64[tables]``, position of the first option of each.
    """
    table = np.searchsorted(first, positions, "right") - 1
    order = np.argsort(table, kind="stable")
    local = (positions - first[table])[order]
    return np.split(local, np.searchsorted(table[order], np.arange(1, len(first))))


def _ranges(start: Ints, end: Ints) -> Ints:
    """Return the concatenation of the half-open ranges from ``start`` to ``end``."""
    count = end - start
    numbers: Ints = np.arange(count.sum()) + np.repeat(start - (np.cumsum(count) - count), count)
    return numbers


@dataclass
class BucketSampler:
    """Samples the options of all states in a step, so that their kernels are evaluated in large batches.

    Args:
        evaluator: Costs kernels.
        enumerator: Assigns tilings to buckets.
        rng: Random generator.
    """

    evaluator: KernelEvaluator
    enumerator: OptionEnumerator
    rng: np.random.Generator
    _tiles: dict[KernelSketch, BucketTable] = field(default_factory=dict)

    def table(self, options: Sequence[Option]) -> BucketTable:
        """Return the table of a list of options; states with the same untiled kernel share it."""
        if not isinstance(options, TileOptions) or len(options) == 1:
            return BucketTable(options)
        if options.sketch not in self._tiles:
            self._tiles[options.sketch] = BucketTable(options)
        return self._tiles[options.sketch]

    def accept(
        self, offered: Sequence[tuple[Sequence[Option], Sequence[Kernel]]], depth: int
    ) -> EvaluationCoroutine[list[tuple[BucketTable, Ints]]]:
        """Return for each state the table of its options and the positions of the legal ones in the sample.

        Args:
            offered: Options of each state, and the replaced kernels that have not been costed.
            depth: Depth of the structural hash that defines buckets: the number of the pass.
        """
        if not offered:
            return []
        tables = [self.table(options) for options, _ in offered]
        if self.evaluator.settings.sampling == "exhaustive":
            every = [np.arange(len(options)) for options, _ in offered]
            yield from self._evaluate(tables, every)
            chosen = [p[t.legal[p]] for t, p in zip(tables, every, strict=True)]
        else:
            chosen = yield from self._sampled(tables, [options for options, _ in offered], depth)
        empty = [k for k, positions in enumerate(chosen) if not len(positions)]
        uncosted = [kernel for k in empty for kernel in offered[k][1]]
        if uncosted:
            yield uncosted
        for k in empty:
            options, replaced = offered[k]
            if all(self.evaluator.may_keep(*kernel) for kernel in replaced):
                chosen[k] = self._last_resort(tables[k], options)
        return list(zip(tables, chosen, strict=True))

    def _sampled(
        self, tables: Sequence[BucketTable], offered: Sequence[Sequence[Option]], depth: int
    ) -> EvaluationCoroutine[list[Ints]]:
        """Return the positions of the legal options in the sample, for each state."""
        sizes = np.array([len(options) for options in offered])
        first = np.cumsum(sizes) - sizes
        buckets = []
        count = 0
        for options in offered:
            buckets.append(self._buckets(options, depth) + count)
            count = int(buckets[-1].max()) + 1
        draws = _Draws(np.concatenate(buckets), self.rng)
        for power, n in Counter((np.frexp(draws.sizes)[1] - 1).tolist()).items():
            self.evaluator.counts.buckets[1 << power] += n
        accepted: list[Ints] = []
        evaluated, legal = _gathered(tables)
        while draws.remaining:
            drawn = draws.drawn()
            if not evaluated[drawn].all():
                yield from self._evaluate(tables, _by_table(draws.with_likely(), first))
                evaluated, legal = _gathered(tables)
            accepted.append(drawn[legal[drawn]])
            draws.next(legal[drawn])
        return _by_table(np.concatenate(accepted), first)

    def _buckets(self, options: Sequence[Option], depth: int) -> Ints:
        """Return the bucket of each option; inlining is a bucket of its own."""
        if isinstance(options, TileOptions):
            return self.enumerator.tile_buckets(options, depth)
        numbers: dict[object, int] = {}
        buckets = []
        for o in options:
            key: object = "inline"
            if o.kind != "inline":
                key = (
                    (o.kind, *(p.layer(self.enumerator.compute_locations.layout, depth) for p in o.added))
                    if depth >= 0
                    else ""
                )
            buckets.append(numbers.setdefault(key, len(numbers)))
        return np.array(buckets, np.int64)

    def _evaluate(self, tables: Sequence[BucketTable], positions: Sequence[Ints]) -> EvaluationCoroutine[None]:
        """Evaluate options of each table by their positions; states may share a table."""
        requested: dict[BucketTable, list[Ints]] = {}
        for table, p in zip(tables, positions, strict=True):
            if len(p):
                requested.setdefault(table, []).append(p)
        missing = {t: t.missing(p[0] if len(p) == 1 else distinct(np.concatenate(p))) for t, p in requested.items()}
        yield [w for t, f in missing.items() for w in t.requests(f)]
        for t, f in missing.items():
            t.record(f, self.evaluator)

    def _last_resort(self, table: BucketTable, options: Sequence[Option]) -> Ints:
        """Return the options at root although they are pruned: a root kernel is always legal, if slow."""
        tiles = isinstance(options, TileOptions)
        placed = [k for k in range(len(options)) if tiles or options[k].kind == "root"]
        self.evaluator.evaluate(table.requests(placed))  # pruned ones as well
        table.record(placed, self.evaluator)
        return np.array([k for k in placed if math.isfinite(table.cost[k])], np.int64)
