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
    """Maps expressions of one definition to representatives; two are the same object exactly when written alike.

    Reduction variables are told apart by name, Funcs and Inputs by identity.
    """

    def __init__(self) -> None:
        self._known: dict[Hashable, Expr] = {}
        self._done: dict[int, Expr] = {}
        self._keep: list[Expr] = []  # the originals, as their ids must not be taken by others

    def __call__(self, e: Expr) -> Expr:
        """Return the representative of ``e``."""
        for node in postorder([e], self._done):
            self._done[id(node)] = self.node(rebuild(node, [self._done[id(c)] for c in children(node)]))
            self._keep.append(node)
        return self._done[id(e)]

    def node(self, e: Expr) -> Expr:
        """Return the representative of an expression whose operands are representatives."""
        return self._known.setdefault((node_key(e), *map(id, children(e))), e)


def node_key(e: Expr, source: Callable[[Source], Hashable] = id) -> tuple[Hashable, ...]:
    """Return what tells a node from others with the same operands.

    Args:
        e: The node.
        source: What tells Funcs and Inputs apart.
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
    raise TypeError(f"no structure for {type(e).__name__}")
