"""Features of random schedules against counts of the traced emulator."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from autosched.analysis.bind import bind
from autosched.analysis.rewrites.cache_read import cache_name
from autosched.apps import get_app
from autosched.featurize.accesses.accesses import AccessTable
from autosched.featurize.emulator_counts import sampled_blocks
from autosched.featurize.schema import NAMES
from autosched.featurize.sketch.sketch import KernelSketch
from autosched.featurize.validation import (
    FeatureChecker,
    FeatureTally,
    SketchedKernel,
    ValidationProblem,
    app_problem,
    figures,
    report_lines,
)
from autosched.schedule.types import Level
from tests.featurize.random_kernels import bound_app, checker_of, states_of

APPS = {"harris": 2, "unsharp": 2, "stencil_chain": 2, "bilateral_grid": 2, "interpolate": 1, "denoise": 1, "hist": 1}


@pytest.mark.parametrize("name", APPS)
def test_transactions_match_the_emulator(name: str) -> None:
    tally = checker_of(app_problem(name)).check_all(range(100, 100 + APPS[name]))
    assert tally.failures == []
    assert tally.equal["threads"] == tally.compared["threads"] == tally.kernels > 0
    exact = [what for what in tally.compared if what.endswith("sectors, exact")]
    assert all(tally.equal[what] == tally.compared[what] for what in exact)


@pytest.mark.parametrize("kind", ["mirrored", "mirrored_without_edge", "wrapped"])
def test_tiles_behind_boundary_conditions_match_the_emulator(kind: str) -> None:
    app = get_app("harris_gray")
    pipeline, _ = app.configure({"boundary": kind})
    arrays = app.make_inputs({"H": 61, "W": 131})
    problem = ValidationProblem(bind(pipeline, {n: a.shape for n, a in arrays.items()}), arrays, {})
    tally = checker_of(problem).check_all(range(100, 103))
    assert tally.failures == []
    assert tally.compared["shared loads bytes, exact"] > 0
    exact = [what for what in tally.compared if what.endswith("exact") or what == "shared bytes"]
    assert all(tally.equal[what] == tally.compared[what] for what in exact)


@pytest.mark.parametrize(("name", "seed"), [("kernel_regression", 101), ("depthwise_separable_conv", 110)])
def test_transactions_of_producers_per_reduction_step_match_the_emulator(name: str, seed: int) -> None:
    checker, kernels = drawn(name, seed)
    assert any(s.each_term for kernel in kernels for s in kernel.sketch.locations)
    checker.check(seed)
    exact = [what for what in checker.tally.compared if what.endswith("sectors, exact")]
    assert checker.tally.failures == []
    assert exact and all(checker.tally.equal[what] == checker.tally.compared[what] for what in exact)


def test_loads_shared_by_a_thread_level_producer_and_its_reader_count_once() -> None:
    checker, kernels = drawn("harris_gray", 1)
    table = checker.as_written.tables.accesses
    both = [
        p.sketch for p in kernels for s in p.sketch.locations
        if s.level is Level.THREAD and s.host.func == p.sketch.func
        and sources(table, s.func, p.sketch) & sources(table, p.sketch.func, p.sketch)
    ]  # fmt: skip
    assert both
    checker.check(1)
    assert checker.tally.failures == []


def test_a_cache_read_moved_by_two_block_loops_has_its_largest_tile() -> None:
    """The difference of an image and the image moved by dx, in blocks over x and dx."""
    checker, kernels = drawn("nl_means", 1)
    copied = [p.sketch for p in kernels if p.sketch.location(cache_name("input")) is not None]
    assert any({"dx", "x"} <= {*checker.problem.bound.funcs[s.func].dims} for s in copied)
    checker.check(1)
    assert checker.tally.failures == []


def test_loads_that_are_equal_only_in_the_middle_block_count_twice() -> None:
    """The difference of an image and the image moved by dx and dy, which are 0 there."""
    checker, kernels = drawn("nl_means", 11)
    blocks = [p for p in kernels if p.sketch.func == "difference" and not p.sketch.inlined]
    grid = checker.as_written.model(blocks[0].sketch).grid
    assert (grid.blocks(np.array([blocks[0].params], np.int64))[1][0, 1:3] > 1).all()
    checker.check(11)
    assert checker.tally.failures == []


def test_no_guard_of_other_dimensions_encloses_a_thread_level_producer() -> None:
    """The maximum of a row inside the loop over the row's points: it is computed beyond the last point, too."""
    seed = 58
    checker, kernels = drawn("layer_norm_softmax", seed)
    inner = [s for p in kernels for s in p.sketch.locations if s.level is Level.THREAD and s.enclosing]
    assert inner
    checker.check(seed)
    assert checker.tally.failures == []


