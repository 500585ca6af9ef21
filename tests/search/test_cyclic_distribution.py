"""Cyclic distribution of a thread's points: features, the search, and agreement of the backends."""

from __future__ import annotations

import numpy as np
import pytest

from autosched import Func, Guide, Input, KernelGuide, Pipeline, Var, float64, schedule
from autosched.analysis.bind import bind
from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.codegen.cuda import print_cuda
from autosched.featurize.featurizer import Featurizer
from autosched.featurize.schema import INDEX
from autosched.featurize.sketch.kernel_from_sketch import build_kernel
from autosched.featurize.sketch.sketch_from_kernel import describe_kernel
from autosched.lower.program import lower
from autosched.runtime.compile.nvrtc import compile_cubin, have_nvrtc
from autosched.schedule.legality.validate import kernel_violations
from autosched.schedule.sampling.random_schedule import sample_schedule
from autosched.schedule.types import Kernel, LoopKind, Schedule
from autosched.search.cost.gpu_analytical import AnalyticalModel
from autosched.search.datasets.mutations import Mutator
from autosched.search.evaluate.evaluator import KernelEvaluator
from autosched.search.refine.cyclic_distribution import CyclicDistributionSearch, cyclic_variants
from autosched.search.settings import SearchSettings
from autosched.search.strategies.protocol import Beam
from autosched.target import get_target
from tests.lower.run_backends import assert_backends_agree, traced
from tests.schedule.building import block, kernel, member, root, thread

H200 = get_target("h200")


def cross(size: tuple[int, int] = (64, 128), boundary: str = "clamped") -> Pipeline:
    """Return the sum of the four neighbours of each point."""
    image = Input("image", float64, 2)
    source = image.constant(1.5) if boundary == "constant" else getattr(image, boundary)()
    x, y = Var("x"), Var("y")
    out = Func("out")
    out[y, x] = source[y, x - 1] + source[y, x + 1] + source[y - 1, x] + source[y + 1, x]
    return Pipeline(out.over(y=(0, size[0]), x=(0, size[1])), name="cross")


def bound_cross(size: tuple[int, int] = (64, 128), boundary: str = "clamped") -> BoundPipeline:
    return bind(cross(size, boundary), {"image": size})


def is_cyclic(kernel: Kernel, func: str = "out") -> bool:
    """Return whether a serial loop along x is outside of the thread loop along x."""
    tiling = next(t for t in kernel.tilings() if t.stage.func == func)
    along = [p.kind for p in tiling.loops if p.dim == "x" and p.kind is not LoopKind.BLOCK and p.extent > 1]
    return along == [LoopKind.SERIAL, LoopKind.THREAD]


def variants(bound: BoundPipeline) -> list[Kernel]:
    """Return a kernel with the source in shared memory, and its variants with cyclic points."""
    tile = member(block("out", 2), "yx", image_clamped="tx=16 ty=10 sx=5")
    plain = kernel(bound, [root("out", "by=8 bx=2 tx=16 ty=8 sx=4")], [tile])
    sketch, params = describe_kernel(bound, plain)
    featurizer = Featurizer(bound, H200)
    cyclic = [build_kernel(featurizer.model(s), np.array(params)) for s in cyclic_variants(bound, sketch)]
    return [plain, *cyclic]


def test_variants_of_root_and_producers() -> None:
    found = variants(bound_cross())
    assert [(is_cyclic(k), is_cyclic(k, "image_clamped")) for k in found] == [
        (False, False), (True, False), (False, True), (True, True),
    ]  # fmt: skip
    assert not any(kernel_violations(bound_cross(), k, H200) for k in found)


@pytest.mark.parametrize("position", range(4))
def test_counts_match_the_trace(position: int) -> None:
    bound = bound_cross()
    found = variants(bound)[position]
    schedule_ = Schedule.for_pipeline(bound, [found])
    trace = traced(bound, lower(bound, schedule_, vectors=False))
    sketch, params = describe_kernel(bound, found)
    model = Featurizer(bound, H200, amortised=False, every_warp=True, vectors=False).model(sketch)
    got = dict(zip(INDEX, model.evaluate(np.array([params])).features[0].T, strict=True))
    shared = np.array([s == "shared" for s in trace.space])
    moved, asked = trace.sectors / trace.blocks, trace.requests / trace.blocks
    assert got["num_global_mem_stores_per_block"].sum() == moved[trace.is_store & ~shared].sum()
    assert got["global_requests_per_block"].sum() == asked[~shared].sum()
    assert got["shared_requests_per_block"].sum() == asked[shared].sum()
    if is_cyclic(found):
        assert got["num_global_mem_stores_per_block"].sum() == 8 * 64 * 8 / 32, "full sectors"
    assert_backends_agree(bound, lower(bound, schedule_))


