"""Small pipelines with fixed schedules, one for each kind of work that the CPU model distinguishes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from autosched.analysis.bind import bind
from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.lang.dtypes import float32, int32, uint8
from autosched.lang.expr import Var
from autosched.lang.func import Func, Input
from autosched.lang.functions import cast, exp
from autosched.lang.pipeline import Pipeline
from autosched.lang.rdom import RDom
from autosched.lang.rdom import sum as sum_over
from autosched.scheduled_pipeline import ScheduledPipeline
from autosched.search.strategies.compute_root import schedule_roots
from autosched.target import Target

TINY = "tiny"
"""Name of the microbenchmark whose time is that of a call."""
HEIGHT, WIDTH = 480, 1000
"""Size of the images, which stay in the last-level cache; no power of two, whose rows meet in few sets of a cache."""
LARGEST_STREAM = 1 << 23
"""Most elements of a stream's array."""
DEGREE = 16
"""Degree of the polynomial that stands for arithmetic."""
PRODUCT = 150
"""Rows and columns of the matrix product."""

_y, _x, _i = Var("y"), Var("x"), Var("i")


@dataclass(frozen=True)
class Microbenchmark:
    """A pipeline whose baseline schedule is timed.

    Attributes:
        name: The kind of work.
        pipeline: The pipeline.
        inputs: Its inputs by name.
    """

    name: str
    pipeline: Pipeline
    inputs: dict[str, NDArray[Any]]

    @property
    def bound(self) -> BoundPipeline:
        """The pipeline with its shapes."""
        return bind(self.pipeline, {name: array.shape for name, array in self.inputs.items()}, {})

    def scheduled(self, target: Target) -> ScheduledPipeline:
        """Return the pipeline with its baseline schedule, which no cost model influences."""
        return ScheduledPipeline(self.bound, schedule_roots(self.bound, target), target)


def microbenchmarks(target: Target) -> Iterator[Microbenchmark]:
    """Yield the microbenchmarks of a processor.

    Args:
        target: The processor, whose caches determine the lengths of streams.
    """
    yield _stream(TINY, 1)  # one block, which wakes no other core
    yield _stream("core's cache", target.shared_per_sm // 8)
    yield _stream("memory", min(target.l2_bytes // 4, LARGEST_STREAM))
    yield from _of_floats()
    yield from _of_bytes()
    yield from _of_reductions()


def _of_floats() -> Iterator[Microbenchmark]:
    image, other = Input("image", float32, 2), Input("other", float32, 2)
    value, divisor, edge = image[_y, _x], other[_y, _x], image.clamped()
    polynomial = value
    for k in range(DEGREE):
        polynomial = polynomial * value + (0.5 + k / DEGREE)
    one, two = {"image": _pixels()}, {"image": _pixels(), "other": _pixels() + 0.5}
    yield _image("arithmetic", polynomial, one)
    yield _image("division", value / divisor + 1 / (value + 1), two)
    yield _image("elementary functions", exp(value) * exp(-divisor), two)
    near = [edge[_y + dy, _x + dx] * (1 + dy * dx / 4) for dy in (-1, 0, 1) for dx in (-1, 0, 1)]
    yield _image("stencil", sum(near[1:], near[0]), one)
    yield _image("strided", image[_y, 2 * _x] + image[_y, 2 * _x + 1], one, WIDTH // 2)


def _of_bytes() -> Iterator[Microbenchmark]:
    image, table = Input("image", uint8, 2), Input("table", float32, 1)
    levels, edge = {"image": (_pixels() * 255).astype(np.uint8)}, image.clamped()
    near = [cast(int32, edge[_y + dy, _x + dx]) for dy in (-1, 0, 1) for dx in (-1, 0, 1)]
    yield _image("bytes", cast(uint8, sum(near[1:], near[0]) // 9), levels)
    yield _image("gather", table[cast(int32, image[_y, _x])], levels | {"table": np.linspace(0, 1, 256).astype("f4")})


def _of_reductions() -> Iterator[Microbenchmark]:
    image, other = Input("image", float32, 2), Input("other", float32, 2)
    row, column, product = Func("row"), Func("column"), Func("product")
    along, across, terms = RDom("along", x=(0, WIDTH)), RDom("across", y=(0, HEIGHT)), RDom("terms", k=(0, PRODUCT))
    row[_y] = sum_over(image[_y, along.x], over=along)
    yield Microbenchmark("sums of rows", Pipeline(row.over(y=(0, HEIGHT))), {"image": _pixels()})
    column[_x] = sum_over(image[across.y, _x], over=across)
    yield Microbenchmark("sums of columns", Pipeline(column.over(x=(0, WIDTH))), {"image": _pixels()})
    product[_y, _x] = sum_over(image[_y, terms.k] * other[terms.k, _x], over=terms)
    square = np.ascontiguousarray(_pixels()[:PRODUCT, :PRODUCT])
    whole = product.over(y=(0, PRODUCT), x=(0, PRODUCT))
    yield Microbenchmark("matrix product", Pipeline(whole), {"image": square, "other": square.copy()})


def _pixels() -> NDArray[np.float32]:
    """Return an image of values from 0.25 to 0.75."""
    return np.linspace(0.25, 0.75, HEIGHT * WIDTH, dtype=np.float32).reshape(HEIGHT, WIDTH)


def _image(name: str, value: Any, inputs: dict[str, NDArray[Any]], width: int = WIDTH) -> Microbenchmark:
    """Return a pipeline of one Func over an image."""
    output = Func("output")
    output[_y, _x] = value
    return Microbenchmark(name, Pipeline(output.over(y=(0, HEIGHT), x=(0, width))), inputs)


def _stream(name: str, length: int) -> Microbenchmark:
    """Return a sum of two arrays of some length."""
    a, b, output = Input("a", float32, 1), Input("b", float32, 1), Func("output")
    output[_i] = a[_i] + 0.5 * b[_i]
    numbers = np.ones(length, np.float32)
    return Microbenchmark(name, Pipeline(output.over(i=(0, length))), {"a": numbers, "b": numbers.copy()})
