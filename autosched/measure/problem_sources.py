"""Where problems come from: suite apps and random pipelines, looked up by name, and pipelines written out.

The first two stand above measuring and may import it; so they are named here, and loaded when a problem is opened.
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
from autosched.lang.expr import Scalar
from autosched.lang.serialise import from_data, to_data
from autosched.runtime.call.signature import CallSignature
from autosched.schedule.io.strict_json import Node
from autosched.schedule.io.typed_json import read_as

Arrays = Mapping[str, NDArray[Any]]
Setting = bool | int | float | tuple[float, ...]

USUAL_TOLERANCE = {"rtol": 1e-2, "atol": 1e-3, "bad_fraction": 0.02}
"""How far two ways of running a pipeline of which nothing is known may differ where results are not exact: rounding may
flip a threshold or an index somewhere in it."""
LARGEST_INTEGER = 255
"""Made-up integers lie between 0 and this, as those of images do; larger ones overflow in sums and products."""


@dataclass(frozen=True)
class OpenedProblem:
    """A problem's pipeline with all that is needed to run it and to judge its results.

    Attributes:
        bound: The pipeline with its shapes.
        scalars: Value of each run-time parameter.
        make_inputs: Returns an array for each input from a seed.
        mismatch: Returns what differs too much between a result and the expected one, or None; given both and whether
            the two ways of running are meant to give the same bits.
    """

    bound: BoundPipeline
    scalars: Mapping[str, Scalar]
    make_inputs: Callable[[int], Arrays]
    mismatch: Callable[[NDArray[Any], NDArray[Any], bool], str | None]


@dataclass(frozen=True)
class AppArguments:
    """What identifies a suite app, as a problem's text has it."""

    name: str
    sizes: Mapping[str, int]
    params: Mapping[str, bool | int | float | tuple[float, ...]]


@dataclass(frozen=True)
class RandomArguments:
    """What identifies a random pipeline; its settings check themselves when they are opened."""

    seed: int
    settings: Mapping[str, object]

    def __post_init__(self) -> None:
        if self.seed < 0:
            raise InputError(f"seed is {self.seed}: give at least 0")


@dataclass(frozen=True)
class PipelineArguments:
    """What identifies a pipeline that is written out; the pipeline checks itself by its hash."""

    pipeline: Mapping[str, object]
    shapes: Mapping[str, tuple[int, ...]]
    params: Mapping[str, bool | int | float]


def app_arguments(
    name: str, sizes: Mapping[str, int] | None, params: Mapping[str, Setting] | None, *, small: bool
) -> dict[str, Any]:
    """Return what identifies a suite app with sizes and parameters; sizes left out have their defaults.

    Raises:
        InputError: If there is no such app, size or parameter.
    """
    app = _registry().get_app(name)
    given = {**(app.small_sizes if small else {}), **(sizes or {})}
    app.configure(params)  # refuses what does not fit
    return {"name": name, "sizes": app.sizes(given), "params": dict(params or {})}


def random_arguments(seed: int, settings: Any) -> dict[str, Any]:
    """Return what identifies a random pipeline; ``settings`` is a ``RandomPipelineSettings`` or None."""
    chosen = settings if settings is not None else _random_pipelines().RandomPipelineSettings()
    return {"seed": seed, "settings": dataclasses.asdict(chosen)}


def pipeline_arguments(bound: BoundPipeline, params: Mapping[str, Scalar]) -> dict[str, Any]:
    """Return what identifies a bound pipeline: all of it, with shapes and the value of each parameter.

    Args:
        bound: The pipeline.
        params: Values of run-time parameters; those left out have their default, or 1.
    """
    scalars = {p.name: 1 if p.default is None else p.default for p in bound.scalars}
    scalars |= {name: value for name, value in params.items() if name in scalars}
    shapes = {name: list(i.shape) for name, i in bound.inputs.items()}
    return {"pipeline": to_data(bound.pipeline), "shapes": shapes, "params": {**scalars, **bound.specialised}}


def open_app(arguments: Mapping[str, Any]) -> OpenedProblem:
    """Return a suite app, ready to be run.

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
    """Return a random pipeline, ready to be run.

    Raises:
        InputError: If its settings do not fit, or it has no pipeline within their limits.
    """
    package = _random_pipelines()
    given = Node(arguments["settings"], "settings", "a random pipeline", InputError)
    settings: Any = read_as(given, package.RandomPipelineSettings)
    found = package.random_pipeline(arguments["seed"], settings)
    bound = found.bind()
    return OpenedProblem(
        bound,
        _scalars(bound, found.params),
        lambda seed: found.inputs(np.random.default_rng(seed)),
        _judge(bound, _usual_tolerance()),
    )


def open_pipeline(arguments: Mapping[str, Any]) -> OpenedProblem:
    """Return a pipeline that was written out, ready to be run on made-up inputs.

    Raises:
        InputError: If it was written by another version, or changed.
    """
    params = arguments["params"]
    bound = bind(from_data(arguments["pipeline"]), arguments["shapes"], params)
    return OpenedProblem(
        bound,
        _scalars(bound, params),
        lambda seed: _made_up(bound, np.random.default_rng(seed)),
        _judge(bound, _usual_tolerance()),
    )


def _made_up(bound: BoundPipeline, rng: np.random.Generator) -> dict[str, NDArray[Any]]:
    """Return arrays with floats between 0 and 1, and integers between 0 and 255."""
    found: dict[str, NDArray[Any]] = {}
    for name, i in bound.inputs.items():
        dtype = i.dtype.numpy
        if i.dtype.is_float:
            found[name] = rng.random(i.shape).astype(dtype)
        else:
            high = 1 if dtype.kind == "b" else min(i.dtype.max_value, LARGEST_INTEGER)
            found[name] = rng.integers(0, high, i.shape, endpoint=True).astype(dtype)
    return found


def _usual_tolerance() -> Any:
    return importlib.import_module("autosched.apps.tolerance").Tolerance(**USUAL_TOLERANCE)


def _scalars(bound: BoundPipeline, params: Mapping[str, Scalar]) -> dict[str, Scalar]:
    """Return the run-time parameters' values as the kernels take them."""
    return {name: value.item() for name, value in CallSignature.of(bound, params).defaults.items()}


def _judge(bound: BoundPipeline, tolerance: Any) -> Callable[[NDArray[Any], NDArray[Any], bool], str | None]:
    disagreement = importlib.import_module("autosched.apps.agreement").disagreement

    def mismatch(got: NDArray[Any], expected: NDArray[Any], same_bits: bool) -> str | None:
        if same_bits:
            found: str | None = disagreement(bound.pipeline, tolerance, got, expected)
        elif got.dtype.kind == "f":
            found = _loosened(tolerance).mismatch(got, expected)
        else:
            found = tolerance.mismatch(got, expected)
        return found

    return mismatch


def _loosened(tolerance: Any) -> Any:
    """Return a tolerance that allows at least what contracted products and reordered sums of float32 differ by."""
    return dataclasses.replace(tolerance, rtol=max(tolerance.rtol, 1e-4), atol=max(tolerance.atol, 1e-5))


def _registry() -> Any:
    return importlib.import_module("autosched.apps.registry")


def _random_pipelines() -> Any:
    return importlib.import_module("autosched.random_pipelines")
