"""Reductions of conditions in straight-line code, which gcc 12 and 13 vectorise wrongly.

    n = (unsigned char)((unsigned char)(a[0] == 3) + (unsigned char)(a[1] == 3) + ...)

Basic-block (SLP) vectorisation of gcc 12 replaces the operands of such a sum by the vector of their comparisons, whose
lanes are 0 and -1, and omits the conversion to 0 and 1 (PR 114231, fixed in gcc 14). Sums, minima and maxima are
affected. Operands need not be written as conditions: gcc derives ``x != 0`` from ``min(x, 1)`` and from conversions to
floating point and back, and operands may reach the sum by way of arrays that become registers. Kernels that may contain
both are compiled without this vectorisation; loops are still vectorised.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from autosched.analysis.bound_pipeline import BoundStage
from autosched.analysis.indices import index as ix
from autosched.lang.expr import Binary, Call, Cast, Expr, Load, Select, Unary, children, walk
from autosched.lower import ir
from autosched.lower.ir import ConstValue, IndexValue, KernelIR, Op, Stmt, Store, Value, WarpReduce
from autosched.lower.ir_queries import values_in
from autosched.lower.passes.cpu.boolean_index import HIDDEN
from autosched.lower.passes.cpu.converted_integers import CONVERTED

_REDUCED = frozenset({"add", "sub", "min", "max", "and", "or", "xor"})
"""Operators whose chains gcc reduces; a difference is a sum."""
_LINEAR = frozenset({"add", "sub", "mul", "neg", "and", "or", "xor", "not", "shl", "shr", "fptosi", HIDDEN, CONVERTED})
"""Operators from which gcc derives no condition."""
_BOUNDS = frozenset({"min", "max"})
_SELECTING_ATOMS = frozenset({"select", "min", "max"})


def reduces_conditions(kernel: KernelIR) -> bool:
    """Whether a kernel may reduce integers that are conditions; true in some kernels that do not.

    Args:
        kernel: A kernel after `autosched.lower.pipelines.CPU_PASSES`.
    """
    reduces = has_conditions = has_float_conditions = truncates = False
    for s in ir.walk(kernel.body):
        reduces = reduces or _updates_by_reduction(s)
        for v in values_in(s):
            if v.dtype.is_int:
                reduces = reduces or _is_reduction(v)
                has_conditions = has_conditions or _may_be_condition(v)
                truncates = truncates or (isinstance(v, Op) and v.args[0].dtype.is_float)
            elif v.dtype.is_float:
                has_float_conditions = has_float_conditions or _is_float_condition(v)
    return reduces and (has_conditions or (has_float_conditions and truncates))


def may_reduce_conditions(stages: Iterable[BoundStage]) -> bool:
    """Whether `reduces_conditions` may hold for a kernel of a pipeline, without lowering it."""
    reduces = has_conditions = False
    for stage in stages:
        reduces = reduces or (stage.is_update and any(v.dtype.is_int for v in stage.values))
        for e in _computed(stage):
            if e.dtype.is_int:
                reduces = reduces or (isinstance(e, Binary) and e.op in _REDUCED)
                has_conditions = has_conditions or _may_become_condition(e)
    return reduces and has_conditions


def _updates_by_reduction(s: Stmt) -> bool:
    match s:
        case Store():
            return s.combine in _REDUCED and s.buffer.dtype.is_int
        case WarpReduce():
            return s.op in _REDUCED and s.buffer.dtype.is_int
    return False


def _is_reduction(v: Value) -> bool:
    if isinstance(v, IndexValue):
        return len(ix.terms_of(v.index)) > 1 or any(isinstance(t, ix.Atom) for t in ix.atoms(v.index))
    return isinstance(v, Op) and v.name in _REDUCED


def _may_be_condition(v: Value) -> bool:
    """Whether gcc may compute an integer as a condition, other than by arithmetic."""
    match v:
        case IndexValue():
            return any(isinstance(t, ix.Atom) and t.kind in _SELECTING_ATOMS for t in ix.atoms(v.index))
        case Op(name="cast"):
            return v.args[0].dtype.kind == "b"
        case Op() if v.name in _BOUNDS:
            return any(isinstance(a, ConstValue | IndexValue) for a in v.args)
        case Op(name="floordiv" | "mod"):
            return not isinstance(v.args[1], ConstValue) or v.args[1].value > v.dtype.max_value // 2
        case Op():
            return v.name not in _LINEAR
    return False


def _is_float_condition(v: Value) -> bool:
    """Whether a number may be 0 or 1 by a condition, which remains if it is converted to an integer."""
    return isinstance(v, Op) and (v.name == "select" or (v.name == "cast" and v.args[0].dtype.kind == "b"))


def _may_become_condition(e: Expr) -> bool:
    match e:
        case Cast():
            return not e.a.dtype.is_int
        case Unary() | Binary():
            return e.op not in _LINEAR
    return isinstance(e, Select | Call)


def _computed(stage: BoundStage) -> Iterator[Expr]:
    """Yield the expressions of a stage once each, without indices of loads that do not depend on data."""
    seen: set[int] = set()
    stack = [*stage.values, *stage.indices]
    while stack:
        e = stack.pop()
        if id(e) not in seen:
            seen.add(id(e))
            yield e
            is_load = isinstance(e, Load)
            stack += [c for c in children(e) if not is_load or any(isinstance(n, Load) for n in walk(c))]
