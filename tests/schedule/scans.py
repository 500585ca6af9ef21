"""Programs with scans over rows: each row is pure in its columns and reads shifted columns of earlier rows."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from autosched import Func, Input, Pipeline, RDom, Var, cast, clamp, float32, int32, select, uint8
from autosched import max as max_
from autosched import min as min_
from autosched.analysis.bind import bind
from autosched.analysis.bound_pipeline import BoundPipeline, BoundStage
from autosched.schedule.kernel.row_scans import ScanLevel, scan_level_of
from autosched.schedule.types import Schedule

y, x, z, b = Var("y"), Var("x"), Var("z"), Var("b")

Scan = Callable[[], BoundPipeline]


def seam(rows: int = 9, columns: int = 13) -> BoundPipeline:
    """Seam carving: each point adds the least of its three neighbours in the row before."""
    image, m, r = Input("image", float32, 2), Func("m"), RDom("r", y=(1, rows))

    def at(d: int):
        return m[r.y - 1, clamp(x + d, 0, columns - 1)]

    m[y, x] = image[y, x]
    m[r.y, x] += min_(min_(at(-1), at(0)), at(1))
    return bind(Pipeline(m.over(y=(0, rows), x=(0, columns))), {"image": (rows, columns)})


def far(rows: int = 11, columns: int = 9) -> BoundPipeline:
    """Reads two and three rows back, mirrored and at half the column."""
    image, m, r = Input("image", int32, 2), Func("m"), RDom("r", y=(3, rows))
    m[y, x] = image[y, x]
    m[r.y, x] = m[r.y - 3, columns - 1 - x] * 3 + m[r.y - 2, x // 2] + image[r.y, x]
    return bind(Pipeline(m.over(y=(0, rows), x=(0, columns))), {"image": (rows, columns)})


def gather(rows: int = 8, columns: int = 17) -> BoundPipeline:
    """Reads the row before at data-dependent columns."""
    image, by, m, r = Input("image", int32, 2), Input("by", uint8, 2), Func("m"), RDom("r", y=(1, rows))
    m[y, x] = image[y, x]
    m[r.y, x] = m[r.y - 1, clamp(x + cast(int32, by[r.y, x]) % 7 - 3, 0, columns - 1)] + image[r.y, x]
    shapes = {"image": (rows, columns), "by": (rows, columns)}
    return bind(Pipeline(m.over(y=(0, rows), x=(0, columns))), shapes)


def viterbi(times: int = 6, states: int = 11) -> BoundPipeline:
    """The best way to each state: a maximum over all states at the time before."""
    seen, change, m = Input("seen", int32, 2), Input("change", int32, 2), Func("m")
    r = RDom("r", t=(1, times), k=(0, states))
    m[y, x] = seen[y, x]
    m[r.t, x] = max_(m[r.t, x], m[r.t - 1, r.k] + change[r.k, x])
    shapes = {"seen": (times, states), "change": (states, states)}
    return bind(Pipeline(m.over(y=(0, times), x=(0, states))), shapes)


def planes(times: int = 5, rows: int = 7, columns: int = 6) -> BoundPipeline:
    """Rows of two dimensions: each step is a plane."""
    image, m, r = Input("image", int32, 3), Func("m"), RDom("r", t=(1, times))
    m[z, y, x] = image[z, y, x]
    moved = m[r.t - 1, clamp(y - 1, 0, rows - 1), clamp(x + 1, 0, columns - 1)]
    m[r.t, y, x] = moved + m[r.t - 1, y, clamp(x - 1, 0, columns - 1)] + image[r.t, y, x]
    return bind(Pipeline(m.over(z=(0, times), y=(0, rows), x=(0, columns))), {"image": (times, rows, columns)})


def batch(images: int = 3, rows: int = 6, columns: int = 9) -> BoundPipeline:
    """Scans that have nothing to do with each other."""
    image, m, r = Input("image", int32, 3), Func("m"), RDom("r", y=(1, rows))
    m[b, y, x] = image[b, y, x]
    left, right = (m[b, r.y - 1, clamp(x + d, 0, columns - 1)] for d in (-1, 1))
    m[b, r.y, x] += max_(left, right)
    return bind(Pipeline(m.over(b=(0, images), y=(0, rows), x=(0, columns))), {"image": (images, rows, columns)})


def walked(rows: int = 7, columns: int = 10) -> BoundPipeline:
    """A scan whose columns are in the reduction domain as well."""
    image, m, r = Input("image", int32, 2), Func("m"), RDom("r", y=(1, rows), x=columns)
    m[y, x] = image[y, x]
    m[r.y, r.x] = image[r.y, r.x] + min_(m[r.y - 1, max_(r.x - 1, 0)], m[r.y - 1, min_(r.x + 1, columns - 1)])
    return bind(Pipeline(m.over(y=(0, rows), x=(0, columns))), {"image": (rows, columns)})


def ring(rows: int = 10, columns: int = 8) -> BoundPipeline:
    """Keeps three rows only, each of which is written again and again."""
    image, m, r = Input("image", int32, 2), Func("m"), RDom("r", y=(1, rows))
    m[y, x] = image[y, x]
    m[r.y % 3, x] = m[(r.y - 1) % 3, clamp(x + 1, 0, columns - 1)] + image[r.y, x]
    return bind(Pipeline(m.over(y=(0, 3), x=(0, columns))), {"image": (rows, columns)})


def upwards(rows: int = 8, columns: int = 8) -> BoundPipeline:
    """Begins with the last row."""
    image, m, r = Input("image", int32, 2), Func("m"), RDom("r", y=(0, rows - 1))
    m[y, x] = image[y, x]
    m[rows - 2 - r.y, x] += m[rows - 1 - r.y, clamp(x + 1, 0, columns - 1)] * 2
    return bind(Pipeline(m.over(y=(0, rows), x=(0, columns))), {"image": (rows, columns)})


def two_loops(rows: int = 5, groups: int = 4, columns: int = 9) -> BoundPipeline:
    """Two loops carry the scan, so that each pair of their iterations is a step."""
    image, m, r = Input("image", int32, 3), Func("m"), RDom("r", y=(1, rows), g=(1, groups))
    m[z, y, x] = image[z, y, x]
    before = m[r.y - 1, r.g, clamp(x + 1, 0, columns - 1)]
    m[r.y, r.g, x] = before + m[r.y, r.g - 1, clamp(x - 1, 0, columns - 1)]
    return bind(Pipeline(m.over(z=(0, rows), y=(0, groups), x=(0, columns))), {"image": (rows, groups, columns)})


def pairs(rows: int = 6, columns: int = 9) -> BoundPipeline:
    """Values and the columns of their origin."""
    image, m, r = Input("image", int32, 2), Func("m"), RDom("r", y=(1, rows))
    m[y, x] = (image[y, x], x)
    left, right = (m[r.y - 1, clamp(x + d, 0, columns - 1)] for d in (-1, 1))
    m[r.y, x] = (image[r.y, x] + min_(left[0], right[0]), select(left[0] < right[0], left[1], right[1]))
    return bind(Pipeline(m.over(y=(0, rows), x=(0, columns))), {"image": (rows, columns)})


def later_rows(rows: int = 7, columns: int = 9) -> BoundPipeline:
    """Reads rows before they are written."""
    image, m, r = Input("image", int32, 2), Func("m"), RDom("r", y=(0, rows - 2))
    m[y, x] = image[y, x]
    m[r.y, x] = m[r.y + 2, clamp(x + 1, 0, columns - 1)] - m[r.y, x]
    return bind(Pipeline(m.over(y=(0, rows), x=(0, columns))), {"image": (rows, columns)})


def energy(rows: int = 8, columns: int = 11) -> BoundPipeline:
    """Seam carving with the energy as a Func of its own, and an output that reads the last row."""
    image, e, m, last, r = Input("image", int32, 2), Func("e"), Func("m"), Func("last"), RDom("r", y=(1, rows))
    c = image.clamped()
    e[y, x] = c[y, x + 1] * 2 - c[y, x - 1] + c[y + 1, x] - c[y - 1, x]
    m[y, x] = e[y, x]
    m[r.y, x] = e[r.y, x] + min_(m[r.y - 1, max_(x - 1, 0)], m[r.y - 1, clamp(x + 1, 0, columns - 1)])
    last[x] = m[rows - 1, x] + 1
    return bind(Pipeline(last.over(x=(0, columns))), {"image": (rows, columns)})


PROGRAMS: tuple[Scan, ...] = (
    seam, far, gather, viterbi, planes, batch, walked, ring, upwards, two_loops, pairs, later_rows, energy,
)  # fmt: skip


def inputs_of(bound: BoundPipeline, seed: int = 0) -> dict[str, np.ndarray]:
    """Return random inputs, whole numbers from 0 to 99."""
    rng = np.random.default_rng(seed)
    return {i.name: rng.integers(0, 100, i.shape).astype(i.dtype.numpy) for i in bound.inputs.values()}


def scan_of(bound: BoundPipeline) -> BoundStage:
    """Return the scan of a program."""
    return next(s for f in bound.funcs.values() for s in f.stages if s.steps)


def walks(bound: BoundPipeline, schedule: Schedule) -> list[ScanLevel]:
    """Return the level that iterates the steps of each scan of a schedule."""
    tilings = [r.tiling for k in schedule.kernels for r in k.roots]
    return [scan_level_of(bound.stage(*t.stage), t.loops) for t in tilings if bound.stage(*t.stage).steps]
