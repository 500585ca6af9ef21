"""Vector accesses, checked against enumerated addresses."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from autosched.schedule.kernel.vector_access import (
    MAX_VECTOR_BYTES,
    VectorGroup,
    alignment,
    group_accesses,
    max_vector_length,
)

ITEMSIZES = (1, 2, 4, 8)


@pytest.mark.parametrize("itemsize", ITEMSIZES)
@pytest.mark.parametrize("strides", list(itertools.product((1, 2, 3, 4, 6, 12, 32), (0, 4, 6, 1536, 1538))))
def test_alignment_divides_every_index(strides: tuple[int, ...], itemsize: int) -> None:
    aligned = alignment(strides, itemsize)
    reached = {a * strides[0] + b * strides[1] for a in range(20) for b in range(3)}
    assert all(index % aligned == 0 for index in reached)
    assert aligned * itemsize <= MAX_VECTOR_BYTES
    twice = 2 * aligned
    assert twice > max_vector_length(itemsize) or any(index % twice for index in reached)


@pytest.mark.parametrize("itemsize", ITEMSIZES)
def test_alignment_of_arrays_of_candidates(itemsize: int) -> None:
    threads, rows = np.array([1, 2, 4, 6, 8, 0]), np.array([4, 4, 1538, 96, 8, 0])
    found = alignment([threads, 3 * threads, rows, 64], itemsize)
    expected = [alignment([int(a), 3 * int(a), int(b), 64], itemsize) for a, b in zip(threads, rows, strict=True)]
    assert found.tolist() == expected


def test_taps_of_four_points() -> None:
    assert group_accesses(range(-1, 5), 4) == (VectorGroup(-1, 1), VectorGroup(0, 4), VectorGroup(4, 1))
    assert group_accesses(range(-1, 5), 2) == (
        VectorGroup(-1, 1),
        VectorGroup(0, 2),
        VectorGroup(2, 2),
        VectorGroup(4, 1),
    )
    assert group_accesses(range(4), 1) == tuple(VectorGroup(k, 1) for k in range(4))
    assert group_accesses([0, 1, 3], 4) == (VectorGroup(0, 2), VectorGroup(3, 1))
    assert group_accesses([1, 2], 4) == (VectorGroup(1, 1), VectorGroup(2, 1))
    assert group_accesses([0, 0, 1], 2) == (VectorGroup(0, 2),)


@pytest.mark.parametrize("seed", range(20))
def test_groups_cover_exactly_the_accessed_elements(seed: int) -> None:
    rng = np.random.default_rng(seed)
    wanted = set(rng.integers(-40, 40, rng.integers(1, 60)).tolist())
    aligned = int(2 ** rng.integers(0, 5))
    groups = group_accesses(wanted, aligned)
    touched = [k for g in groups for k in range(g.start, g.start + g.length)]
    assert sorted(touched) == sorted(wanted)
    assert all(g.start % g.length == 0 and aligned % g.length == 0 for g in groups)
    halves = {(g.start, g.length) for g in groups}
    assert not any(2 * n <= aligned and start % (2 * n) == 0 and (start + n, n) in halves for start, n in halves), (
        "two groups could have been one"
    )
