"""The accesses of one nest by one thread, over all its loops."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from autosched.featurize.accesses.accesses import AccessGroup, AccessRow
from autosched.featurize.regions.nest_geometry import Bools, Ints, TileBox


@dataclass(frozen=True, slots=True)
class AccessLoop:
    """A loop inside the thread: lowest value, iterations, and the change of each index per step."""

    name: Hashable
    lowest: int
    extent: int
    change: Ints
    is_reduction: bool


@dataclass(eq=False)
class LoopedAccesses:
    """A group of accesses with the loops of its nest.

    Args:
        group: The accesses.
        nest: A name for the nest.
        dims: Dimensions of the nest with serial loops, outermost first.
        reductions: Reductions that enclose these inside the thread, with lowest and highest value.

    Attributes:
        affine_dims: Positions of the ``K`` affine indices.
        rows: The affine indices.
        quotients: ``int64[K]``, their floor divisors.
        divides: Whether there is a floor division.
        constants: ``int64[accesses, K]``.
        reduced: The loops of the reductions.
    """

    group: AccessGroup
    nest: Hashable
    dims: Sequence[str]
    reductions: Sequence[tuple[str, int, int]]
    affine_dims: list[int] = field(init=False)
    rows: list[AccessRow] = field(init=False)
    quotients: Ints = field(init=False)
    divides: bool = field(init=False)
    constants: Ints = field(init=False)
    reduced: list[AccessLoop] = field(init=False)

    def __post_init__(self) -> None:
        self.affine_dims = [k for k, r in enumerate(self.group.rows) if r is not None]
        self.rows = [r for r in self.group.rows if r is not None]
        self.quotients = np.array([r.quotient for r in self.rows], np.int64)
        self.divides = any(r.quotient > 1 for r in self.rows)
        offsets = np.array(self.group.offsets, np.int64).reshape(len(self.group.offsets), -1)
        self.constants = offsets[:, self.affine_dims]
        self._change = self._change_with(self.dims)
        self.reduced = [
            AccessLoop((self.nest, name), lo, hi + 1 - lo, self._change_with([name])[:, 0], True)
            for name, lo, hi in self.reductions
        ]

    def _change_with(self, dims: Sequence[str]) -> Ints:
        """Return the coefficients of some loops, ``int64[K, loops]``."""
        coefficients = np.zeros((len(self.rows), len(dims)), np.int64)
        for k, r in enumerate(self.rows):
            for name, c in r.coefficients:
                if name in dims:
                    coefficients[k, list(dims).index(name)] = c
        return coefficients

    def loops(
        self, tile: TileBox, around: Sequence[Hashable], reduces: Sequence[bool], nest: Hashable
    ) -> list[AccessLoop]:
        """Return the loops of a pattern, outermost first: enclosing ones, reductions, then loops over points.

        Args:
            tile: The thread's points.
            around: Names of the enclosing loops.
            reduces: Which of these are reductions.
            nest: A name for the nest.
        """
        loops = [
            AccessLoop(around[k], 0, n, self._change @ tile.moves[k], reduces[k]) for k, n in enumerate(tile.outer)
        ]
        loops += [
            replace(loop, name=(nest, name)) for loop, (name, *_) in zip(self.reduced, self.reductions, strict=True)
        ]
        apart = tile.apart or (1,) * len(tile.serial)
        for k, (d, n) in enumerate(zip(self.dims, tile.serial, strict=True)):
            loops.append(AccessLoop((nest, d), 0, n, self._change[:, k] * apart[k], False))
        return loops


@dataclass(frozen=True)
class ThreadAccessPattern:
    """The accesses of one nest by one thread.

    Attributes:
        accesses: The group of accesses and the nest's loops.
        tile: The thread's points.
        around: Names of the enclosing loops, outermost first.
        reduces: Which of these are reductions.
        shift: ``int64[K]``, offset of its indices before floor divisions relative to those of another pattern.
        period: ``int64[K]``, the divisor of the floor division by which all threads and blocks have the same remainder;
            1 without one.
        rest: ``int64[K]``, that remainder of each index before its floor division at the lowest point.
        guarded: Whether a guard encloses it.
        rolled: Positions of loops that stay loops in compiled code; their iterations share no loads.
        nest: A name for the nest, if the accesses are named after another nest with equal ones; or None.
        loops: All loops inside the thread, outermost first.
    """

    accesses: LoopedAccesses
    tile: TileBox
    around: tuple[Hashable, ...] = ()
    reduces: tuple[bool, ...] = ()
    shift: Ints | int = 0
    period: Ints | int = 1
    rest: Ints | int = -1
    guarded: bool = False
    rolled: frozenset[int] = frozenset()
    nest: Hashable = None
    loops: list[AccessLoop] = field(init=False)

    def __post_init__(self) -> None:
        nest = self.accesses.nest if self.nest is None else self.nest
        object.__setattr__(self, "nest", nest)
        object.__setattr__(self, "loops", self.accesses.loops(self.tile, self.around, self.reduces, nest))

    @property
    def length(self) -> int:
        """Product of the iterations of all loops."""
        return math.prod(p.extent for p in self.loops)

    def canonical(self, every: Ints) -> Ints:
        """Return indices ``int64[..., K]`` that differ only if their floor quotients do, where remainders are known.

        Args:
            every: Indices before floor divisions.
        """
        canonical: Ints = np.where(
            np.asarray(self.period) > 1, (every + self.rest) // self.period * self.period - self.rest, every
        )
        return canonical

    def varying_loops(self) -> set[int]:
        """Return positions of loops that move an index before its floor division."""
        return {k for k, p in enumerate(self.loops) if p.extent > 1 and p.change.any()}

    def points(self, repeated: set[int]) -> tuple[Ints, Bools]:
        """Return the contribution of some loops to the indices, and the iterations of the last threads.

        Args:
            repeated: Positions of the loops; all others stay at their first value.

        Returns:
            ``int64[P, K]`` and ``bool[P, C]``.
        """
        shape = [p.extent if k in repeated else 1 for k, p in enumerate(self.loops)]
        at: Ints = np.indices(shape, np.int64).reshape(len(shape), math.prod(shape)).T
        start = np.array([p.lowest for p in self.loops], np.int64)
        change = np.array([p.change for p in self.loops], np.int64).reshape(len(self.loops), len(self.accesses.rows))
        serial = at[:, len(self.loops) - len(self.tile.serial) :]
        inside: Bools = np.all(serial[:, None, :] < self.tile.limits[None], axis=2)
        for k in range(len(self.tile.outer)):
            inside &= at[:, k, None] < self.tile.outer_limits[k][None]
        return (at + start) @ change, inside

    @property
    def is_single(self) -> bool:
        """Whether one of the nest's own loops is rolled, so that it shares no loads with other nests."""
        return any(k >= len(self.tile.outer) for k in self.rolled)

    def iterations(self, constants: Ints, repeated: set[int]) -> Ints:
        """Return the iteration of the rolled loops of each access of `enumerate`, ``int64[P]``."""
        shape = [p.extent if k in repeated else 1 for k, p in enumerate(self.loops)]
        iteration = np.zeros(shape, np.int64)
        for k in sorted(self.rolled & repeated):
            at = np.arange(shape[k]).reshape(-1, *(1,) * (len(shape) - k - 1))
            iteration = iteration * shape[k] + at
        return np.tile(iteration.reshape(-1), len(constants))

    def enumerate(self, constants: Ints, repeated: set[int]) -> tuple[Ints, Bools]:
        """Return the indices of accesses at every iteration of some loops: ``int64[P, K]`` and ``bool[P, C]``."""
        moved, inside = self.points(repeated)
        every = constants[:, None, :] + moved[None]
        full = np.broadcast_to(inside, (len(constants), *inside.shape))
        rows = len(constants) * len(moved)
        return every.reshape(rows, constants.shape[1]), full.reshape(rows, inside.shape[1])
