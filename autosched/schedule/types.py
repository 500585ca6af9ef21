"""Schedules as immutable, hashable values: `Schedule`, `Kernel`, `Root`, `FusedProducer`, `StageTiling`, `Loop`.

A stage lists its loops from outside in. The index in a dimension is the lowest point of its region plus, for each loop
over the dimension, the loop variable times the extents of the dimension's loops further in. So
``block 40, thread 32, serial 2`` gives each thread two neighbouring points, and ``block 40, serial 2, thread 32`` two
points at a distance of 32. ``block 40, warp 2, serial 2, thread 32`` gives each of two warps 64 neighbouring points.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import Enum, EnumMeta, IntEnum
from typing import TYPE_CHECKING, Any, NamedTuple

from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.analysis.pipeline_rewrites import (
    ComponentFission,
    ComputationFolding,
    Deinterleaving,
    FuncClone,
    HorizontalFusion,
    IntegerNarrowing,
    InvariantHoisting,
    PipelineRewrites,
    ReductionUnrolling,
    Retiming,
    RFactor,
    ScanBlocking,
    StatementRewrite,
    WindowDoubling,
)
from autosched.analysis.rewrites.cache_read import cached_source
from autosched.deprecation import renamed_attributes, renamed_fields, renamed_names, warn_renamed


class _LevelNames(EnumMeta):
    """Old names of levels."""

    def __getattr__(cls, name: str) -> Any:
        if name != "STREAM":
            raise AttributeError(f"type object {cls.__name__!r} has no attribute {name!r}")
        warn_renamed("Level.STREAM", "Level.MAINLOOP", 2)
        return cls["MAINLOOP"]


class Level(IntEnum, metaclass=_LevelNames):
    """Compute locations, from outside in; each level has its memory.

    MAINLOOP computes once per step of a block-uniform serial loop, into shared memory: chunks of a reduction (the
    mainloop of CUTLASS), or the rows that enter a sliding window. WARP computes once per tile of a warp, into the slice
    of shared memory that the warp has for itself.
    """

    ROOT = 0
    BLOCK = 1
    MAINLOOP = 2
    WARP = 3
    THREAD = 4
    INLINE = 5

    @property
    def key(self) -> str:
        """The level's name in schedule files and canonical text, where MAINLOOP is ``stream``."""
        return "stream" if self is Level.MAINLOOP else self.name.lower()


SHARED_LEVELS = (Level.BLOCK, Level.MAINLOOP, Level.WARP)
"""Levels in shared memory, which all threads of a block, or of a warp with a tile of its own, read."""
TILE_LEVELS = (Level.BLOCK, Level.WARP)
"""Levels of producers that are computed once for a tile, of a block or of a warp."""


class LoopKind(Enum):
    """Execution of a loop: on blocks, on the warps of a block, on threads, or serially in one thread."""

    BLOCK = "block"
    WARP = "warp"
    THREAD = "thread"
    SERIAL = "serial"
    REDUCTION = "reduction"


TILE_KINDS = (LoopKind.BLOCK, LoopKind.WARP)
"""Kinds of loops over tiles, of blocks or of warps."""


class StageId(NamedTuple):
    """A stage: the Func's unique name and the number of the definition (0 is pure).

    A named tuple, because searches compare and hash it often.
    """

    func: str
    number: int = 0

    def __str__(self) -> str:
        return self.func if self.number == 0 else f"{self.func}.{self.number}"


@dataclass(frozen=True, slots=True)
class Loop:
    """One loop of a stage: dimension (or reduction variable), kind and number of iterations."""

    dim: str
    kind: LoopKind
    extent: int

    def __repr__(self) -> str:
        return f"<Loop {self.kind.value} {self.dim} {self.extent}>"


