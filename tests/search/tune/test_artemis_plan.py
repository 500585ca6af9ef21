"""The plan of Artemis: variations, moves that rules cause, levels, and whole runs on the simulated device."""

from __future__ import annotations

import json
from collections.abc import Iterator

import numpy as np
import pytest
from click.testing import CliRunner

import autosched
from autosched import Func, Input, InputError, Pipeline, ScheduledPipeline, Var, float32, interpret
from autosched.analysis.bind import bind
from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.apps import get_app
from autosched.cli import main
from autosched.lower.program import lower
from autosched.measure.backends.selection import backend_for
from autosched.measure.problem import Problem
from autosched.runtime.compile.nvrtc import have_nvrtc
from autosched.schedule.legality.validate import violations
from autosched.schedule.types import Kernel, Schedule
from autosched.search.bottleneck.rules import Move
from autosched.search.cost.gpu_analytical import analytical_model
from autosched.search.evaluate.evaluator import KernelEvaluator
from autosched.search.guidance.conformance import meets_guide
from autosched.search.guidance.guide import Guide, KernelGuide
from autosched.search.space.option_enumeration import OptionEnumerator
from autosched.search.tune.effort_levels import effort_level
from autosched.search.tune.plan.artemis_plan import REGISTERS, ArtemisPlan, PlanProgress, PlanResult
from autosched.search.tune.plan.levels import PLANS, PlanLevel, plan_levels
from autosched.search.tune.plan.move_variations import MoveVariations
from autosched.search.tune.plan.plan_run import tune_by_plan
from autosched.search.tune.plan.plan_timer import PlanTimer
from autosched.search.tune.plan.step_variations import (
    perspective_variations,
    prefetch_variations,
    streaming_variations,
)
from autosched.search.tune.plan.tile_variations import TileVariations, is_power_tiling
from autosched.search.tune.plan.variation import similar_kernels, varied_schedule
from autosched.target import Target, get_target
from tests.lower.run_backends import assert_backends_agree
from tests.lower.sweeps import chain_of_windows, sweeps
from tests.schedule.building import schedule as made
from tests.search.bottleneck.kernels import polynomial

H200, CPU = get_target("h200"), get_target("cpu")
x, y = Var("x"), Var("y")
needs_nvrtc = pytest.mark.skipif(not have_nvrtc(), reason="the simulated device compiles")


def tools(bound: BoundPipeline, target: Target = H200) -> tuple[KernelEvaluator, OptionEnumerator]:
    settings = effort_level("default").settings[target.kind]
    evaluator = KernelEvaluator(bound, target, analytical_model(target), settings)
    return evaluator, OptionEnumerator(evaluator)


def by_roots(bound: BoundPipeline, target: Target = H200) -> ScheduledPipeline:
    return autosched.schedule(bound.pipeline, dict(bound.shapes), target, strategy="roots")


@pytest.mark.parametrize(
    ("threads", "points", "fits"),
    [
        ((4, 32), (1, 2), True),
        ((1, 256), (8, 1), True),
        ((2, 32), (1, 1), False),
        ((4, 512), (1, 1), False),
        ((4, 48), (1, 1), False),
        ((4, 32), (3, 1), False),
        ((4, 32), (16, 1), False),
    ],
)
def test_sizes_are_powers_of_two_in_the_ranges_of_the_paper(
    threads: tuple[int, ...], points: tuple[int, ...], fits: bool
) -> None:
    assert is_power_tiling(threads, points, 8) == fits


@pytest.mark.parametrize("target", [H200, CPU], ids=["h200", "cpu"])
def test_tilings_unroll_more_and_more(target: Target) -> None:
    bound = sweeps("clamped", (512, 768), 1)
    s = by_roots(bound, target)
    tiles = TileVariations(*tools(s.bound, target))
    found = tiles.of(s.schedule.kernels[0])
    products = [v.points for v in found]
    assert len(found) >= 4 and products == sorted(products) and len(set(products)) >= 3
    assert max(products) > 4 >= max(v.points for v in tiles.of(s.schedule.kernels[0], most_points=4))
    assert max(products.count(p) for p in products) <= tiles.most_of_product
    for v in (found[0], found[-1]):
        varied = varied_schedule(s.bound, target, s.schedule, (0,), v)
        assert varied is not None and not violations(bound, varied, target)
        assert_backends_agree(bound, lower(bound, varied), emulate=target.kind == "cuda")


