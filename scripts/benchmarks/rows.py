"""Reductions, softmax, norms, attention, scans, windows and resampling on a CPU, and their predictions for an H200.

    OMP_NUM_THREADS=1 python scripts/bench_rows.py [--only softmax,attention] [--seconds 2] [--least]
    python scripts/bench_rows.py --target h200 [--only softmax]

On a CPU: milliseconds of default schedules and of a library's function, interleaved in one process: the median of the
calls, or the least with --least for busy machines, and the ratio. For an H200: kernels, microseconds by the analytical
model and on the simulated device, and the time that the bytes of inputs and outputs take at the memory's rate. Results
are checked against the library's. OpenCV's rows appear where it is installed.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Iterator
from functools import lru_cache, partial
from statistics import median as median_of
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

import autosched
from autosched import Expr, Func, Input, Pipeline, RDom, Var, float32, int32, uint8
from autosched.analysis.bind import bind
from autosched.apps import get_app
from autosched.errors import CompileError
from autosched.lang.dtypes import as_dtype
from autosched.lang.idioms import cumsum, window_maximum, window_minimum
from autosched.lang.median import median
from autosched.measure.simulated.simulate import simulate
from autosched.target import get_target
from benchmarks.row_apps import row_apps
from benchmarks.row_case import Arrays, RowCase

RNG = np.random.default_rng(0)
MOST_CALLS, LEAST_CALLS = 60, 5


def reductions() -> Iterator[RowCase]:
    """Yield sums, means and maxima along rows and columns."""
    y, x = Var("y"), Var("x")
    for shape in ((4096, 1024), (1024, 50_257), (1, 10_000_000), (10_000_000, 4)):
        for dtype in ("float32", "uint8"):
            for kind in ("sum", "mean", "max"):
                for axis in (1, 0):
                    image, f = Input("a", as_dtype(dtype), 2), Func("f")
                    r = RDom("r", k=image.shape[axis])
                    at, point = ((y, r.k), y) if axis else ((r.k, x), x)
                    e = image[at]
                    if kind == "max":
                        f[point] = autosched.maximum(e, over=r)
                    else:
                        total = autosched.sum(e if dtype == "float32" else autosched.cast(int32, e), over=r)
                        n = shape[axis]
                        f[point] = total if kind == "sum" else autosched.cast(float32, total) / n
                    pipeline = Pipeline(f.over(**{str(point.name): (0, shape[1 - axis])}), name=kind)
                    along = "rows" if axis else "columns"
                    yield RowCase(
                        f"{kind} of {along} {shape[0]} x {shape[1]} {dtype}", pipeline,
                        partial(_numbers_as_input, shape, dtype), "NumPy",
                        partial(_numpy_reduction, shape, dtype, kind, axis),
                    )  # fmt: skip


@lru_cache(maxsize=1)
def _numbers(shape: tuple[int, int], dtype: str) -> np.ndarray[Any, Any]:
    return (RNG.random(shape, np.float32) * 255).astype(dtype)


def _numbers_as_input(shape: tuple[int, int], dtype: str) -> Arrays:
    return {"a": _numbers(shape, dtype)}


def _numpy_reduction(shape: tuple[int, int], dtype: str, kind: str, axis: int) -> Any:
    a = _numbers(shape, dtype)
    if kind == "max":
        return a.max(axis=axis)
    total = np.float32 if dtype == "float32" or kind == "mean" else np.int32
    return getattr(a, kind)(axis=axis, dtype=total)


def images() -> Iterator[RowCase]:
    """Yield cumulative sums beside NumPy, and windows beside OpenCV."""
    bytes_ = RNG.integers(0, 256, (1083, 1439)).astype(np.uint8)
    h, w = bytes_.shape
    box = {"y": (0, h), "x": (0, w)}
    image = Input("image", uint8, 2)
    table = Pipeline(cumsum(image, dtype=int32, **box).over(**box), name="table")
    yield RowCase(
        "summed-area table 1083 x 1439 uint8", table, lambda: {"image": bytes_}, "NumPy",
        lambda: bytes_.cumsum(axis=0, dtype=np.int32).cumsum(axis=1, dtype=np.int32),
    )  # fmt: skip
    for n in (1_000_000, 100_000_000):
        numbers, prefix = RNG.random(n, np.float32), Input("a", float32, 1)
        yield RowCase(
            f"prefix sum of {n} float32", Pipeline(cumsum(prefix, x=(0, n)).over(x=(0, n)), name="prefix"),
            lambda a=numbers: {"a": a}, "NumPy", lambda a=numbers: np.cumsum(a), 1.0,
        )  # fmt: skip
    try:
        import cv2
    except ImportError:
        return
    cv2.setNumThreads(int(os.environ.get("OMP_NUM_THREADS", os.cpu_count() or 1)))  # it has threads of its own
    yield RowCase(
        "integral image and box 31 x 31 of 1083 x 1439 uint8", _integral(h, w), lambda: {"image": bytes_}, "OpenCV",
        lambda: _integral_by_opencv(bytes_),
    )  # fmt: skip
    edge, floats = image.clamped(), bytes_.astype(np.float32)
    for n in (3, 5):
        yield RowCase(
            f"median {n} x {n} of 1083 x 1439 uint8", Pipeline(median(edge, y=n, x=n).over(**box), name="median"),
            lambda: {"image": bytes_}, "OpenCV", lambda n=n: cv2.medianBlur(bytes_, n),
        )  # fmt: skip
    for n in (3, 7, 15, 31, 63, 127, 255):
        opened = window_maximum(window_minimum(edge, y=n, x=n).clamped(**box), y=n, x=n, name="opened")
        yield RowCase(
            f"opening {n} x {n} of 1083 x 1439 uint8", Pipeline(opened.over(**box), name="opening"),
            lambda: {"image": bytes_}, "OpenCV",
            lambda n=n: cv2.morphologyEx(
                bytes_, cv2.MORPH_OPEN, np.ones((n, n), np.uint8), borderType=cv2.BORDER_REPLICATE
            ),
        )  # fmt: skip
    for name, source in (("box", floats), ("box_bytes", bytes_)):
        for radius in (7, 31):
            n = 2 * radius + 1
            yield RowCase(
                f"box {n} x {n} of 1083 x 1439 {source.dtype}", get_app(name).configure({"radius": radius})[0],
                lambda source=source: {"input": source}, "OpenCV",
                lambda n=n, source=source: cv2.blur(source, (n, n), borderType=cv2.BORDER_REPLICATE),
            )  # fmt: skip


def _integral(height: int, width: int, radius: int = 15) -> Pipeline:
    """Return the means of windows, cut at the edges, from an integral image."""
    y, x, image = Var("y"), Var("x"), Input("image", uint8, 2)
    inside = (y > 0) & (x > 0)
    shifted, mean = Func("shifted"), Func("mean")
    shifted[y, x] = autosched.select(
        inside, autosched.cast(int32, image[autosched.max(y - 1, 0), autosched.max(x - 1, 0)]), 0
    )  # fmt: skip
    box = {"y": (0, height + 1), "x": (0, width + 1)}
    integral = cumsum(shifted, name="integral", **box)
    top, end = autosched.max(y - radius, 0), autosched.min(y + radius + 1, height)
    left, right = autosched.max(x - radius, 0), autosched.min(x + radius + 1, width)
    total = integral[end, right] - integral[top, right] - integral[end, left] + integral[top, left]
    count = (end - top) * (right - left)
    mean[y, x] = autosched.cast(float32, total) / autosched.cast(float32, count)
    return Pipeline([integral.over(**box), mean.over(y=(0, height), x=(0, width))], name="integral")


def _integral_by_opencv(image: np.ndarray[Any, Any], radius: int = 15) -> tuple[Any, Any]:
    import cv2

    table, (height, width) = cv2.integral(image), image.shape
    y, x = np.arange(height)[:, None], np.arange(width)[None]
    top, end = np.maximum(y - radius, 0), np.minimum(y + radius + 1, height)
    left, right = np.maximum(x - radius, 0), np.minimum(x + radius + 1, width)
    total = table[end, right] - table[top, right] - table[end, left] + table[top, left]
    return table, total.astype(np.float32) / ((end - top) * (right - left)).astype(np.float32)


def _cubic_weights(t: Expr) -> list[Expr]:
    """Return the weights of four neighbours at a distance ``t`` after the second one (Keys, a = -0.75)."""
    a = -0.75

    def near(s: Expr) -> Expr:
        return ((a + 2) * s - (a + 3)) * s * s + 1

    def far(s: Expr) -> Expr:
        return ((a * s - 5 * a) * s + 8 * a) * s - 4 * a

    return [far(t + 1), near(t), near(1 - t), far(2 - t)]


def bicubic(height: int, width: int) -> Pipeline:
    """Return the resize of images [n, c, y, x] to a size, with repeated edges."""
    images = Input("images", float32, 4)
    n, c, y, x = Var("n"), Var("c"), Var("y"), Var("x")
    count, channels, rows_in, columns_in = images.shape

    def taps(v: Var, size: Expr, resized: int, read: Callable[[Expr], Expr]) -> Expr:
        position = (autosched.cast(float32, v) + 0.5) * (autosched.cast(float32, size) / resized) - 0.5
        below = autosched.floor(position)
        first = autosched.clamp(autosched.cast(int32, below), -1, size) - 1
        parts = [w * read(first + k) for k, w in enumerate(_cubic_weights(position - below))]
        return parts[0] + parts[1] + parts[2] + parts[3]

    wide, resized = Func("wide"), Func("resized")
    edge = images.clamped(y=(0, rows_in), x=(0, columns_in))
    wide[n, c, y, x] = taps(x, columns_in, width, lambda at: edge[n, c, y, at])
    tall = wide.clamped(y=(0, rows_in))
    resized[n, c, y, x] = taps(y, rows_in, height, lambda at: tall[n, c, at, x])
    return Pipeline(resized.over(n=(0, count), c=(0, channels), y=(0, height), x=(0, width)), name="bicubic")


def grouped_convolution(groups: int, stride: int, dilation: int, padding: int) -> Pipeline:
    """Return a convolution of images [n, c, y, x] with weights [o, c / groups, y, x], bias and rectifier."""
    images, weights, bias = Input("images", float32, 4), Input("weights", float32, 4), Input("bias", float32, 1)
    n, o, y, x = Var("n"), Var("o"), Var("y"), Var("x")
    count, _, height, width = images.shape
    features, channels, tall, wide = weights.shape
    r = RDom("r", c=channels, y=tall, x=wide)
    padded, out = images.constant(0.0, y=(0, height), x=(0, width)), Func("out")
    channel = o // (features // groups) * channels + r.c
    rows, columns = (v * stride - padding + t * dilation for v, t in ((y, r.y), (x, r.x)))
    total = autosched.sum(padded[n, channel, rows, columns] * weights[o, r.c, r.y, r.x], over=r)
    out[n, o, y, x] = autosched.max(total + bias[o], 0.0)
    sizes = [(e + 2 * padding - dilation * (t - 1) - 1) // stride + 1 for e, t in ((height, tall), (width, wide))]
    return Pipeline(out.over(n=(0, count), o=(0, features), y=(0, sizes[0]), x=(0, sizes[1])), name="convolution")


def resampling() -> Iterator[RowCase]:
    """Yield a bicubic resize and a grouped convolution with a stride, beside PyTorch."""
    import torch
    from torch.nn import functional

    images = RNG.random((4, 3, 480, 640), np.float32)
    tensor = torch.from_numpy(images)
    yield RowCase(
        "bicubic resize of 4 x 3 x 480 x 640 to 333 x 555", bicubic(333, 555), lambda: {"images": images}, "PyTorch",
        lambda: functional.interpolate(tensor, (333, 555), mode="bicubic", align_corners=False).numpy(),
    )  # fmt: skip
    shapes = {"images": (2, 64, 113, 97), "weights": (64, 16, 3, 3), "bias": (64,)}
    arrays = {name: RNG.standard_normal(shape, np.float32) for name, shape in shapes.items()}
    tensors = [torch.from_numpy(a) for a in arrays.values()]
    yield RowCase(
        "convolution of 2 x 64 x 113 x 97, 4 groups, stride 2", grouped_convolution(4, 2, 2, 2), lambda: arrays,
        "PyTorch", lambda: functional.relu(functional.conv2d(*tensors, 2, 2, 2, 4)).numpy(),
    )  # fmt: skip


def cases() -> Iterator[RowCase]:
    """Yield all cases."""
    yield from reductions()
    yield from row_apps()
    yield from images()
    yield from resampling()


def time_on_cpu(
    case: RowCase, seconds: float, statistic: Callable[[list[float]], float] = median_of
) -> tuple[float, float, float, float]:
    """Return the seconds of the search, those of our calls and the library's, and the relative error."""
    inputs = case.inputs()
    started = time.perf_counter()
    scheduled = autosched.schedule(case.pipeline, inputs=inputs, target="cpu", reuse=False)
    search = time.perf_counter() - started
    kernel = scheduled.compile("cpu")
    calls: dict[str, Callable[[], Any]] = {"ours": lambda: kernel(inputs), "library": case.call}
    pairs = zip(*(_arrays(call()) for call in calls.values()), strict=False)  # a library may return the first only
    error = max(float(np.abs(a - b).max() / max(np.abs(b).max(), 1e-30)) for a, b in pairs)
    times: dict[str, list[float]] = {name: [] for name in calls}
    end = time.perf_counter() + seconds
    while len(times["ours"]) < LEAST_CALLS or (time.perf_counter() < end and len(times["ours"]) < MOST_CALLS):
        for name, call in calls.items():
            started = time.perf_counter()
            call()
            times[name].append(time.perf_counter() - started)
    return search, statistic(times["ours"]), statistic(times["library"]), error


