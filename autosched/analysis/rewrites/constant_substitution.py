"""Expressions with constants in place of variables and of entries of tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.analysis.expressions.constant_folding import fold
from autosched.analysis.expressions.hash_consing import Interner
from autosched.analysis.expressions.table_values import table_value
from autosched.lang.dtypes import int32
from autosched.lang.expr import Binary, Cast, Const, Expr, Load, RVar, Select, children, postorder, rebuild
from autosched.lang.operators import typed_const

Reads = Callable[[Load, Sequence[Expr]], Expr | None]
"""Replacement of a load with new indices; None where the load remains."""


class ConstantSubstitution:
    """Substitutes constants in expressions; equal results are the same object.

    Args:
        bound: The pipeline of the tables.
    """

    def __init__(self, bound: BoundPipeline) -> None:
        self._bound = bound
        self._interner = Interner()

    def __call__(self, roots: Sequence[Expr], table: Mapping[int, Expr], reads: Reads) -> tuple[Expr, ...]:
        """Return expressions with other nodes in place of some.

        Args:
            roots: The expressions.
            table: Replacements by ``id`` of the node.
            reads: Replacements of loads.
        """
        done: dict[int, Expr] = {}
        for node in postorder(roots, done):
            operands = [done[id(c)] for c in children(node)]
            new = table.get(id(node))
            if new is None and isinstance(node, Load):
                new = reads(node, operands)
            new = self._folded(node, operands) if new is None else new
            # Definitions have reduction variables of their own, which may have equal names.
            done[id(node)] = new if isinstance(new, RVar) else self._interner.node(new)
        return tuple(done[id(e)] for e in roots)

    def _folded(self, node: Expr, operands: Sequence[Expr]) -> Expr:
        match node:
            case Load():
                entry = self._entry(node, operands)
                return rebuild(node, operands) if entry is None else entry
            case Select() if isinstance(operands[0], Const):
                chosen = operands[1] if operands[0].value else operands[2]
                if chosen.weak == node.weak and chosen.dtype == node.dtype:
                    return chosen
        folded = fold(node, operands)
        return _with_one_constant(rebuild(node, operands) if folded is None else folded)

    def _entry(self, load: Load, indices: Sequence[Expr]) -> Const | None:
        """Return the entry of a table at constant indices, None for other loads."""
        name = self._bound.names.get(id(load.source))
        point = [constant_integer(i) for i in indices]
        if name is None or name not in self._bound.funcs or None in point:
            return None
        value = table_value(self._bound, name, load.component, tuple(i for i in point if i is not None))
        return None if value is None else typed_const(value, load.dtype)


def _with_one_constant(e: Expr) -> Expr:
    """Return an exact integer with one constant for two: ``x + 3`` for ``x + 1 + 2``, and ``x`` for ``x + 0``."""
    shift = _shift(e)
    if shift is None or not isinstance(e, Binary):
        return e
    a, inner = e.a, _shift(e.a)
    if inner is not None and isinstance(a, Binary):
        a, shift = a.a, shift + inner
    if not shift:
        return a
    return Binary("add" if shift > 0 else "sub", a, Const(abs(shift), int32, weak=True), e.dtype, weak=True)


def _shift(e: Expr) -> int | None:
    """Return the constant that is added to an exact integer, None for other expressions."""
    if isinstance(e, Binary) and e.weak and e.a.weak and e.op in ("add", "sub") and e.dtype == int32:
        value = e.b.value if isinstance(e.b, Const) and e.b.weak and e.b.dtype.is_int else None
        return None if value is None else int(value) if e.op == "add" else -int(value)
    return None


def constant_integer(e: Expr) -> int | None:
    """Return the value of an integer constant, None for another expression."""
    if isinstance(e, Cast) and isinstance(e.a, Const) and e.a.dtype.is_int and e.dtype.holds(int(e.a.value)):
        e = e.a
    return int(e.value) if isinstance(e, Const) and e.dtype.is_int else None
