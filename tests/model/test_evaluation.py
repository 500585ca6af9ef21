from __future__ import annotations

import math

import numpy as np
import pytest

from autosched.model.evaluation import ranks, regret, score_pipelines, spearman, summarise, table


def test_ranks_share_their_mean() -> None:
    assert ranks(np.array([30.0, 10.0, 20.0, 10.0])).tolist() == [3.0, 0.5, 2.0, 0.5]


@pytest.mark.parametrize("seed", range(5))
def test_spearman_is_that_of_scipy(seed: int) -> None:
    stats = pytest.importorskip("scipy.stats")
    rng = np.random.default_rng(seed)
    a, b = rng.integers(0, 8, 30).astype(float), rng.normal(size=30)  # ties on one side
    assert spearman(a, b) == pytest.approx(stats.spearmanr(a, b).statistic)


def test_spearman_where_there_is_no_order() -> None:
    assert math.isnan(spearman(np.array([1.0, 2.0]), np.array([1.0, 2.0])))
    assert math.isnan(spearman(np.ones(5), np.arange(5.0)))


def test_regret() -> None:
    measured = np.array([4.0, 2.0, 3.0, 1.0])
    predicted = np.array([1.0, 3.0, 2.0, 4.0])  # tried in the order 4, 3, 2, 1
    assert [regret(predicted, measured, k) for k in (1, 2, 3, 4)] == [3.0, 2.0, 1.0, 0.0]


def test_scores_by_pipeline() -> None:
    pipeline = np.array([0, 0, 0, 1, 1, 1])
    measured = np.array([1.0, 2.0, 3.0, 10.0, 20.0, 30.0])
    predicted = np.array([2.0, 4.0, 6.0, 30.0, 20.0, 10.0])
    first, second = score_pipelines(predicted, measured, pipeline)
    assert (first.spearman, second.spearman) == (pytest.approx(1.0), pytest.approx(-1.0))
    assert (first.regret1, second.regret1) == (0.0, 2.0)
    assert (first.ratio, first.spread) == (pytest.approx(2.0), pytest.approx(1.0))
    found = summarise([first, second])
    assert found.spearman == pytest.approx(0.0)
    assert found.regret1 == 1.0
    assert found.schedules == 6
    assert "kernel_off" not in found.metrics()


def test_table_names_its_labels() -> None:
    scores = score_pipelines(np.array([1.0, 2.0, 3.0]), np.array([1.0, 2.0, 3.0]), np.zeros(3, np.int64))
    text = table({"learned": summarise(scores)}, "simulated:H200")
    assert "Labels: simulated:H200" in text
    assert "| learned | 1 | 3 | 1.000 |" in text