@pytest.mark.parametrize(
    ("loops", "depth", "dims"),
    [
        ("by=8 bx=2 sx=4 tx=16 ty=8", 5, {"x"}),
        ("by=8 bx=2 sx=4 tx=16 ty=4 sy=2", 6, {"x"}),
        ("by=8 bx=2 sy=2 sx=4 tx=16 ty=4", 6, {"x", "y"}),
    ],
)
def test_counts_with_producers_in_threads(loops: str, depth: int, dims: set[str]) -> None:
    """A producer inside of all loops is computed at each of the points, which are apart."""
    image = Input("image", float64, 2)
    x, y = Var("x"), Var("y")
    rows, out = Func("rows"), Func("out")
    rows[y, x] = image[y, x] + image[y, x + 1] * 2.0
    out[y, x] = rows[y, x] + rows[y + 1, x]
    bound = bind(Pipeline(out.over(y=(0, 64), x=(0, 128))), {"image": (65, 129)})
    found = kernel(bound, [root("out", loops)], [member(thread("out", depth), "yx", rows="sy=2 sx=1")])
    assert not kernel_violations(bound, found, H200)
    sketch, params = describe_kernel(bound, found)
    assert {d for o in sketch.orders for d in o.interleaved} == dims
    model = Featurizer(bound, H200, amortised=False, every_warp=True, vectors=False).model(sketch)
    assert describe_kernel(bound, build_kernel(model, np.array(params))) == (sketch, params)
    program = lower(bound, Schedule.for_pipeline(bound, [found]), vectors=False)
    trace = traced(bound, program)
    got = dict(zip(INDEX, model.evaluate(np.array([params])).features[0].T, strict=True))
    is_global = np.array([s == "global" for s in trace.space])
    moved, asked = trace.sectors / trace.blocks, trace.requests / trace.blocks
    assert got["num_global_mem_loads_per_block"].sum() == moved[~trace.is_store & is_global].sum()
    assert got["num_global_mem_stores_per_block"].sum() == moved[trace.is_store & is_global].sum()
    assert got["global_requests_per_block"].sum() == asked[is_global].sum()
    assert_backends_agree(bound, program)


@pytest.mark.parametrize("points", [3, 8])
def test_search_finds_it_where_it_coalesces(points: int) -> None:
    """Threads with several points of 8 bytes along x: blocked, a warp's accesses are apart, cyclic, they are not."""
    pipeline = cross((1024, 1024))
    arguments = {"guide": Guide(KernelGuide(points={"x": points})), "cost": "analytical"}
    seconds = {}
    for enabled in (False, True):
        strategy = Beam(SearchSettings(beam_size=4, passes=1, cyclic_distribution=enabled))
        found = schedule(pipeline, {"image": (1024, 1024)}, "h200", strategy=strategy, **arguments)  # type: ignore[arg-type]
        assert is_cyclic(found.schedule.kernels[-1]) == enabled and found.search_result is not None
        seconds[enabled] = found.search_result.ranked[0].seconds
        if enabled and have_nvrtc():
            assert compile_cubin(found.source(), H200.arch).spill_bytes == 0
    assert seconds[True] < seconds[False]


def test_random_schedules_and_mutations_have_some() -> None:
    bound = bound_cross((40, 72))
    drawn = [sample_schedule(bound, H200, np.random.default_rng(seed), varied=True) for seed in range(120)]
    cyclic = [s for s in drawn if any(is_cyclic(k) for k in s.kernels if k.root_funcs == ("out",))]
    assert cyclic
    for found in cyclic[:2]:
        assert_backends_agree(bound, lower(bound, found))
        assert all(print_cuda(k).source for k in lower(bound, found).kernels)
    bound = bound_cross()
    evaluator = KernelEvaluator(bound, H200, AnalyticalModel(H200), SearchSettings())
    mutator, rng = Mutator(evaluator, steps=True), np.random.default_rng(1)
    plain = Schedule.for_pipeline(bound, variants(bound)[:1])
    mutated = [m for _ in range(120) if (m := mutator.mutated(plain, rng)) is not None]
    assert any(is_cyclic(k) for m in mutated for k in m.kernels if k.root_funcs == ("out",))


@pytest.mark.fuzz
@pytest.mark.parametrize("boundary", ["clamped", "constant", "wrapped", "mirrored", "mirrored_without_edge"])
def test_random_kernels_with_cyclic_points_agree(boundary: str) -> None:
    """Interpreter, C and emulator give the same bits, with all boundary conditions."""
    bound = bound_cross((37, 45), boundary)
    tried = 0
    for seed in range(200):
        found = sample_schedule(bound, H200, np.random.default_rng(seed), varied=True)
        if any(is_cyclic(k) for k in found.kernels if k.root_funcs == ("out",)):
            assert_backends_agree(bound, lower(bound, found))
            tried += 1
    assert tried > 5


@pytest.mark.parametrize(("seconds", "is_tried"), [(1e-9, False), (1.0, True)])
def test_tiles_are_tried_where_cyclic_points_come_near(seconds: float, is_tried: bool) -> None:
    bound = bound_cross((1024, 1024))
    tile = member(block("out", 2), "yx", image_clamped="tx=16 ty=10 sx=5")
    plain = kernel(bound, [root("out", "by=128 bx=16 tx=16 ty=8 sx=4")], [tile])
    search = CyclicDistributionSearch(bound, H200, AnalyticalModel(H200), SearchSettings())
    found = search.improved(Schedule(bound.pipeline.hash, (plain,)), {plain: seconds})
    assert (found is not None) == is_tried
    descended = search._retiler.evaluator.counts.kernels > 3  # the variants alone
    assert descended == is_tried
