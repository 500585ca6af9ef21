"""Lane loops of a batch's nests on a CPU: lanes, costs of an evaluation, and the share of boundary blocks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from autosched.featurize.featurizer import SketchFeaturizer
from autosched.featurize.schema import INDEX
from autosched.featurize.tables.descriptor_tables import THREAD
from autosched.featurize.tables.padding import pad_columns
from autosched.featurize.tables.pipeline_tables import BatchEvaluation
from autosched.featurize.tables.unique import unique_inverse, unique_rows
from autosched.schedule.cpu_policy import JAM_FACTORS, MAX_VECTOR_STEP
from autosched.search.cost.cpu.inter_block_reuse import distinct_reads_by_level
from autosched.search.cost.cpu.kernel_costs import FIELD, CpuKernelCosts
from autosched.search.cost.cpu.unroll_and_jam_savings import SPARED

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

PAGE = 4096
"""Bytes of a page; the hardware prefetcher does not cross it."""
MOST_UNROLLED = 4
"""Most lanes of a loop that gcc unrolls completely."""
LEAST_AROUND = 16
"""Fewest iterations of the loop around an unrolled loop for which gcc forms vectors along it."""
MOST_OPERATIONS = 400
"""Most operations and accesses of all lanes of a loop that gcc unrolls completely."""
_CLAMPED = [FIELD[name] for name in ("low", "high", "periodic")]


@dataclass(frozen=True)
class LaneLoops:
    """Lane loops of the ``R`` nests of ``M`` candidates.

    Attributes:
        candidate: ``int64[R]``, the candidate of each nest.
        first: ``bool[R]``, whether the nest is the candidate's first.
        inside: ``bool[R]``, whether the nest runs inside a thread.
        lanes: ``float64[R]``, iterations of the lane loop; without threads, of the innermost loop.
        lane_points: ``float64[R]``, contiguous points of each lane, so that neighbours lie that far apart.
        costs: ``float64[R, COLUMNS]``, see `of`.
        shared_loads: ``float64[R]``, loads of lanes far apart that points of a thread share, per evaluation.
        all_shared: ``bool[R]``, whether all such loads are shared.
        jammed: ``float64[R]``, rows of lanes that unroll-and-jam combines; 1 where it does not apply.
        jam_savings: ``float64[R, SPARED]``, savings of an evaluation by that, see `saved_loads`.
        conflict_misses: ``float64[R]``, accesses of an evaluation that miss lines evicted from the first-level cache,
            see `l1_conflicts`.
        boundary_share: ``float64[R]``, share of blocks in which boundary conditions act.
        cut_share: ``float64[R]``, share of blocks with lanes beyond the result.
        end_lanes: ``float64[R]``, lanes of a row inside the result, in these blocks.
        pages: ``float64[R]``, pages that a block accesses side by side.
        carrier: ``int64[R]``, the nest with threads of its own that contains each.
        loop: ``int64[R]``, the nest whose lane loop each runs in. A producer computed for every single evaluation of
            its consumer shares the consumer's.
        global_bytes: ``float64[R]``, bytes of the arrays in global memory that the nest reads.
        global_share: ``float64[R]``, the nest's share of ``global_bytes``, as several nests may read the same array.
        level_bytes: ``float64[R, 1 + D]``, distinct bytes that groups of adjacent blocks read, see
            `distinct_reads_by_level`.
        level_rows: ``float64[R, 1 + D]``, contiguous rows of ``level_bytes``.
        level_groups: ``float64[R, 1 + D]``, number of the groups of blocks.
        features: ``float64[R, features]``.
    """

    candidate: Ints
    first: Bools
    inside: Bools
    lanes: Floats
    lane_points: Floats
    costs: Floats
    shared_loads: Floats
    all_shared: Bools
    jammed: Floats
    jam_savings: Floats
    conflict_misses: Floats
    boundary_share: Floats
    cut_share: Floats
    end_lanes: Floats
    pages: Floats
    carrier: Ints
    loop: Ints
    global_bytes: Floats
    global_share: Floats
    level_bytes: Floats
    level_rows: Floats
    level_groups: Floats
    features: Floats

    def of(self, name: str) -> Floats:
        """Return a field of each nest's `LaneCosts`, ``float64[R]``."""
        column: Floats = self.costs[:, FIELD[name]]
        return column

    def any_in_loop(self, flags: Bools) -> Bools:
        """Return whether a flag is set for any nest of the same lane loop, ``bool[R]``."""
        any_of: Bools = np.bincount(self.loop, flags, len(flags))[self.loop] > 0
        return any_of


