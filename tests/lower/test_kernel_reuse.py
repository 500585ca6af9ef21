"""Kernels that several schedules share can be lowered once."""

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
def test_shared_kernels_have_equal_code_in_each_schedule(problem: Problem) -> None:
    bound, target = problem.bind(), get_target("h200")
    lowered: dict[tuple[Kernel, str], KernelIR] = {}
    schedules = [s for _, s in CandidateGenerator(bound, target, 0).draw(CandidateMix(1, 1, 2, 2, 12))]
    count = 0
    for schedule in schedules:
        program = lower(bound, schedule)
        kernels = []
        for number, key in enumerate(zip(schedule.kernels, program.labels, strict=True)):
            if key not in lowered:
                lowered[key] = lower_kernel_of(program, number)
            kernels.append(lowered[key])
        assert [print_cuda(k) for k in kernels] == [print_cuda(k) for k in program.kernels]
        count += len(schedule.kernels)
    assert len(lowered) < count
