"""The results as one page of Markdown, from the files of a campaign alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from campaign import step_tables, timing_tables
from campaign.files import read_json, write_text
from campaign.results import TOO_LITTLE, Part
from campaign.tables import NONE, table

RESULTS_FILE = "results.json"
STATE_FILE = "state.json"
SUMMARY_FILE = "summary.md"

Parts = Mapping[str, Part]
_MOST_MESSAGES = 30
_LONGEST = 300


def write_report(out: Path) -> Path:
    """Write the page from the files of a directory.

    Args:
        out: Directory of the results.

    Raises:
        ValueError: If a file is damaged; the message names it.
    """
    state: dict[str, Any] = read_json(out / STATE_FILE, {})
    results: dict[str, Parts] = read_json(out / RESULTS_FILE, {})
    lines = ["# GPU campaign", "", *_machine(state), "", *_steps(state)]
    for title, step, make in SECTIONS:
        parts = results.get(step)
        if parts:
            lines += ["", f"## {title}", "", *make(parts, results)]
    path = out / SUMMARY_FILE
    write_text(path, "\n".join(lines) + "\n")
    return path


def _machine(state: Mapping[str, Any]) -> list[str]:
    lines = []
    for number, call in enumerate(state.get("calls", ()), 1):
        machine = call.get("machine", {})
        packages = ", ".join(f"{name} {v}" for name, v in machine.get("packages", {}).items())
        lines += [
            f"{number}. {call['date']}, commit {call.get('commit') or 'not known'}: "
            f"{machine.get('device') or 'no device: ' + _last_line(machine)}, "
            f"CUDA driver {machine.get('cuda_driver', NONE)}, {machine.get('cores', NONE)} cores of "
            f"{machine.get('processor', NONE)}; Python {machine.get('python', NONE)}, {packages}",
            f"   `{' '.join(call['command'])}`",
        ]
        if machine.get("smi"):
            lines += [f"   `{row}`" for row in machine["smi"].splitlines()]
    return lines


def _last_line(machine: Mapping[str, Any]) -> str:
    return str(machine.get("error", "")).strip().rpartition("\n")[2][-_LONGEST:]


def _steps(state: Mapping[str, Any]) -> list[str]:
    rows = [
        (name, s["status"], f"{s['seconds']:.0f} s" if "seconds" in s else NONE, str(s.get("message", "")))
        for name, s in state.get("steps", {}).items()
    ]
    return table(("step", "status", "last call", "result"), rows)


def _tests(parts: Parts, _: object) -> list[str]:
    failed = {n: p for n, p in parts.items() if p.get("outcome") == "failed"}
    passed = sum(p.get("outcome") == "passed" for p in parts.values())
    return [f"{passed} passed, {len(failed)} failed.", *_messages((n, p.get("message", "")) for n, p in failed.items())]


def _suite(parts: Parts, _: object) -> list[str]:
    wrong = [(f"{n}, {s}", m) for n, p in parts.items() for s, m in p["wrong"].items() if m]
    count = sum(len(p["wrong"]) for p in parts.values())
    return [f"{count} schedules of {len(parts)} problems; {len(wrong)} wrong.", *_messages(wrong)]


def _sanitizer(parts: Parts, _: object) -> list[str]:
    runs = {n: p for n, p in parts.items() if n != "sample"}
    tools: dict[str, list[Part]] = {}
    for name, part in runs.items():
        tools.setdefault(name.partition("/")[0], []).append(part)
    rows = [
        (t, str(sum(len(p["cases"]) for p in ps)), str(sum(len(p["findings"]) for p in ps)),
         str(sum(not p["ended"] for p in ps)))
        for t, ps in tools.items()
    ]  # fmt: skip
    lines = table(("tool", "schedules", "findings", "runs not ended"), rows)
    kinds = parts.get("sample", {}).get("kinds", {})
    lines += ["", "Kinds of kernels: " + ", ".join(f"{k} ({n})" for k, n in kinds.items()) + "."]
    found = ((f"{n}, {f['case']}", f["text"]) for n, p in runs.items() for f in p["findings"])
    return lines + _messages(found)


def _collect(parts: Parts, _: object) -> list[str]:
    runs = {n: p for n, p in parts.items() if n.startswith("run ")}
    rows = [
        (n, p["source"], ", ".join(f"{c} {s}" for s, c in p["counts"].items()), f"{p['seconds']:.0f} s")
        for n, p in runs.items()
    ]
    errors = ((f"{n}, {status}", e) for n, p in runs.items() for status, e in p["errors"].items())
    lines = [f"{len(parts) - len(runs)} pipelines are done.", ""]
    return lines + table(("", "labels", "results", "time"), rows) + _messages(errors)


def _train(parts: Parts, _: object) -> list[str]:
    rows = []
    for name, part in parts.items():
        for model, f in part.get("figures", {}).items():
            rows.append((
                name, model, *(f"{f[k]:.3f}" if k in f else NONE for k in ("spearman", "spearman_p10")),
                *(f"{100 * f[k]:.1f} %" if k in f else NONE for k in ("regret1", "regret5")),
                *(f"{f[k]:.2f}" if k in f else NONE for k in ("ratio", "off")), f"{f.get('schedules', 0):.0f}",
            ))  # fmt: skip
    head = ("", "model", "Spearman", "10th perc.", "top-1 regret", "top-5 regret", "ratio", "off by", "schedules")
    data = "; ".join(sorted({p["data"] for p in parts.values() if "data" in p}))
    errors = ((n, p[key]) for n, p in parts.items() for key in ("error", TOO_LITTLE) if key in p)
    return [data, "", *table(head, rows), *_messages(errors)]


def _profile(parts: Parts, _: object) -> list[str]:
    lines: list[str] = []
    for app, part in parts.items():
        over = f", {part['over_floor']:.2f} times the floor" if part.get("over_floor") else ""
        lines += [f"**{app}** ({part['strategy']}{over})", ""]
        for kernel, found in part["kernels"].items():
            lines += [f"* `{kernel}`: " + "; ".join(f"{k} {v}" for k, v in found["metrics"].items())]
            lines += [f"  * {advice}" for advice in found["advice"]]
        lines += [f"* {part['error']}"] if "error" in part else []
        lines += [""]
    return lines


def _messages(found: Any) -> list[str]:
    lines = [f"* {name}: {_short(str(text))}" for name, text in found]
    more = len(lines) - _MOST_MESSAGES
    return ["", *lines[:_MOST_MESSAGES], *([f"* and {more} more"] if more > 0 else [])] if lines else []


def _short(text: str) -> str:
    """Return the first and the last line of a text: summary, and the error of a traceback."""
    lines = [" ".join(line.split())[:_LONGEST] for line in text.strip().splitlines() or [""]]
    return lines[0] if len(lines) == 1 else f"{lines[0]} ... {lines[-1]}"


SECTIONS: tuple[tuple[str, str, Callable[[Parts, Mapping[str, Parts]], list[str]]], ...] = (
    ("Tests", "tests", _tests),
    ("Kernels of every kind", "kernels", _suite),
    ("The suite's results", "suite", _suite),
    ("Sanitizer", "sanitizer", _sanitizer),
    ("Times", "timing", timing_tables.times),
    ("Kernels", "timing", timing_tables.kernels),
    ("Tuning", "tune", step_tables.tuning),
    ("PyTorch", "torch", step_tables.torch_functions),
    ("Peers", "peers", timing_tables.peers),
    ("Samples", "collect", _collect),
    ("Cost model", "train", _train),
    ("Profiles", "profile", _profile),
)