@dataclass(frozen=True, slots=True)
class StageTiling:
    """The loops of one stage, outermost first; the first thread loop is threadIdx.x."""

    stage: StageId
    loops: tuple[Loop, ...]

    def __repr__(self) -> str:
        return f"<StageTiling {self._text()}>"

    def _text(self) -> str:
        loops = ", ".join(f"{p.kind.value} {p.dim} {p.extent}" for p in self.loops)
        return f"{self.stage}: {loops}" if loops else str(self.stage)

    def extent(self, dim: str, *kinds: LoopKind) -> int:
        """Return the product of the extents of a dimension's loops, of the given kinds or of all."""
        product = 1
        for loop in self.loops:
            if loop.dim == dim and (not kinds or loop.kind in kinds):
                product *= loop.extent
        return product

    def stride(self, position: int) -> int:
        """Return the distance in points between neighbouring iterations of the loop at a position."""
        product = 1
        for loop in self.loops[position + 1 :]:
            if loop.dim == self.loops[position].dim:
                product *= loop.extent
        return product

    def of_kind(self, *kinds: LoopKind) -> tuple[Loop, ...]:
        """Return the loops of the given kinds, in order."""
        return tuple(loop for loop in self.loops if loop.kind in kinds)


@dataclass(frozen=True, slots=True)
class ComputeAt:
    """A compute location: level, host stage, and the number of the host's loops around it."""

    level: Level
    host: StageId
    depth: int

    def __repr__(self) -> str:
        return f"<ComputeAt {self.level.name} in {self.host} at depth {self.depth}>"


class TileAlignment(NamedTuple):
    """Alignment of the rows of a tile: they begin and end at columns equal to ``remainder`` modulo ``multiple``.

    A column is an index of the dimension that is fastest in memory. The tile is widened on both sides to the nearest
    such columns, within the region that consumers need. So threads of several points load whole vectors from arrays
    with aligned rows.
    """

    multiple: int
    remainder: int = 0


class HybridTile(NamedTuple):
    """Storage of a tile in registers and shared memory (Jangda and Guha 2020, section 5): a hybrid tile.

    Lanes compute the tile in steps along ``dim``: one step has the points of all lanes between two iterations of the
    serial loop outside the thread loop. The last ``iterations`` steps of the tile are in registers, and the points
    before them are in shared memory. With as many iterations as the tile has steps, all of it is in registers.
    """

    dim: str
    iterations: int


@renamed_fields(stored="materialised")
@dataclass(frozen=True, slots=True)
class Root:
    """A stage that spans the kernel's grid; unless ``materialised``, its values stay in registers."""

    tiling: StageTiling
    materialised: bool = True

    def __repr__(self) -> str:
        return f"<Root {self.tiling._text()}{'' if self.materialised else '; in registers'}>"


@renamed_fields(stored="materialised")
@dataclass(frozen=True, slots=True)
class FusedProducer:
    """A Func computed inside the kernel of its consumers: per block, mainloop step, warp or thread.

    Attributes:
        tilings: Its stages, in order.
        at: Its compute location.
        storage_order: Its dimensions, slowest in memory first.
        materialised: Whether blocks also write it to global memory, for other kernels or the caller; at BLOCK or WARP
            only.
        aligned: Alignment of its tile; at BLOCK or WARP only.
        buffers: 2 for double buffering, which loads the tile of the next step during a step; at MAINLOOP only.
        asynchronous: Whether the buffers are filled by async copies.
        private: Whether each thread keeps the elements that it computes in registers, over all later stages of the
            kernel; no other thread reads them. At BLOCK, or of sliding windows: rows that threads read at their own
            points are in registers, and those that are read at moved points in shared memory.
        registers: Its hybrid tile: the steps that are in registers, which other lanes of the warp read by shuffles; at
            WARP, or at BLOCK in blocks of one warp.
    """

    tilings: tuple[StageTiling, ...]
    at: ComputeAt
    storage_order: tuple[str, ...]
    materialised: bool = False
    aligned: TileAlignment | None = None
    buffers: int = 1
    asynchronous: bool = False
    private: bool = False
    registers: HybridTile | None = None

    @property
    def func(self) -> str:
        """Name of the Func."""
        return self.tilings[0].stage.func

    def __repr__(self) -> str:
        stages = "; ".join(t._text() for t in self.tilings)
        return f"<FusedProducer {stages}; {self.at.level.name} in {self.at.host} at depth {self.at.depth}>"


