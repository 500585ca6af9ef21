"""Features of the algorithm, independent of the schedule: operations and access patterns of each stage.

Each stage has a table of 40 rows and 7 columns, as in Adams et al. and Anderson et al. Columns are types (`TYPES`). The
first 24 rows count operations of the stage's expressions, index expressions included, each distinct expression once.
The last 16 rows count accesses by kind (`KINDS`) and pattern (`PATTERNS`). Patterns follow from the Jacobian of the
access: a row for each dimension of the array, a column for each loop of the stage, pure loops first. An access may have
several patterns, or none.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from autosched.analysis.bound_pipeline import BoundPipeline, BoundStage
from autosched.featurize.accesses.accesses import AccessGroup, AccessTable
from autosched.featurize.regions.nest_geometry import Ints
from autosched.lang.dtypes import DType
from autosched.lang.expr import (
    COMPARISONS,
    Binary,
    Call,
    Cast,
    Const,
    Expr,
    Load,
    Param,
    RVar,
    Select,
    Unary,
    Var,
    walk,
)
from autosched.schedule.types import StageId

TYPES = ("bool", "8-bit integer", "16-bit integer", "32-bit integer", "64-bit integer", "float", "double")
"""Columns; integers signed or not, ``float`` with up to 32 bits."""

OPERATIONS: Mapping[str, str] = {
    "const": "literals",
    "cast": "conversions",
    "variable": "Vars and reduction variables",
    "param": "run-time parameters",
    "add": "additions",
    "sub": "subtractions and changes of sign",
    "mod": "remainders",
    "mul": "multiplications",
    "div": "divisions",
    "min": "minima",
    "max": "maxima",
    "eq": "comparisons for equality",
    "ne": "comparisons for inequality",
    "lt": "< and >",
    "le": "<= and >=",
    "and": "logical and bitwise conjunctions",
    "or": "logical and bitwise disjunctions",
    "not": "logical and bitwise negations",
    "select": "selections",
    "input_load": "loads of inputs",
    "func_load": "loads of other Funcs",
    "self_load": "loads of the Func itself, in updates",
    "call": "scalar functions, absolute values, shifts and exclusive disjunctions",
    "shared": "operations whose result is used more than once",
}
"""First rows; an operation counts in the column of its operands (comparisons) or its result (all others)."""

PATTERNS: Mapping[str, str] = {
    "pointwise": "as many dimensions as loops, each index one of the loops, in order",
    "transpose": "as many dimensions as loops, each index one of the loops, in any order",
    "broadcast": "each index one of the loops, and some loops move no index",
    "slice": "each loop is one of the indices, and no loop moves some indices",
}
"""Patterns of an access, constants added to indices aside."""

KINDS = ("func", "self", "input", "store")
"""Kinds of accesses: loads of other Funcs, of the Func itself, of inputs; stores."""

ROWS = (*OPERATIONS, *(f"{pattern}_{kind}" for pattern in PATTERNS for kind in KINDS))
"""Names of all rows."""

_ROW = {name: k for k, name in enumerate(ROWS)}
_BINARY = {"truediv": "div", "floordiv": "div", "and": "and", "or": "or", "gt": "lt", "ge": "le"}
_UNARY = {"neg": "sub", "not": "not"}


def algorithm_features(bound: BoundPipeline, table: AccessTable | None = None) -> dict[StageId, Ints]:
    """Return ``int64[40, 7]`` for each stage of a pipeline that computes anything.

    Args:
        bound: The pipeline.
        table: Its accesses, if a caller has them.
    """
    table = table or AccessTable(bound)
    return {
        StageId(func.name, stage.number): stage_algorithm_features(bound, stage, table)
        for func in bound.funcs.values()
        for stage in func.stages
        if stage.values and not stage.is_empty
    }


def stage_algorithm_features(bound: BoundPipeline, stage: BoundStage, table: AccessTable) -> Ints:
    """Return ``int64[40, 7]`` for one stage that computes anything.

    Args:
        bound: The pipeline.
        stage: One of its stages.
        table: Its accesses.
    """
    counts = np.zeros((len(ROWS), len(TYPES)), np.int64)
    nodes = {id(e): e for root in (*stage.values, *stage.indices) for e in walk(root)}
    for e in nodes.values():
        name = _operation(e, stage, bound)
        if name is None:
            continue
        column = _column(e.a.dtype if isinstance(e, Binary) and e.op in COMPARISONS else e.dtype)
        counts[_ROW[name], column] += 1
        if id(e) in stage.graph.repeated and isinstance(e, Binary | Unary | Select | Cast | Call):
            counts[_ROW["shared"], column] += 1
    access = table.of(stage.func, stage.number, frozenset())
    for groups, store in ((access.loads, False), (access.stores, True)):
        for group in groups:
            kind = "store" if store else _kind(group.source, stage, bound)
            column = _column(_dtype(bound, group))
            for pattern in patterns(jacobian(group, stage)):
                counts[_ROW[f"{pattern}_{kind}"], column] += len(group.offsets)
    return counts


def _operation(e: Expr, stage: BoundStage, bound: BoundPipeline) -> str | None:
    """Return the row in which an expression counts."""
    match e:
        case Const():
            return "const"
        case Cast():
            return "cast"
        case Var() | RVar():
            return "variable"
        case Param():
            return "param"
        case Load():
            return f"{_kind(stage.names[id(e.source)], stage, bound)}_load"
        case Select():
            return "select"
        case Unary():
            return _UNARY.get(e.op, "call")
        case Binary():
            name = _BINARY.get(e.op, e.op)
            return name if name in OPERATIONS else "call"
        case Call():
            return "call"
    return None


def _kind(source: str, stage: BoundStage, bound: BoundPipeline) -> str:
    if source == stage.func:
        return "self"
    return "input" if source in bound.inputs else "func"


def _dtype(bound: BoundPipeline, group: AccessGroup) -> DType:
    if group.source in bound.inputs:
        return bound.inputs[group.source].dtype
    return bound.funcs[group.source].dtypes[group.component]


def _column(dtype: DType) -> int:
    if dtype.kind == "b":
        return 0
    if dtype.is_float:
        return 6 if dtype.bits == 64 else 5
    return {8: 1, 16: 2, 32: 3, 64: 4}[dtype.bits]


def jacobian(group: AccessGroup, stage: BoundStage) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    """Return the change of each index with each loop, ``float64[dims, loops]``; NaN where it is not affine."""
    loops = [d.name for d in stage.loops]
    matrix = np.zeros((len(group.rows), len(loops)))
    for k, row in enumerate(group.rows):
        if row is None:
            matrix[k] = np.nan
            continue
        for name, c in row.coefficients:
            if name in loops:
                matrix[k, loops.index(name)] = c / row.quotient
    return matrix


def patterns(matrix: np.ndarray[tuple[int, int], np.dtype[np.float64]]) -> list[str]:
    """Return the patterns of an access from its matrix (see `PATTERNS`)."""
    if not np.isin(matrix, (0.0, 1.0)).all():
        return []
    rows, columns = matrix.sum(axis=1), matrix.sum(axis=0)
    if (rows > 1).any() or (columns > 1).any():
        return []
    names = []
    dims, loops = matrix.shape
    if dims == loops and (rows == 1).all():
        names = ["transpose"]
        if (matrix == np.eye(dims)).all():
            names.insert(0, "pointwise")
    elif (rows == 1).all() and loops > dims:
        names.append("broadcast")
    elif (columns == 1).all() and dims > loops:
        names.append("slice")
    return names
