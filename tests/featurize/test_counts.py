"""Features of random schedules against what the traced emulator counts."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from autosched.analysis.rewrites.cache_read import cache_name
from autosched.featurize.accesses.accesses import AccessTable
from autosched.featurize.schema import NAMES
from autosched.featurize.sketch.sketch import KernelSketch
from autosched.schedule.types import Level
from autosched.search.beam.state import State
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


def test_what_a_member_of_a_thread_and_its_reader_both_load_counts_once(script: ModuleType) -> None:
    checker, state = drawn(script, "harris_gray", 1)
    table = checker.as_written.tables.accesses
    both = [
        p.structure for p in state.pieces for s in p.structure.spots
        if s.level is Level.THREAD and s.host.func == p.structure.func
        and sources(table, s.func, p.structure) & sources(table, p.structure.func, p.structure)
    ]  # fmt: skip
    assert both
    checker.check(1)
    assert checker.tally.failures == []


def test_a_copy_that_two_block_loops_move_in_one_dimension_has_its_largest_tile(script: ModuleType) -> None:
    """The difference of an image and the image moved by dx, in blocks over x and dx."""
    checker, state = drawn(script, "nl_means", 1)
    copied = [p.structure for p in state.pieces if p.structure.spot(cache_name("input")) is not None]
    assert any({"dx", "x"} <= {*checker.bound.funcs[s.func].dims} for s in copied)
    checker.check(1)
    assert checker.tally.failures == []


def test_loads_that_are_the_same_in_the_middle_block_only_count_twice(script: ModuleType) -> None:
    """The difference of an image and the image moved by dx and dy, which are 0 there."""
    checker, state = drawn(script, "nl_means", 11)
    blocks = [p for p in state.pieces if p.structure.func == "difference" and not p.structure.inlined]
    grid = checker.as_written.model(blocks[0].structure).grid
    assert (grid.blocks(np.array([blocks[0].params], np.int64))[1][0, 1:3] > 1).all()
    checker.check(11)
    assert checker.tally.failures == []


def test_kernels_with_groups_that_blocks_do_not_begin_with_are_not_counted_exactly(script: ModuleType) -> None:
    """Code asks at each point of a group whether it is needed."""
    checker, state = drawn(script, "layer_norm", 3)
    assert any(s.aligned is not None for p in state.pieces for s in p.structure.spots)
    checker.check(3)
    assert checker.tally.failures == []
    assert checker.tally.compared["shared loads requests, approximate"] > 0


def drawn(script: ModuleType, name: str, seed: int) -> tuple[Any, State]:
    """Return what compares an app's features, and the state that it draws."""
    checker = script.Checker(name)
    found = checker.states.draw_legal(np.random.default_rng(seed))
    assert found is not None
    return checker, found[0]


def sources(table: AccessTable, func: str, structure: KernelSketch) -> set[str]:
    """Return what a pure Func reads from memory in a kernel."""
    return {g.source for g in table.of(func, 0, structure.inlined).loads}


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
