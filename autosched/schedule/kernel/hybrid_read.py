"""Reads of hybrid tiles: the lane and the register that hold an element, or shared memory.

Of a read at a constant distance, a lane's element is in one of two neighbouring steps, as in the four kinds of loads of
Jangda and Guha 2020 (section 5): the lane's own register, shared memory, another lane's register in the same step, or
in the step before. Each lane is read by one other lane, so the lane that is read can choose the step.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from autosched.analysis.indices import index as ix
from autosched.analysis.indices.conditional_range import range_where
from autosched.schedule.kernel.lane_layout import HybridStorage, LaneLayout, LaneOrder
from autosched.schedule.kernel.nest_ranges import without_clamps
from autosched.schedule.kernel.thread_fusion import thread_loops
from autosched.schedule.plan import Nest

Point = Mapping[str, ix.Index]
MAX_CANDIDATES = 16
"""Limit on the registers that a read at a clamped point chooses from."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A register that may hold the element that a lane reads.

    Attributes:
        register: Its number.
        tests: Pairs of an index and its value that together hold in the lanes whose element is there.
    """

    register: int
    tests: tuple[tuple[ix.Index, int], ...]


@dataclass(frozen=True, slots=True)
class HybridRead:
    """The place of an element.

    Attributes:
        lane: Number of the lane that has it in a register.
        is_own: Whether it is in a register of the lane that reads it.
        register: Number of the register, of a read at a constant distance; None for another read.
        given: Registers of which a lane gives one, of a read at a constant distance: number k if just those tests hold
            whose bits are set in k.
        given_tests: Pairs of an index of the lane that is read and a limit: whether the index is below the limit.
        candidates: The registers of a read at another distance.
        before: The element is in shared memory where this index is negative; None if it is so in no lane.
        in_shared: Whether it is in shared memory in all lanes.
    """

    lane: ix.Index = 0
    is_own: bool = False
    register: ix.Index | None = None
    given: tuple[int, ...] = ()
    given_tests: tuple[tuple[ix.Index, int], ...] = ()
    candidates: tuple[Candidate, ...] = ()
    before: ix.Index | None = None
    in_shared: bool = False


IN_SHARED = HybridRead(in_shared=True)
"""A read of shared memory in all lanes."""


@dataclass(frozen=True, slots=True)
class _Place:
    """The places of the elements in one dimension: steps and points of a lane, and the lane.

    Attributes:
        options: Steps and points of the lane.
        lane: The lane.
        wraps: Of two options: the lane's index, and the number from which on a lane has the second one.
        tests: Of other options: the tests of each.
    """

    options: tuple[tuple[int, int], ...]
    lane: ix.Index
    wraps: tuple[ix.Index, int] | None = None
    tests: tuple[tuple[tuple[ix.Index, int], ...], ...] | None = None


def locate_read(storage: HybridStorage, at: Point, n: Nest, order: LaneOrder) -> HybridRead | None:
    """Return the place of an element that a nest reads; None if it depends on more than lane and step.

    Args:
        storage: The hybrid tile.
        at: The point, in the nest's loops; those that change a register's number have one iteration.
        n: The nest.
        order: Order of the threads of the warp.
    """
    threads = dict(enumerate(thread_loops([n])))
    places: dict[str, _Place] = {}
    before: ix.Index | None = None
    for layout in storage.layouts:
        index = without_clamps(at[layout.dim], n)
        offset = ix.sub(index, layout.base)
        loop = threads.get(layout.axis) if layout.axis is not None else None
        thread = ix.var(loop.name, 0, loop.extent - 1) if loop is not None else 0
        rest = ix.sub(offset, ix.scale(thread, layout.points))
        is_split = layout.dim == storage.split and storage.shared_extent > 0
        if isinstance(rest, int):
            first, rotation = divmod(rest // layout.points, layout.lanes)
            steps = [first] if rotation == 0 else [first, first + 1]
        else:
            span = _range(offset, n)
            if span is None:
                return None
            steps = [*range(span[0] // layout.step_points, span[1] // layout.step_points + 1)]
        if is_split and steps[-1] < 0:
            return IN_SHARED
        if is_split and steps[0] < 0:
            before = offset
        steps = [s for s in steps if 0 <= s < layout.steps] or [0]
        places[layout.dim] = (
            _at_distance(layout, thread, rest, steps) if isinstance(rest, int) else _among(layout, offset, steps)
        )
        if len(places[layout.dim].options) > MAX_CANDIDATES:
            return None
    strides = order.strides(storage.threads)
    lane: ix.Index = 0
    for layout in storage.layouts:
        if layout.axis is not None:
            lane = ix.add(lane, ix.scale(places[layout.dim].lane, strides[layout.axis]))
    if any(p.tests is not None for p in places.values()):
        candidates = _candidates(storage, places)
        return HybridRead(lane, candidates=candidates, before=before) if len(candidates) <= MAX_CANDIDATES else None
    own: ix.Index = 0
    strides = order.strides([p.extent for p in threads.values()])
    for axis, p in threads.items():
        own = ix.add(own, ix.scale(ix.var(p.name, 0, p.extent - 1), strides[axis]))
    wrapping = {d: p.wraps for d, p in places.items() if p.wraps is not None}
    given = tuple(
        storage.register({d: p.options[d in second] for d, p in places.items()}) for second in _subsets([*wrapping])
    )
    register: ix.Index = given[0]
    for k, (thread, rotation) in enumerate(wrapping.values()):
        a = storage.layout([*wrapping][k])
        wrapped = ix.floordiv(ix.add(thread, rotation), a.lanes)
        register = ix.add(register, ix.scale(wrapped, given[1 << k] - given[0]))
    is_own = not wrapping and ix.sub(lane, own) == 0
    return HybridRead(lane, is_own, register, given, tuple(wrapping.values()), before=before)


def _subsets(names: Sequence[str]) -> list[set[str]]:
    """Return the subsets of some names; number k has the names whose bits are set in k."""
    return [{d for bit, d in enumerate(names) if k >> bit & 1} for k in range(1 << len(names))]


def _at_distance(layout: LaneLayout, thread: ix.Index, rest: int, steps: Sequence[int]) -> _Place:
    """Return the places of elements at a constant distance from the lane's own point."""
    rotation = rest // layout.points % layout.lanes
    lane = ix.mod(ix.add(thread, rotation), layout.lanes)
    point = rest % layout.points
    wraps = (thread, rotation) if len(steps) == 2 else None
    return _Place(tuple((s, point) for s in steps), lane, wraps)


