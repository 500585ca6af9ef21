"""How the nests of a batch of candidates run on a CPU: lanes, what each evaluation does, blocks at borders."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from autosched.featurize.featurizer import SketchFeaturizer
from autosched.featurize.schema import INDEX
from autosched.featurize.tables.descriptor_tables import THREAD
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
"""Bytes within which the processor fetches ahead."""
MOST_UNROLLED = 4
"""Lanes of a loop that gcc unrolls."""
LEAST_AROUND = 16
"""Iterations of the loop around it that make vectors."""
MOST_OPERATIONS = 400
"""What they may do and access, all together."""
_CLAMPED = [FIELD[name] for name in ("low", "high", "periodic")]


@dataclass(frozen=True)
class LaneLoops:
    """The ``R`` nests of ``M`` candidates.

    Attributes:
        candidate: ``int64[R]``, whose nest each is.
        first: ``bool[R]``, whether it is the candidate's first.
        inside: ``bool[R]``, whether it runs inside a thread.
        lanes: ``float64[R]``, runs of its lane loop; where there are no threads, of its innermost loop.
        apart: ``float64[R]``, points of each lane in a row.
        work: ``float64[R, fields]``, see `of`.
        spared: ``float64[R]``, loads of lanes evenly far apart of which an evaluation is spared as points of a thread
            share them.
        all_shared: ``bool[R]``, whether there is none of these that they do not share.
        together: ``float64[R]``, rows of lanes that are taken together; 1 where none are.
        less: ``float64[R, SPARED]``, what an evaluation is spared by that, see `saved_loads`.
        lost: ``float64[R]``, accesses of an evaluation that miss lines which the first-level cache has lost, see
            `nearest_cache`.
        borders: ``float64[R]``, share of blocks in which boundary conditions act.
        cut: ``float64[R]``, share of blocks some of whose lanes lie beyond the result.
        left: ``float64[R]``, how many of a row's lanes do not, in these.
        streams: ``float64[R]``, pages that a block walks side by side.
        carrier: ``int64[R]``, the nest with threads of its own in which each is.
        loop: ``int64[R]``, the nest whose lane loop each runs in: what is computed inside a thread for every single
            evaluation of its consumer shares that one's.
        outside: ``float64[R]``, bytes of the arrays in global memory that it reads.
        share: ``float64[R]``, share of these that falls to it where several nests read the same.
        read: ``float64[R, 1 + D]``, different bytes that blocks next to each other read, see `distinct_reads_by_level`.
        read_rows: ``float64[R, 1 + D]``, contiguous rows of these.
        groups: ``float64[R, 1 + D]``, such groups of blocks.
        features: ``float64[R, features]``.
    """

    candidate: Ints
    first: Bools
    inside: Bools
    lanes: Floats
    apart: Floats
    work: Floats
    spared: Floats
    all_shared: Bools
    together: Floats
    less: Floats
    lost: Floats
    borders: Floats
    cut: Floats
    left: Floats
    streams: Floats
    carrier: Ints
    loop: Ints
    outside: Floats
    share: Floats
    read: Floats
    read_rows: Floats
    groups: Floats
    features: Floats

    def of(self, name: str) -> Floats:
        """Return a field of each nest's `LaneCosts`, ``float64[R]``."""
        found: Floats = self.work[:, FIELD[name]]
        return found

    def shared(self, found: Bools) -> Bools:
        """Return what holds for any of the nests in the same lane loop, ``bool[R]``."""
        any_of: Bools = np.bincount(self.loop, found, len(found))[self.loop] > 0
        return any_of


