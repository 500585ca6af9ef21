"""States of the beam: partial schedules, each the kernels decided so far."""

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

WARP_TILE_SHARE = 4
"""States of a beam for each one that may have warp tiles, beside them: such a tile is chosen with its first producer,
so that these states are ahead of others until those have their producers, too."""


@dataclass(slots=True, eq=False)
class PartialKernel:
    """A kernel of a state, shared by all states that contain it; immutable apart from its caches.

    Attributes:
        sketch: Its sketch.
        params: Tile sizes.
        tiled: Whether the tiling of the root is decided.
        layers: Cached structural hashes by depth.
        sources: Cached set of the Funcs that it reads (`OptionEnumerator.replaced_kernels`).
    """

    sketch: KernelSketch
    params: Params
    tiled: bool
    layers: dict[int, int] = field(default_factory=dict, repr=False)
    sources: frozenset[str] | None = field(default=None, repr=False)

    def layer(self, layout: Callable[[KernelSketch], TileColumns], depth: int) -> int:
        """Return the structural hash of the kernel to a depth (see `layer_key`)."""
        key = self.layers.get(depth)
        if key is None:
            key = self.layers[depth] = hash(layer_key(self, layout(self.sketch), depth))
        return key


@dataclass(frozen=True, slots=True, eq=False)
class State:
    """Kernels decided so far, with their predicted time.

    Attributes:
        pieces: The kernels.
        costs: Predicted seconds of each.
        levels: Level of every Func whose compute location is decided.
        cost: Predicted seconds, the sum over the kernels.
        steps: Number of decisions made.
        parent: The state before the last decision.
    """

    pieces: tuple[PartialKernel, ...]
    costs: tuple[float, ...]
    levels: Mapping[str, Level]
    cost: float
    steps: int
    parent: State | None = field(default=None, repr=False)


def has_warp_tiles(state: State) -> bool:
    """Whether warps have tiles of their own in a kernel of a state."""
    return any(p.sketch.warps for p in state.pieces)


def layer_key(piece: PartialKernel, layout: TileColumns, depth: int) -> tuple[object, ...]:
    """Return the structure of a kernel to a depth, as `autosched.schedule.io.structural_hash` defines it.

    Depth 0 is the compute locations. Depth 1 adds which loops have more than one iteration, and depth 2 the tiles of
    blocks. Depth 3 adds the threads of the root and the warps of a block, depth 4 and more everything.
    """
    placement, enclosing = _placement(piece.sketch)
    key: tuple[object, ...] = (placement,)
    if depth >= 1:
        key += (enclosing, tuple([n > 1 for n in piece.params]))
    if depth >= 2:
        threads, serial = piece.params[layout.root_threads], piece.params[layout.root_serial]
        key += (tuple(map(mul, threads, serial)),)
    if depth >= 3:
        key += (piece.params[layout.root_threads], piece.sketch.warps)
    return (*key, piece.params) if depth >= 4 else key


@lru_cache(maxsize=1 << 14)
def _placement(s: KernelSketch) -> tuple[int, int]:
    """Return hashes of a kernel's levels and hosts, and of the loops that enclose its fused producers."""
    where = hash((s.stages, tuple((p.func, p.level, p.host) for p in s.locations), s.inlined, bool(s.warps)))
    return where, hash(tuple((p.enclosing, p.each_term) for p in s.locations))


def tiling_buckets(tilings: Ints, layout: TileColumns, depth: int) -> Ints:
    """Return the bucket of each tiling of one kernel: tilings with equal `layer_key` share one.

    Args:
        tilings: ``int64[N, columns]``.
        layout: Meaning of the columns.
        depth: Depth of `layer_key`.

    Returns:
        ``int64[N]``, numbered in order of first occurrence.
    """
    threads, serial = tilings[:, layout.root_threads], tilings[:, layout.root_serial]
    layers = [tilings > 1, threads * serial, threads, tilings][: max(depth, 0)]
    if not layers:
        return np.zeros(len(tilings), np.int64)
    _, first, which = unique_rows(np.concatenate(layers, axis=1))
    number = np.empty_like(first)
    number[np.argsort(first)] = np.arange(len(first))
    buckets: Ints = number[which]
    return buckets


def state_key(state: State, layout: Callable[[KernelSketch], TileColumns], depth: int) -> int:
    """Return a hash of a state's kernels, independent of their order, and of its number of decisions.

    Args:
        state: The state.
        layout: Returns the columns of a sketch's tile sizes.
        depth: Depth of `layer_key`.
    """
    keys = [p.layers[depth] if depth in p.layers else p.layer(layout, depth) for p in state.pieces]
    return hash((state.steps, frozenset(keys)))
