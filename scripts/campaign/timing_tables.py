"""Tables of times: strategies, the floor, and peers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from campaign.results import Part
from campaign.tables import NONE, geometric_mean, microseconds, ratio, table

Parts = Mapping[str, Part]

SAME_APP = {"blur3x3": "blur", "conv_layer_xyzn": "conv_layer_nchw"}
"""Our names of the peers' apps, where they differ."""
SEARCHES = {"one-shot": "top5", "beam": "beam", "learned": "learned-top5"}
"""One-shot searches, and the strategy whose schedules are measured to choose the best of them."""
MEASURED = ("top5", "learned-top5")
"""Modes whose time is that of the best schedule measured."""
BASELINE = "sioutas"


def split_parts(parts: Parts) -> dict[str, dict[str, dict[int, Part]]]:
    """Return timed schedules by app, strategy and rank."""
    found: dict[str, dict[str, dict[int, Part]]] = {}
    for name, part in parts.items():
        pieces = name.split("/")
        if len(pieces) == 3:
            found.setdefault(pieces[0], {}).setdefault(pieces[1], {})[int(pieces[2])] = part
    return found


def seconds_of(part: Part | None, how: str) -> float | None:
    """Return a time of a schedule, ``cold`` or one of the warm times; None if missing."""
    found: float | None = (part or {}).get(how, {}).get("seconds")
    return found


def chosen_seconds(ranks: Mapping[int, Part], strategy: str, how: str = "cold") -> float | None:
    """Return the time of a strategy: of its first schedule or, for a mode that measures, of its best one."""
    if strategy in MEASURED:
        return min((t for part in ranks.values() if (t := seconds_of(part, how)) is not None), default=None)
    return seconds_of(ranks.get(0), how)


def floor_of(parts: Parts, app: str) -> float | None:
    """Return the lower bound of an app's time."""
    floors = parts.get(f"floor/{app}", {}).get("seconds", {}).values()
    return max(floors) if floors else None


def times(parts: Parts, _: object) -> list[str]:
    """Return the tables of the strategies."""
    by_app = split_parts(parts)
    strategies = _strategies(by_app)
    title = "Cold inputs, one graph, microseconds (quartile distance in percent of the median):"
    lines = [*_ceilings(parts.get("ceilings", {})), "", title, "", *cold_table(parts), "", *_ranked(by_app)]
    lines += ["", *_warm(by_app, strategies)]
    failed = [(n, p["error"]) for n, p in parts.items() if "error" in p]
    return [*lines, "", *(f"* {name}: {' '.join(e.split())[:300]}" for name, e in failed)]


def _ceilings(part: Part) -> list[str]:
    names = (
        ("bytes_per_s", "bytes"), ("float32_per_s", "float32 operations"), ("float64_per_s", "float64 operations"),
        ("instructions_per_s", "instructions of lanes"),
    )  # fmt: skip
    said = [f"{part[k] / 1e12:.2f} T {what}/s" for k, what in names if part.get(k)]
    if part.get("launch_s"):
        said.append(f"{microseconds(part['launch_s'])} us from one empty kernel to the next")
    return ["Measured ceilings: " + ", ".join(said) + "."] if said else ["No ceilings are measured."]


def cold_table(parts: Parts) -> list[str]:
    """Return the table of times on cold inputs, in microseconds, with the floor."""
    by_app = split_parts(parts)
    strategies = _strategies(by_app)
    rows = []
    for app, found in by_app.items():
        known = [t for s in strategies if (t := chosen_seconds(found.get(s, {}), s)) is not None]
        floor = floor_of(parts, app)
        cells = [_with_spread(_chosen_part(found.get(s, {}), s)) for s in strategies]
        rows.append((app, *cells, microseconds(floor), ratio(min(known, default=None), floor)))
    return table(("app", *strategies, "floor", "best / floor"), rows)


def _strategies(by_app: Mapping[str, Mapping[str, Any]]) -> list[str]:
    return list(dict.fromkeys(s for found in by_app.values() for s in found))


def _chosen_part(ranks: Mapping[int, Part], strategy: str) -> Part | None:
    """Return the part whose time `chosen_seconds` returns, or a failed one."""
    timed = [part for part in ranks.values() if seconds_of(part, "cold") is not None]
    if strategy in MEASURED and timed:
        return min(timed, key=lambda part: seconds_of(part, "cold") or 0.0)
    return ranks.get(0)


def _with_spread(part: Part | None) -> str:
    seconds = seconds_of(part, "cold")
    if part is None or seconds is None:
        return "failed" if part else NONE
    return f"{microseconds(seconds)} ({100 * part['cold']['spread']:.1f})"