def test_kernels_with_cut_aligned_groups_are_approximate() -> None:
    """Code guards each point of a group."""
    checker, kernels = drawn("layer_norm", 3)
    assert any(s.aligned is not None for p in kernels for s in p.sketch.locations)
    checker.check(3)
    assert checker.tally.failures == []
    assert checker.tally.compared["shared loads requests, approximate"] > 0


def drawn(name: str, seed: int) -> tuple[FeatureChecker, Sequence[SketchedKernel]]:
    """Return the checker of an app, and the kernels that it draws from a seed."""
    checker = checker_of(app_problem(name))
    found = checker.draw(np.random.default_rng(seed))
    assert found is not None
    return checker, found[0]


def sources(table: AccessTable, func: str, sketch: KernelSketch) -> set[str]:
    """Return the arrays that a pure Func reads from memory in a kernel."""
    return {g.source for g in table.of(func, 0, sketch.inlined).loads}


@pytest.mark.parametrize(("name", "schedules"), [("blur", 8), ("harris", 4), ("unsharp", 4)])
def test_vector_accesses_match_the_emulator(name: str, schedules: int) -> None:
    tally = checker_of(app_problem(name), vectors=True).check_all(range(100, 100 + schedules))
    assert tally.failures == []
    for what in ("requests", "transactions"):
        stores, loads = (f"{access} by vectors, {what}" for access in ("stores", "loads"))
        assert tally.equal[stores] == tally.compared[stores] > 0
        assert tally.equal[loads] > 0.5 * tally.compared[loads]


def test_a_sample_of_blocks_has_the_weight_of_the_grid() -> None:
    sample = sampled_blocks([9, 3])
    assert sum(weight * len(blocks) for weight, blocks in sample.items()) == 27
    assert {block for blocks in sample.values() for block in blocks} >= {(0, 0), (4, 1), (8, 2)}


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


def test_a_tally_adds_up_and_reports_its_errors() -> None:
    tally, other = FeatureTally(kernels=1), FeatureTally(kernels=2, failures=["seed 7"])
    assert tally.compare("threads", 32, 32) and not other.compare("threads", 32, 64)
    other.error("whole grid by points, global loads", 90, 100)
    tally.add(other)
    assert figures(tally) == {
        "kernels": 3,
        "failures": ["seed 7"],
        "equal": {"threads": [1, 2]},
        "median_error": {"whole grid by points, global loads": pytest.approx(0.1)},
        "mean_error": {"whole grid by points, global loads": pytest.approx(-0.1)},
    }
    assert list(report_lines("blur", tally, 2.0)) == [
        "blur: 3 kernels, 1 failures in 2 s",
        "  threads: 1 of 2 equal",
        "  whole grid by points, global loads: relative error: median 0.100, mean -0.100, largest 0.10, 0% within 5 %",
        "  FAILED seed 7",
    ]


def test_whole_grids_are_compared_without_their_middle_block() -> None:
    checker = checker_of(app_problem("blur", grid=64), grid_only=True)
    checker.check(100)
    assert checker.tally.kernels > 0
    assert not checker.tally.compared
    assert {"whole grid by blocks, global loads", "whole grid by points, global loads"} <= set(checker.tally.errors)
