"""Rewritten statements, fissions of components and clones as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from autosched.analysis.pipeline_rewrites import (
    ComponentFission,
    ComputationFolding,
    ExpressionFission,
    FuncClone,
    Retiming,
    StatementRewrite,
)
from autosched.schedule.io.strict_json import Node

LARGEST_PARTS = 1 << 10

EXPRESSION_FISSION, FOLDING, RETIMING = "expression fission", "computation folding", "retiming"
_KINDS = {kind: kind for kind in (EXPRESSION_FISSION, FOLDING, RETIMING)}


def write_statement(s: StatementRewrite) -> dict[str, Any]:
    """Return the JSON form of a rewritten statement."""
    match s:
        case ComputationFolding():
            return {"kind": FOLDING, "func": s.func, "number": s.number}
        case Retiming():
            return {"kind": RETIMING, "func": s.func, "dim": s.dim, **_component(s.component)}
        case _:
            return {"kind": EXPRESSION_FISSION, "func": s.func, "parts": s.parts, **_component(s.component)}


def _component(component: int) -> dict[str, int]:
    return {"component": component} if component else {}


def read_statement(node: Node, funcs: Mapping[str, str]) -> StatementRewrite:
    """Return a rewritten statement, without a check of its legality.

    Args:
        node: Its JSON form.
        funcs: Names of the pipeline's Funcs.

    Raises:
        ScheduleError: If a name or value is wrong.
    """
    entries = node.mapping()
    if "kind" not in entries:
        raise node.error(f"lacks its kind: give {' or '.join(map(repr, _KINDS))}")
    kind = entries["kind"].choice(_KINDS, "kind of statement")
    if kind == FOLDING:
        _, func, number = node.fields("kind", "func", "number")
        return ComputationFolding(func.choice(funcs, "Func of the pipeline"), number.integer(0, LARGEST_PARTS))
    optional = [key for key in ("component",) if key in entries]
    _, func, value, *rest = node.fields("kind", "func", "dim" if kind == RETIMING else "parts", *optional)
    name = func.choice(funcs, "Func of the pipeline")
    component = rest[0].integer(0, LARGEST_PARTS) if rest else 0
    if kind == RETIMING:
        return Retiming(name, value.text(), component)
    return ExpressionFission(name, value.integer(2, LARGEST_PARTS), component)


def write_fission(f: ComponentFission) -> dict[str, Any]:
    """Return the JSON form of a fission of components."""
    return {"func": f.func, "groups": [list(group) for group in f.groups]}


def read_fission(node: Node, funcs: Mapping[str, str]) -> ComponentFission:
    """Return a fission of components, without a check of its legality; see `read_statement`."""
    func, groups = node.fields("func", "groups")
    parts = tuple(tuple(k.integer(0, LARGEST_PARTS) for k in group.items()) for group in groups.items())
    return ComponentFission(func.choice(funcs, "Func of the pipeline"), parts)


def write_clone(c: FuncClone) -> dict[str, Any]:
    """Return the JSON form of a clone."""
    return {"func": c.func, "consumers": list(c.consumers)}


def read_clone(node: Node, funcs: Mapping[str, str]) -> FuncClone:
    """Return a clone, without a check of its legality; see `read_statement`."""
    func, consumers = node.fields("func", "consumers")
    names = tuple(name.choice(funcs, "Func of the pipeline") for name in consumers.items())
    return FuncClone(func.choice(funcs, "Func of the pipeline"), names)
