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

* ``streams``: reductions in steps (`autosched.search.refine.mainloop`)
* ``slides``: blocks that walk a dimension, with windows that slide along it (`autosched.search.refine.sliding_window`)
* ``joins``: outputs that read the same in one kernel (`autosched.search.rewrites.horizontal_fusion`); what spills is
  mended on both sides
* ``atomics``: updates that scatter, shared by threads (`autosched.search.rewrites.rfactor`)
* ``shuffles``: sums of few points, shared by the lanes of a warp (`autosched.search.rewrites.warp_reductions`)
* ``stores``: Funcs that blocks compute for themselves and store for other kernels
  (`autosched.search.refine.materialise`)
* ``each_term``: what threads compute for themselves once for each term of a reduction
  (`autosched.search.space.compute_locations`)
* ``mending``: other tiles for kernels that spill registers (`autosched.search.tune.spill_repair`)
* ``all``: all of these but for joins and mending, and pieces of reductions (`autosched.search.rewrites.rfactor`), at
  once

Without names of apps, all of the suite; printed are those that the choice concerns. Times are microseconds: predicted
by the cost model (the analytical one, or weights with --cost), and on the simulated device without noise. Seconds are
those of the search and, where it is part of it, of mending.
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
"""Choices that a search by itself takes."""


def concerned(choice: str, bound: BoundPipeline, target: Target) -> bool:
    """Return whether a choice may change anything for a pipeline, as far as can be told before."""
    if choice == "streams":
        return bool(list(mainloop_sites(bound, schedule_roots(bound, target))))
    if choice == "atomics":
        return any(s.atomic for view in rfactor_rewrites(bound, target, atomics="all") for s in view.rfactors)
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
    """Return the best schedule with its predicted time, and the seconds that it took to find."""
    started = time.process_time()
    found = Beam(settings).search(bound, target, cost=model, seconds=seconds)
    best = found.ranked[0]
    if mend:
        table = SpillTable(bound, target)
        best = without_spills(with_repaired(found.ranked, table), table).kept[0]
    return best, time.process_time() - started


def described(bound: BoundPipeline, schedule: Schedule) -> str:
    """Return what a schedule computes together or in steps, and what its threads share."""
    together = [f"{len(j.funcs)} together" for j in schedule.fusions]
    hosts = [
        f"{k.mainloop_at.host} {'walks' if k.is_sliding_window else 'in steps'}{' ahead' if k.double_buffered else ''}"
        for k in schedule.kernels if k.mainloop_at is not None
    ]  # fmt: skip
    shared = [f"{s.func} shared" for s in schedule.rfactors if s.atomic]
    view = apply_rewrites(bound, schedule)
    lanes = [
        f"{t.stage.func} by {n} lanes"
        for k in schedule.kernels
        for t in k.tilings()
        if t.stage.func in view.funcs and (n := warp_lane_count(view, t)) > 1
    ]
    stored = [f"{m.func} stored" for k in schedule.kernels for m in k.fused if m.materialised]
    terms = [f"{m.func} for each term" for k in schedule.kernels for m in k.fused if k.is_per_reduction_step(m)]
    return ", ".join((*together, *hosts, *shared, *lanes, *stored, *terms)) or "-"


def _chosen(settings: SearchSettings, choice: str, on: bool) -> SearchSettings:
    """Return settings without or with a choice."""
    if choice == "mending":
        return settings
    values: dict[str, Any] = dict.fromkeys(ALL if choice == "all" else (choice,), on)
    if "atomics" in values:  # all of them are not for everybody
        values["atomics"] = "none" if not on else "all" if choice == "atomics" else "exact"
    return replace(settings, **values)


def row(choice: str, name: str, target: Target, model: CostModel, settings: SearchSettings, seconds: float) -> str:
    """Return a line of the table, empty if the choice does not concern the app."""
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
