"""Time lowering and printing a kernel over the suite, at the papers' sizes.

    python scripts/bench_lowering.py [--samples 20] [--apps blur,harris]

Prints, per app and overall, the median and 90th percentile of milliseconds per kernel (planning, lowering of boundary
and interior, printing CUDA), for the ``roots`` schedule and for random legal schedules.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

from autosched.analysis.bind import bind
from autosched.apps import get_app, load_apps
from autosched.codegen.cuda import print_cuda
from autosched.lower.program import lower
from autosched.schedule.sampling.random_schedule import sample_schedule
from autosched.schedule.types import Schedule
from autosched.search.strategies.compute_root import schedule_roots
from autosched.target import get_target


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, default=20)
    parser.add_argument("--apps", default=",".join(load_apps()))
    args = parser.parse_args()
    target = get_target("h200")
    everything: list[float] = []
    for name in args.apps.split(","):
        app = get_app(name)
        pipeline, params = app.configure({})
        bound = bind(pipeline, app.shapes(app.sizes({})), params)

        def timed(schedule: Schedule) -> list[float]:
            start = time.perf_counter()
            program = lower(bound, schedule)  # noqa: B023 - used at once
            for kernel in program.kernels:
                print_cuda(kernel)
            return [1e3 * (time.perf_counter() - start) / len(program.kernels)] * len(program.kernels)

        roots = timed(schedule_roots(bound, target))
        sampled = [
            ms
            for seed in range(args.samples)
            for ms in timed(sample_schedule(bound, target, np.random.default_rng(seed)))
        ]
        everything += roots + sampled
        print(f"{name:18} roots {summary(roots)}   random {summary(sampled)}")
    print(f"{'all kernels':18} {summary(everything)} ({len(everything)} kernels)")


def summary(times: list[float]) -> str:
    """Return median and 90th percentile."""
    return f"median {np.median(times):6.2f} ms, p90 {np.percentile(times, 90):7.2f} ms"
