"""Sliding window: a block iterates over one dimension of the root, with rolling buffers in shared memory.

for t in prologue steps:                                       all threads of the block
    barrier; shared a[... % rows] = the new rows               each thread some of their elements
for t in steps:
    barrier; shared a[... % rows] = the new rows
    barrier; out[points of step t] = ...                       each thread, from shared memory

With double buffering, the rows of the next step are loaded while one is computed, with one barrier a step.

Rows of the prologue that precede the first row needed are not computed. A guard for these in the steps would keep a
thread from sharing loads between rows, so the prologue is a loop of its own.

Where boundary conditions act in the first and last steps along the dimension alone, each nest has interior code for all
other steps (`autosched.lower.passes.partition_steps`):

for t in steps:
    g = steps of a block * block + t
    barrier; if first <= g <= last: nest without the clamps and guards of the dimension; else: nest
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from autosched.analysis.indices import index as ix
from autosched.lang.dtypes import bool_
from autosched.lower.emit.block_loops import block_loop
from autosched.lower.emit.register_window import emit_empty_windows, emit_register_window
from autosched.lower.emit.thread_nest import emit_thread_nest
from autosched.lower.global_step import GlobalStep
from autosched.lower.ir import (
    Alloc,
    Barrier,
    CompareIndex,
    For,
    If,
    LetIndex,
    LoopRole,
    Partitioning,
    Stmt,
    Store,
    walk,
)
from autosched.lower.ir_queries import conjunction, reads_in
from autosched.lower.ir_visitor import map_parts
from autosched.lower.kernel_context import EmitMode, KernelContext
from autosched.schedule.kernel.memory_layout import SharedLayout
from autosched.schedule.kernel.register_window_plan import unrolled_steps


@dataclass(frozen=True)
class InteriorSteps:
    """Interior code of some steps.

    Attributes:
        steps: The global step; its range is that of the interior.
        main: Context of the interior code of the root's steps, whose plan is that of one global step.
        prologue: The same for prologue steps; None if there are none.
    """

    steps: GlobalStep
    main: KernelContext
    prologue: KernelContext | None

    @property
    def contexts(self) -> tuple[KernelContext, ...]:
        """All contexts."""
        return (self.main,) if self.prologue is None else (self.prologue, self.main)


def emit_sliding_window(
    context: KernelContext, mode: EmitMode, layout: SharedLayout, interior: InteriorSteps | None = None
) -> tuple[Stmt, ...]:
    """Return the statements of all steps of a plan with a sliding window: the prologue, then the steps of the root.

    Args:
        context: Context of the kernel body.
        mode: Mode of emission.
        layout: Shared memory, and the barriers before the plan's steps.
        interior: Code of the interior steps, if that differs.
    """
    plan, host = context.plan, context.plan.mainloop_nest
    assert host is not None
    loop, prologue_steps = host.mainloops[0], plan.prologue_steps
    statements: list[Stmt] = [*emit_empty_windows(context, mode)]
    if prologue_steps:
        name = context.namer(loop.name, "step")
        step = ix.sub(ix.var(name, 0, prologue_steps - 1), prologue_steps)
        value = ix.var(loop.name, -prologue_steps, -1)
        steps = _Steps(context, mode, layout, interior, value, prologue=True)
        others = () if interior is None or interior.prologue is None else (interior.prologue,)

        def prologue_step() -> tuple[Stmt, ...]:
            return (LetIndex(loop.name, step), *steps.body())

        note = f"{loop.dim}: {prologue_steps} steps that fill windows"
        binds = [loop.name, *steps.bound]
        statements.append(block_loop(context, name, prologue_steps, note, prologue_step, binds=binds, others=others))
    value = ix.var(loop.name, 0, loop.extent - 1)
    main = _Steps(context, replace(mode, ranges={loop.name: value}), layout, interior, value, prologue=False)
    others = () if interior is None else (interior.main,)
    note = f"{loop.dim}: {loop.extent} steps"
    main_loop = block_loop(context, loop.name, loop.extent, note, main.body, binds=main.bound, others=others)
    statements.append(replace(main_loop, unroll=unrolled_steps(plan)))
    if context.async_copied:  # the last copies must not complete in memory that later stages reuse
        statements.append(Barrier(waits_for_copies=True))
    return tuple(statements)


@dataclass(frozen=True)
class _Steps:
    """Statements of the steps in one loop.

    Attributes:
        context: Context of the kernel body.
        mode: Mode of emission.
        layout: Shared memory, and the barriers before the plan's steps.
        interior: Code of the interior steps.
        step: The step.
        prologue: Whether the steps precede the first of the root, and so only fill rolling buffers.
    """

    context: KernelContext
    mode: EmitMode
    layout: SharedLayout
    interior: InteriorSteps | None
    step: ix.Index
    prologue: bool

    @property
    def bound(self) -> tuple[str, ...]:
        """Names of the variables that the statements of a step bind."""
        return () if self.interior is None or self.interior.steps.block is None else (self.interior.steps.name,)

    def body(self) -> tuple[Stmt, ...]:
        """Return the statements of one step."""
        context, layout, plan = self.context, self.layout, self.context.plan
        host = plan.mainloop_nest
        assert host is not None
        first, name = -plan.prologue_steps, host.mainloops[0].name
        body: list[Stmt] = []
        if self.bound:
            assert self.interior is not None
            body.append(LetIndex(self.interior.steps.name, self.interior.steps.value(self.step)))
        for k in plan.repeated:
            group = plan.steps[k]
            if layout.barriers[k]:
                body.append(Barrier(waits_for_copies=bool(context.async_copied) and k == plan.repeated.start))
            if self.prologue and group[0].first_step == 0:
                continue
            statements = self._nest(k)
            if self.prologue and group[0].first_step > first:
                has_begun = CompareIndex("ge", ix.var(name, first, -1), group[0].first_step, bool_)
                statements = (If(has_begun, statements, uniform=True),)
            body += statements
        return tuple(body)

    def _nest(self, k: int) -> tuple[Stmt, ...]:
        """Return the thread nest of a step of the plan, with its interior code if that differs."""
        group = self.context.plan.steps[k]
        mode = replace(self.mode, asynchronous=group[0].stage.func in self.context.async_copied)
        if self.interior is None:
            return _emit_nest(self.context, mode, k)
        steps = self.interior.steps
        lo, hi = steps.span(*ix.interval(self.step))
        if steps.hi < lo or steps.lo > hi:
            return _emit_nest(self.context, mode, k)
        inner = self.interior.prologue if self.prologue else self.interior.main
        assert inner is not None
        inside = _emit_nest(inner, replace(mode, ranges={}), k)
        at = ix.var(steps.name, lo, hi)
        tests = [CompareIndex("ge", at, steps.lo, bool_)] * (steps.lo > lo)
        tests += [CompareIndex("le", at, steps.hi, bool_)] * (steps.hi < hi)
        if not tests:
            return inside
        outside = _rolled(_emit_nest(self.context, mode, k))
        return (If(conjunction(tests), inside, outside, uniform=True, partition=Partitioning.STEPS),)


def _emit_nest(context: KernelContext, mode: EmitMode, k: int) -> tuple[Stmt, ...]:
    """Return the thread nest of a step of the plan."""
    group = context.plan.steps[k]
    if group[0].stage.func in context.plan.register_windows:
        return emit_register_window(context, mode, group)
    return emit_thread_nest(context, mode, group)


def _rolled(body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    """Return boundary code of few steps with rolled loops, unless they index registers.

    Unrolled, its clamps would determine the registers of all blocks.
    """
    if any(isinstance(s, Alloc) or _accesses_registers(s) for s in walk(body)):
        return body

    def rolled(s: Stmt) -> Stmt:
        s = map_parts(s, bodies=statements)
        if isinstance(s, For) and s.role is LoopRole.UNROLLED:
            return replace(s, role=LoopRole.SERIAL, few_points=False)
        return s

    def statements(inner: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
        return tuple(rolled(s) for s in inner)

    return statements(body)


def _accesses_registers(s: Stmt) -> bool:
    """Whether a statement loads or stores an element of a per-thread array, apart from inner statements."""
    return (isinstance(s, Store) and s.buffer.in_registers) or any(r.buffer.in_registers for r in reads_in((s,)))