def test_compute_bound_kernels_unroll_less() -> None:
    s = by_roots(bind(polynomial(4), {"image": (512, 512)}))
    tiles = TileVariations(*tools(s.bound))
    factors = [
        {n for v in tiles.of(s.schedule.kernels[0], compute_bound=bound)
         for n in map(int, v.name.partition(" of ")[2].split()[0].split("x"))}
        for bound in (False, True)
    ]  # fmt: skip
    assert max(factors[0]) == 8 and max(factors[1]) == 4


def test_equal_sweeps_change_together() -> None:
    bound = sweeps("clamped", (64, 96), 4)
    s = by_roots(bound)
    groups = similar_kernels(s.bound, s.schedule, H200)
    assert sorted(k for g in groups for k in g) == [0, 1, 2, 3] and len(groups) <= 2
    largest = max(groups, key=len)
    variation = TileVariations(*tools(s.bound)).of(s.schedule.kernels[largest[0]])[0]
    varied = varied_schedule(s.bound, H200, s.schedule, largest, variation)
    assert varied is not None
    changed = [a != b for a, b in zip(varied.kernels, s.schedule.kernels, strict=True)]
    assert changed == [k in largest for k in range(4)]
    assert_backends_agree(bound, lower(bound, varied))


def windows() -> tuple[BoundPipeline, Schedule]:
    bound = sweeps("clamped", (40, 32, 48), 2)
    return bound, made(bound, chain_of_windows(bound, 8))


@pytest.mark.fuzz
def test_windows_have_every_transfer_and_number_of_steps() -> None:
    bound, s = windows()
    evaluator, enumerator = tools(bound)
    (kernel,) = s.kernels
    variations = [*prefetch_variations(kernel), *streaming_variations(evaluator, kernel)]
    names = [v.name for v in variations]
    assert names[:2] == ["double buffer", "async copy"] and "serial streaming, 40 steps" in names
    assert not list(perspective_variations(evaluator, enumerator, kernel))
    for v in variations:
        varied = varied_schedule(bound, H200, s, (0,), v)
        assert varied is not None, v.name
        if v in (variations[1], variations[-1]):  # async copies, serial streaming
            assert_backends_agree(bound, lower(bound, varied))


def test_perspectives_differ_in_the_threads_of_tiles() -> None:
    app = get_app("unsharp")
    bound = bind(app.build(), app.shapes({"H": 64, "W": 96}))
    s = autosched.schedule(bound.pipeline, dict(bound.shapes), H200, strategy="beam")
    evaluator, enumerator = tools(s.bound)
    k = next(k for k, kernel in enumerate(s.schedule.kernels) if kernel.fused)
    found = {
        v.name: varied_schedule(s.bound, H200, s.schedule, (k,), v)
        for v in perspective_variations(evaluator, enumerator, s.schedule.kernels[k])
    }
    assert set(found) == {"output perspective", "input perspective", "mixed perspective", "linear threads"}
    on_cpu = perspective_variations(*tools(s.bound, CPU), s.schedule.kernels[k])
    assert {v.name for v in on_cpu} == set(found) - {"linear threads"}
    legal = [varied for varied in found.values() if varied is not None]
    assert legal
    for varied in legal:
        assert_backends_agree(bound, lower(bound, varied))


def moved(bound: BoundPipeline, s: Schedule, move: Move, numbers: tuple[int, ...]) -> Iterator[tuple[str, Schedule]]:
    for name, varied in MoveVariations(*tools(bound)).of(move, s, numbers):
        assert not violations(bound, varied, H200)
        assert_backends_agree(bound, lower(bound, varied))
        yield name, varied


@pytest.mark.parametrize("move", [Move.FUSE_STEPS, Move.FUSE_KERNELS])
def test_fused_steps_share_kernels(move: Move) -> None:
    bound = sweeps("clamped", (40, 48, 64), 4)
    s = by_roots(bound).schedule
    fused = dict(moved(bound, s, move, (0, 1, 2, 3)))
    assert set(fused) == {"pairs fused, tiles in shared memory", "pairs fused, sliding windows"}
    assert [len(varied.kernels) for varied in fused.values()] == [2, 2]
    assert all(k.is_sliding_window for k in fused["pairs fused, sliding windows"].kernels)


