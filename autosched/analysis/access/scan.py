"""Scans: updates that combine the previous element along a dimension with a new value.

    f[p, x] = f[p, x - 1] op value           op: sum, product, minimum, maximum, and, or, xor
    f[p, x] = weight * f[p, x - 1] + value   a linear recurrence; the weight is the same for all x

The loop may run forwards or backwards.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from autosched.analysis.access.accumulation import accumulation_at
from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.analysis.indices import index as ix
from autosched.analysis.indices.to_index import Memo, rvar_range, to_index
from autosched.analysis.specialise import Specialiser
from autosched.lang.expr import Binary, Expr, Load, RVar, Unary, Var, children, postorder, rebuild, walk
from autosched.lang.func import Definition, Func
from autosched.lang.operators import typed_const

_Linear = tuple[Expr | None, Expr | None]
"""Weight of the previous element, and the rest; None for 0."""


@dataclass(frozen=True)
class Scan:
    """A scan along one dimension of a Func, with all shapes and integer parameters as constants.

    Attributes:
        axis: Position of the dimension.
        first: The position before the first written one, from which the scan starts.
        step: 1 for a scan forwards, -1 for one backwards.
        length: Positions of the scan, ``first`` included.
        loop: The reduction loop; its lowest value writes position ``first + step``.
        operators: The operator of each component; ``add`` for a linear recurrence.
        weights: The weight of the previous element in each component, None for 1.
        values: The combined value of each component. It reads no other point of the Func; reads of its own point are
            reads of ``before``.
        before: The Func before the update.
    """

    axis: int
    first: int
    step: int
    length: int
    loop: RVar
    operators: tuple[str, ...]
    weights: tuple[Expr | None, ...]
    values: tuple[Expr, ...]
    before: Func

    @property
    def ends(self) -> tuple[int, int]:
        """The lowest and the highest position."""
        last = self.first + self.step * (self.length - 1)
        return min(self.first, last), max(self.first, last)

    @property
    def is_linear(self) -> bool:
        """Whether a component is a linear recurrence with a weight."""
        return any(w is not None for w in self.weights)


def find_scan(bound: BoundPipeline, func: str, stage: int, before_name: str) -> Scan | str:
    """Return the scan of an update, or the reason why the update is none.

    Args:
        bound: The pipeline.
        func: Name of the Func.
        stage: Number of the update.
        before_name: Name of the Func before the update.
    """
    what = f"update {stage} of {func!r}"
    old, bound_stage = bound.pipeline.func(func), bound.funcs[func].stages[stage]
    specialiser = Specialiser(bound.shapes, bound.specialised)
    definition = specialiser.definition(old.definitions[stage])
    if bound_stage.combine or len(definition.rvars) != 1:
        return f"{what} has {len(definition.rvars)} loops; a scan has one"
    if bound_stage.is_empty or rvar_range(definition.rvars[0])[1] == rvar_range(definition.rvars[0])[0]:
        return f"{what} has fewer than two iterations"
    memo: Memo = {}
    found = _written_axis(old, definition, memo)
    if found is None:
        return f"{what} does not write f[..., x, ...] for consecutive x, and the Vars in its other dimensions"
    axis, position = found
    step, (loop,) = position.terms[0][1], definition.rvars
    lowest = position.const + step * rvar_range(loop)[0]
    point = tuple(ix.key(to_index(i, memo)) for i in definition.indices)
    previous = [i - step if k == axis else i for k, i in enumerate(definition.indices)]
    keys = tuple(ix.key(to_index(i, memo)) for i in previous)
    before = _earlier_stages(old, [specialiser.definition(d) for d in old.definitions[:stage]], before_name)
    lines = []
    for k, value in enumerate(_with_own_reads(old, definition, before, point, memo)):
        line = _Recurrence(old, k, previous, keys, memo).split(value)
        if line is None:
            return f"{what} is neither f[x] = f[x - 1] op value nor f[x] = weight * f[x - 1] + value"
        lines.append(line)
    low, high = rvar_range(loop)
    operators, weights, terms = zip(*lines, strict=True)
    return Scan(axis, lowest - step, step, high - low + 2, loop, operators, weights, terms, before)


def _written_axis(func: Func, definition: Definition, memo: Memo) -> tuple[int, ix.Affine] | None:
    """Return the dimension along which an update moves, and its index; None unless all others are the Func's Vars."""
    moving = [k for k, i in enumerate(definition.indices) if not (isinstance(i, Var) and i.name == func.dims[k])]
    if len(moving) != 1:
        return None
    index = to_index(definition.indices[moving[0]], memo)
    match index:
        case ix.Affine(terms=((ix.LoopVar(name=name), 1 | -1),)) if name == definition.rvars[0].name:
            return moving[0], index
    return None


