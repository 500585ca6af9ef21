"""The loop nest of a kernel as a tree, for the printers of schedules: loops, stages and barriers inside one another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from autosched.analysis.rewrites.cache_read import cached_source
from autosched.schedule.io.definition_text import definition_text
from autosched.schedule.kernel.memory_layout import SharedLayout
from autosched.schedule.kernel.thread_fusion import thread_loops
from autosched.schedule.plan import Allocation, KernelPlan, Nest, NestLoop
from autosched.schedule.types import SHARED_LEVELS, Level, LoopKind, TileAlignment


class NodeKind(Enum):
    """What a node of the tree stands for; loops have the kinds of `LoopKind`."""

    BLOCK = "block"
    THREAD = "thread"
    SERIAL = "serial"
    REDUCTION = "reduction"
    STAGE = "stage"
    BARRIER = "barrier"
    DEFINITION = "definition"


@dataclass(frozen=True, slots=True)
class LoopTreeNode:
    """A loop, a Func that is computed at this place, a barrier, or a definition.

    Attributes:
        kind: What it is.
        text: One line that describes it, without what it encloses.
        children: What it encloses, in the order it runs.
    """

    kind: NodeKind
    text: str
    children: tuple[LoopTreeNode, ...] = ()


_Nodes = tuple[LoopTreeNode, ...]
_OUTSIDE = (LoopKind.BLOCK, LoopKind.THREAD)


def loop_tree(plan: KernelPlan, layout: SharedLayout) -> tuple[LoopTreeNode, ...]:
    """Return the outermost nodes of a kernel; loops of one iteration are left out.

    Args:
        plan: The kernel.
        layout: Its shared memory, which says where barriers stand.
    """
    steps = range(len(plan.steps))
    body: list[LoopTreeNode] = []
    for k in (k for k in steps if k not in plan.repeated):
        if k == plan.repeated.stop:
            body += _repeated(plan, layout)
        body += _scan(plan, layout, k) if plan.scan in plan.steps[k] else _step(plan, layout, k)
    if plan.repeated.stop == len(steps):
        body += _repeated(plan, layout)
    return _enclosed(plan.launches, _enclosed(plan.grid, tuple(body)), note="one launch each")


def _scan(plan: KernelPlan, layout: SharedLayout, k: int) -> _Nodes:
    """A scan over rows: what all threads of a block do in each step, after a barrier, or in each launch."""
    if plan.launches:
        return _step(plan, layout, k)
    step = (node for node in _step(plan, layout, k) if node.kind is not NodeKind.BARRIER)
    scan = plan.steps[k][0]
    return _enclosed(scan.step_loops, (LoopTreeNode(NodeKind.BARRIER, "barrier"), *step), note="block-uniform")


def _repeated(plan: KernelPlan, layout: SharedLayout) -> _Nodes:
    """The steps inside the loops of a mainloop or a sliding window."""
    loops = plan.streamed.stream_loops if plan.streamed is not None else ()
    note = "sliding window" if plan.kernel.is_sliding_window else "mainloop"
    if plan.warm_up:
        note += f", {plan.warm_up} prologue step{'s' if plan.warm_up > 1 else ''}"
    return _enclosed(loops, tuple(node for k in plan.repeated for node in _step(plan, layout, k)), note=note)


def box_text(name: str, dims: Sequence[str], extents: Sequence[int]) -> str:
    """Return a Func's name with the extents of what is computed of it: ``blur[y 2560, x 1536]``."""
    return f"{name}[{', '.join(f'{d} {e}' for d, e in zip(dims, extents, strict=True))}]" if dims else name


