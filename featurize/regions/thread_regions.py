"""Nests computed inside one thread: where they are, how they move with threads and with the loops around them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from autosched.analysis.access.regions import demanded_region, loop_ranges
from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.featurize.regions.nest_geometry import AXES, Bools, EnclosingLoops, Ints, NestGeometry, stacked
from autosched.featurize.sketch.sketch import ComputeLocation


@dataclass(frozen=True)
class ThreadNestRegion:
    """Where a THREAD Member is, whatever its stage.

    Attributes:
        low: ``int64[N, dims]``, its lowest point in the first thread, in the first iteration of all loops around it.
        onward: ``int64[N, dims]``, how far that moves from block to block.
        extents: ``int64[N, dims]``, its points.
        step: ``int64[N, dims, 3]``, how far it moves from a thread to its neighbour in x, y, z.
        around: The loops around it.
    """

    low: Ints
    onward: Ints
    extents: Ints
    step: Ints
    around: EnclosingLoops


def regions_in_thread(
    bound: BoundPipeline, spot: ComputeLocation, outer: NestGeometry, inside: Iterable[str], *, thorough: bool
) -> ThreadNestRegion:
    """Return what a host needs of a Func in one thread.

    The demand is worked out for the first thread, for its neighbours, and after one iteration of each loop around:
    it is taken to move evenly. That is so unless an index of it has a floor division.

    Args:
        bound: The pipeline.
        spot: Where the Func is.
        outer: The nest it is computed in.
        inside: Funcs whose own demand is passed on.
        thorough: Whether to find out if it moves evenly.
    """
    probes = _Probes(bound, spot, outer, frozenset(inside))
    n, enclosing = probes.n, spot.enclosing
    shifts = [outer.step[:, :, a] for a in range(AXES)]
    inherited = outer.around
    reductions = [d for d in outer.reductions if outer.stage.loop(d).reduction] if spot.in_terms else []
    if inherited is not None:
        shifts += [inherited.moves[:, k, :] for k in range(len(inherited.reduces))]
    own = [_unit(outer, k) for k in range(enclosing)]
    probes.add(outer.low, probes.span)
    probes.add(outer.low + outer.onward, probes.span)
    (low, extents), (onward, _) = probes.run()
    for s in shifts:
        probes.add(outer.low + s, probes.span)
    for d in reductions:
        probes.add(outer.low, probes.span, d)
    for s in own:
        probes.add(outer.low + s, probes.span)
    found = probes.run()
    lows = [low, *(f[0] for f in found)]
    largest = np.max([extents, *(f[1] for f in found)], axis=0)
    moved = [x - low for x in lows[1:]]
    step = np.stack(moved[:AXES], axis=2)
    moves = np.stack(moved[AXES:], axis=1) if moved[AXES:] else np.zeros((n, 0, low.shape[1]), np.int64)
    limits, outer_limits, loops = _limits(probes, largest, enclosing, reductions)
    around = EnclosingLoops(
        loops,
        (
            *(inherited.names if inherited is not None else ()),
            *((outer.id, d) for d in (*reductions, *outer.dims[:enclosing])),
        ),
        (*(inherited.reduces if inherited is not None else ()), *(True for _ in reductions), *(False for _ in own)),
        moves,
        limits,
        outer_limits,
        _evenly(probes, (low, extents), step, moves, loops, shifts, reductions, own) if thorough else np.ones(n, bool),
    )
    return ThreadNestRegion(low, onward - low, largest, step, around)


class _Probes:
    """Demand of one Func for many positions of its host, worked out together."""

    def __init__(
        self, bound: BoundPipeline, spot: ComputeLocation, outer: NestGeometry, inside: frozenset[str]
    ) -> None:
        self.bound = bound
        self.spot = spot
        self.outer = outer
        self.inside = inside
        self.n = len(outer.low)
        self.span = self.spanned(outer.serial)
        self._asked: list[tuple[Ints, Ints, Mapping[str, Ints | int]]] = []

    def spanned(self, serial: Ints) -> Ints:
        """Return the points of the host that one evaluation serves."""
        span = serial.copy()
        span[:, : self.spot.enclosing] = 1
        return span

    def add(self, low: Ints, span: Ints, moved: str = "", by: Ints | int = 1) -> None:
        """Ask for the demand of host points, in a later iteration of one of its reductions."""
        self._asked.append((low, span, {moved: by} if moved else {}))

    def run(self) -> list[tuple[Ints, Ints]]:
        """Return lowest points and extents, ``int64[N, dims]`` each, for everything asked for."""
        if not self._asked:
            return []
        outer, n = self.outer, self.n
        low = np.concatenate([a[0] for a in self._asked])
        high = low + np.concatenate([a[1] for a in self._asked]) - 1
        host = self.bound.funcs[outer.stage.func]
        env: dict[str, tuple[Ints | int, Ints | int]] = dict(loop_ranges(outer.stage, host, host.region))
        env |= {d: (low[:, k], high[:, k]) for k, d in enumerate(outer.dims) if d in env}
        if self.spot.in_terms:
            for d in outer.reductions:
                start = env[d][0]
                at = np.concatenate([np.broadcast_to(start + a[2].get(d, 0), n) for a in self._asked])
                env[d] = at, at
        region = demanded_region(self.bound, [(outer.stage, env)], self.spot.func, self.inside)
        assert region is not None
        rows = len(low)
        lows, highs = stacked([lo for lo, _ in region], rows), stacked([hi for _, hi in region], rows)
        self._asked = []
        parts = range(0, rows, n) if n else []
        return [(lows[k : k + n], highs[k : k + n] - lows[k : k + n] + 1) for k in parts]


def _unit(outer: NestGeometry, k: int) -> Ints:
    shift = np.zeros_like(outer.low)
    shift[:, k] = 1
    return shift


def _limits(probes: _Probes, extents: Ints, enclosing: int, reductions: Sequence[str]) -> tuple[Ints, Ints, Ints]:
    """Return ``limits``, ``outer_limits`` and ``extents`` of the loops around (see `EnclosingLoops`)."""
    outer, n = probes.outer, probes.n
    of_host = outer.limits
    divided = of_host.shape[1]
    limits = np.repeat(extents[:, None, :], divided, axis=1)
    shrunk = [c for c in range(divided) if (of_host[:, c, enclosing:] < outer.serial[:, enclosing:]).any()]
    for c in shrunk:
        probes.add(outer.low, probes.spanned(of_host[:, c, :]))
    for c, (_, few) in zip(shrunk, probes.run(), strict=True):
        less: Bools = np.any(of_host[:, c, enclosing:] < outer.serial[:, enclosing:], axis=1)
        limits[:, c, :] = np.where(less[:, None], np.minimum(few, extents), extents)
    loops = [np.full(n, outer.stage.loop(d).extent) for d in reductions]
    rounds = [np.repeat(x[:, None], divided, axis=1) for x in loops]
    loops += [outer.serial[:, k] for k in range(enclosing)]
    rounds += [of_host[:, :, k] for k in range(enclosing)]
    own = np.stack(rounds, axis=1) if rounds else np.zeros((n, 0, divided), np.int64)
    if outer.around is None:
        return limits, own, stacked(loops, n)
    return (
        limits,
        np.concatenate([outer.around.outer_limits, own], axis=1),
        np.concatenate([outer.around.extents, stacked(loops, n)], axis=1),
    )


def _evenly(
    probes: _Probes, start: tuple[Ints, Ints], step: Ints, moves: Ints, loops: Ints, shifts: Sequence[Ints],
    reductions: Sequence[str], own: Sequence[Ints],
) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:  # fmt: skip
    """Whether the lowest point moves as far in the last step of every loop and axis as in the first."""
    outer = probes.outer
    low, extents = start
    far = np.maximum(np.where(outer.axes, outer.threads[:, :, None], 1).max(axis=1, initial=1) - 1, 0)
    expected = []
    for k, s in enumerate(shifts):
        times = far[:, k] if k < AXES else loops[:, k - AXES] - 1
        probes.add(outer.low + s * times[:, None], probes.span)
        expected.append((step[:, :, k] if k < AXES else moves[:, k - AXES, :]) * times[:, None])
    first = len(shifts) - AXES
    for k, d in enumerate(reductions):
        times = loops[:, first + k] - 1
        probes.add(outer.low, probes.span, d, times)
        expected.append(moves[:, first + k, :] * times[:, None])
    for k, s in enumerate(own, first + len(reductions)):
        times = loops[:, k] - 1
        probes.add(outer.low + s * times[:, None], probes.span)
        expected.append(moves[:, k, :] * times[:, None])
    even = np.ones(len(low), bool)
    for (there, size), e in zip(probes.run(), expected, strict=True):
        even &= (there - low == e).all(axis=1) & (size == extents).all(axis=1)
    return even
