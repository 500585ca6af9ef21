"""The type of a parameter with a value for each step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from autosched.builder_function import NUMBERS
from autosched.errors import InputError


def typed_number(what: str, values: Sequence[Any]) -> Any:
    """Return a number whose type holds all values of a parameter.

    Values of NumPy types have their common type (``numpy.result_type``). Of Python's numbers, a float if there is one,
    else the int that is furthest from 0, else a bool.

    Args:
        what: The parameter, for messages.
        values: Its value in each step.

    Raises:
        InputError: If there is no value, or one is no number.
    """
    if not len(values):
        raise InputError(f"{what} has no values: give a function of the step's number, or a number for each step")
    for step, value in enumerate(values):
        if not isinstance(value, NUMBERS):
            raise InputError(
                f"{what} is {value!r} in step {step}: give a function of the step's number that returns a number, or a "
                "number for each step"
            )
    typed = {value.dtype for value in values if isinstance(value, np.generic)}
    python = [value for value in values if not isinstance(value, np.generic)]
    kinds = {type(value) for value in python}
    if typed:
        return np.result_type(*typed, *(kind(0) for kind in kinds)).type(0)
    for kind in (float, int):
        if kind in kinds:
            return max((v for v in python if type(v) is kind), key=abs)
    return python[0]
