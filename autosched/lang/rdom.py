"""Reduction domains and the reductions built on them."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from typing import Any

from autosched.errors import DSLError
from autosched.lang.definition_checks import known_range
from autosched.lang.dtypes import DType, bool_, int32
from autosched.lang.expr import Const, Expr, ExprLike, RVar, Var, check_name, children, postorder, rebuild, walk
from autosched.lang.func import Func
from autosched.lang.functions import select
from autosched.lang.operators import as_expr, binary, to_strong_type, typed_const, with_default_type
from autosched.lang.predicates import neutral_element, predicate_of
from autosched.lang.source_location import caller_location

MAX_UNROLLED_POINTS = 16
_order = itertools.count()


class RDom:
    """A box of integers iterated in order, the last dimension fastest.

    An update runs the loops that it uses; `sum` and the other reductions run all of them.

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
        check_name(name, "RDom")
        if not ranges:
            raise DSLError(f"RDom {name!r} needs at least one range", location=caller_location(), hint="RDom(x=(0, 5))")
        self.name = name
        self._vars: dict[str, RVar] = {}
        for dim, given in ranges.items():
            check_name(dim, f"dimension of RDom {name!r}:")
            if hasattr(type(self), dim) or dim in self.__dict__:
                raise DSLError(f"a dimension of RDom {name!r} cannot be named {dim!r}", location=caller_location())
            pair = given if isinstance(given, tuple | list) else (0, given)
            low, high = known_range(pair, f"{name}.{dim}")
            self._vars[dim] = RVar(f"{name}.{dim}", low, high, next(_order))

    def where(self, condition: ExprLike) -> None:
        """Restrict the domain to the points where a condition holds, which may depend on data.

        Updates and reductions written afterwards apply only there. Each loop still runs over its whole range. The
        condition guards reads, as that of `select`, and bounds the indices of an update. With several conditions, all
        must hold. Without such a point, `argmax` and `argmin` give the first point of the domain.

        Args:
            condition: A bool expression. Of the Vars, it may have those of the Funcs that are updated.

        Raises:
            DSLError: If it is no bool.

        Example:
            >>> from autosched import Func, Input, RDom, Var, int32
            >>> labels, i = Input("labels", int32, 1), Var("i")
            >>> r = RDom("r", x=labels.shape[0])
            >>> r.where((labels[r.x] >= 0) & (labels[r.x] < 10))
            >>> count = Func("count")
            >>> count[i] = 0
            >>> count[labels[r.x]] += 1
        """
        predicate = as_expr(condition)
        if predicate.dtype != bool_:
            raise DSLError(
                f"the condition of RDom {self.name!r} has type {predicate.dtype}, not bool", location=caller_location()
            )
        for r in self.vars:
            r.predicates.append(predicate)

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


def reduction_identity(kind: str, dtype: DType) -> Const:
    """Return the value of a reduction (``sum``, ``prod``, ``min`` or ``max``) over nothing."""
    if kind in ("sum", "prod"):
        return typed_const(1 if kind == "prod" else 0, dtype)
    low: float = float("-inf") if dtype.is_float else dtype.min_value
    high: float = float("inf") if dtype.is_float else dtype.max_value
    return typed_const(low if kind == "max" else high, dtype)


OPERATOR_OF = {"sum": "add", "prod": "mul", "max": "max", "min": "min"}
"""Operator of each reduction."""


def _reduce(kind: str, e: ExprLike, over: RDom, name: str | None, unroll: bool) -> Expr:
    if not isinstance(over, RDom):
        hint = f"pass over=RDom(...); the {kind} of two values is {kind}(a, b)" if kind in ("min", "max") else ""
        raise DSLError(
            f"the domain of a {kind} is a value of type {type(over).__name__}",
            location=caller_location(),
            hint=hint or "pass over=RDom(...)",
        )
    value = with_default_type(as_expr(e))
    if value.dtype.kind == "b":
        raise DSLError(f"{kind} of a bool", location=caller_location(), hint="cast(int32, condition) counts")
    value = _masked(kind, value, over)
    if unroll:
        return _unrolled(kind, value, over)
    f = Func(name or kind)
    value, at, where = _as_function(value, over)
    f[at] = reduction_identity(kind, value.dtype)
    f._add_update(at, binary(OPERATOR_OF[kind], f[at], value), over.vars, caller_location(), predicated=False)
    result: Expr = f[where]
    return result


def _masked(kind: str, value: Expr, over: RDom) -> Expr:
    """Return terms of a reduction that do not change its result where the domain's predicate fails."""
    predicate = predicate_of((), over.vars)
    if predicate is None:
        return value
    return select(predicate, value, neutral_element(OPERATOR_OF[kind], value.dtype))


