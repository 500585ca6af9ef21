"""Double buffering: the tiles of the next mainloop step are loaded into one buffer while the other is used."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod

from autosched.analysis.indices import index as ix
from autosched.lower.emit.block_loops import block_loop
from autosched.lower.emit.register_blocking import (
    RegisterTile,
    allocate_register_tiles,
    store_register_tiles,
    update,
)
from autosched.lower.emit.thread_nest import emit_thread_nest
from autosched.lower.ir import Alloc, Barrier, LetIndex, Memory, Stmt
from autosched.lower.kernel_context import EmitMode, KernelContext
from autosched.schedule.plan import Nest, NestLoop

Values = Mapping[str, ix.Index]
"""Values of the mainloop's variables in one step, by name."""


def emit_double_buffered(
    context: KernelContext, mode: EmitMode, loops: Sequence[NestLoop], producers: Sequence[Sequence[Nest]],
    compute: Callable[[EmitMode], tuple[Stmt, ...]],
) -> tuple[Stmt, ...]:  # fmt: skip
    """Return the statements of all steps of a mainloop.

    Tiles are loaded to registers before a step computes and stored to shared memory after it. Async copies go to shared
    memory directly and complete at the barrier of the next step. The last step loads its own tiles again, into the
    buffer that is not read any more: that is cheaper than a branch.

    Args:
        context: Context of the kernel body.
        mode: Mode of emission.
        loops: The loops of the mainloop.
        producers: The nests of its fused producers, each alone in its group.
        compute: Emits the computation of a step.
    """
    copied = [group[0] for group in producers if group[0].stage.func in context.async_copied]
    loaded = [group[0] for group in producers if group[0].stage.func not in context.async_copied]
    tiles = [allocate_register_tiles(context, n, Memory.PRIVATE) for n in loaded]
    statements: list[Stmt] = [Alloc(b) for tile in tiles for b in tile.buffers]
    first_values = dict.fromkeys((p.name for p in loops), 0)
    for n in loaded:
        first, inner = _in_step(context, mode, n, first_values)
        statements += emit_thread_nest(context, inner, (first,))
    statements += _copies(context, mode, copied, first_values)
    steps = _PipelineSteps.over(context, loops)
    current, other = replace(mode, parity=steps.parity), replace(mode, parity=ix.sub(1, steps.parity))

    def step() -> tuple[Stmt, ...]:
        body: list[Stmt] = [*steps.bindings, Barrier(bool(copied))]
        body += _copies(context, other, copied, steps.next_values)
        for n, tile in zip(loaded, tiles, strict=True):
            body += _load(context, mode, n, tile, steps.next_values)
        body += compute(current)
        for n, tile in zip(loaded, tiles, strict=True):
            body += _store(context, other, n, tile, steps.next_values)
        return tuple(body)

    note = f"{', '.join(p.dim for p in loops)}: {steps.count} steps"
    statements.append(block_loop(context, steps.name, steps.count, note, step, binds=[b.name for b in steps.bindings]))
    if copied:  # the last copies must not complete in memory that later stages reuse
        statements.append(Barrier(waits_for_copies=True))
    return tuple(statements)


def _copies(context: KernelContext, mode: EmitMode, copied: Sequence[Nest], values: Values) -> tuple[Stmt, ...]:
    """Return statements that begin the async copies of a step."""
    statements: list[Stmt] = []
    for n in copied:
        nest, inner = _in_step(context, replace(mode, asynchronous=True), n, values)
        statements += emit_thread_nest(context, inner, (nest,))
    return tuple(statements)


def _load(context: KernelContext, mode: EmitMode, n: Nest, tile: RegisterTile, values: Values) -> tuple[Stmt, ...]:
    """Return statements that compute a producer's points of a step in registers."""
    nest, inner = _in_step(context, mode, n, values)
    return emit_thread_nest(context, inner, (nest,), lambda inside: update(context, inside, tile, nest))


def _store(context: KernelContext, mode: EmitMode, n: Nest, tile: RegisterTile, values: Values) -> tuple[Stmt, ...]:
    """Return statements that store a producer's points of a step from registers."""
    nest, inner = _in_step(context, mode, n, values)
    return emit_thread_nest(context, inner, (nest,), lambda inside: store_register_tiles(context, inside, tile, nest))


@dataclass(frozen=True, slots=True)
class _PipelineSteps:
    """One loop in place of all loops of a mainloop.

    Attributes:
        name: The loop variable.
        count: Number of iterations.
        bindings: Statements that bind the loops' values in this step and in the next, and the parity.
        next_values: The loops' values in the next step.
        parity: Number of the buffer that the step reads.
    """

    name: str
    count: int
    bindings: tuple[LetIndex, ...]
    next_values: Values
    parity: ix.Index

    @classmethod
    def over(cls, context: KernelContext, loops: Sequence[NestLoop]) -> _PipelineSteps:
        count = prod(p.extent for p in loops)
        repeated = [p for p in loops if p.extent > 1]
        name = repeated[0].name if len(repeated) == 1 else context.namer("step")
        step = ix.var(name, 0, count - 1)
        next_step = ix.minimum(ix.add(step, 1), count - 1)
        bindings: list[LetIndex] = []
        next_values: dict[str, ix.Index] = {}
        inner = count
        for p in loops:
            inner //= p.extent
            if p.extent == 1:
                continue
            if p.name != name:
                bindings.append(LetIndex(p.name, ix.mod(ix.floordiv(step, inner), p.extent)))
            next_name = context.namer(p.name, "next")
            bindings.append(LetIndex(next_name, ix.mod(ix.floordiv(next_step, inner), p.extent)))
            next_values[p.name] = ix.var(next_name, 0, p.extent - 1)
        parity = context.namer("turn")
        bindings.append(LetIndex(parity, ix.mod(step, 2)))
        return cls(name, count, tuple(bindings), next_values, ix.var(parity, 0, 1 if count > 1 else 0))


def _in_step(context: KernelContext, mode: EmitMode, n: Nest, values: Values) -> tuple[Nest, EmitMode]:
    """Return a producer's nest in another step, and the mode in which its buffer holds the region of that step."""
    func = n.stage.func
    allocation = mode.allocations.get(func, context.plan.allocations[func])
    moved = replace(allocation, base=_substitute(allocation.base, values))
    nest = replace(n, low=_substitute(n.low, values), high=_substitute(n.high, values))
    return nest, replace(mode, allocations={**mode.allocations, func: moved})


def _substitute(box: Mapping[str, ix.Index], values: Values) -> dict[str, ix.Index]:
    return {d: ix.substitute(i, values) for d, i in box.items()}
