"""Generic rewriting of kernel IR: functions applied to the parts of a node, or to all nodes of a tree.

A node that does not change is returned itself, so comparison by ``is`` shows whether a rewrite applied. The parts of a
node follow from its `autosched.lower.ir.NodeFields`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from operator import is_
from typing import Any, TypeVar

from autosched.analysis.indices.index import Index
from autosched.lower.ir import Body, Stmt, Value

Node = TypeVar("Node", bound=Stmt | Value)


def map_parts(
    node: Node,
    *,
    indices: Callable[[Index], Index] | None = None,
    values: Callable[[Value], Value] | None = None,
    bodies: Callable[[Body], Body] | None = None,
    sites: Callable[[int], int] | None = None,
) -> Node:
    """Return a node with functions applied to its own parts: indices, values, access numbers, then bodies.

    Args:
        node: A statement or a value.
        indices: Applied to each index of the node itself.
        values: Applied to each value that a statement computes, or to each operand of a value.
        bodies: Applied to each tuple of inner statements.
        sites: Applied to the number of each access of the node itself.
    """
    fields = node.FIELDS
    changes: dict[str, Any] | None = None
    for names, function in ((fields.indices, indices), (fields.values, values), (fields.sites, sites)):
        if function is None:
            continue
        for name in names:
            part = getattr(node, name)
            mapped = _map_tuple(part, function) if type(part) is tuple else function(part)
            if mapped is not part:
                changes = changes or {}
                changes[name] = mapped
    if bodies is not None:
        for name in fields.bodies:
            body = getattr(node, name)
            if (result := bodies(body)) is not body:
                changes = changes or {}
                changes[name] = result
    return _rebuilt(node, changes) if changes else node


def _map_tuple(parts: tuple[Any, ...], function: Callable[[Any], Any]) -> tuple[Any, ...]:
    """Return mapped parts; the tuple itself if none has changed."""
    mapped = tuple([function(part) for part in parts])
    return parts if all(map(is_, mapped, parts)) else mapped


def _unless_equal(mapped: list[Any], parts: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return mapped parts; the parts themselves if none has changed."""
    if len(mapped) != len(parts):
        return tuple(mapped)
    for k, part in enumerate(parts):
        if mapped[k] is not part:
            return tuple(mapped)
    return parts


def _rebuilt(node: Node, changes: Mapping[str, Any]) -> Node:
    """Return `dataclasses.replace` of a node, in less time: most passes rebuild most nodes."""
    names: tuple[str, ...] = type(node).__match_args__
    return type(node)(*[changes[name] if name in changes else getattr(node, name) for name in names])


def map_statements(body: Body, function: Callable[[Stmt], Stmt | Body]) -> Body:
    """Return statements with a function applied to each, inner statements first.

    Args:
        body: The statements.
        function: Returns the statement, or the statements, in place of one.
    """

    def visit(statements: Body) -> Body:
        mapped: list[Stmt] = []
        for s in statements:
            result = function(map_parts(s, bodies=visit) if s.FIELDS.bodies else s)
            mapped += result if isinstance(result, tuple) else (result,)
        return _unless_equal(mapped, statements)

    return visit(body)


def map_values(value: Value, function: Callable[[Value], Value]) -> Value:
    """Return a value with a function applied to it and to all its operands, operands first."""

    def visit(v: Value) -> Value:
        return function(map_parts(v, values=visit) if v.FIELDS.values else v)

    return visit(value)


def map_indices(node: Node, function: Callable[[Index], Index]) -> Node:
    """Return a node with a function applied to its indices, those of its values included, inner statements excluded."""

    def of_value(v: Value) -> Value:
        return map_parts(v, values=of_value, indices=function)

    return map_parts(node, values=of_value, indices=function)
