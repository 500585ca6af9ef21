"""Regions of producers computed inside one thread: their position, and its change with threads and loops."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from autosched.analysis.access.regions import demanded_region, loop_ranges
from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.featurize.regions.nest_arrays import AXES
from autosched.featurize.regions.nest_geometry import Bools, Ints, NestGeometry, stacked
from autosched.featurize.sketch.sketch import ComputeLocation
from autosched.featurize.tables.padding import pad_columns


@dataclass(frozen=True)
class ThreadRegions:
    """Regions of thread-level producers, ``N`` rows; fields as in `NestArrays`.

    Attributes:
        low: ``int64[N, dims]``, lowest point in the first thread and the first iteration of all enclosing loops.
        onward: ``int64[N, dims]``.
        extents: ``int64[N, dims]``, points of one evaluation.
        step: ``int64[N, dims, 3]``.
        limits: ``int64[N, C, dims]``.
        linear: ``bool[N]``.
        loops: ``int64[N, L, 1 + 2 D]``, the loops of its hosts, outermost first.
    """

    low: Ints
    onward: Ints
    extents: Ints
    step: Ints
    limits: Ints
    linear: Bools
    loops: Ints


def regions_in_thread(
    bound: BoundPipeline, location: ComputeLocation, host: NestGeometry, inside: Iterable[str], *, thorough: bool
) -> ThreadRegions:
    """Return the regions of a Func that one thread of a host requires.

    The region is evaluated for the first thread, for its neighbours, and after one iteration of each enclosing loop. It
    is assumed to move linearly, which holds unless an index has a floor division.

    Args:
        bound: The pipeline.
        location: Location of the Func.
        host: The nest that computes it.
        inside: Funcs between the host and the Func, whose regions are passed on.
        thorough: Whether to verify that it moves linearly.
    """
    probes = _Probes(bound, location, host, frozenset(inside))
    n, enclosing = probes.n, location.enclosing
    shifts = [host.step[:, :, a] for a in range(AXES)]
    shifts += [host.loop_moves[:, k] for k in range(len(host.loop_names))]
    reductions = [d for d in host.reductions if host.stage.loop(d).reduction] if location.in_terms else []
    units = [_unit(host, k) for k in range(enclosing)]
    probes.add(host.low, probes.span)
    probes.add(host.low + host.onward, probes.span)
    (low, extents), (next_low, _) = probes.run()
    for s in shifts:
        probes.add(host.low + s, probes.span)
    for d in reductions:
        probes.add(host.low, probes.span, d)
    for s in units:
        probes.add(host.low + s, probes.span)
    neighbours = probes.run()
    largest = np.max([extents, *(e for _, e in neighbours)], axis=0)
    moved = [x - low for x, _ in neighbours]
    step = np.stack(moved[:AXES], axis=2)
    moves = np.stack(moved[AXES:], axis=1) if moved[AXES:] else np.zeros((n, 0, low.shape[1]), np.int64)
    limits = _limits(probes, largest, enclosing)
    iterations, loop_limits = _enclosing_loops(host, enclosing, reductions)
    # A region that a loop does not move has no guard against the points of that loop beyond its host's region.
    fixed = (moves == 0).all(axis=2)[:, :, None]
    loop_limits = np.where(fixed, iterations[:, :, None], loop_limits)
    linear = np.ones(n, bool)
    if thorough:
        linear = _is_linear(probes, (low, extents), step, moves, iterations, shifts, reductions, units)
    padded = pad_columns(moves, (moves.shape[1], limits.shape[1]))
    loops = np.concatenate([iterations[:, :, None] - 1, padded, loop_limits - 1], axis=2)
    return ThreadRegions(low, next_low - low, largest, step, limits, linear, loops)


class _Probes:
    """Required regions of one Func for many positions of its host, inferred in one batch."""

    def __init__(
        self, bound: BoundPipeline, location: ComputeLocation, host: NestGeometry, inside: frozenset[str]
    ) -> None:
        self.bound = bound
        self.location = location
        self.host = host
        self.inside = inside
        self.n = len(host.low)
        self.span = self.spanned(host.serial)
        self._pending: list[tuple[Ints, Ints, Mapping[str, Ints | int]]] = []

    def spanned(self, serial: Ints) -> Ints:
        """Return the points of the host that one evaluation serves."""
        span = serial.copy()
        span[:, : self.location.enclosing] = 1
        return span

    def add(self, low: Ints, span: Ints, moved: str = "", by: Ints | int = 1) -> None:
        """Add the region for host points, in a later iteration of one of the host's reductions."""
        self._pending.append((low, span, {moved: by} if moved else {}))

    def run(self) -> list[tuple[Ints, Ints]]:
        """Return lowest points and extents of all pending regions, ``int64[N, dims]`` each."""
        if not self._pending:
            return []
        host, n = self.host, self.n
        low = np.concatenate([a[0] for a in self._pending])
        high = low + np.concatenate([a[1] for a in self._pending]) - 1
        func = self.bound.funcs[host.stage.func]
        env: dict[str, tuple[Ints | int, Ints | int]] = dict(loop_ranges(host.stage, func, func.region))
        env |= {d: (low[:, k], high[:, k]) for k, d in enumerate(host.dims) if d in env}
        if self.location.in_terms:
            for d in host.reductions:
                start = env[d][0]
                at = np.concatenate([np.broadcast_to(start + a[2].get(d, 0), n) for a in self._pending])
                env[d] = at, at
        region = demanded_region(self.bound, [(host.stage, env)], self.location.func, self.inside)
        assert region is not None
        rows = len(low)
        lows, highs = stacked([lo for lo, _ in region], rows), stacked([hi for _, hi in region], rows)
        self._pending = []
        parts = range(0, rows, n) if n else []
        return [(lows[k : k + n], highs[k : k + n] - lows[k : k + n] + 1) for k in parts]


