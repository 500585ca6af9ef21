"""Scans over rows in searches: choices, predicted times, and results that agree with the backends."""

from __future__ import annotations

import numpy as np
import pytest

import autosched
from autosched import interpret
from autosched.analysis.bind import bind
from autosched.analysis.rewrites.mainloop_step import with_one_step
from autosched.apps import get_app
from autosched.featurize.featurizer import Featurizer
from autosched.featurize.sketch.kernel_from_sketch import build_kernel
from autosched.featurize.sketch.sketch_from_kernel import describe_kernel
from autosched.measure.simulated.simulate import simulate
from autosched.report.prediction import predict
from autosched.runtime.compile.nvrtc import have_nvrtc
from autosched.schedule.kernel.row_scans import MOST_LAUNCHES, ScanLevel, scan_level_of
from autosched.schedule.legality.validate import violations
from autosched.schedule.types import Kernel, StageId
from autosched.search.beam.random_states import RandomStates
from autosched.search.cost.cpu.coefficients import rates_of
from autosched.search.cost.gpu_analytical import LAUNCH_SECONDS, analytical_model
from autosched.search.datasets.mutations import Mutator
from autosched.search.evaluate.evaluator import KernelEvaluator
from autosched.search.refine.mainloop.step_cost import evaluated
from autosched.search.settings import SearchSettings
from autosched.search.strategies.compute_root import schedule_roots
from autosched.search.strategies.protocol import STRATEGIES
from autosched.target import get_target
from tests.lower.test_row_scans import with_scan
from tests.schedule.scans import PROGRAMS, Scan, batch, energy, inputs_of, seam, walks

H200, CPU = get_target("h200"), get_target("cpu")


@pytest.mark.parametrize("strategy", ["beam", "sioutas"])
@pytest.mark.parametrize("scan", PROGRAMS, ids=lambda f: f.__name__)
def test_strategies_are_right(scan: Scan, strategy: str) -> None:
    bound = scan()
    inputs = inputs_of(bound)
    expected = interpret(bound.pipeline, inputs)
    for target, backend in (("h200", "emulator"), ("cpu", "cpu")):
        found = autosched.schedule(bound.pipeline, dict(bound.shapes), target, strategy=strategy, reuse=False)
        assert ScanLevel.THREAD not in walks(bound, found.schedule)
        result = found.compile(backend)(inputs)
        for array, name in zip(result if isinstance(result, tuple) else [result], expected, strict=True):
            np.testing.assert_array_equal(array, expected[name], err_msg=f"{target} {name}")


@pytest.mark.parametrize(
    ("rows", "columns", "target", "walk"),
    [
        (200, 900, H200, ScanLevel.BLOCK),
        (50, 200_000, H200, ScanLevel.LAUNCH),
        (200, 900, CPU, ScanLevel.BLOCK),
        (MOST_LAUNCHES + 2, 20_000, H200, ScanLevel.BLOCK),
    ],
)
def test_row_length_decides_between_one_block_and_launches(rows: int, columns: int, target, walk: ScanLevel) -> None:
    bound = seam(rows, columns)
    found = STRATEGIES["beam"].search(bound, target)
    assert walks(bound, found.best) == [walk]
    assert violations(bound, found.best, target) == []


def test_each_block_has_its_own_images() -> None:
    bound = batch(64, 40, 100)
    found = STRATEGIES["beam"].search(bound, H200).best
    assert walks(bound, found) == [ScanLevel.BLOCK]
    assert found.kernels[-1].roots[0].tiling.extent("b") == 64


def evaluator(bound, target) -> KernelEvaluator:
    return KernelEvaluator(bound, target, analytical_model(target), SearchSettings())


def seconds(bound, kernel: Kernel, target=H200) -> float:
    one = evaluator(bound, target)
    described = describe_kernel(one.bound, kernel)
    one.evaluate([described])
    return one.verdict(*described).cost


@pytest.mark.parametrize("target", [H200, CPU], ids=lambda t: t.name)
def test_launches_cost_once_per_step(target) -> None:
    few, many = (with_scan(seam(n + 1, 4000), f"rr.y={n} bx=125 tx=32").kernels[-1] for n in (10, 40))
    assert seconds(seam(41, 4000), many, target) == pytest.approx(4 * seconds(seam(11, 4000), few, target), rel=0.05)


