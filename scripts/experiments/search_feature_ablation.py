"""Ablation of one feature of the search: suite apps searched without and with it.

    python scripts/bench_choices.py streams [sgemm conv_layer ...] [--beam 8] [--passes 2] [--seconds 20]
    python scripts/bench_choices.py slides
    python scripts/bench_choices.py joins
    python scripts/bench_choices.py mending
    python scripts/bench_choices.py atomics
    python scripts/bench_choices.py shuffles
    python scripts/bench_choices.py stores
    python scripts/bench_choices.py each_term
    python scripts/bench_choices.py all

* ``streams``: mainloops of reductions (`autosched.search.refine.mainloop`)
* ``slides``: sliding windows with rolling buffers (`autosched.search.refine.sliding_window`)
* ``joins``: horizontal fusion of outputs that share sources (`autosched.search.rewrites.horizontal_fusion`); with spill
  repair on both sides
* ``atomics``: scatter updates with atomic accumulation (`autosched.search.rewrites.rfactor`)
* ``shuffles``: warp reductions (`autosched.search.rewrites.warp_reductions`)
* ``stores``: materialised fused producers that other kernels read (`autosched.search.refine.materialise`)
* ``each_term``: producers computed per reduction step (`autosched.search.space.compute_locations`)
* ``mending``: spill repair, other tiles for kernels that spill registers (`autosched.search.tune.spill_repair`)
* ``all``: all of these features except ``joins`` and ``mending``, and rfactor (`autosched.search.rewrites.rfactor`)

The apps are those given, or the whole suite; apps that the feature cannot affect are not printed. Times are
microseconds: predicted by the cost model (the analytical one, or weights with --cost), and on the simulated device
without noise. Seconds are those of the search and of spill repair, if it is part of the search.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import replace
from typing import Any

from autosched.analysis.bind import bind
from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.apps import get_app, load_apps
from autosched.measure.simulated import simulate
from autosched.schedule.kernel.warp_reduction import warp_lane_count
from autosched.schedule.rewrites import apply_rewrites
from autosched.schedule.types import Schedule
from autosched.search.cost.protocol import CostModel
from autosched.search.refine.mainloop.mainloop_sites import mainloop_sites
from autosched.search.results import RankedSchedule
from autosched.search.rewrites.horizontal_fusion import fusion_rewrites
from autosched.search.rewrites.rfactor import rfactor_rewrites
from autosched.search.rewrites.warp_reductions import warp_reduction_rewrites
from autosched.search.settings import SearchSettings
from autosched.search.strategies.compute_root import schedule_roots
from autosched.search.strategies.protocol import Beam
from autosched.search.tune.cost_models import cost_model
from autosched.search.tune.spill_filter import SpillTable, without_spills
from autosched.search.tune.spill_repair import with_repaired
from autosched.target import Target, get_target

CHOICES = ("streams", "slides", "joins", "mending", "atomics", "shuffles", "stores", "each_term", "all")
ALL = ("splits", "atomics", "shuffles", "streams", "slides", "stores", "each_term")
"""Features that ``all`` switches together."""


def concerned(choice: str, bound: BoundPipeline, target: Target) -> bool:
    """Return whether a feature can affect a pipeline, by a conservative check before the search."""
    if choice == "streams":
        return bool(list(mainloop_sites(bound, schedule_roots(bound, target))))
    if choice == "atomics":
        return any(s.atomic for rewritten in rfactor_rewrites(bound, target, atomics="all") for s in rewritten.rfactors)
    if choice == "stores":
        return any(f.is_pure and len(f.consumers) + f.is_output > 1 for f in bound.funcs.values())
    if choice == "slides":
        return any(f.ndim > 1 and f.is_output and f.is_pure for f in bound.funcs.values()) and len(bound.funcs) > 1
    if choice == "shuffles":
        return bool(warp_reduction_rewrites([bound], target))
    if choice == "each_term":
        sums = [s for f in bound.funcs.values() for s in f.stages if any(d.extent > 1 for d in s.reductions)]
        return any((set(s.sources) - {s.func}) & bound.funcs.keys() for s in sums)
    if choice in ("all", "mending"):
        return True
    return len(fusion_rewrites(bound, target, SearchSettings(rfactor=False, horizontal_fusion=True))) > 1


def searched(
    bound: BoundPipeline, target: Target, model: CostModel, settings: SearchSettings, seconds: float, *, mend: bool
) -> tuple[RankedSchedule, float]:
    """Return the best schedule with its predicted time, and the search seconds."""
    started = time.process_time()
    result = Beam(settings).search(bound, target, cost=model, seconds=seconds)
    best = result.ranked[0]
    if mend:
        table = SpillTable(bound, target)
        best = without_spills(with_repaired(result.ranked, table), table).kept[0]
    return best, time.process_time() - started


def described(bound: BoundPipeline, schedule: Schedule) -> str:
    """Return the features that a schedule uses: fusions, mainloops, atomic updates, warp reductions and others."""
    fused = [f"{len(j.funcs)} fused horizontally" for j in schedule.fusions]
    hosts = [
        f"{k.mainloop_at.host} {'sliding window' if k.is_sliding_window else 'mainloop'}"
        + (" double-buffered" if k.double_buffered else "")
        for k in schedule.kernels
        if k.mainloop_at is not None
    ]
    atomic = [f"{s.func} atomic" for s in schedule.rfactors if s.atomic]
    rewritten = apply_rewrites(bound, schedule)
    lanes = [
        f"{t.stage.func} warp reduction of {n} lanes"
        for k in schedule.kernels
        for t in k.tilings()
        if t.stage.func in rewritten.funcs and (n := warp_lane_count(rewritten, t)) > 1
    ]
    materialised = [f"{m.func} materialised" for k in schedule.kernels for m in k.fused if m.materialised]
    per_step = [f"{m.func} per reduction step" for k in schedule.kernels for m in k.fused if k.is_per_reduction_step(m)]
    return ", ".join((*fused, *hosts, *atomic, *lanes, *materialised, *per_step)) or "-"


def _chosen(settings: SearchSettings, choice: str, on: bool) -> SearchSettings:
    """Return settings with a feature off or on."""
    if choice == "mending":
        return settings
    values: dict[str, Any] = dict.fromkeys(ALL if choice == "all" else (choice,), on)
    if "atomics" in values:  # inexact atomics only on explicit request
        values["atomics"] = "none" if not on else "all" if choice == "atomics" else "exact"
    return replace(settings, **values)


def row(choice: str, name: str, target: Target, model: CostModel, settings: SearchSettings, seconds: float) -> str:
    """Return a line of the table, empty if the feature cannot affect the app."""
    app = get_app(name)
    bound = bind(app.build(), app.shapes(app.default_sizes))
    if not concerned(choice, bound, target):
        return ""
    cells = []
    for on in (False, True):
        chosen = _chosen(settings, choice, on)
        mend = choice == "joins" or (choice == "mending" and on)
        best, took = searched(bound, target, model, chosen, seconds, mend=mend)
        simulated = simulate(bound, best.schedule, target)
        if choice == "mending" and not on and not any(simulated.spill_bytes):
            return ""
        cells.append((best.seconds * 1e6, simulated.seconds * 1e6, sum(simulated.spill_bytes), took))
    (p0, s0, b0, t0), (p1, s1, b1, t1) = cells
    return (
        f"{name:26}{p0:9.1f}{p1:9.1f}{p0 / p1:7.2f}{s0:10.1f}{s1:9.1f}{s0 / s1:7.2f}{b0:8d}{b1:7d}{t0:9.1f}{t1:7.1f}  "
        f"{described(bound, best.schedule)}"
    )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("choice", choices=CHOICES)
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
    print(f"{'':26}{'predicted us':^25}{'simulated us':^26}{'spilled bytes':^15}{'search s':^16}")
    columns = f"{'without':>9}{'with':>9}{'ratio':>7}"
    print(f"{'app':26}{columns} {columns}{'without':>8}{'with':>7}{'without':>9}{'with':>7}")
    for name in options.apps or load_apps():
        line = row(options.choice, name, target, model, settings, options.seconds)
        if line:
            print(line, flush=True)
