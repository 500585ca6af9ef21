"""Golden data, and the ways to run a pipeline that it is compared with."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from autosched.apps.tolerance import EXACT, Tolerance
from autosched.lang.expr import Scalar
from autosched.lang.pipeline import Pipeline
from autosched.reference import interpret

GOLDEN = Path(__file__).parents[1] / "data" / "golden"

Arrays = dict[str, NDArray[Any]]
Witness = Callable[[Pipeline, Arrays, Mapping[str, Scalar]], Arrays]


@dataclass(frozen=True)
class GoldenCase:
    """One set of inputs with the outputs that Halide and NumPy agree on; names as in the pipeline."""

    app: str
    suffix: str
    inputs: Arrays
    outputs: Arrays
    params: dict[str, Any]
    tolerance: dict[str, Tolerance]


def load_golden(app: str, suffix: str) -> GoldenCase:
    with np.load(GOLDEN / f"{app}.npz") as file:
        meta = json.loads(str(file["meta"]))
        inputs = {_plain(k, "in_", suffix): file[k] for k in _keys(file.files, "in_", suffix)}
        outputs = {_plain(k, "out_", suffix): file[k] for k in _keys(file.files, "out_", suffix)}
    tolerance = {name: _tolerance(meta["tolerance_outputs"].get(name + suffix, meta["tolerance"])) for name in outputs}
    return GoldenCase(app, suffix, inputs, outputs, meta["params"], tolerance)


def _keys(names: list[str], prefix: str, suffix: str) -> list[str]:
    stems = [n for n in names if n.startswith(prefix)]
    # "in_input_wrap" belongs to the set "_wrap" because there is an "in_input" beside it.
    marked = {n for n in stems for other in stems if n != other and n.startswith(f"{other}_")}
    return [n for n in stems if (n in marked and n.endswith(suffix) if suffix else n not in marked)]


def _plain(key: str, prefix: str, suffix: str) -> str:
    return key.removeprefix(prefix).removesuffix(suffix)


def _tolerance(given: dict[str, Any]) -> Tolerance:
    return EXACT if given.get("exact") else Tolerance(**given)


@pytest.fixture(params=[interpret], ids=["interpreter"])
def witness(request: pytest.FixtureRequest) -> Witness:
    """Runs a pipeline on arrays and returns its outputs by name."""
    run: Witness = request.param
    return run


@pytest.fixture(scope="session")
def golden() -> Callable[[str, str], GoldenCase]:
    """Loads a golden set by application and suffix."""
    return load_golden
