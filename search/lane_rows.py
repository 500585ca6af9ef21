"""How the nests of a batch of candidates run on a CPU: lanes, what each evaluation does, blocks at borders."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import astuple, dataclass, fields
from functools import cached_property
from math import prod

import numpy as np
from numpy.typing import NDArray

from autosched.analysis.bound import BoundStage
from autosched.featurize.alike import alike
from autosched.featurize.kinds import THREAD
from autosched.featurize.model import BatchEvaluation, KernelModel
from autosched.featurize.schema import INDEX
from autosched.search.block_reads import read_by_blocks
from autosched.search.lane_work import LaneWork, LaneWorks
from autosched.search.stage_work import StageWork

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

PITCH_BYTES = 128
"""Rows of intermediate arrays begin at multiples of this."""
PAGE = 4096
"""Bytes within which the processor fetches ahead."""
_FIELD = {f.name: k for k, f in enumerate(fields(LaneWork))}


class KernelWork:
    """What is known of the nests of a structure on a CPU without tile sizes.

    Args:
        model: The structure.
        known: See `LaneWorks`.
    """

    def __init__(self, model: KernelModel, known: dict[tuple[int, frozenset[str]], tuple[BoundStage, StageWork]]):
        self._works = LaneWorks(model, known)
        self._facts = model.facts
        self._carriers = [self._carrier(k) for k in range(len(model.rows))]
        self._vectors: dict[tuple[int, int], Floats] = {}
        self._evenly_far: dict[tuple[int, int], tuple[Ints, Bools]] = {}

    def work(self, row: int, lane: int) -> Floats:
        """Return the fields of the `LaneWork` of a nest whose carrier's lanes walk the dimension of that number."""
        key = row, lane
        if key not in self._vectors:
            dims = self._facts.dims[self._carriers[row]]
            found = self._works.of(self._facts.rows[row], dims[lane] if dims else None)
            self._vectors[key] = np.array(astuple(found), np.float64)
        return self._vectors[key]

    def evenly_far(self, row: int, lane: int) -> tuple[Ints, Bools]:
        """Return loads of lanes evenly far apart, ``int64[G]`` of G arrays.

        Beside it, ``bool[G, D]``: along which dimensions of the nest they are the same.
        """
        key = row, lane
        if key not in self._evenly_far:
            dims, own = self._facts.dims[self._carriers[row]], self._facts.dims[row]
            found = []
            if dims and self.work(row, lane)[_FIELD["even"]]:
                found = self._works.evenly_far(self._facts.rows[row], dims[lane], own)
            same = np.array([s for _, s in found], bool).reshape(len(found), len(own))
            self._evenly_far[key] = np.array([n for n, _ in found], np.int64), same
        return self._evenly_far[key]

    @cached_property
    def borders(self) -> Ints:
        """``int64[rows, D]``: ends of each dimension of the root at which boundary conditions set blocks apart."""
        facts = self._facts
        found = np.zeros((len(facts.rows), max(len(facts.dims[0]), 1)), np.int64)
        for k, stage in enumerate(facts.rows):
            carrier, ends = self._carriers[k], set()
            for dim, root in zip(facts.dims[carrier], self.walked_by[carrier].tolist(), strict=False):
                for b in self._works.boundaries_along(stage, dim) if root else ():
                    ends |= {(root - 1, end) for end, points in enumerate((b.below, b.above)) if points}
            for at, _ in ends:
                found[k, at] += 1
        return found

    @cached_property
    def sizes(self) -> Ints:
        """``int64[rows, D]``: points of the root in each of its dimensions, the same for all nests; 0 in reductions."""
        facts, dims = self._facts, self._facts.dims[0]
        func = facts.bound.funcs[facts.rows[0].func]
        extents = dict(zip(func.dims, func.extents, strict=True))
        found = np.zeros((len(facts.rows), max(len(dims), 1)), np.int64)
        found[:, : len(dims)] = [extents.get(d, 0) for d in dims]
        return found

    @cached_property
    def strides(self) -> Ints:
        """``int64[rows, D]``: bytes between neighbours of each nest's dimensions in an array of the stage's result."""
        facts = self._facts
        found = np.zeros((len(facts.rows), max((len(d) for d in facts.dims), default=1) or 1), np.int64)
        for k, stage in enumerate(facts.rows):
            func = facts.bound.funcs[stage.func]
            step, steps = min(d.bytes_ for d in func.dtypes), {}
            for at in reversed(range(func.ndim)):
                steps[func.dims[at]] = step
                step *= func.extents[at]
                if at == func.ndim - 1:
                    step = -(-step // PITCH_BYTES) * PITCH_BYTES
            found[k, : len(facts.dims[k])] = [steps.get(d, step) for d in facts.dims[k]]
        return found

    @cached_property
    def walked_by(self) -> Ints:
        """``int64[rows, D]``: the dimension of the root, from 1, that moves each nest's from block to block; 0: none.

        Of several it is the outermost.
        """
        facts = self._facts
        found = np.zeros((len(facts.rows), max((len(d) for d in facts.dims), default=1) or 1), np.int64)
        for k, dims in enumerate(facts.dims):
            found[k, : len(dims)] = [min(self._root_dims[facts.rows[k].func].get(d, {0})) for d in dims]
        return found

    @cached_property
    def _root_dims(self) -> dict[str, dict[str, set[int]]]:
        """For each Func with loops in the kernel, the root's dimensions, from 1, that move each of its dimensions."""
        facts = self._facts
        found = {s.func: {d: {k} for k, d in enumerate(facts.dims[0], 1)} for s in facts.structure.stages}
        for spot in reversed(facts.structure.spots):  # consumers first
            found[spot.func] = self._moved_through(spot.func, found)
        return found

    def _moved_through(self, func: str, consumers: dict[str, dict[str, set[int]]]) -> dict[str, set[int]]:
        """Return the root's dimensions that move those of a Func through the indices of what reads it."""
        facts = self._facts
        found: dict[str, set[int]] = {}
        for stage in (s for s in facts.rows if s.func in consumers):
            for group in (g for g in facts.accesses[stage].loads if g.source == func):
                for dim, index in zip(facts.bound.funcs[func].dims, group.rows, strict=True):
                    loops = () if index is None else [loop for loop, _ in index.coefficients]
                    found.setdefault(dim, set()).update(*(consumers[stage.func].get(loop, set()) for loop in loops))
        return {dim: by for dim, by in found.items() if by}

    @cached_property
    def arrays(self) -> Ints:
        """``int64[rows]``: arrays in global memory that each nest reads and writes."""
        facts = self._facts
        return np.array([
            (facts.structure.spot(s.func) is None)
            + len({g.source for g in facts.accesses[s].loads if facts.structure.spot(g.source) is None})
            for s in facts.rows
        ])  # fmt: skip

    @cached_property
    def outside(self) -> Floats:
        """``float64[rows]``: bytes of the arrays in global memory that each nest reads."""
        return np.array([float(sum(arrays.values())) for arrays in self._read])

    @cached_property
    def share(self) -> Floats:
        """``float64[rows]``: share of these bytes that falls to each nest, where several read the same array."""
        readers = Counter(array for arrays in self._read for array in arrays)
        own = [sum(size / readers[array] for array, size in arrays.items()) for arrays in self._read]
        return np.array(own) / np.maximum(self.outside, 1)

    @cached_property
    def _read(self) -> list[dict[tuple[str, int], int]]:
        """For each nest the bytes of the arrays in global memory that it reads, by name and component."""
        facts = self._facts
        return [
            {
                (g.source, g.component): self._points(g.source) * facts.itemsize(g)
                for g in facts.accesses[stage].loads
                if g.source != stage.func and facts.structure.spot(g.source) is None
            }
            for stage in facts.rows
        ]

    def _points(self, source: str) -> int:
        bound = self._facts.bound
        return prod(bound.inputs[source].shape if source in bound.inputs else bound.funcs[source].extents)

    def _carrier(self, row: int) -> int:
        """Return the nest with threads of its own in which a nest is."""
        rows = self._facts.rows
        while rows[row] not in self._facts.carriers:
            spot = self._facts.structure.spot(rows[row].func)
            assert spot is not None, "a stage without threads of its own has a host"
            row = rows.index(spot.host)
        return row


@dataclass(frozen=True)
class LaneRows:
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
        borders: ``float64[R]``, share of blocks in which boundary conditions act.
        cut: ``float64[R]``, share of blocks some of whose lanes lie beyond the result.
        left: ``float64[R]``, how many of a row's lanes do not, in these.
        streams: ``float64[R]``, pages that a block walks side by side.
        carrier: ``int64[R]``, the nest with threads of its own in which each is.
        loop: ``int64[R]``, the nest whose lane loop each runs in: what is computed inside a thread for every single
            evaluation of its consumer shares that one's.
        outside: ``float64[R]``, bytes of the arrays in global memory that it reads.
        share: ``float64[R]``, share of these that falls to it where several nests read the same.
        read: ``float64[R, 1 + D]``, different bytes that blocks next to each other read, see `read_by_blocks`.
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
        """Return a field of each nest's `LaneWork`, ``float64[R]``."""
        found: Floats = self.work[:, _FIELD[name]]
        return found

    def shared(self, found: Bools) -> Bools:
        """Return what holds for any of the nests in the same lane loop, ``bool[R]``."""
        any_of: Bools = np.bincount(self.loop, found, len(found))[self.loop] > 0
        return any_of


def lane_rows(found: BatchEvaluation, work_of: Callable[[KernelModel], KernelWork]) -> LaneRows:
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
    keys, _, which = alike((structure * len(rows) + local) * dims + lane)
    nest = [(works[k // dims // len(rows)], k // dims % len(rows), k % dims) for k in keys.tolist()]
    work = np.stack([w.work(row, at) for w, row, at in nest])[which]
    spared, all_shared = _shared_by_points(
        [w.evenly_far(row, at) for w, row, at in nest], which, nests.serial, work[:, _FIELD["even"]]
    )
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
    along = rows, root_lane
    is_cut = (root_lane >= 0) & (sizes[along] > 0) & (count[along] * tile[along] > sizes[along])
    cut = is_cut / count[along]
    filled = np.where(is_cut, (sizes[along] - (count[along] - 1) * tile[along]) / tile[along], 1.0)
    strides = np.concatenate([_padded(w.strides, dims) for w in works])[batch.nests.flat]
    far = strides >= PAGE
    span = (np.where(far, 0, strides) * (nests.points - 1)).sum(axis=1)
    pages = np.where(far, nests.points, 1).prod(axis=1) * np.maximum(span / PAGE, 1)
    first = np.zeros(len(rows), bool)
    first[start] = True
    lanes = np.where(bare, serial, np.maximum(nests.active[carrier, 0], 1)).astype(np.float64)
    return LaneRows(
        candidate, first, inside, lanes, np.where(bare, 1, serial).astype(np.float64), work,
        spared, all_shared, 1 - middle, cut,
        np.maximum(np.ceil(lanes * filled), 1),
        pages * np.concatenate([w.arrays for w in works])[batch.nests.flat],
        carrier, _loops(inside, batch.hosts, features),
        np.concatenate([w.outside for w in works])[batch.nests.flat],
        np.concatenate([w.share for w in works])[batch.nests.flat],
        *read_by_blocks(found, walked_by),
        features,
    )  # fmt: skip


def _shared_by_points(far: list[tuple[Ints, Bools]], which: Ints, serial: Ints, even: Floats) -> tuple[Floats, Bools]:
    """Return the `LaneRows.spared` and `LaneRows.all_shared` of R nests.

    Args:
        far: What `KernelWork.evenly_far` says of each of K nests.
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