def test_shared_memory_is_a_copy_or_a_window_and_global_memory_gives_it_up() -> None:
    bound = sweeps("clamped", (48, 64), 1)
    s = by_roots(bound).schedule
    copies = dict(moved(bound, s, Move.USE_SHARED_MEMORY, (0,)))
    copied = copies["copy of source 0 in shared memory"]
    assert copied.kernels[0].cache_reads == {"in"}
    ((name, without),) = moved(bound, copied, Move.USE_GLOBAL_MEMORY, (0,))
    assert name == "without copies" and not without.kernels[0].cache_reads
    assert not list(moved(bound, s, Move.USE_GLOBAL_MEMORY, (0,)))


def test_reduced_operations_store_what_is_evaluated_several_times() -> None:
    image, square, f = Input("image", float32, 2), Func("square"), Func("f")
    square[y, x] = image[y, x] * image[y, x] + 1
    f[y, x] = square[y, x] + square[y, x + 1] + square[y + 1, x]
    bound = bind(Pipeline(f.over(y=(0, 64), x=(0, 64))), {"image": (65, 65)})
    s = by_roots(bound).schedule
    (kernel,) = s.kernels
    assert kernel.inlined[0].func == "square" and kernel.inlined[0].calls == 3
    ((name, stored),) = moved(bound, s, Move.REDUCE_OPERATIONS, (0,))
    assert name == "square stored for a block"
    assert [m.func for m in stored.kernels[0].fused] == ["square"] and not stored.kernels[0].inlined


@pytest.mark.parametrize("move", [Move.FISSION, Move.USE_REGISTERS, Move.HIDE_LATENCY])
def test_other_moves_are_left_to_tilings_and_hints(move: Move) -> None:
    bound = sweeps("clamped", (48, 64), 2)
    assert not list(moved(bound, by_roots(bound).schedule, move, (0,)))


def test_levels_are_named() -> None:
    assert plan_levels("artemis") == PLANS["artemis"] == tuple(PlanLevel)
    assert plan_levels("artemis", "tiles, moves") == (PlanLevel.TILES, PlanLevel.MOVES)
    for names, message in (
        ("tiles,unroll", "there is no level 'unroll': choose among moves, tiles, prefetch, streaming, perspective"),
        ("tiles,tiles", "level 'tiles' is named twice: name it once"),
    ):
        with pytest.raises(InputError, match=message):
            plan_levels("artemis", names)
    with pytest.raises(InputError, match="there is no plan 'opentuner': choose artemis"):
        plan_levels("opentuner")


def run_plan(pipeline: Pipeline, shapes: dict[str, tuple[int, ...]], levels: str, seconds: float = 60.0) -> PlanResult:
    bound = bind(pipeline, shapes)
    told: list[PlanProgress] = []
    with PlanTimer(Problem.of(bound), H200, backend_for(H200, "simulated"), seconds) as timer:
        plan = ArtemisPlan(timer, plan_levels("artemis", levels), report=told.append)
        result = plan.run(by_roots(bound).schedule)
    assert [p.level for p in told] == ["", *levels.split(",")]
    return result


@needs_nvrtc
def test_an_iterated_stencil_is_fused_and_tiled() -> None:
    bound = sweeps("clamped", (96, 128, 128), 4)
    result = run_plan(bound.pipeline, dict(bound.shapes), "moves,tiles")
    assert not result.cut_short
    assert any(rule.move is Move.FUSE_STEPS for d in result.before for rule in d.rules)
    assert {d.profile.source for d in result.before} == {"simulated device"}
    assert len(result.best.schedule.kernels) < 4
    times = [seconds for _, seconds in result.by_level]
    assert [name for name, _ in result.by_level] == ["baseline", "moves", "tiles"]
    assert times == sorted(times, reverse=True) and times[1] < times[0]
    assert result.seconds == times[-1] == result.trials[0].seconds and result.registers in REGISTERS
    assert len(result.after) == len(result.best.schedule.kernels)


@needs_nvrtc
def test_the_limit_of_registers_is_raised_for_what_spills() -> None:
    """addsgd6 needs more registers than 32 a thread: what spills there is measured with more."""
    app = get_app("addsgd6")
    result = run_plan(app.build(), app.shapes(app.small_sizes), "tiles", 25.0)
    assert result.registers > REGISTERS[0]
    limits = {k.resident_blocks for t in result.trials for k in t.schedule.kernels}
    assert len(limits) > 1
    assert result.best.timing is not None and sum(result.best.timing.spill_bytes) == 0


