"""Transactions of random warps, against counting one lane after another."""

from __future__ import annotations

import numpy as np
import pytest

from autosched.lang.dtypes import ALL
from autosched.measure.simulated.data import virtual_data
from autosched.measure.simulated.transactions import count_sectors, count_turns, count_wavefronts


def addresses(rng: np.random.Generator, size: int) -> np.ndarray:
    """Return addresses of different kinds: neighbouring, strided, equal, scattered."""
    lane = np.arange(32)
    kinds = [lane, 3 * lane, 33 * lane, lane // 4, lane * 0, -lane, rng.integers(0, 4096, 32), rng.permutation(32)]
    return np.array([k + rng.integers(0, 64) for k in kinds for _ in range(4)]) * size + 4096


@pytest.mark.parametrize("size", [1, 2, 4, 8, 16])
def test_against_lane_by_lane(size: int) -> None:
    rng = np.random.default_rng(size)
    address = addresses(rng, size)
    active = rng.random(address.shape) < np.array([1.0, 0.5, 0.1, 0.0] * (len(address) // 4))[:, None]
    sectors = count_sectors(address, active)
    wavefronts, conflicts = count_wavefronts(address, active, size)
    at_once = min(32, 128 // max(size, 4))
    for k in range(len(address)):
        touched = address[k][active[k]]
        assert sectors[k] == len({a // 32 for a in touched.tolist()})
        passes = []
        for first in range(0, 32, at_once):
            part = slice(first, first + at_once)
            words = {int(a) // 4 for a in address[k][part][active[k][part]]}
            passes.append(max((sum(w % 32 == bank for w in words) for bank in range(32)), default=0))
        assert wavefronts[k] == sum(passes)
        assert conflicts[k] == sum(max(p - 1, 0) for p in passes)


def test_lanes_of_atomic_operations_take_turns() -> None:
    rng = np.random.default_rng(4)
    address = addresses(rng, 4)
    active = rng.random(address.shape) < 0.7
    turns = count_turns(address, active)
    for k in range(len(address)):
        banks = [int(a) // 4 % 32 for a in address[k][active[k]]]
        assert turns[k] == max(banks.count(b) for b in banks)
    assert count_turns(np.full((1, 1), 40), np.ones((2, 32), bool)).tolist() == [32, 32]


def test_one_address_for_all_lanes_and_iterations() -> None:
    active = np.ones((2, 32), bool)
    assert count_sectors(np.full((1, 1), 40), active).tolist() == [1, 1]
    assert count_wavefronts(np.full((1, 1), 40), active, 4)[0].tolist() == [1, 1]


@pytest.mark.parametrize("dtype", ALL, ids=str)
def test_memory_holds_numbers_of_the_usual_range(dtype) -> None:  # type: ignore[no-untyped-def]
    values = virtual_data(np.arange(-10, 50000), dtype)
    assert values.dtype == dtype.numpy
    numbers = values.astype(np.float64)
    assert numbers.min() >= 0
    assert numbers.max() <= (1 if dtype.is_float or dtype.kind == "b" else dtype.max_value)
    assert numbers.std() > 0.1 * numbers.max()
    if dtype.is_float:
        assert np.abs(np.diff(numbers)).mean() < 0.1  # neighbours are similar
    assert np.array_equal(values, virtual_data(np.arange(-10, 50000), dtype))
