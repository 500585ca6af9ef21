"""Kernel sketches: kernels without tile sizes, the common part of candidates that are costed in one batch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from autosched.analysis.bound_pipeline import BoundFunc, BoundPipeline, BoundStage, LoopDim
from autosched.analysis.rewrites.cache_read import cached_source, insert_cache_reads
from autosched.analysis.rewrites.lane_loops import LaneLoop, add_lane_loops
from autosched.schedule.types import Level, StageId, TileAlignment

MIN_VECTOR_EXTENT = 16
"""Least points of the dimension that is mapped to threadIdx.x; the fastest in memory with as many is chosen
(Anderson, section 6.2)."""


SHARED_THREADS = 256
"""Threads of a block that divide the reductions of an atomic update."""

Tile = tuple[tuple[int, int], ...]
"""Threads and points of each dimension."""


class ComputeLocation(NamedTuple):
    """Compute location of a Func inside a kernel; a named tuple, since searches hash it often.

    Attributes:
        func: The Func.
        level: BLOCK or THREAD.
        host: The stage that computes it.
        enclosing: At THREAD, the number of the host's pure loops inside the thread that enclose it. If there are any,
            the host's reduction loops enclose it too.
        aligned: At BLOCK, alignment of the columns at which rows of its tile begin.
        storage: Its dimensions from slowest to fastest in memory; empty for `storage_order`.
        stored: At BLOCK, whether it is materialised: each block also writes its owned part to global memory.
        each_term: At THREAD without enclosing pure loops, whether the host's reduction loops enclose it: it is computed
            per reduction step, for all points of the thread.
        private: At BLOCK, whether each thread keeps the elements that it computes in registers; of a sliding window,
            the rows that are read at the thread's own point.
    """

    func: str
    level: Level
    host: StageId
    enclosing: int = 0
    aligned: TileAlignment | None = None
    storage: tuple[str, ...] = ()
    stored: bool = False
    each_term: bool = False
    private: bool = False

    @property
    def in_terms(self) -> bool:
        """Whether the reduction loops of its host enclose it, if there are any."""
        return self.each_term or self.enclosing > 0


class NestOrder(NamedTuple):
    """Loop order and tile of a nest where they differ from the defaults of a search.

    Loops that are not listed follow the listed ones in the default order.

    Attributes:
        stage: The nest's stage.
        threads: Thread loops, threadIdx.x first; empty for `thread_order`.
        inner: Loops inside a thread, outermost first; empty for `inner_order`.
        tile: Threads and points of each dimension (see `member_dims`) of an update of a block-level producer; empty for
            those of the producer's first stage or, of an atomic update, those of `shared_tile`.
        interleaved: Dimensions whose neighbouring points belong to neighbouring threads: the points of one thread are
            as far apart as there are threads. Elsewhere each thread has a contiguous part.
    """

    stage: StageId
    threads: tuple[str, ...] = ()
    inner: tuple[str, ...] = ()
    tile: Tile = ()
    interleaved: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class KernelSketch:
    """One kernel without tile sizes; a key with a cached hash.

    Attributes:
        stages: The root stages, which share a grid.
        locations: Compute locations of fused producers, in the order of the pipeline.
        inlined: Funcs inlined into it.
        near: Funcs that are not placed yet, of which this kernel is the only reader.
        far: Funcs that are not placed yet and have other readers too.
        orders: Nests with a loop order or a tile other than the default.
        lanes: Warp reductions of updates; each adds a loop over lanes.
        linear_threads: Whether stages number their threads by a linear index (`autosched.schedule.types.Kernel`).
        resident_blocks: Least blocks of a multiprocessor, which limit registers; features do not depend on it.
        warps: Where each warp of a block has a tile of its own: warps along dimensions of the grid, in the order of the
            warp loops. Tile sizes, and all but occupancy, are then those of blocks of one warp with linear threads
            (`autosched.schedule.kernel.warp_tiles`).
        cache_reads: Inputs and Funcs with cache reads.
    """

    stages: tuple[StageId, ...]
    locations: tuple[ComputeLocation, ...] = ()
    inlined: frozenset[str] = frozenset()
    near: frozenset[str] = frozenset()
    far: frozenset[str] = frozenset()
    orders: tuple[NestOrder, ...] = ()
    lanes: tuple[LaneLoop, ...] = ()
    linear_threads: bool = False
    resident_blocks: int = 0
    warps: tuple[tuple[str, int], ...] = ()
    cache_reads: frozenset[str] = field(init=False, repr=False)
    _where: Mapping[str, ComputeLocation] = field(init=False, repr=False)
    _key: tuple[object, ...] = field(init=False, repr=False)
    _hash: int = field(init=False, repr=False)

    def __post_init__(self) -> None:
        key = (
            self.stages, self.locations, self.inlined, self.near, self.far, self.orders, self.lanes,
            self.linear_threads, self.resident_blocks, self.warps,
        )  # fmt: skip
        cache_reads = frozenset(source for s in self.locations if (source := cached_source(s.func)) is not None)
        object.__setattr__(self, "cache_reads", cache_reads)
        object.__setattr__(self, "_where", {s.func: s for s in self.locations})
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

    def location(self, func: str) -> ComputeLocation | None:
        """Return the compute location of a fused producer, None for other Funcs."""
        return self._where.get(func)

    def order(self, stage: StageId) -> NestOrder:
        """Return the loop order and tile of a nest."""
        return next((o for o in self.orders if o.stage == stage), NestOrder(stage))


def innermost_dim(func: BoundFunc) -> str | None:
    """Return the dimension of neighbouring threads: the fastest in memory that is long enough."""
    candidates = [d for d, n in zip(func.dims, func.extents, strict=True) if n >= MIN_VECTOR_EXTENT]
    return candidates[-1] if candidates else (func.dims[-1] if func.dims else None)


def storage_order(func: BoundFunc) -> tuple[str, ...]:
    """Return a producer's dimensions from slowest to fastest in memory; the innermost dimension is fastest."""
    innermost = innermost_dim(func)
    return (*(d for d in func.dims if d != innermost), *((innermost,) if innermost is not None else ()))


