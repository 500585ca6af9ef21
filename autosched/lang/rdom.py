"""Reduction domains and the reductions built on them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

from autosched.errors import DSLError
from autosched.lang.dtypes import DType, int32
from autosched.lang.expr import Const, Expr, ExprLike, RVar, Var, binary, rebuild, strong, typed_const, walk, wrap
from autosched.lang.expr import children as expr_children
from autosched.lang.func import Func
from autosched.lang.functions import select
from autosched.lang.location import caller_location

MAX_UNROLLED_POINTS = 16
_order = itertools.count()


class RDom:
    """A box of integers walked in order, the last dimension fastest.

    Args:
        name: Prefix of its loops' names.
        **ranges: Half-open ``dim=(low, high)``, or an extent ``dim=n``; integers, shapes or integer Params.

    Example:
        >>> from autosched import RDom
        >>> r = RDom("r", y=(-1, 2), x=3)
        >>> r.y, r.x
        (r.y, r.x)
    """

    def __init__(self, name: str = "r", **ranges: ExprLike | tuple[ExprLike, ExprLike]) -> None:
        if not name.isidentifier():
            raise DSLError(f"RDom name {name!r} is not an identifier", location=caller_location())
        if not ranges:
            raise DSLError(f"RDom {name!r} needs at least one range", location=caller_location(), hint="RDom(x=(0, 5))")
        self.name = name
        self._vars: dict[str, RVar] = {}
        for dim, bounds in ranges.items():
            low, high = bounds if isinstance(bounds, tuple) else (0, bounds)
            low, high = wrap(low), wrap(high)
            for e in (low, high):
                if any(isinstance(n, Var | RVar) for n in walk(e)) or not e.dtype.is_int:
                    raise DSLError(
                        f"bound {e!r} of {name}.{dim} is not an integer known with the shapes",
                        location=caller_location(),
                    )
            self._vars[dim] = RVar(f"{name}.{dim}", low, high, next(_order))

    @property
    def vars(self) -> tuple[RVar, ...]:
        """Its loops, outermost first."""
        return tuple(self._vars.values())

    def __getattr__(self, dim: str) -> RVar:
        try:
            return self.__dict__["_vars"][dim]  # type: ignore[no-any-return]
        except KeyError:
            raise AttributeError(f"this RDom has no dimension {dim!r}") from None

    def __getitem__(self, axis: int) -> RVar:
        return self.vars[axis]

    def __iter__(self) -> Iterator[RVar]:
        return iter(self.vars)

    def __len__(self) -> int:
        return len(self._vars)

    def __repr__(self) -> str:
        inside = ", ".join(f"{d}=({v.lower!r}, {v.upper!r})" for d, v in self._vars.items())
        return f"RDom({self.name!r}, {inside})"


def _free_vars(e: Expr) -> tuple[Var, ...]:
    found: dict[str, Var] = {}
    for node in walk(e):
        if isinstance(node, Var):
            found.setdefault(node.name, node)
    return tuple(found.values())


def _identity(kind: str, dtype: DType) -> Const:
    if kind in ("sum", "prod"):
        return typed_const(1 if kind == "prod" else 0, dtype)
    low: float = float("-inf") if dtype.is_float else dtype.min_value
    high: float = float("inf") if dtype.is_float else dtype.max_value
    return typed_const(low if kind == "max" else high, dtype)


_COMBINE = {"sum": "add", "prod": "mul", "max": "max", "min": "min"}


def _reduce(kind: str, e: ExprLike, over: RDom, name: str | None, unroll: bool) -> Expr:
    value = strong(wrap(e))
    if value.dtype.kind == "b":
        raise DSLError(f"{kind} of a bool", location=caller_location(), hint="cast(int32, condition) counts")
    if unroll:
        return _unrolled(kind, value, over)
    f = Func(name or kind)
    at: Any = _free_vars(value)
    f[at] = _identity(kind, value.dtype)
    f[at] = binary(_COMBINE[kind], f[at], value)
    result: Expr = f[at]
    return result


def _unrolled(kind: str, value: Expr, over: RDom) -> Expr:
    points = list(itertools.product(*(_constant_range(v) for v in over.vars)))
    if not 0 < len(points) <= MAX_UNROLLED_POINTS:
        raise DSLError(
            f"{kind} over {len(points)} points cannot be unrolled (1 to {MAX_UNROLLED_POINTS} can)",
            location=caller_location(),
            hint="leave out unroll=True",
        )
    terms = [
        substitute(value, {id(v): Const(p, int32, weak=True) for v, p in zip(over.vars, point, strict=True)})
        for point in points
    ]
    result = terms[0]
    for t in terms[1:]:
        result = binary(_COMBINE[kind], result, t)
    return result


def _constant_range(v: RVar) -> range:
    if not (isinstance(v.lower, Const) and isinstance(v.upper, Const)):
        raise DSLError(f"{v.name} has no constant range and cannot be unrolled", location=caller_location())
    return range(int(v.lower.value), int(v.upper.value))


def substitute(e: Expr, table: dict[int, Expr]) -> Expr:
    """Replace nodes by identity (``id(node)`` to the new expression); weak arithmetic folds again."""
    return _substitute(e, lambda n: table.get(id(n)), {})


def substitute_with(e: Expr, rule: Callable[[Expr], Expr | None]) -> Expr:
    """Replace every node for which ``rule`` returns an expression."""
    return _substitute(e, rule, {})


def _substitute(e: Expr, rule: Callable[[Expr], Expr | None], done: dict[int, Expr]) -> Expr:
    known = done.get(id(e))
    if known is None:
        known = rule(e)
        if known is None:
            known = rebuild(e, [_substitute(c, rule, done) for c in expr_children(e)])
        done[id(e)] = known
    return known


def sum(e: ExprLike, over: RDom, *, name: str | None = None, unroll: bool = False) -> Expr:
    """Add ``e`` over a reduction domain, in order, in the type of ``e``; the sum is a Func of its own.

    Args:
        e: What to add.
        over: The domain.
        name: Name of the Func.
        unroll: Write out up to 16 constant points as an expression instead of a Func.
    """
    return _reduce("sum", e, over, name, unroll)


def prod(e: ExprLike, over: RDom, *, name: str | None = None, unroll: bool = False) -> Expr:
    """Multiply ``e`` over a reduction domain; see `sum`."""
    return _reduce("prod", e, over, name, unroll)


def maximum(e: ExprLike, over: RDom, *, name: str | None = None, unroll: bool = False) -> Expr:
    """Return the largest ``e`` over a reduction domain (``-inf`` or the type's minimum if empty); see `sum`."""
    return _reduce("max", e, over, name, unroll)


def minimum(e: ExprLike, over: RDom, *, name: str | None = None, unroll: bool = False) -> Expr:
    """Return the smallest ``e`` over a reduction domain; see `sum`."""
    return _reduce("min", e, over, name, unroll)


def _arg_reduce(kind: str, e: ExprLike, over: RDom, name: str | None) -> tuple[Expr, ...]:
    value = strong(wrap(e))
    f = Func(name or f"arg{kind}")
    at: Any = _free_vars(value)
    first = tuple(strong(v.lower) for v in over.vars)
    f[at] = (*first, _identity(kind, value.dtype))
    current = f[at]
    better = value > current[-1] if kind == "max" else value < current[-1]
    here = tuple(strong(v) for v in over.vars)
    f[at] = tuple(select(better, new, old) for new, old in zip((*here, value), current, strict=True))
    result: tuple[Expr, ...] = f[at]
    return result


def argmax(e: ExprLike, over: RDom, *, name: str | None = None) -> tuple[Expr, ...]:
    """Return ``(coordinates..., value)`` of the first largest ``e``, coordinates as int32 in domain order."""
    return _arg_reduce("max", e, over, name)


def argmin(e: ExprLike, over: RDom, *, name: str | None = None) -> tuple[Expr, ...]:
    """Return ``(coordinates..., value)`` of the first smallest ``e``; see `argmax`."""
    return _arg_reduce("min", e, over, name)
