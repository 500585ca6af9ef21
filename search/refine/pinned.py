"""Decisions that are made already: a search offers what was chosen elsewhere as the only option."""

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

KINDS = {Level.INLINE: "inline", Level.ROOT: "root", Level.BLOCK: "block", Level.THREAD: "thread"}


@dataclass(frozen=True, slots=True)
class PinnedDecision:
    """What is decided for a Func.

    Attributes:
        level: Where it is computed.
        spot: Where in a kernel, for BLOCK and THREAD.
        tilings: Tile sizes: threads and serial points of each of its kernels at ROOT, its threads at BLOCK.
    """

    level: Level
    spot: ComputeLocation | None = None
    tilings: tuple[Params, ...] = ()


def pinned_decisions(places: ComputeLocations, state: State) -> dict[str, PinnedDecision]:
    """Return what a complete state decides for each Func."""
    roots: dict[str, dict[int, Params]] = {}
    found: dict[str, PinnedDecision] = {}
    for piece in state.pieces:
        s, layout = piece.structure, places.layout(piece.structure)
        roots.setdefault(s.func, {})[s.stages[0].number] = piece.params[: layout.root_serial.stop]
        for spot in s.spots:
            own = (piece.params[layout.threads_of(spot.func)],) if spot.level is Level.BLOCK else ()
            found[spot.func] = PinnedDecision(spot.level, spot, own)
    for func, level in state.levels.items():
        if level is Level.ROOT:
            found[func] = PinnedDecision(level, None, tuple(p for _, p in sorted(roots.get(func, {}).items())))
        elif level is Level.INLINE:
            found[func] = PinnedDecision(level)
    return found


def pinned_options(
    enumerator: OptionEnumerator, state: State, decision: Decision, held: PinnedDecision, *, members: bool
) -> Sequence[Option]:
    """Return the one option of a decision that is held.

    Where the state does not offer it, as other decisions have changed, the options that come nearest: the same place
    with other tiles, then any. A Func that was inlined stays so, as kernels that are not looked at may rely on it.
    """
    if held.level is Level.ROOT and decision.group is not None and decision.group < len(held.tilings):
        return enumerator.fixed_tiling(state, decision, held.tilings[decision.group])
    near = enumerator.options(state, decision, members=members, only=KINDS[held.level])
    if decision.group is not None or held.level is Level.INLINE:
        return near
    if held.spot is not None:
        place = held.spot._replace(aligned=None)
        near = [o for o in near if o.added[0].structure.spot(decision.func) == place]
    if near and held.spot is not None and held.spot.aligned is not None:
        return [_aligned(enumerator, near[0], held)]
    if held.tilings:
        same = [o for o in near if _tiles(enumerator.places, o) == held.tilings[0]]
        near = same or near
    return near or enumerator.options(state, decision, members=members)


def _aligned(enumerator: OptionEnumerator, option: Option, held: PinnedDecision) -> Option:
    """Return an option at BLOCK with the alignment and the threads that are held."""
    assert held.spot is not None
    (piece,) = option.added
    structure = enumerator.places.one(with_alignment(piece.structure, option.func, held.spot.aligned))
    where = enumerator.places.layout(structure).threads_of(option.func)
    params = (*piece.params[: where.start], *held.tilings[0], *piece.params[where.stop :])
    return option._replace(added=(PartialKernel(structure, params, tiled=True),))


def _tiles(places: ComputeLocations, option: Option) -> Params:
    """Return the tile sizes that an option gives the Func."""
    for piece in option.added:
        layout = places.layout(piece.structure)
        if piece.structure.func == option.func and option.level is Level.ROOT:
            return piece.params[: layout.root_serial.stop]
        if option.level is Level.BLOCK:
            return piece.params[layout.threads_of(option.func)]
    return ()
