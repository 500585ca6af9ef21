"""Schedules as text: the indented loop nest that people read, and the compact canonical form that breaks ties."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Sequence

from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.schedule.io.definition_text import definition_text
from autosched.schedule.io.loop_tree import LoopTreeNode, box_text, loop_tree
from autosched.schedule.kernel.memory_layout import SharedLayout, shared_layout
from autosched.schedule.plan import KernelPlan
from autosched.schedule.planner import plan_kernel
from autosched.schedule.rewrites import apply_rewrites
from autosched.schedule.types import FusedProducer, Inlined, Kernel, Root, Schedule, StageTiling, TileAlignment

WIDTH = 110
"""Longer lines are wrapped."""

_Line = tuple[int, str]
"""Indentation level and text."""

_GLUE = "\N{NO-BREAK SPACE}"


def schedule_text(bound: BoundPipeline, schedule: Schedule) -> str:
    """Return the loop nest of a legal schedule, one section a kernel in launch order.

    Loops stand inside one another as they run. ``step`` is how many points lie between neighbouring iterations, where
    that is not one; a loop of one iteration is left out. A Func computed inside a kernel stands where it is computed,
    with the extents of its region in storage order; ``f.1`` is the first update of ``f``.

    Raises:
        ScheduleError: If a Member's region does not follow from its host.
    """
    bound = apply_rewrites(bound, schedule)
    count = len(schedule.kernels)
    sections = [f"{bound.pipeline.name}: {_count(count, 'kernel')}"]
    sections += [kernel_text(bound, kernel, f"kernel {k}") for k, kernel in enumerate(schedule.kernels)]
    return "\n\n".join(sections) + "\n"


def kernel_text(bound: BoundPipeline, kernel: Kernel, title: str = "kernel") -> str:
    """Return the loop nest of one legal kernel; see `schedule_text`."""
    plan = plan_kernel(bound, kernel)
    layout = shared_layout(plan)
    lines = [*_header(plan, layout, title), *_nested(loop_tree(plan, layout), 1)]
    return "\n".join(_wrapped(indent, text) for indent, text in lines)


def _header(plan: KernelPlan, layout: SharedLayout, title: str) -> Iterator[_Line]:
    firsts = {r.tiling.stage.func: r.tiling.stage for r in reversed(plan.kernel.roots)}
    funcs = [(firsts[name], plan.bound.funcs[name]) for name in plan.kernel.root_funcs]
    sources = ", ".join(_sources(plan))
    boxes = ", ".join(box_text(str(stage), f.dims, f.extents) for stage, f in funcs)
    yield 0, f"{title}: {boxes}" + (f" from {sources}" if sources else "")
    blocks = [p.extent for p in plan.grid]
    threads = [n for n in plan.block if n > 1]
    shared = f", {layout.total_bytes} bytes of shared memory a block" if layout.total_bytes else ""
    yield 1, f"{_count_of(blocks, 'block')} of {_count_of(threads, 'thread')}{shared}"
    for i in sorted(plan.kernel.inlined, key=lambda i: list(plan.bound.funcs).index(i.func)):
        yield 1, f"inlined, {_count(i.calls, 'call')}: {definition_text(plan.bound, plan.bound.stage(i.func, 0))}"


def _sources(plan: KernelPlan) -> list[str]:
    """Return what the kernel reads from global memory: inputs and Funcs that other kernels compute."""
    inside = plan.inlined | plan.root_funcs | plan.allocations.keys()
    stages = [plan.bound.stage(t.stage.func, t.stage.number) for t in plan.kernel.tilings()]
    stages += [plan.bound.stage(name, 0) for name in plan.inlined]
    read = {source for s in stages for source in s.sources} - inside
    return [name for name in (*plan.bound.inputs, *plan.bound.funcs) if name in read]


def _nested(nodes: Sequence[LoopTreeNode], indent: int) -> Iterator[_Line]:
    for node in nodes:
        yield indent, node.text
        yield from _nested(node.children, indent + 1)


def _count(n: int, what: str) -> str:
    return f"{n} {what}" if n == 1 else f"{n} {what}s"


def _count_of(extents: Sequence[int], what: str) -> str:
    total = 1
    for e in extents:
        total *= e
    return (f"{' x '.join(map(str, extents))} = " if len(extents) > 1 else "") + _count(total, what)


def _wrapped(indent: int, text: str) -> str:
    lead = "  " * indent
    # An index is not broken: its spaces are held together by a character that names cannot contain.
    glued = re.sub(r"\[[^\[\]]*\]", lambda found: found[0].replace(" ", _GLUE), text)
    wrapped = textwrap.fill(
        glued, max(WIDTH, len(lead) + 40), initial_indent=lead, subsequent_indent=lead + " " * 6,
        break_long_words=False, break_on_hyphens=False,
    )  # fmt: skip
    return wrapped.replace(_GLUE, " ")


def canonical_text(schedule: Schedule) -> str:
    """Return one line a kernel, for keys and to break ties; needs nothing but the schedule.

    Two texts are equal exactly when the kernels are, but for the order in which Members and inlined Funcs are listed,
    which has no meaning.
    """
    return "\n".join(canonical_kernel_text(k) for k in schedule.kernels)


def canonical_kernel_text(kernel: Kernel) -> str:
    """Return the canonical text of one kernel; see `canonical_text`."""
    # Names are identifiers, joined by dots in reduction variables, so that none of the separators occurs in one.
    parts = [_canonical_root(r) for r in kernel.roots]
    parts += sorted(map(_canonical_member, kernel.fused))
    parts += sorted(map(_canonical_inlined, kernel.inlined))
    return "; ".join(parts)


def _canonical_root(r: Root) -> str:
    return f"root {_canonical_tiling(r.tiling)}{_canonical_flag(r.materialised)}"


def _canonical_member(m: FusedProducer) -> str:
    at = f"{m.at.level.key} {m.at.host.func}.{m.at.host.number} {m.at.depth}"
    tilings = " + ".join(map(_canonical_tiling, m.tilings))
    how = f"{_canonical_flag(m.materialised)}{_canonical_columns(m.aligned)}"
    how += f" in {m.buffers} buffers" if m.buffers > 1 else ""
    how += " asynchronously" if m.asynchronous else ""
    return f"member {tilings} @ {at} [{' '.join(m.storage_order)}]{how}"


def _canonical_inlined(i: Inlined) -> str:
    return f"inline {i.func} x{i.calls}"


def _canonical_tiling(t: StageTiling) -> str:
    loops = ", ".join(f"{p.kind.value} {p.dim} {p.extent}" for p in t.loops)
    return f"{t.stage.func}.{t.stage.number}({loops})"


def _canonical_columns(aligned: TileAlignment | None) -> str:
    return "" if aligned is None else f" from {aligned.remainder} mod {aligned.multiple}"


def _canonical_flag(stored: bool) -> str:
    return " stored" if stored else ""
