"""Counts of kernels with linear threads equal those of the emulator, site by site."""

from __future__ import annotations

from dataclasses import replace

import pytest

from autosched.lower.program import lower
from autosched.measure.simulated.count import count_sites
from autosched.runtime.compile.host_compiler import have_compiler
from autosched.schedule.legality.validate import kernel_violations
from tests.measure.simulated.programs import H200, bound_app, corner_blocks, default_scalars, random_schedule
from tests.measure.simulated.test_counts import assert_equal_counts

pytestmark = pytest.mark.skipif(not have_compiler("c++"), reason="no C++ compiler")


@pytest.mark.parametrize(
    "name", ["harris", "unsharp", *(pytest.param(n, marks=pytest.mark.fuzz) for n in ("canny", "denoise"))]
)
def test_counts_equal_the_emulator(name: str) -> None:
    bound = bound_app(name)
    count = 0
    for seed in range(3):
        schedule = random_schedule(bound, seed, varied=True)
        kernels = [replace(k, linear_threads=True) for k in schedule.kernels]
        program = lower(bound, replace(schedule, kernels=tuple(kernels)))
        for kernel, scheduled in zip(program.kernels, kernels, strict=True):
            assert kernel_violations(bound, scheduled, H200) == []
            blocks = corner_blocks(kernel)
            found = count_sites(kernel, blocks, default_scalars(program))
            assert_equal_counts(found, name, seed, program, kernel, blocks)
            count += kernel.block[0] > 1
    assert count > 0
