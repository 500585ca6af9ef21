"""Effect of relaxed launch bounds on kernels that spill registers; prints Markdown, needs no GPU.

    python scripts/compare_room.py [--apps addsgd6,rhs4center] [--cost learned] [--target h200] [--seconds 20]

The best-ranked schedule of each app is compiled with strict and with relaxed launch bounds
(`NvrtcOptions.relax_launch_bounds`). Columns: kernels that spill, spilled bytes per thread, and the time on the
simulated device. Apps without a spilling kernel are not in the table, but count in the geometric mean below it.
"""

from __future__ import annotations

import argparse
import math
import sys
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from unittest.mock import patch

from autosched.analysis.bind import bind
from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.apps import get_app, load_apps
from autosched.errors import AutoschedError
from autosched.measure.simulated import simulate
from autosched.model.predict.learned import load_model
from autosched.runtime.compile.nvrtc import NvrtcOptions
from autosched.runtime.compile.nvrtc_pool import compile_many
from autosched.schedule.types import Schedule
from autosched.search.cost.gpu_analytical import analytical_model
from autosched.search.cost.protocol import CostModel
from autosched.search.settings import SearchSettings
from autosched.search.strategies.protocol import Beam
from autosched.target import Target, get_target


@dataclass(frozen=True)
class Compiled:
    """A schedule compiled in one way: spilling kernels, spilled bytes per thread, simulated seconds."""

    spilling: int
    spill_bytes: int
    seconds: float

    @classmethod
    def of(cls, bound: BoundPipeline, schedule: Schedule, target: Target, *, relaxed: bool) -> Compiled:
        """Compile a schedule and simulate it."""
        compiler = partial(compile_many, options=NvrtcOptions(relax_launch_bounds=relaxed))
        with patch.object(import_module("autosched.measure.simulated.simulate"), "compile_many", compiler):
            simulation = simulate(bound, schedule, target)
        return cls(sum(b > 0 for b in simulation.spill_bytes), sum(simulation.spill_bytes), simulation.seconds)


def searched(
    name: str, target: Target, model: CostModel, options: argparse.Namespace
) -> tuple[BoundPipeline, Schedule]:
    """Return an app and its best-ranked schedule."""
    app = get_app(name)
    pipeline, params = app.configure({})
    bound = bind(pipeline, app.shapes(), params)
    strategy = Beam(SearchSettings(beam_size=options.beam, passes=options.passes))
    return bound, strategy.search(bound, target, cost=model, seconds=options.seconds, seed=options.seed).best


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--apps", default=",".join(load_apps()), help="names, separated by commas")
    parser.add_argument("--cost", choices=("analytical", "learned"), default="learned")
    parser.add_argument("--target", default="h200")
    parser.add_argument("--beam", type=int, default=8)
    parser.add_argument("--passes", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=20.0, help="time limit of each search")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    ratios: list[float] = []
    try:
        target = get_target(options.target)
        model: CostModel = load_model(target) if options.cost == "learned" else analytical_model(target)
        print("| app | kernels that spill | | bytes | | simulated us | | speedup |")
        print("|---|---|---|---|---|---|---|---|")
        for name in options.apps.split(","):
            bound, schedule = searched(name, target, model, options)
            before, after = (Compiled.of(bound, schedule, target, relaxed=relaxed) for relaxed in (False, True))
            ratios.append(before.seconds / after.seconds)
            if before.spilling:
                print(
                    f"| {name} | {before.spilling} | {after.spilling} | {before.spill_bytes:,} | {after.spill_bytes:,} "
                    f"| {before.seconds * 1e6:,.1f} | {after.seconds * 1e6:,.1f} | {ratios[-1]:.2f} |",
                    flush=True,
                )
    except AutoschedError as error:
        sys.exit(f"error: {error}")
    mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
    print(f"\n{len(ratios)} apps: speedup {mean:.3f} in geometric mean ({model.name})")
    return 0
