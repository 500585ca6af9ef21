"""Look up bytes of a table in vectors, in a statement between the lane loops before and after.

C compilers have no vector form of a load at data-dependent places for elements under four bytes, and compute the whole
loop lane by lane. A table of 256 bytes fits in four vectors of AVX-512, which shuffles read.

Rewrite, for 64 lanes:
    for lane: { let v = x[lane]; let t = table[v]; out[lane] = f(t) }
    ->  positions[64], values[64]
        for lane: { let v = x[lane]; positions[lane] = v }
        values = table at positions
        for lane: { let t = values[lane]; out[lane] = f(t) }

Legal if the table has an element for each value of a byte and is not written by the loop.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from autosched.analysis.identifiers import Namer
from autosched.analysis.indices import index as ix
from autosched.lang.dtypes import uint8
from autosched.lower.ir import (
    Alloc,
    Body,
    Buffer,
    BufferRead,
    For,
    Let,
    LetIndex,
    Memory,
    Op,
    Stmt,
    Store,
    TableLookup,
    Value,
)
from autosched.lower.ir_queries import names_in_indices, names_in_value
from autosched.lower.passes.cpu.distribute_lane_loop import Binding
from autosched.lower.passes.cpu.split_scatter_loop import with_operands
from autosched.schedule.cpu_policy import LOOKUP_LANES, TABLE_ELEMENTS


@dataclass(frozen=True)
class _Lookup:
    """A load of a table.

    Attributes:
        name: The name that it binds.
        read: The load.
        first: Element of the table at position 0.
        position: Position in the table, ``uint8``.
    """

    name: str
    read: BufferRead
    first: ix.Index
    position: Value


def has_table_lookups(loop: For) -> bool:
    """Whether `split_table_lookups` applies to a lane loop."""
    return bool(_lookups(loop))


def split_table_lookups(loop: For, namer: Namer) -> Body:
    """Return the statements that replace a lane loop of `LOOKUP_LANES` lanes.

    Args:
        loop: A loop with lookups.
        namer: Returns names that are new in the kernel.
    """
    lookups = _lookups(loop)
    body = [s for s in loop.body if isinstance(s, Binding | Store)]
    bindings = [s for s in body if isinstance(s, Binding)]
    lane = ix.var(loop.name, 0, LOOKUP_LANES - 1)
    allocs: list[Stmt] = []
    puts: list[Stmt] = []
    loads: list[Stmt] = []
    values: dict[str, Stmt] = {}
    for lookup in lookups:
        read = lookup.read
        positions = Buffer(namer(lookup.name, "positions"), uint8, LOOKUP_LANES, Memory.REGISTER)
        row = Buffer(namer(lookup.name, "values"), read.dtype, LOOKUP_LANES, Memory.REGISTER)
        allocs += [Alloc(positions), Alloc(row)]
        puts.append(Store(positions, lane, lookup.position, read.site))
        loads.append(TableLookup(row, read.buffer, lookup.first, positions, read.site))
        values[lookup.name] = Let(lookup.name, BufferRead(row, lane, read.site))
    before = with_operands(set().union(*(names_in_value(lookup.position) for lookup in lookups)), bindings)
    after: list[Stmt] = [values[s.name] if isinstance(s, Let) and s.name in values else s for s in body]
    needed = with_operands(
        set().union(*(_names_of(s) for s in after if isinstance(s, Store))),
        [s for s in after if isinstance(s, Binding)],
    )  # fmt: skip
    first = replace(loop, body=(*(b for b in bindings if b.name in before), *puts))
    last = replace(loop, body=tuple(s for s in after if isinstance(s, Store) or _name(s) in needed))
    return (*allocs, first, *loads, last)


def _lookups(loop: For) -> list[_Lookup]:
    """Return the lookups of a lane loop of straight-line code whose positions depend on no other lookup."""
    if not all(isinstance(s, Binding | Store) for s in loop.body):
        return []
    bindings = [s for s in loop.body if isinstance(s, Binding)]
    inside = {loop.name, *(s.name for s in bindings)}
    written = {s.buffer.name for s in loop.body if isinstance(s, Store)}
    indices: dict[str, ix.Index] = {}
    lookups: list[_Lookup] = []
    for s in bindings:
        if isinstance(s, LetIndex):
            indices[s.name] = ix.substitute(s.index, indices)
        elif isinstance(s.value, BufferRead) and s.value.buffer.name not in written:
            lookup = _lookup_of(s.name, s.value, ix.substitute(s.value.index, indices), inside)
            lookups += [lookup] if lookup else []
    names = {lookup.name for lookup in lookups}
    return [k for k in lookups if not with_operands(names_in_value(k.position), bindings) & names]


def _lookup_of(name: str, read: BufferRead, index: ix.Index, inside: set[str]) -> _Lookup | None:
    """Return the lookup of a load; None if it is none of a whole table.

    Args:
        name: The name that the load binds.
        read: The load.
        index: Its index in names from outside the loop.
        inside: Names bound in the loop.
    """
    chosen = [(t, c) for t, c in ix.terms_of(index) if isinstance(t, ix.Atom) and t.kind == "data"]
    if len(chosen) != 1 or chosen[0][1] != 1 or read.dtype.bytes_ != 1 or read.dtype.kind not in "iu":
        return None
    atom = chosen[0][0]
    assert isinstance(atom, ix.Atom)
    first = ix.sub(index, ix.Affine(((atom, 1),), 0))
    low, high = ix.interval(first)
    position = _byte(atom.payload)
    is_whole = low >= 0 and high + TABLE_ELEMENTS <= read.buffer.count
    if position is None or not is_whole or names_in_indices([first]) & inside:
        return None
    return _Lookup(name, read, first, position)


def _byte(v: Value) -> Value | None:
    """Return an unsigned byte that equals a value; None if the value is something else."""
    if v.dtype == uint8:
        return v
    widens = isinstance(v, Op) and v.name == "cast" and v.dtype.kind in "iu" and v.dtype.bytes_ > 1
    return _byte(v.args[0]) if isinstance(v, Op) and widens else None


def _names_of(s: Store) -> set[str]:
    return names_in_value(s.value) | names_in_indices([s.index])


def _name(s: Stmt) -> str:
    assert isinstance(s, Binding)
    return s.name