def _as_function(value: Expr, over: RDom) -> tuple[Expr, Any, Any]:
    """Return ``value`` as a function of Vars and the domain's loops, those Vars, and the point that the caller reads.

    Loops of other domains, over which the caller iterates, become Vars.
    """
    free: dict[str, Expr] = {}
    outer: dict[int, Expr] = {}
    inner = {id(r) for r in over}
    nodes = list(walk(value))
    for v in nodes:
        if isinstance(v, Var):
            free.setdefault(v.name, v)
    for r in nodes:
        if isinstance(r, RVar) and id(r) not in inner:
            label = r.name.replace(".", "_")
            while label in free:
                label += "_"
            free[label] = r
            outer[id(r)] = Var(label)
    return substitute(value, outer), tuple(Var(label) for label in free), tuple(free.values())


def _unrolled(kind: str, value: Expr, over: RDom) -> Expr:
    points = list(itertools.product(*(_constant_range(v) for v in over.vars)))
    if not points:
        return reduction_identity(kind, value.dtype)
    if len(points) > MAX_UNROLLED_POINTS:
        raise DSLError(
            f"{kind} over {len(points)} points cannot be unrolled (up to {MAX_UNROLLED_POINTS} can)",
            location=caller_location(),
            hint="leave out unroll=True",
        )
    terms = [
        substitute(value, {id(v): Const(p, int32, weak=True) for v, p in zip(over.vars, point, strict=True)})
        for point in points
    ]
    result = terms[0]
    for t in terms[1:]:
        result = binary(OPERATOR_OF[kind], result, t)
    return result


def _constant_range(v: RVar) -> range:
    if not (isinstance(v.lower, Const) and isinstance(v.upper, Const)):
        raise DSLError(f"{v.name} has no constant range and cannot be unrolled", location=caller_location())
    return range(int(v.lower.value), int(v.upper.value))


def substitute(e: Expr, table: Mapping[int, Expr]) -> Expr:
    """Replace nodes by identity: ``table`` maps ``id(node)`` to the new expression."""
    done = dict(table)
    for node in postorder([e], done):
        done[id(node)] = rebuild(node, [done[id(c)] for c in children(node)])
    return done[id(e)]


def sum(e: ExprLike, over: RDom, *, name: str | None = None, unroll: bool = False) -> Expr:
    """Add ``e`` over a reduction domain, in order, in the type of ``e``; the sum is a Func of its own.

    Args:
        e: The terms.
        over: The domain.
        name: Name of the Func.
        unroll: Return an expression of up to 16 constant points instead of a Func.
    """
    return _reduce("sum", e, over, name, unroll)


def prod(e: ExprLike, over: RDom, *, name: str | None = None, unroll: bool = False) -> Expr:
    """Multiply ``e`` over a reduction domain; see `sum`."""
    return _reduce("prod", e, over, name, unroll)


def maximum(e: ExprLike, over: RDom, *, name: str | None = None, unroll: bool = False) -> Expr:
    """Return the largest ``e`` over a reduction domain (``-inf`` or the type's minimum if empty); see `sum`.

    NaN if any is NaN. The sign of a zero and the payload of a NaN are those of the first one. Schedules that factor
    the reduction, or reduce it across a warp, leave both open.
    """
    return _reduce("max", e, over, name, unroll)


def minimum(e: ExprLike, over: RDom, *, name: str | None = None, unroll: bool = False) -> Expr:
    """Return the smallest ``e`` over a reduction domain; see `maximum`."""
    return _reduce("min", e, over, name, unroll)


def _arg_reduce(kind: str, e: ExprLike, over: RDom, name: str | None) -> tuple[Expr, ...]:
    value = with_default_type(as_expr(e))
    if value.dtype.kind == "b":
        raise DSLError(f"arg{kind} of a bool", location=caller_location(), hint="cast it to uint8")
    value = _masked(kind, value, over)
    f = Func(name or f"arg{kind}")
    value, at, where = _as_function(value, over)
    first = tuple(to_strong_type(v.lower, int32) for v in over.vars)
    f[at] = (*first, reduction_identity(kind, value.dtype))
    current = f[at]
    better = _is_better(kind, value, current[-1])
    here = tuple(with_default_type(v) for v in over.vars)
    chosen = tuple(select(better, new, old) for new, old in zip((*here, value), current, strict=True))
    f._add_update(at, chosen, (), caller_location(), predicated=False)
    result: tuple[Expr, ...] = f[where]
    return result


def _is_better(kind: str, value: Expr, kept: Expr) -> Expr:
    """Return whether a value replaces the current one; a NaN replaces every number, and no other NaN."""
    if not value.dtype.is_float:
        return value > kept if kind == "max" else value < kept
    return ~(value <= kept if kind == "max" else value >= kept) & binary("eq", kept, kept)


def argmax(e: ExprLike, over: RDom, *, name: str | None = None) -> tuple[Expr, ...]:
    """Return ``(coordinates..., value)`` of the first largest ``e``, coordinates as int32 in domain order.

    As in NumPy, the first NaN counts as the largest and as the smallest. Binding shapes that leave the domain empty
    raises `BoundsError`.
    """
    return _arg_reduce("max", e, over, name)


def argmin(e: ExprLike, over: RDom, *, name: str | None = None) -> tuple[Expr, ...]:
    """Return ``(coordinates..., value)`` of the first smallest ``e``; see `argmax`."""
    return _arg_reduce("min", e, over, name)
