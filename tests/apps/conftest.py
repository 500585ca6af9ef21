"""Golden data, and runners of pipelines for comparison."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import autosched
from autosched.apps import App, get_app
from autosched.apps.tolerance import EXACT, Tolerance
from autosched.lang.expr import Scalar
from autosched.lang.pipeline import Pipeline
from autosched.reference import interpret
from autosched.runtime.backends.executable import Backend

GOLDEN = Path(__file__).parents[1] / "data" / "golden"

WITNESSES = ("interpreter", "c", "emulator")
Arrays = dict[str, NDArray[Any]]
Witness = Callable[[Pipeline, Arrays, Mapping[str, Scalar]], Arrays]


@dataclass(frozen=True)
class GoldenCase:
    """One set of inputs with the outputs of Halide, NumPy or PyTorch; names as in the pipeline."""

    app: App
    suffix: str
    inputs: Arrays
    outputs: Arrays
    params: dict[str, Any]
    tolerance: dict[str, Tolerance]


def load_golden(name: str, suffix: str) -> GoldenCase:
    """Return a set: ``out_output_wrap`` belongs to the set "_wrap", and so does ``in_input_wrap`` if there is one."""
    app = get_app(name)
    pipeline = app.build()
    with np.load(GOLDEN / f"{name}.npz") as file:
        meta = json.loads(str(file["meta"]))
        keys = {i.name: f"in_{i.name}{suffix}" for i in pipeline.inputs}
        inputs = {k: file[key if key in file.files else f"in_{k}"] for k, key in keys.items()}
        outputs = {k: file[f"out_{k}{suffix}"] for k in pipeline.output_names}
    tolerance = {k: _tolerance(meta["tolerance_outputs"].get(k + suffix, meta["tolerance"])) for k in outputs}
    return GoldenCase(app, suffix, inputs, outputs, meta["params"], tolerance)


def _tolerance(given: dict[str, Any]) -> Tolerance:
    return EXACT if given.get("exact") else Tolerance(**given)


def _compiled(backend: Backend, target: str) -> Witness:
    def run(pipeline: Pipeline, inputs: Arrays, params: Mapping[str, Scalar]) -> Arrays:
        shapes = {k: a.shape for k, a in inputs.items()}
        kernel = autosched.schedule(pipeline, shapes, target, params, strategy="roots").compile(backend)
        result = kernel(inputs)
        names = pipeline.output_names
        return dict(zip(names, [result] if len(names) == 1 else result, strict=True))

    return run


@pytest.fixture(params=[interpret, _compiled("cpu", "cpu"), _compiled("emulator", "h200")], ids=WITNESSES)
def witness(request: pytest.FixtureRequest) -> Witness:
    """Runs a pipeline on arrays and returns its outputs by name."""
    run: Witness = request.param
    return run


@pytest.fixture(scope="session")
def golden() -> Callable[[str, str], GoldenCase]:
    """Loads a golden set by application and suffix."""
    return load_golden
