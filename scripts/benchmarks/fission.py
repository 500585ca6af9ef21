"""Rewrites of the stencils of Artemis: versions of their outputs, and folded values.

    python scripts/bench_fission.py versions hypterm diffterm
    python scripts/bench_fission.py folding
    python scripts/bench_fission.py retiming

``versions`` lists the fission candidates of each program; ``folding`` the operations of a point without and with
folded values, and the best schedule of each pipeline; ``retiming`` one sweep of a stencil that streams along z, plain
and retimed (`benchmarks.retimed_sweeps`). Times are predicted by the analytical model and simulated for an
H200; registers and spilled bytes of each kernel are NVRTC's. Schedules are those that spill nothing, if there are any.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import replace

from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.analysis.rewrites.computation_folding import distinct_operations
from autosched.measure.problem import Problem
from autosched.measure.simulated import simulate
from autosched.schedule.types import Schedule
from autosched.search.rewrites.computation_folding import folding_rewrites
from autosched.search.settings import COMPILED, SearchSettings
from autosched.search.tune.cost_models import cost_model
from autosched.search.tune.fission_candidates import fission_candidates
from autosched.search.tune.greedy_samples import GreedySampler, draw_samples
from autosched.search.tune.spill_filter import SpillTable, without_spills
from autosched.search.tune.spill_repair import with_repaired
from autosched.target import get_target
from benchmarks.retimed_sweeps import FORMS, print_sweep

ARTEMIS = (
    "smoother7pt", "smoother27pt", "helmholtz", "denoise", "miniflux", "hypterm", "diffterm", "addsgd4", "addsgd6",
    "rhs4center", "rhs4sgcurv",
)  # fmt: skip
H200 = get_target("h200")
MOST_RANKED = 6
"""Schedules of a pipeline that are compiled until one does not spill."""


def operations_of(bound: BoundPipeline) -> int:
    """Return the operations of a point of all Funcs, equal ones within a Func counted once."""
    return sum(distinct_operations(d.values) for f in bound.pipeline.funcs if f.boundary is None for d in f.definitions)


def resources(bound: BoundPipeline, schedule: Schedule) -> str:
    """Return the simulated microseconds, and registers and spilled bytes of each kernel."""
    table = SpillTable(bound, H200)
    spills = table.of(schedule)
    registers = " ".join(map(str, table.registers(schedule)))
    return f"{simulate(bound, schedule, H200).seconds * 1e6:8.0f}  {registers}; spilled {sum(spills)}"


def searched(bound: BoundPipeline, settings: SearchSettings) -> tuple[str, float]:
    """Return the best schedule of a pipeline, as text, and the processor seconds of its search."""
    started = time.process_time()
    model = cost_model("analytical", H200)
    result = draw_samples([GreedySampler(bound, H200, model, settings)], samples=1, promising=1.0)
    took = time.process_time() - started
    root = bound.root_pipeline
    table = SpillTable(root, H200)
    best = without_spills(with_repaired(result.ranked[:MOST_RANKED], table), table).kept[0]
    return f"{best.seconds * 1e6:8.0f}  {resources(root, best.schedule)}", took


def print_versions(app: str, settings: SearchSettings) -> None:
    """Print the fission candidates of a program."""
    bound = Problem.app(app).bind()
    started = time.process_time()
    result = fission_candidates(bound, H200, cost_model("analytical", H200), settings)
    took = time.process_time() - started
    for c in result.found:
        print(f"{app:14}{c.name:22}{c.seconds * 1e6:8.0f}  {resources(bound, c.schedule)}", flush=True)
    print(f"{app:14}refused: {', '.join(result.refused) or 'none'}; {took:.1f} s of processor time", flush=True)


def print_folding(app: str, settings: SearchSettings) -> None:
    """Print a program without and with folded values."""
    bound = Problem.app(app).bind()
    folded = folding_rewrites(bound)
    for name, rewritten in (("plain", bound), *(("folded", b) for b in folded)):
        text, took = searched(rewritten, settings)
        print(f"{app:14}{name:8}{operations_of(rewritten):6}  {text}; search {took:.1f} s", flush=True)
    if not folded:
        print(f"{app:14}nothing to fold", flush=True)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("choice", choices=("versions", "folding", "retiming"))
    parser.add_argument("apps", nargs="*", help="programs (default: all of Artemis)")
    parser.add_argument("--beam", type=int, default=8)
    parser.add_argument("--passes", type=int, default=2)
    parser.add_argument("--sizes", default="512x512x512", help="extents of retimed sweeps")
    options = parser.parse_args()
    if options.choice == "retiming":
        extents = [int(n) for n in options.sizes.split("x")]
        for points in (7, 27):
            for form in FORMS:
                print_sweep(points, extents, 16, form)
        return
    settings = replace(COMPILED, beam_size=options.beam, passes=options.passes, refine_patience=1)
    show = print_versions if options.choice == "versions" else print_folding
    for app in options.apps or ARTEMIS:
        show(app, settings)


if __name__ == "__main__":
    main()
