"""Which candidates of a decision are looked at: log2 of every bucket of alike ones, or all (Anderson, section 3)."""

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
    """Costs and legality of a list of options, as far as they are worked out.

    Args:
        options: The options; those of tilings are not made for this.
    """

    def __init__(self, options: Sequence[Option]) -> None:
        self.options = options
        self.cost: Floats = np.full(len(options), np.nan)
        self.legal = np.zeros(len(options), bool)

    def fresh(self, positions: Ints) -> list[int]:
        """Return those of some positions whose options are not known yet."""
        found: list[int] = positions[np.isnan(self.cost[positions])].tolist()
        return found

    def wanted(self, fresh: Sequence[int]) -> list[Kernel]:
        """Return the kernels to evaluate before the options at these positions are known."""
        if isinstance(self.options, TileOptions):
            return [(self.options.structure, self.options.tilings[k]) for k in fresh]
        return [(p.structure, p.params) for k in fresh for p in self.options[k].added]

    def collect(self, fresh: Sequence[int], evaluator: KernelEvaluator) -> None:
        """Take over what was found for the options at these positions."""
        if not fresh:
            return
        if isinstance(self.options, TileOptions):
            known, tilings = evaluator.verdicts(self.options.structure), self.options.tilings
            found = [known[tilings[k]] for k in fresh]
            self.cost[fresh] = [v.cost for v in found]
            self.legal[fresh] = [not v.reason for v in found]
        else:
            for k in fresh:
                found = [evaluator.verdicts(p.structure)[p.params] for p in self.options[k].added]
                self.cost[k] = sum(v.cost for v in found)
                self.legal[k] = not any(v.reason for v in found)
        self.cost[fresh] = np.where(np.isnan(self.cost[fresh]), np.inf, self.cost[fresh])  # pruned without being costed


class _Draws:
    """Random draws from the buckets of options: log2 of the size of each, all of those of one option.

    Args:
        buckets: ``int64[options]``, number of each option's bucket, none left out.
        rng: Source of randomness.

    Attributes:
        sizes: ``int64[buckets]``.
    """

    def __init__(self, buckets: Ints, rng: np.random.Generator) -> None:
        self.sizes = np.bincount(buckets)
        shuffled = np.argsort(rng.random(len(buckets)))
        small = np.uint16 if len(self.sizes) < 1 << 16 else np.int64  # small numbers are sorted digit by digit
        by_bucket = np.argsort(buckets[shuffled].astype(small), kind="stable")
        self._positions: Ints = shuffled[by_bucket]  # in random order within each bucket
        self._buckets = buckets[self._positions]
        self._end = np.cumsum(self.sizes)
        self._begin = self._end - self.sizes
        self._from = self._begin
        self._to = self._from + np.maximum(np.log2(self.sizes).astype(np.int64), 1)

    @property
    def some(self) -> bool:
        """Whether there is more to draw."""
        return bool((self._from < self._to).any())

    def drawn(self) -> Ints:
        """Return the positions of the options that are drawn now, bucket by bucket."""
        self._now = _ranges(self._from, self._to)
        return self._positions[self._now]

    def ahead(self) -> Ints:
        """Return the same and those that come next where others proved illegal: as many again as were drawn so far.

        Where few options are legal they are drawn a few at a time, and small batches cost almost as much as large ones.
        """
        again = (self._from > self._begin) & (self._to > self._from)
        beyond = np.minimum(self._to + np.where(again, self._to - self._begin, 0), self._end)
        return self._positions[_ranges(self._from, beyond)]

    def next(self, legal: Bools) -> None:
        """Draw others instead of those that are not legal."""
        found = np.bincount(self._buckets[self._now[legal]], minlength=len(self.sizes))
        missing = self._to - self._from - found
        self._from = self._to
        self._to = np.minimum(self._to + missing, self._end)


def _gathered(tables: Sequence[BucketTable]) -> tuple[Bools, Bools]:
    """Return which options of all tables are known, and which of these are legal."""
    cost = np.concatenate([t.cost for t in tables])
    return ~np.isnan(cost), np.concatenate([t.legal for t in tables])


def _by_table(positions: Ints, first: Ints) -> list[Ints]:
    """Return positions among the options of all tables as positions in each, in the same order.

    Args:
        positions: ``int64[N]``.
        first: ``int64[tables]``, position of the first option of each.
    """
    table = np.searchsorted(first, positions, "right") - 1
    order = np.argsort(table, kind="stable")
    local = (positions - first[table])[order]
    return np.split(local, np.searchsorted(table[order], np.arange(1, len(first))))