def _earlier_stages(func: Func, definitions: Sequence[Definition], name: str) -> Func:
    """Return a Func with some first stages of another one."""
    before = Func(name)
    before.location, before._dtypes = func.location, func.dtypes
    for d in definitions:
        indices = tuple(_with_source(i, func, before) for i in d.indices)
        before._definitions.append(
            replace(d, indices=indices, values=tuple(_with_source(v, func, before) for v in d.values))
        )
    return before


def _with_source(e: Expr, old: Func, new: Func) -> Expr:
    done: dict[int, Expr] = {}
    for node in postorder([e], done):
        parts = [done[id(c)] for c in children(node)]
        if isinstance(node, Load) and node.source is old:
            done[id(node)] = Load(new, tuple(parts), node.dtype, node.component)
        else:
            done[id(node)] = rebuild(node, parts)
    return done[id(e)]


def _with_own_reads(
    func: Func, definition: Definition, before: Func, own: tuple[str, ...], memo: Memo
) -> list[Expr]:  # fmt: skip
    """Return the values of an update in which reads of the written point are reads of ``before``."""
    done: dict[int, Expr] = {}
    for node in postorder(definition.values, done):
        parts = [done[id(c)] for c in children(node)]
        if isinstance(node, Load) and node.source is func and _key(node, memo) == own:
            done[id(node)] = Load(before, node.indices, node.dtype, node.component)
        elif all(new is old for new, old in zip(parts, children(node), strict=True)):
            done[id(node)] = node  # keeps the nodes that the memo refers to
        else:
            done[id(node)] = rebuild(node, parts)
    return [done[id(v)] for v in definition.values]


def _key(load: Load, memo: Memo) -> tuple[str, ...]:
    return tuple(ix.key(to_index(i, memo)) for i in load.indices)


@dataclass(frozen=True)
class _Recurrence:
    """Reads of the previous element in one component of a scan.

    Attributes:
        func: The Func.
        component: Number of the component.
        previous: Indices of the previous element.
        keys: Text of these.
        memo: Converted indices.
    """

    func: Func
    component: int
    previous: Sequence[Expr]
    keys: tuple[str, ...]
    memo: Memo

    def split(self, value: Expr) -> tuple[str, Expr | None, Expr] | None:
        """Return operator, weight and combined value of an expression; None for another form."""
        part = accumulation_at(self.func, self.component, value, self.previous)
        if part is not None and not _reads(self.func, part[1]):
            return part[0], None, part[1]
        dtype = self.func.dtypes[self.component]
        linear = self._linear(value)
        if linear is None or linear[0] is None or value.dtype != dtype or dtype.kind == "b":
            return None
        weight, rest = linear
        if any(isinstance(n, RVar) for n in walk(weight)):
            return None
        return "add", weight, typed_const(0, dtype) if rest is None else rest

    def _is_previous(self, e: Expr) -> bool:
        own = isinstance(e, Load) and e.source is self.func and e.component == self.component
        return own and isinstance(e, Load) and _key(e, self.memo) == self.keys

    def _linear(self, e: Expr) -> _Linear | None:
        """Return weight and rest of ``e = weight * previous + rest``; None where ``e`` is not linear."""
        if self._is_previous(e):
            return typed_const(1, e.dtype), None
        if not _reads(self.func, e):
            return None, e
        match e:
            case Unary(op="neg"):
                inner = self._linear(e.a)
                return None if inner is None else (_negative(inner[0]), _negative(inner[1]))
            case Binary(op="add" | "sub"):
                a, b = self._linear(e.a), self._linear(e.b)
                if a is None or b is None:
                    return None
                return _combined(e.op, a[0], b[0]), _combined(e.op, a[1], b[1])
            case Binary(op="mul"):
                scaled, factor = (e.a, e.b) if _reads(self.func, e.a) else (e.b, e.a)
                inner = None if _reads(self.func, factor) else self._linear(scaled)
                if inner is None:
                    return None
                weight, rest = (None if part is None else Binary("mul", factor, part, e.dtype) for part in inner)
                return weight, rest
        return None


def _reads(func: Func, e: Expr) -> bool:
    return any(isinstance(n, Load) and n.source is func for n in walk(e))


def _negative(e: Expr | None) -> Expr | None:
    return None if e is None else Unary("neg", e, e.dtype)


def _combined(op: str, a: Expr | None, b: Expr | None) -> Expr | None:
    if b is None:
        return a
    if a is None:
        return b if op == "add" else _negative(b)
    return Binary(op, a, b, a.dtype)
