"""Compiler optimisations before counting: unrolling and common subexpression elimination."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from autosched.analysis.identifiers import Namer
from autosched.analysis.indices import index as ix
from autosched.lower.ir import (
    BufferRead,
    CompareIndex,
    For,
    If,
    KernelIR,
    LoopRole,
    Op,
    ShuffleRead,
    Stmt,
    Value,
    indices_of,
    values_of,
    walk,
    walk_values,
)
from autosched.lower.ir_queries import kernel_names
from autosched.lower.passes.unroll import unroll
from autosched.measure.simulated.plain import with_vectors, without_vectors
from autosched.measure.simulated.registers import with_values_for_registers

MOST_INSTRUCTIONS = 300
"""Operations up to which the compiler unrolls a loop by default: the threshold of LLVM, on which NVRTC is built, at its
highest level (``UnrollThreshold`` of its loop unrolling pass)."""
MOST_WRITTEN = 1 << 12
"""Most operations of unrolled code for counting, which limits its time."""


def compiled_form(kernel: KernelIR) -> KernelIR:
    """Return a kernel with its unrolled loops as straight-line code.

    Loops without a straight-line form are kept.
    """
    return replace(kernel, body=_Writer(Namer(kernel_names(kernel))).statements(kernel.body))


@dataclass
class _Writer:
    namer: Namer

    def statements(self, body: Sequence[Stmt]) -> tuple[Stmt, ...]:
        return tuple(t for s in body for t in self._statement(s))

    def _statement(self, s: Stmt) -> tuple[Stmt, ...]:
        match s:
            case For(role=LoopRole.THREAD):
                return (replace(s, body=self._nest(s.body)),)
            case For(role=LoopRole.SERIAL | LoopRole.MAINLOOP | LoopRole.UNROLLED):
                written = self._straight((s,)) if s.role is LoopRole.UNROLLED else None
                return (replace(s, body=self.statements(s.body)),) if written is None else written
            case If():
                return (replace(s, then=self.statements(s.then), orelse=self.statements(s.orelse)),)
        return (s,)

    def _nest(self, body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
        """Return a thread nest's statements, as one straight-line piece if possible, so that loops share values."""
        unrolled = tuple(_with_roles(s) if isinstance(s, For) and s.role is not LoopRole.THREAD else s for s in body)
        written = self._straight(unrolled)
        return self.statements(unrolled) if written is None else written

    def _straight(self, body: tuple[Stmt, ...]) -> tuple[Stmt, ...] | None:
        """Return statements as straight-line code; None if they contain other loops.

        None also for guards, out of which no load is moved, so that points share no loads.
        """
        if any(isinstance(s, If) for s in walk(body)) or _size(body) > MOST_WRITTEN:
            return None
        straight = unroll(For("", 1, LoopRole.UNROLLED, without_vectors(body)), self.namer)
        if straight is None:
            return None
        statements = [t for stage in straight.stages for t in stage.statements]
        return with_vectors(with_values_for_registers(statements, self.namer))


def _with_roles(loop: For) -> For:
    """Return a loop with the unrolling of the compiler applied to it and its inner loops."""
    body = tuple(_with_roles(s) if isinstance(s, For) else s for s in loop.body)
    result = replace(loop, body=body)
    innermost = all(s.role is LoopRole.UNROLLED for s in walk(body) if isinstance(s, For))
    if loop.role is not LoopRole.SERIAL or not innermost:
        return result
    variables = frozenset(s.name for s in walk((loop,)) if isinstance(s, For))
    short = loop.extent * (_size(body) + _address_size(body, variables)) <= MOST_INSTRUCTIONS
    return replace(result, role=LoopRole.UNROLLED) if short else result


def _size(body: Sequence[Stmt]) -> int:
    """Return the operations of statements, multiplied by the iterations of unrolled loops."""
    total = 0
    for s in body:
        if isinstance(s, For):
            total += s.extent * _size(s.body)
        elif isinstance(s, If):
            total += 1 + _size(s.then) + _size(s.orelse)
        else:
            total += 1 + sum(_operations(v) for v in values_of(s))
    return total


def _operations(v: Value) -> int:
    if isinstance(v, Op):
        return 1 + sum([_operations(a) for a in v.args])
    return int(isinstance(v, BufferRead | ShuffleRead))


def _address_size(body: Sequence[Stmt], variables: Collection[str]) -> int:
    """Return the operations of guards and of indices over loop variables, multiplied as in `_size`.

    The compiler hoists indices without these variables.
    """
    total = 0
    for s in body:
        values = [w for v in values_of(s) for w in walk_values(v)]
        total += sum(isinstance(w, CompareIndex) for w in values)
        total += sum(_terms(e, variables) for node in (s, *values) for e in indices_of(node))
        if isinstance(s, For):
            total += s.extent * _address_size(s.body, variables)
        elif isinstance(s, If):
            total += _address_size(s.then, variables) + _address_size(s.orelse, variables)
    return total


def _terms(e: ix.Index, variables: Collection[str]) -> int:
    """Return the terms of an index with one of some variables."""
    if not isinstance(e, ix.Affine):
        return 0
    return sum(not ix.loop_vars(ix.Affine(((term, 1),), 0)).keys().isdisjoint(variables) for term, _ in e.terms)
