"""The loop nest of a kernel as a tree of loops, stages and barriers, for printers of schedules."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from autosched.analysis.indices import index as ix
from autosched.analysis.rewrites.cache_read import cached_source
from autosched.schedule.io.definition_text import definition_text
from autosched.schedule.kernel.memory_layout import SharedLayout
from autosched.schedule.kernel.thread_fusion import thread_loops
from autosched.schedule.plan import Allocation, KernelPlan, Nest, NestLoop
from autosched.schedule.types import LoopKind, TileAlignment


class NodeKind(Enum):
    """The kind of a tree node; loops have the kinds of `LoopKind`."""

    BLOCK = "block"
    WARP = "warp"
    THREAD = "thread"
    SERIAL = "serial"
    REDUCTION = "reduction"
    STAGE = "stage"
    BARRIER = "barrier"
    DEFINITION = "definition"


@dataclass(frozen=True, slots=True)
class LoopTreeNode:
    """A loop, a Func at its compute location, a barrier, or a definition.

    Attributes:
        kind: Kind of the node.
        text: One line for the node itself, without its children.
        children: Nodes inside it, in execution order.
    """

    kind: NodeKind
    text: str
    children: tuple[LoopTreeNode, ...] = ()


_Nodes = tuple[LoopTreeNode, ...]
_OUTSIDE = (LoopKind.BLOCK, LoopKind.THREAD)


def loop_tree(plan: KernelPlan, layout: SharedLayout) -> tuple[LoopTreeNode, ...]:
    """Return the outermost nodes of a kernel, without loops of extent 1.

    Args:
        plan: The kernel.
        layout: Its shared memory and barriers.
    """
    steps = range(len(plan.steps))
    body: list[LoopTreeNode] = []
    for k in (k for k in steps if k not in plan.repeated):
        if k == plan.repeated.stop:
            body += _repeated(plan, layout)
        body += _scan(plan, layout, k) if plan.scan in plan.steps[k] else _step(plan, layout, k)
    if plan.repeated.stop == len(steps):
        body += _repeated(plan, layout)
    return _enclosed(plan.launches, _enclosed(plan.tile_loops, tuple(body)), note="one launch each")


def _scan(plan: KernelPlan, layout: SharedLayout, k: int) -> _Nodes:
    """Return a scan over rows: its thread nest inside the loops over steps, after a barrier, or inside launches."""
    if plan.launches:
        return _step(plan, layout, k)
    step = (node for node in _step(plan, layout, k) if node.kind is not NodeKind.BARRIER)
    scan = plan.steps[k][0]
    return _enclosed(scan.step_loops, (LoopTreeNode(NodeKind.BARRIER, "barrier"), *step), note="block-uniform")


def _repeated(plan: KernelPlan, layout: SharedLayout) -> _Nodes:
    """Return the repeated steps inside the loops of a mainloop or sliding window."""
    loops = plan.mainloop_nest.mainloops if plan.mainloop_nest is not None else ()
    note = "sliding window" if plan.kernel.is_sliding_window else "mainloop"
    if plan.prologue_steps:
        note += f", {plan.prologue_steps} prologue step{'s' if plan.prologue_steps > 1 else ''}"
    return _enclosed(loops, tuple(node for k in plan.repeated for node in _step(plan, layout, k)), note=note)


def box_text(name: str, dims: Sequence[str], extents: Sequence[int]) -> str:
    """Return a Func's name with the extents of a box: ``blur[y 2560, x 1536]``."""
    return f"{name}[{', '.join(f'{d} {e}' for d, e in zip(dims, extents, strict=True))}]" if dims else name


def _step(plan: KernelPlan, layout: SharedLayout, k: int) -> _Nodes:
    """Return one thread nest: thread loops around the stages of a group, after a barrier if one is needed."""
    group = plan.steps[k]
    body = tuple(node for n in group for node in _in_thread(plan, n))
    notes = [f"threadIdx.{axis}" for axis in "xyz"]
    if plan.kernel.linear_threads:
        kind = "lanes" if plan.warps else "linear threads"
        notes = [f"{kind}, fastest", kind, kind]
    if any(n.lanes is not None for n in group):
        notes[0] += ", warp reduction"
    stage = LoopTreeNode(NodeKind.STAGE, _title(plan, group[0]), _enclosed(thread_loops(group), body, notes))
    barrier = LoopTreeNode(NodeKind.BARRIER, "barrier of the warp" if plan.warps else "barrier")
    return (barrier, stage) if layout.barriers[k] else (stage,)


def _in_thread(plan: KernelPlan, n: Nest) -> _Nodes:
    """Return the loops of one thread; those outside a thread loop in the schedule come first, as in generated code."""
    start = 1 + max((k for k, p in enumerate(n.loops) if p.kind in _OUTSIDE or p in n.outer_serial_loops), default=-1)
    first = [p for p in n.loops[:start] if p in n.inner]
    return _enclosed(first, _from_loop(plan, n, start))


