"""Generic rewriting of kernel IR: functions applied to the parts of a node, or to all nodes of a tree.

A node that does not change is returned itself, so that ``is`` tells whether a rewrite applied. The parts of a node
follow from its `autosched.lower.ir.NodeFields`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
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
    fields, changes = node.FIELDS, dict[str, Any]()
    if indices is not None and fields.indices:
        _map_fields(node, fields.indices, indices, changes)
    if values is not None and fields.values:
        _map_fields(node, fields.values, values, changes)
    if sites is not None and fields.sites:
        _map_fields(node, fields.sites, sites, changes)
    if bodies is not None:
        for name in fields.bodies:
            body = getattr(node, name)
            if (mapped := bodies(body)) is not body:
                changes[name] = mapped
    return _rebuilt(node, changes) if changes else node


def _map_fields(
    node: Stmt | Value, names: Iterable[str], function: Callable[[Any], Any], changes: dict[str, Any]
) -> None:
    for name in names:
        part = getattr(node, name)
        mapped = _unless_equal([function(p) for p in part], part) if isinstance(part, tuple) else function(part)
        if mapped is not part:
            changes[name] = mapped


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
    mapped: list[Stmt] = []
    for s in body:
        result = function(map_parts(s, bodies=lambda inner: map_statements(inner, function)))
        mapped += result if isinstance(result, tuple) else (result,)
    return _unless_equal(mapped, body)


def map_values(value: Value, function: Callable[[Value], Value]) -> Value:
    """Return a value with a function applied to it and to all its operands, operands first."""
    return function(map_parts(value, values=lambda operand: map_values(operand, function)))


def map_indices(node: Node, function: Callable[[Index], Index]) -> Node:
    """Return a node with a function applied to its indices, those of its values included, inner statements excluded."""

    def of_value(v: Value) -> Value:
        return map_parts(v, values=of_value, indices=function)

    return map_parts(node, values=of_value, indices=function)
