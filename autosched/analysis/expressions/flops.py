"""Floating-point operations of a pipeline's expressions, by the convention of papers on stencils.

An addition, subtraction, multiplication, division, remainder, minimum, maximum or call of a function is one operation.
Index arithmetic, comparisons, conversions and changes of sign do not count, nor do expressions of constants and Params,
which have one value for all points. A select costs its more expensive arm, so the boundary of a grid adds nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from autosched.lang.expr import Binary, Call, Expr, Load, RVar, Select, Var, children, postorder
from autosched.lang.pipeline import Pipeline

ARITHMETIC = frozenset({"add", "sub", "mul", "truediv", "floordiv", "mod", "min", "max"})

Costs = dict[int, int | None]
"""Operations below a node, by its ``id``; None for a node with one value for all points."""


def flops_per_point(pipeline: Pipeline) -> dict[str, int]:
    """Return the operations of one evaluation of every Func; shared nodes count once.

    Each definition counts once, whatever the number of its iterations.
    """
    return {
        pipeline.name_of(f): sum(operations_by_type(definition.values).total() for definition in f.definitions)
        for f in pipeline.funcs
    }


def expanded_flops(pipeline: Pipeline) -> dict[str, int]:
    """Return the operations of a point of every output with all Funcs inlined and nothing shared."""
    totals: dict[int, int] = {}  # by the Func's id; an input costs nothing
    for f in pipeline.funcs:  # producers come first
        values = [e for definition in f.definitions for e in definition.values]
        costs = _costs(values, lambda load: totals.get(id(load.source), 0))
        totals[id(f)] = sum(costs[id(e)] or 0 for e in values)
    return {pipeline.name_of(o.func): totals[id(o.func)] for o in pipeline.outputs}


def operations_by_type(values: Sequence[Expr]) -> Counter[str]:
    """Return the operations of one evaluation of some expressions by their type, such as ``float32``.

    Shared nodes count once.
    """
    costs = _costs(values, lambda load: 0)
    count: Counter[str] = Counter()
    seen: set[int] = set()
    stack = list(values)
    while stack:
        e = stack.pop()
        if id(e) in seen or costs[id(e)] is None:
            continue
        seen.add(id(e))
        if _is_operation(e):
            count[e.dtype.name] += 1
        stack.extend([_costlier_arm(e, costs)] if isinstance(e, Select) else _operands(e))
    return count


def _costs(values: Sequence[Expr], read: Callable[[Load], int]) -> Costs:
    """Return the cost of every node below some values without sharing; ``read`` gives the cost of a load."""
    costs: Costs = {}
    for e in postorder(values, costs, _operands):
        below = [costs[id(o)] for o in _operands(e)]
        if isinstance(e, Load):
            costs[id(e)] = read(e)
        elif isinstance(e, Var | RVar) or any(cost is not None for cost in below):
            paid = [cost or 0 for cost in below]
            costs[id(e)] = _is_operation(e) + (max(paid) if isinstance(e, Select) else sum(paid))
        else:
            costs[id(e)] = None
    return costs


def _operands(e: Expr) -> Sequence[Expr]:
    match e:
        case Load():
            return ()
        case Select():
            return (e.t, e.f)
        case _:
            return children(e)


def _is_operation(e: Expr) -> bool:
    return e.dtype.is_float and (isinstance(e, Call) or (isinstance(e, Binary) and e.op in ARITHMETIC))


def _costlier_arm(e: Select, costs: Costs) -> Expr:
    return e.t if (costs[id(e.t)] or 0) >= (costs[id(e.f)] or 0) else e.f