@needs_nvrtc
def test_a_guide_is_met_by_all_schedules() -> None:
    app = get_app("unsharp")
    pipeline, shapes = app.build(), app.shapes({"H": 64, "W": 96})
    guide = Guide(KernelGuide(threads={"x": 32}))
    bound = bind(pipeline, shapes)
    result, how, _ = tune_by_plan(
        bound, H200, "artemis", plan_levels("artemis", "moves,tiles"), guide=guide, measure="simulated", keep=False,
        seconds=20,
    )  # fmt: skip
    assert how.guide == guide.to_json() and len(result.trials) > 1
    assert all(meets_guide(bound, t.schedule, guide, H200) for t in result.trials)


@needs_nvrtc
def test_what_rules_turn_off_is_not_tried() -> None:
    """A kernel bound by its operations gets no shared memory and no more points in a thread."""
    result = run_plan(polynomial(320), {"image": (512, 1024)}, "moves,tiles")
    (d,) = result.before
    assert any(rule.move is Move.REDUCE_OPERATIONS for rule in d.rules)
    assert len(result.trials) > 1
    for trial in result.trials:
        (kernel,) = trial.schedule.kernels
        assert not kernel.cache_reads
        assert points_of(kernel) <= d.traits.points_per_thread


def points_of(kernel: Kernel) -> int:
    return int(np.prod([p.extent for p in kernel.roots[0].tiling.loops if p.kind.value == "serial"]))


@needs_nvrtc
def test_command_line() -> None:
    arguments = ["tune", "unsharp", "--size", "H=128", "--size", "W=128", "--plan", "artemis", "--simulated"]
    result = CliRunner().invoke(main, [*arguments, "--levels", "tiles", "--seconds", "20", "--json"])
    assert result.exit_code == 0, result.output
    data = json.loads(result.stdout)
    assert list(data["levels"]) == ["baseline", "tiles"] and data["best_seconds"] <= data["baseline_seconds"]
    assert data["before"] and data["after"] and all(d["source"] == "simulated device" for d in data["after"])
    assert data["measured"] >= len(data["trials"]["schedules"]) >= 1


@needs_nvrtc
def test_from_python() -> None:
    app = get_app("unsharp")
    pipeline, shapes = app.build(), app.shapes({"H": 64, "W": 64})
    found = autosched.autotune(
        pipeline, shapes, "h200", measure="simulated", plan="artemis", levels="tiles", seconds=10, keep=False
    )
    assert found.provenance is not None and found.provenance.strategy == "artemis" and found.trials is not None
    assert found.trials.best.seconds == found.provenance.measured_s
    for arguments, message in (
        ({"levels": "tiles"}, "levels are those of a plan: pass plan='artemis'"),
        ({"plan": "artemis", "weights": "random"}, "a plan trains no weights and stores no batches: leave out"),
        ({"plan": "halide"}, "there is no plan 'halide': choose artemis"),
    ):
        with pytest.raises(InputError, match=message):
            autosched.autotune(pipeline, shapes, "h200", measure="simulated", **arguments)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--levels", "tiles"], "--levels are those of a plan: add --plan artemis"),
        (["--plan", "artemis", "--resume"], "--plan trains no weights and stores no batches: leave out --db, --resume"),
        (["--plan", "artemis", "--levels", "x"], "there is no level 'x': choose among moves, tiles"),
    ],
)
def test_unusable_arguments_are_refused(arguments: list[str], message: str) -> None:
    result = CliRunner().invoke(main, ["tune", "unsharp", "--simulated", *arguments])
    assert result.exit_code == 2 and message in result.output


def test_a_processor_is_measured() -> None:
    app = get_app("unsharp")
    pipeline, shapes = app.build(), app.shapes({"H": 256, "W": 384})
    bound = bind(pipeline, shapes)
    with PlanTimer(Problem.of(bound), CPU, backend_for(CPU), 8.0) as timer:
        plan = ArtemisPlan(timer, plan_levels("artemis", "tiles"), differencing=True)
        result = plan.run(by_roots(bound, CPU).schedule)
    assert result.registers == 0 and result.seconds > 0
    assert all(d.confined_ratio is not None or not d.bottleneck.undecided for d in result.before)
    inputs = {"input": np.random.default_rng(0).random(shapes["input"], np.float32)}
    best = ScheduledPipeline(bound, result.best.schedule, CPU)
    np.testing.assert_array_equal(best.compile("cpu")(inputs), interpret(pipeline, inputs)["output"])