def _step(plan: KernelPlan, layout: SharedLayout, k: int) -> _Nodes:
    """One thread nest: the threads' loops around the stages that share them, after a barrier where one is needed."""
    group = plan.steps[k]
    body = tuple(node for n in group for node in _in_thread(plan, n))
    notes = [f"threadIdx.{axis}" for axis in "xyz"]
    if any(n.lanes is not None for n in group):
        notes[0] += ", warp reduction"
    stage = LoopTreeNode(NodeKind.STAGE, _title(plan, group[0]), _enclosed(thread_loops(group), body, notes))
    return (LoopTreeNode(NodeKind.BARRIER, "barrier"), stage) if layout.barriers[k] else (stage,)


def _in_thread(plan: KernelPlan, n: Nest) -> _Nodes:
    """The loops that one thread runs; those listed before a thread loop come first, as in generated code."""
    start = 1 + max((k for k, p in enumerate(n.loops) if p.kind in _OUTSIDE or p in n.walked), default=-1)
    first = [p for p in n.loops[:start] if p in n.inner]
    return _enclosed(first, _from_loop(plan, n, start))


def _from_loop(plan: KernelPlan, n: Nest, position: int) -> _Nodes:
    """What stands inside the first ``position`` loops of a nest: Funcs computed there, then the next loop."""
    members = tuple(_thread_member(plan, group) for group in plan.nests_at(n.id, position))
    if position == len(n.loops):
        return (*members, LoopTreeNode(NodeKind.DEFINITION, definition_text(plan.bound, n.stage)))
    return (*members, *_enclosed(n.loops[position : position + 1], _from_loop(plan, n, position + 1)))


def _thread_member(plan: KernelPlan, group: Sequence[Nest]) -> LoopTreeNode:
    computed = [n for n in group if n.stage.values and not n.stage.is_empty]
    return LoopTreeNode(NodeKind.STAGE, _title(plan, group[0]), tuple(x for n in computed for x in _in_thread(plan, n)))


def _enclosed(loops: Sequence[NestLoop], body: _Nodes, notes: Sequence[str] = (), note: str = "") -> _Nodes:
    """Return a body inside loops, outermost first; each has a note of its own where these are given, or one for all."""
    wanted = [p for p in loops if p.extent > 1]
    for k in reversed(range(len(wanted))):
        text = _loop_text(wanted[k], notes[k] if k < len(notes) else note)
        body = (LoopTreeNode(NodeKind(wanted[k].kind.value), text, body),)
    return body


def _title(plan: KernelPlan, n: Nest) -> str:
    """Return what a nest computes in each block or thread, and where the result lives."""
    allocation = plan.allocations.get(n.stage.func)
    locations = []
    if allocation is None:
        summed = {p.dim for p in n.loops if p.kind is LoopKind.REDUCTION}
        dims = [d for d in n.low if d not in summed]
        box = box_text(str(n.id), dims, [n.padded_extent(d) for d in dims])
    else:
        box = box_text(str(n.id), allocation.dims, allocation.extents)
        size = allocation.count * sum(d.bytes_ for d in allocation.func.dtypes)
        shared = allocation.level in SHARED_LEVELS
        locations.append(_shared_text(plan, allocation, size) if shared else f"in registers, {size} bytes a thread")
    if n.stage.func in plan.stored:
        locations.append("to global memory")
    elif allocation is None:
        locations.append("in registers")
    return " ".join([f"{box}:", *locations[:1], *(f"and {p}" for p in locations[1:])]).removesuffix(":")


def _shared_text(plan: KernelPlan, allocation: Allocation, size: int) -> str:
    """Return how a tile of ``size`` bytes lies in shared memory, and how it is filled."""
    producer = plan.kernel.member(allocation.func.name)
    source = cached_source(allocation.func.name)
    count = f"{allocation.buffers} x " if allocation.buffers > 1 else ""
    parts = [f"{'' if source is None else f'cache read of {source} '}in shared memory", f"{count}{size} bytes"]
    if allocation.rolling is not None:
        parts.append(f"rolling buffer along {allocation.rolling}")
    if allocation.level is Level.MAINLOOP and plan.kernel.double_buffered:
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
