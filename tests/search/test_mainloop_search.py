"""Mainloops in the search: sites, step lengths, tilings, and results that agree with the backends."""

from __future__ import annotations

import numpy as np
import pytest

from autosched import Func, Input, Pipeline, RDom, Var, float32
from autosched import sum as sum_over
from autosched.analysis.bind import bind
from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.apps import get_app
from autosched.codegen.cuda import print_cuda
from autosched.featurize.schema import INDEX
from autosched.featurize.tables.pipeline_tables import BatchEvaluation
from autosched.lower.program import lower
from autosched.runtime.compile.nvrtc import compile_cubin, have_nvrtc
from autosched.schedule.legality.validate import kernel_violations, violations
from autosched.schedule.policy import MAX_UNROLL
from autosched.schedule.types import Schedule
from autosched.search.cost.gpu_analytical import AnalyticalModel, Floats
from autosched.search.explain import explain
from autosched.search.refine.mainloop.mainloop_search import MainloopSearch
from autosched.search.refine.mainloop.mainloop_sites import mainloop_sites, step_lengths
from autosched.search.refine.mainloop.step_search import StepTilingSearch, TransferMode
from autosched.search.refine.mainloop.step_tilings import points_loaded
from autosched.search.settings import SearchSettings
from autosched.search.strategies.compute_root import schedule_roots
from autosched.search.strategies.protocol import Beam
from autosched.search.tune.autotune.batches import predicted_seconds
from autosched.target import get_target
from tests.lower.run_backends import assert_backends_agree
from tests.schedule.mainloop_cases import product

H200 = get_target("h200")
y, x = Var("y"), Var("x")


def streamer(bound: BoundPipeline) -> MainloopSearch:
    return MainloopSearch(bound, H200, AnalyticalModel(H200), SearchSettings())


def in_steps(bound: BoundPipeline) -> Schedule:
    """Return the baseline schedule with a mainloop at every site."""
    roots = schedule_roots(bound, H200)
    found = streamer(bound).improved(roots, dict.fromkeys(roots.kernels, 1.0))
    assert found is not None
    schedule, seconds = found
    assert 0 < seconds < 1
    return schedule


def test_product_and_its_epilogue_are_one_site() -> None:
    bound = product(64, 96, 48)
    (site,) = mainloop_sites(bound, schedule_roots(bound, H200))
    assert (site.host.func, site.host.number, site.reader) == ("dot", 1, "out")
    assert set(site.sources) == {"a", "b"} and len(site.kernels) == 2


def test_sums_read_at_other_points_are_materialised() -> None:
    a, dot, out = Input("a", float32, 2), Func("dot"), Func("out")
    r = RDom("r", k=32)
    dot[y, x] = 0.0
    dot[y, x] += a[y, x + r.k]
    out[y, x] = dot[y, 63 - x]
    bound = bind(Pipeline(out.over(y=(0, 64), x=(0, 64)), name="turned"), {"a": (64, 96)})
    (site,) = mainloop_sites(bound, schedule_roots(bound, H200))
    assert (site.host.func, site.reader, len(site.kernels)) == ("dot", None, 1)


def test_two_sums_with_one_reader() -> None:
    """The first sum that gains replaces the reader's kernel; the second one is unchanged."""
    a, r = Input("a", float32, 2), RDom("r", k=256)
    some, squares, out = Func("some"), Func("squares"), Func("out")
    some[y, x] = squares[y, x] = 0.0
    some[y, x] += a[y + r.k, x]
    squares[y, x] += a[y, x + r.k] * a[y, x + r.k]
    out[y, x] = some[y, x] / squares[y, x]
    bound = bind(Pipeline(out.over(y=(0, 64), x=(0, 96)), name="quotient"), {"a": (320, 352)})
    roots = schedule_roots(bound, H200)
    one, other = mainloop_sites(bound, roots)
    assert one.reader == other.reader == "out"
    assert set(one.kernels) & set(other.kernels)
    found = streamer(bound).improved(roots, dict.fromkeys(roots.kernels, 1.0))
    assert found is not None
    schedule, seconds = found
    assert 1 < seconds < 2, "two of three kernels have become one"
    assert sum(k.mainloop_at is not None for k in schedule.kernels) == 1
    assert_backends_agree(bound, lower(bound, schedule))


def test_scans_and_short_sums_are_no_sites() -> None:
    a, scan, out = Input("a", float32, 2), Func("scan"), Func("out")
    r = RDom("r", x=(1, 63))
    scan[y, x] = a[y, x]
    scan[y, r.x] = scan[y, r.x - 1] + scan[y, r.x]
    short = RDom("short", k=5)
    out[y, x] = sum_over(scan[y, x] * a[y, x + short.k], over=short, name="few")
    bound = bind(Pipeline(out.over(y=(0, 16), x=(0, 64)), name="left"), {"a": (16, 80)})
    assert list(mainloop_sites(bound, schedule_roots(bound, H200))) == []


@pytest.mark.parametrize(
    ("app", "expected"),
    [
        ("sgemm", [{"r.k": 9}, {"r.k": 15}]),  # of 45 terms
        ("conv_layer", [{"r.y": 1, "r.x": 1}, {"r.y": 1}]),  # of 3 x 3 x 7
        ("conv_layer_nchw", [{"r.c": 1}]),  # of 7 x 3 x 3
    ],
)
def test_steps_divide_the_reduction(app: str, expected: list[dict[str, int]]) -> None:
    one = get_app(app)
    bound = bind(one.build(), one.shapes(one.small_sizes))
    (site,) = mainloop_sites(bound, schedule_roots(bound, H200))
    assert [dict(terms) for terms in step_lengths(bound.stage(*site.host))] == expected