def lane_rows(found: BatchEvaluation, work_of: Callable[[SketchFeaturizer], CpuKernelCosts]) -> LaneLoops:
    """Return the nests of a batch.

    Args:
        found: The batch.
        work_of: Returns what is known of a structure.
    """
    batch, nests = found.batch, found.geometry.nests
    works = [work_of(m) for m in found.models]
    candidate, start = batch.nests.candidate, batch.nests.start
    rows, local = np.arange(len(candidate)), np.arange(len(candidate)) - start[candidate]
    features = found.features[candidate, local]
    inside = nests.kinds["level"] == THREAD
    carrier = rows
    while inside[carrier].any():
        carrier = np.where(inside[carrier], batch.hosts[carrier], carrier)
    moving = nests.axes[carrier, :, 0]
    lane = np.where(moving.any(axis=1), moving.argmax(axis=1), nests.kinds["innermost"][carrier])
    serial = nests.serial[carrier, lane]
    bare = ~nests.axes[carrier].any(axis=(1, 2))
    structure = batch.structure[candidate]
    dims = nests.points.shape[1]

    def along(lane: Ints) -> tuple[Floats, Floats, Bools]:
        """Return the work, and what points share, of nests whose lanes go along these dimensions."""
        keys, _, which = unique_inverse((structure * len(rows) + local) * dims + lane)
        nest = [(works[k // dims // len(rows)], k // dims % len(rows), k % dims) for k in keys.tolist()]
        work = np.stack([w.work(row, at) for w, row, at in nest])[which]
        far = [w.evenly_far(row, at) for w, row, at in nest]
        return work, *_shared_by_points(far, which, nests.serial, work[:, FIELD["even"]])

    lanes = np.where(bare, serial, np.maximum(nests.active[carrier, 0], 1))
    work, spared, all_shared = along(lane)
    next_lane = nests.axes[carrier, :, 1]
    alone = next_lane.any(axis=1) & (np.bincount(carrier, minlength=len(rows)) == 1) & ~inside
    alone &= nests.active[carrier, 1] >= LEAST_AROUND
    unrolled = alone & _is_unrolled(work, lanes, nests.serial.clip(1).prod(axis=1))
    if unrolled.any():
        outer = np.where(unrolled, next_lane.argmax(axis=1), lane)
        others = along(outer)
        unrolled &= (others[0][:, _CLAMPED] == 0).all(axis=1)
        lane = np.where(unrolled, outer, lane)
        lanes = np.where(unrolled, np.maximum(nests.active[carrier, 1], 1), lanes)
        serial = np.where(unrolled, 1, serial)
        work, spared, all_shared = along(lane)
    straight = (np.bincount(carrier, minlength=len(rows)) == 1) & ~inside & ~bare & ~unrolled & (lanes > 1)
    apart = serial * np.maximum(work[:, FIELD["unit"]] > 0, work[:, FIELD["stride"]])
    depths = np.concatenate([_padded(w.depths, dims) for w in works])[batch.nests.flat]
    row, iterations = _loop_around(nests.serial, nests.threads, nests.points, depths, next_lane, lane)
    iterations = np.where(straight & (apart <= MAX_VECTOR_STEP), iterations, 1)
    together, less = _taken_together(works, np.stack([structure, local]), (lane, row), iterations)
    lost = _lost(works, np.stack([structure, local, lane, row], axis=1), together)
    borders = np.concatenate([_padded(w.borders, dims) for w in works])[batch.nests.flat]
    count = found.geometry.count[candidate]
    inner = np.maximum(count - borders, 0)
    walked_by = np.concatenate([_padded(w.walked_by, dims) for w in works])[batch.nests.flat]
    root_lane = walked_by[carrier, lane] - 1  # the root's dimension that the lanes go along; -1 for none
    # Where no block lies between the ends, code for the others is told apart by the remaining dimensions alone.
    told = (inner > 0) | (np.arange(dims) == root_lane[:, None])
    middle = np.where(told, inner / count, 1.0).prod(axis=1)
    sizes = np.concatenate([_padded(w.sizes, dims) for w in works])[batch.nests.flat]
    tile = found.geometry.tile[candidate]
    at = rows, root_lane
    is_cut = (root_lane >= 0) & (sizes[at] > 0) & (count[at] * tile[at] > sizes[at])
    cut = is_cut / count[at]
    filled = np.where(is_cut, (sizes[at] - (count[at] - 1) * tile[at]) / tile[at], 1.0)
    strides = np.concatenate([_padded(w.strides, dims) for w in works])[batch.nests.flat]
    far = strides >= PAGE
    span = (np.where(far, 0, strides) * (nests.points - 1)).sum(axis=1)
    pages = np.where(far, nests.points, 1).prod(axis=1) * np.maximum(span / PAGE, 1)
    first = np.zeros(len(rows), bool)
    first[start] = True
    return LaneLoops(
        candidate, first, inside, lanes.astype(np.float64), np.where(bare, 1, serial).astype(np.float64), work,
        spared, all_shared, together, less, lost, 1 - middle, cut,
        np.maximum(np.ceil(lanes * filled), 1),
        pages * np.concatenate([w.arrays for w in works])[batch.nests.flat],
        carrier, _loops(inside, batch.hosts, features),
        np.concatenate([w.outside for w in works])[batch.nests.flat],
        np.concatenate([w.share for w in works])[batch.nests.flat],
        *distinct_reads_by_level(found, walked_by),
        features,
    )  # fmt: skip


def _is_unrolled(work: Floats, lanes: Ints, points: Ints) -> Bools:
    """Whether gcc unrolls the loop over few lanes far apart, ``bool[R]``, and forms vectors along the one around it."""
    operations, terms, even = (work[:, FIELD[name]] for name in ("scalar", "terms", "even"))
    accesses = sum(work[:, FIELD[name]] for name in ("unit", "near", "far", "fixed"))
    few = (lanes > 1) & (lanes <= MOST_UNROLLED) & (lanes * points * (operations + accesses) <= MOST_OPERATIONS)
    found: Bools = few & (even > 0) & (terms == 1) & (work[:, _CLAMPED] == 0).all(axis=1)
    return found


def _shared_by_points(far: list[tuple[Ints, Bools]], which: Ints, serial: Ints, even: Floats) -> tuple[Floats, Bools]:
    """Return the `LaneLoops.spared` and `LaneLoops.all_shared` of R nests.

    Args:
        far: What `CpuKernelCosts.evenly_far` says of each of K nests.
        which: ``int64[R]``, which of them each is.
        serial: ``int64[R, D]``, points of a thread in each dimension.
        even: ``float64[R]``, accesses of lanes evenly far apart.
    """
    spared, all_shared = np.zeros(len(which)), even == 0
    for k in [k for k, (loads, _) in enumerate(far) if len(loads)]:
        loads, same = far[k]
        rows = np.flatnonzero(which == k)
        points = np.where(same, serial[rows, None, : same.shape[1]], 1).prod(axis=2)  # [rows, G]
        spared[rows] = (loads * (1 - 1 / points)).sum(axis=1)
        all_shared[rows] = (points > 1).all(axis=1) & (loads.sum() == even[rows])
    return spared, all_shared


def _loop_around(
    serial: Ints, threads: Ints, points: Ints, depths: Ints, next_lane: Bools, lane: Ints
) -> tuple[Ints, Ints]:  # fmt: skip
    """Return the dimension that the innermost loop around each nest's lanes walks, ``int64[R]``, and its iterations.

    It is over a thread's points or, where it has one, threads side by side. Where guards stand in between there is one
    iteration.
    """
    at, several = np.arange(len(serial)), (serial > 1).any(axis=1)
    dim = np.where(several, np.where(serial > 1, depths, -1).argmax(axis=1), next_lane.argmax(axis=1))
    ends_the_lanes = (np.arange(serial.shape[1]) == lane[:, None]) & (dim != lane)[:, None]  # no guard: fewer lanes
    unguarded = ((points == serial * threads) | ends_the_lanes).all(axis=1)
    iterations = np.where(several, serial[at, dim], np.where(next_lane.any(axis=1), threads[at, dim], 1))
    return dim, np.where(unguarded, iterations, 1)


def _taken_together(
    works: list[CpuKernelCosts], nests: Ints, dims: tuple[Ints, Ints], iterations: Ints
) -> tuple[Floats, Floats]:  # fmt: skip
    """Return the `LaneLoops.together` and `LaneLoops.less` of R nests.

    Args:
        works: What is known of each structure.
        nests: ``int64[2, R]``, the structure that each nest is of and its number there.
        dims: ``int64[R]`` each, the dimensions that its lanes and the loop around them walk.
        iterations: ``int64[R]``, of that loop; 1 where rows are not taken together in any case.
    """
    together, less = np.ones(len(iterations)), np.zeros((len(iterations), len(SPARED)))
    fits = iterations[:, None] % JAM_FACTORS == 0  # [R, JAM_FACTORS]
    chosen = np.flatnonzero(fits.any(axis=1))
    _, firsts, which = unique_rows(np.stack([*nests, *dims], axis=1)[chosen])
    for k, first in enumerate(chosen[firsts].tolist()):
        (structure, row), (lane, dim) = nests[:, first].tolist(), (int(d[first]) for d in dims)
        spared = works[structure].spared_by_rows(row, lane, dim)
        if spared is None:
            continue
        own = chosen[which == k]
        taken = fits[own] & ~np.isnan(spared[:, 0])
        some, most = taken.any(axis=1), taken.argmax(axis=1)  # the most rows come first
        together[own[some]] = np.array(JAM_FACTORS)[most[some]]
        less[own[some]] = spared[most[some]]
    return together, less


def _lost(works: list[CpuKernelCosts], nests: Ints, together: Floats) -> Floats:
    """Return the `LaneLoops.lost` of R nests.

    Args:
        works: What is known of each structure.
        nests: ``int64[R, 4]``, the structure that each nest is of, its number there, and the dimensions that its lanes
            and rows walk.
        together: ``float64[R]``, rows that are taken together.
    """
    found = np.zeros(len(nests))
    some = np.flatnonzero(np.array([w.may_meet for w in works])[nests[:, 0]])
    if len(some):
        keys = np.concatenate([nests, together.astype(np.int64)[:, None]], axis=1)[some]
        _, firsts, which = unique_rows(keys)
        lost = [works[structure].accesses_lost(*nest) for structure, *nest in keys[firsts].tolist()]
        found[some] = np.array(lost)[which]
    return found


def _loops(inside: Bools, hosts: Ints, features: Floats) -> Ints:
    """Return the nest whose lane loop each nest runs in, ``int64[R]``."""
    runs, produced = features[:, INDEX["num_scalars"]], features[:, INDEX["num_productions"]]
    shares = inside & (runs == produced) & (runs == runs[hosts])
    found = np.arange(len(hosts))
    while shares[found].any():
        found = np.where(shares[found], hosts[found], found)
    return found


def _padded(values: Ints, width: int) -> Ints:
    found = np.zeros((len(values), width), np.int64)
    found[:, : values.shape[1]] = values
    return found
