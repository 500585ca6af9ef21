"""Features of random schedules against what the traced emulator counts."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from autosched.featurize.schema import NAMES
from tests.featurize.drawing import bound_app, states_of

APPS = {"harris": 2, "unsharp": 2, "stencil_chain": 2, "bilateral_grid": 2, "interpolate": 1, "denoise": 1, "hist": 1}


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Return the script that compares features with counts."""
    monkeypatch.syspath_prepend(Path(__file__).parents[2] / "scripts")
    return importlib.import_module("check_features")


@pytest.mark.parametrize("name", APPS)
def test_transactions_are_those_the_emulator_counts(script: ModuleType, name: str) -> None:
    tally = script.check_app(name, range(100, 100 + APPS[name]))
    assert tally.failures == []
    assert tally.equal["threads"] == tally.compared["threads"] == tally.kernels > 0
    exact = [what for what in tally.compared if what.endswith("sectors, exact")]
    assert all(tally.equal[what] == tally.compared[what] for what in exact)


@pytest.mark.parametrize(("name", "seed"), [("kernel_regression", 101), ("depthwise_separable_conv", 110)])
def test_transactions_of_what_is_computed_for_each_term_are_those_the_emulator_counts(
    script: ModuleType, name: str, seed: int
) -> None:
    checker = script.Checker(name)
    drawn = checker.states.draw_legal(np.random.default_rng(seed))
    assert drawn is not None
    assert any(s.each_term for piece in drawn[0].pieces for s in piece.structure.spots)
    checker.check(seed)
    exact = [what for what in checker.tally.compared if what.endswith("sectors, exact")]
    assert checker.tally.failures == []
    assert exact and all(checker.tally.equal[what] == checker.tally.compared[what] for what in exact)


@pytest.mark.parametrize(("name", "schedules"), [("blur", 8), ("harris", 4), ("unsharp", 4)])
def test_vectors_are_those_the_emulator_counts(script: ModuleType, name: str, schedules: int) -> None:
    tally = script.check_app(name, range(100, 100 + schedules), vectors=True)
    assert tally.failures == []
    for what in ("requests", "transactions"):
        stores, loads = (f"{access} by vectors, {what}" for access in ("stores", "loads"))
        assert tally.equal[stores] == tally.compared[stores] > 0
        assert tally.equal[loads] > 0.5 * tally.compared[loads]


def test_a_sample_of_blocks_stands_for_the_grid(script: ModuleType) -> None:
    sample = script.sampled_blocks([9, 3])
    assert sum(weight * len(places) for weight, places in sample.items()) == 27
    assert {place for places in sample.values() for place in places} >= {(0, 0), (4, 1), (8, 2)}


def test_random_states_are_reproducible_and_counted() -> None:
    bound = bound_app("harris")
    one, other = (states_of(bound) for _ in range(2))
    for seed in range(3):
        first, second = (s.draw_legal(np.random.default_rng(seed)) for s in (one, other))
        assert first is not None and second is not None
        assert first[1] == second[1]
    assert one.chosen == other.chosen
    assert {"inline", "root", "block", "thread", "tile"} <= set(one.chosen)
    assert all(one.chosen[kind] <= one.offered[kind] for kind in one.chosen)
    assert "num_global_mem_loads_per_block" in NAMES
