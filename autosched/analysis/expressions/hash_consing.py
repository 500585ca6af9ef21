"""Structural equality of expressions: equal ones become the same object."""

from __future__ import annotations

from collections.abc import Callable, Hashable

from autosched.lang.expr import (
    Binary,
    Call,
    Cast,
    Const,
    Expr,
    Load,
    Param,
    RVar,
    Select,
    ShapeDim,
    Source,
    Unary,
    Var,
    children,
    postorder,
    rebuild,
)


class Interner:
    """Maps expressions of one definition to representatives: the same object for structurally equal expressions.

    Reduction variables are compared by name, Funcs and Inputs by identity.
    """

    def __init__(self) -> None:
        self._representatives: dict[Hashable, Expr] = {}
        self._done: dict[int, Expr] = {}
        self._keep: list[Expr] = []  # the originals, so that their ids stay unique

    def __call__(self, e: Expr) -> Expr:
        """Return the representative of ``e``."""
        for node in postorder([e], self._done):
            self._done[id(node)] = self.node(rebuild(node, [self._done[id(c)] for c in children(node)]))
            self._keep.append(node)
        return self._done[id(e)]

    def node(self, e: Expr) -> Expr:
        """Return the representative of an expression whose operands are representatives."""
        return self._representatives.setdefault((node_key(e), *map(id, children(e))), e)


def node_key(e: Expr, source: Callable[[Source], Hashable] = id) -> tuple[Hashable, ...]:
    """Return the key of a node without its operands.

    Args:
        e: The node.
        source: Key of a Func or Input.
    """
    match e:
        case Const():
            return "const", repr(e.value), e.dtype, e.weak
        case Var() | RVar() | Param():
            return type(e).__name__, e.name
        case ShapeDim():
            return "ShapeDim", source(e.input), e.axis
        case Load():
            return "Load", source(e.source), e.component
        case Unary() | Binary():
            return e.op, e.dtype, e.weak
        case Select():
            return "Select", e.dtype, e.weak
        case Cast():
            return "Cast", e.dtype
        case Call():
            return "Call", e.name, e.dtype
    raise TypeError(f"no key for {type(e).__name__}")