def _ranked(by_app: Mapping[str, Any]) -> list[str]:
    """Return the speedups of one-shot and of the best of several over the baseline strategy."""
    lines: list[str] = []
    for search, measured in SEARCHES.items():
        rows, factors = [], ([], [])  # type: tuple[list[tuple[str, ...]], tuple[list[float], list[float]]]
        for app, found in by_app.items():
            base = seconds_of(found.get(BASELINE, {}).get(0), "cold")
            timed = [p for s in dict.fromkeys((search, measured)) for p in found.get(s, {}).values()]
            ranked = [t for p in timed if (t := seconds_of(p, "cold")) is not None]
            first = seconds_of(found.get(search, {}).get(0), "cold")
            if base is None or first is None:
                continue
            factors[0].append(base / first)
            factors[1].append(base / min(ranked))
            rows.append((app, f"{base / first:.2f}", f"{base / min(ranked):.2f}", str(len(ranked))))
        if rows:
            means = [geometric_mean(f) for f in factors]
            rows.append(("geometric mean", *(f"{m:.2f}" for m in means if m is not None), ""))
            title = f"{BASELINE} over {search}, cold: how many times as fast the search's schedule is."
            lines += [title, "", *table(("app", "one-shot", "best of those timed", "timed"), rows), ""]
    return lines


def _warm(by_app: Mapping[str, Any], strategies: list[str]) -> list[str]:
    rows = []
    for app, found in by_app.items():
        for s in strategies:
            part = found.get(s, {}).get(0, {})
            ways = [part.get(how, {}) for how in ("graph", "stream", "call")]
            if any(ways):
                rows.append((app, s, *(_with_quartiles(w) for w in ways), str(len(part["kernel_s"]))))
    if not rows:
        return []
    head = ("app", "strategy", "graph", "launches", "call", "kernels")
    title = (
        "Same arrays every time, microseconds (quartiles): replayed graph, plain launches, calls by the host's clock:"
    )
    return [title, "", *table(head, rows)]


def _with_quartiles(figures: Mapping[str, float]) -> str:
    if not figures:
        return NONE
    return " ".join((
        microseconds(figures["seconds"]), f"({microseconds(figures['lower'])}-{microseconds(figures['upper'])})"
    ))  # fmt: skip


def kernels(parts: Parts, _: object) -> list[str]:
    """Return the table of the kernels of each strategy's best schedule."""
    rows = []
    for app, found in split_parts(parts).items():
        for strategy, ranks in found.items():
            part = ranks.get(0, {})
            if part.get("kernel_s"):
                spills = sum(part["spill_bytes"] or ())
                registers = " ".join(map(str, part["registers"] or ()))
                each = " ".join(microseconds(s) for s in part["kernel_s"])
                clock = part.get("conditions", {}).get("sm_mhz")
                rows.append((app, strategy, each, registers, str(spills), f"{clock:.0f}" if clock else NONE))
    return table(("app", "strategy", "each kernel, us", "registers", "spilled bytes", "SM MHz"), rows)


def peers(parts: Parts, results: Mapping[str, Parts]) -> list[str]:
    """Return the table of our schedules and the peers, warm, by replayed graphs where both have them."""
    ours = split_parts(results.get("timing", {}))
    names = list(dict.fromkeys(r["scheduler"] for p in parts.values() for r in p["rows"]))
    found: dict[str, dict[str, dict[str, Any]]] = {}
    for part in parts.values():
        for row in part["rows"]:
            found.setdefault(SAME_APP.get(row["app"], row["app"]), {})[row["scheduler"]] = row
    rows = []
    for app, by_name in found.items():
        best = _best_of_ours(ours.get(app, {}))
        right = [row for row in by_name.values() if row.get("graph_ms") and row.get("ok", True)]
        least = min((row["graph_ms"] * 1e-3 for row in right), default=None)
        rows.append((app, microseconds(best), *(_peer_cell(by_name.get(n)) for n in names), ratio(least, best)))
    head = ("app", "ours", *names, "best peer / ours")
    note = "Replayed graphs on the same arrays every time, microseconds; ours is the best strategy's one-shot schedule."
    return [note, "", *table(head, rows)]


def _best_of_ours(strategies: Mapping[str, Mapping[int, Part]]) -> float | None:
    known = [t for ranks in strategies.values() if (t := seconds_of(ranks.get(0), "graph")) is not None]
    return min(known, default=None)


def _peer_cell(row: Mapping[str, Any] | None) -> str:
    if row is None:
        return NONE
    if not row.get("graph_ms"):
        return f"{microseconds(row['ms'] * 1e-3)} (no graph)" if row.get("ms") else "failed"
    return microseconds(row["graph_ms"] * 1e-3) + ("" if row.get("ok", True) else " (wrong)")
