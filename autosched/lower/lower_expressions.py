"""Lower expressions of the language to typed values at a point."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np

from autosched.analysis.bound_pipeline import BoundStage
from autosched.analysis.expressions.expression_graph import DEEPEST_NESTING
from autosched.analysis.indices import index as ix
from autosched.analysis.indices.comparisons import decide
from autosched.analysis.value_ranges import value_ranges
from autosched.lang.dtypes import DType, bool_, float32, int32, int64
from autosched.lang.expr import COMPARISONS, Binary, Call, Cast, Const, Expr, Load, Param, Select, Unary
from autosched.lower.builder import CheckedIndex
from autosched.lower.ir import CompareIndex, ConstValue, IndexValue, Op, Value, VarRef
from autosched.lower.kernel_context import EmitMode, KernelContext

HOISTED = frozenset({
    "truediv", "sqrt", "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "tan", "asin", "acos",
    "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "erf", "erfc", "atan2", "hypot", "pow",
})  # fmt: skip
"""Operations that are hoisted out of loops in modes that hoist."""


@dataclass
class EvalPoint:
    """A stage at symbolic indices, by dimension and reduction variable, with the values lowered there so far."""

    stage: BoundStage
    at: Mapping[str, ix.Index]
    memo: dict[int, Value] = field(default_factory=dict)


_Steps = Generator[tuple[Expr, EvalPoint], Value, Value]
"""Coroutine that lowers one expression: yields operands, receives their values and returns the expression's value."""
_IndexSteps = Generator[tuple[Expr, EvalPoint], Value, ix.Index]
_Result = TypeVar("_Result")


