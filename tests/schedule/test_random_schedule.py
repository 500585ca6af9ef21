"""Random schedules: reproducible, legal and varied."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np
import pytest

from autosched.analysis.bind import bind
from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.apps.registry import load_apps
from autosched.errors import ScheduleError
from autosched.schedule.legality.validate import violations
from autosched.schedule.sampling.random_mainloop import divisors
from autosched.schedule.sampling.random_schedule import SampleStats, sample_schedule
from autosched.schedule.types import Kernel, Level, LoopKind, Schedule
from autosched.target import get_target
from tests.schedule.building import blur, chain_pipeline
from tests.schedule.corner_cases import CORNER_CASES
from tests.stage_limits import short_app

H200 = get_target("h200")
CHAIN = bind(chain_pipeline(5), {"img": (53, 77)})


def sample(bound: BoundPipeline, seed: int, stats: SampleStats | None = None) -> Schedule:
    return sample_schedule(bound, H200, np.random.default_rng(seed), stats)


def test_the_same_seed_gives_the_same_schedule() -> None:
    bound = short_app("harris")
    first = [sample(bound, seed) for seed in range(5)]
    assert first == [sample(short_app("harris"), seed) for seed in range(5)]
    assert len(set(first)) == 5


@pytest.mark.parametrize("name", load_apps())
def test_schedules_of_the_suite_are_legal(name: str) -> None:
    bound = short_app(name)
    for seed in range(4):
        assert violations(bound, sample(bound, seed), H200) == []


@pytest.mark.parametrize("name", CORNER_CASES)
def test_schedules_of_corner_cases_are_legal(name: str) -> None:
    bound = CORNER_CASES[name]().bound()
    for target in (H200, get_target("gtx 1080 ti"), get_target("cpu")):
        for seed in range(4):
            found = sample_schedule(bound, target, np.random.default_rng(seed))
            assert violations(bound, found, target) == []


def host_depth(kernel: Kernel, func: str) -> int:
    """Return the nesting depth of a fused producer."""
    held = kernel.member(func)
    return 0 if held is None else 1 + host_depth(kernel, held.at.host.func)


def depths(schedules: Iterator[Schedule]) -> Counter[int]:
    return Counter(host_depth(k, m.func) for s in schedules for k in s.kernels for m in k.fused)


def test_fused_producers_nest_three_deep() -> None:
    found = depths(sample(CHAIN, seed) for seed in range(120))
    assert found[1] > 50 and found[2] > 5 and found[3] > 0, found


def test_producers_in_shared_memory_feed_each_other() -> None:
    def links(k: Kernel) -> int:
        """Count fused producers that only fused producers read."""
        names = {m.func for m in k.fused}
        return sum(set(CHAIN.funcs[n].consumers) <= names for n in names)

    found = Counter(max(links(k) for k in sample(CHAIN, seed).kernels) for seed in range(120))
    assert found[1] > 5 and sum(n for deep, n in found.items() if deep >= 2) > 0, found


def test_producers_with_several_consumers_occur() -> None:
    bound = short_app("harris")
    levels: Counter[Level] = Counter()
    for seed in range(60):
        for k in sample(bound, seed).kernels:
            for m in k.fused:
                if len(bound.funcs[m.func].consumers) > 1:
                    levels[m.at.level] += 1
    assert levels[Level.BLOCK] > 3 and levels[Level.THREAD] > 3, levels


def test_every_level_is_chosen_and_counted() -> None:
    stats = SampleStats()
    schedules = [sample(CHAIN, seed, stats) for seed in range(60)]
    for level in ("ROOT", "BLOCK", "THREAD", "INLINE"):
        assert stats.chosen[level] > 10 and stats.offered[level] >= stats.chosen[level]
    assert stats.chosen["ROOT"] == sum(len(s.kernels) for s in schedules)
    assert stats.rejected and all(label.split(":")[0] in stats.offered for label in stats.rejected)


def test_tilings_vary() -> None:
    seen: Counter[str] = Counter()
    bound = blur()
    for seed in range(80):
        for k in sample(bound, seed).kernels:
            t = k.roots[0].tiling
            sizes = dict(zip("yx", bound.funcs[t.stage.func].extents, strict=True))
            threads = [p.dim for p in t.of_kind(LoopKind.THREAD)]
            seen.update("partial" if t.extent(dim) > n else "whole" for dim, n in sizes.items())
            seen["no threads"] += not threads
            seen["threads along rows"] += threads[:1] == ["x"]
            seen["threads across rows"] += threads[:1] == ["y"]
            seen["serial"] += bool(t.of_kind(LoopKind.SERIAL))
            seen["turned storage"] += any(m.storage_order == ("x", "y") for m in k.fused)
    kinds = ("partial", "whole", "no threads", "threads along rows", "threads across rows", "serial", "turned storage")
    assert all(seen[kind] for kind in kinds), seen


def test_a_pipeline_too_large_for_the_device() -> None:
    with pytest.raises(ScheduleError, match=r"its arrays need .* bytes, more than the"):
        sample(blur(400_000, 200_000), 0)


@pytest.mark.parametrize("n", [1, 12, 97, 3600, 1 << 34, (1 << 17) ** 2 - 1])
def test_divisors_up_to_the_square_of_those_tried(n: int) -> None:
    found = divisors(n)
    assert found == sorted(found) and found[0] == 1 and found[-1] == n
    assert all(n % d == 0 for d in found)
    assert set(range(1, min(n, 4000) + 1)) & set(found) == {d for d in range(1, min(n, 4000) + 1) if n % d == 0}


def test_divisors_of_the_longest_loops() -> None:
    assert divisors(1 << 40) == [1 << k for k in range(41) if k <= 17 or k >= 23]
