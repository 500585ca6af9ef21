"""A partly scheduled pipeline: the kernels decided so far."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from operator import mul

import numpy as np
from numpy.typing import NDArray

from autosched.featurize.sketch.sketch import KernelSketch, TileColumns
from autosched.featurize.tables.unique import unique_rows
from autosched.schedule.types import Level

Ints = NDArray[np.int64]
Params = tuple[int, ...]


@dataclass(slots=True, eq=False)
class PartialKernel:
    """A kernel of a state, shared by all states that have it; not changed but for what it remembers.

    Attributes:
        structure: What it computes where.
        params: Tile sizes.
        tiled: Whether the root's tile is chosen yet.
        layers: Hash of what it looks like, by depth, as far as it was asked for.
        sources: The Funcs that it reads, once this was asked for (`OptionEnumerator.replaced`).
    """

    structure: KernelSketch
    params: Params
    tiled: bool
    layers: dict[int, int] = field(default_factory=dict, repr=False)
    sources: frozenset[str] | None = field(default=None, repr=False)

    def layer(self, layout: Callable[[KernelSketch], TileColumns], depth: int) -> int:
        """Return a hash of what the kernel looks like down to a depth (see `layer_key`)."""
        found = self.layers.get(depth)
        if found is None:
            found = self.layers[depth] = hash(layer_key(self, layout(self.structure), depth))
        return found


@dataclass(frozen=True, slots=True, eq=False)
class State:
    """Kernels decided so far, their predicted time, and how they came about.

    Attributes:
        pieces: The kernels.
        costs: Predicted seconds of each.
        levels: Level of every Func that has a place.
        cost: Predicted seconds, the sum over the pieces.
        steps: Decisions made.
        parent: The state this one was made from.
    """

    pieces: tuple[PartialKernel, ...]
    costs: tuple[float, ...]
    levels: Mapping[str, Level]
    cost: float
    steps: int
    parent: State | None = field(default=None, repr=False)


def layer_key(piece: PartialKernel, layout: TileColumns, depth: int) -> tuple[object, ...]:
    """Return what a kernel looks like down to a depth, as `autosched.schedule.io.structural_hash` layers it.

    Depth 0 is the placement, 1 adds which loops have more than one iteration, 2 the extents of the blocks' tiles, 3 the
    threads of the root, 4 and more everything.
    """
    placement, enclosing = _placement(piece.structure)
    key: tuple[object, ...] = (placement,)
    if depth >= 1:
        key += (enclosing, tuple([n > 1 for n in piece.params]))
    if depth >= 2:
        threads, serial = piece.params[layout.root_threads], piece.params[layout.root_serial]
        key += (tuple(map(mul, threads, serial)),)
    if depth >= 3:
        key += (piece.params[layout.root_threads],)
    return (*key, piece.params) if depth >= 4 else key


@lru_cache(maxsize=1 << 14)
def _placement(s: KernelSketch) -> tuple[int, int]:
    """Return hashes of what a kernel computes where, and of the loops that its Members are in."""
    where = hash((s.stages, tuple((p.func, p.level, p.host) for p in s.spots), s.inlined))
    return where, hash(tuple((p.enclosing, p.each_term) for p in s.spots))


def tiling_buckets(tilings: Ints, layout: TileColumns, depth: int) -> Ints:
    """Return a number for each tiling of one kernel, the same for those with equal `layer_key`.

    Args:
        tilings: ``int64[N, columns]``.
        layout: What the columns are.
        depth: Layers of what kernels look like.

    Returns:
        ``int64[N]``, numbered as they are met.
    """
    threads, serial = tilings[:, layout.root_threads], tilings[:, layout.root_serial]
    layers = [tilings > 1, threads * serial, threads, tilings][: max(depth, 0)]
    if not layers:
        return np.zeros(len(tilings), np.int64)
    _, first, which = unique_rows(np.concatenate(layers, axis=1))
    number = np.empty_like(first)
    number[np.argsort(first)] = np.arange(len(first))
    found: Ints = number[which]
    return found


def state_key(state: State, layout: Callable[[KernelSketch], TileColumns], depth: int) -> int:
    """Return a number for the decisions made and what a state's kernels look like, whatever their order.

    Args:
        state: The state.
        layout: What the columns of a structure's parameters are.
        depth: Layers of what kernels look like (see `layer_key`).
    """
    keys = [p.layers[depth] if depth in p.layers else p.layer(layout, depth) for p in state.pieces]
    return hash((state.steps, frozenset(keys)))
