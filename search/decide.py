"""The candidates of one decision: every place of a Func, or every tiling of a root (Anderson, section 6)."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import overload

import numpy as np
from numpy.typing import NDArray

from autosched.analysis.bound import BoundFunc, BoundPipeline
from autosched.analysis.staging import staged_source, with_staged
from autosched.featurize.structure import Structure, thread_order, vector_dim
from autosched.schedule.types import Level
from autosched.search.evaluate import Evaluator
from autosched.search.places import Places
from autosched.search.settings import SearchSettings
from autosched.search.state import Params, Piece, State, layer_key
from autosched.search.tilings import default_tiling, member_tilings, root_tilings

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Option:
    """One candidate: the kernels that a state has instead of those that the decision replaces (`Decider.replaced`).

    Attributes:
        kind: ``inline``, ``root``, ``block``, ``thread`` or ``tile``, for buckets and reports.
        func: The Func that is placed or tiled.
        added: Successors of the replaced kernels, then new ones.
        level: The level given to the Func, or None for a tiling.
    """

    kind: str
    func: str
    added: tuple[Piece, ...]
    level: Level | None


@dataclass(frozen=True, slots=True)
class TileOptions(Sequence[Option]):
    """The tilings of one root kernel as options, made when they are looked at.

    Attributes:
        func: The Func.
        structure: The untiled kernel.
        tilings: Parameters of each option.
    """

    func: str
    structure: Structure
    tilings: Sequence[Params]

    def __len__(self) -> int:
        return len(self.tilings)

    @overload
    def __getitem__(self, k: int) -> Option: ...
    @overload
    def __getitem__(self, k: slice) -> Sequence[Option]: ...
    def __getitem__(self, k: int | slice) -> Option | Sequence[Option]:
        if isinstance(k, slice):
            return [self[i] for i in range(*k.indices(len(self)))]
        return Option("tile", self.func, (Piece(self.structure, self.tilings[k], tiled=True),), None)


@dataclass(frozen=True, slots=True)
class Decision:
    """A question that the search answers: where a Func goes, or how one of its root kernels is tiled."""

    func: str
    group: int | None = None


@dataclass
class Decider:
    """Enumerates options.

    Args:
        evaluator: Knows pipeline, target and settings.
    """

    evaluator: Evaluator
    places: Places = field(init=False)
    _extents: dict[tuple[Structure, Params], tuple[int, ...]] = field(init=False, default_factory=dict)
    _tilings: dict[Structure, list[Params]] = field(init=False, default_factory=dict)
    _buckets: dict[tuple[Structure, int], Ints] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self.places = Places(self.evaluator.featurizer)

    @property
    def bound(self) -> BoundPipeline:
        """The pipeline."""
        return self.evaluator.bound

    @property
    def settings(self) -> SearchSettings:
        """What is tried."""
        return self.evaluator.settings

    def decisions(self) -> list[Decision]:
        """Return all decisions in order: consumers before producers, a Func's place before its tilings.

        In one phase the place at root comes with the tiles of the Func's first kernel.
        """
        found: list[Decision] = []
        decided = 1 if self.settings.phases == 1 else 0
        for name, func in reversed(list(self.bound.funcs.items())):
            found.append(Decision(name))
            found += [Decision(name, k) for k in range(decided, len(self.places.root_structures(func)))]
        return found

    def replaced(self, state: State, decision: Decision) -> tuple[int, ...]:
        """Return the positions of the kernels that every option of a decision replaces.

        Those that read the Func, for its place; its untiled kernel, for a tiling.
        """
        if decision.group is None:
            return tuple(k for k, p in enumerate(state.pieces) if decision.func in self.places.reads(p.structure))
        if state.levels.get(decision.func) is not Level.ROOT:
            return ()
        own = (k for k, p in enumerate(state.pieces) if p.structure.func == decision.func and not p.tiled)
        return tuple(itertools.islice(own, 1))

    def after(self, state: State, decision: Decision, option: Option, *, costed: bool = True) -> State:
        """Return the state with one more decision made.

        Args:
            state: What is decided already.
            decision: What is decided now.
            option: The answer.
            costed: Whether the kernels that it adds have been evaluated; if not, they cost NaN for now.
        """
        gone = self.replaced(state, decision)
        kept = [k for k in range(len(state.pieces)) if k not in gone]
        pieces = (*(state.pieces[k] for k in kept), *option.added)
        added = (self.evaluator.known(p.structure, p.params).cost if costed else math.nan for p in option.added)
        costs = (*(state.costs[k] for k in kept), *added)
        levels = state.levels if option.level is None else {**state.levels, option.func: option.level}
        return State(pieces, costs, levels, sum(costs), state.steps + 1, state)

    def options(self, state: State, decision: Decision, *, members: bool = True) -> Sequence[Option]:
        """Return the candidates of a decision; none if it does not concern the state.

        Args:
            state: What is decided already.
            decision: What to decide.
            members: Whether Funcs may be fused into the kernels of others (the pre-pass only inlines); then
                `prefetch` must have seen the state.
        """
        if decision.group is not None:
            return self._tile_options(state, decision)
        func = self.bound.funcs[decision.func]
        readers = self.replaced(state, decision)
        found = self._root_options(state, func, readers)
        if func.is_output or not readers:
            return found
        if "inline" in self.settings.locations and self.places.can_inline(func):
            found += self._inline_options(state, func, readers)
        if members and len(readers) == 1 and self._only_here(state, func, readers[0]):
            found += self._member_options(state, func, readers[0])
        return found

    def _only_here(self, state: State, func: BoundFunc, reader: int) -> bool:
        """Whether a Func is of use to one kernel alone, and a part of it to each of its blocks."""
        # A consumer whose domain is empty reads nothing, and is elsewhere all the same.
        inside = self.places.inside(state.pieces[reader].structure)
        return inside.issuperset(func.consumers) and not self._written_at_large(func)

    def _written_at_large(self, func: BoundFunc) -> bool:
        """Whether every use of a Func needs all of it, so that computing it in each block is never worthwhile."""
        return func.undefined or any(f is not None for f in func.fixed)

    def _settled(
        self, state: State, func: str, level: Level, pieces: Iterable[Piece], kept: Iterable[Piece]
    ) -> tuple[Piece, ...]:
        """Return kernels with the status of what they read brought up to date."""
        levels = {**state.levels, func: level}
        pieces = tuple(pieces)
        others = [q.structure.inlined for q in kept if q.structure.inlined]
        settled = []
        for p in pieces:
            near = [q.structure.inlined for q in pieces if q is not p]
            elsewhere = p.structure.inlined.intersection(frozenset().union(*others, *near))
            settled.append(Piece(self.places.status(p.structure, levels, elsewhere), p.params, p.tiled))
        return tuple(settled)

    def _root_options(self, state: State, func: BoundFunc, readers: Sequence[int]) -> list[Option]:
        structures = self.places.root_structures(func)
        new = [Piece(s, self._untiled(s), tiled=False) for s in structures]
        kept = [p for k, p in enumerate(state.pieces) if k not in readers]
        added = self._settled(state, func.name, Level.ROOT, [*(state.pieces[k] for k in readers), *new], kept)
        if self.settings.phases == 2 or not new:
            return [Option("root", func.name, added, Level.ROOT)]
        first = len(readers)
        before, structure, after = added[:first], added[first].structure, added[first + 1 :]
        return [
            Option("root", func.name, (*before, Piece(structure, params, tiled=True), *after), Level.ROOT)
            for params in self.tilings(structures[0])
        ]

    def _untiled(self, structure: Structure) -> Params:
        """Return the tiles that stand for those of a root kernel until they are decided."""
        grid = self.evaluator.kernel_model(structure).grid
        vector = self._vector(structure.func, grid.dims)
        return tuple(default_tiling(grid.sizes.tolist(), vector, self.evaluator.target).tolist())

    def _inline_options(self, state: State, func: BoundFunc, readers: Sequence[int]) -> list[Option]:
        kept = [p for k, p in enumerate(state.pieces) if k not in readers]
        changed = [
            Piece(self.places.inlined(p.structure, func.name), p.params, p.tiled)
            for p in (state.pieces[k] for k in readers)
        ]
        for p in changed:
            if self.evaluator.kernel_model(self.places.bare(p.structure)).overflow:
                self.evaluator.counts.pruned["inlining reads too much at one point"] += 1
                return []
        return [Option("inline", func.name, self._settled(state, func.name, Level.INLINE, changed, kept), Level.INLINE)]

    def _member_options(self, state: State, func: BoundFunc, reader: int) -> list[Option]:
        piece = state.pieces[reader]
        kept = [p for k, p in enumerate(state.pieces) if k != reader]
        found: list[Option] = []
        if "block" in self.settings.locations:
            structure = self.places.at_block(piece.structure, func.name)
            bare = self.places.at_block(self.places.bare(piece.structure), func.name)
            extents = self._extents[bare, piece.params]
            if math.prod(extents) < math.prod(func.extents):
                one = self._settled(state, func.name, Level.BLOCK, [Piece(structure, piece.params, piece.tiled)], kept)[
                    0
                ].structure
                for threads in self.member_tilings(func.name, extents):
                    params = self.with_threads(piece, structure, func.name, threads)
                    found.append(Option("block", func.name, (Piece(one, params, tiled=True),), Level.BLOCK))
        if "thread" in self.settings.locations:
            found += self._thread_options(state, func, reader, kept)
        return found

    def _thread_options(self, state: State, func: BoundFunc, reader: int, kept: Sequence[Piece]) -> list[Option]:
        piece = state.pieces[reader]
        found = []
        for structure in self.places.at_thread(piece.structure, func.name):
            spot = structure.spot(func.name)
            assert spot is not None
            if spot.enclosing and not self._has_loop(piece, spot.host.func, spot.enclosing - 1):
                continue  # the place is the same as the one further out
            one = self._settled(state, func.name, Level.THREAD, [Piece(structure, piece.params, piece.tiled)], kept)
            if self.places.reads_unevenly(structure, func.name):
                self.evaluator.uneven[one[0].structure] = func.name
            found.append(Option("thread", func.name, one, Level.THREAD))
        return found

    def _has_loop(self, piece: Piece, host: str, position: int) -> bool:
        """Whether a thread of the host has several points in the dimension at a position."""
        layout = self.places.layout(piece.structure)
        spot = piece.structure.spot(host)
        if spot is None:
            return piece.params[layout.root_serial][position] > 1
        return True

    def with_threads(self, piece: Piece, structure: Structure, func: str, threads: Params) -> Params:
        """Return the parameters of a kernel that has one more BLOCK Member."""
        before, after = self.places.layout(piece.structure), self.places.layout(structure)
        params = list(piece.params[: before.root_serial.stop])
        for name, _ in after.members:
            params += threads if name == func else piece.params[before.threads_of(name)]
        return tuple(params)

    def _vector(self, func: str, dims: Sequence[str]) -> int:
        order = thread_order(self.bound, func, dims)
        return dims.index(order[0]) if order else 0

    def _tile_options(self, state: State, decision: Decision) -> Sequence[Option]:
        untiled = [state.pieces[k].structure for k in self.replaced(state, decision)]
        return TileOptions(decision.func, untiled[0], self.tilings(untiled[0])) if untiled else []

    def fixed_tiling(self, state: State, decision: Decision, params: Params) -> Sequence[Option]:
        """Return the one option that tiles a root kernel as given; none if it does not concern the state."""
        untiled = [state.pieces[k].structure for k in self.replaced(state, decision)]
        return TileOptions(decision.func, untiled[0], [params]) if untiled else []

    def provisional_tiling(self, state: State, decision: Decision) -> Sequence[Option]:
        """Return the one option that gives a root kernel the tiles by which it was costed until now."""
        untiled = [state.pieces[k] for k in self.replaced(state, decision)]
        return TileOptions(decision.func, untiled[0].structure, [untiled[0].params]) if untiled else []

    def tilings(self, structure: Structure) -> list[Params]:
        """Return the tilings of a root kernel that keep the multiprocessors busy, the best balanced first."""
        bare = self.places.bare(structure)
        if bare not in self._tilings:
            grid = self.evaluator.kernel_model(bare).grid
            target = self.evaluator.target
            vector = self._vector(structure.func, grid.dims)
            table = root_tilings(grid.sizes.tolist(), vector, self.settings, target)
            _, count = grid.blocks(table)
            blocks = count.prod(axis=1)
            self._tilings[bare] = [
                tuple(row)
                for row in table[_busy(blocks, target.multiprocessors, self.settings.max_idle_multiprocessors)].tolist()
            ]
        return self._tilings[bare]

    def member_tilings(self, name: str, extents: Sequence[int]) -> list[Params]:
        """Return the threads to try for a BLOCK Member's region, ``extents`` by dimension."""
        source = staged_source(name)
        func = with_staged(self.bound, [] if source is None else [source]).funcs[name]
        vector = func.dims.index(vector_dim(func) or func.dims[-1]) if func.dims else 0
        return [tuple(t) for t in member_tilings(extents, vector, self.settings, self.evaluator.target).tolist()]

    def tile_buckets(self, options: TileOptions, depth: int) -> Ints:
        """Return a number for each tiling of a root kernel, the same for those that look alike down to a depth."""
        bare = self.places.bare(options.structure)
        if len(options) == 1:
            return np.zeros(1, np.int64)
        if (bare, depth) not in self._buckets:
            layout = self.places.layout(bare)
            numbers: dict[object, int] = {}
            keys = (layer_key(Piece(bare, params, tiled=True), layout, depth) for params in options.tilings)
            self._buckets[bare, depth] = np.array([numbers.setdefault(k, len(numbers)) for k in keys], np.int64)
        return self._buckets[bare, depth]

    def prefetch(self, states: Iterable[State], decision: Decision) -> None:
        """Work out the tile that each state's kernel needs of a Func, for all states with one structure together."""
        if decision.group is not None or "block" not in self.settings.locations:
            return
        func = self.bound.funcs[decision.func]
        if func.is_output or self._written_at_large(func):
            return
        wanted: dict[Structure, dict[Params, Piece]] = {}
        for state in states:
            readers = [p for p in state.pieces if func.name in self.places.reads(p.structure)]
            if len(readers) == 1:
                structure = self.places.at_block(self.places.bare(readers[0].structure), func.name)
                if (structure, readers[0].params) not in self._extents:
                    wanted.setdefault(structure, {})[readers[0].params] = readers[0]
        for structure, pieces in wanted.items():
            ones = (1,) * len(func.dims)
            rows = [self.with_threads(p, structure, func.name, ones) for p in pieces.values()]
            found = self.evaluator.kernel_model(structure).member_extents(np.array(rows, np.int64))
            for params, extents in zip(pieces, found[func.name].tolist(), strict=True):
                self._extents[structure, params] = tuple(extents)


def _busy(blocks: Ints, multiprocessors: int, most_wasted: float) -> Ints:
    """Return the positions of grids with enough blocks, the bar lowered until some pass (Anderson, section 6.3).

    Of these, grids that leave multiprocessors idle for too much of the time are left out if there are others.
    """
    bar = 2 * multiprocessors
    while not (blocks >= bar).any():
        bar //= 2
    chosen = np.flatnonzero(blocks >= bar)
    waves = blocks[chosen] / multiprocessors
    balanced = np.ceil(waves) / np.maximum(waves, 1 / multiprocessors) <= most_wasted
    kept: Ints = chosen[balanced] if balanced.any() else chosen
    return kept


def start_state(levels: Mapping[str, Level] | None = None) -> State:
    """Return the state in which nothing is decided."""
    return State((), (), dict(levels or {}), 0.0, 0)
