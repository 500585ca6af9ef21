"""Fission of an expression: one very large value becomes partial values in Funcs of their own.

    f[y, x] = (g0 + g1 + g2) + g3   ->   f_part[y, x] = g0 + g1
                                         f[y, x] = (f_part[y, x] + g2) + g3

A kernel that needs more registers than a thread has can so become several (Artemis, section VI-B, fission of a stencil
whose single output spills). Each part is an operand of the expression, chosen so that the parts have nearly equal
numbers of operations. Operations keep their order, so results do not change.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.analysis.expressions.hash_consing import Interner
from autosched.analysis.pipeline_rewrites import ExpressionFission
from autosched.analysis.rewrites.rebuild import fresh_name, func_of_value
from autosched.analysis.rewrites.rewrite import apply, build
from autosched.analysis.rewrites.value_extraction import (
    is_operation,
    operands,
    pure_form_error,
    values_of,
    with_extracted,
)
from autosched.errors import BoundsError, ScheduleError
from autosched.lang.expr import Expr, Load, Var, walk
from autosched.lang.rdom import substitute


@dataclass(frozen=True)
class PartialValue:
    """An operand of a value that becomes a Func.

    Attributes:
        nodes: The equal nodes of the expression.
        operations: Its distinct operations.
    """

    nodes: tuple[Expr, ...]
    operations: int


def expression_fission_error(bound: BoundPipeline, fission: ExpressionFission) -> str:
    """Return the reason why a value cannot be split; empty if it can."""
    problem = _form_error(bound, fission)
    if problem:
        return problem
    try:
        apply(bound, fission)
    except BoundsError as e:  # conditions guard reads of the whole definition, but not those of a part
        return f"a part of {fission.func} has no bounds: {str(e).splitlines()[0]}"
    return ""


def _form_error(bound: BoundPipeline, fission: ExpressionFission) -> str:
    problem = pure_form_error(bound, fission.func)
    if problem:
        return problem
    values = bound.pipeline.func(fission.func).definitions[0].values
    if not 0 <= fission.component < len(values):
        return f"{fission.func} has no component {fission.component}: it has {len(values)}"
    if fission.parts < 2:
        return f"a fission of {fission.func} in {fission.parts} parts is none: give at least 2"
    value = values[fission.component]
    found = len(partial_values(value, fission.parts)) + 1
    if found < fission.parts:
        total = sum(map(is_operation, values_of([value])))
        return f"the {total} operations of {fission.func} make {found} parts, not {fission.parts}"
    return ""


def partial_values(value: Expr, parts: int) -> list[PartialValue]:
    """Return the operands that split a value into nearly equal parts, innermost first; fewer if it has no more.

    Args:
        value: A value of a pure definition.
        parts: Number of parts, of which the last is the remaining expression.
    """
    nodes = values_of([value])
    interner = Interner()
    same: dict[int, list[Expr]] = {}
    for node in nodes:
        same.setdefault(id(interner(node)), []).append(node)
    which = {id(node): key for key, equal in same.items() for node in equal}
    result: list[PartialValue] = []
    taken: set[int] = set()  # representatives of the parts so far
    for remaining in range(parts, 1, -1):
        counts = _operation_counts(nodes, which, taken)
        total = counts[which[id(value)]]
        candidates = [
            key for key, (node, *_) in same.items()
            if key not in taken and 0 < counts[key] < total and _is_stored(node)
        ]  # fmt: skip
        if not candidates:
            break
        best = min(candidates, key=lambda key: abs(counts[key] - total / remaining))
        taken.add(best)
        result.append(PartialValue(tuple(same[best]), counts[best]))
    return result


def _is_stored(e: Expr) -> bool:
    """Whether a value can be that of a Func over some dimension."""
    return is_operation(e) and any(isinstance(n, Var) for n in walk(e))


def _operation_counts(nodes: Sequence[Expr], which: dict[int, int], taken: set[int]) -> dict[int, int]:
    """Return the distinct operations of each node by its representative; nodes in ``taken`` have none."""
    masks: dict[int, int] = {}
    for node in nodes:  # operands first
        key = which[id(node)]
        if key in masks:
            continue
        mask = 0
        if key not in taken:
            for operand in operands(node):
                mask |= masks[which[id(operand)]]
            mask |= (1 << len(masks)) if is_operation(node) else 0
        masks[key] = mask
    return {key: mask.bit_count() for key, mask in masks.items()}


@build.register
def _build(fission: ExpressionFission, bound: BoundPipeline) -> BoundPipeline:
    problem = _form_error(bound, fission)
    if problem:
        raise ScheduleError(f"{problem}: remove this fission, or make a new schedule")
    old = bound.pipeline.func(fission.func)
    parts = partial_values(old.definitions[0].values[fission.component], fission.parts)
    reads: dict[int, Expr] = {}
    taken = {*bound.funcs, *bound.inputs}
    for part in parts:  # innermost first, so that later parts read earlier ones
        value = substitute(part.nodes[0], reads)
        new = func_of_value(old, value, fresh_name(f"{fission.func}_part", taken))
        taken.add(new.name)
        reads |= {id(node): Load(new, new.vars, value.dtype) for node in part.nodes}
    return with_extracted(bound, old, reads, fission)
