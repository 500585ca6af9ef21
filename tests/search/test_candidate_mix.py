"""Candidates to be measured: distinct, legal, the same for a seed, and many of them with kernels in common."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest

from autosched import Func, Input, Pipeline, Var, float32
from autosched.analysis.bind import bind
from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.apps import get_app
from autosched.errors import InputError
from autosched.featurize.sketch.sketch_from_kernel import describe_kernel
from autosched.random_pipelines import random_pipeline
from autosched.random_pipelines.settings import SMALL
from autosched.schedule.legality.validate import violations
from autosched.schedule.types import LoopKind, Schedule
from autosched.search.cost.gpu_analytical import analytical_model
from autosched.search.datasets.candidate_mix import CandidateGenerator, CandidateMix
from autosched.search.evaluate.evaluator import KernelEvaluator
from autosched.search.settings import SearchSettings
from autosched.search.strategies.compute_root import schedule_roots
from autosched.target import Target, get_target

H200, CPU = get_target("h200"), get_target("cpu")
MIX = CandidateMix(beam=1, greedy=2, states=2, legal=2, mutations=6)


def pipelines() -> list[BoundPipeline]:
    app = get_app("harris")
    return [bind(app.build(), app.shapes(app.small_sizes), {}), random_pipeline(3, SMALL).bind()]


@pytest.mark.parametrize("target", [H200, CPU], ids=["h200", "cpu"])
@pytest.mark.parametrize("number", [0, 1])
def test_candidates_are_distinct_and_legal_and_the_baseline_comes_first(number: int, target: Target) -> None:
    bound = pipelines()[number]
    drawn = list(CandidateGenerator(bound, target, 0).draw(MIX))
    assert drawn[0] == ("roots", schedule_roots(bound, target))
    assert len({s for _, s in drawn}) == len(drawn)
    assert all(not violations(bound, s, target) for _, s in drawn)
    counts = Counter(kind for kind, _ in drawn)
    assert set(counts) >= {"roots", "state", "legal", "mutation"}
    assert len(drawn) <= 1 + MIX.total
    kernels = [k for _, s in drawn for k in s.kernels]
    assert len(set(kernels)) < 0.9 * len(kernels), "kernels are shared"


def copies_and_alignments(schedule: Schedule) -> tuple[int, int]:
    """Return how many sources a schedule copies to shared memory, and how many tiles there it aligns."""
    members = [m for k in schedule.kernels for m in k.fused]
    return sum(len(k.cache_reads) for k in schedule.kernels), sum(m.aligned is not None for m in members)


def test_gpu_candidates_of_every_kind_copy_sources_and_align_tiles() -> None:
    app = get_app("harris")
    bound = bind(app.build(), app.shapes(app.sizes({})), {})
    copies: Counter[str] = Counter()
    alignments: Counter[str] = Counter()
    for kind, schedule in CandidateGenerator(bound, H200, 0).draw(
        CandidateMix(beam=1, greedy=0, states=8, legal=8, mutations=20)
    ):
        copied, aligned = copies_and_alignments(schedule)
        copies[kind] += copied
        alignments[kind] += aligned
    assert all(copies[kind] for kind in ("state", "legal", "mutation")), copies
    assert all(alignments[kind] for kind in ("state", "legal", "mutation")), alignments
    assert not copies["roots"]


def test_cpu_candidates_have_no_use_for_either() -> None:
    drawn = CandidateGenerator(pipelines()[0], CPU, 0).draw(
        CandidateMix(beam=1, greedy=1, states=2, legal=2, mutations=10)
    )
    assert {copies_and_alignments(schedule) for _, schedule in drawn} == {(0, 0)}


def test_refined_candidates_are_predicted_to_take_no_longer_than_those_of_passes() -> None:
    app = get_app("unsharp")
    bound = bind(app.build(), app.shapes(app.sizes({})), {})
    evaluator = KernelEvaluator(bound, CPU, analytical_model(CPU), SearchSettings())
    seconds: dict[str, float] = {}
    mix = CandidateMix(beam=1, greedy=0, states=0, legal=0, mutations=0, refined=4)
    for kind, schedule in CandidateGenerator(bound, CPU, 0).draw(mix):
        described = [describe_kernel(bound, k) for k in schedule.kernels]
        evaluator.evaluate(described)
        took = sum(evaluator.verdict(*k).cost for k in described)
        seconds[kind] = min(took, seconds.get(kind, math.inf))
    assert seconds["refined"] <= seconds["beam"] < seconds["roots"]


def test_mutations_change_one_kernel_in_every_way() -> None:
    app = get_app("unsharp")
    bound = bind(app.build(), app.shapes(app.sizes({})), {})
    mutator = CandidateGenerator(bound, H200, 0).mutator
    rng = np.random.default_rng(1)
    schedule = schedule_roots(bound, H200)
    changes: Counter[str] = Counter()
    for _ in range(60):
        mutated = mutator.mutated(schedule, rng)
        assert mutated is not None
        ((before, after),) = [(a, b) for a, b in zip(schedule.kernels, mutated.kernels, strict=True) if a != b]
        changes["more copies"] += len(after.cache_reads) > len(before.cache_reads)
        changes["fewer copies"] += len(after.cache_reads) < len(before.cache_reads)
        changes["tiles"] += before.roots != after.roots
        of = {m.func: m.aligned for m in before.fused}
        changes["alignment"] += any(m.func in of and m.aligned != of[m.func] for m in after.fused)
        schedule = mutated
    assert min(changes[way] for way in ("more copies", "fewer copies", "tiles", "alignment")) > 0, changes


def test_equal_seeds_give_equal_candidates() -> None:
    bound = pipelines()[1]
    first, again, other = (list(CandidateGenerator(bound, H200, seed).draw(MIX)) for seed in (5, 5, 6))
    assert first == again
    assert first != other


def test_mix_without_some_kinds() -> None:
    bound = pipelines()[1]
    mix = CandidateMix(beam=0, greedy=0, states=0, legal=3, mutations=0, steps=0)
    assert [kind for kind, _ in CandidateGenerator(bound, H200, 0).draw(mix)] == ["roots", "legal", "legal", "legal"]
    assert mix.total == 3
    with pytest.raises(InputError, match="give a number of schedules"):
        CandidateMix(beam=-1)


def test_gpu_candidates_with_mainloops() -> None:
    app = get_app("sgemm")
    bound = bind(app.build(), app.shapes(app.small_sizes), {})
    mix = CandidateMix(beam=0, greedy=0, states=2, legal=0, mutations=3, steps=4)
    drawn = list(CandidateGenerator(bound, H200, 0).draw(mix))
    stepped = [s for kind, s in drawn if kind == "steps"]
    assert len(stepped) == 4
    assert all(any(k.mainloop_at is not None for k in s.kernels) and not violations(bound, s, H200) for s in stepped)
    assert drawn == list(CandidateGenerator(bound, H200, 0).draw(mix))
    assert "steps" not in {kind for kind, _ in CandidateGenerator(bound, CPU, 0).draw(mix)}


def test_sliding_windows_of_pipelines_without_reductions() -> None:
    y, x, image, out = Var("y"), Var("x"), Input("image", float32, 2), Func("out")
    out[y, x] = image[y, x] * 2.0
    mix = CandidateMix(beam=0, greedy=0, states=1, legal=0, mutations=0, steps=4)
    for extent in (64, 1):
        bound = bind(Pipeline([out.over(y=(0, extent), x=(0, extent))]), {"image": (64, 64)})
        walking = [s for kind, s in CandidateGenerator(bound, H200, 0).draw(mix) if kind == "steps"]
        assert bool(walking) == (extent > 1)  # no dimension to slide along
        assert all(any(k.is_sliding_window for k in s.kernels) for s in walking)


def test_gpu_candidates_with_warp_reductions_and_rfactor() -> None:
    app = get_app("hist")
    bound = bind(app.build(), app.shapes(app.sizes({})), {})
    mix = CandidateMix(beam=0, greedy=0, states=0, legal=0, mutations=0, steps=0, rewrites=8)
    drawn = [s for kind, s in CandidateGenerator(bound, H200, 0).draw(mix) if kind == "view"]
    assert len(drawn) == mix.rewrites
    assert not any(violations(bound, s, H200) for s in drawn)
    atomic = {any(p.atomic for p in s.rfactors) for s in drawn}
    assert atomic == {True, False}
    assert any(not s.rfactors and shares_terms(s) for s in drawn), "lanes share terms"
    assert drawn == [s for kind, s in CandidateGenerator(bound, H200, 0).draw(mix) if kind == "view"]


def shares_terms(schedule: Schedule) -> bool:
    """Whether some reduction is a warp reduction."""
    loops = [p for k in schedule.kernels for t in k.tilings() for p in t.loops]
    return any(p.kind is LoopKind.THREAD and "." in p.dim for p in loops)


def test_gpu_candidates_with_tiles_of_warps() -> None:
    app = get_app("unsharp")
    bound = bind(app.build(), app.shapes(app.small_sizes), {})
    mix = CandidateMix(beam=1, greedy=1, states=6, legal=4, mutations=0, steps=0, warps=12)
    drawn = list(CandidateGenerator(bound, H200, 0).draw(mix))
    tiled = [s for kind, s in drawn if kind == "warps"]
    assert len(tiled) == 12
    assert all(any(k.warp_loops and k.fused for k in s.kernels) and not violations(bound, s, H200) for s in tiled)
    hybrid = sum(any(m.registers is not None for k in s.kernels for m in k.fused) for s in tiled)
    assert 0 < hybrid < 12
    assert drawn == list(CandidateGenerator(bound, H200, 0).draw(mix))
    assert "warps" not in {kind for kind, _ in CandidateGenerator(bound, CPU, 0).draw(mix)}
