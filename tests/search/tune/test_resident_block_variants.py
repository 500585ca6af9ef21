"""Variants with more resident blocks, where registers limit these."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from autosched.measure.problem import Problem
from autosched.runtime.compile.nvrtc import have_nvrtc
from autosched.schedule.types import Schedule
from autosched.search.cost.gpu_analytical import AnalyticalModel
from autosched.search.datasets.mutations import MOST_RESIDENT, Mutator
from autosched.search.evaluate.evaluator import KernelEvaluator
from autosched.search.results import RankedSchedule
from autosched.search.settings import SearchSettings
from autosched.search.strategies.compute_root import schedule_roots
from autosched.search.tune.resident_block_variants import resident_block_counts, with_resident_blocks
from autosched.search.tune.spill_filter import SpillTable
from autosched.target import get_target

H200 = get_target("h200")
BOUND = Problem.app("rhs4sgcurv", small=True).bind()
ROOTS = schedule_roots(BOUND, H200)
RANKED = RankedSchedule(ROOTS, math.nan)


def test_counts_lie_between_those_of_registers_and_of_everything_else() -> None:
    kernel = ROOTS.kernels[-1]  # 256 threads, no shared memory: 8 blocks
    assert [list(resident_block_counts(BOUND, kernel, H200, r)) for r in (32, 40, 128, 255)] == [
        [], [8, 7], [8, 5, 3], [8, 5, 2],
    ]  # fmt: skip


@pytest.mark.skipif(not have_nvrtc(), reason="needs NVRTC")
def test_variants_have_fewer_registers_and_spill_no_more() -> None:
    table = SpillTable(BOUND, H200)
    (variant,) = with_resident_blocks([RANKED], table)
    changed = [k for k, (a, b) in enumerate(zip(ROOTS.kernels, variant.schedule.kernels, strict=True)) if a != b]
    assert changed and all(variant.schedule.kernels[k].resident_blocks > 1 for k in changed)
    before, after = table.registers(ROOTS), table.registers(variant.schedule)
    assert all((after[k] or 0) < (before[k] or 0) for k in changed)
    assert all(a <= b for a, b in zip(table.of(variant.schedule), table.of(ROOTS), strict=True))
    plain = tuple(replace(k, resident_blocks=0) for k in variant.schedule.kernels)
    assert replace(variant.schedule, kernels=plain) == ROOTS


def test_none_for_cpus_and_without_a_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    assert with_resident_blocks([RANKED], SpillTable(BOUND, get_target("cpu"))) == ()
    monkeypatch.setattr("autosched.search.tune.resident_block_variants.compiler_problem", lambda _: "no compiler")
    assert with_resident_blocks([RANKED], SpillTable(BOUND, H200)) == ()


def test_mutations_of_tuning_change_them() -> None:
    bound = Problem.app("blur", small=True).bind()
    evaluator = KernelEvaluator(bound, H200, AnalyticalModel(H200), SearchSettings())
    rng = np.random.default_rng(0)
    counts: dict[bool, set[int]] = {}
    for steps in (False, True):
        mutator, schedule = Mutator(evaluator, steps=steps), schedule_roots(bound, H200)
        drawn: list[Schedule] = [m for _ in range(120) if (m := mutator.mutated(schedule, rng)) is not None]
        counts[steps] = {k.resident_blocks for s in drawn for k in s.kernels}
    assert counts[False] == {0} and len(counts[True]) > 2 and max(counts[True]) <= MOST_RESIDENT
