"""Random schedules have hybrid tiles in kernels whose warps have tiles of their own."""

from __future__ import annotations

from collections import Counter

import numpy as np

from autosched.analysis.bind import bind
from autosched.schedule.io.serialise import from_json, to_json
from autosched.schedule.legality.validate import kernel_violations, violations
from autosched.schedule.planner import plan_kernel
from autosched.schedule.sampling.random_hybrid_tiles import random_hybrid_tiles
from autosched.schedule.sampling.random_schedule import sample_schedule
from autosched.target import get_target
from tests.lower.hybrid_cases import rows, rows_kernel
from tests.schedule.building import blur, blur_with_shared, chain_pipeline

H200 = get_target("h200")


def test_some_kernels_have_them() -> None:
    found: Counter[str] = Counter()
    bound = bind(chain_pipeline(4), {"img": (60, 90)})
    for seed in range(120):
        made = sample_schedule(bound, H200, np.random.default_rng(seed), varied=True)
        assert violations(bound, made, H200) == []
        assert from_json(to_json(bound, made), bound) == made
        for k in made.kernels:
            tiles = plan_kernel(bound, k).hybrid_tiles.values() if any(m.registers for m in k.fused) else ()
            found["tiles"] += len(tiles)
            found["several"] += len(tiles) > 1
            found["shared"] += any(t.shared_extent > 0 for t in tiles)
            found["whole"] += any(t.shared_extent == 0 for t in tiles)
    assert all(found[n] for n in ("tiles", "several", "shared", "whole")), found


def test_kernels_of_larger_blocks_have_none() -> None:
    bound = blur()
    (one,) = blur_with_shared(bound).kernels
    assert random_hybrid_tiles(bound, one, H200, np.random.default_rng(0)) is None


def test_shares_differ() -> None:
    bound = rows()
    drawn = [random_hybrid_tiles(bound, rows_kernel(bound, 0), H200, np.random.default_rng(k)) for k in range(20)]
    shares = {m.registers for k in drawn if k is not None for m in k.fused}
    assert len(shares) > 4 and all(k is None or kernel_violations(bound, k, H200) == [] for k in drawn)
