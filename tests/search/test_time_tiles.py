"""Time tiles: the search fuses runs of equal stages of any depth, and costs equal runs once."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import autosched
from autosched import Func, Input, Pipeline, Var, float32, float64
from autosched.analysis.bind import bind
from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.analysis.rewrites.cache_read import cache_name
from autosched.featurize.sketch.sketch import ComputeLocation, KernelSketch
from autosched.schedule.types import Level, StageId
from autosched.search.beam.beam import BeamSearch
from autosched.search.beam.expand import Expander
from autosched.search.beam.state import PartialKernel, State
from autosched.search.beam.to_schedule import schedule_of
from autosched.search.cost.gpu_analytical import analytical_model
from autosched.search.evaluate.evaluator import KernelEvaluator
from autosched.search.refine.large_neighbourhood import Refinement
from autosched.search.refine.retile import Retiler
from autosched.search.refine.time_tile_search import TimeTileSearch
from autosched.search.settings import SearchSettings
from autosched.search.space.option_enumeration import OptionEnumerator
from autosched.search.space.time_tiles import repeated_funcs
from autosched.target import Target, get_target
from tests.schedule.building import chain_pipeline
from tests.search.cpu_cases import TWO_CORES

y, x = Var("y"), Var("x")


def sweeps(count: int, size: int, dtype: Any = float32) -> BoundPipeline:
    """Return sweeps of a five-point stencil with clamped edges."""
    u = Input("u", dtype, 2)
    f: Any = u
    for k in range(count):
        edges = f.clamped(y=(0, size), x=(0, size))
        g = Func(f"sweep_{k}")
        around = edges[y - 1, x] + edges[y + 1, x] + edges[y, x - 1] + edges[y, x + 1]
        g[y, x] = edges[y, x] + 0.1 * around
        f = g
    return bind(Pipeline(f.over(y=(0, size), x=(0, size)), name="sweeps"), {"u": (size, size)})


def time_tiles(bound: BoundPipeline, target: str) -> tuple[TimeTileSearch, BeamSearch]:
    chosen = get_target(target)
    evaluator = KernelEvaluator(bound, chosen, analytical_model(chosen), SearchSettings(beam_size=4, passes=2))
    search = BeamSearch(evaluator, np.random.default_rng(0))
    enumerator = search.expander.enumerator
    return TimeTileSearch(evaluator, enumerator, Retiler(evaluator, enumerator)), search


@pytest.mark.parametrize("target", [TWO_CORES, "h200"], ids=["cpu", "h200"])
def test_runs_of_four_share_a_kernel(target: Target | str) -> None:
    scheduled = autosched.schedule(
        sweeps(4, 4096, float64).pipeline, {"u": (4096, 4096)}, target, reuse=False, measure_finalists=False
    )
    (kernel,) = scheduled.schedule.kernels
    computed = {kernel.root_funcs[-1], *(m.func for m in kernel.fused), *(i.func for i in kernel.inlined)}
    assert {f"sweep_{k}" for k in range(4)} <= computed


@pytest.mark.parametrize("target", ["cpu", "h200"])
def test_runs_are_the_cheapest_of_all_partitions(target: str) -> None:
    bound = sweeps(5, 512, float64)
    tiles, _ = time_tiles(bound, target)
    chain = repeated_funcs(bound, frozenset())
    assert chain == [f"sweep_{k}" for k in range(5)]
    best = math.inf
    for cuts in itertools.product((False, True), repeat=4):
        ends = [k + 1 for k, cut in enumerate(cuts) if cut] + [5]
        kernels = [tiles._kernel_of_run(chain[a:b]) for a, b in zip([0, *ends], ends, strict=False)]
        if None not in kernels:
            best = min(best, sum(tiles.evaluator.verdict(*k).cost for k in kernels if k is not None))
    runs = tiles._best_runs(chain)
    assert runs is not None
    assert sum(tiles.evaluator.verdict(*k).cost for k in runs) == pytest.approx(best)


def test_equal_runs_are_searched_once() -> None:
    few, many = (time_tiles(sweeps(count, 512), "h200")[0] for count in (16, 48))
    for tiles in (few, many):
        assert tiles._best_runs(repeated_funcs(tiles.evaluator.bound, frozenset())) is not None
    assert len(few._by_class) == len(many._by_class)
    kernels = [tiles.evaluator.counts.kernels for tiles in (few, many)]
    assert kernels[1] < 1.5 * kernels[0], "the tiles of an equal run are those of the first"


def test_runs_end_where_halos_cost_more_than_they_save(monkeypatch: pytest.MonkeyPatch) -> None:
    tiles, _ = time_tiles(sweeps(12, 512), "h200")
    chain = repeated_funcs(tiles.evaluator.bound, frozenset())
    lengths: list[int] = []

    def cost(run: list[str]) -> float:
        lengths.append(len(run))
        return {1: 1.0, 2: 1.6, 3: 2.9}.get(len(run), 1.0 * len(run) ** 2)

    monkeypatch.setattr(tiles, "_cost_of_run", cost)
    monkeypatch.setattr(tiles, "_kernel_of_run", lambda run: tuple(run))
    runs = tiles._best_runs(chain)
    assert runs is not None and [len(run) for run in runs] == [2] * 6
    assert max(lengths) == 4


def test_other_funcs_keep_their_kernels() -> None:
    u = Input("u", float32, 2)
    first, last = Func("first"), Func("last")
    first[y, x] = autosched.exp(u[y, x]) * 3
    f: Any = first
    for k in range(3):
        edges = f.clamped(y=(0, 512), x=(0, 512))
        g = Func(f"sweep_{k}")
        g[y, x] = edges[y, x] + edges[y - 1, x] + edges[y, x + 1]
        f = g
    last[y, x] = f[x, y]
    bound = bind(Pipeline(last.over(y=(0, 512), x=(0, 512)), name="mixed"), {"u": (512, 512)})
    tiles, search = time_tiles(bound, "h200")
    states = search.run_passes()
    refinement = Refinement(Expander(tiles.evaluator, np.random.default_rng(0)), lambda: False)
    for state in [*tiles.with_time_tiles(states), *refinement.run(tiles.with_time_tiles(states))]:
        computed = [name for p in state.pieces for name in tiles.enumerator.compute_locations.inside(p.sketch)]
        assert {"first", "last", "sweep_0", "sweep_1", "sweep_2"} <= set(computed)


@pytest.mark.parametrize("target", ["cpu", "h200"])
def test_deep_tiles_have_the_bits_of_the_interpreter(target: str) -> None:
    bound = sweeps(4, 130, float64)
    tiles, search = time_tiles(bound, target)
    states = search.run_passes()
    chain = repeated_funcs(bound, frozenset())
    u = np.random.default_rng(0).random((130, 130))
    (expected,) = autosched.interpret(bound.pipeline, {"u": u}).values()
    for depth in (2, 3, 4):
        runs = [chain[k : k + depth] for k in range(0, 4, depth)]
        kernels = [tiles._kernel_of_run(run) for run in runs]
        assert None not in kernels
        state = tiles._state(replace(states[0], levels={}), [], [k for k in kernels if k is not None][::-1])

        scheduled = autosched.ScheduledPipeline(bound, schedule_of(tiles.evaluator, state), get_target(target))
        assert max(len(k.fused) for k in scheduled.schedule.kernels) == depth - 1
        result = scheduled.compile("cpu" if target == "cpu" else "emulator")(u=u)
        np.testing.assert_array_equal(result, expected)


def test_a_guide_is_met() -> None:
    pipeline, shapes = sweeps(4, 512, float64).pipeline, {"u": (512, 512)}
    free = autosched.schedule(pipeline, shapes, "h200", reuse=False)
    assert len(free.schedule.kernels) < 4
    guide = autosched.Guide(fuse=[["sweep_2", "sweep_3"]])
    guided = autosched.schedule(pipeline, shapes, "h200", reuse=False, guide=guide)
    last = guided.schedule.kernels[-1]
    assert "sweep_2" in {*(m.func for m in last.fused), *(i.func for i in last.inlined)}


def test_different_stages_are_no_chain() -> None:
    u = Input("u", float32, 2)
    across, down = Func("across"), Func("down")
    edges = u.clamped()
    across[y, x] = edges[y, x - 1] + edges[y, x + 1]
    down[y, x] = across[y - 1, x] + across[y + 1, x]
    bound = bind(Pipeline(down.over(y=(0, 64), x=(0, 64))), {"u": (64, 64)})
    assert repeated_funcs(bound, frozenset()) == []


def test_a_kernel_with_a_cache_read_has_no_other_funcs() -> None:
    bound = bind(chain_pipeline(2), {"img": (64, 64)})
    target = get_target("h200")
    evaluator = KernelEvaluator(bound, target, analytical_model(target), SearchSettings())
    enumerator = OptionEnumerator(evaluator)
    search = TimeTileSearch(evaluator, enumerator, Retiler(evaluator, enumerator))
    out = StageId("out")
    copied = KernelSketch((out,), (ComputeLocation(cache_name("img"), Level.BLOCK, out),), frozenset({"f1"}))
    state = State((PartialKernel(copied, (), tiled=True),), (1.0,), {}, 1.0, 0)
    assert search._rest(state, frozenset({"f1", "out"})) == []
    assert search._rest(state, frozenset({"out"})) is None
