"""Checks of the caller's arrays and parameter values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from autosched.errors import InputError
from autosched.lang.expr import Param, Scalar
from autosched.lang.func import Func, Input
from autosched.lang.pipeline import Pipeline
from autosched.reference.buffers import Array, ReferenceBuffer
from autosched.reference.program import Bindings


def bind_arguments(
    pipeline: Pipeline, inputs: Mapping[str, Array], params: Mapping[str, Scalar]
) -> tuple[Bindings, dict[Func | Input, ReferenceBuffer]]:
    """Return shapes and parameter values by name, and the inputs' buffers.

    Raises:
        InputError: If an argument is missing, unknown or of the wrong type.
    """
    _check_names("input", [i.name for i in pipeline.inputs], inputs, required=[i.name for i in pipeline.inputs])
    required = [p.name for p in pipeline.params if p.default is None]
    _check_names("parameter", [p.name for p in pipeline.params], params, required)
    buffers: dict[Func | Input, ReferenceBuffer] = {}
    for i in pipeline.inputs:
        array = _checked(i, inputs[i.name])
        buffers[i] = ReferenceBuffer((0,) * i.ndim, (array,))
    shapes = {i.name: buffers[i].arrays[0].shape for i in pipeline.inputs}
    values = {p.name: _param_value(p, params.get(p.name, p.default)) for p in pipeline.params}
    return Bindings(shapes, values), buffers


def _check_names(what: str, known: list[str], given: Mapping[str, object], required: list[str]) -> None:
    missing, unknown = set(required) - set(given), set(given) - set(known)
    if missing:
        raise InputError(f"{what} {', '.join(sorted(missing))} is missing")
    if unknown:
        names = ", ".join(known) or "none"
        raise InputError(f"there is no {what} {', '.join(sorted(unknown))}; the pipeline has: {names}")


def _checked(i: Input, value: Any) -> Array:
    if not isinstance(value, np.ndarray):
        raise InputError(f"input {i.name!r} is of type {type(value).__name__}; pass a NumPy array")
    if value.dtype != i.dtype.numpy:
        raise InputError(
            f"input {i.name!r} has element type {value.dtype}, not {i.dtype}; convert it with .astype({str(i.dtype)!r})"
        )
    if value.ndim != i.ndim:
        raise InputError(f"input {i.name!r} has {value.ndim} dimensions, not {i.ndim}")
    return np.asarray(value, order="C")


def _param_value(p: Param, value: Any) -> Any:
    """Return the value as a NumPy scalar of the parameter's type; integers convert if that is exact."""
    if isinstance(value, bool | np.bool_):
        accepted = p.dtype.kind == "b"
    elif isinstance(value, int | np.integer):
        accepted = p.dtype.is_float or (p.dtype.is_int and p.dtype.min_value <= int(value) <= p.dtype.max_value)
    else:
        accepted = p.dtype.is_float and (isinstance(value, float | np.floating) or type(value) is p.dtype.numpy.type)
    if not accepted:
        raise InputError(f"parameter {p.name!r} of type {p.dtype} cannot be {value!r}")
    return p.dtype.scalar(value)
