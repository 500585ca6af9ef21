"""Predicates of reduction domains: updates that apply only where a condition holds.

An accumulation keeps its form, and takes the identity element elsewhere:

    h[b] = h[b] + v    ->    h[select(p, b, 0)] = h[select(p, b, 0)] + select(p, v, 0)

Any other update stores the old value elsewhere:

    f[i] = v           ->    f[i] = select(p, v, f[i])
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from autosched.lang.dtypes import DType
from autosched.lang.expr import (
    COMPARISONS,
    Binary,
    Cast,
    Const,
    Expr,
    Load,
    RVar,
    ShapeDim,
    Source,
    children,
    postorder,
    rebuild,
    walk,
)
from autosched.lang.functions import all_of, select
from autosched.lang.operators import to_strong_type, typed_const

_FOLDED = frozenset({"add", "sub", "mul", "min", "max", "and", "or", "xor"})


def predicate_of(roots: Sequence[Expr], also: Sequence[RVar] = ()) -> Expr | None:
    """Return the conjunction of the predicates of all reduction loops in some expressions, None without any.

    Args:
        roots: The expressions.
        also: Further loops.
    """
    predicates: dict[int, Expr] = {}
    pending: list[Expr] = [*also, *roots]
    while pending:
        loops = dict.fromkeys(n for n in walk(*pending) if isinstance(n, RVar))
        pending = [p for r in loops for p in r.predicates if id(p) not in predicates]
        predicates |= {id(p): p for p in pending}
    return all_of(*predicates.values()) if predicates else None


def neutral_element(op: str, dtype: DType) -> Const:
    """Return the ``e`` with ``x op e`` equal to ``x`` bit for bit, zeros of both signs included.

    Args:
        op: One of ``add sub mul min max and or xor``.
        dtype: Type of ``x``.
    """
    if op == "add" and dtype.is_float:
        return typed_const(-0.0, dtype)  # 0.0 would turn -0.0 into 0.0
    if op == "mul":
        return typed_const(1, dtype)
    if op == "and":
        return typed_const(True if dtype.kind == "b" else dtype.max_value if dtype.kind == "u" else -1, dtype)
    if op in ("min", "max") and dtype.is_float:
        return typed_const(float("inf") if op == "min" else float("-inf"), dtype)
    if op in ("min", "max"):
        return typed_const(dtype.max_value if op == "min" else dtype.min_value, dtype)
    return typed_const(False if dtype.kind == "b" else 0, dtype)


def masked_update(
    source: Source, indices: tuple[Expr, ...], values: Sequence[Expr], predicate: Expr
) -> tuple[tuple[Expr, ...], tuple[Expr, ...]]:
    """Return indices and values of an update that leaves its Func as it is where a predicate fails.

    Indices whose range may follow from the predicate are 0 where it fails.

    Args:
        source: The updated Func.
        indices: The point that is written.
        values: One value for each component, in its type.
        predicate: The condition.
    """
    safe = tuple(select(predicate, i, 0) if _is_compared(i, predicate) else i for i in indices)
    masked = []
    for k, value in enumerate(values):
        update = _MaskedValue(source, k, indices, safe, predicate)
        value = update.at_safe_point(value)
        own = Load(source, safe, value.dtype, k)
        folded = update.folded(value)
        masked.append(select(predicate, value, own) if folded is None else folded)
    return safe, tuple(masked)


def _is_compared(index: Expr, predicate: Expr) -> bool:
    """Whether an index depends on data, and the predicate compares that data or coordinates at which it is read."""
    loads = {id(n.source) for n in walk(index) if isinstance(n, Load)}
    loops = {id(n) for n in walk(index) if isinstance(n, RVar)}
    for c in (n for n in walk(predicate) if loads and isinstance(n, Binary) and n.op in COMPARISONS):
        sources = {id(n.source) for n in walk(c) if isinstance(n, Load)}
        if sources & loads or (not sources and any(id(n) in loops for n in walk(c))):
            return True
    return False


@dataclass(frozen=True, slots=True)
class _MaskedValue:
    """One component of an update."""

    source: Source
    component: int
    indices: tuple[Expr, ...]
    safe: tuple[Expr, ...]
    predicate: Expr

    def at_safe_point(self, e: Expr) -> Expr:
        """Return a value whose reads of the written point have its new indices."""
        if all(a is b for a, b in zip(self.indices, self.safe, strict=True)):
            return e
        done: dict[int, Expr] = {}
        for node in postorder([e], done):
            if isinstance(node, Load) and node.source is self.source and _all_same(node.indices, self.indices):
                done[id(node)] = Load(node.source, self.safe, node.dtype, node.component)
            else:
                done[id(node)] = rebuild(node, [done[id(c)] for c in children(node)])
        return done[id(e)]

    def folded(self, e: Expr) -> Expr | None:
        """Return an accumulation of the neutral element where the predicate fails; None for another form."""
        reads: dict[int, bool] = {}
        for node in postorder([e], reads):
            own = isinstance(node, Load) and node.source is self.source
            reads[id(node)] = own or any(reads[id(c)] for c in children(node))
        path: list[Binary | Cast] = []  # from the value down to the read of the written point
        while isinstance(e, Binary | Cast):
            path.append(e)
            if isinstance(e, Binary):
                first, second = reads[id(e.a)], reads[id(e.b)]
                if e.op not in _FOLDED or e.weak or first == second or (second and e.op == "sub"):
                    return None
                e = e.a if first else e.b
            else:
                e = e.a
        is_own = isinstance(e, Load) and e.source is self.source and e.component == self.component
        if not is_own or not isinstance(e, Load) or not _all_same(e.indices, self.safe):
            return None
        result: Expr = e
        for outer in reversed(path):
            result = Cast(result, outer.dtype) if isinstance(outer, Cast) else self._masked(outer, result, reads)
        return result

    def _masked(self, e: Binary, kept: Expr, reads: Mapping[int, bool]) -> Expr:
        """Return an operation of the accumulation with a masked term."""
        first = reads[id(e.a)]
        term = to_strong_type(e.b if first else e.a, e.dtype)
        term = select(self.predicate, term, neutral_element(e.op, e.dtype))
        return Binary(e.op, kept, term, e.dtype) if first else Binary(e.op, term, kept, e.dtype)


def _all_same(a: Sequence[Expr], b: Sequence[Expr]) -> bool:
    return all(_is_same(p, q) for p, q in zip(a, b, strict=True))


def _is_same(a: Expr, b: Expr) -> bool:
    """Whether two expressions have the same structure."""
    compared: set[tuple[int, int]] = set()
    stack = [(a, b)]
    while stack:
        p, q = stack.pop()
        if p is q or (id(p), id(q)) in compared:
            continue
        compared.add((id(p), id(q)))
        below = children(p), children(q)
        if type(p) is not type(q) or len(below[0]) != len(below[1]) or _head(p) != _head(q):
            return False
        stack.extend(zip(*below, strict=True))
    return True


def _head(e: Expr) -> tuple[object, ...]:
    """Return the attributes of a node besides its operands."""
    if isinstance(e, Const):
        return repr(e.value), e.dtype, e.weak
    if isinstance(e, Load):
        return id(e.source), e.component
    if isinstance(e, ShapeDim):
        return id(e.input), e.axis
    if isinstance(e, RVar):
        return (id(e),)
    return getattr(e, "op", ""), getattr(e, "name", ""), e.dtype, e.weak
