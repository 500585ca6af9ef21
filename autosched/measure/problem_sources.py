"""Sources of problems: suite apps and random pipelines by name, and serialised pipelines.

Apps and random pipelines may import this package, so their modules are loaded when a problem is opened.
"""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from autosched.analysis.bind import bind
from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.errors import InputError
from autosched.lang.dtypes import is_float_dtype
from autosched.lang.expr import Scalar
from autosched.lang.serialise import from_data, to_data
from autosched.runtime.call.signature import CallSignature
from autosched.schedule.io.strict_json import Node
from autosched.schedule.io.typed_json import read_as

Arrays = Mapping[str, NDArray[Any]]
Setting = bool | int | float | str | tuple[float, ...]

USUAL_TOLERANCE = {"rtol": 1e-2, "atol": 1e-3, "bad_fraction": 0.02}
"""Default tolerance between two inexact results of any pipeline, in which rounding may flip a threshold or an index."""
LARGEST_INTEGER = 255
"""Largest synthetic integer, as in images; larger ones overflow in sums and products."""


@dataclass(frozen=True)
class OpenedProblem:
    """A problem's pipeline with its inputs and the check of its results.

    Attributes:
        bound: The pipeline with its shapes.
        scalars: Value of each run-time parameter.
        make_inputs: Makes an array for each input from a seed.
        mismatch: Returns a description of a mismatch, or None. Its arguments are a result, the expected result, and
            whether both must be bit-identical.
    """

    bound: BoundPipeline
    scalars: Mapping[str, Scalar]
    make_inputs: Callable[[int], Arrays]
    mismatch: Callable[[NDArray[Any], NDArray[Any], bool], str | None]


@dataclass(frozen=True)
class AppArguments:
    """Identity of a suite app in a problem's text."""

    name: str
    sizes: Mapping[str, int]
    params: Mapping[str, bool | int | float | tuple[float, ...]]


@dataclass(frozen=True)
class RandomArguments:
    """Identity of a random pipeline; its settings and its family are checked when it is opened."""

    seed: int
    settings: Mapping[str, object]
    family: str = ""

    def __post_init__(self) -> None:
        if self.seed < 0:
            raise InputError(f"seed is {self.seed}: give at least 0")


@dataclass(frozen=True)
class PipelineArguments:
    """A serialised pipeline, which is verified by its hash."""

    pipeline: Mapping[str, object]
    shapes: Mapping[str, tuple[int, ...]]
    params: Mapping[str, bool | int | float]


def app_arguments(
    name: str, sizes: Mapping[str, int] | None, params: Mapping[str, Setting] | None, *, small: bool
) -> dict[str, Any]:
    """Return the identity of a suite app with sizes and parameters; missing sizes have their defaults.

    Raises:
        InputError: If there is no such app, size or parameter.
    """
    app = _registry().get_app(name)
    all_sizes = {**(app.small_sizes if small else {}), **(sizes or {})}
    app.configure(params)  # checks names and values
    return {"name": name, "sizes": app.sizes(all_sizes), "params": dict(params or {})}


def random_arguments(seed: int, settings: Any) -> dict[str, Any]:
    """Return the identity of a random pipeline; ``settings`` is a ``RandomPipelineSettings`` or None."""
    package = _random_pipelines()
    chosen = settings if settings is not None else package.RandomPipelineSettings()
    values = dataclasses.asdict(chosen)
    if values["families"]:
        return {"seed": seed, "settings": values, "family": package.family_of_seed(seed, chosen)}
    del values["families"]  # the texts of stored labels have none
    return {"seed": seed, "settings": values}


def pipeline_arguments(bound: BoundPipeline, params: Mapping[str, Scalar]) -> dict[str, Any]:
    """Return a bound pipeline serialised with shapes and the value of each parameter.

    Args:
        bound: The pipeline.
        params: Values of run-time parameters; missing ones have their default, or 1.
    """
    scalars = {p.name: 1 if p.default is None else p.default for p in bound.scalars}
    scalars |= {name: value for name, value in params.items() if name in scalars}
    shapes = {name: list(i.shape) for name, i in bound.inputs.items()}
    return {"pipeline": to_data(bound.pipeline), "shapes": shapes, "params": {**scalars, **bound.specialised}}


