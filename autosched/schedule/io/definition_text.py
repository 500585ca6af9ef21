"""A stage's definition as one line of Python, in the unique names that schedules use."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence

from autosched.analysis.bound_pipeline import BoundPipeline, BoundStage
from autosched.analysis.expressions.operation_count import operations
from autosched.analysis.specialise import Specialiser
from autosched.lang.expr import Const, Expr, Load, children, postorder, rebuild
from autosched.lang.func import Func
from autosched.lang.to_text import SYMBOL, expression_text

MAX_NODES = 200
"""Limit on the nodes of a printed expression tree; shared nodes can make a tree exponential, so larger ones are
summarised."""


def definition_text(bound: BoundPipeline, stage: BoundStage) -> str:
    """Return ``name[indices] = value`` with shapes and specialised parameters substituted; ``op=`` for atomics."""
    sign = f"atomic {SYMBOL.get(stage.combine[0], stage.combine[0])}=" if stage.combine else "="
    at = ", ".join("..." if _exceeds([i], MAX_NODES) else _shown(stage, i) for i in _indices(bound, stage))
    target = f"{stage.func}[{at}]" if at else stage.func
    return f"{target} {sign} {_value(bound, stage)}"


def _value(bound: BoundPipeline, stage: BoundStage) -> str:
    if not stage.values:
        return "undef"
    if not _exceeds(stage.values, MAX_NODES):
        return ", ".join(_shown(stage, v) for v in stage.values)
    return f"<{operations(stage)} operations on {', '.join(stage.sources) or 'nothing'}>"


def _indices(bound: BoundPipeline, stage: BoundStage) -> list[Expr]:
    """Return the indices of a stage's store."""
    funcs = (*bound.pipeline.funcs, *bound.keep)
    func = next(f for f in funcs if isinstance(f, Func) and bound.names[id(f)] == stage.func)
    definition = func.definitions[stage.number]
    return list(Specialiser(bound.shapes, bound.specialised).definition(definition).indices)


def _shown(stage: BoundStage, e: Expr) -> str:
    return expression_text(_readable(stage.names, e))


def _readable(names: Mapping[int, str], e: Expr) -> Expr:
    """Return ``e`` with unique names of Funcs, and constants in the shortest form of their type."""
    rebuilt: dict[int, Expr] = {}
    for node in postorder([e], rebuilt):
        rebuilt[id(node)] = _readable_node(names, rebuild(node, [rebuilt[id(c)] for c in children(node)]))
    return rebuilt[id(e)]


def _readable_node(names: Mapping[int, str], e: Expr) -> Expr:
    if isinstance(e, Const) and not e.weak and e.dtype.is_float and e.dtype.bits < 64:
        return Const(e.dtype.shortest(e.value), e.dtype, e.weak)
    if not isinstance(e, Load) or e.source.name == names[id(e.source)]:
        return e
    source = copy.copy(e.source)
    source.name = names[id(e.source)]
    return Load(source, e.indices, e.dtype, e.component)


def _exceeds(roots: Sequence[Expr], limit: int) -> bool:
    """Whether expression trees have more nodes than ``limit``, shared nodes counted each time."""
    pending = list(roots)
    while pending and limit >= 0:
        pending.extend(children(pending.pop()))
        limit -= 1
    return limit < 0