def _unit(host: NestGeometry, k: int) -> Ints:
    """Return the distance to a thread's next point in a dimension, ``int64[N, dims]``."""
    shift = np.zeros_like(host.low)
    shift[:, k] = host.apart[:, k]
    return shift


def _limits(probes: _Probes, extents: Ints, enclosing: int) -> Ints:
    """Return the points of the last active thread of each thread dimension, ``int64[N, C, dims]``."""
    host = probes.host
    divided = host.limits.shape[1]
    limits = np.repeat(extents[:, None, :], divided, axis=1)
    shrunk = [c for c in range(divided) if (host.limits[:, c, enclosing:] < host.serial[:, enclosing:]).any()]
    for c in shrunk:
        probes.add(host.low, probes.spanned(host.limits[:, c, :]))
    for c, (_, few) in zip(shrunk, probes.run(), strict=True):
        less: Bools = np.any(host.limits[:, c, enclosing:] < host.serial[:, enclosing:], axis=1)
        limits[:, c, :] = np.where(less[:, None], np.minimum(few, extents), extents)
    return limits


def _enclosing_loops(host: NestGeometry, enclosing: int, reductions: Sequence[str]) -> tuple[Ints, Ints]:
    """Return the iterations of the enclosing loops, ``int64[N, L]``, and of the last threads, ``int64[N, L, C]``."""
    n, divided = len(host.low), host.limits.shape[1]
    extents = [np.full(n, host.stage.loop(d).extent) for d in reductions]
    limits = [np.repeat(x[:, None], divided, axis=1) for x in extents]
    extents += [host.serial[:, k] for k in range(enclosing)]
    limits += [host.limits[:, :, k] for k in range(enclosing)]
    host_limits = np.stack(limits, axis=1) if limits else np.zeros((n, 0, divided), np.int64)
    return (
        np.concatenate([host.loop_extents, stacked(extents, n)], axis=1),
        np.concatenate([host.loop_limits, host_limits], axis=1),
    )


def _is_linear(
    probes: _Probes, start: tuple[Ints, Ints], step: Ints, moves: Ints, iterations: Ints, shifts: Sequence[Ints],
    reductions: Sequence[str], units: Sequence[Ints],
) -> Bools:  # fmt: skip
    """Whether the last step of every axis and loop moves the region as far as the first one, ``bool[N]``."""
    host = probes.host
    low, extents = start
    far = np.maximum(np.where(host.axes, host.threads[:, :, None], 1).max(axis=1, initial=1) - 1, 0)
    expected = []
    for k, s in enumerate(shifts):
        times = far[:, k] if k < AXES else iterations[:, k - AXES] - 1
        probes.add(host.low + s * times[:, None], probes.span)
        expected.append((step[:, :, k] if k < AXES else moves[:, k - AXES, :]) * times[:, None])
    first = len(shifts) - AXES
    for k, d in enumerate(reductions):
        times = iterations[:, first + k] - 1
        probes.add(host.low, probes.span, d, times)
        expected.append(moves[:, first + k, :] * times[:, None])
    for k, s in enumerate(units, first + len(reductions)):
        times = iterations[:, k] - 1
        probes.add(host.low + s * times[:, None], probes.span)
        expected.append(moves[:, k, :] * times[:, None])
    linear = np.ones(len(low), bool)
    for (there, size), e in zip(probes.run(), expected, strict=True):
        linear &= (there - low == e).all(axis=1) & (size == extents).all(axis=1)
    return linear
