"""The state of the search: a tuple of kernels, immutable and hashable (design: Schedule, Kernel, Member, StageTiling).

A stage's loops are listed from outside in. The value of a dimension is its region's lowest point plus the sum over its
loops of loop variable times the product of the extents of the loops of that dimension further in; so
``block 40, thread 32, serial 2`` gives each thread two neighbouring points, ``block 40, serial 2, thread 32`` two
points that lie a tile apart.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import Enum, EnumMeta, IntEnum
from typing import TYPE_CHECKING, Any, NamedTuple

from autosched.analysis.bound_pipeline import BoundPipeline, HorizontalFusion, RFactor
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

    MAINLOOP is once per step of a block-uniform serial loop, in shared memory: chunks of a reduction (CUTLASS's
    mainloop), or the rows that enter a sliding window.
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


SHARED_LEVELS = (Level.BLOCK, Level.MAINLOOP)
"""Levels whose results all threads of a block see."""


class LoopKind(Enum):
    """Who runs a loop."""

    BLOCK = "block"
    THREAD = "thread"
    SERIAL = "serial"
    REDUCTION = "reduction"


class StageId(NamedTuple):
    """A stage: the Func's unique name and the number of the definition (0 is pure).

    A named tuple, as searches compare and hash it all the time.
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
        """Return the product of the extents of a dimension's loops of the given kinds (of all kinds if none)."""
        product = 1
        for loop in self.loops:
            if loop.dim == dim and (not kinds or loop.kind in kinds):
                product *= loop.extent
        return product

    def stride(self, position: int) -> int:
        """Return how many points of its dimension one iteration of the loop at a position stands for."""
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
    """Where a Member is computed: level, host stage, and how many of the host's loops enclose it."""

    level: Level
    host: StageId
    depth: int

    def __repr__(self) -> str:
        return f"<ComputeAt {self.level.name} in {self.host} at depth {self.depth}>"


class TileAlignment(NamedTuple):
    """Columns at which the rows of a Member's tile begin and end: those that are ``remainder`` modulo ``multiple``.

    A column is an index of the dimension that is fastest in memory. The tile is widened to the nearest such columns on
    both sides, but not beyond where the Func is needed at all. So threads of several points load whole vectors from
    arrays whose rows are aligned, and none of their tiles is cut off.
    """

    multiple: int
    remainder: int = 0


@renamed_fields(stored="materialised")
@dataclass(frozen=True, slots=True)
class Root:
    """A stage that spans the kernel's grid; what is not ``stored`` stays in the registers of its thread."""

    tiling: StageTiling
    materialised: bool = True

    def __repr__(self) -> str:
        return f"<Root {self.tiling._text()}{'' if self.materialised else '; in registers'}>"


@renamed_fields(stored="materialised")
@dataclass(frozen=True, slots=True)
class FusedProducer:
    """A Func computed inside a kernel, once per block, in each step of a reduction, or inside one thread.

    ``storage_order`` lists its dimensions from slowest to fastest in memory; ``aligned`` is for BLOCK Members, as is
    ``stored``: blocks write what they compute to global memory too, for other kernels or the caller. With two
    ``buffers``, MAINLOOP Members of the next step are loaded while one is computed; ``asynchronous`` ones are copied
    past the registers meanwhile.
    """

    tilings: tuple[StageTiling, ...]
    at: ComputeAt
    storage_order: tuple[str, ...]
    materialised: bool = False
    aligned: TileAlignment | None = None
    buffers: int = 1
    asynchronous: bool = False

    @property
    def func(self) -> str:
        """Name of the Func."""
        return self.tilings[0].stage.func

    def __repr__(self) -> str:
        stages = "; ".join(t._text() for t in self.tilings)
        return f"<FusedProducer {stages}; {self.at.level.name} in {self.at.host} at depth {self.at.depth}>"


