"""Work hoisted out of a loop over interleaved points: divisions and functions that its dimension does not change.

    for c: out[n, c] = exp(x[n, c]) / sqrt(v[n])   ->   s = sqrt(v[n]); r = 1 / s; for c: out[n, c] = exp(x[n, c]) by r

A quotient by an invariant divisor costs as much as one by a constant: its reciprocal is hoisted
(`autosched.lower.lower_expressions`). Inlined Funcs are counted as if nothing in them were hoisted.
"""

from __future__ import annotations

from typing import NamedTuple

from autosched.analysis.bound_pipeline import BoundStage
from autosched.analysis.indices import index as ix
from autosched.featurize.instructions.arithmetic_work import UNITS, operation_cost
from autosched.featurize.instructions.float_instructions import DIVISION_BY_CONSTANT, OF_FUNCTIONS, float_instructions
from autosched.lang.dtypes import float32
from autosched.lang.expr import Binary, Call, Const, Expr, Load, children, postorder


class InvariantWork(NamedTuple):
    """Hoisted work of one evaluation.

    Attributes:
        operations: Operations by unit that are hoisted.
        floats: Single-precision instructions that are hoisted.
        saved: Operations by unit that a point does not have any more, as there are reciprocals in place of divisions.
        saved_floats: The same for single-precision instructions.
    """

    operations: tuple[float, ...]
    floats: int = 0
    saved: tuple[float, ...] = (0.0,) * UNITS
    saved_floats: int = 0


def invariant_work(stage: BoundStage, dim: str) -> InvariantWork:
    """Return the work of a pure stage that is hoisted out of its loop over a dimension."""
    varies: dict[int, bool] = {}
    operations, saved, floats, saved_floats = [0.0] * UNITS, [0.0] * UNITS, 0, 0
    for e in postorder(list(stage.values), varies, _operands):
        varies[id(e)] = _varies(stage, e, dim, varies)
        divided = isinstance(e, Binary) and e.op == "truediv" and not isinstance(e.b, Const)
        if not divided and not isinstance(e, Call):
            continue
        unit, weight = operation_cost(e)
        cost = float_instructions(e)
        if not varies[id(e)]:
            operations[unit] += weight
            saved[unit] += weight
            floats += cost
            saved_floats += cost
        elif isinstance(e, Binary) and divided and e.dtype == float32 and not varies[id(e.b)]:
            operations[unit] += weight
            saved[unit] += weight
            floats += OF_FUNCTIONS["truediv"]
            saved_floats += cost - DIVISION_BY_CONSTANT
    return InvariantWork(tuple(operations), floats, tuple(saved), saved_floats)


def _operands(e: Expr) -> tuple[Expr, ...]:
    return () if isinstance(e, Load) or (e.weak and e.dtype.kind == "i") else tuple(children(e))


def _varies(stage: BoundStage, e: Expr, dim: str, varies: dict[int, bool]) -> bool:
    """Whether the value of a node depends on a dimension."""
    if isinstance(e, Load):
        return any(dim in _variables(stage, i) for i in e.indices)
    if e.weak and e.dtype.kind == "i":
        return dim in _variables(stage, e)
    return any(varies[id(o)] for o in _operands(e))


def _variables(stage: BoundStage, e: Expr) -> set[str]:
    """Return the loop variables of an index; of one that depends on data, all of the stage."""
    index = stage.index_of(e)
    if any(isinstance(t, ix.Atom) and t.kind in ("data", "select") for t in ix.atoms(index)):
        return {d.name for d in stage.loops}
    return set(ix.loop_vars(index))
