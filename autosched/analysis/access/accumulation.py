"""Updates that only accumulate into their own point: ``f[p] = f[p] op value``, in any order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from autosched.analysis.expressions.hash_consing import Interner
from autosched.analysis.indices import index as ix
from autosched.analysis.indices.to_index import to_index
from autosched.lang.dtypes import DType
from autosched.lang.expr import (
    Binary,
    Cast,
    Const,
    Expr,
    Load,
    Param,
    RVar,
    ShapeDim,
    children,
    postorder,
    walk,
)
from autosched.lang.func import Definition, Func
from autosched.lang.operators import to_strong_type, typed_const

OPERATORS = frozenset({"add", "mul", "min", "max", "and", "or", "xor"})
_MODULAR = frozenset({"add", "mul", "and", "or", "xor"})
"""Operators on integers that commute with dropping high bits."""


@dataclass(frozen=True, slots=True)
class Accumulation:
    """An update ``f[p] = f[p] op value`` whose order does not matter, up to rounding of floating-point sums.

    Args:
        operators: Commutative and associative operator of each tuple component, as in `Binary`.
        values: Accumulated value of each component, in the component's type; it does not read the Func.
    """

    operators: tuple[str, ...]
    values: tuple[Expr, ...]


def accumulation(func: Func, definition: Definition) -> Accumulation | None:
    """Return the accumulation of an update, or None for an update of another form.

    ``f[p] = f[p] + a + b`` and integer sums in a wider type than the Func's are accumulations; a selection such as
    argmin's is not.

    Args:
        func: The updated Func.
        definition: One of its updates, bound or unbound.
    """
    if not definition.values or any(_reads(func, i) for i in definition.indices):
        return None
    positions = _Positions()
    point = positions(definition.indices)
    parts = []
    for component, value in enumerate(definition.values):
        own_read = _OwnRead(func, component, positions, point)
        part = own_read.split(value, func.dtypes[component])
        if part is None:
            return None
        parts.append(part)
    return Accumulation(tuple(op for op, _ in parts), tuple(v for _, v in parts))


def accumulation_at(func: Func, component: int, value: Expr, point: Sequence[Expr]) -> tuple[str, Expr] | None:
    """Return operator and value of ``f[point] op value``, or None for another form.

    Args:
        func: The Func.
        component: Number of the tuple component.
        value: The expression, in the component's type; it reads ``f`` once.
        point: Indices of that read.
    """
    positions = _Positions()
    return _OwnRead(func, component, positions, positions(point)).split(value, func.dtypes[component])


def identity(op: str, dtype: DType) -> Const:
    """Return the identity element of an operator."""
    if op in ("add", "or", "xor"):
        return typed_const(False if dtype.kind == "b" else 0, dtype)
    if op == "mul":
        return typed_const(1, dtype)
    if op == "and":
        return typed_const(True if dtype.kind == "b" else dtype.max_value if dtype.kind == "u" else -1, dtype)
    if dtype.is_float:
        return typed_const(float("inf") if op == "min" else float("-inf"), dtype)
    return typed_const(dtype.max_value if op == "min" else dtype.min_value, dtype)


class _Positions:
    """Canonical text of index tuples within one definition."""

    def __init__(self) -> None:
        self._interner = Interner()
        self._memo: dict[int, ix.Index] = {}

    def __call__(self, indices: Sequence[Expr]) -> tuple[str, ...]:
        interned = [self._interner(i) for i in indices]
        for node in (n for i in interned for n in walk(i)):
            name = _free_name(node)
            if name is not None:
                self._memo.setdefault(id(node), ix.var(name, -ix.UNBOUNDED, ix.UNBOUNDED))
        return tuple(ix.key(to_index(i, self._memo)) for i in interned)


def _free_name(e: Expr) -> str | None:
    """Return a name for a node without a constant range in an unbound pipeline; None for other nodes."""
    if isinstance(e, RVar) and not (isinstance(e.lower, Const) and isinstance(e.upper, Const)):
        return e.name
    if isinstance(e, ShapeDim | Param) and e.dtype.is_int:
        return repr(e)
    return None


@dataclass(frozen=True, slots=True)
class _OwnRead:
    """The read of the written point in one component of an update."""

    func: Func
    component: int
    positions: _Positions
    point: tuple[str, ...]

    def split(self, e: Expr, stored: DType) -> tuple[str, Expr] | None:
        """Return the operator and the other operands of the accumulated value."""
        root = e.a if isinstance(e, Cast) else e
        if not isinstance(root, Binary) or root.op not in OPERATORS or root.dtype.kind not in _kinds(root.op):
            return None
        if root.dtype != stored and not _same_modulo(root.op, root.dtype, stored):
            return None
        rest = self._rest(root, root.op, root.dtype)
        if rest is None:
            return None
        value = rest[0]
        for operand in rest[1:]:
            value = Binary(root.op, value, operand, root.dtype)
        return root.op, to_strong_type(value, stored)

    def _rest(self, e: Expr, op: str, dtype: DType) -> list[Expr] | None:
        """Return the operands of a chain of ``op`` except the self-read, which occurs exactly once."""
        reads: dict[int, bool] = {}
        for node in postorder([e], reads):
            self_read = isinstance(node, Load) and node.source is self.func
            reads[id(node)] = self_read or any(reads[id(c)] for c in children(node))
        rest: list[Expr] = []
        while not self._is_own(e, op):
            if not isinstance(e, Binary) or e.op != op or e.dtype != dtype or reads[id(e.a)] == reads[id(e.b)]:
                return None
            e, other = (e.a, e.b) if reads[id(e.a)] else (e.b, e.a)
            rest.append(other)
        return rest[::-1]

    def _is_own(self, e: Expr, op: str) -> bool:
        if isinstance(e, Cast) and e.a.dtype.is_int and op in _MODULAR:
            e = e.a  # to the wider type of the sum, which `split` has checked
        if not isinstance(e, Load) or e.source is not self.func or e.component != self.component:
            return False
        return self.positions(e.indices) == self.point


def _kinds(op: str) -> str:
    """Return the kinds of types on which the operator commutes and associates."""
    return "biu" if op in ("and", "or", "xor") else "iuf"


def _same_modulo(op: str, wide: DType, stored: DType) -> bool:
    """Whether accumulation in ``wide`` with truncation equals accumulation in ``stored``."""
    return op in _MODULAR and wide.is_int and stored.is_int and wide.bits >= stored.bits


def _reads(func: Func, e: Expr) -> bool:
    return any(isinstance(n, Load) and n.source is func for n in walk(e))
