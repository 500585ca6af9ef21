"""Network inputs of a kernel on a CPU: those of the longest nest, and means."""

from __future__ import annotations

import numpy as np
import pytest

from autosched.featurize.sketch.sketch import ComputeLocation
from autosched.lang.func import Func
from autosched.model.predict.analytical_prior import prior_for
from autosched.schedule.types import Level, StageId
from autosched.search.cost.cpu.coefficients import CPU_COMPONENTS
from autosched.search.cost.cpu.lane_loops import LaneLoops
from autosched.search.cost.cpu.model_features import CPU_INPUTS, cpu_inputs
from tests.model.test_analytical_prior import evaluated
from tests.search.cpu_cases import CPU, IMAGE, rows_of, x, y

START = np.array([0])


def two_nests() -> LaneLoops:
    """Return the nests of a kernel with 32 lanes in its root and 8 in its fused producer."""
    g, f = Func("g"), Func("f")
    g[y, x] = IMAGE[y, x] * 2 + 1
    f[y, x] = g[y, x] + 1
    return rows_of(f, 4, 32, 1, 1, 4, 8, locations=(ComputeLocation("g", Level.BLOCK, StageId("f")),))


def inputs_of(rows: LaneLoops, *seconds: float) -> dict[str, float]:
    found = cpu_inputs(rows, START, np.array(seconds))
    return dict(zip(CPU_INPUTS, found[0].tolist(), strict=True))


def test_inputs_of_the_longest_nest() -> None:
    rows = two_nests()
    assert rows.lanes.tolist() == [32, 8]
    assert inputs_of(rows, 3e-6, 1e-6)["longest_lanes"] == 32
    assert inputs_of(rows, 1e-6, 3e-6)["longest_lanes"] == 8


def test_means_are_weighted_by_time() -> None:
    found = inputs_of(two_nests(), 3e-6, 1e-6)
    assert found["mean_lanes"] == pytest.approx((3 * 32 + 8) / 4, rel=1e-5)
    assert found["share_of_longest"] == pytest.approx(3 / 4, rel=1e-5)
    assert found["nests"] == 2


def test_mean_without_time() -> None:
    assert inputs_of(two_nests(), 0.0, 0.0)["mean_lanes"] == 20


def test_position_among_the_parts() -> None:
    found, prior = evaluated(CPU), prior_for(CPU)
    parts = prior.parts(found)
    inputs = parts[:, len(CPU_COMPONENTS) : -1]
    assert prior.names[len(CPU_COMPONENTS) : -1] == CPU_INPUTS
    assert prior.corrected == len(CPU_COMPONENTS)
    assert (inputs >= 1).all()  # 1 + x
    lanes = inputs[:, CPU_INPUTS.index("longest_lanes")] - 1
    assert set(lanes.tolist()) <= set(found.geometry.nests.active.reshape(-1).tolist()) | {1.0}