def _arrays(result: Any) -> list[np.ndarray[Any, Any]]:
    several = tuple(result.values()) if isinstance(result, dict) else result
    return [np.asarray(a, np.float64) for a in (several if isinstance(several, tuple | list) else (several,))]


def on_cpu(chosen: list[RowCase], seconds: float, least: bool) -> Table:
    """Return the table of times on this machine."""
    table = Table("case", "search s", "ours ms", "library ms", "library", "ours / library", "result")
    for case in chosen:
        search, ours, library, error = time_on_cpu(case, seconds, min if least else median_of)
        result = "right" if error <= case.tolerance else f"off by {error:.2g}"
        table.add_row(
            case.name, f"{search:.1f}", f"{1e3 * ours:.3f}", f"{1e3 * library:.3f}", case.library,
            f"{ours / library:.2f}", result,
        )  # fmt: skip
    return table


def on_gpu(chosen: list[RowCase]) -> Table:
    """Return the table of predictions for an H200."""
    target = get_target("h200")
    table = Table("case", "kernels", "predicted us", "simulated us", "bytes us", "predicted / bytes")
    for case in chosen:
        inputs = case.inputs()
        scheduled = autosched.schedule(case.pipeline, inputs=inputs, target=target, cost="analytical", reuse=False)
        bound = bind(case.pipeline, {name: a.shape for name, a in inputs.items()})
        count = sum(a.nbytes for a in inputs.values())
        count += sum(
            int(np.prod(f.extents)) * f.dtypes[k].bytes_
            for f, k in ((bound.funcs[func], k) for _, func, k in bound.output_components)
        )
        least = count / target.dram_bytes_per_s
        predicted = scheduled.provenance.predicted_s if scheduled.provenance else None
        try:
            simulated = f"{1e6 * simulate(bound, scheduled.schedule, target).seconds:.1f}"
        except CompileError:
            simulated = "no NVRTC"
        table.add_row(
            case.name, str(len(scheduled.schedule.kernels)), f"{1e6 * (predicted or 0):.1f}", simulated,
            f"{1e6 * least:.1f}", f"{(predicted or 0) / least:.1f}",
        )  # fmt: skip
    return table


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", choices=("cpu", "h200"), default="cpu")
    parser.add_argument("--only", default="", help="words of the cases' names, separated by commas")
    parser.add_argument("--seconds", type=float, default=2, help="time of each case's calls")
    parser.add_argument("--least", action="store_true", help="the least time of the calls in place of the median")
    args = parser.parse_args()
    words = [word for word in args.only.split(",") if word]
    chosen = [case for case in cases() if not words or any(word in case.name for word in words)]
    Console(width=160).print(on_cpu(chosen, args.seconds, args.least) if args.target == "cpu" else on_gpu(chosen))
