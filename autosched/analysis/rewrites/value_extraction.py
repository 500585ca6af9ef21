"""Extraction of values: nodes of a pure definition become reads of new Funcs; shared by rewrites of statements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.analysis.pipeline_rewrites import StatementRewrite
from autosched.analysis.rewrites.rebuild import (
    Replacement,
    is_defined,
    rebuild_pipeline,
    rewrite_history,
    with_values,
)
from autosched.lang.expr import Binary, Call, Expr, Load, Select, Unary, children, postorder
from autosched.lang.func import Func


def pure_form_error(bound: BoundPipeline, name: str) -> str:
    """Return the reason why values cannot be taken out of a Func's definition; empty if they can."""
    func = bound.funcs.get(name)
    if func is None or not is_defined(bound, name):
        return f"there is no Func {name!r}"
    if not func.is_pure or func.undefined or func.boundary:
        return f"{name} has updates or a boundary condition; only Funcs with one definition are divided"
    return ""


def operands(e: Expr) -> Sequence[Expr]:
    """Return the operands of a value that are values themselves: indices of loads are none."""
    return () if isinstance(e, Load) else children(e)


def is_operation(e: Expr) -> bool:
    """Whether a node is arithmetic on values, as opposed to a load, a conversion or exact integers of coordinates."""
    return isinstance(e, Binary | Unary | Select | Call) and not e.weak


def values_of(roots: Sequence[Expr]) -> list[Expr]:
    """Return the nodes below some values without those of indices, operands first."""
    done: dict[int, Expr] = {}
    for node in postorder(roots, done, operands):
        done[id(node)] = node
    return list(done.values())


def with_extracted(
    bound: BoundPipeline, func: Func, reads: Mapping[int, Expr], statement: StatementRewrite
) -> BoundPipeline:
    """Return the pipeline after a rewrite of a statement that replaces nodes of a Func, by their ``id``, by reads.

    Raises:
        BoundsError: If a new Func, which is computed over a box, reads outside of an array.
    """
    return with_rewritten(bound, func, with_values(func, reads), statement)


def with_rewritten(bound: BoundPipeline, old: Func, new: Func, statement: StatementRewrite) -> BoundPipeline:
    """Return the pipeline after a rewrite of a statement that replaces a Func by an equal one.

    Raises:
        BoundsError: As `with_extracted`.
    """
    rebuilt = rebuild_pipeline(bound, {old: Replacement(new)}).bound
    history = rewrite_history(bound) | {
        "before_rfactor": bound.before_rfactor or bound,
        "before_statements": bound.before_statements or bound,
        "statements": (*bound.statements, statement),
    }
    return replace(rebuilt, **history)