def open_app(arguments: Mapping[str, Any]) -> OpenedProblem:
    """Open a suite app.

    Raises:
        InputError: If there is no such app, size or parameter.
    """
    app = _registry().get_app(arguments["name"])
    values = {k: tuple(v) if isinstance(v, list) else v for k, v in arguments["params"].items()}
    pipeline, params = app.configure(values)
    bound = bind(pipeline, app.shapes(arguments["sizes"]), params)
    return OpenedProblem(
        bound,
        _scalars(bound, params),
        lambda seed: app.make_inputs(arguments["sizes"], seed),
        _judge(bound, app.tolerance),
    )


def open_random(arguments: Mapping[str, Any]) -> OpenedProblem:
    """Open a random pipeline.

    Raises:
        InputError: If its settings do not fit, it is of another family than it states, or it has no pipeline within
            their limits.
    """
    package = _random_pipelines()
    node = Node(arguments["settings"], "settings", "a random pipeline", InputError)
    settings: Any = read_as(node, package.RandomPipelineSettings)
    stated, family = arguments.get("family", ""), package.family_of_seed(arguments["seed"], settings)
    if stated != family:
        raise InputError(
            f"random pipeline {arguments['seed']} is of the family {family or 'none'!r} by its settings, but its text "
            f"states {stated or 'none'!r}: measure it anew with this release"
        )
    drawn = package.random_pipeline(arguments["seed"], settings)
    bound = drawn.bind()
    return OpenedProblem(
        bound,
        _scalars(bound, drawn.params),
        lambda seed: drawn.inputs(np.random.default_rng(seed)),
        _judge(bound, _usual_tolerance()),
    )


def open_pipeline(arguments: Mapping[str, Any]) -> OpenedProblem:
    """Open a serialised pipeline with synthetic inputs.

    Raises:
        InputError: If it is of another version, or modified.
    """
    params = arguments["params"]
    bound = bind(from_data(arguments["pipeline"]), arguments["shapes"], params)
    return OpenedProblem(
        bound,
        _scalars(bound, params),
        lambda seed: _synthetic_inputs(bound, np.random.default_rng(seed)),
        _judge(bound, _usual_tolerance()),
    )


def _synthetic_inputs(bound: BoundPipeline, rng: np.random.Generator) -> dict[str, NDArray[Any]]:
    """Return arrays with floats between 0 and 1, and integers between 0 and 255."""
    arrays: dict[str, NDArray[Any]] = {}
    for name, i in bound.inputs.items():
        dtype = i.dtype.numpy
        if i.dtype.is_float:
            arrays[name] = rng.random(i.shape).astype(dtype)
        else:
            high = 1 if dtype.kind == "b" else min(i.dtype.max_value, LARGEST_INTEGER)
            arrays[name] = rng.integers(0, high, i.shape, endpoint=True).astype(dtype)
    return arrays


def _usual_tolerance() -> Any:
    return importlib.import_module("autosched.apps.tolerance").Tolerance(**USUAL_TOLERANCE)


def _scalars(bound: BoundPipeline, params: Mapping[str, Scalar]) -> dict[str, Scalar]:
    """Return the run-time parameters' values in the kernels' argument types."""
    return {name: value.item() for name, value in CallSignature.of(bound, params).defaults.items()}


def _judge(bound: BoundPipeline, tolerance: Any) -> Callable[[NDArray[Any], NDArray[Any], bool], str | None]:
    disagreement = importlib.import_module("autosched.apps.agreement").disagreement

    def mismatch(got: NDArray[Any], expected: NDArray[Any], same_bits: bool) -> str | None:
        if same_bits:
            difference: str | None = disagreement(bound.pipeline, tolerance, got, expected)
        elif is_float_dtype(got.dtype):
            difference = _loosened(tolerance).mismatch(got, expected)
        else:
            difference = tolerance.mismatch(got, expected)
        return difference

    return mismatch


def _loosened(tolerance: Any) -> Any:
    """Return a tolerance that covers contracted products and reordered sums of float32."""
    return dataclasses.replace(tolerance, rtol=max(tolerance.rtol, 1e-4), atol=max(tolerance.atol, 1e-5))


def _registry() -> Any:
    return importlib.import_module("autosched.apps.registry")


def _random_pipelines() -> Any:
    return importlib.import_module("autosched.random_pipelines")
