"""The suite's apps at the sizes of a campaign, and the target device."""

from __future__ import annotations

from autosched.apps.registry import NAMES, get_app
from autosched.measure.problem import Problem
from autosched.target import Target, built_in_target, get_target
from campaign.files import read_json
from campaign.options import Options
from campaign.paths import ROOT

WITHOUT_GPU = "h200"
"""Default target without a GPU."""
SMALL, ODD, PAPER = "small", "odd", "paper"
_SLASHES = 2
"""In names of timed schedules, ``app/strategy/rank``."""


def app_names(options: Options) -> tuple[str, ...]:
    """Return the apps of a campaign."""
    return options.apps or NAMES


def apps_by_need(options: Options) -> tuple[str, ...]:
    """Return the apps of a campaign, those first that have no published times of the device."""
    published = read_json(ROOT / "docs" / "results" / target_of(options).name.lower() / "results.json", {})
    timed = {name.partition("/")[0] for name in published.get("timing", {}) if name.count("/") == _SLASHES}
    return tuple(sorted(app_names(options), key=lambda app: app in timed))


def problem_of(app: str, size: str) -> Problem:
    """Return an app at its small test size, at odd sizes about twice as large, or at the paper's size."""
    if size == PAPER:
        return Problem.app(app)
    if size == SMALL:
        return Problem.app(app, small=True)
    return Problem.app(app, {name: 2 * n + 1 for name, n in get_app(app).small_sizes.items()})


def target_of(options: Options) -> Target:
    """Return the target device.

    A GPU with a built-in target, such as ``NVIDIA H100 80GB HBM3`` with ``H100``, uses that target, so that searches
    with and without the GPU find the same schedules.

    Raises:
        InputError: If the name is unknown, or the GPU is missing.
    """
    if options.device:
        return get_target(options.device)
    if options.target == "cpu":
        return get_target("cpu")
    if options.target != "cuda":
        return get_target(WITHOUT_GPU)
    return built_in_target(Target.detect())
