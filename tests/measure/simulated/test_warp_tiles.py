"""Kernels whose warps have tiles of their own: counts equal those of the emulator, and blocks have slices and warps."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest

from autosched.lower.program import lower
from autosched.measure.simulated.count import count_kernel, count_sites
from autosched.measure.simulated.simulate import simulate
from autosched.runtime.compile.host_compiler import have_compiler
from autosched.runtime.compile.nvrtc import have_nvrtc
from autosched.schedule.kernel.warp_tiles import merge_warp_loops
from autosched.schedule.sampling.random_schedule import sample_schedule
from autosched.schedule.types import Kernel
from tests.lower.test_warp_tiles import blur_kernel, with_warp_tiles
from tests.measure.simulated.programs import H200, bound_app, default_scalars, emulated
from tests.measure.simulated.test_counts import QUANTITIES
from tests.schedule.building import blur, kernel, member, root, schedule, warp

needs_compiler = pytest.mark.skipif(not have_compiler("c++"), reason="no C++ compiler")


@needs_compiler
@pytest.mark.parametrize(
    "name", ["harris", *(pytest.param(n, marks=pytest.mark.fuzz) for n in ("unsharp", "stencil_chain", "max_filter"))]
)
def test_counts_equal_the_emulator(name: str) -> None:
    bound = bound_app(name)
    count = 0
    for seed in range(2):
        drawn = sample_schedule(bound, H200, np.random.default_rng(seed), varied=seed > 0)
        program = lower(bound, with_warp_tiles(bound, drawn, seed)[0])
        for ir in program.kernels:
            if not ir.warps or ir.blocks > 4000:
                continue
            tiles = list(itertools.product(*(range(n) for _, n in ir.grid_loops)))
            found = count_sites(ir, tiles, default_scalars(program))
            trace = emulated(program, ir, None)
            assert trace.barriers == 0
            for quantity in QUANTITIES:
                mine, true = getattr(found, quantity), getattr(trace, quantity)
                np.testing.assert_array_equal(mine[: len(true)], true, err_msg=f"{name} {seed} {ir.name} {quantity}")
            count += 1
    assert count


def of_tiles(warps: int) -> Kernel:
    """Return the blur of 512 x 512 points with ``warps`` warps a block."""
    bound = blur(512, 512)
    loops = f"by={64 // warps} bx=16 wy={warps} sy=8 tx=32"
    return kernel(bound, [root("out", loops)], [member(warp("out", 3), "yx", across="sy=10 tx=32")], ["img_clamped"])


@pytest.mark.skipif(not have_nvrtc(), reason="NVRTC is not installed")
def test_occupancy_is_that_of_blocks_of_several_warps() -> None:
    bound = blur(512, 512)
    one, four, merged = (
        simulate(bound, schedule(bound, k), H200).kernels[0]
        for k in (of_tiles(1), of_tiles(4), merge_warp_loops(bound, of_tiles(4)))
    )
    assert (one.resident_blocks, four.resident_blocks, merged.resident_blocks) == (32, 12, 32)  # by registers
    assert (four.work.tiles, four.work.blocks, four.work.shared_bytes) == (4, 1024, 1280)
    assert one.work.phases == four.work.phases == merged.work.phases
    assert one.time == merged.time


@pytest.mark.skipif(not have_nvrtc(), reason="NVRTC is not installed")
def test_shared_memory_has_a_slice_for_each_warp() -> None:
    bound = blur(512, 512)
    small = replace(H200, shared_per_sm=5 * (4 * 1280 + H200.reserved_shared_per_block))
    assert simulate(bound, schedule(bound, of_tiles(4)), small).kernels[0].resident_blocks == 5


def test_counts_do_not_depend_on_the_warps_of_a_block() -> None:
    bound = blur()
    made = blur_kernel("by=7 bx=1 wy=2 wx=4 sy=4 tx=24")
    (ir,), (single,) = (lower(bound, schedule(bound, k)).kernels for k in (made, merge_warp_loops(bound, made)))
    work, other = count_kernel(ir), count_kernel(single)
    assert work.tiles == 8
    assert work.grid == other.grid and work.buffers == other.buffers
