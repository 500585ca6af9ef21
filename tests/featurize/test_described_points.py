"""Points of a schedule's threads beyond the required regions; code iterates over them."""

from __future__ import annotations

import numpy as np

from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.featurize.featurizer import Featurizer, SketchFeaturizer
from autosched.featurize.schema import INDEX
from autosched.featurize.sketch.sketch_from_kernel import describe_kernel, described_points
from autosched.schedule.types import Level
from tests.featurize.random_kernels import H200, bound_app, states_of


def member_model(bound: BoundPipeline) -> tuple[SketchFeaturizer, tuple[int, ...], tuple[int, ...]]:
    """Return a kernel with block-level producers, its tile sizes, and the points of the producers' threads."""
    featurizer, states = Featurizer(bound, H200), states_of(bound)
    for seed in range(20):
        drawn = states.draw_legal(np.random.default_rng(seed))
        for kernel in drawn[1].kernels if drawn is not None else ():
            if any(m.at.level is Level.BLOCK for m in kernel.fused):
                sketch, params = describe_kernel(bound, kernel)
                return featurizer.model(sketch), params, described_points(bound, kernel)
    raise AssertionError("no kernel with a BLOCK Member among 20 random schedules")


def test_points_of_a_search_do_not_change_features() -> None:
    model, params, points = member_model(bound_app("unsharp"))
    assert len(points) == model.layout.count - model.layout.root_serial.stop
    alone, told = (model.evaluate(np.array([p], np.int64)).features for p in (params, (*params, *points)))
    same = [k for name, k in INDEX.items() if name != "index_instructions_per_block"]
    np.testing.assert_array_equal(alone[:, :, same], told[:, :, same])


def test_additional_points_cost_instructions_but_no_traffic() -> None:
    model, params, points = member_model(bound_app("unsharp"))
    more = tuple(4 * n for n in points)
    few, many = (model.evaluate(np.array([(*params, *p)], np.int64)).features[0].sum(axis=0) for p in (points, more))
    assert many[INDEX["index_instructions_per_block"]] > few[INDEX["index_instructions_per_block"]]
    for name in ("global_bytes_written_by_kernel", "num_global_mem_stores_per_block", "shared_bytes_at_task"):
        assert many[INDEX[name]] == few[INDEX[name]], name
