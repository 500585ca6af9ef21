"""Equal numbers and rows, against `numpy.unique`."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from autosched.featurize.tables.unique import distinct, first_of_each, index_in, unique_inverse, unique_rows


@given(st.lists(st.integers(-3, 3), max_size=12))
def test_unique_keys_match_numpy(numbers: list[int]) -> None:
    keys = np.array(numbers, np.int64)
    expected, first, which = np.unique(keys, return_index=True, return_inverse=True)
    for found, right in zip(unique_inverse(keys), (expected, first, which), strict=True):
        assert found.tolist() == right.tolist()
    assert np.flatnonzero(first_of_each(keys)).tolist() == sorted(first.tolist())
    assert distinct(keys).tolist() == expected.tolist()


@given(st.lists(st.integers(-3, 3), max_size=12), st.lists(st.integers(-3, 3), max_size=12))
def test_keys_are_found_in_other_keys(numbers: list[int], others: list[int]) -> None:
    keys, known = np.array(numbers, np.int64), np.array(others, np.int64)
    assert index_in(keys, known).tolist() == np.isin(keys, known).tolist()


def test_unique_rows_match_numpy() -> None:
    rng = np.random.default_rng(1)
    table = rng.integers(-2, 2, (500, 6))
    keys, first, which = unique_rows(table)
    assert len(keys) == len({tuple(r) for r in table.tolist()})
    assert (table[first][which] == table).all()
