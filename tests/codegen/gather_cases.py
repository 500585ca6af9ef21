"""Pipelines whose channels gather at the same positions."""

from __future__ import annotations

from autosched.analysis.bind import bind
from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.lang.dtypes import DType, float32, int32, uint8
from autosched.lang.expr import Expr, Var
from autosched.lang.func import Func, Input
from autosched.lang.functions import cast, clamp, floor, select, sqrt
from autosched.lang.pipeline import Pipeline

c, y, x = Var("c"), Var("y"), Var("x")


def bilinear(image: Input, place: Func, height: int, width: int) -> Expr:
    """Return a picture at the positions of a Func, zero outside."""
    at_y, at_x = place[y, x, 0], place[y, x, 1]
    low_y, low_x = floor(at_y), floor(at_x)
    total: Expr | None = None
    for dy in (0, 1):
        for dx in (0, 1):
            row, column = low_y + dy, low_x + dx
            is_inside = (row >= 0) & (row <= height - 1) & (column >= 0) & (column <= width - 1)
            value = image[c, cast(int32, clamp(row, 0, height - 1)), cast(int32, clamp(column, 0, width - 1))]
            weight = (1 - abs(at_y - row)) * (1 - abs(at_x - column))
            term = select(is_inside, cast(float32, value), 0.0) * weight
            total = term if total is None else total + term
    assert total is not None
    return total


def resampled(dtype: DType = float32, channels: int = 3) -> BoundPipeline:
    """Return a picture at positions near each pixel."""
    height, width = 12, 70
    image, flow = Input("image", dtype, 3), Input("flow", float32, 3)
    k = Var("k")
    place, f = Func("place"), Func("f")
    place[y, x, k] = flow[y, x, k] * 0.2 + select(k == 0, y, x)
    f[c, y, x] = bilinear(image, place, height, width)
    pipeline = Pipeline([f.over(c=(0, channels), y=(0, height), x=(0, width))], name="resampled")
    return bind(pipeline, {"image": (channels, height, width), "flow": (height, width, 2)})


def looked_up() -> BoundPipeline:
    """Return channels of a table of colours."""
    image, table, f = Input("image", uint8, 2), Input("table", float32, 2), Func("f")
    level = cast(int32, image[y, x])
    gain = sqrt(cast(float32, level)) * 0.5 + 1
    f[c, y, x] = table[c, clamp(level * 3 - level // 2 + 7, 0, 255)] * (gain * gain - gain)
    return bind(Pipeline([f.over(c=(0, 4), y=(0, 24), x=(0, 64))]), {"image": (24, 64), "table": (4, 256)})
