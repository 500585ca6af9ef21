"""Filter of schedules whose kernels spill registers, as the compiler reports (Anderson, section 8.1)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from autosched.analysis.bound_pipeline import BoundPipeline, PipelineRewrites
from autosched.codegen.cuda import print_cuda
from autosched.errors import CompileError
from autosched.lower.program import lower
from autosched.runtime.compile.nvrtc import check_compiler
from autosched.runtime.compile.nvrtc_pool import compile_many
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


@dataclass
class SpillTable:
    """Spilled bytes of one pipeline's kernels; each kernel is compiled once.

    Args:
        bound: The pipeline.
        target: A GPU.
    """

    bound: BoundPipeline
    target: Target
    _cache: dict[tuple[PipelineRewrites, Kernel], int] = field(init=False, default_factory=dict)

    def of(self, schedule: Schedule) -> tuple[int, ...]:
        """Return the bytes of registers per thread that each kernel spills to local memory.

        Raises:
            CompileError: If NVRTC is missing or refuses a kernel.
        """
        keys = [(schedule.rewrites, k) for k in schedule.kernels]
        fresh = [k for k, key in enumerate(keys) if key not in self._cache]
        if fresh:
            lowered = lower(self.bound, schedule).kernels
            printed = [print_cuda(lowered[k]) for k in fresh]
            compiled = compile_many([p.source for p in printed], self.target.arch, names=[p.name for p in printed])
            for k, cubin in zip(fresh, compiled, strict=True):
                if isinstance(cubin, CompileError):
                    raise cubin
                self._cache[keys[k]] = cubin.spill_bytes
        return tuple(self._cache[key] for key in keys)

    def is_known_to_spill(self, schedule: Schedule) -> bool:
        """Return whether a compiled kernel of a schedule spills."""
        return any(self._cache.get((schedule.rewrites, k)) for k in schedule.kernels)


def without_spills(ranked: Sequence[RankedSchedule], table: SpillTable, count: int = 1) -> Filtered:
    """Return the best schedules that do not spill.

    Schedules are compiled in order, until enough of them do not spill.

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
    for k, r in enumerate(ranked):
        if any(not s for s in spilled.values()) and table.is_known_to_spill(r.schedule):
            continue
        try:
            spilled[k] = sum(table.of(r.schedule))
        except CompileError as error:
            if reason := compiler_problem(target):
                unchecked = f"registers are not checked, so the schedule may spill some: {reason}"
                return Filtered(tuple(ranked[:count]), note=unchecked, unchecked=unchecked)
            refused[k] = str(error)
        if sum(not s for s in spilled.values()) == count:
            break
    clean = [k for k, s in spilled.items() if not s]
    spilling = {k: s for k, s in spilled.items() if s}
    note = ""
    if not clean and spilled:
        least = min(spilled.values())
        clean = [k for k, s in spilled.items() if s <= WITHIN * least][:count]
        note = f"all {len(spilled)} schedules spill registers, this one {spilled[clean[0]]} bytes a thread"
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