def location_storage(func: BoundFunc, location: ComputeLocation | None) -> tuple[str, ...]:
    """Return a Func's dimensions from slowest to fastest in memory, at its compute location if it is fused."""
    return location.storage if location is not None and location.storage else storage_order(func)


def tiled_dims(bound: BoundPipeline, stages: Sequence[StageId]) -> tuple[str, ...]:
    """Return the loops of a group of stages that blocks and threads divide, outermost first.

    Loops over lanes, which only some stages have, come last.
    """
    first = bound.stage(stages[0].func, stages[0].number)
    parallel = tuple(
        d.name for d in first.loops if d.parallel and not d.lanes and not (len(stages) > 1 and d.reduction)
    )
    return (*parallel, *lane_sizes(bound, stages))


def lane_sizes(bound: BoundPipeline, stages: Iterable[StageId]) -> dict[str, int]:
    """Return the lane loops of stages, with their lanes."""
    return {d.name: d.extent for s in stages for d in bound.stage(*s).loops if d.lanes}


def member_dims(bound: BoundPipeline, stage: StageId, level: Level = Level.BLOCK) -> tuple[str, ...]:
    """Return the loops of a producer's stage that threads divide.

    They are its dimensions, and at BLOCK the reductions of atomic updates, parallel reductions, and lane loops.
    """
    dims = bound.funcs[stage.func].dims
    if level is not Level.BLOCK:
        return dims
    return (*dims, *(d.name for d in _divided_reductions(bound.stage(*stage))), *lane_sizes(bound, (stage,)))


def _divided_reductions(stage: BoundStage) -> list[LoopDim]:
    """Return the reductions of a block-level producer's stage that threads divide."""
    return [d for d in stage.reductions if stage.combine or (d.parallel and not d.lanes)]


