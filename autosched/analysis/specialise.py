"""Put concrete shapes and parameter values into a pipeline's expressions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from autosched.lang.dtypes import DType, int32
from autosched.lang.expr import (
    Binary,
    Cast,
    Const,
    Expr,
    Load,
    Param,
    RVar,
    Scalar,
    Select,
    ShapeDim,
    Unary,
    binary,
    children,
    rebuild,
    typed_const,
    walk,
)
from autosched.lang.func import Definition
from autosched.lang.pipeline import Pipeline


def specialised_params(pipeline: Pipeline) -> tuple[Param, ...]:
    """Return the parameters whose values reach an index, a reduction bound or an output box."""
    found: dict[Param, None] = {}
    for f in pipeline.funcs:
        for d in f.definitions:
            roots = [*d.indices]
            roots += [i for v in d.values for n in walk(v) if isinstance(n, Load) for i in n.indices]
            roots += [e for r in d.rvars for e in (r.lower, r.upper)]
            for root in roots:
                _integer_params(root, found)
    for o in pipeline.outputs:
        for bounds in o.box or ():
            for e in bounds:
                _integer_params(e, found)
    return tuple(found)


def _integer_params(e: Expr, found: dict[Param, None]) -> None:
    """Follow integer arithmetic only: what goes through a load or a float stays data."""
    if isinstance(e, Param):
        found[e] = None
    elif isinstance(e, Unary | Binary | Select | Cast):
        for c in children(e):
            if c.dtype.is_int:
                _integer_params(c, found)


class Specialiser:
    """Replaces ``img.shape[i]`` and specialised parameters by constants, folding exact integer arithmetic."""

    def __init__(self, shapes: Mapping[str, tuple[int, ...]], params: Mapping[str, Scalar]) -> None:
        self.shapes = shapes
        self.params = params

    def __call__(self, e: Expr) -> Expr:
        """Return ``e`` with everything replaced; it holds no reduction variables."""
        return Scope(self, ()).run(e)

    def scope(self, d: Definition) -> Scope:
        """Return the replacement for one definition, its reduction variables bound and uniquely named."""
        return Scope(self, d.rvars, d)


class Scope:
    """One definition's replacements; nodes shared in the input stay shared in the output."""

    def __init__(self, owner: Specialiser, rvars: Sequence[RVar], definition: Definition | None = None) -> None:
        self._owner = owner
        self._definition = definition
        self._done: dict[int, Expr] = {}
        self._keep: list[Expr] = []
        taken: dict[str, int] = {}
        self.rvars: tuple[RVar, ...] = tuple(self._bound(r, taken) for r in rvars)
        self._loops = {id(r): b for r, b in zip(rvars, self.rvars, strict=True)}

    def _bound(self, r: RVar, taken: dict[str, int]) -> RVar:
        count = taken[r.name] = taken.get(r.name, -1) + 1
        domain, _, dim = r.name.partition(".")
        name = r.name if count == 0 else f"{domain}_{count}.{dim}"
        return RVar(name, self._owner(r.lower), self._owner(r.upper), r.order)

    def definition(self, indices: tuple[Expr, ...], values: tuple[Expr, ...]) -> Definition:
        """Return the definition with its expressions replaced."""
        assert self._definition is not None
        return Definition(indices, values, self.rvars, self._definition.location)

    def __call__(self, e: Expr) -> Expr:
        """Return ``e`` with everything replaced."""
        return self.run(e)

    def run(self, e: Expr) -> Expr:
        """Return ``e`` with everything replaced; shared nodes are replaced once."""
        known = self._done.get(id(e))
        if known is None:
            known = self._replace(e)
            self._done[id(e)] = known
            self._keep.append(e)
        return known

    def _replace(self, e: Expr) -> Expr:
        match e:
            case ShapeDim():
                return Const(self._owner.shapes[e.input.name][e.axis], int32, weak=True)
            case Param() if e.name in self._owner.params:
                return typed_const(self._owner.params[e.name], e.dtype)
            case RVar():
                return self._loops[id(e)]
        new = [self.run(c) for c in children(e)]
        if isinstance(e, Cast) and isinstance(new[0], Const) and new[0].weak and e.dtype.is_int:
            return typed_const(_wrapped(_wrapped(int(new[0].value), int32), e.dtype), e.dtype)
        if isinstance(e, Binary) and e.weak and all(isinstance(c, Const) for c in new):
            return binary(e.op, new[0], new[1])
        if isinstance(e, Binary) and not e.weak and e.dtype.is_int and all(isinstance(c, Const) for c in new):
            return _fold_strong(e, new)
        return rebuild(e, new)


def _wrapped(value: int, dtype: DType) -> int:
    return (value - dtype.min_value) % (1 << dtype.bits) + dtype.min_value


def _fold_strong(e: Binary, new: Sequence[Expr]) -> Expr:
    """Fold typed integer constants (specialised parameters) where the result fits the type."""
    a, b = (int(c.value) for c in new if isinstance(c, Const))
    if e.op in ("floordiv", "mod") and b == 0:
        return typed_const(0, e.dtype)
    fold = {"add": a + b, "sub": a - b, "mul": a * b, "min": min(a, b), "max": max(a, b)}
    if b != 0:
        fold |= {"floordiv": a // b, "mod": a % b}
    value = fold.get(e.op)
    if value is None or not e.dtype.min_value <= value <= e.dtype.max_value:
        return rebuild(e, new)
    return typed_const(value, e.dtype)
