"""Mutations of mainloops and sliding windows: legal, different in one respect, and equal in results."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest

from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.codegen.cuda import print_cuda
from autosched.lower.program import lower
from autosched.runtime.compile.nvrtc import compile_cubin, have_nvrtc
from autosched.schedule.legality.validate import violations
from autosched.schedule.types import Kernel, Level, Loop, LoopKind, Schedule
from autosched.search.cost.gpu_analytical import AnalyticalModel
from autosched.search.datasets.mutations import Mutator
from autosched.search.datasets.tiling_draws import draw_tiling
from autosched.search.evaluate.evaluator import KernelEvaluator
from autosched.search.refine.mainloop.mainloop_search import MainloopSearch
from autosched.search.refine.mainloop.mainloop_sites import terms_of_step
from autosched.search.refine.mainloop.step_search import TransferMode
from autosched.search.refine.sliding_window.sliding_search import SlidingWindowSearch
from autosched.search.refine.sliding_window.walk_search import direction_of
from autosched.search.settings import SearchSettings
from autosched.search.strategies.compute_root import schedule_roots
from autosched.search.tune.autotune.batches import predicted_seconds
from autosched.target import get_target
from tests.lower.run_backends import assert_backends_agree
from tests.schedule.mainloop_cases import product
from tests.search.test_sliding_search import sweeps

H200 = get_target("h200")
MODEL = AnalyticalModel(H200)
DRAWS = 80
Root = dict[tuple[str, str], int]


def with_steps(bound: BoundPipeline, search: type[MainloopSearch | SlidingWindowSearch]) -> Schedule:
    """Return the baseline with a mainloop or a sliding window at every site."""
    roots = schedule_roots(bound, H200)
    improved = search(bound, H200, MODEL, SearchSettings()).improved(roots, dict.fromkeys(roots.kernels, 1.0))
    assert improved is not None
    return improved[0]


def mutator_of(bound: BoundPipeline, *, steps: bool = True) -> Mutator:
    return Mutator(KernelEvaluator(bound, H200, MODEL, SearchSettings()), steps=steps)


def tile_of(kernel: Kernel) -> Mapping[str, tuple[int, int]]:
    """Return threads and serial points inside the steps, by dimension of the first root."""
    root = kernel.roots[0].tiling
    at = kernel.mainloop_at
    loops = root.loops[at.depth :] if at is not None and kernel.is_sliding_window else root.loops
    kinds = LoopKind.THREAD, LoopKind.SERIAL

    def size(dim: str, kind: LoopKind) -> int:
        return int(np.prod([p.extent for p in loops if p.dim == dim and p.kind is kind]))

    return {p.dim: (size(p.dim, kinds[0]), size(p.dim, kinds[1])) for p in root.loops if p.kind in kinds}


def with_bounds(parent: Schedule, schedule: Schedule) -> Schedule:
    """Return a schedule with the resident blocks of another one with as many kernels."""
    pairs = zip(parent.kernels, schedule.kernels, strict=False)
    return replace(parent, kernels=tuple(replace(a, resident_blocks=b.resident_blocks) for a, b in pairs))


def steps_of(kernel: Kernel) -> tuple[Loop, ...]:
    return kernel.mainloops


def mutations(bound: BoundPipeline, parent: Schedule) -> list[Schedule]:
    """Return legal mutations of a schedule; all of them differ from it."""
    mutator, rng = mutator_of(bound), np.random.default_rng(0)
    drawn = [m for _ in range(DRAWS) if (m := mutator.mutated(parent, rng)) is not None]
    assert len(drawn) > 0.9 * DRAWS
    for schedule in drawn:
        assert schedule != parent and not violations(bound, schedule, H200)
        seconds = predicted_seconds(mutator.evaluator, schedule)
        assert seconds is not None and seconds > 0
    return drawn


def assert_compiled_and_equal(bound: BoundPipeline, schedules: list[Schedule]) -> None:
    """Check some schedules against the interpreter, and compile their kernels."""
    for schedule in schedules:
        program = lower(bound, schedule)
        assert_backends_agree(bound, program)
        if have_nvrtc():
            for kernel in program.kernels:
                assert compile_cubin(print_cuda(kernel).source, H200.arch).code


def test_mainloops_are_mutated_in_every_respect() -> None:
    bound = product(128, 192, 32)
    parent = with_steps(bound, MainloopSearch)
    (before,) = parent.kernels
    changes: Counter[str] = Counter()
    examples: dict[str, Schedule] = {}
    for schedule in mutations(bound, parent):
        after = next((k for k in schedule.kernels if k.mainloop_at is not None), None)
        if schedule == with_bounds(parent, schedule):
            change = "bounds"
        elif after is None:
            change = "without"
            assert {f for k in schedule.kernels for f in k.root_funcs} == set(before.root_funcs)
        elif TransferMode.of(after) is not TransferMode.of(before):
            change = "filling"
            assert steps_of(after) == steps_of(before) and tile_of(after) == tile_of(before)
        elif terms_of_step(after) != terms_of_step(before):
            change = "steps"
            assert tile_of(after) == tile_of(before)
        else:
            change = "tiles"
            assert tile_of(after) != tile_of(before) and steps_of(after) == steps_of(before)
        changes[change] += 1
        examples[change] = schedule
    assert set(changes) - {"bounds"} == {"tiles", "steps", "filling", "without"}
    assert changes["without"] < 0.3 * DRAWS, "most mutations keep the mainloop"
    assert_compiled_and_equal(bound, list(examples.values()))


def window_changes(bound: BoundPipeline) -> list[tuple[str, Schedule]]:
    """Return mutations of a schedule with one sliding-window kernel, each with the respect in which it differs."""
    parent = with_steps(bound, SlidingWindowSearch)
    (before,) = parent.kernels
    changes = []
    for schedule in mutations(bound, parent):
        (after,) = schedule.kernels
        if schedule == with_bounds(parent, schedule):
            change = "bounds"
        elif after.mainloop_at is None:
            change = "without"
            assert {m.func: m.at.level for m in after.fused} == {m.func: Level.BLOCK for m in before.fused}
        elif TransferMode.of(after) is not TransferMode.of(before):
            change = "filling"
            assert steps_of(after) == steps_of(before) and tile_of(after) == tile_of(before)
        elif any(m.private for m in after.fused):
            change = "registers"
            assert steps_of(after) == steps_of(before) and tile_of(after) == tile_of(before)
        elif direction_of(after).rows != direction_of(before).rows:
            change = "rows"
        elif steps_of(after) != steps_of(before):
            change = "steps"
            assert tile_of(after) == tile_of(before)
        else:
            change = "tiles"
            assert tile_of(after) != tile_of(before)
        changes.append((change, schedule))
    return changes


@pytest.mark.fuzz
def test_sliding_windows_are_mutated_in_every_respect() -> None:
    kinds: set[str] = set()
    for bound in (sweeps(), sweeps(8, size=(256, 40))):  # with many tilings, and with several numbers of steps
        changes = window_changes(bound)
        counts = Counter(change for change, _ in changes)
        assert counts["without"] < 0.35 * DRAWS, "most mutations keep the window"
        examples = {change: schedule for change, schedule in changes if change not in kinds}
        assert_compiled_and_equal(bound, list(examples.values()))
        kinds |= set(counts)
    assert kinds - {"bounds"} == {"tiles", "rows", "steps", "filling", "registers", "without"}


@pytest.mark.parametrize(
    ("bound", "is_window"), [(product(128, 192, 32), False), (sweeps(), True)], ids=["mainloop", "window"]
)
def test_kernels_without_steps_get_them(bound: BoundPipeline, is_window: bool) -> None:
    drawn = mutations(bound, schedule_roots(bound, H200))
    stepped = [s for s in drawn if any(k.mainloop_at is not None for k in s.kernels)]
    assert 0 < len(stepped) < len(drawn)
    assert all(k.is_sliding_window == is_window for s in stepped for k in s.kernels if k.mainloop_at is not None)
    assert len({s.kernels for s in stepped}) > 1
    assert_compiled_and_equal(bound, stepped[:2])


def test_steps_are_left_alone_unless_asked_for() -> None:
    bound = product(64, 96, 48)
    mutator, rng = mutator_of(bound, steps=False), np.random.default_rng(0)
    assert mutator.mutated(with_steps(bound, MainloopSearch), rng) is None
    roots = schedule_roots(bound, H200)
    drawn = [m for _ in range(20) if (m := mutator.mutated(roots, rng)) is not None]
    assert drawn and all(k.mainloop_at is None for s in drawn for k in s.kernels)


def test_equal_seeds_give_equal_mutations() -> None:
    bound = product(64, 96, 48)
    parent = with_steps(bound, MainloopSearch)
    assert mutations(bound, parent) == mutations(bound, parent)


def test_near_tilings_are_preferred() -> None:
    tilings = [(32, 4, 1, 1), (32, 8, 2, 1), (32, 8, 1, 1), (16, 2, 4, 4)]
    rng = np.random.default_rng(0)
    near = {draw_tiling(tilings, (32, 8, 1, 1), rng, near_share=1.0) for _ in range(40)}
    assert near == {(32, 4, 1, 1), (32, 8, 2, 1)}
    anywhere = {draw_tiling(tilings, (32, 8, 1, 1), rng, near_share=0.0) for _ in range(40)}
    assert anywhere == {*near, (16, 2, 4, 4)}
    assert draw_tiling([(32, 8, 1, 1)], (32, 8, 1, 1), rng) is None
    assert draw_tiling([], (32, 8, 1, 1), rng) is None
