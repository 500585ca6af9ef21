"""Coalescing of a thread's accesses in features, against the rule for one set of offsets."""

from __future__ import annotations

import numpy as np
import pytest

from autosched.featurize.accesses.vector_accesses import aligned_bytes, coalesced_accesses
from autosched.featurize.accesses.warp_transactions import LINEAR_COLUMNS, shared_transactions_of_quads


def test_aligned_bytes() -> None:
    moves = np.array([[16, 512], [8, 48], [6144, 4], [0, 0], [16, 32]])
    size = np.array([4, 4, 4, 8, 2])
    which = np.array([True, True, True, True, False])
    assert aligned_bytes(moves, size, which).tolist() == [16, 8, 4, 16, 2]


@pytest.mark.parametrize(("rest", "lengths"), [(0, [4, 2]), (4, [1, 2, 2, 1]), (8, [2, 4]), (12, [1, 4, 1])])
def test_the_remainder_of_the_first_address_counts(rest: int, lengths: list[int]) -> None:
    start = 4 * np.arange(6)
    chosen, found = coalesced_accesses(np.ones((6, 1), bool), start, 4, 16, rest)
    assert found.tolist() == lengths
    assert chosen.tolist() == np.concatenate([[0], np.cumsum(lengths)[:-1]]).tolist()


def test_elements_of_different_threads_are_not_coalesced() -> None:
    full = np.array([[True], [True], [False], [False]])
    chosen, found = coalesced_accesses(full, 4 * np.arange(4), 4, 16, 0)
    assert sorted(zip(chosen.tolist(), found.tolist(), strict=True)) == [(0, 2), (2, 2)]


@pytest.mark.parametrize(("step", "wavefronts"), [(16, 4), (32, 8), (0, 4), (128, 32)])
def test_quads_take_four_passes_of_a_quarter_warp(step: int, wavefronts: int) -> None:
    row = np.zeros((1, LINEAR_COLUMNS), np.int64)
    row[0, :9] = [32, 1, 0, 32, 1, 1, step, 0, 0]
    assert shared_transactions_of_quads(row)[0, 0] == wavefronts