def _ranges(start: Ints, end: Ints) -> Ints:
    """Return all numbers from each start to before the end that belongs to it, one range after the other."""
    count = end - start
    found: Ints = np.arange(count.sum()) + np.repeat(start - (np.cumsum(count) - count), count)
    return found


@dataclass
class BucketSampler:
    """Chooses options for all states of a step together, so that their kernels are evaluated in large batches.

    Args:
        evaluator: Costs kernels.
        enumerator: Groups tilings.
        rng: Source of randomness.
    """

    evaluator: KernelEvaluator
    enumerator: OptionEnumerator
    rng: np.random.Generator
    _tiles: dict[KernelSketch, BucketTable] = field(default_factory=dict)

    def table(self, options: Sequence[Option]) -> BucketTable:
        """Return the table of some options; states with the same untiled kernel share it."""
        if not isinstance(options, TileOptions) or len(options) == 1:
            return BucketTable(options)
        if options.structure not in self._tiles:
            self._tiles[options.structure] = BucketTable(options)
        return self._tiles[options.structure]

    def accept(
        self, offered: Sequence[tuple[Sequence[Option], Sequence[Kernel]]], depth: int
    ) -> EvaluationCoroutine[list[tuple[BucketTable, Ints]]]:
        """Return for each state the table of its options and the positions of those that are looked at and legal.

        Args:
            offered: Options of each state, and the kernels that they replace if these have not been looked at.
            depth: Layers of structure by which options are told apart: the number of the pass.
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
        without = [k for k, positions in enumerate(chosen) if not len(positions)]
        before = [kernel for k in without for kernel in offered[k][1]]
        if before:
            yield before
        for k in without:
            options, replaced = offered[k]
            if all(self.evaluator.may_stay(*kernel) for kernel in replaced):
                chosen[k] = self._last_resort(tables[k], options)
        return list(zip(tables, chosen, strict=True))

    def _sampled(
        self, tables: Sequence[BucketTable], offered: Sequence[Sequence[Option]], depth: int
    ) -> EvaluationCoroutine[list[Ints]]:
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
        known, legal = _gathered(tables)
        while draws.some:
            drawn = draws.drawn()
            if not known[drawn].all():
                yield from self._evaluate(tables, _by_table(draws.ahead(), first))
                known, legal = _gathered(tables)
            accepted.append(drawn[legal[drawn]])
            draws.next(legal[drawn])
        return _by_table(np.concatenate(accepted), first)

    def _buckets(self, options: Sequence[Option], depth: int) -> Ints:
        """Return the number of each option's bucket; inlining stands by itself."""
        if isinstance(options, TileOptions):
            return self.enumerator.tile_buckets(options, depth)
        numbers: dict[object, int] = {}
        found = []
        for o in options:
            key: object = "inline"
            if o.kind != "inline":
                key = (o.kind, *(p.layer(self.enumerator.places.layout, depth) for p in o.added)) if depth >= 0 else ""
            found.append(numbers.setdefault(key, len(numbers)))
        return np.array(found, np.int64)

    def _evaluate(self, tables: Sequence[BucketTable], positions: Sequence[Ints]) -> EvaluationCoroutine[None]:
        """Look at some options of each table; states may share a table."""
        asked: dict[BucketTable, list[Ints]] = {}
        for table, p in zip(tables, positions, strict=True):
            if len(p):
                asked.setdefault(table, []).append(p)
        fresh = {t: t.fresh(p[0] if len(p) == 1 else distinct(np.concatenate(p))) for t, p in asked.items()}
        yield [w for t, f in fresh.items() for w in t.wanted(f)]
        for t, f in fresh.items():
            t.collect(f, self.evaluator)

    def _last_resort(self, table: BucketTable, options: Sequence[Option]) -> Ints:
        """Where every option is pruned: computing at root is never wrong, only slow."""
        tiles = isinstance(options, TileOptions)
        placed = [k for k in range(len(options)) if tiles or options[k].kind == "root"]
        self.evaluator.evaluate(table.wanted(placed))  # what pruned ones cost, too
        table.collect(placed, self.evaluator)
        return np.array([k for k in placed if math.isfinite(table.cost[k])], np.int64)
