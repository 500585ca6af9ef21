"""A chain of 3x3 blurs with a boundary condition in each stage: the tiles that the search chooses, and times.

    OMP_NUM_THREADS=1 python scripts/bench_boundaries.py [--stages 4] [--size 1536x2560] [--calls 10] [--targets cpu]

A row for each kind of boundary condition and each device. Tiles are buffer extents of producers fused into a kernel,
in points. Predicted times are the analytical model's. Milliseconds on this processor are the least of interleaved
calls, beside SciPy's filters in the same boundary mode.
"""

from __future__ import annotations

import argparse
import functools
import operator
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

import autosched
from autosched import Func, Input, Pipeline, Var, float32
from autosched.lang.boundary import KINDS
from autosched.schedule.planner import plan_kernel
from autosched.scheduled_pipeline import ScheduledPipeline

MODES = {
    "clamped": "nearest", "mirrored": "reflect", "mirrored_without_edge": "mirror", "wrapped": "wrap",
    "constant": "constant",
}  # fmt: skip
"""SciPy's mode of each boundary condition."""
OFFSETS = (-1, 0, 1)


def chain(kind: str, stages: int) -> Pipeline:
    """Return ``input`` to ``output``, float32 [H, W], through 3x3 means, each with a boundary of a kind."""
    y, x = Var("y"), Var("x")
    image = Input("input", float32, 2)
    height, width = image.shape
    box = {"y": (0, height), "x": (0, width)}
    constant = (0,) if kind == "constant" else ()
    source = getattr(image, kind)(*constant)
    stage = None
    for k in range(1, stages + 1):
        stage = Func("output" if k == stages else f"blur_{k}")
        taps = [source[y + j, x + i] for j in OFFSETS for i in OFFSETS]
        stage[y, x] = functools.reduce(operator.add, taps) * (1 / 9)
        source = getattr(stage, kind)(*constant, **box)
    assert stage is not None
    return Pipeline(stage.over(**box), name=f"blurs_{kind}")


def filtered(image: NDArray[np.float32], kind: str, stages: int) -> NDArray[np.float32]:
    """Return SciPy's result."""
    from scipy import ndimage

    for _ in range(stages):
        image = ndimage.uniform_filter(image, size=3, mode=MODES[kind])
    return image


def tiles(scheduled: ScheduledPipeline) -> str:
    """Return the buffer extents of fused producers, kernel by kernel."""
    kernels = []
    for kernel in scheduled.schedule.kernels:
        plan = plan_kernel(scheduled.bound, kernel)
        fused = [f"{m} {'x'.join(map(str, a.extents))}" for m, a in plan.allocations.items()]
        kernels.append(f"{kernel.roots[0].tiling.stage.func}({', '.join(fused)})")
    return "; ".join(kernels)


def least_ms(calls: list[Callable[[], Any]], rounds: int) -> list[float]:
    """Return the least time of each call in milliseconds, of interleaved rounds."""
    times: list[list[float]] = [[] for _ in calls]
    for _ in range(rounds):
        for call, measured in zip(calls, times, strict=True):
            started = time.perf_counter()
            call()
            measured.append(1e3 * (time.perf_counter() - started))
    return [min(t) for t in times]


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stages", type=int, default=4, help="number of blurs")
    parser.add_argument("--size", default="1536x2560", help="height and width")
    parser.add_argument("--calls", type=int, default=10, help="calls of each function on a CPU")
    parser.add_argument("--targets", default="h200,cpu", help="devices, separated by commas")
    args = parser.parse_args()
    height, width = map(int, args.size.split("x"))
    image = np.random.default_rng(0).random((height, width), np.float32)
    table = Table("boundary", "device", "kernels(tiles)", "predicted us", "ms", "SciPy ms")
    for target in args.targets.split(","):
        rows: list[list[str]] = []
        calls: list[Callable[[], Any]] = []
        for kind in KINDS:
            scheduled = autosched.schedule(
                chain(kind, args.stages), inputs={"input": image}, target=target, cost="analytical", reuse=False
            )
            predicted = scheduled.provenance.predicted_s if scheduled.provenance else None
            rows.append([kind, target, tiles(scheduled), f"{1e6 * (predicted or 0):.1f}"])
            if target == "cpu":
                kernel = scheduled.compile("cpu")
                result = np.asarray(kernel({"input": image}))
                np.testing.assert_allclose(result, filtered(image, kind, args.stages), rtol=1e-4)
                calls.append(lambda kernel=kernel: kernel({"input": image}))  # type: ignore[misc]
                calls.append(lambda kind=kind: filtered(image, kind, args.stages))  # type: ignore[misc]
        times = [f"{t:.2f}" for t in least_ms(calls, args.calls)] or ["-"] * (2 * len(rows))
        for k, row in enumerate(rows):
            table.add_row(*row, *times[2 * k : 2 * k + 2])
    Console(width=200).print(table)


if __name__ == "__main__":
    main()
