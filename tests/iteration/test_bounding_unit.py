"""The resource that bounds fused steps is the class of their kernels."""

from __future__ import annotations

import pytest

import autosched
from autosched import ScheduledPipeline
from autosched.apps import get_app
from autosched.iteration.bounding_unit import bounding_unit
from tests.search.bottleneck.kernels import feature_diagnoses, polynomial


def smoother(target: str, size: int = 256, sweeps: int = 1) -> ScheduledPipeline:
    return autosched.schedule(get_app("smoother7pt").build(T=sweeps), {"in": (size,) * 3}, target, strategy="roots")


@pytest.mark.parametrize(("target", "levels"), [("h200", {"DRAM"}), ("cpu", {"memory", "the last-level cache"})])
@pytest.mark.parametrize("sweeps", [1, 3])
def test_large_stencils_are_bound_by_memory(target: str, levels: set[str], sweeps: int) -> None:
    scheduled = smoother(target, sweeps=sweeps)
    unit, is_memory = bounding_unit(scheduled)
    assert unit in levels and is_memory, "on a CPU by the size of its last-level cache"
    assert all(d.bottleneck.is_bound_by_memory for d in feature_diagnoses(scheduled).values())


@pytest.mark.parametrize("target", ["h200", "cpu"])
def test_many_operations_bound_by_computation(target: str) -> None:
    scheduled = autosched.schedule(polynomial(320), {"image": (4096, 4096)}, target, strategy="roots")
    assert bounding_unit(scheduled) == ("computation", False)


def test_small_grids_are_bound_by_latency() -> None:
    assert bounding_unit(smoother("h200", 16)) == ("latency", False)
