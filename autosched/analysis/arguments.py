"""Checks of shapes and parameter values before binding."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from typing import Any

from autosched.analysis.specialise import specialised_params
from autosched.errors import InputError
from autosched.lang.expr import Param, Scalar
from autosched.lang.func import Input
from autosched.lang.pipeline import Pipeline

Shapes = Mapping[str, Sequence[int]]
MOST_BYTES = 1 << 62
"""Size that arrays must stay below, so that no size or offset overflows 64 bits."""


def checked_shapes(pipeline: Pipeline, shapes: Shapes) -> dict[str, tuple[int, ...]]:
    """Return the shape of every input.

    Raises:
        InputError: If a shape is missing, unknown, of the wrong rank, negative, or of `MOST_BYTES` or more.
    """
    inputs = {i.name: i for i in pipeline.inputs}
    unknown, missing = set(shapes) - set(inputs), set(inputs) - set(shapes)
    if unknown or missing:
        wrong = [f"unknown {n!r}" for n in sorted(unknown)] + [f"missing {n!r}" for n in sorted(missing)]
        names = ", ".join(inputs)
        raise InputError(f"shapes of pipeline {pipeline.name!r}: {', '.join(wrong)}; its inputs are {names}")
    return {name: _shape(i, shapes[name]) for name, i in inputs.items()}


def _shape(i: Input, given: Sequence[int]) -> tuple[int, ...]:
    try:
        shape = tuple(operator.index(n) for n in given)
    except TypeError:
        raise InputError(f"the shape of input {i.name!r} is {given!r}: give a tuple of integers") from None
    if len(shape) != i.ndim:
        raise InputError(f"input {i.name!r} needs {i.ndim} dimensions ({', '.join(i.dims)}), got shape {shape}")
    total = i.dtype.bytes_
    for n in shape:
        total *= max(n, 1)  # the limit holds for empty arrays as well
    if any(n < 0 for n in shape):
        raise InputError(f"input {i.name!r} has impossible shape {shape}: extents must not be negative")
    if total >= MOST_BYTES:
        raise InputError(f"input {i.name!r} has impossible shape {shape}: arrays must have less than 2**62 bytes")
    return shape


def checked_params(pipeline: Pipeline, params: Mapping[str, Scalar]) -> dict[str, Scalar]:
    """Return the values of the parameters on which the pipeline is specialised.

    Raises:
        InputError: If a parameter is unknown, a required one has no value, or a value does not fit its type.
    """
    declared = {p.name: p for p in pipeline.params}
    unknown = set(params) - set(declared)
    if unknown:
        raise InputError(
            f"pipeline {pipeline.name!r} has no parameter {', '.join(map(repr, sorted(unknown)))}; "
            f"it has {', '.join(declared) or 'none'}"
        )
    values = {name: _scalar(declared[name], value) for name, value in params.items()}
    result: dict[str, Scalar] = {}
    for p in specialised_params(pipeline):
        value = values.get(p.name, p.default)
        if value is None:
            raise InputError(f"parameter {p.name!r} reaches an index or a domain, so its value is needed here")
        result[p.name] = value
    return result


def _scalar(p: Param, value: Any) -> Scalar:
    number = value.item() if hasattr(value, "item") else value
    if not isinstance(number, bool | int | float):
        raise InputError(f"parameter {p.name!r} of type {p.dtype} cannot be {value!r}: give a number")
    if not p.dtype.is_float and isinstance(number, float) and number.is_integer():
        number = int(number)
    if not p.dtype.holds(number):
        raise InputError(f"parameter {p.name!r} of type {p.dtype} cannot be {value!r}")
    return float(number) if p.dtype.is_float else bool(number) if p.dtype.kind == "b" else int(number)
