"""Occupancy of kernels whose warps have tiles of their own: blocks of several warps, with a slice of memory each."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.featurize.schema import INDEX
from autosched.featurize.sketch.sketch_from_kernel import describe_kernel
from autosched.schedule.types import Kernel
from autosched.search.cost.compiled_registers import with_compiled_registers
from autosched.search.cost.gpu_analytical import AnalyticalModel
from autosched.search.guidance.conformance import theoretical_occupancy
from autosched.search.guidance.register_limits import threads_of
from autosched.search.tune.resident_block_variants import resident_block_counts
from tests.featurize.random_kernels import H200, states_of
from tests.schedule.building import blur, kernel, member, root, warp


def tiles(warps: int) -> tuple[BoundPipeline, Kernel]:
    """Return a blur with 1280 bytes of shared memory for each warp's tile."""
    bound = blur(512, 512)
    out = root("out", f"by={64 // warps} bx=16 wy={warps} sy=8 tx=32")
    return bound, kernel(bound, [out], [member(warp("out", 3), "yx", across="sy=10 tx=32")], ["img_clamped"])


@pytest.mark.parametrize(("warps", "registers", "blocks"), [(4, 32, 16), (4, 64, 8), (8, 64, 4), (1, 64, 32)])
def test_blocks_of_several_warps(warps: int, registers: int, blocks: int) -> None:
    bound, made = tiles(warps)
    assert threads_of(bound, made) == 32 * warps
    assert theoretical_occupancy(bound, made, H200, registers) == pytest.approx(blocks * warps / 64)


def test_shared_memory_of_all_warps_counts() -> None:
    bound, made = tiles(8)
    small = replace(H200, shared_per_sm=3 * (8 * 1280 + H200.reserved_shared_per_block))
    assert theoretical_occupancy(bound, made, small, None) == pytest.approx(3 * 8 / 64)


def test_launch_bounds_are_tried_by_blocks() -> None:
    bound, made = tiles(8)
    assert list(resident_block_counts(bound, made, H200, 64)) == [8, 6, 5]
    assert list(resident_block_counts(bound, made, H200, 32)) == []


def test_compiled_registers_limit_the_resident_tiles() -> None:
    bound, made = tiles(8)
    sketch, params = describe_kernel(bound, made)
    featurizer = states_of(bound).evaluator.featurizer
    evaluation = featurizer.evaluate([featurizer.model(sketch)], [np.array([params], np.int64)])
    column = INDEX["resident_blocks"]
    assert evaluation.features[0, 0, column] == 64
    limited = with_compiled_registers(AnalyticalModel(H200), evaluation, 64)
    assert limited.features[0, 0, column] == 32
