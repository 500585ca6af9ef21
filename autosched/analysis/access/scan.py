"""Scans: updates that combine the previous element along a dimension with a new value.

    f[p, x] = f[p, x - 1] op value           op: sum, product, minimum, maximum, and, or, xor
    f[p, x] = weight * f[p, x - 1] + value   a linear recurrence; the weight is the same for all x
    f[p, x] = w1 * f[p, x - 1] + w2 * f[p, x - 2] + value   one of second order

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

ORDER = 2
"""Highest order of linear recurrences."""
_Linear = dict[int, Expr]
"""Weight of the element before by distance, and the rest at distance 0; those of 0 are left out."""


@dataclass(frozen=True)
class ScanUpdate:
    """A scan along one dimension of a Func, with all shapes and integer parameters as constants.

    Attributes:
        axis: Position of the dimension.
        first: The first position: the one before the first written one, or two before it for second order.
        step: 1 for a scan forwards, -1 for one backwards.
        length: Positions of the scan, those before the first written one included.
        loop: The reduction loop; its lowest value writes position ``first + order * step``.
        operators: The operator of each component; ``add`` for a linear recurrence.
        weights: The weight of the previous element in each component, None for 1.
        second: The weight of the element before that in each component, None for 0.
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
    second: tuple[Expr | None, ...]
    values: tuple[Expr, ...]
    before: Func

    @property
    def ends(self) -> tuple[int, int]:
        """The lowest and the highest position."""
        last = self.first + self.step * (self.length - 1)
        return min(self.first, last), max(self.first, last)

    @property
    def order(self) -> int:
        """The number of earlier elements that each element depends on directly."""
        return 2 if any(w is not None for w in self.second) else 1

    @property
    def is_linear(self) -> bool:
        """Whether a component is a linear recurrence with a weight."""
        return self.order > 1 or any(w is not None for w in self.weights)


def find_scan(bound: BoundPipeline, func: str, stage: int, before_name: str) -> ScanUpdate | str:
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
    earlier = [
        [i - n * step if k == axis else i for k, i in enumerate(definition.indices)] for n in range(1, ORDER + 1)
    ]  # fmt: skip
    keys = [tuple(ix.key(to_index(i, memo)) for i in indices) for indices in earlier]
    before = _earlier_stages(old, [specialiser.definition(d) for d in old.definitions[:stage]], before_name)
    lines = []
    for k, value in enumerate(_with_own_reads(old, definition, before, point, memo)):
        line = _Recurrence(old, k, earlier[0], keys, memo).split(value)
        if line is None:
            return f"{what} is neither f[x] = f[x - 1] op value nor f[x] = w1 * f[x - 1] + w2 * f[x - 2] + value"
        lines.append(line)
    low, high = rvar_range(loop)
    operators, weights, second, terms = zip(*lines, strict=True)
    scan = ScanUpdate(axis, lowest - step, step, high - low + 2, loop, operators, weights, second, terms, before)
    if scan.order == 1:
        return scan
    if len(terms) > 1:
        return f"{what} is of second order and has {len(terms)} components; only one is supported"
    return replace(scan, first=lowest - 2 * step, length=scan.length + 1)


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
        keys: Text of the indices of the earlier elements, the previous one first.
        memo: Converted indices.
    """

    func: Func
    component: int
    previous: Sequence[Expr]
    keys: Sequence[tuple[str, ...]]
    memo: Memo

    def split(self, value: Expr) -> tuple[str, Expr | None, Expr | None, Expr] | None:
        """Return operator, both weights and combined value of an expression; None for another form."""
        part = accumulation_at(self.func, self.component, value, self.previous)
        if part is not None and not _reads(self.func, part[1]):
            return part[0], None, None, part[1]
        dtype = self.func.dtypes[self.component]
        linear = self._linear(value)
        if not linear or max(linear) == 0 or value.dtype != dtype or dtype.kind == "b":
            return None
        weights = [linear.get(n) for n in range(1, ORDER + 1)]
        if any(isinstance(n, RVar) for w in weights if w is not None for n in walk(w)):
            return None
        zero = typed_const(0, dtype)
        return "add", zero if weights[0] is None else weights[0], weights[1], linear.get(0, zero)

    def _distance(self, e: Expr) -> int:
        """Return the distance of a read of an earlier element, 0 for other expressions."""
        if isinstance(e, Load) and e.source is self.func and e.component == self.component:
            key = _key(e, self.memo)
            return next((n for n, earlier in enumerate(self.keys, 1) if key == earlier), 0)
        return 0

    def _linear(self, e: Expr) -> _Linear | None:
        """Return the weights of the earlier elements and the rest; None where an expression is not linear in them."""
        distance = self._distance(e)
        if distance:
            return {distance: typed_const(1, e.dtype)}
        if not _reads(self.func, e):
            return {0: e}
        match e:
            case Unary(op="neg"):
                inner = self._linear(e.a)
                return None if inner is None else {n: Unary("neg", w, e.dtype) for n, w in inner.items()}
            case Binary(op="add" | "sub"):
                a, b = self._linear(e.a), self._linear(e.b)
                if a is None or b is None:
                    return None
                return {n: w for n in sorted(a.keys() | b.keys()) for w in [_combined(e.op, a.get(n), b.get(n))]}
            case Binary(op="mul"):
                scaled, factor = (e.a, e.b) if _reads(self.func, e.a) else (e.b, e.a)
                inner = None if _reads(self.func, factor) else self._linear(scaled)
                return None if inner is None else {n: Binary("mul", factor, w, e.dtype) for n, w in inner.items()}
        return None


def _reads(func: Func, e: Expr) -> bool:
    return any(isinstance(n, Load) and n.source is func for n in walk(e))


def _combined(op: str, a: Expr | None, b: Expr | None) -> Expr:
    if a is not None and b is not None:
        return Binary(op, a, b, a.dtype)
    if a is not None:
        return a
    assert b is not None
    return b if op == "add" else Unary("neg", b, b.dtype)
