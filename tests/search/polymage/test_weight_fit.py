"""Fit of the weights of PolyMage-GPU's cost."""

from __future__ import annotations

import json
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

from autosched.errors import InputError
from autosched.search.strategies.polymage.cost_weights import (
    V100_WEIGHTS,
    CostWeights,
    WeightedTransactions,
    find_cost_weights,
    save_weights,
    shipped_names,
)
from autosched.search.strategies.polymage.settings import PolymageSettings
from autosched.search.strategies.polymage.weight_fit import (
    TimedGroups,
    fit_weights,
    nonnegative_least_squares,
    rank_correlation,
)

KNOWN = CostWeights(3.0, 0.0, 40.0, 0.5, 2.0, 10.0, 0.25)


def groups(weights: CostWeights, noise: float = 0.0, count: int = 400, seed: int = 0) -> TimedGroups:
    """Return random terms of two sizes of a transaction, and times that follow from weights."""
    rng = np.random.default_rng(seed)
    terms = np.repeat(rng.uniform(0, 1, (count, 1, 7)), 2, axis=1)
    terms[:, 0, 0] = rng.uniform(1, 40, count)  # more transactions of 32 bytes
    terms[:, 1, 0] = terms[:, 0, 0] * rng.uniform(0.25, 1, count)
    terms[:, 0, 2] = rng.uniform(0.1, 2, count)  # and less time of them
    terms[:, 1, 2] = terms[:, 0, 2] * rng.uniform(1, 4, count)
    cost = (terms @ np.array(weights)).min(axis=1)
    return TimedGroups(terms, cost * np.exp(noise * rng.standard_normal(count)) * 1e-12)


def test_known_weights_are_recovered() -> None:
    assert fit_weights(groups(KNOWN)) == pytest.approx(KNOWN, abs=1e-6)


def test_known_weights_are_recovered_from_noisy_times() -> None:
    fitted = fit_weights(groups(KNOWN, noise=0.05, count=4000))
    assert fitted.transactions == pytest.approx(KNOWN.transactions, rel=0.05)
    assert fitted.memory_time == pytest.approx(KNOWN.memory_time, rel=0.05)
    assert fitted.overlap == pytest.approx(KNOWN.overlap, rel=0.1)
    assert min(fitted) >= 0
    test = groups(KNOWN, count=100, seed=1)
    assert rank_correlation(test.predicted(fitted), test.seconds) > 0.99


@pytest.mark.parametrize("seed", range(20))
def test_least_squares_are_the_best_of_all_supports(seed: int) -> None:
    rng = np.random.default_rng(seed)
    a, b = rng.standard_normal((12, 5)), rng.standard_normal(12)
    if seed % 2:
        a[:, 3] = 0
    least = float(np.linalg.norm(b))
    for size in range(1, 6):
        for support in combinations(range(5), size):
            part = np.linalg.lstsq(a[:, support], b, rcond=None)[0]
            if (part >= 0).all():
                least = min(least, float(np.linalg.norm(a[:, support] @ part - b)))
    x = nonnegative_least_squares(a, b)
    assert (x >= 0).all()
    assert np.linalg.norm(a @ x - b) == pytest.approx(least)


def test_rank_correlation() -> None:
    a = np.array([1.0, 2.0, 2.0, 5.0])
    assert rank_correlation(a, np.exp(a)) == pytest.approx(1)
    assert rank_correlation(a, -a) == pytest.approx(-1)
    # Ranks 1, 2.5, 2.5, 4 and 1, 2, 3, 4: 4.5 / sqrt(4.5 * 5).
    assert rank_correlation(a, np.arange(4.0)) == pytest.approx(0.9**0.5)
    assert np.isnan(rank_correlation(a, np.ones(4)))


def test_times_that_cannot_be_fitted_are_refused() -> None:
    with pytest.raises(InputError, match="6 times are too few for 7 weights"):
        fit_weights(groups(KNOWN, count=6))
    some = groups(KNOWN, count=8)
    with pytest.raises(InputError, match=r"a time is 0.0 s"):
        fit_weights(TimedGroups(some.terms, some.seconds * 0))


def test_weights_are_kept_in_files(tmp_path: Path) -> None:
    path = tmp_path / "weights.json"
    save_weights(path, WeightedTransactions(KNOWN, (32,)), {"target": "h200"})
    assert find_cost_weights(str(path)) == (KNOWN, (32,))
    chosen = PolymageSettings.of_weights(str(path))
    assert chosen.weights == KNOWN and chosen.transaction_bytes == (32,)
    assert json.loads(path.read_text())["target"] == "h200"
    assert find_cost_weights("v100") == (V100_WEIGHTS, (32, 128))
    assert {"v100", "1080ti", "h200"} <= {*shipped_names()}
    assert all(min(find_cost_weights(name).weights) >= 0 for name in shipped_names())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "is no JSON"),
        ("[]", "has other weights than needed"),
        ('{"weights": {"transactions": 1}}', "has other weights than needed"),
        (json.dumps({"weights": KNOWN._asdict() | {"overlap": -1}}), "has overlap -1: give a finite number"),
        (json.dumps({"weights": KNOWN._asdict() | {"overlap": "2"}}), "has overlap '2': give a finite number"),
        (json.dumps({"weights": KNOWN._asdict()}), "has transaction_bytes None: give a list of sizes"),
        (json.dumps({"weights": KNOWN._asdict(), "transaction_bytes": [0]}), "has transaction_bytes"),
    ],
)
def test_wrong_files_are_refused(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "weights.json"
    path.write_text(text)
    with pytest.raises(InputError, match=message):
        find_cost_weights(str(path))


def test_missing_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is neither a file of weights nor one of v100, 1080ti"):
        find_cost_weights(str(tmp_path / "missing.json"))
