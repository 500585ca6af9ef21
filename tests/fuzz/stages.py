"""Random pure stages: each function defines one Func from those before it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import autosched as a
from autosched.lang.dtypes import DType, float32, int32, uint8
from autosched.lang.expr import Expr, Param, Var
from autosched.lang.func import Func, Input
from autosched.lang.rdom import RDom
from tests.fuzz.choices import Choices
from tests.fuzz.expressions import Scope, aligned, any_type, as_type, condition, expression, leaf, read

DIMS = ("n", "c", "y", "x")
SIZES = (8, 1, 2, 3, 5, 7, 13, 16, 17, 31, 32, 33)


@dataclass(frozen=True)
class Pool:
    """Operands that a new stage may use.

    Args:
        choices: Decisions.
        sources: Funcs that may be read anywhere.
        scalars: Run-time parameters.
        bounds: Integer parameters that may reach an index or a reduction's bound.
        inputs: Inputs, for their shapes.
    """

    choices: Choices
    sources: Sequence[Func]
    scalars: Sequence[Param]
    bounds: Sequence[Param]
    inputs: Sequence[Input]

    def scope(self, *coords: Expr) -> Scope:
        """Return the scope of an expression at a point."""
        return Scope(self.choices, coords, self.sources, self.scalars)

    def variables(self, ndim: int | None = None) -> tuple[Var, ...]:
        """Return the Vars of a new Func, of a random rank if none is given."""
        c = self.choices
        if ndim is None:
            ndim = c.pick((2, 2, 1, 1, 3, 2, 0, 4))
        names = list(DIMS[4 - ndim :])
        if c.chance(10):
            names = list(reversed(names))
        if c.chance(5):
            names = ["threadIdx", "block", "i", "as_x"][:ndim]
        return tuple(Var(n) for n in names)


def pointwise(p: Pool, name: str) -> Func:
    """A formula at every point."""
    v = p.variables()
    f = Func(name)
    f[v] = expression(p.scope(*v), any_type(p.choices), p.choices.integer(1, 3))
    return f


def stencil(p: Pool, name: str) -> Func:
    """A combination of neighbours along one or two dimensions."""
    c = p.choices
    source = c.pick(p.sources) if c.chance(40) else p.sources[-1]
    v = p.variables(max(source.ndim, 1))
    taps = [(dy, dx) for dy in c.pick(((0,), (-1, 0, 1), (0, 2))) for dx in c.pick(((-1, 0, 1), (0, 1), (-2, 0, 3)))]
    values = [read(p.scope(*v), source, _moved(v[: source.ndim], tap)) for tap in taps]
    total = values[0]
    values = [as_type(value, total.dtype) for value in values]
    combine = c.integer(0, 3)
    for k, value in enumerate(values[1:]):
        if total.dtype.kind == "b":
            total = total ^ value
        elif combine == 0:
            total = total + value
        elif combine == 1:
            total = total + (k + 2) * value
        else:
            total = a.max(total, value) if combine == 2 else a.min(total, value)
    if combine == 0 and total.dtype.kind != "b":
        total = total / 3 if total.dtype.is_float else total // len(taps)
    f = Func(name)
    f[v] = total
    return f


def _moved(v: Sequence[Expr], tap: Sequence[int]) -> tuple[Expr, ...]:
    steps = (0, 0, 0, 0, *tap)[6 - len(v) :] if v else ()
    return tuple(i + d for i, d in zip(v, steps, strict=True))


def downsample(p: Pool, name: str) -> Func:
    """Every second point, or the mean of two."""
    c = p.choices
    source = p.sources[-1]
    v = p.variables(max(source.ndim, 1))
    factor, offset = c.pick((2, 2, 3)), c.integer(-1, 1)
    axis = c.integer(0, max(source.ndim - 1, 0))
    index = [i * factor + offset if k == axis or c.chance(40) else i for k, i in enumerate(v[: source.ndim])]
    f = Func(name)
    first = read(p.scope(*v), source, index)
    if index and c.chance(50):
        second = read(p.scope(*v), source, [i + 1 if k == axis else i for k, i in enumerate(index)])
        first = a.select(condition(p.scope(*v), 0), first, as_type(second, first.dtype))
    f[v] = first
    return f


def upsample(p: Pool, name: str) -> Func:
    """Linear interpolation that depends on the parity of a coordinate."""
    c = p.choices
    source = p.sources[-1]
    v = p.variables(max(source.ndim, 1))
    axis = c.integer(0, len(v) - 1)
    s = p.scope(*v)
    half = [i // 2 if k == axis else i for k, i in enumerate(v)][: source.ndim]
    after = [i // 2 + 1 if k == axis else i for k, i in enumerate(v)][: source.ndim]
    near, far = read(s, source, half), read(s, source, after)
    far = as_type(far, near.dtype)
    between = near ^ far if near.dtype.kind == "b" else (near + far) / 2 if near.dtype.is_float else a.max(near, far)
    f = Func(name)
    f[v] = a.select(v[axis] % 2 == c.integer(0, 1), near, between)
    return f


def gather(p: Pool, name: str) -> Func:
    """A table looked up with 8-bit or clamped values."""
    c = p.choices
    v = p.variables()
    s = p.scope(*v)
    if c.chance(50):
        table = c.pick(p.sources)
        index: list[Expr] = aligned(s, table.ndim)
        value = leaf(s, c.pick((uint8, int32, a.int8)))
        if index:
            index[-1] = value if value.dtype.bits == 8 else a.clamp(value, -3, c.pick((0, 20)))
        result = read(s, table, index)
    else:
        i = Var("i")
        lut = Func(c.pick((f"{name}_lut", name)))
        lut[i] = expression(p.scope(i), any_type(c), 1)
        result = lut[leaf(s, uint8)]
    f = Func(name)
    f[v] = result
    return f


def reduction(p: Pool, name: str) -> Func:
    """A sum, product, maximum or minimum over a window or a whole dimension."""
    c = p.choices
    v = p.variables(c.pick((2, 1, 0, 3)))
    r = domain(p, c.integer(1, 2))
    kind = c.pick((a.sum, a.maximum, a.minimum, a.prod))
    coords = _mixed(c, v, r)
    dtype = any_type(c)
    value = expression(p.scope(*coords), dtype if dtype.kind != "b" else int32, c.integer(0, 2))
    unroll = len(r) == 1 and r.name == "window" and c.chance(40)
    f = Func(name)
    total = kind(value, over=r, unroll=unroll, **({} if c.chance(30) else {"name": name}))
    f[v] = total if c.chance(60) or v == () else total + as_type(leaf(p.scope(*v), total.dtype), total.dtype)
    return f


def arg_reduction(p: Pool, name: str) -> Func:
    """Where the first largest or smallest value of a window lies, and which it is."""
    c = p.choices
    v = p.variables(c.pick((1, 2, 0)))
    r = domain(p, c.integer(1, 2))
    dtype = any_type(c)
    value = expression(p.scope(*_mixed(c, v, r)), dtype if dtype.kind != "b" else uint8, 1)
    found = c.pick((a.argmax, a.argmin))(value, over=r)
    f = Func(name)
    f[v] = found if c.chance(60) else found[c.integer(0, len(found) - 1)]
    return f


def _mixed(c: Choices, v: Sequence[Expr], r: RDom) -> tuple[Expr, ...]:
    """Return a point made of Vars and reduction variables: a window around each Var, or further dimensions."""
    loops: list[Expr] = list(r)
    window = c.chance(50)
    coords = [i + loops.pop() if loops and window else i for i in reversed(v)]
    return tuple([*loops, *reversed(coords)][-4:])


def domain(p: Pool, ndim: int, *, name: str = "r") -> RDom:
    """Return a reduction domain: a window, whole dimensions, or bounds known only with shapes and parameters."""
    c = p.choices
    kind = c.integer(0, 9)
    bounds: list[Any] = []
    for _ in range(ndim):
        if kind <= 4:
            bounds.append(c.pick(((-1, 2), (0, 3), (0, 5), (-2, 0), (1, 2))))
        elif kind == 5 and p.inputs and (shape := c.pick(p.inputs).shape):
            bounds.append((0, c.pick(shape)))
        elif kind == 6 and p.bounds:
            bounds.append((0, c.pick(p.bounds)))
        elif kind == 7:
            bounds.append(c.pick(((0, 0), (3, 3), (4, 5))))
        else:
            bounds.append((c.pick((0, 1, -2)), c.pick(SIZES if ndim == 1 else (8, 1, 2, 3, 5, 7))))
    bounds = [(low, high) if isinstance(high, Expr) else (low, max(high, low)) for low, high in bounds]
    return RDom("window" if kind <= 4 else name, **dict(zip("yxzw", bounds, strict=False)))


def matrix_product(p: Pool, name: str) -> Func:
    """A product of two Funcs seen as matrices."""
    c = p.choices
    y, x = p.variables(2)
    r = RDom("k", k=c.pick(SIZES))
    left, right = c.pick(p.sources), c.pick(p.sources)
    dtype = c.pick((float32, int32, a.float64, a.uint16, a.float16, a.bfloat16))
    f = Func(name)
    f[y, x] = 0 if dtype == int32 else a.cast(dtype, 0)
    s = p.scope(y, x)
    terms = read(s, left, aligned(s.at(y, r.k), left.ndim)), read(s, right, aligned(s.at(r.k, x), right.ndim))
    f[y, x] += as_type(terms[0], dtype) * as_type(terms[1], dtype)
    return f


def tuple_valued(p: Pool, name: str) -> Func:
    """Several values a point."""
    c = p.choices
    v = p.variables()
    f = Func(name)
    f[v] = tuple(expression(p.scope(*v), any_type(c), 1) for _ in range(c.integer(2, 3)))
    return f


def bounded(p: Pool, name: str) -> Func:
    """A boundary condition on a Func over explicit ranges."""
    c = p.choices
    source = c.pick(p.sources)
    if source.ndim == 0:
        return pointwise(p, name)
    dims = [d for d in source.dims if c.chance(60)] or [source.dims[-1]]
    ranges = {d: (low := c.pick((0, 1, -2)), low + c.pick(SIZES)) for d in dims}
    return with_boundary(c, source, ranges)


def with_boundary(c: Choices, source: Func | Input, ranges: dict[str, Any]) -> Func:
    """Return a source with one of the boundary conditions."""
    kind = c.integer(0, 4)
    if kind == 4:
        value = True if source.dtypes[0].kind == "b" else c.pick((0, 1, 100))
        return source.constant(value, **ranges)
    method: Callable[..., Func] = (source.clamped, source.mirrored, source.mirrored_without_edge, source.wrapped)[kind]
    return method(**ranges)


def broadcast(p: Pool, name: str) -> Func:
    """A Func of another rank than its source: rows, columns and slices."""
    c = p.choices
    v = p.variables(c.pick((2, 3, 1, 4)))
    f = Func(name)
    s = p.scope(*v)
    first = c.pick(p.sources)
    index = [c.pick((*v, a.cast(int32, c.integer(-1, 3)))) for _ in range(first.ndim)]
    value = read(s, first, index)
    dtype: DType = value.dtype
    f[v] = a.select(condition(s, 0), value, leaf(s, dtype))
    return f


PURE_KINDS: tuple[Callable[[Pool, str], Func], ...] = (
    pointwise, stencil, pointwise, reduction, stencil, upsample, downsample, gather, matrix_product, broadcast,
    tuple_valued, arg_reduction, bounded,
)  # fmt: skip
