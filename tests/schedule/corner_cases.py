"""Small valid pipelines of every unusual kind, each with the shapes it is bound to."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

import autosched as a
from autosched import (
    Func,
    Input,
    Param,
    Pipeline,
    RDom,
    Var,
    bfloat16,
    float16,
    float32,
    float64,
    int8,
    int32,
    uint8,
    undef,
)
from autosched.analysis.bind import bind
from autosched.analysis.bound_pipeline import BoundPipeline

w, z, y, x = Var("w"), Var("z"), Var("y"), Var("x")


@dataclass(frozen=True)
class CornerCase:
    """A pipeline with its input shapes and parameters."""

    pipeline: Pipeline
    shapes: Mapping[str, tuple[int, ...]]
    params: Mapping[str, int | float]

    def bound(self) -> BoundPipeline:
        """Return the pipeline bound to its shapes."""
        return bind(self.pipeline, self.shapes, self.params)

    def inputs(self) -> dict[str, NDArray[np.generic]]:
        """Return input arrays."""
        rng = np.random.default_rng(11)
        return {
            i.name: (rng.random(self.shapes[i.name]) * 100 - 20 * (i.dtype.kind != "u")).astype(i.dtype.numpy)
            for i in self.pipeline.inputs
        }


CORNER_CASES: dict[str, Callable[[], CornerCase]] = {}


def _case(make: Callable[[], CornerCase]) -> Callable[[], CornerCase]:
    CORNER_CASES[make.__name__] = make
    return make


def _of(
    *outputs: a.Output | Func, params: Mapping[str, int | float] | None = None, **shapes: tuple[int, ...]
) -> CornerCase:
    return CornerCase(Pipeline(list(outputs), name="corner"), shapes, params or {})


@_case
def output_without_dimensions() -> CornerCase:
    img, total = Input("img", float32, 2), Func("total")
    r = RDom("r", y=img.shape[0], x=img.shape[1])
    total[()] = a.sum(img[r.y, r.x], over=r)
    return _of(total, img=(9, 13))


@_case
def stage_without_dimensions_in_the_middle() -> CornerCase:
    img, low, out = Input("img", float32, 1), Func("low"), Func("out")
    low[()] = a.minimum(img[(r := RDom("r", i=img.shape[0])).i], over=r)
    out[x] = img[x] - low[()]
    return _of(out.over(x=(0, img.shape[0])), img=(70,))


@_case
def single_point() -> CornerCase:
    img = Input("img", float32, 3)
    f, out = Func("f"), Func("out")
    f[z, y, x] = img.clamped()[z, y - 1, x + 1] * 2
    out[z, y, x] = f[z, y, x] + f[z + 1, y, x]
    return _of(out.over(z=(0, 1), y=(0, 1), x=(0, 1)), img=(1, 1, 1))


@_case
def single_column() -> CornerCase:
    img = Input("img", float32, 2)
    f, out = Func("f"), Func("out")
    f[y, x] = a.sqrt(img.mirrored()[y, x - 2]) + img.mirrored()[y, x]
    out[y, x] = f[y - 1, x] * f[y + 1, x]
    return _of(out.over(y=(0, img.shape[0]), x=(0, 1)), img=(131, 1))


@_case
def several_outputs() -> CornerCase:
    """One output is read by the other, they have other boxes, and a third is larger than its box."""
    img = Input("img", uint8, 2)
    f, g, small = Func("f"), Func("g"), Func("small")
    f[y, x] = a.cast(int32, img[y, x]) * 3
    g[y, x] = f[y, x + 1] - f[y + 1, x]
    small[y, x] = f[2 * y, x] + g[y, x]
    return _of(
        f.over(y=(2, 12), x=(3, 20)), g.over(y=(0, 12), x=(0, 20)), small.over(y=(0, 6), x=(1, 15)), img=(13, 21)
    )


@_case
def histogram() -> CornerCase:
    img, bins, out = Input("img", uint8, 2), Func("bins"), Func("out")
    r = RDom("r", y=img.shape[0], x=img.shape[1])
    bins[x] = 0
    bins[a.cast(int32, img[r.y, r.x])] += 1
    out[x] = bins[x] + bins[255 - x]
    return _of(out.over(x=(0, 128)), img=(17, 23))


@_case
def scans() -> CornerCase:
    """Running sums along rows and then along columns, the second in place over the first."""
    img, table = Input("img", float32, 2), Func("table")
    rows, columns = RDom("rows", x=(1, img.shape[1])), RDom("columns", y=(1, img.shape[0]))
    table[y, x] = img[y, x]
    table[y, rows.x] = table[y, rows.x - 1] + table[y, rows.x]
    table[columns.y, x] = table[columns.y - 1, x] + table[columns.y, x]
    return _of(table.over(y=(0, img.shape[0]), x=(0, img.shape[1])), img=(19, 37))


@_case
def gather() -> CornerCase:
    img, index, out = Input("img", float32, 2), Input("index", int8, 1), Func("out")
    out[y, x] = img[a.clamp(index[x] + y, 0, img.shape[0] - 1), x % 3]
    return _of(out.over(y=(0, 15), x=(0, index.shape[0])), img=(15, 3), index=(66,))


@_case
def tuples() -> CornerCase:
    img, f, out = Input("img", float32, 2), Func("f"), Func("out")
    f[y, x] = (img[y, x], a.cast(int32, img[y, x] * 8))
    out[y, x] = (f[y, x + 1][0] + 1, f[y, x][1] + f[y, x + 1][1])
    best = a.argmax(img[y, (r := RDom("r", i=img.shape[1])).i], over=r)
    peak = Func("peak")
    peak[y] = a.cast(float32, best[0]) + best[1]
    return _of(out.over(y=(0, 10), x=(0, 30)), peak.over(y=(0, 10)), img=(10, 31))


@_case
def undefined_at_first() -> CornerCase:
    img, f, out = Input("img", float32, 2), Func("f"), Func("out")
    f[y, x] = undef(float32)
    f[y, x] = img[y, x] + 1
    f[y, x] = f[y, x] * 2
    out[y, x] = f[y, x] + f[y, x + 1]
    return _of(out.over(y=(0, 20), x=(0, 33)), img=(20, 34))


@_case
def empty_reductions() -> CornerCase:
    """A sum over nothing, and an update that never runs and would read another Func."""
    img, other, f = Input("img", float32, 2), Func("other"), Func("f")
    n = Param("n", int32, default=0)
    r = RDom("r", k=n)
    other[y, x] = img[y, x] * 5
    f[y, x] = img[y, x]
    f[y, x] += other[y, r.k]
    out = Func("out")
    out[y, x] = f[y, x] + a.sum(img[y, r.k], over=r)
    return _of(out.over(y=(0, 12), x=(0, 40)), params={"n": 0}, img=(12, 40))


@_case
def unused_inputs() -> CornerCase:
    """An input that only an update reads that never runs, and a Func of no input at all."""
    img, idle, f = Input("img", float32, 1), Input("idle", float32, 1), Func("f")
    r = RDom("r", k=(0, 0))
    f[x] = img[x]
    f[x] += idle[r.k]
    ramp = Func("ramp")
    ramp[y, x] = a.cast(float32, x) * 2 + y
    return _of(f.over(x=(0, 50)), ramp.over(y=(0, 5), x=(0, 40)), img=(50,), idle=(7,))


@_case
def five_dimensions() -> CornerCase:
    v = Var("v")
    img, f, out = Input("img", float32, 5), Func("f"), Func("out")
    f[v, w, z, y, x] = img[v, w, z, y, x] + img[v, w, z, y, x + 1]
    out[v, w, z, y, x] = f[v, w, z, y, x] * f[v, w, z, y + 1, x]
    return _of(out.over(v=(0, 2), w=(0, 3), z=(0, 4), y=(0, 5), x=(0, 6)), img=(2, 3, 4, 6, 7))


@_case
def resampling() -> CornerCase:
    img = Input("img", float32, 2)
    down, out = Func("down"), Func("out")
    clamped = img.clamped()
    down[y, x] = (clamped[2 * y - 1, 2 * x] + clamped[2 * y, 2 * x] * 2 + clamped[2 * y + 1, 2 * x + 1]) / 4
    out[y, x] = (down[y // 2, x // 2] + down[(y + 1) // 2, (x + 1) // 2]) / 2
    return _of(out.over(y=(0, img.shape[0]), x=(0, img.shape[1])), img=(37, 51))


@_case
def half_and_double_precision() -> CornerCase:
    img, f, out = Input("img", float16, 2), Func("f"), Func("out")
    gain = Param("gain", float16, default=1.5)
    f[y, x] = img[y, x] * gain + img[y, x + 1] / 3
    out[y, x] = (f[y, x] + 1, a.cast(float64, f[y, x]) / 7, a.cast(float16, a.sqrt(a.abs(f[y, x]))))
    return _of(out.over(y=(0, 20), x=(0, 40)), params={"gain": 1.5}, img=(20, 41))


@_case
def bfloat16_between_other_types() -> CornerCase:
    """Loads, stores, a parameter, conversions from and to every other kind of type, reductions and functions."""
    img, f, out = Input("img", bfloat16, 2), Func("f"), Func("out")
    gain, r = Param("gain", bfloat16, default=1.5), RDom("r", k=4)
    f[y, x] = img[y, x] * gain + img[y, x + 1] / 3 + x
    row = a.sum(f[y, x + r.k], over=r)
    chosen = a.select(f[y, x] > img[y, x], a.min(f[y, x], row), a.cast(bfloat16, a.cast(int8, img[y, x])))
    half = a.cast(float16, f[y, x])
    out[y, x] = (
        chosen,
        half + img[y, x],
        a.sqrt(a.abs(row)),
        a.cast(int32, row),
        a.cast(bfloat16, a.cast(float64, half)),
    )
    return _of(out.over(y=(0, 20), x=(0, 40)), params={"gain": 1.5}, img=(20, 45))


@_case
def negative_domains() -> CornerCase:
    img = Input("img", int32, 2)
    f, out = Func("f"), Func("out")
    f[y, x] = img.constant(-7)[y + 20, x - 5]
    out[y, x] = f[y, x] + f[-y, x]
    return _of(out.over(y=(-30, -3), x=(-9, 40)), img=(16, 24))


@_case
def names_that_code_uses() -> CornerCase:
    """Names that are words of C, of CUDA, of the prelude, or not ASCII."""
    source, block = Input("float", int32, 2), Var("block")
    first, second, third, out = Func("int"), Func("LOAD"), Func("Größe"), Func("threadIdx")
    first[block, x] = source[block, x] * 2
    second[block, x] = first[block, x] + first[block, x + 1]
    third[y, x] = second[y, x] - second[y + 1, x]
    out[block, x] = third[block, x] + a.sum(first[block + (r := RDom("for", while_=2)).while_, x], over=r)
    return _of(out.over(block=(0, 10), x=(0, 40)), **{"float": (13, 42)})
