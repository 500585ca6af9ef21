"""Kernels that schedules share are lowered once, to the same code."""

from __future__ import annotations

import pytest

from autosched.codegen.cuda import print_cuda
from autosched.lower.ir import KernelIR
from autosched.lower.program import lower, lower_kernel_of
from autosched.measure.problem import Problem
from autosched.schedule.types import Kernel
from autosched.search.datasets.candidate_mix import CandidateGenerator, CandidateMix
from autosched.target import get_target


@pytest.mark.parametrize("problem", [Problem.app("unsharp", small=True), Problem.random(7)], ids=lambda p: p.title)
def test_the_code_is_that_of_lowering_each_alone(problem: Problem) -> None:
    bound, target = problem.bind(), get_target("h200")
    known: dict[tuple[Kernel, str], KernelIR] = {}
    schedules = [s for _, s in CandidateGenerator(bound, target, 0).draw(CandidateMix(1, 1, 2, 2, 12))]
    kernels = 0
    for schedule in schedules:
        alone = lower(bound, schedule)
        shared = []
        for number, key in enumerate(zip(schedule.kernels, alone.labels, strict=True)):
            if key not in known:
                known[key] = lower_kernel_of(alone, number)
            shared.append(known[key])
        assert [print_cuda(k) for k in shared] == [print_cuda(k) for k in alone.kernels]
        kernels += len(schedule.kernels)
    assert len(known) < kernels
