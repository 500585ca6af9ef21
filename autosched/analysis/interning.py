"""Structural equality of expressions: equal ones become the same object."""

from __future__ import annotations

from collections.abc import Hashable

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
    Unary,
    Var,
    children,
    rebuild,
)


class Interner:
    """Maps expressions of one definition to representatives; two are the same object exactly when written alike.

    Reduction variables are told apart by name, Funcs and Inputs by identity.
    """

    def __init__(self) -> None:
        self._known: dict[Hashable, Expr] = {}
        self._done: dict[int, tuple[Expr, Expr]] = {}  # the original too, as its id must not be taken by another

    def __call__(self, e: Expr) -> Expr:
        """Return the representative of ``e``."""
        done = self._done.get(id(e))
        if done is None:
            new = rebuild(e, [self(c) for c in children(e)])
            key = (_head(new), *(id(c) for c in children(new)))
            done = self._done[id(e)] = e, self._known.setdefault(key, new)
        return done[1]


def _head(e: Expr) -> tuple[Hashable, ...]:
    """Return what tells a node from others with the same operands."""
    match e:
        case Const():
            return "const", repr(e.value), e.dtype, e.weak
        case Var() | RVar() | Param():
            return type(e).__name__, e.name
        case ShapeDim():
            return "ShapeDim", id(e.input), e.axis
        case Load():
            return "Load", id(e.source), e.component
        case Unary() | Binary():
            return e.op, e.dtype, e.weak
        case Select():
            return "Select", e.dtype, e.weak
        case Cast():
            return "Cast", e.dtype
        case Call():
            return "Call", e.name, e.dtype
    raise TypeError(f"no structure for {type(e).__name__}")
