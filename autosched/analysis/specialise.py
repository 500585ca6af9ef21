"""Specialisation of expressions to concrete shapes and parameter values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from autosched.analysis.expressions.constant_folding import fold
from autosched.analysis.expressions.hash_consing import Interner
from autosched.lang.dtypes import int32
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
    children,
    postorder,
    rebuild,
    walk,
)
from autosched.lang.func import Definition
from autosched.lang.operators import typed_const
from autosched.lang.pipeline import Pipeline


def specialised_params(pipeline: Pipeline) -> tuple[Param, ...]:
    """Return the parameters whose values reach an index, a reduction bound, a boundary or an output box."""
    roots: list[Expr] = []
    for f in pipeline.funcs:
        roots += [e for bounds in f.boundary_ranges.values() for e in bounds]
        for d in f.definitions:
            roots += [e for r in d.rvars for e in (r.lower, r.upper)]
            roots += d.indices
            roots += [i for e in (*d.indices, *d.values) for n in walk(e) if isinstance(n, Load) for i in n.indices]
    roots += [e for o in pipeline.outputs for bounds in o.box or () for e in bounds]
    return tuple(_integer_params(roots))


def _integer_params(roots: Sequence[Expr]) -> dict[Param, None]:
    """Return the parameters under integer arithmetic and conditions; loads and floats make a value data."""
    params: dict[Param, None] = {}
    seen: set[int] = set()
    stack = list(reversed(roots))
    while stack:
        e = stack.pop()
        if id(e) in seen or e.dtype.is_float:
            continue
        seen.add(id(e))
        if isinstance(e, Param):
            params[e] = None
        elif isinstance(e, Unary | Binary | Select | Cast):
            stack.extend(reversed(children(e)))
    return params


def _constant_bound(e: Expr) -> Expr:
    """Return a loop bound as a constant, without the conversion of an integer beyond 32 bits."""
    return e.a if isinstance(e, Cast) and isinstance(e.a, Const) and e.a.weak else e


class Specialiser:
    """Replaces ``img.shape[i]`` and specialised parameters by constants, folding exact integer arithmetic."""

    def __init__(self, shapes: Mapping[str, tuple[int, ...]], params: Mapping[str, Scalar]) -> None:
        self.shapes = shapes
        self.params = params

    def __call__(self, e: Expr) -> Expr:
        """Return ``e``, an expression without reduction variables, with everything replaced."""
        return SpecialiserScope(self, ()).run(e)

    def definition(self, d: Definition) -> Definition:
        """Return one definition with everything replaced, its reduction variables bound and uniquely named."""
        scope = SpecialiserScope(self, d.rvars)
        indices = tuple(scope(e) for e in d.indices)
        return Definition(indices, tuple(scope(e) for e in d.values), scope.rvars, d.location)


class SpecialiserScope:
    """One definition's replacements; structurally equal expressions become the same node."""

    def __init__(self, owner: Specialiser, rvars: Sequence[RVar]) -> None:
        self._owner = owner
        self._done: dict[int, Expr] = {}
        self._keep: list[Expr] = []  # the originals, so that their ids stay unique
        self._interner = Interner()
        taken: set[str] = set()
        self.rvars: tuple[RVar, ...] = tuple(self._bound(r, taken) for r in rvars)
        self._loops = {id(r): b for r, b in zip(rvars, self.rvars, strict=True)}

    def _bound(self, r: RVar, taken: set[str]) -> RVar:
        """Return a loop with constant bounds, with a number if its name is taken."""
        domain, _, dim = r.name.partition(".")
        name, k = r.name, 0
        while name in taken:
            k += 1
            name = f"{domain}_{k}.{dim}"
        taken.add(name)
        return RVar(name, _constant_bound(self._owner(r.lower)), _constant_bound(self._owner(r.upper)), r.order)

    def __call__(self, e: Expr) -> Expr:
        """Return ``e`` with everything replaced."""
        return self.run(e)

    def run(self, e: Expr) -> Expr:
        """Return ``e`` with everything replaced."""
        for node in postorder([e], self._done):
            self._done[id(node)] = self._interner.node(self._replace(node))
            self._keep.append(node)
        return self._done[id(e)]

    def _replace(self, e: Expr) -> Expr:
        match e:
            case ShapeDim():
                return Const(self._owner.shapes[e.input.name][e.axis], int32, weak=True)
            case Param() if e.name in self._owner.params:
                return typed_const(self._owner.params[e.name], e.dtype)
            case RVar():
                return self._loops[id(e)]
        new = [self._done[id(c)] for c in children(e)]
        constant = fold(e, new)
        return rebuild(e, new) if constant is None else constant
