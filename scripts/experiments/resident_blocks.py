"""Effect of launch bounds for more resident blocks; prints Markdown, needs no GPU.

    python scripts/compare_resident_blocks.py [--apps rhs4center,hypterm] [--target h200] [--seconds 20]

The best-ranked schedule of each app is compared with its variant from
`autosched.search.tune.resident_block_variants`. Columns: kernels with other bounds; registers of a thread, spilled
bytes and simulated times without and with them. Apps whose registers limit no resident blocks are left out.
"""

from __future__ import annotations

import argparse
import sys

from autosched.apps import load_apps
from autosched.errors import AutoschedError
from autosched.measure.simulated import simulate
from autosched.search.cost.gpu_analytical import analytical_model
from autosched.search.results import RankedSchedule
from autosched.search.tune.resident_block_variants import with_resident_blocks
from autosched.search.tune.spill_filter import SpillTable
from autosched.target import get_target
from experiments.launch_bounds import searched


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--apps", default=",".join(load_apps()), help="names, separated by commas")
    parser.add_argument("--target", default="h200")
    parser.add_argument("--beam", type=int, default=4)
    parser.add_argument("--passes", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=20.0, help="time limit of each search")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    try:
        target = get_target(options.target)
        print("| app | kernels | registers | | bytes | | simulated us | | speedup |")
        print("|---|---|---|---|---|---|---|---|---|")
        for name in options.apps.split(","):
            bound, schedule = searched(name, target, analytical_model(target), options)
            table = SpillTable(bound, target)
            for variant in with_resident_blocks([RankedSchedule(schedule, float("nan"))], table):
                both = schedule, variant.schedule
                changed = [k for k, (a, b) in enumerate(zip(*(s.kernels for s in both), strict=True)) if a != b]
                registers = (", ".join(str(table.registers(s)[k]) for k in changed) for s in both)
                spills = (f"{sum(table.of(s)):,}" for s in both)
                before, after = (simulate(bound, s, target).seconds for s in both)
                print(
                    f"| {name} | {len(changed)} | {' | '.join(registers)} | {' | '.join(spills)} | {before * 1e6:,.1f} "
                    f"| {after * 1e6:,.1f} | {before / after:.2f} |",
                    flush=True,
                )
    except AutoschedError as error:
        sys.exit(f"error: {error}")
    return 0
