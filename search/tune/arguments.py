"""Checks of numeric arguments of any type from callers."""

from __future__ import annotations

import math

from autosched.errors import InputError, shortened

MOST = 1_000_000
LARGEST_SEED = 2**63 - 1


def check_seconds(seconds: object) -> None:
    """Check a time budget.

    Raises:
        InputError: If it is neither None nor a finite number of at least 0.
    """
    if seconds is None:
        return
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 <= seconds < math.inf:
        raise InputError(
            f"seconds is {shortened(seconds)}: give a finite number of seconds of at least 0, or None for no budget"
        )


def check_whole(name: str, value: object, low: int, high: int = MOST) -> None:
    """Check an integer argument.

    Raises:
        InputError: If it is no integer from `low` to `high`.
    """
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise InputError(f"{name} is {shortened(value)}: give a whole number from {low} to {high}")


def check_switch(name: str, value: object) -> None:
    """Check an optional switch.

    Raises:
        InputError: If it is neither None, True nor False.
    """
    if value is not None and not isinstance(value, bool):
        raise InputError(f"{name} is {shortened(value)}: give True or False, or None for the default")
