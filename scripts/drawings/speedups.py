"""Plot the search's speedup over Sioutas' strategy on a GPU, app by app (the paper's Figure 5).

    python scripts/draw_speedups.py DIR docs/results/h200/speedups.png

DIR has the results of scripts/gpu_campaign.py with the step `timing`.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import matplotlib
from campaign.report import RESULTS_FILE
from campaign.results import Part
from campaign.tables import geometric_mean
from campaign.timing_tables import BASELINE, Parts, chosen_seconds, seconds_of, split_parts
from matplotlib.figure import Figure

MODES = (
    (("one-shot", "beam"), "", "analytical model, one-shot", "#a8cbe8"),
    (("one-shot", "beam"), "top5", "analytical model, best of five measured", "#3f7fb5"),
    (("learned",), "", "learned model, one-shot", "#f2a07b"),
    (("learned",), "learned-top5", "learned model, best of five measured", "#c4532b"),
)
"""Strategies, of which the first timed one counts, the mode that measures its best schedules, label, and colour.

The beam search's own schedules stand in for a missing mode.
"""
MEAN = "geometric mean"
WIDTH_IN, ROW_IN, DPI = 8.0, 0.36, 110


def speedups(timing: Parts) -> dict[str, dict[str, float]]:
    """Return each mode's speedup over the baseline strategy by app, for apps with times of all modes that any app has.

    Args:
        timing: Parts of the step `timing`.
    """
    rows: dict[str, dict[str, float]] = {}
    for app, strategies in split_parts(timing).items():
        base = seconds_of(strategies.get(BASELINE, {}).get(0), "cold")
        found = {label: _mode_seconds(strategies, names, measured) for names, measured, label, _ in MODES}
        if base is not None:
            rows[app] = {label: base / seconds for label, seconds in found.items() if seconds is not None}
    drawn = {label for row in rows.values() for label in row}
    return {app: row for app, row in rows.items() if row and set(row) == drawn}


def _mode_seconds(strategies: Mapping[str, Mapping[int, Part]], names: Sequence[str], measured: str) -> float | None:
    """Return the time of a mode of an app; None where it has none."""
    name = next((n for n in names if n in strategies), "")
    ranks = strategies.get(name, {})
    if not measured:
        return chosen_seconds(ranks, name)
    if name != "beam" and measured not in strategies:
        return None
    candidates = [*ranks.values(), *strategies.get(measured, {}).values()]
    return min((t for part in candidates if (t := seconds_of(part, "cold")) is not None), default=None)


def with_means(by_app: Mapping[str, Mapping[str, float]]) -> dict[str, dict[str, float]]:
    """Return the speedups in descending order of the last mode, and their geometric means."""
    labels = [label for *_, label, _ in MODES if any(label in row for row in by_app.values())]
    last = labels[-1]
    rows = {app: dict(by_app[app]) for app in sorted(by_app, key=lambda app: -by_app[app][last])}
    means = {label: geometric_mean([row[label] for row in by_app.values()]) for label in labels}
    return rows | {MEAN: {label: m for label, m in means.items() if m is not None}}


def draw(rows: Mapping[str, Mapping[str, float]], path: Path) -> None:
    """Write the picture."""
    figure = Figure(figsize=(WIDTH_IN, ROW_IN * len(rows) + 1), dpi=DPI, layout="constrained")
    axes = figure.add_subplot(xscale="log")
    modes = [(label, colour) for *_, label, colour in MODES if all(label in row for row in rows.values())]
    thick = 0.8 / len(modes)
    for k, (label, colour) in enumerate(modes):
        at = [row + (k - (len(modes) - 1) / 2) * thick for row in range(len(rows))]
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
        print(f"{given.directory} has no app with times of {BASELINE} and of a search", file=sys.stderr)
        return 1
    matplotlib.rcParams["svg.hashsalt"] = "autosched"  # the same picture each time
    draw(with_means(gains), given.picture)
    return 0