def _among(layout: LaneLayout, offset: ix.Index, steps: Sequence[int]) -> _Place:
    """Return the places of elements at any distance."""
    lane = ix.mod(ix.floordiv(offset, layout.points), layout.lanes)
    step, point = ix.floordiv(offset, layout.step_points), ix.mod(offset, layout.points)
    options = tuple((s, k) for s in steps for k in range(layout.points))
    by_step, by_point = len(steps) > 1, layout.points > 1
    tests = tuple((*(((step, s),) if by_step else ()), *(((point, k),) if by_point else ())) for s, k in options)
    return _Place(options, lane, tests=tests)


def _candidates(storage: HybridStorage, places: Mapping[str, _Place]) -> tuple[Candidate, ...]:
    """Return the registers of a read of which some dimension has another distance, with their tests."""
    listed: dict[str, list[tuple[tuple[int, int], tuple[tuple[ix.Index, int], ...]]]] = {}
    for d, p in places.items():
        if p.tests is not None:
            listed[d] = [*zip(p.options, p.tests, strict=True)]
        elif p.wraps is not None:
            thread, rotation = p.wraps
            step = ix.floordiv(ix.add(thread, rotation), storage.layout(d).lanes)
            listed[d] = [(o, ((step, k),)) for k, o in enumerate(p.options)]
        else:
            listed[d] = [(p.options[0], ())]
    combinations = [dict(zip(listed, c, strict=True)) for c in product(*listed.values())]
    return tuple(
        Candidate(
            storage.register({d: o for d, (o, _) in c.items()}),
            tuple(test for _, tests in c.values() for test in tests),
        )
        for c in combinations[: MAX_CANDIDATES + 1]
    )


def _range(e: ix.Index, n: Nest) -> tuple[int, int] | None:
    """Return the range of an index over the points of a nest's region; None if it depends on data."""
    if any(isinstance(t, ix.Atom) and t.kind in ("data", "select") for t in ix.atoms(e)):
        return None
    names = set(ix.loop_vars(e))
    bounds = []
    for dim, i in n.point().items():
        if names & set(ix.loop_vars(i)):
            low = n.lower_bound.get(dim, n.low[dim])
            bounds += [ix.sub(n.high[dim], i), ix.sub(i, n.low[dim]), ix.sub(i, low)]
    return range_where(e, bounds)


def registers_of_points(storage: HybridStorage) -> list[tuple[dict[str, ix.Index], int]]:
    """Return the offset from the first points to each of a lane's points in registers, with its register."""
    choices = {a.dim: [(s, k) for s in range(a.steps) for k in range(a.points)] for a in storage.layouts}
    points = []
    for combination in product(*choices.values()):
        places = dict(zip(choices, combination, strict=True))
        low = {d: ix.add(storage.layout(d).base, s * storage.layout(d).step_points + k) for d, (s, k) in places.items()}
        points.append((low, storage.register(places)))
    return points
