"""Schedules as text: the indented loop nest for readers, and the compact canonical form for keys."""

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
    """Return the loop nest of a legal schedule, one section per kernel in launch order.

    Loops are nested in execution order, without loops of extent 1. ``step`` is the distance in points between
    neighbouring iterations, if it is not 1. A fused producer appears at its compute location, with the extents of its
    region in storage order; ``f.1`` is the first update of ``f``.

    Raises:
        ScheduleError: If the region of a fused producer does not follow from its host.
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
    threads = [n for n in plan.block if n > 1]
    per = "warp" if plan.warps else "block"
    shared = f", {layout.total_bytes} bytes of shared memory a {per}" if layout.total_bytes else ""
    inside = f"{_count_of(threads, 'thread')}{' in linear order' if plan.kernel.linear_threads else ''}"
    inside = _count_of(plan.warps, "warp") if plan.warps else inside
    yield 1, f"{_count_of(plan.blocks, 'block')} of {inside}{shared}"
    if plan.kernel.resident_blocks:
        yield 1, f"registers for at least {_count(plan.kernel.resident_blocks, 'block')} on a multiprocessor"
    for i in sorted(plan.kernel.inlined, key=lambda i: list(plan.bound.funcs).index(i.func)):
        yield 1, f"inlined, {_count(i.calls, 'call')}: {definition_text(plan.bound, plan.bound.stage(i.func, 0))}"


def _sources(plan: KernelPlan) -> list[str]:
    """Return the inputs and Funcs that the kernel reads from global memory."""
    inside = plan.inlined | plan.root_funcs | plan.allocations.keys()
    stages = [plan.bound.stage(t.stage.func, t.stage.number) for t in plan.kernel.tilings()]
    stages += [plan.bound.stage(name, 0) for name in plan.inlined]
    read = {source for s in stages for source in s.sources} - inside
    return [name for name in (*plan.bound.inputs, *plan.bound.funcs) if name in read]


def _nested(nodes: Sequence[LoopTreeNode], indent: int) -> Iterator[_Line]:
    for node in nodes:
        yield indent, node.text
        yield from _nested(node.children, indent + 1)


def _count(n: int, noun: str) -> str:
    return f"{n} {noun}" if n == 1 else f"{n} {noun}s"


def _count_of(extents: Sequence[int], noun: str) -> str:
    total = 1
    for e in extents:
        total *= e
    return (f"{' x '.join(map(str, extents))} = " if len(extents) > 1 else "") + _count(total, noun)


def _wrapped(indent: int, text: str) -> str:
    lead = "  " * indent
    # Lines do not break inside an index: its spaces become a character that names cannot contain.
    glued = re.sub(r"\[[^\[\]]*\]", lambda match: match[0].replace(" ", _GLUE), text)
    wrapped = textwrap.fill(
        glued, max(WIDTH, len(lead) + 40), initial_indent=lead, subsequent_indent=lead + " " * 6,
        break_long_words=False, break_on_hyphens=False,
    )  # fmt: skip
    return wrapped.replace(_GLUE, " ")


def canonical_text(schedule: Schedule) -> str:
    """Return one line per kernel, for keys and to break ties.

    Two texts are equal exactly when the kernels are equal, except for the order of fused producers and inlined Funcs,
    which has no meaning.
    """
    return "\n".join(canonical_kernel_text(k) for k in schedule.kernels)


def canonical_kernel_text(kernel: Kernel) -> str:
    """Return the canonical text of one kernel; see `canonical_text`."""
    # Names are identifiers, with dots in reduction variables, so they contain none of the separators.
    parts = [_canonical_root(r) for r in kernel.roots]
    parts += sorted(map(_canonical_producer, kernel.fused))
    parts += sorted(map(_canonical_inlined, kernel.inlined))
    parts += ["linear threads"] if kernel.linear_threads else []
    parts += [f"resident blocks {kernel.resident_blocks}"] if kernel.resident_blocks else []
    return "; ".join(parts)


def _canonical_root(r: Root) -> str:
    return f"root {_canonical_tiling(r.tiling)}{_canonical_materialised(r.materialised)}"


def _canonical_producer(m: FusedProducer) -> str:
    at = f"{m.at.level.key} {m.at.host.func}.{m.at.host.number} {m.at.depth}"
    tilings = " + ".join(map(_canonical_tiling, m.tilings))
    options = f"{_canonical_materialised(m.materialised)}{_canonical_alignment(m.aligned)}"
    options += f" in {m.buffers} buffers" if m.buffers > 1 else ""
    options += " asynchronously" if m.asynchronous else ""
    options += " in private memory" if m.private else ""
    options += f" with {m.registers.iterations} iterations of {m.registers.dim} in registers" if m.registers else ""
    return f"member {tilings} @ {at} [{' '.join(m.storage_order)}]{options}"


def _canonical_inlined(i: Inlined) -> str:
    return f"inline {i.func} x{i.calls}"


def _canonical_tiling(t: StageTiling) -> str:
    loops = ", ".join(f"{p.kind.value} {p.dim} {p.extent}" for p in t.loops)
    return f"{t.stage.func}.{t.stage.number}({loops})"


def _canonical_alignment(aligned: TileAlignment | None) -> str:
    return "" if aligned is None else f" from {aligned.remainder} mod {aligned.multiple}"


def _canonical_materialised(materialised: bool) -> str:
    return " stored" if materialised else ""
