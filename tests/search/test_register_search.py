"""Windows in registers in the search: the default search finds them, and results agree with the backends."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from autosched.analysis.bind import bind
from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.apps import get_app
from autosched.codegen.cuda import print_cuda
from autosched.lower.program import lower
from autosched.runtime.compile.nvrtc import compile_cubin, have_nvrtc
from autosched.schedule.legality.validate import violations
from autosched.schedule.types import Kernel, Level, LoopKind, Schedule
from autosched.search.cost.gpu_analytical import AnalyticalModel
from autosched.search.datasets.mutations import Mutator
from autosched.search.evaluate.evaluator import KernelEvaluator
from autosched.search.refine.sliding_window.register_search import RegisterWindowSearch
from autosched.search.refine.sliding_window.time_bound import least_seconds
from autosched.search.settings import SearchSettings
from autosched.search.strategies.compute_root import schedule_roots
from autosched.search.tune.one_shot import find_schedule
from autosched.search.tune.request import Request
from autosched.target import get_target
from tests.lower.run_backends import assert_backends_agree
from tests.search.test_sliding_search import sweeps

H200 = get_target("h200")
MODEL = AnalyticalModel(H200)


def in_registers(kernel: Kernel) -> list[str]:
    return [m.func for m in kernel.fused if m.at.level is Level.MAINLOOP and m.private]


def improved(bound: BoundPipeline, *, late: bool = False) -> tuple[Schedule, float] | None:
    roots = schedule_roots(bound, H200)
    search = RegisterWindowSearch(bound, H200, MODEL, SearchSettings(), lambda: late)
    return search.improved(roots, dict.fromkeys(roots.kernels, 1.0))


def test_two_sweeps_of_the_7_point_smoother() -> None:
    """The default search, without guidance, at the paper's size; limits are those of hand-written code."""
    bound = bind(get_app("smoother7pt").configure({"T": 2})[0], {"in": (512, 512, 512)})
    schedule = find_schedule(bound, H200, Request(reuse=False)).schedule
    (one,) = schedule.kernels
    assert len(in_registers(one)) == 2
    (code,) = lower(bound, schedule).kernels
    assert code.shared_bytes <= 24 << 10
    if have_nvrtc():
        printed = print_cuda(code)
        resources = compile_cubin(printed.source, H200.arch, name=printed.name).kernels[printed.name]
        warps = int(np.prod(printed.block)) // 32
        resident = min(65536 // (-(-resources.registers // 8) * 8 * 32 * warps), 64 // warps)
        assert not resources.spill_bytes and resident * warps >= 32


@pytest.mark.parametrize("clamped", [False, True])
def test_results_agree(clamped: bool) -> None:
    bound = sweeps(40, 2, (20, 36), clamped=clamped)
    found = improved(bound)
    assert found is not None
    schedule, seconds = found
    assert seconds < 2.0 and not violations(bound, schedule, H200)
    assert any(in_registers(k) for k in schedule.kernels)
    assert_backends_agree(bound, lower(bound, schedule))


def test_equal_sites_are_searched_once() -> None:
    bound = sweeps(64, 4, (40, 72), clamped=True)
    roots = schedule_roots(bound, H200)
    search = RegisterWindowSearch(bound, H200, MODEL, SearchSettings())
    assert search.improved(roots, dict.fromkeys(roots.kernels, 1.0)) is not None
    assert 0 < len(search._choices) < len(search._kernels)


def test_the_search_ends_with_the_time_budget() -> None:
    assert improved(sweeps(64, 2), late=True) is None


def test_sites_that_cannot_gain_are_not_searched() -> None:
    """By a site with the same root that is far behind its kernels, and by a bound of the time."""
    bound = sweeps(64, 2, (40, 72), clamped=True)
    roots = schedule_roots(bound, H200)
    search = RegisterWindowSearch(bound, H200, MODEL, SearchSettings())
    costs = dict.fromkeys(roots.kernels, 1e-9)
    assert search.improved(roots, costs) is None and not search._choices
    site = next(iter(search._sites(roots)))
    bytes_ = 2 * 64 * 40 * 72 * 4
    least = least_seconds(bound, site, 64, H200)
    assert least > bytes_ / H200.dram_bytes_per_s and least > least_seconds(bound, site, 8, H200)
    found = search.best(site, 1.0)
    assert found is not None and found.seconds >= least_seconds(bound, site, 8, H200)
    far = replace(site, inlined=site.inlined | {"another"})
    search._first_seconds[site.root] = 2.0
    assert search.best(far, 1.0) is None and search.best(site, 1.0) is found


def test_mutations_move_windows_to_registers_and_back() -> None:
    bound = sweeps(64, 2)
    found = improved(bound)
    assert found is not None
    schedule = found[0]
    mutator = Mutator(KernelEvaluator(bound, H200, MODEL, SearchSettings()), steps=True)
    rng = np.random.default_rng(0)
    counts = set()
    for _ in range(60):
        changed = mutator.mutated(schedule, rng)
        if changed is not None and not violations(bound, changed, H200):
            counts.add(sum(len(in_registers(k)) for k in changed.kernels if k.is_sliding_window))
    before = sum(len(in_registers(k)) for k in schedule.kernels)
    assert before in counts and len(counts) > 1


def test_the_root_has_the_threads_that_the_halo_leaves() -> None:
    found = improved(sweeps(64, 2, (128, 128)))
    assert found is not None
    one = next(k for k in found[0].kernels if in_registers(k))
    threads = {p.dim: p.extent for p in one.roots[0].tiling.of_kind(LoopKind.THREAD)}
    widest = max((m.tilings[0].of_kind(LoopKind.THREAD) for m in one.fused), key=lambda loops: loops[0].extent)
    assert widest[0].extent % 32 == 0 and widest[0].extent > threads["x"]
