"""Which of many numbers or rows are equal; `numpy.unique` takes several times as long on a search's short arrays."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from autosched.featurize.tables.growable_table import hash_rows

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


def unique_inverse(keys: Ints) -> tuple[Ints, Ints, Ints]:
    """Return the different keys in order, the first position of each, and the number of every key among them.

    Args:
        keys: ``int64[N]``.
    """
    order = keys.argsort(kind="stable")
    ordered = keys[order]
    fresh = _fresh(ordered)
    which = np.empty(len(keys), np.int64)
    which[order] = fresh.cumsum() - 1
    return ordered[fresh], order[fresh], which


def unique_rows(rows: Ints) -> tuple[Ints, Ints, Ints]:
    """Return a key of each different row, the first position of it, and the number of the key of every row.

    Rows are told apart by a random linear form modulo 2**64: two different ones meet with probability 2**-63.

    Args:
        rows: ``int64[N, K]``.
    """
    return unique_inverse(hash_rows([rows]))


def first_of_each(keys: Ints) -> Bools:
    """Return which keys are the first of those that are equal, ``bool[N]``."""
    order = keys.argsort(kind="stable")
    found = np.empty(len(keys), bool)
    found[order] = _fresh(keys[order])
    return found


def index_in(keys: Ints, others: Ints) -> Bools:
    """Return which keys are equal to some of the others, ``bool[N]``."""
    ordered = np.sort(others)
    at = ordered.searchsorted(keys)
    found: Bools = np.zeros(len(keys), bool)
    inside = at < len(ordered)
    found[inside] = ordered[at[inside]] == keys[inside]
    return found


def distinct(values: Ints) -> Ints:
    """Return the different ones of some numbers, in order."""
    ordered = np.sort(values)
    return ordered[_fresh(ordered)]


def _fresh(ordered: Ints) -> Bools:
    """Return which of numbers in order are not equal to the one before."""
    fresh = np.ones(len(ordered), bool)
    np.not_equal(ordered[1:], ordered[:-1], out=fresh[1:])
    return fresh
