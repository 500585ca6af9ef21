"""A program: Python text that defines a pipeline, the shapes of its inputs and the values of its parameters."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

import numpy as np

import autosched as au
from autosched.lang.dtypes import DType
from autosched.lang.expr import Scalar
from autosched.lang.pipeline import Pipeline

Array = np.ndarray[Any, Any]

HEADER = """\
import autosched as au
from autosched import Func, Input, Param, Pipeline, RDom, Var
"""
"""Imports of every program."""

SPECIAL_FLOATS = (np.nan, np.inf, -np.inf, -0.0, 0.0, -0.0, 1e-45, 65520.0, -3.4e38, 2.0**31, 0.5, -0.5, 2.5, 255.5)
SPECIAL_SHARE = 0.25
VALUES = ("special", "usual", "zeros")
"""Kinds of input values: one in four an extreme of its type, moderate numbers, or signed zeros and NaN."""


@dataclass(frozen=True)
class Program:
    """A program and the values of its inputs.

    Attributes:
        text: Statements that define ``pipeline``, ``shapes`` and ``params``.
        number: Number of the program, seed of its inputs' values.
        values: Kind of these values, one of `VALUES`.
    """

    text: str
    number: int
    values: str = "special"


@dataclass(frozen=True)
class Built:
    """Definitions of a program.

    Attributes:
        pipeline: The pipeline.
        shapes: Shape of each of its inputs.
        params: Value of each of its parameters.
        inputs: An array for each input.
    """

    pipeline: Pipeline
    shapes: dict[str, tuple[int, ...]]
    params: dict[str, Scalar]
    inputs: dict[str, Array]


def language() -> dict[str, Any]:
    """Return the global names of every program."""
    names = ("Func", "Input", "Param", "Pipeline", "RDom", "Var")
    return {"au": au, **{name: getattr(au, name) for name in names}}


def build(program: Program) -> Built:
    """Execute the text of a program.

    Raises:
        AutoschedError: If the language refuses it.
    """
    names = language()
    exec(compile(program.text, "<program>", "exec"), names)
    pipeline: Pipeline = names["pipeline"]
    shapes = {i.name: tuple(names["shapes"][i.name]) for i in pipeline.inputs}
    params = {p.name: names["params"][p.name] for p in pipeline.params}
    inputs = {i.name: input_array(program, i.name, i.dtype, shapes[i.name]) for i in pipeline.inputs}
    return Built(pipeline, shapes, params, inputs)


def input_array(program: Program, name: str, dtype: DType, shape: tuple[int, ...]) -> Array:
    """Return the values of an input, which depend only on the program's number and the input's name."""
    digest = hashlib.sha256(f"{program.number} {name}".encode()).digest()
    rng = np.random.default_rng(int.from_bytes(digest[:8], "little"))
    kind = dtype.numpy
    if dtype.kind == "b":
        return rng.integers(0, 2, shape).astype(kind)
    with np.errstate(over="ignore"):
        if program.values == "zeros":
            corners = np.array((0.0, -0.0, np.nan, -1.0) if dtype.is_float else (0, 1)).astype(kind)
            return np.array(rng.choice(corners, shape, p=None if not dtype.is_float else (0.4, 0.4, 0.1, 0.1)), kind)
        if dtype.is_float:
            values = np.asarray(rng.normal(0, 20, shape)).astype(kind)
            corners = np.array(SPECIAL_FLOATS).astype(kind)
        else:
            low, high = (-40, 41) if dtype.kind == "i" else (0, 81)
            values = rng.integers(low, high, shape).astype(kind)
            corners = np.array([dtype.min_value, dtype.max_value, 0, 1, dtype.max_value // 2 + 1], kind)
    if program.values == "special":
        values = np.where(rng.random(shape) < SPECIAL_SHARE, rng.choice(corners, shape), values)
    return np.array(values, kind, order="C")  # ascontiguousarray turns a scalar into a one-dimensional array
