"""Lower bound of a pipeline's work: bytes through memory, and floating-point operations."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod

from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.analysis.expressions.flops import ARITHMETIC
from autosched.lang.expr import Binary, Call, Expr, Load, Select, children, postorder
from autosched.runtime.call.signature import output_specs

_VECTOR_BYTES = 16
_WIDE, _NARROW = 64, 16
_SUMS = ("add", "sub")


@dataclass(frozen=True)
class Work:
    """Work that every schedule of a pipeline has to do.

    Attributes:
        bytes: Every input read once, every output written once.
        float32: Operations on float32 and narrower floats, with each required point of a Func computed once.
        float64: Operations on float64.
        instructions: Instructions of a lane: operations of all types, with a product in a sum fused, and two operations
            on 16 bits or less in one; 16 bytes of the bytes above in one. Indices and coordinates take none.
    """

    bytes: int
    float32: int
    float64: int
    instructions: int = 0


def work_of(bound: BoundPipeline) -> Work:
    """Return the least work of a pipeline."""
    moved = sum(prod(i.shape) * i.dtype.bytes_ for i in bound.inputs.values())
    moved += sum(prod(s.shape) * s.dtype.bytes_ for s in output_specs(bound))
    narrow = wide = 0
    instructions = moved / _VECTOR_BYTES
    for func in bound.funcs.values():
        for stage in func.stages:
            own = {d.name for d in stage.loops}
            points = prod(n for d, n in zip(func.dims, func.extents, strict=True) if d in own)
            points *= prod(d.extent for d in stage.reductions)
            counts = float_operations(stage.values)
            narrow += points * counts[0]
            wide += points * counts[1]
            instructions += points * least_instructions(stage.values)
    return Work(moved, narrow, wide, math.ceil(instructions))


def float_operations(values: Sequence[Expr]) -> tuple[int, int]:
    """Return the least number of distinct operations of the expressions: on narrow floats and on 64-bit floats.

    A select counts its cheaper arm, as only one arm is needed.
    """
    distinct = _needed(values, lambda e: _is_operation(e) and e.dtype.is_float)
    wide = sum(e.dtype.bits == _WIDE for e in distinct)
    return len(distinct) - wide, wide


def least_instructions(values: Sequence[Expr]) -> float:
    """Return the least number of a lane's instructions for the expressions, as counted in `Work`."""
    reads: set[int] = set()
    seen: set[int] = set()
    for e in postorder(values, seen):
        seen.add(id(e))
        if isinstance(e, Load) or any(id(c) in reads for c in children(e)):
            reads.add(id(e))
    distinct = [e for e in _needed(values, _is_operation, with_indices=False) if id(e) in reads]
    sums = [e for e in distinct if isinstance(e, Binary) and e.op in _SUMS]
    fused = {
        id(c): c for e in sums for c in children(e) if isinstance(c, Binary) and c.op == "mul" and c.dtype == e.dtype
    }
    absorbing = sum(any(id(c) in fused for c in children(e)) for e in sums)
    packed = sum(0.5 for e in distinct if e.dtype.bits <= _NARROW)
    return max(len(distinct) - packed - min(len(fused), absorbing), 0.0)


def _needed(values: Sequence[Expr], is_counted: Callable[[Expr], bool], *, with_indices: bool = True) -> list[Expr]:
    """Return the distinct operations that must be computed, the fewest where a select leaves a choice."""
    below: dict[int, frozenset[int]] = {}
    counted: dict[int, Expr] = {}
    for e in postorder(values, below):
        needed = [] if isinstance(e, Load) and not with_indices else [below[id(c)] for c in children(e)]
        if isinstance(e, Select):
            *condition, one, other = needed
            needed = [*condition, min(one, other, key=len)]
        found = frozenset().union(*needed)
        if is_counted(e):
            counted[id(e)] = e
            found |= {id(e)}
        below[id(e)] = found
    return [counted[k] for k in frozenset().union(*(below[id(v)] for v in values))]


def _is_operation(e: Expr) -> bool:
    return isinstance(e, Call) or (isinstance(e, Binary) and e.op in ARITHMETIC)
