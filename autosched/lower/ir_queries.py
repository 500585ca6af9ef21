"""Questions about kernel IR that several passes and printers have in common."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from autosched.analysis.identifiers import RESERVED
from autosched.analysis.indices import index as ix
from autosched.lang.dtypes import bool_
from autosched.lower.ir import (
    Alloc,
    Buffer,
    BufferRead,
    CompareIndex,
    ConstValue,
    For,
    If,
    IndexValue,
    KernelIR,
    Let,
    LetIndex,
    LetVector,
    LoopRole,
    Op,
    ShuffleRead,
    Stmt,
    Store,
    Value,
    VarRef,
    indices_of,
    values_of,
    walk,
    walk_values,
)


def reads_in(statements: Iterable[Stmt]) -> list[BufferRead]:
    """Return the loads of statements, those of inner statements excluded."""
    return [v for s in statements for value in values_of(s) for v in walk_values(value) if isinstance(v, BufferRead)]


def boundary_sites(body: Iterable[Stmt]) -> set[int]:
    """Return the numbers of the accesses in the boundary code of blocks and steps."""
    sites: set[int] = set()
    for s in walk(tuple(body)):
        if isinstance(s, If) and s.partition is not None:
            sites.update(site for inner in walk(s.orelse) for site in _sites_of(inner))
    return sites


def _sites_of(s: Stmt) -> Iterator[int]:
    """Yield the numbers of the accesses of a statement, those of inner statements excluded."""
    for node in (s, *(v for value in values_of(s) for v in walk_values(value))):
        yield from (getattr(node, name) for name in node.FIELDS.sites)


def values_in(s: Stmt) -> Iterator[Value]:
    """Yield the values of a statement, those in indices included and those of inner statements excluded."""
    stack = [*values_of(s), *_payloads(s)]
    while stack:
        v = stack.pop()
        yield v
        stack += [*values_of(v), *_payloads(v)]


def _payloads(node: Stmt | Value) -> Iterator[Value]:
    for e in indices_of(node):
        atoms = (t for t in ix.postorder(e) if t.kind in ("data", "select"))
        yield from (t.payload for t in atoms if t.payload is not None)


def thread_loops(loop: For) -> list[For]:
    """Return a thread loop and those directly inside it, outermost first."""
    loops = [loop]
    while len(loops[-1].body) == 1:
        inner = loops[-1].body[0]
        if not isinstance(inner, For) or inner.role is not LoopRole.THREAD:
            break
        loops.append(inner)
    return loops


def access_steps(loop: For) -> Iterator[tuple[Buffer, int]]:
    """Yield the buffer of each load and store in a loop, and the elements by which one iteration moves the access."""
    steps: dict[str, int] = {loop.name: 1}

    def step(e: ix.Index) -> int:
        return sum(c * steps.get(t.name, 0) for t, c in ix.terms_of(e) if isinstance(t, ix.LoopVar))

    for s in walk(loop.body):
        if isinstance(s, LetIndex):
            steps[s.name] = step(s.index)
        yield from ((r.buffer, step(r.index)) for r in reads_in((s,)))
        if isinstance(s, Store):
            yield s.buffer, step(s.index)


def conjuncts(condition: Value) -> Iterator[Value]:
    """Yield the operands of nested ``and`` operations: all of them hold where the condition does."""
    if isinstance(condition, Op) and condition.name == "and":
        for a in condition.args:
            yield from conjuncts(a)
    else:
        yield condition


def conjunction(tests: Sequence[Value]) -> Value:
    """Return the condition that all of one or more tests hold."""
    condition = tests[0]
    for test in tests[1:]:
        condition = Op("and", (condition, test), bool_)
    return condition


def names_used(statements: Iterable[Stmt]) -> set[str]:
    """Return the names that statements read, those of inner statements and indices included."""
    names: set[str] = set()
    for s in walk(tuple(statements)):
        _add_names(s, names)
    return names


def names_in_value(value: Value) -> set[str]:
    """Return the names that a value reads, those in indices included."""
    names: set[str] = set()
    _add_names(value, names)
    return names


def names_in_indices(indices: Iterable[ix.Index]) -> set[str]:
    """Return the names that indices depend on, those in data and conditions included."""
    names: set[str] = set()
    for index in indices:
        _add_index_names(index, names)
    return names


def _add_names(node: Stmt | Value, names: set[str]) -> None:
    stack = [node]
    while stack:
        n = stack.pop()
        if isinstance(n, VarRef):
            names.add(n.name)
            continue
        fields = n.FIELDS
        if fields.values:
            stack += values_of(n)
        if fields.indices:
            for e in indices_of(n):
                _add_index_names(e, names)


def _add_index_names(e: ix.Index, names: set[str]) -> None:
    terms = [t for t, _ in ix.terms_of(e)]
    for t in terms if all(isinstance(t, ix.LoopVar) for t in terms) else ix.atoms(e):
        if isinstance(t, ix.LoopVar):
            names.add(t.name)
        elif t.kind in ("data", "select") and t.payload is not None:
            _add_names(t.payload, names)


def has_loads(index: ix.Index) -> bool:
    """Whether an index contains a load."""
    payloads = (t.payload for t in ix.atoms(index) if isinstance(t, ix.Atom) and t.kind in ("data", "select"))
    return any(isinstance(v, BufferRead) for p in payloads if p is not None for v in walk_values(p))


def kernel_names(kernel: KernelIR) -> set[str]:
    """Return the names that are taken in a kernel: reserved words, parameters, buffers and bound names."""
    names = {*RESERVED, kernel.name, *(n for n, _ in kernel.grid_loops), *(s.name for s in kernel.scalars)}
    names |= {b.name for b in (*kernel.reads, *kernel.writes, *(slot.buffer for slot in kernel.shared))}
    for s in walk(kernel.body):
        if isinstance(s, For | Let | LetIndex | LetVector):
            names.add(s.name)
        elif isinstance(s, Alloc):
            names.add(s.buffer.name)
    return names


def value_key(v: Value) -> Any:
    """Return a hashable key that is equal for equal values; 0.0 and -0.0 have different keys."""
    match v:
        case VarRef():
            return ("ref", v.name)
        case ConstValue():
            return ("constant", repr(v.value), v.dtype.name)
        case BufferRead():
            return ("read", v.buffer.name, ix.key(v.index))
        case ShuffleRead():
            return ("shuffle", v.buffer.name, ix.key(v.index), ix.key(v.lane))
        case IndexValue():
            return ("index", ix.key(v.index), v.dtype.name)
        case CompareIndex():
            return (v.op, ix.key(v.a), ix.key(v.b))
        case Op():
            return (v.name, v.dtype.name, *(value_key(a) for a in v.args))
    return v
