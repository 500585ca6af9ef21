"""Stages inside applications against the intermediate arrays of the golden data."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from autosched.apps import get_app
from autosched.apps.tolerance import EXACT, Tolerance
from autosched.lang.pipeline import Pipeline

GOLDEN = Path(__file__).parents[1] / "data" / "golden"


@pytest.mark.parametrize(
    ("app", "stages", "stored", "tolerance"),
    [
        ("camera_pipe", ["curve"], "curve", Tolerance(atol=1, bad_fraction=0.002)),  # powers may differ in the last bit
        ("camera_pipe", ["red", "green", "blue"], "demosaiced", EXACT),
        ("lens_blur", ["depth"], "depth", Tolerance(bad_fraction=0.005)),  # two depths may be almost equally likely
    ],
)
def test_stage(app: str, stages: list[str], stored: str, tolerance: Tolerance, witness: Any, golden: Any) -> None:
    with np.load(GOLDEN / f"{app}.npz") as file:
        expected = file[f"aux_{stored}"]
    whole = get_app(app).build()
    outputs = []
    for name in stages:
        stage = whole.func(name)
        box = zip(stage.dims, expected.shape[-stage.ndim :], strict=True)
        outputs.append(stage.over(**{dim: (0, extent) for dim, extent in box}))
    pipeline = Pipeline(outputs, name=stored)
    inputs = {i.name: golden(app, "").inputs[i.name] for i in pipeline.inputs}
    got = list(witness(pipeline, inputs, {}).values())
    problem = tolerance.mismatch(np.reshape(got, expected.shape).astype(expected.dtype), expected)
    assert problem is None, problem
