"""Loops of one stage inside a thread: points, reductions, producers at Level.THREAD, and the definition."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import replace

from autosched.analysis.indices import index as ix
from autosched.lang.dtypes import bool_
from autosched.lower.emit.point_loops import guarded, guarded_outside, open_loops, upper_bounds
from autosched.lower.ir import Alloc, CompareIndex, If, Op, Value
from autosched.lower.kernel_context import EmitMode, KernelContext
from autosched.lower.lower_expressions import EvalPoint, ExpressionLowerer
from autosched.schedule.kernel.tile_ownership import OwnedBox
from autosched.schedule.plan import Nest
from autosched.schedule.types import LoopKind


def emit_stage(context: KernelContext, mode: EmitMode, n: Nest, *, in_registers: bool = False) -> None:
    """Emit one stage's loops inside the thread, its THREAD producers at their depths, and its definition.

    Args:
        context: Context of the kernel body.
        mode: Mode of emission.
        n: The stage's nest.
        in_registers: Whether values are stored to the Func's register tile in ``mode.registers``.
    """
    loops = list(n.loops)
    outside = (LoopKind.BLOCK, LoopKind.THREAD)
    start = 1 + max((k for k, p in enumerate(loops) if p.kind in outside or p in n.outer_serial_loops), default=-1)
    early = [p for p in loops[:start] if p in n.inner]
    is_interleaved = n.interleaved and n.stage.func not in context.padded and not n.lower_bound
    if is_interleaved or n.aligned:
        hoisting = replace(mode, hoists=True)

        def emit_points() -> None:
            open_loops(context, n, early, lambda: _emit_from(context, hoisting, n, start, in_registers=in_registers))

        guarded_outside(context, mode, n, emit_points)
        return
    open_loops(context, n, early, lambda: _emit_from(context, mode, n, start, in_registers=in_registers))


def _emit_from(context: KernelContext, mode: EmitMode, n: Nest, position: int, *, in_registers: bool) -> None:
    """Emit the loops of a stage from ``position`` on."""
    for group in context.plan.nests_at(n.id, position):
        _emit_thread_producer(context, mode, group)
    if position == len(n.loops):
        is_padded_reduction = bool(context.padded) and n is context.plan.mainloop_nest
        limited = n.stage.func not in context.padded and not is_padded_reduction

        def define(at: Mapping[str, ix.Index]) -> None:
            _emit_definition(context, mode, n, at, in_registers=in_registers)

        guarded(context, mode, n, define, limited=limited, inside=mode.hoists)
        return
    inside = functools.partial(_emit_from, context, mode, n, position + 1, in_registers=in_registers)
    open_loops(context, n, [n.loops[position]], inside)


def _emit_thread_producer(context: KernelContext, mode: EmitMode, group: Sequence[Nest]) -> None:
    """Emit the stages of a producer that each thread computes in registers."""
    func = context.bound.funcs[group[0].stage.func]
    for k in range(len(func.dtypes)):
        context.builder.append(Alloc(context.local_buffer(func.name, k)))
    for n in group:
        if n.stage.values and not n.stage.is_empty:
            emit_stage(context, replace(mode, target=func.name, hoists=False), n)


def _emit_definition(
    context: KernelContext, mode: EmitMode, n: Nest, at: Mapping[str, ix.Index], *, in_registers: bool
) -> None:
    """Evaluate the definition at a point and store all components."""
    builder, func = context.builder, n.stage.func
    lowerer = ExpressionLowerer(context, mode)
    point = EvalPoint(n.stage, at)
    value_point = _clamped_to_edge(context, n, point)
    values = [lowerer.value(e, value_point) for e in n.stage.values]
    owned = context.plan.owned.get(func)
    if len(values) > 1 or owned is not None:
        values = [builder.let(v, f"{context.names[func]}_{k}") for k, v in enumerate(values)]
    index = [lowerer.symbolic(i, point) for i in n.stage.store]
    for k, v in enumerate(values):
        if in_registers:
            element = mode.registers[func]
            builder.store(element.buffers[k], element.index, v, context.names[func])
        else:
            context.store(mode, func, index, k, v, n.stage.combine[k] if n.stage.combine else "")
    if owned is not None:
        _emit_owned_stores(context, func, owned, at, index, values)


def _clamped_to_edge(context: KernelContext, n: Nest, p: EvalPoint) -> EvalPoint:
    """Return the point at which a definition is evaluated: edge padding repeats the value at the edge."""
    if n.stage.func not in context.padded:
        return p
    clamped = {d: functools.reduce(ix.minimum, upper_bounds(context, n, d), i) for d, i in p.at.items()}
    return EvalPoint(n.stage, clamped)


def _emit_owned_stores(
    context: KernelContext, func: str, owned: OwnedBox, at: Mapping[str, ix.Index], index: Sequence[ix.Index],
    values: Sequence[Value],
) -> None:  # fmt: skip
    """Store a point of a materialised producer to global memory as well, if the block owns the point."""
    tests = _owner_tests(owned, at)
    if tests is None:
        return
    if tests:
        context.builder.push((), guard=True)
    for k, v in enumerate(values):
        context.store_global(func, index, k, v)
    if tests:
        guard = functools.reduce(lambda a, b: Op("and", (a, b), bool_), tests)
        context.builder.append(If(guard, context.builder.pop()))


def _owner_tests(owned: OwnedBox, at: Mapping[str, ix.Index]) -> list[Value] | None:
    """Return conditions that together hold in the block that owns a point; None if no block can own it."""
    tests: list[Value] = []
    for block in owned.first:
        lo, hi = ix.interval(block)
        if lo > 0:
            return None
        if hi > 0:
            tests.append(CompareIndex("eq", block, 0, bool_))
    for e in owned.edges:
        lo, hi = ix.interval(e.block)
        if lo == e.last or ix.interval(ix.sub(e.next, at[e.dim]))[0] > 0:
            continue
        before: Value = CompareIndex("lt", ix.sub(at[e.dim], e.next), 0, bool_)
        is_last = CompareIndex("eq", e.block, e.last, bool_)
        tests.append(before if hi < e.last else Op("or", (before, is_last), bool_))
    return tests
