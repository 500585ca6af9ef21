"""What reductions in steps (`autosched.search.streams`) bring: suite apps searched with and without them.

    python scripts/bench_streams.py [sgemm conv_layer ...] [--target h200] [--beam 8] [--passes 2] [--seconds 20]

Without names, all suite apps; printed are those of which some reduction may be computed in steps. Times are
microseconds: predicted by the cost model (the analytical one, or weights with --cost), and on the simulated device
without noise. Seconds are those of the search.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import replace

from autosched.analysis.bind import bind
from autosched.analysis.bound import BoundPipeline
from autosched.apps import get_app, load_apps
from autosched.measure.simulated import simulate
from autosched.schedule.types import Schedule
from autosched.search.cost import CostModel
from autosched.search.modes.models import cost_model
from autosched.search.roots import schedule_roots
from autosched.search.settings import SearchSettings
from autosched.search.strategy import Beam
from autosched.search.streams.places import places
from autosched.target import Target, get_target


def searched(
    bound: BoundPipeline, target: Target, model: CostModel, settings: SearchSettings, seconds: float
) -> tuple[Schedule, float, float]:
    """Return the best schedule, its predicted time and the time of the search, in seconds."""
    started = time.process_time()
    found = Beam(settings).search(bound, target, cost=model, seconds=seconds)
    return found.best, found.ranked[0].seconds, time.process_time() - started


def row(name: str, target: Target, model: CostModel, settings: SearchSettings, seconds: float) -> str | None:
    """Return a line of the table; None if no reduction of the app may be computed in steps."""
    app = get_app(name)
    bound = bind(app.build(), app.shapes(app.default_sizes))
    if not list(places(bound, schedule_roots(bound, target))):
        return None
    cells = []
    for streams in (False, True):
        schedule, predicted, took = searched(bound, target, model, replace(settings, streams=streams), seconds)
        simulated = simulate(bound, schedule, target).seconds
        cells.append((predicted * 1e6, simulated * 1e6, took))
    (p0, s0, t0), (p1, s1, t1) = cells
    kernels = [k for k in schedule.kernels if k.stream is not None]
    hosts = [str(k.stream.host) + (" ahead" if k.ahead else "") for k in kernels if k.stream is not None]
    return (
        f"{name:26}{p0:9.1f}{p1:9.1f}{p0 / p1:7.2f}{s0:10.1f}{s1:9.1f}{s0 / s1:7.2f}{t0:8.1f}{t1:7.1f}  "
        f"{', '.join(hosts) or '-'}"
    )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("apps", nargs="*", help="suite apps (default: all)")
    parser.add_argument("--target", default="h200")
    parser.add_argument("--cost", default="analytical", help="analytical, learned or a file of weights")
    parser.add_argument("--beam", type=int, default=8)
    parser.add_argument("--passes", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=20.0)
    options = parser.parse_args()
    target = get_target(options.target)
    model = cost_model(options.cost, target)
    settings = SearchSettings(beam_size=options.beam, passes=options.passes)
    print(f"{target.name}, {model.name}, beam {options.beam}, {options.passes} passes, {options.seconds:g} s")
    print(f"{'':26}{'predicted us':^25}{'simulated us':^26}{'search s':^15}")
    columns = f"{'without':>9}{'with':>9}{'ratio':>7}"
    print(f"{'app':26}{columns} {columns}{'without':>8}{'with':>7}  in steps")
    for name in options.apps or load_apps():
        line = row(name, target, model, settings, options.seconds)
        if line is not None:
            print(line, flush=True)


if __name__ == "__main__":
    main()
