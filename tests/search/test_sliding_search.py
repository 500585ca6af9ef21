"""Sliding windows in the search: sites, tilings, and results that agree with the backends."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import replace

import pytest

from autosched import Func, Input, Pipeline, RDom, Var, float32
from autosched.analysis.bind import bind
from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.codegen.cuda import print_cuda
from autosched.lower.program import lower
from autosched.runtime.compile.nvrtc import compile_cubin, have_nvrtc
from autosched.schedule.legality.validate import kernel_violations, violations
from autosched.schedule.types import Schedule
from autosched.search.cost.gpu_analytical import AnalyticalModel
from autosched.search.cost.protocol import rounded_cost
from autosched.search.refine.sliding_window.sliding_search import REFINE_WITHIN, SlidingWindowSearch
from autosched.search.refine.sliding_window.sliding_sites import SlidingWindowSite, sliding_window_sites
from autosched.search.refine.sliding_window.walk_search import WalkDirection, WalkTilingSearch, step_counts_of
from autosched.search.settings import PAPER, SearchSettings
from autosched.search.strategies.compute_root import schedule_roots
from autosched.search.strategies.protocol import Beam
from autosched.target import get_target
from tests.lower.run_backends import assert_backends_agree
from tests.schedule.building import block, kernel, member, root, schedule

H200 = get_target("h200")
z, y, x = Var("z"), Var("y"), Var("x")
QUICK = SearchSettings(beam_size=2, passes=1, refine=0, mainloops=False)


def sweeps(
    planes: int = 64, count: int = 2, size: tuple[int, int] = (40, 72), *, clamped: bool = False
) -> BoundPipeline:  # fmt: skip
    """Return a chain of stages, each a three-dimensional stencil of the one before."""
    last: Func | Input = Input("volume", float32, 3)
    for k in range(1, count + 1):
        ranges = {} if k == 1 else {"z": (0, planes), "y": (0, size[0]), "x": (0, size[1])}
        edge = last.clamped(**ranges) if k == 1 or clamped else last
        f = Func(f"sweep_{k}" if k < count else "out")
        near = edge[z - 1, y, x] + edge[z + 1, y, x] + edge[z, y - 1, x] + edge[z, y + 1, x]
        f[z, y, x] = edge[z, y, x] * 0.5 + 0.1 * (near + edge[z, y, x - 1] + edge[z, y, x + 1])
        last = f
    over = last.over(z=(0, planes), y=(0, size[0]), x=(0, size[1]))
    return bind(Pipeline(over, name="sweeps"), {"volume": (planes, *size)})


def slider(bound: BoundPipeline) -> SlidingWindowSearch:
    return SlidingWindowSearch(bound, H200, AnalyticalModel(H200), QUICK)


def with_windows(bound: BoundPipeline) -> Schedule:
    """Return the baseline with a sliding window at every site."""
    roots = schedule_roots(bound, H200)
    found = slider(bound).improved(roots, dict.fromkeys(roots.kernels, 1.0))
    assert found is not None and 0 < found[1] < len(roots.kernels)
    return found[0]


def test_producer_is_fused_into_the_sliding_window_kernel() -> None:
    bound = sweeps()
    found = with_windows(bound)
    assert not violations(bound, found, H200)
    (kernel,) = found.kernels
    assert kernel.is_sliding_window and [m.func for m in kernel.fused] == ["sweep_1"]
    (loop,) = kernel.mainloops
    assert loop.dim in ("z", "y")  # neighbours in x are neighbours in memory
    program = lower(bound, found)
    assert_backends_agree(bound, program)
    if have_nvrtc():
        assert compile_cubin(print_cuda(program.kernels[0]).source, H200.arch).code


def named(bound: BoundPipeline) -> list[SlidingWindowSite]:
    return list(sliding_window_sites(bound, schedule_roots(bound, H200)))


def test_sites_that_differ_in_names_alone_are_searched_once() -> None:
    bound = sweeps(planes=96, count=4)
    found = named(bound)
    assert [p.fused for p in found] == [("sweep_1",), ("sweep_2",), ("sweep_3",)]
    signatures = [p.signature(bound) for p in found]
    assert signatures[1] != signatures[0] and len(signatures[1]) == len(signatures[2])
    own = slider(bound)
    best = own.best(found[1])
    assert best is not None
    same = own.best(SlidingWindowSite(found[1].root, found[1].fused, found[1].inlined, (7,)), now=best.seconds / 2)
    assert same is best  # from the cache


def test_search_ends_where_tilings_of_one_step_are_too_slow() -> None:
    bound = sweeps(planes=96, count=6, clamped=True)
    site, alike = next((p, q) for p, q in itertools.pairwise(named(bound)) if p.signature(bound) == q.signature(bound))
    best = slider(bound).best(site)
    assert best is not None
    own = slider(bound)
    assert own.best(site, now=best.seconds / (2 * REFINE_WITHIN)) is None
    found = own.best(alike, now=10 * best.seconds)  # the first worthwhile site, though not the first one searched
    assert found is not None and rounded_cost(found.seconds) == rounded_cost(best.seconds)
    assert found.kernel.root_funcs == (alike.root.func,) and not kernel_violations(bound, found.kernel, H200)
    again = own.best(site, now=10 * best.seconds)
    assert again is not None and again.kernel == best.kernel


def test_inlined_funcs_that_load_the_most_are_buffered_first() -> None:
    image, f, g, out = Input("image", float32, 2), Func("f"), Func("g"), Func("out")
    f[y, x] = image[y, x] + image[y, x + 1]
    g[y, x] = image[y, x] * image[y, x + 2] + image[y + 1, x]
    out[y, x] = f[y, x] + f[y + 1, x] + g[y, x] + g[y + 1, x]
    bound = bind(Pipeline(out.over(y=(0, 64), x=(0, 64)), name="two"), {"image": (66, 66)})
    one = kernel(bound, [root("out", "by=64 bx=1 tx=64")], (), ["f", "g"])
    sites = {n: list(sliding_window_sites(bound, schedule(bound, one), n)) for n in (None, 2, 1, 0)}
    assert [p.fused for p in sites[None]] == [p.fused for p in sites[2]] == [("f",), ("g",)]
    assert [p.fused for p in sites[1]] == [("g",)]
    assert not sites[0]


def test_a_sample_of_tilings_shows_that_a_direction_is_too_slow() -> None:
    bound = sweeps()
    (site,) = sliding_window_sites(bound, schedule_roots(bound, H200))
    ((dim, windows), *_) = site.sliding_dims(bound)

    def searched(limit: float) -> WalkTilingSearch:
        direction = WalkDirection(dim, 4, windows)
        model = AnalyticalModel(H200)
        return WalkTilingSearch(bound, H200, model, QUICK, site, direction, lambda: False, limit)

    whole, sample, enough = (searched(limit) for limit in (math.inf, 1e-12, 1.0))
    assert 0 < len(sample.tiled) < len(whole.tiled) / 3
    assert set(sample.tiled) <= set(whole.tiled)
    assert sample.rough_seconds >= whole.rough_seconds
    assert enough.tiled == whole.tiled


def test_a_sampled_direction_is_searched_again_for_slower_kernels() -> None:
    bound = sweeps()
    (site,) = sliding_window_sites(bound, schedule_roots(bound, H200))
    search = slider(bound)
    assert search.best(site, 1e-12) is None
    assert search.best(site, 1.0) == slider(bound).best(site, 1.0) is not None


def test_site_without_the_dimension_of_a_similar_site_is_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sites with equal signatures share tilings, but not the dimensions that a window can slide along."""
    bound = sweeps(planes=96, count=6, clamped=True)
    own = slider(bound)
    site, alike = next((p, q) for p, q in itertools.pairwise(named(bound)) if p.signature(bound) == q.signature(bound))
    best = own.best(site)
    assert best is not None
    sliding_dims = SlidingWindowSite.sliding_dims

    def elsewhere(self: SlidingWindowSite, bound: BoundPipeline) -> Iterator[tuple[str, frozenset[str]]]:
        found = sliding_dims(self, bound)
        return found if self != alike else (w for w in found if w[0] != best.tiled.direction.dim)

    monkeypatch.setattr(SlidingWindowSite, "sliding_dims", elsewhere)
    assert own.best(alike) is None


