"""Shift the last vector of a lane loop inwards so that no lane is left over (tail strategy `ShiftInwards` of Halide).

A vector of bytes has 64 lanes. Of a row of 1439, compilers compute up to 15 lanes one by one, which takes longer than
the vectors. The last vector begins earlier instead, and lanes of the one before it are computed again.

Rewrite, with n lanes from ``lo`` on:
    for lo <= lane < hi: S(lane)
    ->  if (n >= 64) for strip < (n + 63) / 64: { first = lo + min(64*strip, n - 64); for k < 64: S(first + k) }
        else for lo <= lane < hi: S(lane)

Where lanes look up bytes of a table, each vector does so at once (`split_table_lookups`).

Legal if a second execution of a lane stores the same values: the body reads no array that it writes, and updates
nothing atomically. Loops with lanes a few elements apart stay, as compilers leave the last lanes out of vectors that
would read too far. So do loops with arrays in registers, for sums of whole rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import reduce

from autosched.analysis.identifiers import Namer
from autosched.analysis.indices import index as ix
from autosched.lang.dtypes import bool_
from autosched.lower.ir import (
    Body,
    Buffer,
    CompareIndex,
    For,
    If,
    Let,
    LetIndex,
    LocalScope,
    LoopRole,
    Stmt,
    Store,
    Value,
    indices_of,
    values_of,
    walk,
    walk_values,
)
from autosched.lower.ir_queries import access_steps, has_loads, reads_in
from autosched.lower.passes.cpu.split_table_lookups import has_table_lookups, split_table_lookups
from autosched.schedule import cpu_policy


def shift_tail(loop: Stmt, namer: Namer) -> Body:
    """Return the statements that replace a lane loop; the loop itself where no vector shifts.

    Args:
        loop: A statement; vectors shift in loops with the role VECTOR.
        namer: Returns names that are new in the kernel.
    """
    if not isinstance(loop, For) or loop.role is not LoopRole.VECTOR:
        return (loop,)
    accesses = list(access_steps(loop))
    if any(abs(step) > 1 or buffer.in_registers for buffer, step in accesses) or not _is_repeatable(loop.body):
        return (loop,)
    looks_up = has_table_lookups(loop)
    lanes = cpu_policy.LOOKUP_LANES if looks_up else _vector_lanes(accesses)
    low: ix.Index = reduce(ix.maximum, loop.lower_bounds or (0,))
    count: ix.Index = ix.sub(reduce(ix.minimum, loop.upper_bounds, loop.extent), low)
    least, most = ix.interval(count)
    fits = isinstance(count, int) and lanes and count % lanes == 0
    if not lanes or most < lanes or (fits and not looks_up):
        return (loop,)
    bindings: list[Stmt] = []
    low = _named(low, f"{loop.name}_low", namer, bindings)
    count = _named(count, f"{loop.name}_count", namer, bindings)
    vectors: Stmt = _vectors(loop, low, count, lanes, namer)
    if least < lanes:
        vectors = If(CompareIndex("ge", count, lanes, bool_), (vectors,), (loop,))
    return (LocalScope((*bindings, vectors)),) if bindings else (vectors,)


def _vectors(loop: For, low: ix.Index, count: ix.Index, lanes: int, namer: Namer) -> For:
    """Return the loop over the vectors of ``count`` lanes from ``low`` on."""
    most = -(-loop.extent // lanes)
    strip, first, lane = namer(loop.name), namer(f"{loop.name}_first"), namer(loop.name)
    start = ix.add(low, ix.minimum(ix.scale(ix.var(strip, 0, most - 1), lanes), ix.sub(count, lanes)))
    position = ix.add(ix.var(first, *ix.interval(start)), ix.var(lane, 0, lanes - 1))
    inner = replace(
        loop, name=lane, extent=lanes, body=(LetIndex(loop.name, position), *loop.body), lower_bounds=(),
        upper_bounds=(), comment=f"{loop.comment}, {lanes} of them",
    )  # fmt: skip
    work = split_table_lookups(inner, namer) if has_table_lookups(inner) else (inner,)
    number = ix.floordiv(ix.add(count, lanes - 1), lanes)
    bounds = (number,) if isinstance(number, ix.Affine) else ()
    extent = most if bounds else int(number)
    body = (LetIndex(first, start), *work)
    return For(strip, extent, LoopRole.SERIAL, body, upper_bounds=bounds, comment="the last one shifted inwards")


def _named(e: ix.Index, name: str, namer: Namer, bindings: list[Stmt]) -> ix.Index:
    """Return a number, or a new name that is bound to an index."""
    if isinstance(e, int):
        return e
    name = namer(name)
    bindings.append(LetIndex(name, e))
    return ix.var(name, *ix.interval(e))


def _vector_lanes(accesses: Sequence[tuple[Buffer, int]]) -> int:
    """Return the lanes of a vector of the narrowest element that a loop accesses; 0 if no vector shifts."""
    moving = [buffer.dtype.bytes_ for buffer, step in accesses if step]
    return int(cpu_policy.shifted_lanes(min(moving))) if moving else 0


def _is_repeatable(body: Sequence[Stmt]) -> bool:
    """Whether a second execution of statements stores what the first one has stored."""
    inside = tuple(walk(tuple(body)))
    stores = [s for s in inside if isinstance(s, Store)]
    if not all(isinstance(s, Let | LetIndex | Store | If) for s in inside) or any(s.combine for s in stores):
        return False
    if any(has_loads(index) for s in inside for node in _nodes(s) for index in indices_of(node)):
        return False
    return {s.buffer.name for s in stores}.isdisjoint(r.buffer.name for r in reads_in(inside))


def _nodes(s: Stmt) -> Iterable[Stmt | Value]:
    """Yield a statement and its values, with their operands."""
    yield s
    for value in values_of(s):
        yield from walk_values(value)
