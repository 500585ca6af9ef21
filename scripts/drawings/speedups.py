"""Plot the search's speedup over Sioutas' strategy on a GPU, app by app (the paper's Figure 5).

    python scripts/draw_speedups.py DIR docs/results/h200/speedups.png

DIR has the results of scripts/gpu_campaign.py with the step `timing`.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping
from pathlib import Path

import matplotlib
from campaign.report import RESULTS_FILE
from campaign.tables import geometric_mean
from campaign.timing_tables import BASELINE, Parts, seconds_of, split_parts
from matplotlib.figure import Figure

MODES = (
    ("beam", False, "analytical model, one-shot", "#a8cbe8"),
    ("beam", True, "analytical model, best of five measured", "#3f7fb5"),
    ("learned", False, "learned model, one-shot", "#f2a07b"),
)
"""Strategy, whether the best of its ranked schedules counts, label, and colour."""
MEAN = "geometric mean"
WIDTH_IN, ROW_IN, DPI = 8.0, 0.36, 110


def speedups(timing: Parts) -> dict[str, dict[str, float]]:
    """Return each mode's speedup over the baseline strategy by app, for apps with all times.

    Args:
        timing: Parts of the step `timing`.
    """
    rows: dict[str, dict[str, float]] = {}
    for app, strategies in split_parts(timing).items():
        base = seconds_of(strategies.get(BASELINE, {}).get(0), "cold")
        row: dict[str, float] = {}
        for strategy, best, label, _ in MODES:
            ranked = strategies.get(strategy, {})
            times = [seconds_of(part, "cold") for rank, part in ranked.items() if best or rank == 0]
            finite = [t for t in times if t is not None]
            if base is not None and finite:
                row[label] = base / min(finite)
        if len(row) == len(MODES):
            rows[app] = row
    return rows


def with_means(by_app: Mapping[str, Mapping[str, float]]) -> dict[str, dict[str, float]]:
    """Return the speedups in descending order of the last mode, and their geometric means."""
    last = MODES[-1][2]
    rows = {app: dict(by_app[app]) for app in sorted(by_app, key=lambda app: -by_app[app][last])}
    means = {label: geometric_mean([row[label] for row in by_app.values()]) for *_, label, _ in MODES}
    return rows | {MEAN: {label: m for label, m in means.items() if m is not None}}


def draw(rows: Mapping[str, Mapping[str, float]], path: Path) -> None:
    """Write the picture."""
    figure = Figure(figsize=(WIDTH_IN, ROW_IN * len(rows) + 1), dpi=DPI, layout="constrained")
    axes = figure.add_subplot(xscale="log")
    thick = 0.8 / len(MODES)
    for k, (*_, label, colour) in enumerate(MODES):
        at = [row + (k - 1) * thick for row in range(len(rows))]
        bars = axes.barh(at, [row[label] - 1 for row in rows.values()], thick, left=1.0, color=colour, label=label)
        axes.bar_label(bars, [f"{row[label]:.3g}" for row in rows.values()], padding=2, fontsize=6)
    axes.axvline(1.0, color="black", linewidth=0.8)
    axes.set(yticks=range(len(rows)), yticklabels=list(rows), xlabel="times as fast as Sioutas' strategy")
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.tick_params(labelsize=8)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(fontsize=8, loc="lower right")
    figure.savefig(path, metadata={"Software": None})


def main() -> int:
    """Draw the results of the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=Path, help="results of scripts/gpu_campaign.py")
    parser.add_argument("picture", type=Path, help="PNG or SVG to write")
    given = parser.parse_args()
    gains = speedups(json.loads((given.directory / RESULTS_FILE).read_text(encoding="utf-8")).get("timing", {}))
    if not gains:
        print(f"{given.directory} has no app with times of {BASELINE}, beam and learned", file=sys.stderr)
        return 1
    matplotlib.rcParams["svg.hashsalt"] = "autosched"  # the same picture each time
    draw(with_means(gains), given.picture)
    return 0