@pytest.mark.parametrize("broken", ["output", "update", "short", "read twice"])
def test_pipelines_without_sliding_windows(broken: str) -> None:
    volume, first, out = Input("volume", float32, 3), Func("first"), Func("out")
    first[z, y, x] = volume[z, y, x] + 1
    out[z, y, x] = first[z, y, x] + first[z + 1, y, x]
    if broken == "update":
        r = RDom("r", k=4)
        out[z, y, x] += volume[z, y, r.k]
    planes = 8 if broken == "short" else 64
    outputs = [out.over(z=(0, planes), y=(0, 8), x=(0, 64))]
    if broken in ("output", "read twice"):
        other = first if broken == "output" else Func("other")
        if broken == "read twice":
            other[z, y, x] = first[z, y, x] * 2
        outputs.append(other.over(z=(0, planes), y=(0, 8), x=(0, 64)))
    bound = bind(Pipeline(outputs, name="broken"), {"volume": (66, 8, 64)})
    roots = schedule_roots(bound, H200)
    own = slider(bound)
    assert all(own.best(p) is None for p in sliding_window_sites(bound, roots))


def test_search_uses_sliding_windows_where_predicted_faster() -> None:
    bound = sweeps(planes=512, size=(512, 512))
    settings = SearchSettings(beam_size=2, passes=1, refine=0, max_inlined_calls=10)
    found = Beam(settings).search(bound, H200)
    without = Beam(replace(settings, sliding_windows=False)).search(bound, H200)
    assert any(k.is_sliding_window for k in found.ranked[0].schedule.kernels)
    assert rounded_cost(found.ranked[0].seconds) < rounded_cost(without.ranked[0].seconds)
    assert not violations(bound, found.ranked[0].schedule, H200)
    assert not PAPER.sliding_windows


