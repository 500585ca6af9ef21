"""Pinned decisions of frozen Funcs and of large-neighbourhood search: each has one option, the incumbent's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from autosched.featurize.sketch.sketch import ComputeLocation
from autosched.schedule.types import Level
from autosched.search.beam.state import Params, PartialKernel, State
from autosched.search.refine.tile_alignment import with_alignment
from autosched.search.space.compute_locations import ComputeLocations
from autosched.search.space.decisions import Decision, Option
from autosched.search.space.option_enumeration import OptionEnumerator
from autosched.search.space.warp_tilings import WarpTile

KINDS = {Level.INLINE: "inline", Level.ROOT: "root", Level.BLOCK: "block", Level.WARP: "warp",
         Level.THREAD: "thread"}  # fmt: skip


@dataclass(frozen=True, slots=True)
class PinnedDecision:
    """The decisions of one Func.

    Attributes:
        level: Level of its compute location.
        location: Compute location within a kernel, at BLOCK and THREAD.
        tilings: Tile sizes: threads and serial points of each of its kernels at ROOT, its threads at BLOCK and WARP.
        warp_tile: At WARP, the tile of a warp of its kernel.
    """

    level: Level
    location: ComputeLocation | None = None
    tilings: tuple[Params, ...] = ()
    warp_tile: WarpTile | None = None


def pinned_decisions(compute_locations: ComputeLocations, state: State) -> dict[str, PinnedDecision]:
    """Return the decisions of a complete state by Func."""
    roots: dict[str, dict[int, Params]] = {}
    decisions: dict[str, PinnedDecision] = {}
    for piece in state.pieces:
        s, layout = piece.sketch, compute_locations.layout(piece.sketch)
        root = piece.params[: layout.root_serial.stop]
        roots.setdefault(s.func, {})[s.stages[0].number] = root
        tile = WarpTile(root, s.order(s.stages[0]).interleaved, s.warps) if s.warps else None
        for location in s.locations:
            if location.level is not Level.BLOCK:
                decisions[location.func] = PinnedDecision(location.level, location)
                continue
            shared = Level.BLOCK if tile is None else Level.WARP
            threads = (piece.params[layout.threads_of(location.func)],)
            decisions[location.func] = PinnedDecision(shared, location, threads, tile)
    for func, level in state.levels.items():
        if level is Level.ROOT:
            decisions[func] = PinnedDecision(level, None, tuple(p for _, p in sorted(roots.get(func, {}).items())))
        elif level is Level.INLINE:
            decisions[func] = PinnedDecision(level)
    return decisions


def pinned_options(
    enumerator: OptionEnumerator, state: State, decision: Decision, pinned: PinnedDecision, *, fusion: bool
) -> Sequence[Option]:
    """Return the one option of a pinned decision.

    Other decisions may have changed so that the state lacks this option. Then the nearest ones are returned: the same
    compute location with other tiles, else all. An inlined Func stays inlined, since unaffected kernels may depend on
    it.
    """
    if pinned.level is Level.ROOT and decision.group is not None and decision.group < len(pinned.tilings):
        return enumerator.fixed_tiling(state, decision, pinned.tilings[decision.group])
    if pinned.warp_tile is not None and decision.group is None and fusion:
        same = enumerator.given_warp_tile(state, decision.func, pinned.warp_tile, pinned.tilings[0])
        return same or enumerator.options(state, decision, fusion=fusion)
    near = enumerator.options(state, decision, fusion=fusion, only=KINDS[pinned.level])
    if decision.group is not None or pinned.level is Level.INLINE:
        return near
    if pinned.location is not None:
        location = pinned.location._replace(aligned=None)
        near = [o for o in near if o.added[0].sketch.location(decision.func) == location]
    if near and pinned.location is not None and pinned.location.aligned is not None:
        return [_aligned(enumerator, near[0], pinned)]
    if pinned.tilings:
        same = [o for o in near if _tiles(enumerator.compute_locations, o) == pinned.tilings[0]]
        near = same or near
    return near or enumerator.options(state, decision, fusion=fusion)


def _aligned(enumerator: OptionEnumerator, option: Option, pinned: PinnedDecision) -> Option:
    """Return an option at BLOCK with the pinned tile alignment and threads."""
    assert pinned.location is not None
    (piece,) = option.added
    sketch = enumerator.compute_locations.one(with_alignment(piece.sketch, option.func, pinned.location.aligned))
    where = enumerator.compute_locations.layout(sketch).threads_of(option.func)
    params = (*piece.params[: where.start], *pinned.tilings[0], *piece.params[where.stop :])
    return option._replace(added=(PartialKernel(sketch, params, tiled=True),))


def _tiles(compute_locations: ComputeLocations, option: Option) -> Params:
    """Return the tile sizes of an option's Func."""
    for piece in option.added:
        layout = compute_locations.layout(piece.sketch)
        if piece.sketch.func == option.func and option.level is Level.ROOT:
            return piece.params[: layout.root_serial.stop]
        if option.level is Level.BLOCK:
            return piece.params[layout.threads_of(option.func)]
    return ()
