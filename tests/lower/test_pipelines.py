"""Each pass returns IR that verifies, whatever the schedule."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from autosched.analysis.bind import bind
from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.errors import BoundsError, CompileError
from autosched.lower.ir import AsyncCopy, For, KernelIR, LoopRole, Memory, Stmt, walk
from autosched.lower.ir_visitor import map_statements
from autosched.lower.pipelines import CPU_PASSES, CUDA_PASSES, run_passes
from autosched.lower.program import lower
from autosched.lower.verify import verify
from autosched.schedule.sampling.random_schedule import sample_schedule
from autosched.schedule.types import Schedule
from autosched.target import get_target
from tests.fuzz.choices import Choices
from tests.fuzz.pipelines import points, random_case
from tests.schedule.building import schedule
from tests.schedule.corner_cases import CORNER_CASES
from tests.schedule.mainloop_cases import in_steps, product

H200 = get_target("h200")
MAX_POINTS = 100_000


def kernels(bound: BoundPipeline, made: Schedule) -> tuple[KernelIR, ...]:
    return lower(bound, made).kernels


def assert_passes_verify(kernel: KernelIR) -> None:
    run_passes(kernel, CUDA_PASSES, check=True)
    lowered = run_passes(kernel, CPU_PASSES, check=True)
    loops = [s for s in walk(lowered.body) if isinstance(s, For)]
    assert not any(s.role is LoopRole.THREAD and s.axis == 0 for s in loops)


@pytest.mark.parametrize("name", CORNER_CASES)
def test_passes_verify_for_corner_cases(name: str) -> None:
    bound = CORNER_CASES[name]().bound()
    for kernel in kernels(bound, sample_schedule(bound, H200, np.random.default_rng(0))):
        assert_passes_verify(kernel)


def test_passes_verify_for_random_pipelines() -> None:
    checked = 0
    for seed in range(12):
        case = random_case(Choices.from_seed(seed))
        try:
            bound = bind(case.pipeline, case.shapes, dict(case.params))
        except BoundsError:  # indices of the case need more than 64 bits
            continue
        if points(bound) > MAX_POINTS:
            continue
        made = sample_schedule(bound, H200, np.random.default_rng(seed), varied=True, lanes="exact")
        for kernel in kernels(bound, made):
            assert_passes_verify(kernel)
            checked += 1
    assert checked >= 10


@pytest.mark.parametrize("asynchronous", [False, True])
def test_passes_verify_for_mainloops(asynchronous: bool) -> None:
    bound = product(48, 72, 24)
    steps = in_steps(bound).with_async_copies() if asynchronous else in_steps(bound)
    (kernel,) = kernels(bound, schedule(bound, steps))
    assert_passes_verify(kernel)
    copied = run_passes(kernel, CUDA_PASSES)
    assert any(isinstance(s, AsyncCopy) for s in walk(copied.body)) == asynchronous


def test_async_copies_are_verified() -> None:
    bound = product(48, 72, 24)
    (kernel,) = kernels(bound, schedule(bound, in_steps(bound).with_async_copies()))
    copied = run_passes(kernel, CUDA_PASSES)
    wrong = _with_copies_from_shared_memory(copied)
    with pytest.raises(CompileError, match=r"bytes of .* are copied to"):
        verify(wrong)


def _with_copies_from_shared_memory(kernel: KernelIR) -> KernelIR:
    def moved(s: Stmt) -> Stmt:
        return replace(s, source=replace(s.source, memory=Memory.SHARED)) if isinstance(s, AsyncCopy) else s

    return replace(kernel, body=map_statements(kernel.body, moved))
