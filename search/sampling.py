"""Which candidates of a decision are looked at: log2 of every bucket of alike ones, or all (Anderson, section 3)."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from autosched.featurize.structure import Structure
from autosched.search.decide import Decider
from autosched.search.evaluate import Evaluator
from autosched.search.options import Option, TileOptions
from autosched.search.state import State
from autosched.search.together import Asking, Kernel

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


class Table:
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

    def collect(self, fresh: Sequence[int], evaluator: Evaluator) -> None:
        """Take over what was found for the options at these positions."""
        if not fresh:
            return
        if isinstance(self.options, TileOptions):
            known, tilings = evaluator.all_known(self.options.structure), self.options.tilings
            found = [known[tilings[k]] for k in fresh]
            self.cost[fresh] = [v.cost for v in found]
            self.legal[fresh] = [not v.reason for v in found]
            return
        for k in fresh:
            found = [evaluator.known(p.structure, p.params) for p in self.options[k].added]
            self.cost[k] = sum(v.cost for v in found)
            self.legal[k] = not any(v.reason for v in found)


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
        self._from = self._end - self.sizes
        self._to = self._from + np.maximum(np.log2(self.sizes).astype(np.int64), 1)

    @property
    def some(self) -> bool:
        """Whether there is more to draw."""
        return bool((self._from < self._to).any())

    def drawn(self) -> Ints:
        """Return the positions of the options that are drawn now, bucket by bucket."""
        at = np.arange(len(self._positions))
        self._now = np.flatnonzero((at >= self._from[self._buckets]) & (at < self._to[self._buckets]))
        return self._positions[self._now]

    def next(self, legal: NDArray[np.bool_]) -> None:
        """Draw others instead of those that are not legal."""
        found = np.bincount(self._buckets[self._now[legal]], minlength=len(self.sizes))
        missing = self._to - self._from - found
        self._from = self._to
        self._to = np.minimum(self._to + missing, self._end)


@dataclass
class Sampler:
    """Chooses options for all states of a step together, so that their kernels are evaluated in large batches.

    Args:
        evaluator: Costs kernels.
        decider: Groups tilings.
        rng: Source of randomness.
    """

    evaluator: Evaluator
    decider: Decider
    rng: np.random.Generator
    _tiles: dict[Structure, Table] = field(default_factory=dict)

    def table(self, options: Sequence[Option]) -> Table:
        """Return the table of some options; states with the same untiled kernel share it."""
        if not isinstance(options, TileOptions) or len(options) == 1:
            return Table(options)
        if options.structure not in self._tiles:
            self._tiles[options.structure] = Table(options)
        return self._tiles[options.structure]

    def accept(self, offered: Sequence[tuple[State, Sequence[Option]]], depth: int) -> Asking[list[tuple[Table, Ints]]]:
        """Return for each state the table of its options and the positions of those that are looked at and legal.

        Args:
            offered: States with their options.
            depth: Layers of structure by which options are told apart: the number of the pass.
        """
        if not offered:
            return []
        tables = [self.table(options) for _, options in offered]
        if self.evaluator.settings.sampling == "exhaustive":
            every = [np.arange(len(options)) for _, options in offered]
            yield from self._evaluate(tables, every)
            chosen = [p[t.legal[p]] for t, p in zip(tables, every, strict=True)]
        else:
            chosen = yield from self._sampled(tables, [options for _, options in offered], depth)
        found = []
        for table, positions, (_, options) in zip(tables, chosen, offered, strict=True):
            if not len(positions):
                positions = yield from self._last_resort(table, options)
            found.append((table, positions))
        return found

    def _sampled(self, tables: Sequence[Table], offered: Sequence[Sequence[Option]], depth: int) -> Asking[list[Ints]]:
        sizes = np.array([len(options) for options in offered])
        first = np.cumsum(sizes) - sizes
        buckets = []
        count = 0
        for options in offered:
            buckets.append(self._buckets(options, depth) + count)
            count = int(buckets[-1].max()) + 1
        draws = _Draws(np.concatenate(buckets), self.rng)
        rounded, times = np.unique(np.frexp(draws.sizes)[1] - 1, return_counts=True)
        for power, n in zip(rounded.tolist(), times.tolist(), strict=True):
            self.evaluator.counts.buckets[1 << power] += n
        accepted: list[list[Ints]] = [[] for _ in tables]
        while draws.some:
            drawn = draws.drawn()
            which = np.searchsorted(first, drawn, "right") - 1  # ascending, as buckets are numbered state by state
            states, start = np.unique(which, return_index=True)
            local = drawn - first[which]
            bounds = itertools.pairwise([*start.tolist(), len(local)])
            some = [(k, tables[k], local[a:b]) for k, (a, b) in zip(states.tolist(), bounds, strict=True)]
            yield from self._evaluate([t for _, t, _ in some], [p for _, _, p in some])
            verdicts = []
            for k, table, positions in some:
                legal = table.legal[positions]
                accepted[k].append(positions[legal])
                verdicts.append(legal)
            draws.next(np.concatenate(verdicts))
        return [np.concatenate(a) if a else np.zeros(0, np.int64) for a in accepted]

    def _buckets(self, options: Sequence[Option], depth: int) -> Ints:
        """Return the number of each option's bucket; inlining stands by itself."""
        if isinstance(options, TileOptions):
            return self.decider.tile_buckets(options, depth)
        numbers: dict[object, int] = {}
        found = []
        for o in options:
            key: object = "inline"
            if o.kind != "inline":
                key = (o.kind, *(p.layer(self.decider.places.layout, depth) for p in o.added)) if depth >= 0 else ""
            found.append(numbers.setdefault(key, len(numbers)))
        return np.array(found, np.int64)

    def _evaluate(self, tables: Sequence[Table], positions: Sequence[Ints]) -> Asking[None]:
        fresh = [t.fresh(p) for t, p in zip(tables, positions, strict=True)]
        yield [w for t, f in zip(tables, fresh, strict=True) for w in t.wanted(f)]
        for t, f in zip(tables, fresh, strict=True):
            t.collect(f, self.evaluator)

    def _last_resort(self, table: Table, options: Sequence[Option]) -> Asking[Ints]:
        """Where every option is pruned: computing at root is never wrong, only slow."""
        every = np.arange(len(options))
        yield from self._evaluate([table], [every])
        tiles = isinstance(options, TileOptions)
        roots = [k for k in every.tolist() if math.isfinite(table.cost[k]) and (tiles or options[k].kind != "inline")]
        placed = [k for k in roots if tiles or options[k].kind in ("root", "tile")]
        return np.array(placed, np.int64)