def lane_loops(evaluation: BatchEvaluation, costs_of: Callable[[SketchFeaturizer], CpuKernelCosts]) -> LaneLoops:
    """Return the lane loops of a batch's nests.

    Args:
        evaluation: The batch.
        costs_of: Returns the costs of a sketch.
    """
    batch = _NestBatch(evaluation, costs_of)
    chosen = _choose_lanes(batch)
    jammed, savings, misses = _jam(batch, chosen)
    root_dims = batch.gather(lambda c: c.root_dims)
    root_lane = root_dims[batch.carrier, chosen.lane] - 1  # the root's dimension along the lanes; -1 for none
    cut_share, in_domain = _cut(batch, root_lane)
    level_bytes, level_rows, level_groups = distinct_reads_by_level(evaluation, root_dims)
    first = np.zeros(len(batch.rows), bool)
    first[batch.start] = True
    return LaneLoops(
        candidate=batch.candidate,
        first=first,
        inside=batch.inside,
        lanes=chosen.lanes.astype(np.float64),
        lane_points=np.where(batch.is_serial, 1, chosen.serial).astype(np.float64),
        costs=chosen.costs,
        shared_loads=chosen.shared_loads,
        all_shared=chosen.all_shared,
        jammed=jammed,
        jam_savings=savings,
        conflict_misses=misses,
        boundary_share=_boundary_share(batch, root_lane),
        cut_share=cut_share,
        end_lanes=np.maximum(np.ceil(chosen.lanes * in_domain), 1),
        pages=_pages(batch),
        carrier=batch.carrier,
        loop=_loops(batch.inside, evaluation.batch.hosts, batch.features),
        global_bytes=np.concatenate([c.global_bytes for c in batch.costs])[evaluation.batch.nests.flat],
        global_share=np.concatenate([c.global_share for c in batch.costs])[evaluation.batch.nests.flat],
        level_bytes=level_bytes,
        level_rows=level_rows,
        level_groups=level_groups,
        features=batch.features,
    )


