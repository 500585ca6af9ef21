"""Windows of 3 to 255 elements: the form that the search chooses, and times.

    OMP_NUM_THREADS=1 python scripts/bench_windows.py [--lengths 7,31] [--calls 20]

A row for each length, of minima of bytes and of means of float32 over square windows of an image. Forms are the
lengths of the shorter windows of columns and of rows; ``loop`` where all elements are in one loop, 1 where they are
operands of one expression. Milliseconds are the least of interleaved calls on this processor, beside OpenCV's;
microseconds are predictions for an H200 by the analytical model.
"""

from __future__ import annotations

import argparse
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

import autosched
from autosched import Func, Input, Pipeline, Var, float32, uint8
from autosched.analysis.bind import bind
from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.lang.idioms import window_minimum, window_sum
from autosched.schedule.rewrites import apply_rewrites
from autosched.schedule.types import Schedule

LENGTHS = (3, 5, 7, 9, 15, 31, 63, 127, 255)
HEIGHT, WIDTH = 1083, 1439


@dataclass(frozen=True)
class WindowCase:
    """A window of an image.

    Attributes:
        name: Name in the table.
        pipeline: The pipeline.
        image: The image.
        library: OpenCV's function of the same results.
    """

    name: str
    pipeline: Pipeline
    image: NDArray[Any]
    library: Callable[[], Any]


def cases(length: int) -> Iterator[WindowCase]:
    """Yield the windows of one length."""
    import cv2

    cv2.setNumThreads(1)
    box = {"y": (0, HEIGHT), "x": (0, WIDTH)}
    bytes_ = np.random.default_rng(0).integers(0, 256, (HEIGHT, WIDTH)).astype(np.uint8)
    floats, ones = bytes_.astype(np.float32), np.ones((length, length), np.uint8)
    edge = Input("image", uint8, 2).clamped()
    columns = window_minimum(edge, name="columns", y=length)
    least = window_minimum(columns, name="least", x=length)
    yield WindowCase(
        "minimum", Pipeline(least.over(**box), name="minimum"), bytes_,
        lambda: cv2.erode(bytes_, ones, borderType=cv2.BORDER_REPLICATE),
    )  # fmt: skip
    y, x, mean = Var("y"), Var("x"), Func("mean")
    sums = window_sum(Input("image", float32, 2).clamped(), name="columns", y=length)
    mean[y, x] = window_sum(sums, name="total", x=length)[y, x] * (1 / length**2)
    yield WindowCase(
        "mean", Pipeline(mean.over(**box), name="mean"), floats,
        lambda: cv2.blur(floats, (length, length), borderType=cv2.BORDER_REPLICATE),
    )  # fmt: skip


def form_of(bound: BoundPipeline, schedule: Schedule) -> str:
    """Return the lengths of the shorter windows of columns and rows, or ``loop``."""
    if not schedule.windows:
        return "loop"
    lengths: dict[str, list[str]] = {w.func: [] for w in schedule.windows}
    for name in apply_rewrites(bound, schedule).funcs:
        if match := re.fullmatch(r"(.+)_w(\d+)", name):
            lengths.setdefault(match[1], []).append(match[2])
    return "; ".join(sorted({", ".join(sorted(n, key=int)) or "1" for n in lengths.values()}))


def least_ms(calls: list[Callable[[], Any]], rounds: int) -> list[float]:
    """Return the least time of each call in milliseconds, of interleaved rounds."""
    times: list[list[float]] = [[] for _ in calls]
    for _ in range(rounds):
        for call, found in zip(calls, times, strict=True):
            started = time.perf_counter()
            call()
            found.append(1e3 * (time.perf_counter() - started))
    return [min(t) for t in times]


def row_of(case: WindowCase, length: int, rounds: int) -> list[str]:
    """Return the cells of one window."""
    inputs = {"image": case.image}
    bound = bind(case.pipeline, {"image": case.image.shape})
    scheduled = autosched.schedule(case.pipeline, inputs=inputs, target="cpu", reuse=False)
    kernel = scheduled.compile("cpu")
    np.testing.assert_allclose(np.asarray(kernel(inputs)), case.library(), rtol=1e-4)
    ours, library = least_ms([lambda: kernel(inputs), case.library], rounds)
    gpu = autosched.schedule(case.pipeline, inputs=inputs, target="h200", cost="analytical", reuse=False)
    predicted = gpu.provenance.predicted_s if gpu.provenance else None
    return [
        case.name, str(length), form_of(bound, scheduled.schedule), f"{ours:.3f}", f"{library:.3f}",
        f"{ours / library:.2f}", form_of(bound, gpu.schedule), f"{1e6 * (predicted or 0):.1f}",
    ]  # fmt: skip


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lengths", default=",".join(map(str, LENGTHS)), help="separated by commas")
    parser.add_argument("--calls", type=int, default=20, help="calls of each function")
    args = parser.parse_args()
    table = Table("window", "elements", "form", "ms", "OpenCV ms", "ratio", "form, H200", "predicted us")
    for length in map(int, args.lengths.split(",")):
        for case in cases(length):
            table.add_row(*row_of(case, length, args.calls))
    Console(width=140).print(table)
