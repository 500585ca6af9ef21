"""Mainloops whose steps compute producers: their choice, legality, results and features."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from autosched import Expr, Func, Input, Pipeline, RDom, Var, cast, exp, float32, int32, uint8
from autosched import sum as sum_over
from autosched.analysis.bind import bind
from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.codegen.cuda import print_cuda
from autosched.featurize.featurizer import Featurizer
from autosched.featurize.schema import INDEX
from autosched.lang.dtypes import DType
from autosched.lower.program import lower
from autosched.measure.simulated.count import count_kernel
from autosched.runtime.compile.nvrtc import compile_cubin, have_nvrtc
from autosched.schedule.legality.validate import kernel_violations, violations
from autosched.schedule.types import Kernel, Level, Schedule, StageId
from autosched.search.cost.gpu_analytical import AnalyticalModel
from autosched.search.datasets.mutations import Mutator
from autosched.search.evaluate.evaluator import KernelEvaluator
from autosched.search.refine.improver import replace_kernels
from autosched.search.refine.mainloop.mainloop_search import MainloopSearch
from autosched.search.refine.mainloop.mainloop_sites import TERMS_OF_COMPUTING_STEP, mainloop_sites, step_lengths
from autosched.search.refine.mainloop.step_cost import evaluated
from autosched.search.refine.mainloop.step_producers import StepProducers, step_producers
from autosched.search.refine.mainloop.step_search import StepTilingSearch, TransferMode
from autosched.search.settings import SearchSettings
from autosched.search.strategies.compute_root import schedule_roots
from autosched.target import get_target
from tests.featurize.random_kernels import bound_app
from tests.lower.run_backends import assert_backends_agree

H200 = get_target("h200")
SETTINGS = SearchSettings()
c, d, y, x = Var("c"), Var("d"), Var("y"), Var("x")


def weighted(
    dtype: DType = float32, taps: int = 3, terms: tuple[int, ...] = (5,), width: int = 40, channels: int = 3,
    *, border: int = 0,
) -> BoundPipeline:  # fmt: skip
    """Return sums over shifts of an image, weighted by windows of the squared difference of both.

    With ``border`` elements more than the sums have, the image needs no boundary condition.
    """
    image, total, out = Input("image", dtype, 2), Func("total"), Func("out")
    edge = image if border else image.clamped()

    def wide(row: Expr, column: Expr) -> Expr:
        return cast(float32 if dtype == float32 else int32, edge[row, column])

    shift = RDom("s", **dict(zip("vw", terms, strict=False)))
    shifts = [shift.v, *([shift.w] if len(terms) > 1 else [])]
    names = [Var(f"d{k}") for k in range(len(terms))]
    difference, rows, weight = Func("difference"), Func("rows"), Func("weight")
    step = wide(y, x) - wide(y + names[-1], x + names[0])
    difference[*names, y, x] = step * step
    rows[*names, y, x] = sum(difference[*names, y + k, x] for k in range(taps))
    window = sum(rows[*names, y, x + k] for k in range(taps))
    weight[*names, y, x] = exp(window * -0.5) if dtype == float32 else window // 3
    total[c, y, x] = cast(float32 if dtype == float32 else int32, 0)
    total[c, y, x] += weight[*shifts, y, x] * (wide(y, x + shift.v) + c)
    out[c, y, x] = total[c, y, x] - total[0, y, x]
    height = 24
    pipeline = Pipeline(out.over(c=(0, channels), y=(0, height), x=(0, width)), name="weighted")
    return bind(pipeline, {"image": (height + border, width + border)})


def step_kernels(bound: BoundPipeline) -> list[tuple[Kernel, Schedule]]:
    """Return a kernel for each choice of producers and step length, and the baseline with it."""
    roots = schedule_roots(bound, H200)
    kernels = []
    for site in (s for s in mainloop_sites(bound, roots) if s.computed):
        for terms in step_lengths(bound.stage(*site.host), TERMS_OF_COMPUTING_STEP):
            search = StepTilingSearch(
                bound, H200, AnalyticalModel(H200), SETTINGS, site, terms, TransferMode.SINGLE_BUFFER
            )
            search.tile()
            kernel = search.kernel(search.sketch, search.tiled[0])
            before = [roots.kernels[k] for k in site.kernels]
            kernels.append((kernel, Schedule.for_pipeline(bound, replace_kernels(roots.kernels, before, kernel))))
    return kernels


def test_choices_of_a_denoiser() -> None:
    """Non-local means: differences, and their windows along both dimensions, as in the schedule of an expert."""
    bound = bound_app("nl_means")
    weights, windows = step_producers(bound, StageId("total", 1))
    assert weights == StepProducers(
        ("distance", "blur_y", "weight"), frozenset({"input_clamped", "difference", "blur", "with_one"})
    )
    assert windows.computed == ("distance", "blur_y", "blur") and "weight" in windows.inlined


def test_terms_that_share_their_producers_have_no_steps() -> None:
    """Rows that do not depend on the terms are computed once for all of them."""
    image, rows, out = Input("image", float32, 2), Func("rows"), Func("out")
    rows[y, x] = image[y, x] + image[y, x + 1]
    r = RDom("r", k=32)
    out[c, y, x] = sum_over(rows[y, x] * cast(float32, r.k + c), over=r)
    bound = bind(Pipeline(out.over(c=(0, 3), y=(0, 16), x=(0, 32))), {"image": (16, 33)})
    reduction = next(f.name for f in bound.funcs.values() if f.stages[-1].is_update)
    assert list(step_producers(bound, StageId(reduction, 1))) == []


def test_producers_with_other_consumers_are_not_computed_in_steps() -> None:
    image, table, out = Input("image", float32, 2), Func("table"), Func("out")
    table[d, y, x] = image[y, x] * image[y, x + d]
    r = RDom("r", k=8)
    total = sum_over(table[r.k, y, x + c], over=r, name="total")
    out[c, y, x] = total * table[0, y, x]
    bound = bind(Pipeline(out.over(c=(0, 3), y=(0, 16), x=(0, 32))), {"image": (16, 64)})
    assert list(step_producers(bound, StageId("total", 1))) == []


@pytest.mark.parametrize(
    ("dtype", "taps", "terms", "width", "channels"),
    [(float32, 3, (5,), 40, 3), (float32, 2, (3, 4), 33, 2), (int32, 5, (4,), 31, 2), (uint8, 3, (2, 7), 64, 4)],
)
def test_results_are_right(dtype: DType, taps: int, terms: tuple[int, ...], width: int, channels: int) -> None:
    bound = weighted(dtype, taps, terms, width, channels)
    kernels = step_kernels(bound)
    assert kernels
    for kernel, schedule in kernels:
        assert sum(m.at.level is Level.MAINLOOP for m in kernel.fused) >= 2
        assert not kernel_violations(bound, kernel, H200)
        program = lower(bound, schedule)
        assert_backends_agree(bound, program)
        if have_nvrtc():
            for code in program.kernels:
                compile_cubin(print_cuda(code).source, "sm_90")


def test_features_match_the_code() -> None:
    """Blocks of equal size without boundary: counted transactions of all steps are the features'."""
    bound = weighted(width=64, border=16)
    for kernel, schedule in step_kernels(bound):
        features = evaluated(Featurizer(bound, H200), kernel).batch_evaluation.features[0]
        code = lower(bound, schedule).kernels[schedule.kernels.index(kernel)]
        work = count_kernel(code)
        assert features[:, INDEX["shared_requests_per_block"]].sum() == work.total("shared_requests")
        assert features[:, INDEX["num_global_mem_stores_per_block"]].sum() == work.total("store_sectors")
        requests = work.total("load_requests") + work.total("store_requests")
        assert features[:, INDEX["global_requests_per_block"]].sum() == requests
        # One step represents all; rows of other steps begin at other elements of a sector.
        sectors = features[:, INDEX["num_global_mem_loads_per_block"]].sum()
        assert work.total("load_sectors") == pytest.approx(sectors, rel=0.1)