def test_steps_in_one_block_have_no_launch_cost() -> None:
    bound = seam(41, 96)
    block, launched = (with_scan(bound, t).kernels[-1] for t in ("bx=1 rr.y=40 tx=96", "rr.y=40 bx=3 tx=32"))
    assert LAUNCH_SECONDS < seconds(bound, block) < seconds(bound, launched)
    assert seconds(bound, launched) > 40 * LAUNCH_SECONDS


def test_a_core_begins_a_kernel_once_for_all_its_steps() -> None:
    few, many = (seconds(seam(n + 1, 96), with_scan(seam(n + 1, 96), f"bx=1 rr.y={n} tx=96").kernels[-1], CPU)
                 for n in (40, 80))  # fmt: skip
    start = rates_of(CPU.processor)["kernels"]
    assert many - start == pytest.approx(2 * (few - start), rel=0.05)
    assert many < 20 * start


@pytest.mark.parametrize(
    "text", ["bx=1 rr.y=8 tx=13", "rr.y=8 bx=4 tx=4", "bx=1 rr.y=8 sx=2 tx=7", "rr.y=8 bx=2 tx=4 sx=2"]
)
def test_scan_kernels_convert_to_sketches_and_back(text: str) -> None:
    bound = seam()
    (kernel, *_) = with_scan(bound, text).kernels[-1:]
    view = with_one_step(bound)
    assert view is with_one_step(bound) and with_one_step(view) is view and view.rewritten is bound
    sketch, params = describe_kernel(view, kernel)
    again = build_kernel(Featurizer(view, H200).model(sketch), np.array(params, np.int64))
    assert again == kernel
    assert evaluated(Featurizer(bound, H200), kernel).seconds(analytical_model(H200)) == pytest.approx(
        seconds(bound, kernel), rel=1e-4
    )


def test_pipeline_without_scans_is_unchanged() -> None:
    bound = bind(get_app("blur").build(), {"input": (66, 66)})
    assert with_one_step(bound) is bound


@pytest.mark.parametrize("target", [H200, CPU], ids=lambda t: t.name)
def test_mutations_and_random_states_are_legal(target) -> None:
    bound = energy()
    one = evaluator(bound, target)
    parent = schedule_roots(bound, target)
    rng = np.random.default_rng(0)
    found = [Mutator(one).mutated(parent, rng) for _ in range(8)]
    assert any(s is not None for s in found)
    assert all(violations(bound, s, target) == [] for s in found if s is not None)
    drawn = [RandomStates(one).draw_legal(rng) for _ in range(6)]
    assert {w for d in drawn if d is not None for w in walks(bound, d[1])} <= {ScanLevel.BLOCK, ScanLevel.LAUNCH}
    assert any(d is not None for d in drawn)


def test_reports_predict_all_steps() -> None:
    bound = seam(41, 96)
    for text in ("bx=1 rr.y=40 tx=96", "rr.y=40 bx=3 tx=32"):
        found = with_scan(bound, text)
        prediction = predict(bound, found, H200)
        assert prediction.kernels[-1].seconds == pytest.approx(seconds(bound, found.kernels[-1]), rel=1e-4)


@pytest.mark.skipif(not have_nvrtc(), reason="NVRTC is not installed")
def test_the_simulated_device_counts_every_launch() -> None:
    bound = seam(41, 96)
    block, launched = (simulate(bound, with_scan(bound, t), H200) for t in ("bx=1 rr.y=40 tx=96", "rr.y=40 bx=3 tx=32"))
    assert launched.kernels[-1].time.parts["launch"] == pytest.approx(40 * block.kernels[-1].time.parts["launch"])
    assert launched.kernel_seconds[-1] > 5 * block.kernel_seconds[-1]


def test_scan_walk_follows_from_the_loops() -> None:
    bound = seam()
    scan = bound.stage("m", 1)
    texts = {"rr.y=8 sx=13": ScanLevel.THREAD, "bx=1 rr.y=8 tx=13": ScanLevel.BLOCK, "rr.y=8 bx=13": ScanLevel.LAUNCH}
    for text, walk in texts.items():
        assert scan_level_of(scan, with_scan(bound, text).kernels[-1].tiling(StageId("m", 1)).loops) is walk
