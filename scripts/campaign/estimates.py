"""Remaining work of each step, with the time that it takes on a GPU."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from campaign.files import read_json
from campaign.options import Options
from campaign.results import Part

RESULTS_FILE, SCHEDULES_FILE = "results.json", "schedules.json"
CORES = 16
"""Cores of the machine that the times are of."""
_ABOUT_KINDS, _TOOLS = 48, 4
_TUNED_AT_A_TIME, _TUNING_END_S = 4, 30.0
_HALIDE_APPS, _FUNCTIONS = 15, 76
_SLASHES = 2
"""In names of timed schedules, ``app/strategy/rank``."""


@dataclass(frozen=True)
class Need:
    """Work that a step has left.

    Attributes:
        step: Its name.
        count: Number of parts left.
        unit: What a part is.
        part_s: Seconds for a part.
        is_measured: Whether the time was measured on a GPU (docs/results/h200), rather than assumed.
    """

    step: str
    count: int
    unit: str
    part_s: float
    is_measured: bool = True

    @property
    def seconds(self) -> float:
        """Seconds for all parts."""
        return self.count * self.part_s


def needs(options: Options, apps: int) -> Iterator[Need]:
    """Yield the work left, the most important first.

    Args:
        options: Options of the campaign.
        apps: Number of apps of the suite, where the options choose none.
    """
    results: Mapping[str, Mapping[str, Part]] = read_json(options.out_path / RESULTS_FILE, {})
    steps: Mapping[str, Any] = read_json(options.out_path / "state.json", {}).get("steps", {})
    finished = {name for name, status in steps.items() if status.get("status") == "finished"}
    apps = len(options.apps) or apps

    def done(step: str) -> Mapping[str, Part]:
        return results.get(step, {})

    everything = [
        Need("tests", 1, "run", 90.0),
        _left("kernels", _ABOUT_KINDS, _schedules(done("kernels")), "schedules", 0.5, is_measured=False),
        _left("sanitizer", _ABOUT_KINDS * _TOOLS, _under_tools(done("sanitizer")), "schedules under a tool", 0.65),
        _left("suite", apps * len(options.sizes) * _one_shots(options), _schedules(done("suite")), "schedules", 0.47),
        _left("timing", _to_time(options, apps), _timed(done("timing")), "schedules", 1.0),
        _left("collect", options.samples, _samples(done("collect")), "samples", _sample_seconds(done("collect"))),
        _left("tune", len(options.tune_apps), len(done("tune")), "apps",
              (options.tune_seconds + _TUNING_END_S) / _TUNED_AT_A_TIME, is_measured=False),
        _left("peers", _HALIDE_APPS if options.peers else 0, _peer_apps(done("peers")), "apps of Halide", 15.0),
        _left("torch", _FUNCTIONS, len(done("torch")), "functions and shapes", 7.0, is_measured=False),
        _left("profile", options.profiled, len(done("profile")), "apps", 12.0),
    ]  # fmt: skip
    yield from (need for need in everything if need.count > 0 and need.step not in finished)


def _left(step: str, wanted: int, done: int, unit: str, part_s: float, *, is_measured: bool = True) -> Need:
    return Need(step, max(wanted - done, 0), unit, part_s, is_measured)


def _one_shots(options: Options) -> int:
    return sum("top5" not in strategy for strategy in options.strategies)


def _to_time(options: Options, apps: int) -> int:
    """Return the number of schedules to time: distinct ones that were found, or about as many as searches find."""
    found = {
        (name.partition("/")[0], text)
        for parts in read_json(options.out_path / SCHEDULES_FILE, {}).values()
        for name, part in parts.items()
        if "/paper/" in name and name.rpartition("/")[2] in options.strategies
        for text in part["schedules"][: None if "top5" in name else options.ranked]
    }
    return len(found) or apps * sum(options.ranked if "top5" in s or s == "beam" else 1 for s in options.strategies)


def _schedules(parts: Mapping[str, Part]) -> int:
    return sum(len(part.get("wrong", ())) for part in parts.values())


def _under_tools(parts: Mapping[str, Part]) -> int:
    return sum(len(part["cases"]) for part in parts.values() if "cases" in part)


def _timed(parts: Mapping[str, Part]) -> int:
    """Return the number of timed schedules; equal ones have equal parts."""
    return len({repr(sorted(part.items())) + name.partition("/")[0] for name, part in parts.items()
                if name.count("/") == _SLASHES})  # fmt: skip


def _runs(parts: Mapping[str, Part]) -> list[Part]:
    return [part for name, part in parts.items() if name.startswith("run ")]


def _samples(parts: Mapping[str, Part]) -> int:
    return sum(part["counts"].get("ok", 0) for part in _runs(parts))


def _sample_seconds(parts: Mapping[str, Part]) -> float:
    """Return the seconds of a sample: those of the last call or, before, of code that was not compiled ahead."""
    last = next((part for part in reversed(_runs(parts)) if part["counts"].get("ok")), None)
    return 1 / 12 if last is None else last["seconds"] / last["counts"]["ok"]


def _peer_apps(parts: Mapping[str, Part]) -> int:
    return sum(name.startswith("halide/") and not part.get("interrupted") for name, part in parts.items())