def _from_loop(plan: KernelPlan, n: Nest, position: int) -> _Nodes:
    """Return the nodes inside the first ``position`` loops of a nest: producers at this depth, then the next loop."""
    producers = tuple(_thread_producer(plan, group) for group in plan.nests_at(n.id, position))
    if position == len(n.loops):
        return (*producers, LoopTreeNode(NodeKind.DEFINITION, definition_text(plan.bound, n.stage)))
    return (*producers, *_enclosed(n.loops[position : position + 1], _from_loop(plan, n, position + 1)))


def _thread_producer(plan: KernelPlan, group: Sequence[Nest]) -> LoopTreeNode:
    computed = [n for n in group if n.stage.values and not n.stage.is_empty]
    return LoopTreeNode(NodeKind.STAGE, _title(plan, group[0]), tuple(x for n in computed for x in _in_thread(plan, n)))


def _enclosed(loops: Sequence[NestLoop], body: _Nodes, notes: Sequence[str] = (), note: str = "") -> _Nodes:
    """Return a body inside loops, outermost first; loop k has note k of ``notes``, the loops beyond have ``note``."""
    iterating = [p for p in loops if p.extent > 1]
    for k in reversed(range(len(iterating))):
        text = _loop_text(iterating[k], notes[k] if k < len(notes) else note)
        body = (LoopTreeNode(NodeKind(iterating[k].kind.value), text, body),)
    return body


def _title(plan: KernelPlan, n: Nest) -> str:
    """Return the box that a nest computes per block or thread, and the memory of the result."""
    allocation = plan.allocations.get(n.stage.func)
    locations = []
    if allocation is None:
        reduced = {p.dim for p in n.loops if p.kind is LoopKind.REDUCTION}
        dims = [d for d in n.low if d not in reduced]
        box = box_text(str(n.id), dims, [_covered(n, d) for d in dims])
    else:
        box = box_text(str(n.id), allocation.dims, allocation.extents)
        size = allocation.count * sum(d.bytes_ for d in allocation.func.dtypes)
        source = cached_source(n.stage.func)
        cached = "" if source is None else f"cache read of {source} "
        registers = f"{cached}in registers, {size} bytes a thread{_rows_text(plan, n)}"
        locations.append(_shared_text(plan, allocation, size) if allocation.is_shared else registers)
    if n.stage.func in plan.materialised:
        locations.append("to global memory")
    elif allocation is None:
        locations.append("in registers")
    return " ".join([f"{box}:", *locations[:1], *(f"and {p}" for p in locations[1:])]).removesuffix(":")


def _covered(n: Nest, dim: str) -> int:
    """Return the points of a dimension that a nest's loops cover, without threads beyond its tile."""
    if n.aligned:
        points: int = ix.extent(n.lower_bound.get(dim, n.low[dim]), n.high[dim])
        return points
    return n.padded_extent(dim)


def _rows_text(plan: KernelPlan, n: Nest) -> str:
    """Return the rows or steps of a tile that has registers alone, with a separator; empty for other tiles."""
    window, hybrid = plan.register_windows.get(n.stage.func), plan.hybrid_tiles.get(n.stage.func)
    if hybrid is not None:
        return f", {hybrid.split_layout.steps} iterations of {hybrid.split}"
    return "" if window is None else f", {window.count} rows along {window.dim}"


def _shared_text(plan: KernelPlan, allocation: Allocation, size: int) -> str:
    """Return the properties of a tile in shared memory with buffers of ``size`` bytes."""
    producer = plan.kernel.member(allocation.func.name)
    source = cached_source(allocation.func.name)
    count = f"{allocation.buffers} x " if allocation.buffers > 1 else ""
    parts = [f"{'' if source is None else f'cache read of {source} '}in shared memory", f"{count}{size} bytes"]
    window = plan.register_windows.get(allocation.func.name)
    if window is not None:
        parts.append(f"rows along {window.dim} that are read at moved points, {window.count} rows in registers")
    elif allocation.rolling is not None:
        parts.append(f"rolling buffer along {allocation.rolling}")
    hybrid = plan.hybrid_tiles.get(allocation.func.name)
    if hybrid is not None:
        bytes_ = hybrid.elements * sum(d.bytes_ for d in allocation.func.dtypes)
        parts.append(f"{hybrid.split_layout.steps} iterations of {hybrid.split} in registers, {bytes_} bytes a thread")
    if producer is not None and producer.buffers > 1:
        parts.append("double-buffered")
    if producer is not None and producer.asynchronous:
        parts.append("async copies")
    if producer is not None and producer.aligned is not None:
        parts.append(_alignment_text(producer.storage_order[-1], producer.aligned))
    return ", ".join(parts)


def _alignment_text(dim: str, aligned: TileAlignment) -> str:
    multiple, remainder = aligned
    return f"{dim} aligned to multiples of {multiple}" + (f" plus {remainder}" if remainder else "")


def _loop_text(loop: NestLoop, note: str = "") -> str:
    notes = [note] if note else []
    notes += [f"step {loop.stride}"] if loop.stride > 1 else []
    return f"{loop.kind.value} {loop.dim} {loop.extent}" + (f"  ({', '.join(notes)})" if notes else "")
