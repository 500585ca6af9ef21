"""Inputs are cold: more than twice the cache is touched between two runs on one copy."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autosched.errors import LaunchError
from autosched.runtime.timing.cold_buffers import ALIGNMENT, MOST_COPIES, plan_rotation

MIB = 1 << 20
SIZES = st.dictionaries(st.text("abc", min_size=1), st.integers(0, 64 * MIB), max_size=4)


@given(SIZES, st.integers(MIB, 64 * MIB))
def test_more_than_twice_the_cache_is_touched_between_two_runs_on_a_copy(sizes: dict[str, int], cache: int) -> None:
    plan = plan_rotation(sizes, cache, 1 << 40)
    assert plan.copies * plan.stride + plan.flush_bytes > 2 * cache
    assert 1 <= plan.copies <= MOST_COPIES
    assert plan.flush_bytes == 0 or plan.copies == MOST_COPIES or not plan.stride


@given(SIZES, st.integers(MIB, 64 * MIB))
def test_arrays_are_aligned_and_do_not_overlap(sizes: dict[str, int], cache: int) -> None:
    plan = plan_rotation(sizes, cache, 1 << 40)
    pieces = sorted((plan.offset(c, n), size) for c in range(min(plan.copies, 3)) for n, size in sizes.items())
    assert all(start % ALIGNMENT == 0 for start, _ in pieces)
    assert all(a + size <= b for (a, size), (b, _) in itertools.pairwise(pieces))
    assert all(start + size <= plan.total_bytes for start, size in pieces)


def test_no_more_copies_than_needed() -> None:
    assert plan_rotation({"a": 30 * MIB}, 50 * MIB, 1 << 40).copies == 4
    assert plan_rotation({"a": 300 * MIB}, 50 * MIB, 1 << 40).copies == 2


def test_little_memory_means_fewer_copies_and_more_written_elsewhere() -> None:
    plan = plan_rotation({"a": 30 * MIB}, 50 * MIB, 65 * MIB)
    assert plan.copies == 2
    assert plan.flush_bytes == 100 * MIB + 1 - 60 * MIB
    with pytest.raises(LaunchError, match="measure smaller shapes"):
        plan_rotation({"a": 30 * MIB}, 50 * MIB, 20 * MIB)


def test_a_pipeline_without_arrays() -> None:
    plan = plan_rotation({}, MIB, 1 << 30)
    assert (plan.copies, plan.total_bytes) == (1, 0)
