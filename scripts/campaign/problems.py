"""The suite's apps at the sizes of a campaign, and the target device."""

from __future__ import annotations

from autosched.apps.registry import NAMES, get_app
from autosched.errors import InputError
from autosched.measure.problem import Problem
from autosched.target import Target, get_target
from campaign.options import Options

WITHOUT_GPU = "h200"
"""Default target without a GPU."""
SMALL, ODD, PAPER = "small", "odd", "paper"
_VENDOR = "NVIDIA "


def app_names(options: Options) -> tuple[str, ...]:
    """Return the apps of a campaign."""
    return options.apps or NAMES


def problem_of(app: str, size: str) -> Problem:
    """Return an app at its small test size, at odd sizes about twice as large, or at the paper's size."""
    if size == PAPER:
        return Problem.app(app)
    if size == SMALL:
        return Problem.app(app, small=True)
    return Problem.app(app, {name: 2 * n + 1 for name, n in get_app(app).small_sizes.items()})


def target_of(options: Options) -> Target:
    """Return the target device.

    A GPU with a built-in target uses that target, so that searches with and without the GPU find the same schedules.

    Raises:
        InputError: If the name is unknown, or the GPU is missing.
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
