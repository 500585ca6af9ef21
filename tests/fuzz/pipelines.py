"""Random small pipelines, valid by construction, with inputs and parameters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

import autosched as a
from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.lang.dtypes import int32
from autosched.lang.expr import Const, Expr, Param, Scalar
from autosched.lang.func import Func, Input, Output
from autosched.lang.pipeline import Pipeline
from tests.fuzz.arrays import random_array
from tests.fuzz.choices import Choices
from tests.fuzz.expressions import any_type, as_type, expression
from tests.fuzz.stages import DIMS, PURE_KINDS, SIZES, Pool, with_boundary
from tests.fuzz.updates import updated

NAMES = ("f", "g", "out", "h", "sum", "main", "block", "x", "int", "p", "t", "f_1", "Größe")
WIDE = (16, 33, 64, 67, 97, 130, 1, 31)
"""Extents of the last dimension."""
FAR = ((1 << 31) - 7, -(1 << 31) - 40)
"""Where coordinates leave 32 bits."""


@dataclass(frozen=True)
class Case:
    """A pipeline with everything it is called with."""

    pipeline: Pipeline
    inputs: Mapping[str, np.ndarray[Any, Any]]
    params: Mapping[str, Scalar]

    @property
    def is_far(self) -> bool:
        """Whether an output lies where coordinates leave 32 bits; Funcs may then need too much to be computed."""
        lows = [low for o in self.pipeline.outputs for low, _ in o.box or ()]
        return any(isinstance(low, Const) and low.value in FAR for low in lows)

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Shapes of the inputs."""
        return {name: array.shape for name, array in self.inputs.items()}

    def __repr__(self) -> str:
        lines = [f"{i!r} of shape {self.inputs[i.name].shape}" for i in self.pipeline.inputs]
        lines += [f"Param {p.name} = {self.params[p.name]!r} ({p.dtype})" for p in self.pipeline.params]
        lines += [f"# {self.pipeline.name_of(f)}\n{f!r}" for f in self.pipeline.funcs]
        lines += [f"output {self.pipeline.name_of(o.func)} over {o.box}" for o in self.pipeline.outputs]
        return "\n".join(["", *lines])


def random_case(c: Choices) -> Case:
    """Return a pipeline with inputs and parameters."""
    inputs = [_input(c, k) for k in range(c.pick((1, 2, 1, 3)))]
    shapes = {i.name: _shape(c, i.ndim) for i in inputs}
    scalars = [Param(f"gain{k}", any_type(c)) for k in range(c.pick((0, 1, 0, 2)))]
    bounds = [Param("reach", c.pick((int32, a.int64, a.uint8)))] if c.chance(25) else []
    sources: list[Func] = [_total(c, i, k) for k, i in enumerate(inputs)]
    pool = Pool(c, sources, scalars, bounds, inputs)
    made: list[Func] = []
    for _ in range(c.integer(1, 6)):
        name = c.pick(NAMES)
        made.append(updated(pool, name) if c.chance(25) else c.pick(PURE_KINDS)(pool, name))
        sources.append(made[-1])
    outputs = [_boxed(c, made[-1], bounds)]
    if c.chance(25):
        outputs.append(_boxed(c, c.pick(made), bounds))
    if c.chance(25):
        outputs.append(_unbounded_reads(pool, shapes))
    unique = {o.func: o for o in outputs}
    pipeline = Pipeline(list(unique.values()), name=c.pick(("p", "fuzz", "f")))
    params = {p.name: _param_value(c, p) for p in pipeline.params}
    rng = np.random.default_rng(c.integer(0, 1 << 16))
    special = c.chance(40)
    used = {i.name: random_array(rng, i.dtype, shapes[i.name], special=special) for i in pipeline.inputs}
    return Case(pipeline, used, params)


def _input(c: Choices, k: int) -> Input:
    ndim = c.pick((2, 2, 1, 3, 2, 4, 0))
    return Input(f"in{k}", any_type(c), ndim, dims=DIMS[4 - ndim :])


def _shape(c: Choices, ndim: int) -> tuple[int, ...]:
    sizes = [c.pick((3, 1, 2, 5)) for _ in range(ndim)]
    if ndim > 1:
        sizes[-2] = c.pick(SIZES)
    if ndim > 0:
        sizes[-1] = c.pick(WIDE if ndim < 4 else SIZES)
    return tuple(sizes)


def _total(c: Choices, i: Input, k: int) -> Func:
    """Return an input as a Func that may be read anywhere: by a boundary condition, or by clamping here."""
    f = Func(f"src{k}")
    if i.ndim == 0:
        f[()] = i[()]
        return f
    if c.chance(70):
        dims = i.dims if c.chance(80) else i.dims[:1]
        source = with_boundary(c, i, {d: (0, n) for d, n in zip(i.dims, i.shape, strict=True) if d in dims})
        if len(dims) == i.ndim:
            return source
    else:
        source, dims = i, ()
    v = tuple(a.Var(d) for d in i.dims)
    at: list[Expr] = []
    for d, n, x in zip(i.dims, i.shape, v, strict=True):
        at.append(x if d in dims else c.pick((a.clamp(x, 0, n - 1), a.min(a.max(0, x), n - 1))))
    f[v] = source[tuple(at)]
    return f


def _boxed(c: Choices, f: Func, bounds: list[Param]) -> Output:
    """Return an output over a random box."""
    box: dict[str, Any] = {}
    for axis, d in enumerate(f.dims):
        last, row = axis == f.ndim - 1, axis == f.ndim - 2
        low = c.pick((0, 0, 1, -3)) if not c.chance(3) else c.pick(FAR)
        size = c.pick(WIDE if last and f.ndim < 4 else SIZES if last or row else (3, 1, 2, 5))
        box[d] = (low, low + size)
        if bounds and low in (0, 1) and c.chance(20):
            box[d] = (low, bounds[0] + (low + 1))
    return f.over(**box)


def _unbounded_reads(p: Pool, shapes: Mapping[str, tuple[int, ...]]) -> Output:
    """Return an output that reads an input without boundary condition, in a box that keeps the reads inside."""
    c = p.choices
    i = c.pick(p.inputs)
    v = tuple(a.Var(d) for d in i.dims)
    f = Func("raw")
    s = p.scope(*v)
    if c.chance(40):  # its box is deduced from the input's shape
        f[v] = i[v] if i.dtype.kind == "b" else i[v] + as_type(expression(s, i.dtype, 1), i.dtype)
        return Output(f)
    reach = [c.integer(0, min(2, n - 1)) for n in shapes[i.name]]
    f[v] = a.select(s.choices.chance(0), i[v], i[tuple(x + d for x, d in zip(v, reach, strict=True))])
    return f.over(**{d: (0, n - k) for d, n, k in zip(i.dims, i.shape, reach, strict=True)})


def _param_value(c: Choices, p: Param) -> Scalar:
    if p.name == "reach":
        return c.pick((3, 1, 7, 13))
    if p.dtype.kind == "b":
        return c.chance(50)
    if p.dtype.is_float:
        values = (1.0, 0.5, -3.0, 0.0, float("nan"))
        return c.pick(values)
    return c.pick((1, 3, 0, p.dtype.max_value, p.dtype.min_value))


def points(bound: BoundPipeline) -> int:
    """Return how many evaluations computing every Func once takes."""
    total = 0
    for func in bound.funcs.values():
        for stage in func.stages:
            total += prod(func.extents) * prod(d.extent for d in stage.reductions)
    return total
