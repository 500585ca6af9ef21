"""Check against argmin and argmax over an empty domain, which have no coordinates."""

from __future__ import annotations

from autosched.analysis.bound_pipeline import BoundFunc, BoundStage
from autosched.errors import BoundsError
from autosched.lang.expr import Cast, Const, Expr, Load, RVar, Select


def check_argument_reduction(func: BoundFunc) -> None:
    """Raise for an argmin or argmax over an empty domain.

    Raises:
        BoundsError: Naming the Func and the loop without iterations.
    """
    if len(func.stages) != 2 or not _finds_coordinates(*func.stages):
        return
    update = func.stages[1]
    for loop in update.reductions:
        if loop.extent == 0:
            raise BoundsError(
                f"{func.name!r} is an argmin or argmax over nothing: {loop.name} ranges over "
                f"[{loop.lo}, {loop.hi + 1}) for these shapes",
                location=update.location,
                hint="pass larger inputs, or a reduction domain with points; a minimum or maximum over nothing has a "
                "value, but no coordinates",
            )


def _finds_coordinates(pure: BoundStage, update: BoundStage) -> bool:
    """Whether an update replaces a value and its coordinates, which start with the first iteration."""
    loops = update.reductions
    if len(pure.values) != len(loops) + 1 or not loops:
        return False
    if not all(_keeps_component(update, v, k) for k, v in enumerate(update.values)):
        return False
    return all(
        isinstance(v, Select) and _coordinate(v.t) == loop.name and isinstance(first, Const) and first.value == loop.lo
        for loop, v, first in zip(loops, update.values, pure.values, strict=False)
    )


def _keeps_component(update: BoundStage, e: Expr, component: int) -> bool:
    if not isinstance(e, Select) or not isinstance(e.f, Load):
        return False
    return update.names[id(e.f.source)] == update.func and e.f.component == component


def _coordinate(e: Expr) -> str:
    """Return the loop of a loop variable, converted or not; an empty string for other expressions."""
    while isinstance(e, Cast):
        e = e.a
    return e.name if isinstance(e, RVar) else ""