@dataclass(frozen=True, slots=True)
class Inlined:
    """A Func substituted into its consumers in this kernel; ``calls`` counts the places."""

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
    """Everything one kernel computes."""

    roots: tuple[Root, ...]
    fused: tuple[FusedProducer, ...] = ()
    inlined: tuple[Inlined, ...] = ()

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
        """Names of the Funcs whose stages span the grid, without repetition."""
        return tuple({r.tiling.stage.func: None for r in self.roots})

    @property
    def materialised(self) -> frozenset[str]:
        """Names of the Funcs whose results it leaves in global memory."""
        return frozenset(
            [r.tiling.stage.func for r in self.roots if r.materialised] + [m.func for m in self.fused if m.materialised]
        )

    @property
    def cache_reads(self) -> frozenset[str]:
        """Inputs and Funcs that the kernel caches (`autosched.analysis.rewrites.cache_read`)."""
        return frozenset(s for m in self.fused if m.tilings and (s := cached_source(m.func)) is not None)

    @property
    def mainloop_at(self) -> ComputeAt | None:
        """Where the kernel's MAINLOOP Members are computed (all at one place), None if it has none."""
        return next((m.at for m in self.fused if m.at.level is Level.MAINLOOP), None)

    @property
    def mainloops(self) -> tuple[Loop, ...]:
        """The loops of the host of MAINLOOP Members that all threads of a block walk together."""
        at = self.mainloop_at
        if at is None:
            return ()
        loops = self.tiling(at.host).loops
        return tuple(p for p in loops[: at.depth] if p.kind is not LoopKind.BLOCK)

    @property
    def is_sliding_window(self) -> bool:
        """Whether the MAINLOOP producers keep a rolling buffer: the loop moves points, not reduction terms."""
        return any(p.kind is LoopKind.SERIAL for p in self.mainloops)

    @property
    def double_buffered(self) -> bool:
        """Whether MAINLOOP Members are loaded one step ahead, into the other of two buffers."""
        return any(m.buffers > 1 for m in self.fused)

    def with_double_buffering(self) -> Kernel:
        """Return the kernel with two buffers for each MAINLOOP Member."""
        both = (replace(m, buffers=2) if m.at.level is Level.MAINLOOP else m for m in self.fused)
        return replace(self, fused=tuple(both))

    def with_async_copies(self) -> Kernel:
        """Return the kernel with two buffers for each MAINLOOP Member, which are filled past the registers."""
        both = (replace(m, asynchronous=m.at.level is Level.MAINLOOP) for m in self.with_double_buffering().fused)
        return replace(self, fused=tuple(both))

    def member(self, func: str) -> FusedProducer | None:
        """Return the Member that computes a Func, if there is one."""
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
        """Return the loops of a host inside one thread that enclose a place, but for those of one iteration."""
        walked = self.mainloop_at.depth if self.mainloop_at is not None and self.mainloop_at.host == at.host else 0
        inside = (LoopKind.SERIAL, LoopKind.REDUCTION)
        return tuple(p for p in self.tiling(at.host).loops[walked : at.depth] if p.extent > 1 and p.kind in inside)

    def is_per_reduction_step(self, member: FusedProducer) -> bool:
        """Whether a thread computes a Member anew for each term of a reduction of its host."""
        around = self.loops_around(member.at)
        return member.at.level is Level.THREAD and any(p.kind is LoopKind.REDUCTION for p in around)


@renamed_attributes(splits="rfactors", joins="fusions", stored="materialised", computed="levels")
@dataclass(frozen=True, slots=True)
class Schedule:
    """Kernels in launch order, for the pipeline with this hash.

    ``splits`` are the reductions that are computed in pieces, ``joins`` the Funcs that are then computed together;
    kernels compute the pipeline that `autosched.schedule.rewrites.apply_rewrites` makes of it.
    """

    pipeline_hash: str
    kernels: tuple[Kernel, ...]
    rfactors: tuple[RFactor, ...] = ()
    fusions: tuple[HorizontalFusion, ...] = ()

    def __repr__(self) -> str:
        count = "1 kernel" if len(self.kernels) == 1 else f"{len(self.kernels)} kernels"
        parts = [f"{count}: {' | '.join(k._text() for k in self.kernels)}"]
        parts += [f"rfactor {f.func}.{f.stage}" for f in self.rfactors]
        parts += [f"horizontal fusion {' + '.join(f.funcs)}" for f in self.fusions]
        return f"<Schedule of {'; '.join(parts)}>"

    @classmethod
    def for_pipeline(cls, bound: BoundPipeline, kernels: Iterable[Kernel]) -> Schedule:
        """Return a schedule of a bound pipeline, with the reductions in pieces and Funcs joined as they are in it."""
        return cls(bound.root_pipeline.pipeline.hash, tuple(kernels), bound.rfactors, bound.fusions)

    @property
    def rewrites(self) -> tuple[RFactor | HorizontalFusion, ...]:
        """What tells pipelines apart that schedules of one pipeline compute."""
        return (*self.rfactors, *self.fusions)

    @property
    def materialised(self) -> frozenset[str]:
        """Names of the Funcs whose results some kernel leaves in global memory."""
        return frozenset().union(*(k.materialised for k in self.kernels))

    @property
    def levels(self) -> dict[str, Level]:
        """The level of every Func that is mentioned (ROOT wins over INLINE where a Func is both)."""
        levels: dict[str, Level] = {}
        for k in self.kernels:
            for i in k.inlined:
                levels.setdefault(i.func, Level.INLINE)
            for m in k.fused:
                levels[m.func] = m.at.level
            for r in k.roots:
                levels[r.tiling.stage.func] = Level.ROOT if r.materialised else Level.THREAD
        return levels


if not TYPE_CHECKING:  # or mypy takes any name to be there
    __getattr__ = renamed_names(__name__, {"At": "ComputeAt", "Member": "FusedProducer", "Aligned": "TileAlignment"})
