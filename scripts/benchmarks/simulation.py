"""Compare simulated with measured times of kernels; needs no GPU.

    python scripts/bench_simulation.py LABELS.parquet [--rows 450] [--seed 0] [--skip 0]
    python scripts/bench_simulation.py --campaign docs/results/h200 --apps smoother7pt

The first form draws as many labels above 1 ms, from 0.1 to 1 ms and below, and prints the ratio of the measured to the
simulated time of kernels and pipelines: its geometric mean, quantiles, and the standard deviation of its logarithm;
and the pairs of schedules of one pipeline that both order alike. Labels should hold (`scripts/check_labels.py`). The
second form prints the kernels that a campaign timed, with registers of the measured and of the present machine code.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import random
import sys
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from autosched.errors import AutoschedError
from autosched.measure.problem import Problem
from autosched.measure.simulated import KernelBreakdown, Simulated, simulate
from autosched.schedule.io.serialise import from_json
from autosched.target import get_target

EDGES = (1e-5, 1e-4, 1e-3)
"""Limits between the classes of measured times, in seconds."""
QUANTILES = (0.1, 0.25, 0.5, 0.75, 0.9)


@dataclass(frozen=True)
class Comparison:
    """Times of one label.

    Attributes:
        problem: Hash of its problem.
        measured: Measured seconds of the pipeline.
        simulated: Simulated seconds of the pipeline, without noise.
        kernels: Measured seconds of each kernel with its simulated breakdown.
    """

    problem: str
    measured: float
    simulated: float
    kernels: Sequence[tuple[float, KernelBreakdown]]


def main() -> int:
    """Print the comparison."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("labels", nargs="?", help="a Parquet file of measured labels")
    parser.add_argument("--rows", type=int, default=450, help="labels to draw")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--skip", type=int, default=0, help="labels to leave out before, in the order of the draw")
    parser.add_argument("--campaign", type=Path, help="folder of a campaign's results.json and schedules.json")
    parser.add_argument("--apps", default="", help="apps of the campaign")
    options = parser.parse_args()
    if options.campaign:
        print_campaign(options.campaign, options.apps.split(","))
    elif options.labels:
        found = [c for row in drawn(options) if (c := compared(row)) is not None]
        print_ratios(found)
    else:
        parser.error("name a file of labels or a campaign")
    return 0


def drawn(options: argparse.Namespace) -> list[dict[str, Any]]:
    """Return the drawn labels, a third of each class of times."""
    import pyarrow.parquet as pq

    rows = [r for r in pq.read_table(options.labels).to_pylist() if r["status"] == "ok" and r["kernel_seconds"]]
    random.Random(options.seed).shuffle(rows)
    classes: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        classes[max(int(np.searchsorted(EDGES, row["seconds"])), 1)].append(row)
    turns = itertools.zip_longest(*(classes[k] for k in sorted(classes, reverse=True)))
    order = [row for turn in turns for row in turn if row is not None]
    return order[options.skip : options.skip + options.rows]


def compared(row: dict[str, Any]) -> Comparison | None:
    """Return the times of a label; None if its schedule is refused now."""
    try:
        bound = Problem.parse(row["problem"]).bind()
        found = simulate(bound, from_json(row["schedule"], bound), get_target(row["target"]))
    except AutoschedError as error:
        print(f"left out: {error}", file=sys.stderr)
        return None
    if len(found.kernels) != len(row["kernel_seconds"]):
        return None
    kernels = list(zip(row["kernel_seconds"], found.kernels, strict=True))
    return Comparison(row["problem_hash"], row["seconds"], seconds_of(found), kernels)


def seconds_of(found: Simulated) -> float:
    """Return simulated seconds without noise."""
    return found.seconds / found.noise


def print_ratios(found: Sequence[Comparison]) -> None:
    """Print ratios of measured to simulated times."""
    table = Table("", "count", "mean", *(f"{q:.0%}" for q in QUANTILES), "deviation")
    kernels = [pair for c in found for pair in c.kernels]
    _add(table, "pipelines", (c.measured / c.simulated for c in found))
    _add(table, "kernels", (m / k.time.seconds for m, k in kernels))
    bounds = (0.0, *EDGES, math.inf)
    for low, high in itertools.pairwise(bounds):
        _add(table, f"{low * 1e6:g} to {high * 1e6:g} us",
             (m / k.time.seconds for m, k in kernels if low <= m < high))  # fmt: skip
    by_limiter: dict[str, list[float]] = defaultdict(list)
    for m, k in kernels:
        by_limiter[k.time.limiter].append(m / k.time.seconds)
    for limiter, ratios in sorted(by_limiter.items()):
        _add(table, f"limited by {limiter}", ratios)
    console = Console(width=120)
    console.print(table)
    by_problem: dict[str, list[Comparison]] = defaultdict(list)
    for c in found:
        by_problem[c.problem].append(c)
    pairs = [p for group in by_problem.values() for p in itertools.combinations(group, 2)]
    alike = sum((a.measured < b.measured) == (a.simulated < b.simulated) for a, b in pairs)
    console.print(f"{alike} of {len(pairs)} pairs of schedules of one pipeline are ordered alike")


def _add(table: Table, label: str, ratios: Iterable[float]) -> None:
    logs = np.log(np.fromiter(ratios, float))
    if len(logs):
        figures = [logs.mean(), *np.quantile(logs, QUANTILES)]
        table.add_row(label, str(len(logs)), *(f"{math.exp(x):.2f}" for x in figures), f"{logs.std():.3f}")


def print_campaign(folder: Path, apps: Sequence[str]) -> None:
    """Print the kernels that a campaign timed, those with equal figures once."""
    timing = json.loads((folder / "results.json").read_text())["timing"]
    ((_, schedules),) = json.loads((folder / "schedules.json").read_text()).items()
    parts = ("latency", "issue", "fp64", "l1", "l2", "dram")
    table = Table("schedule", "measured us", "simulated us", "measured / simulated", "registers", "blocks", *parts)
    for name, stored in schedules.items():
        app, _, strategy = name.split("/")
        measured = timing.get(f"{app}/{strategy}/0")
        if app not in apps or not measured:
            continue
        bound = Problem.parse(stored["problem"]).bind()
        found = simulate(bound, from_json(stored["schedules"][0], bound), get_target("h200"))
        seen = set()
        for k, seconds, registers in zip(found.kernels, measured["kernel_s"], measured["registers"], strict=True):
            figures = [f"{1e6 * k.time.parts[p]:.0f}" for p in parts]
            simulated, now = k.time.seconds, k.resources.registers
            row = [f"{simulated * 1e6:.0f}", f"{registers}, {now}", str(k.resident_blocks), *figures]
            if (key := (round(seconds, 5), *row)) not in seen:
                seen.add(key)
                ratio = f"{seconds / simulated:.2f}"
                table.add_row(f"{app} {strategy}", f"{seconds * 1e6:.0f}", row[0], ratio, *row[1:])
    Console(width=150).print(table)
