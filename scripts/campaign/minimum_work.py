"""Lower bound of a pipeline's work: bytes through memory, and floating-point operations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.analysis.expressions.flops import ARITHMETIC
from autosched.lang.expr import Binary, Call, Expr, Select, children, postorder
from autosched.runtime.call.signature import output_specs


@dataclass(frozen=True)
class Work:
    """Work that every schedule of a pipeline has to do.

    Attributes:
        bytes: Every input read once, every output written once.
        float32: Operations on float32 and narrower floats, with each required point of a Func computed once.
        float64: Operations on float64.
    """

    bytes: int
    float32: int
    float64: int


def work_of(bound: BoundPipeline) -> Work:
    """Return the least work of a pipeline."""
    moved = sum(prod(i.shape) * i.dtype.bytes_ for i in bound.inputs.values())
    moved += sum(prod(s.shape) * s.dtype.bytes_ for s in output_specs(bound))
    narrow = wide = 0
    for func in bound.funcs.values():
        for stage in func.stages:
            own = {d.name for d in stage.loops}
            points = prod(n for d, n in zip(func.dims, func.extents, strict=True) if d in own)
            points *= prod(d.extent for d in stage.reductions)
            counts = float_operations(stage.values)
            narrow += points * counts[0]
            wide += points * counts[1]
    return Work(moved, narrow, wide)


def float_operations(values: Sequence[Expr]) -> tuple[int, int]:
    """Return the least number of distinct operations of the expressions: on narrow floats and on 64-bit floats.

    A select counts its cheaper arm, as only one arm is needed.
    """
    below: dict[int, frozenset[int]] = {}
    bits: dict[int, int] = {}
    for e in postorder(values, below):
        needed = [below[id(c)] for c in children(e)]
        if isinstance(e, Select):
            *condition, one, other = needed
            needed = [*condition, min(one, other, key=len)]
        found = frozenset().union(*needed)
        if _is_operation(e):
            bits[id(e)] = e.dtype.bits
            found |= {id(e)}
        below[id(e)] = found
    distinct = frozenset().union(*(below[id(v)] for v in values))
    wide = sum(bits[k] == 64 for k in distinct)
    return len(distinct) - wide, wide


def _is_operation(e: Expr) -> bool:
    arithmetic = isinstance(e, Call) or (isinstance(e, Binary) and e.op in ARITHMETIC)
    return arithmetic and e.dtype.is_float