class ExpressionLowerer:
    """Lowers expressions of one kernel body in one mode.

    Operands are lowered from an explicit stack: expressions, inlined Funcs included, may be deeper than Python's
    recursion limit.
    """

    def __init__(self, context: KernelContext, mode: EmitMode) -> None:
        self.context = context
        self.builder = context.builder
        self.mode = mode

    def value(self, e: Expr, p: EvalPoint) -> Value:
        """Return the value of an expression at a point."""
        value = p.memo.get(id(e))
        return self._run(self._memoised(e, p)) if value is None else value

    def symbolic(self, i: ix.Index, p: EvalPoint) -> ix.Index:
        """Return one of the stage's symbolic indices at a point."""
        return self._run(self._symbolic(i, p))

    def _run(self, steps: Generator[tuple[Expr, EvalPoint], Value, _Result]) -> _Result:
        """Run a coroutine and those of its operands, and return its result."""
        stack: list[Generator[tuple[Expr, EvalPoint], Value, Any]] = [steps]
        result: Any = None
        while True:
            try:
                e, p = stack[-1].send(result)
            except StopIteration as end:
                stack.pop()
                result = end.value
                if not stack:
                    return result  # type: ignore[no-any-return]
            else:
                result = p.memo.get(id(e))
                if result is None:
                    stack.append(self._memoised(e, p))

    def _memoised(self, e: Expr, p: EvalPoint) -> _Steps:
        """Lower an expression, bind its value if the expression is shared or deep, and memoise the value."""
        for inner in reversed(p.stage.graph.arithmetic(e, p.memo)):  # the deepest one first
            yield inner, p
        value = yield from self._lower(e, p)
        if isinstance(value, Op) and (p.stage.graph.deserves_name(e) or self._is_hoisted(value)):
            value = self.builder.let(value, "t")
        p.memo[id(e)] = value
        return value

    def _index(self, e: Expr, p: EvalPoint) -> _IndexSteps:
        """Return an integer expression at a point as an exact index."""
        return self._symbolic(p.stage.index_of(e), p)

    def _symbolic(self, i: ix.Index, p: EvalPoint) -> _IndexSteps:
        """Substitute the point into a symbolic index; atoms that depend on data become values."""
        replacements: dict[str, object] = {}
        for t in ix.postorder(i):
            if t.kind == "select":
                value = yield t.payload, p
                replacements[t.key] = self._condition(value)
            elif t.kind == "data":
                value = yield t.payload, p
                replacements[t.key] = self._from_data(value, t)
        index: ix.Index = ix.substitute(i, p.at, lambda t: replacements[t.key])
        return self._shallow(index)

    def _shallow(self, i: ix.Index) -> ix.Index:
        """Return an index of limited nesting depth: deep arguments of its atoms are bound to names."""
        if len(ix.postorder(i)) < DEEPEST_NESTING:
            return i
        depth: dict[str, int] = {}

        def bound(atom: ix.Atom, args: Sequence[ix.Index]) -> ix.Index | None:
            inner = (depth[t.key] for a in atom.args for t, _ in ix.terms_of(a) if t.key in depth)
            depth[atom.key] = 1 + max(inner, default=-1)
            if depth[atom.key] % DEEPEST_NESTING < DEEPEST_NESTING - 1:
                return None
            for a in args:
                self.builder.require_atoms(a)
            return ix.rebuilt(atom, [self.builder.base_index(a, "at") for a in args])

        return ix.rewritten(i, bound)

    def _condition(self, value: Value) -> tuple[object, str]:
        if isinstance(value, ConstValue):
            return bool(value.value), ""
        ref = self.builder.let(value, "inside")
        return ref, _text(ref)

    def _from_data(self, value: Value, t: ix.Atom) -> ix.Index:
        ref = self.builder.let(value, "at")
        if isinstance(ref, ConstValue):
            return int(ref.value)
        return ix.data(ref, *t.interval, text=_text(ref))

    def _lower(self, e: Expr, p: EvalPoint) -> _Steps:
        if e.weak and e.dtype.kind == "i":
            return self._from_index((yield from self._index(e, p)), e)
        match e:
            case Const():
                return ConstValue(e.value, e.dtype)
            case Param():
                return self.context.scalar(e.name, e.dtype)
            case Load():
                return (yield from self._load(e, p))
            case Cast(a=a) if a.weak and a.dtype.kind == "i":
                return self._from_index((yield from self._index(a, p)), e)
            case Cast(a=Cast(a=a, dtype=through)) if through == int64 and a.weak and a.dtype.kind == "i":
                return self._from_index((yield from self._index(a, p)), e)
            case Cast(a=a) if a.dtype.is_float and self._fits(a, e.dtype, p):
                inner = yield self._before_truncation(a, p), p
                return Op("fptosi", (inner,), e.dtype)
            case Cast(a=a):
                inner = yield a, p
                return inner if inner.dtype == e.dtype else Op("cast", (inner,), e.dtype)
            case Binary() if e.op in COMPARISONS and e.a.weak and e.a.dtype.kind == "i" and e.b.weak:
                left = yield from self._index(e.a, p)
                return self.compare(e.op, left, (yield from self._index(e.b, p)))
            case Binary():
                first = yield e.a, p
                second = yield e.b, p
                if e.op == "truediv" and e.dtype == float32 and self._divides_by_invariant(first, second):
                    return self._product_with_reciprocal(first, second)
                return fold(Op(e.op, (first, second), e.dtype))
            case Unary():
                return fold(Op(e.op, ((yield e.a, p),), e.dtype))
            case Select():
                return (yield from self._select(e, p))
            case Call():
                args = []
                for a in e.args:
                    args.append((yield a, p))
                return Op(e.name, tuple(args), e.dtype)
        raise TypeError(f"cannot lower a {type(e).__name__}: bind() replaces these nodes, so lower a bound pipeline")

    def _fits(self, number: Expr, target: DType, p: EvalPoint) -> bool:
        """Whether an integer type of 1 or 2 bytes holds a number, so that its conversion needs no saturation.

        Conversions to wider types are mostly of positions. Kernels of local_laplacian take 1.1 times as long with them.
        """
        if not target.is_int or target.bits >= int32.bits:
            return False
        return value_ranges(self.context.bound).of(p.stage, number).fits(target)

    def _before_truncation(self, number: Expr, p: EvalPoint) -> Expr:
        """Return a number without the rounding that its truncation implies."""
        ranges = value_ranges(self.context.bound)
        while isinstance(number, Call) and number.name in ("floor", "trunc"):
            (inner,) = number.args
            if number.name == "floor" and ranges.of(p.stage, inner).lo < 0:
                break
            number = inner
        return number

    def _is_hoisted(self, value: Op) -> bool:
        """Whether an operation is hoisted out of a loop: a division or an elementary function."""
        return self.mode.hoists and value.name in HOISTED and self.builder.is_invariant(value)

    def _divides_by_invariant(self, dividend: Value, divisor: Value) -> bool:
        """Whether a loop divides numbers by one number."""
        if not self.mode.hoists or isinstance(divisor, ConstValue):
            return False
        return self.builder.is_invariant(divisor) and not self.builder.is_invariant(dividend)

    def _product_with_reciprocal(self, dividend: Value, divisor: Value) -> Value:
        """Return a quotient by means of the divisor's reciprocal, which is computed outside the loop."""
        divisor = self.builder.let(divisor, "divisor")
        one = ConstValue(1.0, divisor.dtype)
        reciprocal = self.builder.let(Op("truediv", (one, divisor), divisor.dtype), "reciprocal")
        return Op("div_by", (dividend, divisor, reciprocal), divisor.dtype)

    def _from_index(self, i: ix.Index, e: Expr) -> Value:
        dtype = e.dtype
        if isinstance(i, int):
            if dtype.is_float and dtype.bits != 16:
                return ConstValue(float(np.int64(i).astype(dtype.numpy)), dtype)
            if not dtype.is_float:
                return ConstValue(bool(i) if dtype.kind == "b" else dtype.wrapped(i), dtype)
        self.builder.require_atoms(i)
        return IndexValue(i, dtype)

    def compare(self, op: str, a: ix.Index, b: ix.Index) -> Value:
        """Return a comparison of two indices: a constant where their ranges imply the outcome."""
        difference = ix.sub(a, b)
        lo, hi = ix.interval(difference)
        outcome = decide(op, lo, hi)
        if outcome is not None:
            return ConstValue(outcome, bool_)
        self.builder.require_atoms(difference)
        shifted = {"lt": difference, "ge": difference, "le": ix.add(difference, -1), "gt": ix.add(difference, -1)}
        if op in shifted:  # has one outcome where the difference is never negative, or always negative
            self.builder.require(CheckedIndex("split", shifted[op]))
        else:
            self.builder.require(CheckedIndex("nonzero", difference))
        return CompareIndex(op, a, b, bool_)

    def _select(self, e: Select, p: EvalPoint) -> _Steps:
        condition = yield e.cond, p
        if isinstance(condition, ConstValue):
            return (yield (e.t if condition.value else e.f), p)
        if e.dtype == bool_:  # as logical operators: gcc does not vectorise selects of conditions
            condition = self.builder.let(condition, "t")
            taken = fold(Op("and", (condition, (yield e.t, p)), bool_))
            other = fold(Op("and", (Op("not", (condition,), bool_), (yield e.f, p)), bool_))
            return fold(Op("or", (taken, other), bool_))
        first = yield e.t, p
        return Op("select", (condition, first, (yield e.f, p)), e.dtype)

    def _load(self, e: Load, p: EvalPoint) -> _Steps:
        name = p.stage.names[id(e.source)]
        at: list[ix.Index] = []
        for i in e.indices:
            at.append((yield from self._index(i, p)))
        if name in self.context.plan.inlined:
            return (yield from self._inline(name, at, e.component))
        return self.context.read(self.mode, name, at, e.component)

    def _inline(self, name: str, at: Sequence[ix.Index], component: int) -> _Steps:
        func = self.context.bound.funcs[name]
        key = ("inline", name, component, *(ix.key(i) for i in at))
        bound = self.builder.lookup(key)
        if bound is not None:
            return bound  # type: ignore[no-any-return]
        point = EvalPoint(func.stages[0], dict(zip(func.dims, at, strict=True)))
        value = yield func.stages[0].values[component], point
        if isinstance(value, VarRef | ConstValue):
            return value
        return self.builder.let(value, name, key)


def fold(op: Op) -> Value:
    """Fold logical operators with constant operands, which inlined boundary conditions leave behind."""
    if op.name in ("and", "or") and op.dtype == bool_:
        for a, b in (op.args, op.args[::-1]):
            if isinstance(a, ConstValue):
                if op.name == "and":
                    return b if a.value else a
                return a if a.value else b
    if op.name == "not" and op.dtype == bool_ and isinstance(op.args[0], ConstValue):
        return ConstValue(not op.args[0].value, bool_)
    return op


def _text(v: Value) -> str:
    return v.name if isinstance(v, VarRef) else repr(v)
