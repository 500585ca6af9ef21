"""The structure of a kernel without its tile sizes: what candidates that are costed together have in common."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from autosched.analysis.bound_pipeline import BoundFunc, BoundPipeline, BoundStage
from autosched.analysis.rewrites.cache_read import cached_source, insert_cache_reads
from autosched.analysis.rewrites.lane_loops import LaneLoop, add_lane_loops
from autosched.schedule.types import Level, StageId, TileAlignment

MIN_VECTOR_EXTENT = 16
"""The first dimension with this many points, counted from the fastest in memory, is walked by threadIdx.x
(Anderson, section 6.2)."""


SHARED_THREADS = 256
"""Threads of a block that share the reductions of an atomic update."""

Tile = tuple[tuple[int, int], ...]
"""Threads and points of each dimension."""


class ComputeLocation(NamedTuple):
    """Where a Func is computed inside a kernel; a named tuple, as searches hash it all the time.

    Attributes:
        func: The Func.
        level: BLOCK or THREAD.
        host: The stage it is computed in.
        enclosing: At THREAD, how many of the host's pure loops inside the thread enclose it; with one or more, its
            reduction loops do too.
        each_term: At THREAD with no such loop around, whether its reduction loops are: it is computed once for each
            term, for all points of the thread.
        aligned: At BLOCK, at which columns the rows of its tile begin.
        storage: Its dimensions from slowest to fastest in memory; empty where that is `storage_order`.
        stored: At BLOCK, whether each block writes what it owns to global memory, too.
    """

    func: str
    level: Level
    host: StageId
    enclosing: int = 0
    aligned: TileAlignment | None = None
    storage: tuple[str, ...] = ()
    stored: bool = False
    each_term: bool = False

    @property
    def in_terms(self) -> bool:
        """Whether the reduction loops of its host enclose it, if there are any."""
        return self.each_term or self.enclosing > 0


class NestOrder(NamedTuple):
    """The loops of a nest that are in another order, or divided otherwise, than a search would have it.

    Loops that are not listed follow those that are, in the usual order.

    Attributes:
        stage: The nest's stage.
        threads: Thread loops, threadIdx.x first; empty where `thread_order` is theirs.
        inner: Loops inside a thread, outermost first; empty where `inner_order` is theirs.
        tile: Threads and points of each dimension (see `member_dims`) of an update of a BLOCK Member; empty where they
            are those of the Member's first stage or, of an atomic update, those of `shared_tile`.
    """

    stage: StageId
    threads: tuple[str, ...] = ()
    inner: tuple[str, ...] = ()
    tile: Tile = ()


@dataclass(frozen=True, slots=True, eq=False)
class KernelSketch:
    """One kernel without tile sizes; equal ones are the same key, and the hash is worked out once.

    Attributes:
        stages: The root stages, which share a grid.
        spots: Members, producers first.
        inlined: Funcs inlined into it.
        near: Funcs it reads that are not placed yet and that nothing outside reads.
        far: Funcs it reads that are not placed yet and are read elsewhere too.
        orders: Nests whose loops are in another order, or divided otherwise, than usual.
        lanes: Updates of which neighbouring threads share the terms; each has one loop more, over these threads.
        staged: Inputs and Funcs of which it computes copies.
    """

    stages: tuple[StageId, ...]
    spots: tuple[ComputeLocation, ...] = ()
    inlined: frozenset[str] = frozenset()
    near: frozenset[str] = frozenset()
    far: frozenset[str] = frozenset()
    orders: tuple[NestOrder, ...] = ()
    lanes: tuple[LaneLoop, ...] = ()
    staged: frozenset[str] = field(init=False, repr=False)
    _where: Mapping[str, ComputeLocation] = field(init=False, repr=False)
    _key: tuple[object, ...] = field(init=False, repr=False)
    _hash: int = field(init=False, repr=False)

    def __post_init__(self) -> None:
        key = (self.stages, self.spots, self.inlined, self.near, self.far, self.orders, self.lanes)
        copied = frozenset(source for s in self.spots if (source := cached_source(s.func)) is not None)
        object.__setattr__(self, "staged", copied)
        object.__setattr__(self, "_where", {s.func: s for s in self.spots})
        object.__setattr__(self, "_key", key)
        object.__setattr__(self, "_hash", hash(key))

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return self is other or (
            isinstance(other, KernelSketch) and self._hash == other._hash and self._key == other._key
        )

    @property
    def func(self) -> str:
        """The Func computed at root."""
        return self.stages[0].func

    def spot(self, func: str) -> ComputeLocation | None:
        """Return the place of a Func in the kernel, if it is a Member."""
        return self._where.get(func)

    def order(self, stage: StageId) -> NestOrder:
        """Return which of a nest's loops are in an order of their own."""
        return next((o for o in self.orders if o.stage == stage), NestOrder(stage))


def innermost_dim(func: BoundFunc) -> str | None:
    """Return the dimension that neighbouring threads walk: the fastest in memory that is long enough."""
    long = [d for d, n in zip(func.dims, func.extents, strict=True) if n >= MIN_VECTOR_EXTENT]
    return long[-1] if long else (func.dims[-1] if func.dims else None)


def storage_order(func: BoundFunc) -> tuple[str, ...]:
    """Return a Member's dimensions from slowest to fastest in memory; the vector dimension is fastest."""
    vector = innermost_dim(func)
    return (*(d for d in func.dims if d != vector), *((vector,) if vector is not None else ()))


def spot_storage(func: BoundFunc, spot: ComputeLocation | None) -> tuple[str, ...]:
    """Return a Func's dimensions from slowest to fastest in memory where it is computed."""
    return spot.storage if spot is not None and spot.storage else storage_order(func)


