"""The suite's apps at the sizes of a campaign, and the device that schedules are made for."""

from __future__ import annotations

from autosched.apps.registry import NAMES, get_app
from autosched.errors import InputError
from autosched.measure.problem import Problem
from autosched.target import Target, get_target
from campaign.options import Options

WITHOUT_GPU = "h200"
"""What schedules are made for where there is no GPU and none is named."""
SMALL, ODD, PAPER = "small", "odd", "paper"
_VENDOR = "NVIDIA "


def app_names(options: Options) -> tuple[str, ...]:
    """Return the apps of a campaign."""
    return options.apps or NAMES


def problem_of(app: str, size: str) -> Problem:
    """Return an app at its small size for tests, at odd ones about twice as large, or at the paper's."""
    if size == PAPER:
        return Problem.app(app)
    if size == SMALL:
        return Problem.app(app, small=True)
    return Problem.app(app, {name: 2 * n + 1 for name, n in get_app(app).small_sizes.items()})


def target_of(options: Options) -> Target:
    """Return the device that schedules are made for.

    A GPU that is built in is taken as it is built in, so that schedules found without it are those found with it.

    Raises:
        InputError: If the name is unknown, or there is no GPU.
    """
    if options.device:
        return get_target(options.device)
    if options.target == "cpu":
        return get_target("cpu")
    if options.target != "cuda":
        return get_target(WITHOUT_GPU)
    found = Target.detect()
    try:
        built_in = get_target(found.name.removeprefix(_VENDOR))
    except InputError:
        return found
    return built_in if built_in.compute_capability == found.compute_capability else found