def shared_tile(bound: BoundPipeline, stage: StageId) -> Tile:
    """Return threads and points of each of `member_dims`, for updates of a block-level producer with shared terms.

    Threads divide the reductions of an atomic update and parallel reductions, innermost first, so that neighbours read
    neighbouring elements. An update with a warp reduction has its lanes, and 0 for the threads and points of the
    producer, as has one with parallel reductions for its other loops. Other updates have no tile.
    """
    update = bound.stage(*stage)
    lanes = lane_sizes(bound, (stage,))
    if lanes:
        return (*((0, 0) for _ in bound.funcs[stage.func].dims), *((n, 1) for n in lanes.values()))
    divided = _divided_reductions(update)
    if not divided:
        return ()
    left = SHARED_THREADS
    tile: list[tuple[int, int]] = []
    for d in reversed(divided):
        points = -(-d.extent // min(left, 1 << (d.extent.bit_length() - 1)))
        tile.insert(0, (-(-d.extent // points), points))
        left = max(left // tile[0][0], 1)
    own = () if update.combine else {d.name for d in update.loops}
    return (*((0, 0) if d in own else (1, 1) for d in bound.funcs[stage.func].dims), *tile)


def inner_reductions(stage: BoundStage, dims: Sequence[str]) -> tuple[str, ...]:
    """Return the loops of a stage inside a thread that are not over its dimensions."""
    return tuple(d.name for d in stage.loops if d.name not in dims)


def inner_order(stage: BoundStage, dims: Sequence[str], listed: Sequence[str] = ()) -> tuple[str, ...]:
    """Return the loops of a stage inside a thread, outermost first: reductions, then the dimensions of its tile.

    Args:
        stage: The stage.
        dims: Its dimensions outside reductions.
        listed: Loops that come first (see `NestOrder`).
    """
    looped = {d.name for d in stage.loops}
    return _after(listed, (*inner_reductions(stage, dims), *(d for d in dims if d in looped)))


def thread_order(
    bound: BoundPipeline, func: str, dims: Sequence[str], listed: Sequence[str] = ()
) -> tuple[str, ...]:  # fmt: skip
    """Return dimensions in the order of threadIdx.x, y, z: the innermost dimension, then all others from the inside.

    Args:
        bound: The pipeline.
        func: The Func.
        dims: Its dimensions.
        listed: Dimensions that come first (see `NestOrder`).
    """
    others = [d for d in dims if d not in bound.funcs[func].dims]
    lanes = lane_sizes(bound, (StageId(func, s.number) for s in bound.funcs[func].stages)) if others else {}
    shared = [d for d in others if d in lanes]
    if shared:  # lanes of a warp reduction are adjacent
        return (*shared, *thread_order(bound, func, [d for d in dims if d not in lanes], listed))
    innermost = innermost_dim(bound.funcs[func])
    first = innermost if innermost in dims else (dims[-1] if dims else None)
    default = (*((first,) if first is not None else ()), *(d for d in reversed(dims) if d != first))
    return _after(listed, default)


def _after(listed: Sequence[str], default: tuple[str, ...]) -> tuple[str, ...]:
    """Return names in their default order, listed ones first."""
    if not listed:
        return default
    return (*(d for d in listed if d in default), *(d for d in default if d not in listed))


@dataclass(frozen=True, slots=True)
class TileColumns:
    """Columns of a candidate's parameters with the tile sizes of each nest.

    The root stages have threads and serial points of each dimension. A block-level producer has threads only; its
    serial points follow from its required region.

    Attributes:
        root_threads: Threads of the root's dimensions.
        root_serial: Points per thread of the root's dimensions.
        members: Threads of each block-level producer's dimensions.
        count: Number of columns.
    """

    root_threads: slice
    root_serial: slice
    members: tuple[tuple[str, slice], ...]
    count: int

    def threads_of(self, func: str) -> slice:
        """Return the thread columns of a block-level producer."""
        return dict(self.members)[func]


def rewritten_for(bound: BoundPipeline, sketch: KernelSketch) -> BoundPipeline:
    """Return the pipeline rewritten with a sketch's cache reads and lane loops."""
    return insert_cache_reads(add_lane_loops(bound, sketch.lanes), sketch.cache_reads)


def columns(bound: BoundPipeline, sketch: KernelSketch) -> TileColumns:
    """Return the layout of the parameters of a sketch's candidates."""
    bound = rewritten_for(bound, sketch)
    d = len(tiled_dims(bound, sketch.stages))
    position = 2 * d
    members = []
    for location in sketch.locations:
        if location.level is Level.BLOCK:
            n = len(bound.funcs[location.func].dims)
            members.append((location.func, slice(position, position + n)))
            position += n
    return TileColumns(slice(0, d), slice(d, 2 * d), tuple(members), position)