def tiled_dims(bound: BoundPipeline, stages: Sequence[StageId]) -> tuple[str, ...]:
    """Return the loops of a group of stages that blocks and threads divide, outermost first.

    Those over lanes are of some stages only, and come last.
    """
    first = bound.stage(stages[0].func, stages[0].number)
    own = tuple(d.name for d in first.loops if d.parallel and not d.lanes and not (len(stages) > 1 and d.reduction))
    return (*own, *lane_sizes(bound, stages))


def lane_sizes(bound: BoundPipeline, stages: Iterable[StageId]) -> dict[str, int]:
    """Return the loops of stages over lanes that share terms, with the number of these."""
    return {d.name: d.extent for s in stages for d in bound.stage(*s).loops if d.lanes}


def member_dims(bound: BoundPipeline, stage: StageId) -> tuple[str, ...]:
    """Return the loops of a Member's stage that threads divide.

    They are its dimensions, reductions that are atomic, and lanes that share terms.
    """
    loops = bound.stage(*stage).loops if bound.stage(*stage).combine else ()
    shared = (d.name for d in loops if d.reduction)
    return (*bound.funcs[stage.func].dims, *shared, *lane_sizes(bound, (stage,)))


def shared_tile(bound: BoundPipeline, stage: StageId) -> Tile:
    """Return threads and points of each of `member_dims` of an update of a BLOCK Member that threads share.

    Threads share the reductions of an atomic update, innermost first, so that neighbours read what lies side by side.
    Those of another one all have their lanes, and 0 stands for as many as the Member has. Of others none.
    """
    update = bound.stage(*stage)
    lanes = lane_sizes(bound, (stage,))
    if lanes:
        return (*((0, 0) for _ in bound.funcs[stage.func].dims), *((n, 1) for n in lanes.values()))
    if not update.combine:
        return ()
    left = SHARED_THREADS
    found: list[tuple[int, int]] = []
    for d in reversed(update.reductions):
        points = -(-d.extent // min(left, 1 << (d.extent.bit_length() - 1)))
        found.insert(0, (-(-d.extent // points), points))
        left = max(left // found[0][0], 1)
    return (*((1, 1) for _ in bound.funcs[stage.func].dims), *found)


def inner_reductions(stage: BoundStage, dims: Sequence[str]) -> tuple[str, ...]:
    """Return the loops of a stage that run inside a thread beside its tile."""
    return tuple(d.name for d in stage.loops if d.name not in dims)


def inner_order(stage: BoundStage, dims: Sequence[str], listed: Sequence[str] = ()) -> tuple[str, ...]:
    """Return the loops of a stage inside a thread, outermost first: reductions, then the dimensions of its tile.

    Args:
        stage: The stage.
        dims: Its dimensions outside reductions.
        listed: Loops that come first (see `NestOrder`).
    """
    own = {d.name for d in stage.loops}
    return _after(listed, (*inner_reductions(stage, dims), *(d for d in dims if d in own)))


def thread_order(
    bound: BoundPipeline, func: str, dims: Sequence[str], listed: Sequence[str] = ()
) -> tuple[str, ...]:  # fmt: skip
    """Return dimensions in the order of threadIdx.x, y, z: the vector dimension, then the others from the inside.

    Args:
        bound: The pipeline.
        func: The Func.
        dims: Its dimensions.
        listed: Dimensions that come first (see `NestOrder`).
    """
    others = [d for d in dims if d not in bound.funcs[func].dims]
    lanes = lane_sizes(bound, (StageId(func, s.number) for s in bound.funcs[func].stages)) if others else {}
    shared = [d for d in others if d in lanes]
    if shared:  # lanes of a warp lie side by side
        return (*shared, *thread_order(bound, func, [d for d in dims if d not in lanes], listed))
    vector = innermost_dim(bound.funcs[func])
    first = vector if vector in dims else (dims[-1] if dims else None)
    usual = (*((first,) if first is not None else ()), *(d for d in reversed(dims) if d != first))
    return _after(listed, usual)


def _after(listed: Sequence[str], usual: tuple[str, ...]) -> tuple[str, ...]:
    """Return names in their usual order, those that are listed before all others."""
    if not listed:
        return usual
    return (*(d for d in listed if d in usual), *(d for d in usual if d not in listed))


@dataclass(frozen=True, slots=True)
class TileColumns:
    """Which columns of a candidate's parameters hold the tile sizes of each nest.

    The root group has threads and serial points of each dimension, a BLOCK Member only threads: its serial points are
    what is left of the region it must cover.
    """

    root_threads: slice
    root_serial: slice
    members: tuple[tuple[str, slice], ...]
    count: int

    def threads_of(self, func: str) -> slice:
        """Return the thread columns of a BLOCK Member."""
        return dict(self.members)[func]


def rewritten_for(bound: BoundPipeline, structure: KernelSketch) -> BoundPipeline:
    """Return the pipeline that has the copies and the loops over lanes that a kernel has."""
    return insert_cache_reads(add_lane_loops(bound, structure.lanes), structure.staged)


def columns(bound: BoundPipeline, structure: KernelSketch) -> TileColumns:
    """Return the layout of the parameters of a structure's candidates."""
    bound = rewritten_for(bound, structure)
    d = len(tiled_dims(bound, structure.stages))
    position = 2 * d
    members = []
    for spot in structure.spots:
        if spot.level is Level.BLOCK:
            n = len(bound.funcs[spot.func].dims)
            members.append((spot.func, slice(position, position + n)))
            position += n
    return TileColumns(slice(0, d), slice(d, 2 * d), tuple(members), position)