def test_step_counts_include_serial_streaming() -> None:
    assert step_counts_of(512, 1) == [8, 16, 32, 64, 128, 512] and step_counts_of(512, 8) == [8, 16, 32, 64]
    assert step_counts_of(64, 4) == [2, 8, 16] and step_counts_of(15, 1) == [8, 15] and step_counts_of(1, 1) == []


def test_func_read_by_two_kernels_through_an_inlined_func_stays_at_root() -> None:
    """The Func's only consumer is inlined in both kernels."""
    volume, first, between, second, out = Input("volume", float32, 3), *map(Func, ("first", "between", "second", "out"))
    first[z, y, x] = volume[z, y, x] + volume[z + 1, y, x]
    between[z, y, x] = first[z, y, x] * 2
    second[z, y, x] = between[z, y, x] + between[z + 1, y, x]
    out[z, y, x] = between[z + 1, y, x] - second[z, y, x]
    outputs = [out.over(z=(0, 64), y=(0, 8), x=(0, 64)), second.over(z=(0, 64), y=(0, 8), x=(0, 64))]
    bound = bind(Pipeline(outputs, name="both"), {"volume": (67, 8, 64)})
    roots = [root(f, "bz=64 by=8 bx=1 tx=64") for f in ("first", "second", "out")]
    first_root = root("first", "bz=65 by=8 bx=1 tx=64")
    apart = schedule(bound, *(kernel(bound, [r], (), ["between"]) for r in (first_root, *roots[1:])))
    assert not violations(bound, apart, H200)
    assert not [p for p in sliding_window_sites(bound, apart) if "first" in p.fused]
    inside = kernel(bound, [roots[1]], [member(block("second", 3), "zyx", first="tx=64 sz=2")], ["between"])
    wrong = schedule(bound, inside, kernel(bound, [roots[2]], (), ["between"]))
    assert violations(bound, wrong, H200) == [
        "kernel 1 reads first, which kernel 0 does not write to global memory; "
        "materialise it there or compute it at root"
    ]


def test_further_sites_of_a_root_that_is_far_behind_are_not_searched() -> None:
    bound = sweeps()
    roots = schedule_roots(bound, H200)
    search = slider(bound)
    site = next(iter(sliding_window_sites(bound, roots)))
    search._first_seconds[site.root] = 1.5
    assert search.best(site, 1.0) is None and not search._searches
    assert search.best(site, 1.2) is not None