class _NestBatch:
    """The R nests of a batch, with the costs of their sketches."""

    def __init__(
        self, evaluation: BatchEvaluation, costs_of: Callable[[SketchFeaturizer], CpuKernelCosts]
    ) -> None:  # fmt: skip
        self.evaluation = evaluation
        self.nests = evaluation.geometry.nests
        self.costs = [costs_of(m) for m in evaluation.models]
        batch = evaluation.batch
        self.candidate, self.start = batch.nests.candidate, batch.nests.start
        self.rows = np.arange(len(self.candidate))
        self.local = self.rows - self.start[self.candidate]  # number of each nest in its sketch
        self.sketch = batch.sketch[self.candidate]
        self.dims = self.nests.points.shape[1]
        self.features = evaluation.features[self.candidate, self.local]
        self.inside: Bools = self.nests.kinds["level"] == THREAD
        self.carrier = self.rows
        while self.inside[self.carrier].any():
            self.carrier = np.where(self.inside[self.carrier], batch.hosts[self.carrier], self.carrier)
        has_threads: Bools = np.asarray(self.nests.axes[self.carrier].any(axis=(1, 2)))
        self.is_serial = ~has_threads

    def gather(self, values: Callable[[CpuKernelCosts], Ints]) -> Ints:
        """Return values of all nests, ``int64[R, D]``, from those of each sketch, ``int64[rows, at most D]``."""
        padded = [pad_columns(values(costs), (self.dims,)) for costs in self.costs]
        result: Ints = np.concatenate(padded)[self.evaluation.batch.nests.flat]
        return result

    def along(self, lane: Ints) -> tuple[Floats, Floats, Bools]:
        """Return `LaneLoops.costs`, `shared_loads` and `all_shared` for lanes along these dimensions, ``int64[R]``."""
        keys, _, which = unique_inverse((self.sketch * len(self.rows) + self.local) * self.dims + lane)
        nest = [
            (self.costs[k // self.dims // len(self.rows)], k // self.dims % len(self.rows), k % self.dims)
            for k in keys.tolist()
        ]
        costs = np.stack([c.work(row, dim) for c, row, dim in nest])[which]
        far = [c.evenly_far(row, dim) for c, row, dim in nest]
        return costs, *_shared_by_points(far, which, self.nests.serial, costs[:, FIELD["even"]])


@dataclass(frozen=True)
class _ChosenLanes:
    """The lanes of R nests; see `LaneLoops` for the fields of the same names.

    Attributes:
        lane: ``int64[R]``, the dimension of the lanes.
        serial: ``int64[R]``, points of a thread along it.
        unrolled: ``bool[R]``, whether gcc unrolls the loop over few threads inside the lane loop.
        collapsed: ``bool[R]``, whether the lanes are those of a loop over points as well.
    """

    lane: Ints
    lanes: Ints
    serial: Ints
    unrolled: Bools
    collapsed: Bools
    costs: Floats
    shared_loads: Floats
    all_shared: Bools


def _choose_lanes(batch: _NestBatch) -> _ChosenLanes:
    """Return the lanes along which gcc forms vectors: the innermost loop over threads or, if unrolled, the next one."""
    nests, carrier, rows = batch.nests, batch.carrier, batch.rows
    moving = nests.axes[carrier, :, 0]
    lane = np.where(moving.any(axis=1), moving.argmax(axis=1), nests.kinds["innermost"][carrier])
    serial = nests.serial[carrier, lane]
    lanes = np.where(batch.is_serial, serial, np.maximum(nests.active[carrier, 0], 1))
    costs, shared_loads, all_shared = batch.along(lane)
    next_lane = nests.axes[carrier, :, 1]
    alone = next_lane.any(axis=1) & (np.bincount(carrier, minlength=len(rows)) == 1) & ~batch.inside
    alone &= nests.active[carrier, 1] >= LEAST_AROUND
    unrolled = alone & _is_unrolled(costs, lanes, nests.serial.clip(1).prod(axis=1))
    if unrolled.any():
        outer = np.where(unrolled, next_lane.argmax(axis=1), lane)
        outer_costs, _, _ = batch.along(outer)
        unrolled &= (outer_costs[:, _CLAMPED] == 0).all(axis=1)
        lane = np.where(unrolled, outer, lane)
        lanes = np.where(unrolled, np.maximum(nests.active[carrier, 1], 1), lanes)
        serial = np.where(unrolled, 1, serial)
        costs, shared_loads, all_shared = batch.along(lane)
    may_collapse = (np.bincount(carrier, minlength=len(rows)) == 1) & ~batch.inside & ~batch.is_serial & ~unrolled
    inner, points = _collapsed(batch, lane, may_collapse & (serial == 1) & (lanes > 1))
    collapsed = points > 1
    if collapsed.any():
        costs, shared_loads, all_shared = batch.along(np.where(collapsed, inner, lane))
        lanes = lanes * points
    return _ChosenLanes(lane, lanes, serial, unrolled, collapsed, costs, shared_loads, all_shared)


def _collapsed(batch: _NestBatch, lane: Ints, allowed: Bools) -> tuple[Ints, Ints]:
    """Return the dimension of the loop that is one with each nest's lane loop, and its points, ``int64[R]`` each.

    Args:
        batch: The nests.
        lane: ``int64[R]``, the dimension of the lanes.
        allowed: ``bool[R]``, whether loops may be collapsed at all; the others have one point.
    """
    serial, at = batch.nests.serial, np.arange(len(lane))
    depths = batch.gather(lambda c: c.depths)
    inner = np.where(serial > 1, depths, -1).argmax(axis=1)
    points = np.where(allowed & (inner != lane), serial[at, inner], 1)
    some = np.flatnonzero(points > 1)
    if len(some):
        keys = np.stack([batch.sketch, batch.local, lane, inner, points], axis=1)[some]
        _, firsts, which = unique_rows(keys)
        is_one = [batch.costs[sketch].collapses(*nest) for sketch, *nest in keys[firsts].tolist()]
        points[some] = np.where(np.array(is_one)[which], points[some], 1)
    return inner, points


def _jam(batch: _NestBatch, chosen: _ChosenLanes) -> tuple[Floats, Floats, Floats]:
    """Return the `LaneLoops.jammed`, `jam_savings` and `conflict_misses` of R nests."""
    nests, costs = batch.nests, chosen.costs
    alone = (np.bincount(batch.carrier, minlength=len(batch.rows)) == 1) & ~batch.inside & ~batch.is_serial
    may_jam = alone & ~chosen.unrolled & ~chosen.collapsed & (chosen.lanes > 1)
    distance = chosen.serial * np.maximum(costs[:, FIELD["unit"]] > 0, costs[:, FIELD["stride"]])
    depths, next_lane = batch.gather(lambda c: c.depths), nests.axes[batch.carrier, :, 1]
    row, iterations = _loop_around(nests.serial, nests.threads, nests.points, depths, next_lane, chosen.lane)
    iterations = np.where(may_jam & (distance <= MAX_VECTOR_STEP), iterations, 1)
    jammed, savings = _jammed(
        batch.costs, CpuKernelCosts.jam_savings, np.stack([batch.sketch, batch.local]), (chosen.lane, row), iterations
    )
    _jam_gathers(batch, chosen, (depths, next_lane), (row, jammed, savings))
    located = np.stack([batch.sketch, batch.local, chosen.lane, row], axis=1)
    return jammed, savings, _conflict_misses(batch.costs, located, jammed)


def _jam_gathers(
    batch: _NestBatch, chosen: _ChosenLanes, around: tuple[Ints, Bools], result: tuple[Ints, Floats, Floats]
) -> None:
    """Set the `LaneLoops.jammed` and `jam_savings` of nests whose rows gather at the same positions.

    Args:
        batch: The nests.
        chosen: Their lanes.
        around: ``int64[R, D]`` and ``bool[R, D]``, the loops around lanes: `CpuKernelCosts.depths` of points, and the
            dimensions of the threads next to the lanes.
        result: ``int64[R]``, ``float64[R]`` and ``float64[R, SPARED]``: the dimension of the rows, `LaneLoops.jammed`
            and `LaneLoops.jam_savings`, which are written to.
    """
    (depths, next_lane), (row, jammed, savings) = around, result
    may_jam = ~batch.inside & ~batch.is_serial & ~chosen.unrolled & ~chosen.collapsed & (chosen.lanes > 1)
    nests, dims = batch.nests, np.arange(batch.dims)
    several = (nests.serial > 1) & (dims != chosen.lane[:, None])
    ends_the_lanes = (dims == chosen.lane[:, None]) & (several | next_lane).any(axis=1)[:, None]
    unguarded = ((nests.points == nests.serial * nests.threads) | ends_the_lanes).all(axis=1)
    may_jam &= (jammed == 1) & unguarded
    may_jam[may_jam] &= batch.gather(lambda c: c.gathers)[may_jam, 0] > 0
    if not may_jam.any():
        return
    outermost_first = np.argsort(np.where(several, depths, np.iinfo(np.int64).max), axis=1, kind="stable")
    loops = [(next_lane.argmax(axis=1), np.where(next_lane, nests.threads, 1))]
    loops += [(dim, np.where(several, nests.serial, 1)) for dim in outermost_first.T]
    for dim, extents in loops:
        iterations = extents[batch.rows, dim]
        rows = np.flatnonzero(may_jam & (iterations > 1) & (jammed == 1))
        if len(rows):
            row[rows] = dim[rows]
            jammed[rows], savings[rows] = _jammed(
                batch.costs, CpuKernelCosts.gather_savings, np.stack([batch.sketch, batch.local])[:, rows],
                (chosen.lane[rows], dim[rows]), iterations[rows],
            )  # fmt: skip


def _boundary_share(batch: _NestBatch, root_lane: Ints) -> Floats:
    """Return the share of blocks in which boundary conditions act, ``float64[R]``."""
    borders = batch.gather(lambda c: c.borders)
    count = batch.evaluation.geometry.count[batch.candidate]
    inner = np.maximum(count - borders, 0)
    # Where no block lies between the ends, only the remaining dimensions separate the code of inner blocks.
    separates = (inner > 0) | (np.arange(batch.dims) == root_lane[:, None])
    middle: Floats = np.where(separates, inner / count, 1.0).prod(axis=1)
    return 1 - middle


def _cut(batch: _NestBatch, root_lane: Ints) -> tuple[Floats, Floats]:
    """Return the share of blocks with lanes beyond the result and the part of these inside it, ``float64[R]``."""
    sizes = batch.gather(lambda c: c.sizes)
    geometry, at = batch.evaluation.geometry, (batch.rows, root_lane)
    count, tile = geometry.count[batch.candidate], geometry.tile[batch.candidate]
    is_cut = (root_lane >= 0) & (sizes[at] > 0) & (count[at] * tile[at] > sizes[at])
    in_domain = np.where(is_cut, (sizes[at] - (count[at] - 1) * tile[at]) / tile[at], 1.0)
    return is_cut / count[at], in_domain


def _pages(batch: _NestBatch) -> Floats:
    """Return the pages that a block of each nest accesses side by side, ``float64[R]``."""
    points, strides = batch.nests.points, batch.gather(lambda c: c.strides)
    far = strides >= PAGE
    span = (np.where(far, 0, strides) * (points - 1)).sum(axis=1)
    arrays = np.concatenate([c.arrays for c in batch.costs])[batch.evaluation.batch.nests.flat]
    pages: Floats = np.where(far, points, 1).prod(axis=1) * np.maximum(span / PAGE, 1) * arrays
    return pages


def _is_unrolled(costs: Floats, lanes: Ints, points: Ints) -> Bools:
    """Whether gcc unrolls a loop over few lanes far apart and forms vectors along the loop around it, ``bool[R]``."""
    operations, terms, even = (costs[:, FIELD[name]] for name in ("scalar", "terms", "even"))
    accesses = sum(costs[:, FIELD[name]] for name in ("unit", "near", "far", "fixed"))
    few = (lanes > 1) & (lanes <= MOST_UNROLLED) & (lanes * points * (operations + accesses) <= MOST_OPERATIONS)
    result: Bools = few & (even > 0) & (terms == 1) & (costs[:, _CLAMPED] == 0).all(axis=1)
    return result


def _shared_by_points(far: list[tuple[Ints, Bools]], which: Ints, serial: Ints, even: Floats) -> tuple[Floats, Bools]:
    """Return the `LaneLoops.shared_loads` and `LaneLoops.all_shared` of R nests.

    Args:
        far: `CpuKernelCosts.evenly_far` of each of K nests.
        which: ``int64[R]``, the number of each nest in ``far``.
        serial: ``int64[R, D]``, points of a thread in each dimension.
        even: ``float64[R]``, accesses of lanes far apart at a constant distance.
    """
    shared, all_shared = np.zeros(len(which)), even == 0
    for k in [k for k, (loads, _) in enumerate(far) if len(loads)]:
        loads, same = far[k]
        rows = np.flatnonzero(which == k)
        points = np.where(same, serial[rows, None, : same.shape[1]], 1).prod(axis=2)  # [rows, G]
        shared[rows] = (loads * (1 - 1 / points)).sum(axis=1)
        all_shared[rows] = (points > 1).all(axis=1) & (loads.sum() == even[rows])
    return shared, all_shared


def _loop_around(
    serial: Ints, threads: Ints, points: Ints, depths: Ints, next_lane: Bools, lane: Ints
) -> tuple[Ints, Ints]:  # fmt: skip
    """Return the dimension of the innermost loop around each nest's lanes, ``int64[R]``, and its iterations.

    The loop is over a thread's points or, with one point, over threads. A guard in between counts as one iteration.
    """
    at, several = np.arange(len(serial)), (serial > 1).any(axis=1)
    dim = np.where(several, np.where(serial > 1, depths, -1).argmax(axis=1), next_lane.argmax(axis=1))
    ends_the_lanes = (np.arange(serial.shape[1]) == lane[:, None]) & (dim != lane)[:, None]  # no guard: fewer lanes
    unguarded = ((points == serial * threads) | ends_the_lanes).all(axis=1)
    iterations = np.where(several, serial[at, dim], np.where(next_lane.any(axis=1), threads[at, dim], 1))
    return dim, np.where(unguarded, iterations, 1)


def _jammed(
    costs: list[CpuKernelCosts],
    savings_of: Callable[[CpuKernelCosts, int, int, int], Floats | None],
    nests: Ints,
    dims: tuple[Ints, Ints],
    iterations: Ints,
) -> tuple[Floats, Floats]:
    """Return the `LaneLoops.jammed` and `LaneLoops.jam_savings` of R nests.

    Args:
        costs: Costs of each sketch.
        savings_of: Returns the savings of a nest, its lanes and the loop around them, by factor.
        nests: ``int64[2, R]``, the sketch of each nest and its number there.
        dims: ``int64[R]`` each, the dimensions of the lanes and of the loop around them.
        iterations: ``int64[R]``, of that loop; 1 where unroll-and-jam does not apply in any case.
    """
    jammed, savings = np.ones(len(iterations)), np.zeros((len(iterations), len(SPARED)))
    fits = iterations[:, None] % JAM_FACTORS == 0  # [R, JAM_FACTORS]
    chosen = np.flatnonzero(fits.any(axis=1))
    _, firsts, which = unique_rows(np.stack([*nests, *dims], axis=1)[chosen])
    for k, first in enumerate(chosen[firsts].tolist()):
        (sketch, row), (lane, dim) = nests[:, first].tolist(), (int(d[first]) for d in dims)
        saved = savings_of(costs[sketch], row, lane, dim)
        if saved is None:
            continue
        rows = chosen[which == k]
        allowed = fits[rows] & ~np.isnan(saved[:, 0])
        some, most = allowed.any(axis=1), allowed.argmax(axis=1)  # the largest factor comes first
        jammed[rows[some]] = np.array(JAM_FACTORS)[most[some]]
        savings[rows[some]] = saved[most[some]]
    return jammed, savings


def _conflict_misses(costs: list[CpuKernelCosts], nests: Ints, jammed: Floats) -> Floats:
    """Return the `LaneLoops.conflict_misses` of R nests.

    Args:
        costs: Costs of each sketch.
        nests: ``int64[R, 4]``, the sketch of each nest, its number there, and the dimensions of its lanes and rows.
        jammed: ``float64[R]``, jammed rows.
    """
    result = np.zeros(len(nests))
    some = np.flatnonzero(np.array([c.may_conflict for c in costs])[nests[:, 0]])
    if len(some):
        keys = np.concatenate([nests, jammed.astype(np.int64)[:, None]], axis=1)[some]
        _, firsts, which = unique_rows(keys)
        misses = [costs[sketch].conflict_misses(*nest) for sketch, *nest in keys[firsts].tolist()]
        result[some] = np.array(misses)[which]
    return result


def _loops(inside: Bools, hosts: Ints, features: Floats) -> Ints:
    """Return the nest whose lane loop each nest runs in, ``int64[R]``."""
    runs, produced = features[:, INDEX["num_scalars"]], features[:, INDEX["num_productions"]]
    shares = inside & (runs == produced) & (runs == runs[hosts])
    loops = np.arange(len(hosts))
    while shares[loops].any():
        loops = np.where(shares[loops], hosts[loops], loops)
    return loops
