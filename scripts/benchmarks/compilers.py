"""Run times of the same schedules under several C compilers, interleaved; prints a table.

    OMP_NUM_THREADS=1 python scripts/bench_compilers.py --compilers gcc-12,gcc-14,clang-19 [--apps harris,hist]

The beam search schedules each app for this machine's processor with the default model, and every compiler compiles the
same C. A compiler may have options: ``"gcc-14 -fno-ivopts"``. Results are compared with the first compiler's, bit for
bit. Where they differ, the largest difference over the largest value is printed: vectorised elementary functions of
some compilers round differently. With OMP_NUM_THREADS=1 times are processor times, which vary less on a busy machine.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from autosched.analysis.bind import bind
from autosched.apps import get_app, load_apps
from autosched.lang.dtypes import is_float_dtype
from autosched.runtime.compile.host_compiler import find_compiler
from autosched.scheduled_pipeline import ScheduledPipeline
from autosched.search.strategies.protocol import STRATEGIES
from autosched.search.tune.cost_models import cost_model
from autosched.target import get_target

Array = NDArray[Any]


def main() -> None:
    """Time the apps of the command line with each compiler."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--compilers", required=True, help="commands, separated by commas")
    parser.add_argument("--apps", default=",".join(load_apps()), help="names, separated by commas")
    parser.add_argument("--seconds", type=float, default=20, help="time budget of each search")
    parser.add_argument("--rounds", type=int, default=5, help="interleaved calls of each variant")
    options = parser.parse_args()
    compilers = options.compilers.split(",")
    for compiler in compilers:
        os.environ["AUTOSCHED_CC"] = compiler
        print(f"{compiler}: {find_compiler().title}")
    print(f"{'app':26}" + "".join(f"{c + ' ms':>24}" for c in compilers))
    ratios = []
    for name in options.apps.split(","):
        seconds, differences = timed(name, compilers, options.seconds, options.rounds)
        ratios.append(seconds / seconds[0])
        cells = zip(seconds * 1e3, ratios[-1], differences, strict=True)
        print(f"{name:26}" + "".join(f"{ms:11.2f} ({ratio:4.2f}) {d:5.0e}" for ms, ratio, d in cells), flush=True)
    means = np.exp(np.log(ratios).mean(axis=0))
    print(f"{'geometric mean':26}" + "".join(f"{mean:17.3f}{'':7}" for mean in means))


def timed(name: str, compilers: Sequence[str], budget: float, rounds: int) -> tuple[Array, list[float]]:
    """Return the median seconds with each compiler, and the largest relative difference from the first result."""
    app, target = get_app(name), get_target("cpu")
    pipeline, params = app.configure({})
    sizes = dict(app.default_sizes)
    bound = bind(pipeline, app.shapes(sizes), params)
    schedule = STRATEGIES["beam"].search(bound, target, seconds=budget, cost=cost_model(None, target)).best
    scheduled, inputs = ScheduledPipeline(bound, schedule, target, params), app.make_inputs(sizes)
    kernels = []
    for compiler in compilers:
        os.environ["AUTOSCHED_CC"] = compiler
        kernels.append(scheduled.compile("cpu"))
    results = [_arrays(kernel(inputs)) for kernel in kernels]
    clock = time.thread_time if os.environ.get("OMP_NUM_THREADS") == "1" else time.perf_counter
    times = np.zeros((rounds, len(kernels)))
    for of_round in times:
        for k, kernel in enumerate(kernels):
            started = clock()
            kernel(inputs)
            of_round[k] = clock() - started
    differences = [max(map(_difference, results[0], result)) for result in results]
    return np.median(times, axis=0), differences


def _difference(expected: Array, actual: Array) -> float:
    """Return the largest difference of two arrays over the largest value of the first."""
    if np.array_equal(expected, actual, equal_nan=is_float_dtype(expected.dtype)):
        return 0.0
    expected, actual = expected.astype(np.float64), actual.astype(np.float64)
    return float(np.nanmax(np.abs(expected - actual)) / np.nanmax(np.abs(expected)))


def _arrays(result: Any) -> tuple[Array, ...]:
    return result if isinstance(result, tuple) else (result,)
