"""The analytical timing model of GPUs: its parts, and its order of schedules measured on an H200."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import spearmanr

from autosched.featurize import schema
from autosched.featurize.featurizer import Featurizer
from autosched.measure.store.labels import open_labels
from autosched.model.data.samples import Sample, by_problem
from autosched.model.data.samples_from_measurements import samples_from
from autosched.schedule.io.serialise import from_json
from autosched.schedule.rewrites import apply_rewrites
from autosched.search.cost.gpu_analytical import COMPONENTS, READS, AnalyticalModel
from autosched.search.refine.mainloop.step_cost import evaluated
from autosched.target import get_target

H200 = get_target("h200")
MODEL = AnalyticalModel(H200)
LABELS = Path(__file__).parents[2] / "docs/results/data/h200-labels.parquet"
Floats = NDArray[np.float64]


def block_of(stages: int = 2) -> Floats:
    """Return the features of a kernel of 1,000 blocks of eight warps, whose stages share all work equally."""
    features = np.zeros((1, stages, schema.COUNT))
    for name, value in {
        "num_blocks": 1000, "num_warps_per_block": 8, "num_active_warps_per_block": 8, "resident_blocks": 4,
        "warp_lane_utilization": 1, "float_instructions_per_block": 3000, "steps_per_block": stages,
    }.items():  # fmt: skip
        features[:, :, schema.INDEX[name]] = value
    return features


def part(features: Floats, name: str) -> float:
    return float(MODEL.components(features)[0, COMPONENTS.index(name)])


def test_stage_of_one_warp_delays_the_block() -> None:
    evenly, alone = block_of(), block_of()
    alone[:, 1, schema.INDEX["num_active_warps_per_block"]] = 1
    # Two stages, one of which takes eight times as long as before; no unit has more to do.
    assert part(alone, "stages") == pytest.approx(part(evenly, "stages") * (1 + 8) / 2)
    for name in set(COMPONENTS) - {"stages"}:
        assert part(alone, name) == part(evenly, name)
    cost = MODEL.combined(MODEL.components(np.concatenate([evenly, alone])))
    assert cost[1] > cost[0]


def test_latency_and_work_overlap() -> None:
    parts = np.zeros((3, len(COMPONENTS)))
    parts[0, COMPONENTS.index("dram")] = 1e-3
    parts[1:, COMPONENTS.index("stages")] = 1e-3
    parts[2, COMPONENTS.index("dram")] = 1e-4
    cost = MODEL.combined(parts)
    np.testing.assert_allclose(cost, 1e-3, rtol=0.01)
    assert cost[2] > cost[1]


def test_model_reads_declared_features_only() -> None:
    features = np.random.default_rng(0).uniform(1, 100, (4, 3, schema.COUNT))
    others = [schema.INDEX[name] for name in schema.NAMES if name not in READS]
    before = MODEL.components(features)
    features[:, :, others] = np.nan
    np.testing.assert_array_equal(MODEL.components(features), before)


@pytest.mark.parametrize(("app", "least"), [("blur", 0.8), ("harris", 0.8), ("iir_blur", 0.5), ("hist", 0.85)])
def test_schedules_are_ordered_as_on_an_h200(app: str, least: float) -> None:
    for samples in measured(app):
        real = [s.seconds for s in samples]
        predicted = [predicted_seconds(s) for s in samples]
        assert spearmanr(predicted, real).statistic > least
        assert 1 / 3 < np.median(np.divide(predicted, real)) < 3


def measured(app: str) -> list[list[Sample]]:
    """Return the schedules of an app that were measured, by its sizes."""
    with closing(open_labels([LABELS])) as labels:
        samples = [s for s in samples_from(labels, H200.name) if s.family == app]
    return [group for _, group in by_problem(samples)]


def predicted_seconds(sample: Sample) -> float:
    bound = sample.problem.bind()
    schedule = from_json(sample.schedule, bound)
    featurizer = Featurizer(apply_rewrites(bound, schedule), H200)
    return sum(evaluated(featurizer, kernel).seconds(MODEL) for kernel in schedule.kernels)
