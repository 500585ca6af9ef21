"""A thread's points held in registers while several stages, or many steps of one, update them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from autosched.analysis.indices import index as ix
from autosched.lower.ir import Alloc, Buffer, ConstValue, Memory, Store
from autosched.schedule.plan import Nest
from autosched.schedule.types import LoopKind

if TYPE_CHECKING:
    from autosched.lower.emit.thread_nest import ThreadNestEmitter

Layout = Mapping[tuple[str, int], int]
"""Stride of each serial loop, by (dimension, points per iteration), in a thread's registers."""


@dataclass(frozen=True, slots=True)
class RegisterTile:
    """The points of a Func that a thread holds: one buffer for each tuple component, all with one layout."""

    func: str
    buffers: tuple[Buffer, ...]
    layout: Layout

    def index(self, n: Nest) -> ix.Index:
        """Return where a nest's point is held."""
        total: ix.Index = 0
        for loop in n.inner:
            if loop.kind is LoopKind.SERIAL and loop.extent > 1:
                at = ix.var(loop.name, 0, loop.extent - 1)
                total = ix.add(total, ix.scale(at, self.layout[loop.dim, loop.stride]))
        return total


def allocate_register_tiles(nests: ThreadNestEmitter, n: Nest, memory: Memory) -> RegisterTile:
    """Return room for a thread's points of the Func that a nest computes a stage of."""
    layout: dict[tuple[str, int], int] = {}
    count = 1
    for loop in reversed([p for p in n.inner if p.kind is LoopKind.SERIAL and p.extent > 1]):
        layout[loop.dim, loop.stride] = count
        count *= loop.extent
    func = nests.body.bound.funcs[n.stage.func]
    label = nests.body.names[func.name]
    buffers = tuple(
        Buffer(nests.body.namer(label if len(func.dtypes) == 1 else f"{label}_{k}", "r"), d, count, memory)
        for k, d in enumerate(func.dtypes)
    )
    return RegisterTile(func.name, buffers, layout)


def emit_promoted(nests: ThreadNestEmitter, group: Sequence[Nest]) -> None:
    """Emit stages with the thread's points in registers over all of them."""
    held = allocate_register_tiles(nests, group[0], Memory.REGISTER)
    for b in held.buffers:
        nests.out.append(Alloc(b))
    load_if_read(nests, held, group[0])
    for n in group:
        update(nests, held, n)
    store_register_tiles(nests, held, group[-1])


def clear_register_tiles(nests: ThreadNestEmitter, held: RegisterTile, n: Nest) -> None:
    """Give all points of a thread a value, so that those beyond the domain have one, which nobody will see."""

    def clear() -> None:
        for register in held.buffers:
            zero = ConstValue(register.dtype.numpy.type(0).item(), register.dtype)
            nests.out.append(Store(register, held.index(n), zero, nests.out.new_site(nests.out.scope.depth)))

    nests.for_whole_tile(n, clear)


def load_if_read(nests: ThreadNestEmitter, held: RegisterTile, first: Nest) -> None:
    """Read the thread's points if the first stage does; otherwise it overwrites every one of them."""
    if held.func in first.stage.sources:
        nests.for_each_point(first, lambda at: _fetch(nests, held, first, at))


def update(nests: ThreadNestEmitter, held: RegisterTile, n: Nest) -> None:
    """Emit one stage on the points that are held."""
    nests.body.accumulators[held.func] = (held.buffers, held.index(n))
    nests.stage(n, held.buffers)
    del nests.body.accumulators[held.func]


def read_register_tile(nests: ThreadNestEmitter, held: RegisterTile, n: Nest) -> None:
    """Emit a stage of another Func, which reads the points that are held where it computes its own."""
    outer, nests.body.writing = nests.body.writing, n.stage.func
    nests.body.accumulators[held.func] = (held.buffers, held.index(n))
    nests.stage(n, None)
    del nests.body.accumulators[held.func]
    nests.body.writing = outer


def store_register_tiles(nests: ThreadNestEmitter, held: RegisterTile, last: Nest) -> None:
    """Store the thread's points."""
    nests.for_each_point(last, lambda at: _store(nests, held, last, at))


def _fetch(nests: ThreadNestEmitter, held: RegisterTile, n: Nest, at: Mapping[str, ix.Index]) -> None:
    own = held.index(n)
    for k, register in enumerate(held.buffers):
        buffer, flat = nests.body.address(held.func, _point(nests, held, at), k)
        if buffer.memory is Memory.GLOBAL:
            nests.body.used.setdefault(buffer.name, buffer)
        value = nests.out.read(buffer, flat, nests.body.names[held.func], fixed=False)
        nests.out.append(Store(register, own, value, nests.out.new_site(nests.out.scope.depth)))


def _store(nests: ThreadNestEmitter, held: RegisterTile, n: Nest, at: Mapping[str, ix.Index]) -> None:
    own = held.index(n)
    for k, register in enumerate(held.buffers):
        buffer, flat = nests.body.address(held.func, _point(nests, held, at), k)
        nests.store(buffer, flat, nests.out.read(register, own, held.func, fixed=False), held.func)


def _point(nests: ThreadNestEmitter, held: RegisterTile, at: Mapping[str, ix.Index]) -> list[ix.Index]:
    return [at[d] for d in nests.body.bound.funcs[held.func].dims]
