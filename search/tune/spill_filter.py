"""Filter of schedules whose kernels spill registers, as the compiler reports (Anderson, section 8.1)."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.analysis.pipeline_rewrites import PipelineRewrites
from autosched.codegen.cuda import CudaKernel
from autosched.codegen.identical_kernels import distinct_kernels, share_cuda_kernels
from autosched.errors import CompileError
from autosched.lower.program import lower
from autosched.plural import counted
from autosched.runtime.compile.nvrtc import Cubin, check_compiler
from autosched.runtime.compile.nvrtc_pool import CompileBudgetError, compile_many
from autosched.schedule.types import Kernel, Schedule
from autosched.search.results import RankedSchedule
from autosched.target import Target

WITHIN = 1.5
"""Largest spill size, relative to the least, that is accepted if all schedules spill."""


@dataclass(frozen=True)
class Filtered:
    """A filtered ranking.

    Attributes:
        kept: Schedules that do not spill or, if all do, spill little; in the given order.
        compiled: Number of compiled schedules.
        spilling: Bytes spilled per thread, summed over kernels, by position of the spilling schedules.
        refused: Compiler errors by position of the schedules.
        note: Note for users, or empty.
        unchecked: Reason why spills are unknown, or empty.
    """

    kept: tuple[RankedSchedule, ...]
    compiled: int = 0
    spilling: dict[int, int] = field(default_factory=dict)
    refused: dict[int, str] = field(default_factory=dict)
    note: str = ""
    unchecked: str = ""


@dataclass(frozen=True)
class _PrintedKernels:
    """Kernels of a schedule as source.

    Attributes:
        keys: The kernels.
        names: The function of each.
        sources: The functions; equal kernels share one.
    """

    keys: tuple[tuple[PipelineRewrites, Kernel], ...]
    names: tuple[str, ...]
    sources: tuple[CudaKernel, ...]


@dataclass
class SpillTable:
    """Spilled bytes and registers of one pipeline's kernels; each kernel is compiled once.

    Args:
        bound: The pipeline.
        target: A GPU.
        most_source: Most characters of CUDA source to compile after the first schedule, as a limit on the time that
            gives the same schedule on every machine. The source of a kernel that spills counts twice, as it is compiled
            twice. None for no limit.
        deadline: Time by `time.perf_counter` at which compilations are stopped, or None.
    """

    bound: BoundPipeline
    target: Target
    most_source: int | None = None
    deadline: float | None = None
    _cache: dict[tuple[PipelineRewrites, Kernel], int] = field(init=False, default_factory=dict)
    _registers: dict[tuple[PipelineRewrites, Kernel], int] = field(init=False, default_factory=dict)
    _compiled: int | None = field(init=False, default=None)
    """Characters of source compiled after the first schedule; None before it."""
    _next: tuple[Schedule, _PrintedKernels] | None = field(init=False, default=None)
    """The schedule whose source was measured last, unless it has been compiled."""
    _stopped: bool = field(init=False, default=False)
    """Whether the deadline stopped a compilation."""

    def of(self, schedule: Schedule) -> tuple[int, ...]:
        """Return the bytes of registers per thread that each kernel spills to local memory.

        Raises:
            CompileError: If NVRTC is missing or refuses a kernel, or the deadline stops it.
        """
        keys = [(schedule.rewrites, k) for k in schedule.kernels]
        if any(key not in self._cache for key in keys):
            printed = self._next[1] if self._next is not None and self._next[0] == schedule else self._printed(schedule)
            self._next = None
            self._compile(printed)
        return tuple(self._cache[key] for key in keys)

    def spilled_bytes(self, schedule: Schedule) -> int | None:
        """Return the bytes that a schedule spills; None if it has not been compiled."""
        keys = [(schedule.rewrites, k) for k in schedule.kernels]
        return sum(self._cache[key] for key in keys) if self.is_compiled(schedule) else None

    def has_room(self, schedule: Schedule) -> bool:
        """Return whether the source of a schedule fits in what is left of the limit."""
        if self.is_exhausted():
            return False
        if self.most_source is None or self.is_compiled(schedule):
            return True
        self._next = schedule, self._printed(schedule)
        return sum(len(p.source) for p in self._next[1].sources) <= self.most_source - (self._compiled or 0)

    def _printed(self, schedule: Schedule) -> _PrintedKernels:
        """Return the kernels of a schedule that have not been compiled, as source."""
        fresh = [k for k, kernel in enumerate(schedule.kernels) if (schedule.rewrites, kernel) not in self._cache]
        lowered = lower(self.bound, schedule).kernels
        shared = share_cuda_kernels(lowered[k] for k in fresh)
        keys = tuple((schedule.rewrites, schedule.kernels[k]) for k in fresh)
        return _PrintedKernels(keys, tuple(kernel.name for kernel in shared), tuple(distinct_kernels(shared)))

    def _compile(self, printed: _PrintedKernels) -> None:
        left = None if self.deadline is None else max(self.deadline - time.perf_counter(), 0.0)
        sources, names = [p.source for p in printed.sources], [p.name for p in printed.sources]
        compiled = compile_many(sources, self.target.arch, names=names, total_s=left)
        cubins = dict(zip(names, compiled, strict=True))
        for key, name in zip(printed.keys, printed.names, strict=True):
            cubin = cubins[name]
            self._stopped |= isinstance(cubin, CompileBudgetError)
            if isinstance(cubin, CompileError):
                raise cubin
            self._cache[key] = cubin.spill_bytes
            self._registers[key] = max(r.registers for r in cubin.kernels.values())
        self._count(sources, compiled)

    def registers(self, schedule: Schedule) -> tuple[int | None, ...]:
        """Return the registers of a thread of each kernel; None for kernels that have not been compiled."""
        return tuple(self._registers.get((schedule.rewrites, k)) for k in schedule.kernels)

    def is_compiled(self, schedule: Schedule) -> bool:
        """Return whether all kernels of a schedule have been compiled."""
        keys = [(schedule.rewrites, k) for k in schedule.kernels]
        return bool(keys) and all(key in self._cache for key in keys)

    def is_late(self) -> bool:
        """Return whether the deadline has passed."""
        return self._stopped or (self.deadline is not None and time.perf_counter() >= self.deadline)

    def is_exhausted(self) -> bool:
        """Return whether no further schedule should be compiled."""
        over = self.most_source is not None and self._compiled is not None and self._compiled >= self.most_source
        return over or self.is_late()

    def _count(self, sources: Sequence[str], compiled: Sequence[Cubin | CompileError]) -> None:
        if self._compiled is None:
            self._compiled = 0
            return
        spilled = (isinstance(cubin, Cubin) and cubin.spill_bytes > 0 for cubin in compiled)
        self._compiled += sum(len(source) * (1 + spills) for source, spills in zip(sources, spilled, strict=True))

    def is_known_to_spill(self, schedule: Schedule) -> bool:
        """Return whether a compiled kernel of a schedule spills."""
        return any(self._cache.get((schedule.rewrites, k)) for k in schedule.kernels)


def without_spills(ranked: Sequence[RankedSchedule], table: SpillTable, count: int = 1) -> Filtered:
    """Return the best schedules that do not spill.

    Schedules are compiled in order, until enough of them do not spill or the table's limits end it.

    Args:
        ranked: Schedules of one pipeline, the best first; at least one.
        table: Spilled bytes of kernels; for a CPU nothing is filtered.
        count: Number of schedules to return.

    Returns:
        At least one schedule.
    """
    target = table.target
    if target.kind != "cuda":
        return Filtered(tuple(ranked[:count]))
    spilled: dict[int, int] = {}
    refused: dict[int, str] = {}
    unchecked: list[int] = []
    for k, r in enumerate(ranked):
        over = table.is_exhausted() and bool(spilled or refused or table.is_late())
        if over and not table.is_compiled(r.schedule):
            unchecked.append(k)
            continue
        if any(not s for s in spilled.values()) and table.is_known_to_spill(r.schedule):
            continue
        try:
            spilled[k] = sum(table.of(r.schedule))
        except CompileError as error:
            if reason := compiler_problem(target):
                note = f"registers are not checked, so the schedule may spill some: {reason}"
                return Filtered(tuple(ranked[:count]), note=note, unchecked=note)
            if table.is_late():
                unchecked.append(k)
                continue
            refused[k] = str(error)
        if sum(not s for s in spilled.values()) == count:
            break
    clean = [k for k, s in spilled.items() if not s]
    spilling = {k: s for k, s in spilled.items() if s}
    ended = "the time budget" if table.is_late() else "the limit on compiling"
    if not spilled and not refused:
        note = f"{ended} ended before registers were checked, so the schedule may spill some"
        return Filtered(tuple(ranked[:count]), note=note)
    note = ""
    if not clean and not spilled and unchecked:
        note = (
            f"the compiler refused {counted(len(refused), 'schedule')}; {ended} left the others unchecked: this one "
            "may spill some"
        )
        return Filtered(tuple(ranked[k] for k in unchecked[:count]), len(refused), refused=refused, note=note)
    if not clean and spilled:
        least = min(spilled.values())
        clean = [k for k, s in spilled.items() if s <= WITHIN * least][:count]
        note = f"all {len(spilled)} schedules spill registers, this one {spilled[clean[0]]} bytes a thread"
        if unchecked:
            note = f"{note}; {ended} left {len(unchecked)} others unchecked"
    if not clean:
        raise CompileError(f"the compiler refused all {len(refused)} schedules", log=next(iter(refused.values())))
    return Filtered(tuple(ranked[k] for k in clean), len(spilled) + len(refused), spilling, refused, note)


def compiler_problem(target: Target) -> str:
    """Return the reason why kernels for a GPU cannot be compiled here, with a way out; empty if they can."""
    try:
        check_compiler(target.arch)
    except CompileError as error:
        return str(error).splitlines()[0]  # without the log
    return ""