@pytest.mark.parametrize("app", ["product", "sgemm", "conv_layer", "conv_layer_nchw"])
def test_results_are_right(app: str) -> None:
    if app == "product":
        bound = product(161, 200, 48)
    else:
        one = get_app(app)
        bound = bind(one.build(), one.shapes(one.small_sizes))
    schedule = in_steps(bound)
    assert violations(bound, schedule, H200) == []
    (kernel,) = (k for k in schedule.kernels if k.mainloop_at is not None)
    assert len(kernel.root_funcs) == 2 and len(kernel.cache_reads) == 2
    program = lower(bound, schedule)
    assert_backends_agree(bound, program)
    if have_nvrtc():
        for k in program.kernels:
            assert compile_cubin(print_cuda(k).source, H200.arch).code


class FewRegisters(AnalyticalModel):
    """Adds ``weight`` seconds for each register that holds loads; a negative weight favours such kernels."""

    weight = 1e-8

    @property
    def reads(self) -> frozenset[str]:
        return super().reads | {"global_registers_per_block"}

    def cost(self, found: BatchEvaluation) -> Floats:
        registers = found.features[:, :, INDEX["global_registers_per_block"]].sum(axis=1)
        return np.maximum(super().cost(found) + self.weight * registers, 1e-9)


class ManyRegisters(FewRegisters):
    weight = -1e-8


@pytest.mark.parametrize(("device", "model", "past"), [
    ("h200", FewRegisters, True), ("h200", ManyRegisters, False), ("t4", FewRegisters, False),
])  # fmt: skip
def test_async_copies_are_used_where_predicted_faster(device: str, model: type[FewRegisters], past: bool) -> None:
    target, bound = get_target(device), product(161, 200, 48)
    roots = schedule_roots(bound, target)
    found = MainloopSearch(bound, target, model(target), SearchSettings()).improved(
        roots, dict.fromkeys(roots.kernels, 1.0)
    )
    assert found is not None
    (kernel,) = (k for k in found[0].kernels if k.mainloop_at is not None)
    assert any(m.asynchronous for m in kernel.fused) is past
    assert violations(bound, found[0], target) == []
    assert_backends_agree(bound, lower(bound, found[0]))


def column_sums(rows: int, columns: int) -> BoundPipeline:
    """Return sums over the rows of an array: every step reads one row of the cache read."""
    a, total = Input("a", float32, 2), Func("total")
    r = RDom("r", y=rows)
    total[x] = 0.0
    total[x] += a[r.y, x]
    return bind(Pipeline(total.over(x=(0, columns)), name="columns"), {"a": (rows, columns)})


def test_steps_of_a_long_reduction() -> None:
    stage = column_sums(3 << 38, 64).stage("total", 1)
    assert [dict(terms) for terms in step_lengths(stage)] == [{"r.y": n} for n in (8, 16, 32)]


def searches(bound: BoundPipeline, *, shared: bool) -> list[StepTilingSearch]:
    """Return a tiled search for each step length and transfer mode; those of one length share features or not."""
    (site,) = mainloop_sites(bound, schedule_roots(bound, H200))
    found = []
    for terms in step_lengths(bound.stage(*site.host)):
        same: StepTilingSearch | None = None
        for transfer in TransferMode:
            like = same if shared else None
            one = StepTilingSearch(bound, H200, AnalyticalModel(H200), SearchSettings(), site, terms, transfer, like)
            one.tile()
            same = same or one
            found.append(one)
    return found


@pytest.mark.parametrize("bound", [product(161, 200, 48), column_sums(96, 4096)], ids=["product", "columns"])
def test_refined_kernels_are_legal(bound: BoundPipeline) -> None:
    found = [(search.transfer, s.kernel) for search in searches(bound, shared=True) for s in search.refined()]
    assert {transfer for transfer, _ in found} == set(TransferMode)
    for transfer, kernel in found:
        assert kernel_violations(bound, kernel, H200) == []
        assert kernel.double_buffered is (transfer is not TransferMode.SINGLE_BUFFER)


def test_shared_features_do_not_change_costs() -> None:
    bound = product(161, 200, 48)
    for one, other in zip(searches(bound, shared=True), searches(bound, shared=False), strict=True):
        assert one.tiled == other.tiled
        known, expected = one.evaluator.verdicts(one.sketch), other.evaluator.verdicts(other.sketch)
        assert known == expected


def test_double_buffered_loads_fit_in_registers() -> None:
    bound = product(161, 200, 48)
    for search in searches(bound, shared=True):
        among = search.roots
        search.tile(among)
        loaded = points_loaded(search.evaluator, search.enumerator, search.sketch, among)
        few = [p for p, n in zip(among, loaded, strict=True) if (n <= MAX_UNROLL).all()]
        assert set(search.roots) == set(few if search.transfer is TransferMode.DOUBLE_BUFFER else among)


def test_beam_search_uses_mainloops_where_predicted_faster() -> None:
    bound = product(1024, 1024, 1024)
    settings = SearchSettings(beam_size=2, passes=1, refine=0)
    found, without = (
        Beam(s).search(bound, H200)
        for s in (settings, SearchSettings(beam_size=2, passes=1, refine=0, mainloops=False))
    )
    assert any(k.mainloop_at is not None for k in found.best.kernels)
    assert found.ranked[0].seconds < without.ranked[0].seconds
    (report,) = explain(found)
    assert report.seconds == pytest.approx(found.ranked[0].seconds, rel=1e-3)
    evaluator = found.ranked[0].evaluator
    assert evaluator is not None
    assert predicted_seconds(evaluator, found.best) == pytest.approx(found.ranked[0].seconds, rel=1e-3)
