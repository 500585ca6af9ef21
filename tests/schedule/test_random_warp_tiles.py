"""Random schedules have tiles of warps on GPUs, in kernels of every other kind of directive that allows them."""

from __future__ import annotations

from collections import Counter

import numpy as np

from autosched.analysis.bind import bind
from autosched.schedule.legality.validate import violations
from autosched.schedule.sampling.random_schedule import sample_schedule
from autosched.schedule.types import Level
from autosched.target import get_target
from tests.schedule.building import chain_pipeline
from tests.stage_limits import short_app

H200 = get_target("h200")


def test_kernels_of_gpus_have_them() -> None:
    found: Counter[str] = Counter()
    for bound in (bind(chain_pipeline(4), {"img": (60, 90)}), short_app("bilateral_grid")):
        for seed in range(40):
            schedule = sample_schedule(bound, H200, np.random.default_rng(seed), varied=True)
            assert violations(bound, schedule, H200) == []
            for kernel in (k for k in schedule.kernels if k.warp_loops):
                found["kernels"] += 1
                found["several dimensions"] += len(kernel.warp_loops) > 1
                found["producers"] += any(m.at.level is Level.WARP for m in kernel.fused)
                found["in threads"] += any(m.at.level is Level.THREAD for m in kernel.fused)
                found["cache reads"] += bool(kernel.cache_reads)
    assert all(found[n] for n in ("kernels", "several dimensions", "producers", "in threads", "cache reads")), found


def test_those_of_cpus_have_none() -> None:
    bound, cpu = bind(chain_pipeline(4), {"img": (60, 90)}), get_target("cpu")
    drawn = (sample_schedule(bound, cpu, np.random.default_rng(seed), varied=True) for seed in range(20))
    assert not any(k.warp_loops for s in drawn for k in s.kernels)
