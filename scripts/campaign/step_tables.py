"""Tables of the steps `kernels`, `tune` and `torch`."""

from __future__ import annotations

from collections.abc import Mapping

from campaign.results import Part
from campaign.tables import NONE, geometric_mean, microseconds, ratio, table
from campaign.timing_tables import chosen_seconds, split_parts

Parts = Mapping[str, Part]

SIDES = ("eager", "inductor", "autosched")
GRAPH = " graph"


def tuning(parts: Parts, results: Mapping[str, Parts]) -> list[str]:
    """Return the table of tuned apps, in microseconds, beside the best one-shot schedule that was timed."""
    timing = split_parts(results.get("timing", {}))
    rows = []
    for app, part in parts.items():
        ways = timing.get(app, {})
        one_shot = [t for s in ("one-shot", "learned") if (t := chosen_seconds(ways.get(s, {}), s)) is not None]
        best, base = part.get("best"), part.get("baseline")
        rows.append((
            app, microseconds(base), microseconds(min(one_shot, default=None)), microseconds(best), ratio(base, best),
            str(part.get("batches", NONE)), str(part.get("measured", NONE)),
            f"{part['seconds']:.0f}" if "seconds" in part else NONE,
        ))  # fmt: skip
    head = ("app", "roots", "one-shot", "tuned", "roots / tuned", "batches", "schedules", "seconds of the last call")
    note = "Tuning times schedules with fewer samples than the table of times; *one-shot* is from there."
    return [note, "", *table(head, rows)]


def torch_functions(parts: Parts, _: object) -> list[str]:
    """Return the table of functions by `torch.compile`, in microseconds, and geometric means over inductor."""
    rows = []
    for name, row in parts.items():
        cells = [_side(row, side) for side in SIDES] + [_side(row, side + GRAPH) for side in SIDES]
        both = [ratio(row.get("inductor" + end), row.get("autosched" + end)) for end in ("", GRAPH)]
        rows.append((name, *cells, *both))
    head = ("function, shape", *SIDES, *(side + GRAPH for side in SIDES), "over inductor", "over inductor, graph")
    means = ", ".join(
        f"{mean:.2f} {how} ({count})"
        for end, how in (("", "by calls"), (GRAPH, "by graphs"))
        for mean, count in [over_inductor(parts, end)]
        if mean is not None
    )
    lines = ["Microseconds of a call in a queue of calls, and of a replayed graph.", "", *table(head, rows)]
    errors = [f"* {name}: {row['error autosched']}" for name, row in parts.items() if "error autosched" in row]
    return [*lines, "", f"Times as fast as inductor, geometric mean: {means or NONE}.", "", *errors]


def over_inductor(parts: Parts, end: str = "") -> tuple[float | None, int]:
    """Return the geometric mean of inductor's times over ours, of right results, and their number.

    Args:
        parts: Parts of the step `torch`.
        end: Ending of the sides' names: empty, or that of graphs.
    """
    pairs = [(row.get("inductor" + end), row.get("autosched" + end)) for row in parts.values() if _is_right(row)]
    ratios = [a / b for a, b in pairs if a and b]
    return geometric_mean(ratios), len(ratios)


def _is_right(row: Part) -> bool:
    return row.get("right autosched") is not False


def _side(row: Part, side: str) -> str:
    if f"error {side}" in row and side not in row:
        return "failed"
    wrong = side in row and row.get(f"right {side.removesuffix(GRAPH)}") is False
    return microseconds(row.get(side)) + (" (wrong)" if wrong else "")
