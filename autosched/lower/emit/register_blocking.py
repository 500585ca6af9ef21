"""Register blocking: a thread's points stay in registers over several stages, or over many steps of one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from autosched.analysis.indices import index as ix
from autosched.lower.emit.point_loops import for_each_point, for_whole_tile
from autosched.lower.emit.stage_loops import emit_stage
from autosched.lower.ir import Alloc, Buffer, ConstValue, Memory
from autosched.lower.kernel_context import EmitMode, KernelContext, TileElement
from autosched.schedule.plan import Nest
from autosched.schedule.types import LoopKind

Layout = Mapping[tuple[str, int], int]
"""Stride of each serial loop, by (dimension, points per iteration), in a thread's registers."""


@dataclass(frozen=True, slots=True)
class RegisterTile:
    """A thread's points of a Func in registers: one buffer for each tuple component, all with one layout."""

    func: str
    buffers: tuple[Buffer, ...]
    layout: Layout

    def index(self, n: Nest) -> ix.Index:
        """Return the index of a nest's point in the buffers."""
        total: ix.Index = 0
        for loop in n.inner:
            if loop.kind is LoopKind.SERIAL and loop.extent > 1:
                at = ix.var(loop.name, 0, loop.extent - 1)
                total = ix.add(total, ix.scale(at, self.layout[loop.dim, loop.stride]))
        return total

    def accessed(self, mode: EmitMode, n: Nest) -> EmitMode:
        """Return the mode in which reads of the Func at a nest's point read the tile."""
        return replace(mode, registers={**mode.registers, self.func: TileElement(self.buffers, self.index(n))})


def allocate_register_tiles(context: KernelContext, n: Nest, memory: Memory) -> RegisterTile:
    """Return buffers for a thread's points of the Func that a nest computes; `Alloc` statements are left to callers."""
    layout: dict[tuple[str, int], int] = {}
    count = 1
    for loop in reversed([p for p in n.inner if p.kind is LoopKind.SERIAL and p.extent > 1]):
        layout[loop.dim, loop.stride] = count
        count *= loop.extent
    func = context.bound.funcs[n.stage.func]
    label = context.names[func.name]
    buffers = tuple(
        Buffer(context.namer(label if len(func.dtypes) == 1 else f"{label}_{k}", "r"), d, count, memory)
        for k, d in enumerate(func.dtypes)
    )
    return RegisterTile(func.name, buffers, layout)


def emit_promoted(context: KernelContext, mode: EmitMode, group: Sequence[Nest]) -> None:
    """Emit stages with the thread's points in registers over all of them."""
    tile = allocate_register_tiles(context, group[0], Memory.REGISTER)
    for b in tile.buffers:
        context.builder.append(Alloc(b))
    load_if_read(context, mode, tile, group[0])
    for n in group:
        update(context, mode, tile, n)
    store_register_tiles(context, mode, tile, group[-1])


def clear_register_tiles(context: KernelContext, tile: RegisterTile, n: Nest) -> None:
    """Emit zeros for all points of a thread: with edge padding, points beyond the domain are read and never stored."""

    def clear() -> None:
        for register in tile.buffers:
            zero = ConstValue(register.dtype.scalar(0).item(), register.dtype)
            context.builder.store(register, tile.index(n), zero, tile.func)

    for_whole_tile(context, n, clear)


def load_if_read(context: KernelContext, mode: EmitMode, tile: RegisterTile, first: Nest) -> None:
    """Load the thread's points if the first stage reads them; otherwise the stage overwrites all of them."""
    if tile.func not in first.stage.sources:
        return
    element = tile.index(first)

    def load(at: Mapping[str, ix.Index]) -> None:
        for k, register in enumerate(tile.buffers):
            buffer, index = context.address(mode, tile.func, _point(context, tile, at), k)
            value = context.builder.read(buffer, index, context.names[tile.func], fixed=False)
            context.builder.store(register, element, value, tile.func)

    for_each_point(context, mode, first, load)


def update(context: KernelContext, mode: EmitMode, tile: RegisterTile, n: Nest) -> None:
    """Emit one stage that updates the tile."""
    emit_stage(context, tile.accessed(mode, n), n, in_registers=True)


def read_register_tile(context: KernelContext, mode: EmitMode, tile: RegisterTile, n: Nest) -> None:
    """Emit a stage of another Func, which reads the tile at its own points."""
    emit_stage(context, tile.accessed(replace(mode, target=n.stage.func), n), n)


def store_register_tiles(context: KernelContext, mode: EmitMode, tile: RegisterTile, last: Nest) -> None:
    """Emit stores of the thread's points."""
    element = tile.index(last)

    def store(at: Mapping[str, ix.Index]) -> None:
        for k, register in enumerate(tile.buffers):
            value = context.builder.read(register, element, tile.func, fixed=False)
            context.store(mode, tile.func, _point(context, tile, at), k, value)

    for_each_point(context, mode, last, store)


def _point(context: KernelContext, tile: RegisterTile, at: Mapping[str, ix.Index]) -> list[ix.Index]:
    return [at[d] for d in context.bound.funcs[tile.func].dims]