@dataclass(frozen=True, slots=True)
class Inlined:
    """A Func substituted into its consumers in this kernel, at ``calls`` call sites."""

    func: str
    calls: int

    def __repr__(self) -> str:
        return f"<Inlined {self.func}, {self.calls} calls>"


@renamed_attributes(
    members="fused", stored="materialised", staged="cache_reads", stream="mainloop_at", walked="mainloops",
    slides="is_sliding_window", ahead="double_buffered", loaded_ahead="with_double_buffering",
    copied_asynchronously="with_async_copies", in_terms="is_per_reduction_step",
)  # fmt: skip
@dataclass(frozen=True, slots=True)
class Kernel:
    """The stages that one kernel computes.

    Attributes:
        roots: The stages that span the grid.
        fused: Producers computed inside the kernel.
        inlined: Funcs substituted into their consumers.
        linear_threads: Whether each stage numbers its threads by a linear index, x fastest, in a one-dimensional block:
            threads without points are the last ones, so that whole warps are idle. Otherwise a stage has the first
            threads along x, y and z of a block that covers all stages. The C backend has no threads and ignores it.
        resident_blocks: Least number of blocks for whose threads a multiprocessor has registers, which limits those of
            a thread (the second argument of ``__launch_bounds__``); 0 leaves it to the compiler. The C backend ignores
            it.
    """

    roots: tuple[Root, ...]
    fused: tuple[FusedProducer, ...] = ()
    inlined: tuple[Inlined, ...] = ()
    linear_threads: bool = False
    resident_blocks: int = 0

    def __repr__(self) -> str:
        return f"<Kernel {self._text()}>"

    def _text(self) -> str:
        stages = ", ".join(str(r.tiling.stage) for r in self.roots) or "nothing"
        levels = {m.func if m.tilings else "no stage": m.at.level.name for m in self.fused}
        levels |= {i.func: Level.INLINE.name for i in self.inlined}
        inside = ", ".join(f"{func} at {level}" for func, level in levels.items())
        return f"{stages} with {inside}" if inside else stages

    @property
    def root_funcs(self) -> tuple[str, ...]:
        """Names of the Funcs of the roots, each once."""
        return tuple({r.tiling.stage.func: None for r in self.roots})

    @property
    def materialised(self) -> frozenset[str]:
        """Names of the Funcs that the kernel writes to global memory."""
        return frozenset(
            [r.tiling.stage.func for r in self.roots if r.materialised] + [m.func for m in self.fused if m.materialised]
        )

    @property
    def cache_reads(self) -> frozenset[str]:
        """Inputs and Funcs with a cache read in the kernel (`autosched.analysis.rewrites.cache_read`)."""
        return frozenset(s for m in self.fused if m.tilings and (s := cached_source(m.func)) is not None)

    @property
    def warp_loops(self) -> tuple[Loop, ...]:
        """The loops over the warps of a block, each of which has a tile of its own; empty if blocks have the tiles."""
        return self.roots[0].tiling.of_kind(LoopKind.WARP) if self.roots else ()

    @property
    def mainloop_at(self) -> ComputeAt | None:
        """The compute location of the MAINLOOP producers, which they share; None without such producers."""
        return next((m.at for m in self.fused if m.at.level is Level.MAINLOOP), None)

    @property
    def mainloops(self) -> tuple[Loop, ...]:
        """The block-uniform loops around the MAINLOOP producers."""
        at = self.mainloop_at
        if at is None:
            return ()
        loops = self.tiling(at.host).loops
        return tuple(p for p in loops[: at.depth] if p.kind is not LoopKind.BLOCK)

    @property
    def is_sliding_window(self) -> bool:
        """Whether the MAINLOOP producers have rolling buffers: the loop is over points, not over reduction terms."""
        return any(p.kind is LoopKind.SERIAL for p in self.mainloops)

    @property
    def double_buffered(self) -> bool:
        """Whether MAINLOOP producers are double-buffered: all of a mainloop, or some sliding windows."""
        return any(m.buffers > 1 for m in self.fused)

    @property
    def has_hybrid_tiles(self) -> bool:
        """Whether some producer has a hybrid tile."""
        return any(m.registers is not None for m in self.fused)

    @property
    def prefetched(self) -> frozenset[str]:
        """Names of the double-buffered producers."""
        return frozenset(m.func for m in self.fused if m.buffers > 1)

    def with_double_buffering(self) -> Kernel:
        """Return the kernel with two buffers for each MAINLOOP producer; of sliding windows, for cache reads if any."""
        inside = [m for m in self.fused if m.at.level is Level.MAINLOOP]
        copies = [m for m in inside if cached_source(m.func) is not None] if self.is_sliding_window else []
        fused = (replace(m, buffers=2 if m in (copies or inside) else 1) for m in self.fused)
        return replace(self, fused=tuple(fused))

    def with_async_copies(self) -> Kernel:
        """Return the kernel with double buffering, filled by async copies except in registers."""
        fused = (replace(m, asynchronous=m.buffers > 1 and not m.private) for m in self.with_double_buffering().fused)
        return replace(self, fused=tuple(fused))

    def member(self, func: str) -> FusedProducer | None:
        """Return the fused producer of a Func, if there is one."""
        return next((m for m in self.fused if m.func == func), None)

    def tilings(self) -> tuple[StageTiling, ...]:
        """Return the tilings of all stages of the kernel, roots first."""
        return (*(r.tiling for r in self.roots), *(t for m in self.fused for t in m.tilings))

    def tiling(self, stage: StageId) -> StageTiling:
        """Return the loops of a stage.

        Raises:
            KeyError: If the stage is not computed by a loop nest of this kernel.
        """
        for t in self.tilings():
            if t.stage == stage:
                return t
        raise KeyError(str(stage))

    def loops_around(self, at: ComputeAt) -> tuple[Loop, ...]:
        """Return the serial and reduction loops of a host's threads around a location, without loops of extent 1."""
        first = self.mainloop_at.depth if self.mainloop_at is not None and self.mainloop_at.host == at.host else 0
        in_thread = (LoopKind.SERIAL, LoopKind.REDUCTION)
        return tuple(p for p in self.tiling(at.host).loops[first : at.depth] if p.extent > 1 and p.kind in in_thread)

    def is_per_reduction_step(self, member: FusedProducer) -> bool:
        """Whether a THREAD producer is computed inside a reduction loop of its host."""
        around = self.loops_around(member.at)
        return member.at.level is Level.THREAD and any(p.kind is LoopKind.REDUCTION for p in around)


