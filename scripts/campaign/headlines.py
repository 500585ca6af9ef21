"""The figures that pages quote from a campaign, as lines of Markdown."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from campaign.results import Part
from campaign.step_tables import torch_functions, tuning
from campaign.tables import NONE, geometric_mean, table
from campaign.timing_tables import BASELINE, SAME_APP, chosen_seconds, cold_table, peers, seconds_of, split_parts

Parts = Mapping[str, Part]
Results = Mapping[str, Parts]
Times = Mapping[str, float]

ROOTS = "roots"
TITLES = {
    "one-shot": "one-shot, analytical", "top5": "best of five, analytical", "beam": "beam search, analytical",
    "learned": "one-shot, learned", "learned-top5": "best of five, learned",
}  # fmt: skip
HEADLINE = ("learned", "one-shot", "beam")
"""Strategies that stand for this project, the first one timed."""
_TORCH = "torch_compiled"


def correctness(results: Results) -> list[str]:
    """Return the table of checks."""
    tests = [p for p in results.get("tests", {}).values() if p.get("outcome") in ("passed", "failed")]
    rows = []
    if tests:
        passed = sum(p["outcome"] == "passed" for p in tests)
        rows.append(("tests marked `gpu`", f"{passed:,} of {len(tests):,} pass"))
    for step, what in (
        ("kernels", "schedules with kernels of every kind against the interpreter"),
        ("suite", "schedules of apps against the interpreter, C or the app's reference, outputs overwritten before"),
    ):
        verdicts = [message for p in results.get(step, {}).values() for message in p["wrong"].values()]
        if verdicts:
            rows.append((what, f"{sum(not m for m in verdicts):,} of {len(verdicts):,}"))
    runs = [p for name, p in results.get("sanitizer", {}).items() if name != "sample"]
    if runs:
        cases, found = sum(len(p["cases"]) for p in runs), sum(len(p["findings"]) for p in runs)
        rows.append(
            ("schedules under memcheck, racecheck, synccheck, initcheck", f"{cases:,}, {found or 'no'} findings")
        )
    counts = [p["counts"] for name, p in results.get("collect", {}).items() if name.startswith("run ")]
    if counts:
        ok, wrong = (sum(c.get(status, 0) for c in counts) for status in ("ok", "wrong_result"))
        rows.append(("measured schedules compared with the baseline", f"{ok:,}, {wrong or 'none'} off"))
    return table(("check", "result"), rows)


def times(results: Results) -> list[str]:
    """Return the table of times on cold inputs."""
    return cold_table(results.get("timing", {}))


def means(results: Results) -> list[str]:
    """Return geometric means of the speed over `roots`, Sioutas' strategy, and the better of both."""
    by_strategy = cold_times(results)
    roots, sioutas = by_strategy.get(ROOTS, {}), by_strategy.get(BASELINE, {})
    better = {app: min(roots[app], sioutas[app]) for app in roots if app in sioutas}
    rows = []
    for strategy, title in TITLES.items():
        own = by_strategy.get(strategy, {})
        if own:
            cells = [_mean(base, own) for base in (better, sioutas, roots)]
            rows.append((title, *cells, str(sum(app in better for app in own))))
    return table(("schedules", "the better", "Sioutas", "roots", "apps"), rows)


def readme(results: Results) -> list[str]:
    """Return README's table of speed-ups of one-shot schedules."""
    warm, cold = graph_times(results), cold_times(results)
    name = next((s for s in HEADLINE if cold.get(s)), "")
    halide, torch = peer_times(results)
    roots, sioutas = cold.get(ROOTS, {}), cold.get(BASELINE, {})
    better = {app: min(roots[app], sioutas[app]) for app in roots if app in sioutas}
    mine, mine_warm = cold.get(name, {}), warm.get(name, {})
    rows = [
        ("over the best of Halide's GPU autoschedulers", *_range(halide, mine_warm)),
        ("over `torch.compile`", *_range(torch, mine_warm)),
        ("over the better of two simple strategies here, `roots` and Sioutas'", *_range(better, mine)),
        ("over Sioutas' strategy alone", *_range(sioutas, mine)),
    ]
    model = "learned model" if name == "learned" else "analytical model"
    head = (f"one-shot schedules on an {{device}}, {model}", "speed-up, geometric mean", "apps")
    return table(head, [row for row in rows if row[1] != NONE])


def cold_times(results: Results) -> dict[str, dict[str, float]]:
    """Return the seconds on cold inputs by strategy and app."""
    found: dict[str, dict[str, float]] = {}
    for app, strategies in split_parts(results.get("timing", {})).items():
        for strategy, ranks in strategies.items():
            if (seconds := chosen_seconds(ranks, strategy)) is not None:
                found.setdefault(strategy, {})[app] = seconds
    return found


def graph_times(results: Results) -> dict[str, dict[str, float]]:
    """Return the seconds of replayed graphs by strategy and app."""
    found: dict[str, dict[str, float]] = {}
    for app, strategies in split_parts(results.get("timing", {})).items():
        for strategy, ranks in strategies.items():
            if (seconds := seconds_of(ranks.get(0), "graph")) is not None:
                found.setdefault(strategy, {})[app] = seconds
    return found


def peer_times(results: Results) -> tuple[dict[str, float], dict[str, float]]:
    """Return the seconds of replayed graphs by app: of the best of Halide's schedulers, and of torch.compile."""
    halide: dict[str, float] = {}
    torch: dict[str, float] = {}
    for name, part in results.get("peers", {}).items():
        for row in part["rows"]:
            if row.get("graph_ms") and row.get("ok", True):
                app, seconds = SAME_APP.get(row["app"], row["app"]), row["graph_ms"] * 1e-3
                if name.startswith("halide/"):
                    halide[app] = min(seconds, halide.get(app, seconds))
                elif row["scheduler"] == _TORCH:
                    torch[app] = seconds
    return halide, torch


def _ratios(base: Times, own: Times) -> list[float]:
    return [base[app] / own[app] for app in own if app in base]


def _mean(base: Times, own: Times) -> str:
    mean = geometric_mean(_ratios(base, own))
    return NONE if mean is None else f"{mean:.2f}"


def _range(base: Times, own: Times) -> tuple[str, str]:
    """Return the mean with the least and the largest ratio, and the number of apps."""
    ratios = _ratios(base, own)
    mean = geometric_mean(ratios)
    if mean is None:
        return NONE, "0"
    return f"{mean:.1f} ({min(ratios):.1f} to {max(ratios):.1f})", str(len(ratios))


def _of_step(step: str, make: Callable[[Parts, Results], list[str]]) -> Callable[[Results], list[str]]:
    def lines(results: Results) -> list[str]:
        return make(results[step], results) if results.get(step) else ["Not measured."]

    return lines


BLOCKS: Mapping[str, Callable[[Results], Sequence[str]]] = {
    "correctness": correctness,
    "times": times,
    "means": means,
    "peers": _of_step("peers", peers),
    "tuning": _of_step("tune", tuning),
    "torch": _of_step("torch", torch_functions),
    "readme": readme,
}
"""Blocks of pages by name."""
