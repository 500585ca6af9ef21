"""Schedules whose kernels spill registers are left out once the compiler has said so (Anderson, section 8.1)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from autosched.analysis.bound import BoundPipeline
from autosched.codegen.cuda import print_cuda
from autosched.errors import CompileError
from autosched.lower.program import lower
from autosched.runtime.nvrtc_pool import compile_many
from autosched.schedule.types import Schedule
from autosched.search.ranked import Ranked
from autosched.target import Target

WITHIN = 1.5
"""Where all schedules spill, those that spill at most so much times the least are kept."""


@dataclass(frozen=True)
class Filtered:
    """What the compiler left of a ranking.

    Attributes:
        kept: Schedules that do not spill, or little where all do; in the order they were given.
        compiled: How many were compiled.
        spilling: Bytes spilled by a thread, all kernels together, of the schedules that spill.
        refused: What the compiler said of those that it refused.
        note: What a user should know, or empty.
    """

    kept: tuple[Ranked, ...]
    compiled: int = 0
    spilling: dict[int, int] = field(default_factory=dict)
    refused: dict[int, str] = field(default_factory=dict)
    note: str = ""


def without_spills(bound: BoundPipeline, ranked: Sequence[Ranked], target: Target, count: int = 1) -> Filtered:
    """Return the best schedules that do not spill.

    They are compiled in order, until as many as wanted do not spill: where the best ones are good, little is compiled.

    Args:
        bound: The pipeline.
        ranked: Its schedules, the best first; at least one.
        target: The device; for a processor nothing is left out.
        count: How many are wanted.

    Returns:
        At least one schedule.
    """
    if target.kind != "cuda":
        return Filtered(tuple(ranked[:count]))
    spilled: dict[int, int] = {}
    refused: dict[int, str] = {}
    for k, r in enumerate(ranked):
        try:
            spilled[k] = spilled_bytes(bound, r.schedule, target)
        except CompileError as error:
            if _has_no_compiler(target):
                note = f"registers are not known, so schedules that spill are not left out: {error}"
                return Filtered(tuple(ranked[:count]), note=note.splitlines()[0])
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


def spilled_bytes(bound: BoundPipeline, schedule: Schedule, target: Target) -> int:
    """Return the bytes of registers that a thread stores to and loads from local memory, all kernels together.

    Raises:
        CompileError: If NVRTC is missing or refuses a kernel.
    """
    kernels = [print_cuda(kernel) for kernel in lower(bound, schedule).kernels]
    total = 0
    for cubin in compile_many([k.source for k in kernels], target.arch, names=[k.name for k in kernels]):
        if isinstance(cubin, CompileError):
            raise cubin
        total += sum(r.spill_store_bytes + r.spill_load_bytes for r in cubin.kernels.values())
    return total


def _has_no_compiler(target: Target) -> bool:
    from autosched.measure.emit import check_compiler

    try:
        check_compiler(target.arch)
    except CompileError:
        return True
    return False