@renamed_attributes(splits="rfactors", joins="fusions", stored="materialised", computed="levels")
@dataclass(frozen=True, slots=True)
class Schedule:
    """Kernels in launch order, for the pipeline with this hash.

    The kernels compute the rewritten pipeline (`autosched.schedule.rewrites.apply_rewrites`): ``windows`` by doubling
    are applied first, then ``scans`` by blocks, ``deinterleavings``, ``hoistings``, ``unrollings``, ``narrowings``,
    ``rfactors``, ``statements``, ``fissions`` of components, horizontal ``fusions``, and ``clones``.
    """

    pipeline_hash: str
    kernels: tuple[Kernel, ...]
    rfactors: tuple[RFactor, ...] = ()
    fusions: tuple[HorizontalFusion, ...] = ()
    windows: tuple[WindowDoubling, ...] = ()
    scans: tuple[ScanBlocking, ...] = ()
    deinterleavings: tuple[Deinterleaving, ...] = ()
    hoistings: tuple[InvariantHoisting, ...] = ()
    unrollings: tuple[ReductionUnrolling, ...] = ()
    narrowings: tuple[IntegerNarrowing, ...] = ()
    statements: tuple[StatementRewrite, ...] = ()
    fissions: tuple[ComponentFission, ...] = ()
    clones: tuple[FuncClone, ...] = ()

    def __repr__(self) -> str:
        count = "1 kernel" if len(self.kernels) == 1 else f"{len(self.kernels)} kernels"
        parts = [f"{count}: {' | '.join(k._text() for k in self.kernels)}"]
        parts += [f"window by doubling {w.func}.{w.stage}" for w in self.windows]
        parts += [f"scan by blocks {s.func}.{s.stage}" for s in self.scans]
        parts += [f"deinterleaving {d.source} in {d.func}" for d in self.deinterleavings]
        parts += [f"hoisting of {h.dim} in {h.func}" for h in self.hoistings]
        parts += [f"unrolling {u.func}.{u.stage}" for u in self.unrollings]
        parts += [f"narrowing of {' + '.join(n.funcs)}" for n in self.narrowings]
        parts += [f"rfactor {f.func}.{f.stage}" for f in self.rfactors]
        parts += map(statement_text, self.statements)
        parts += [f"component fission of {c.func} in {len(c.groups)}" for c in self.fissions]
        parts += [f"horizontal fusion {' + '.join(f.funcs)}" for f in self.fusions]
        parts += [f"clone of {c.func} in {' + '.join(c.consumers)}" for c in self.clones]
        return f"<Schedule of {'; '.join(parts)}>"

    @classmethod
    def for_pipeline(cls, bound: BoundPipeline, kernels: Iterable[Kernel]) -> Schedule:
        """Return a schedule of a bound pipeline, with the rewrites that led to it."""
        return cls(
            bound.root_pipeline.pipeline.hash,
            tuple(kernels),
            bound.rfactors,
            bound.fusions,
            bound.windows,
            bound.scans,
            bound.deinterleavings,
            bound.hoistings,
            bound.unrollings,
            bound.narrowings,
            bound.statements,
            bound.fissions,
            bound.clones,
        )

    @property
    def rewrites(self) -> PipelineRewrites:
        """The rewrites of the pipeline, in the order of their application."""
        return (
            *self.windows, *self.scans, *self.deinterleavings, *self.hoistings, *self.unrollings, *self.narrowings,
            *self.rfactors, *self.statements, *self.fissions, *self.fusions, *self.clones,
        )  # fmt: skip

    @property
    def reassociates(self) -> bool:
        """Whether rewrites change the order in which floating-point sums are rounded."""
        retimed = any(isinstance(s, Retiming) for s in self.statements)
        return bool(self.windows or self.scans or self.rfactors) or retimed

    @property
    def materialised(self) -> frozenset[str]:
        """Names of the Funcs that some kernel writes to global memory."""
        return frozenset().union(*(k.materialised for k in self.kernels))

    @property
    def levels(self) -> dict[str, Level]:
        """The level of each Func of the schedule; of a Func with several, ROOT comes first and INLINE last."""
        levels: dict[str, Level] = {}
        for k in self.kernels:
            for i in k.inlined:
                levels.setdefault(i.func, Level.INLINE)
            for m in k.fused:
                levels[m.func] = m.at.level
            for r in k.roots:
                levels[r.tiling.stage.func] = Level.ROOT if r.materialised else Level.THREAD
        return levels


def statement_text(s: StatementRewrite) -> str:
    """Return a rewritten statement in words."""
    match s:
        case ComputationFolding():
            return f"computation folding in {s.func}"
        case Retiming():
            return f"retiming of {s.func} along {s.dim}"
        case _:
            return f"expression fission of {s.func} in {s.parts}"


if not TYPE_CHECKING:  # otherwise mypy accepts any name
    __getattr__ = renamed_names(__name__, {"At": "ComputeAt", "Member": "FusedProducer", "Aligned": "TileAlignment"})
