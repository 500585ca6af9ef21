"""Hybrid tiles on the simulated device: counts equal those of the emulator, shuffles replace shared memory."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest

from autosched.lower.ir import KernelIR
from autosched.lower.program import Program, lower
from autosched.measure.simulated.count import count_kernel, count_sites
from autosched.measure.simulated.simulate import simulate
from autosched.runtime.compile.host_compiler import have_compiler
from autosched.runtime.compile.nvrtc import have_nvrtc
from autosched.schedule.sampling.random_schedule import sample_schedule
from tests.lower.hybrid_cases import rows, rows_kernel, stencils, stencils_kernel
from tests.lower.run_backends import traced
from tests.lower.test_hybrid_tiles import with_hybrid_tiles
from tests.measure.simulated.programs import H200, bound_app, default_scalars, emulated
from tests.measure.simulated.test_counts import QUANTITIES
from tests.schedule.building import schedule

needs_compiler = pytest.mark.skipif(not have_compiler("c++"), reason="no C++ compiler")


def assert_counts_equal(program: Program, ir: KernelIR) -> None:
    tiles = list(itertools.product(*(range(n) for _, n in ir.grid_loops)))
    found, trace = count_sites(ir, tiles, default_scalars(program)), emulated(program, ir, None)
    for quantity in QUANTITIES:
        mine, true = getattr(found, quantity), getattr(trace, quantity)
        np.testing.assert_array_equal(mine[: len(true)], true, err_msg=f"{ir.name} {quantity}")


@needs_compiler
@pytest.mark.parametrize("dim", ["x", "y"])
@pytest.mark.parametrize("lanes", [(32, 1), (16, 2), (10, 3)])
def test_counts_equal_the_emulator(lanes: tuple[int, int], dim: str) -> None:
    bound = stencils()
    for share, warps in (((2, 1), (1, 1)), ((9, 9), (2, 1))):
        program = lower(bound, schedule(bound, stencils_kernel(bound, lanes, (2, 2), dim, share, warps)))
        assert_counts_equal(program, program.kernels[0])


@needs_compiler
@pytest.mark.fuzz
@pytest.mark.parametrize("name", ["unsharp", "harris", "pyramid_blend", "interpolate"])
def test_counts_of_apps_equal_the_emulator(name: str) -> None:
    bound = bound_app(name)
    count = 0
    for seed in range(20):
        if count > 1:
            break
        drawn = sample_schedule(bound, H200, np.random.default_rng(seed), varied=seed % 2 > 0)
        made, _ = with_hybrid_tiles(bound, drawn, seed)
        program = lower(bound, made)
        for k, ir in zip(made.kernels, program.kernels, strict=True):
            if any(m.registers is not None for m in k.fused) and ir.blocks <= 4000:
                assert_counts_equal(program, ir)
                count += 1
    assert count


@needs_compiler
def test_shuffles_are_counted() -> None:
    bound = stencils()
    one = stencils_kernel(bound, (16, 2), (2, 3), "x", (2, 2))
    program = lower(bound, schedule(bound, one))
    counted = count_kernel(program.kernels[0])
    blocks = np.prod([n for _, n in program.kernels[0].grid_loops])
    assert counted.total("shuffles") * blocks * 32 == pytest.approx(traced(bound, program).shuffles)


@pytest.mark.skipif(not have_nvrtc(), reason="NVRTC is not installed")
def test_tiles_in_registers_allow_more_warps() -> None:
    """Shared memory limits the warps of a multiprocessor where all of the tile is there."""
    bound = rows(8192, 64)
    small = replace(H200, shared_per_sm=64 * 1024)
    whole, half = (simulate(bound, schedule(bound, rows_kernel(bound, n, warps=4)), small).kernels[0] for n in (0, 8))
    assert whole.work.shared_bytes > 1.9 * half.work.shared_bytes
    assert whole.resident_blocks < half.resident_blocks