def test_slower_steps_are_not_refined() -> None:
    """A site far behind its present kernels has no kernel; with enough time it has one."""
    bound = weighted()
    site = next(s for s in mainloop_sites(bound, schedule_roots(bound, H200)) if s.computed)
    search = MainloopSearch(bound, H200, AnalyticalModel(H200), SETTINGS)
    assert search.best(site, 1e-9) is None
    best = search.best(site)
    assert best is not None and best.seconds > 0


def test_the_best_site_is_tried_first() -> None:
    """Of sites with common kernels, the one that gains most replaces them."""
    bound = weighted()
    roots = schedule_roots(bound, H200)
    search = MainloopSearch(bound, H200, AnalyticalModel(H200), SETTINGS)
    improved = search.improved(roots, dict.fromkeys(roots.kernels, 1.0))
    assert improved is not None
    changes = [
        best.seconds - len(site.kernels)
        for site in mainloop_sites(bound, roots)
        if (best := search.best(site)) is not None
    ]
    assert improved[1] == pytest.approx(len(roots.kernels) + min(changes))


def test_mutations_keep_the_producers_of_a_step() -> None:
    """Other tiles and step lengths of kernels whose steps compute producers are legal."""
    bound = weighted(terms=(3, 4))
    kernel, parent = step_kernels(bound)[0]
    mutator = Mutator(KernelEvaluator(bound, H200, AnalyticalModel(H200), SETTINGS), steps=True)
    rng = np.random.default_rng(0)
    drawn = [m for _ in range(40) if (m := mutator.mutated(parent, rng)) is not None]
    computed = {m.func for m in kernel.fused}
    steps = [k for m in drawn for k in m.kernels if k.mainloop_at is not None]
    assert len({k.mainloops for k in steps}) > 1 and len({k.roots for k in steps}) > 2
    assert all({m.func for m in k.fused} == computed for k in steps)
    assert all(not violations(bound, m, H200) for m in drawn)
    for schedule in drawn[::10]:
        assert_backends_agree(bound, lower(bound, schedule))


@pytest.mark.fuzz
@pytest.mark.parametrize("seed", range(24))
def test_random_sizes(seed: int) -> None:
    rng = np.random.default_rng(seed)
    terms = tuple(int(n) for n in rng.integers(2, 6, int(rng.integers(1, 3))))
    if np.prod(terms) < 4:
        terms = (4,)
    bound = weighted(
        [float32, int32, uint8][seed % 3],
        int(rng.integers(2, 6)),
        terms,
        int(rng.integers(1, 70)),
        int(rng.integers(2, 5)),
    )
    for _, schedule in itertools.islice(step_kernels(bound), 4):
        assert_backends_agree(bound, lower(bound, schedule))
