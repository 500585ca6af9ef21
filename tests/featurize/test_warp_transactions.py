"""Transactions of a warp, against counts lane by lane in pure Python and against hand-made vectors."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from autosched.featurize.accesses.warp_transactions import (
    TransactionMemo,
    global_transactions,
    shared_transactions,
    shared_transactions_of_doubles,
    warps_of_block,
)

Access = tuple[int, ...]


def addresses(row: Access) -> list[int]:
    """Return the byte address of every active lane."""
    bx, by, first, nx, ny, nz, *steps, start = row[:10]
    found = []
    for lane in range(first, first + 32):
        x, y, z = lane % bx, lane // bx % by, lane // bx // by
        if x < nx and y < ny and z < nz:
            address = start + x * steps[0] + y * steps[1] + z * steps[2]
            for k in range(10, len(row), 6):
                px, py, pz, constant, divisor, step = row[k : k + 6]
                address += (x * px + y * py + z * pz + constant) // divisor * step
            found.append(address)
    return found


def fullest_bank(words: set[int], banks: int) -> int:
    return max((sum(w % banks == b for w in words) for b in range(banks)), default=0)


threads = st.tuples(st.sampled_from([1, 3, 8, 16, 32, 64]), st.sampled_from([1, 2, 5, 8]))


@st.composite
def rows(draw: st.DrawFn, itemsize: int = 4) -> Access:
    bx, by = draw(threads)
    active = draw(st.integers(1, bx)), draw(st.integers(1, by)), draw(st.integers(1, 3))
    steps = [itemsize * draw(st.integers(-70, 300)) for _ in range(3)]
    row = (bx, by, 32 * draw(st.integers(0, 2)), *active, *steps, itemsize * draw(st.integers(0, 7)))
    if draw(st.booleans()):
        moves = [draw(st.integers(-3, 9)) for _ in range(3)]
        row = (*row, *moves, draw(st.integers(0, 5)), draw(st.integers(2, 5)), itemsize * draw(st.integers(1, 90)))
    return row


@given(rows())
@settings(deadline=None)
def test_sectors_match_the_lanes_addresses(row: Access) -> None:
    touched = addresses(row)
    found = global_transactions(np.array([row]))[0].tolist()
    assert found == [len({a // 32 for a in touched}), len(set(touched)), len(touched)]


@given(rows())
@settings(deadline=None)
def test_wavefronts_are_the_words_of_the_fullest_bank(row: Access) -> None:
    touched = addresses(row)
    found = shared_transactions(np.array([row]))[0].tolist()
    assert found == [fullest_bank({a // 4 for a in touched}, 32), len(set(touched)), len(touched)]


@given(rows(itemsize=8))
@settings(deadline=None)
def test_doubles_take_two_passes_of_half_a_warp(row: Access) -> None:
    bx, by, first, nx, ny, nz = row[:6]
    lanes = [lane for lane in range(first, first + 32)]
    taking_part = [lane for lane in lanes if lane % bx < nx and lane // bx % by < ny and lane // bx // by < nz]
    by_lane = dict(zip(taking_part, addresses(row), strict=True))
    halves = [[by_lane[k] for k in lanes[h : h + 16] if k in by_lane] for h in (0, 16)]
    expected = sum(fullest_bank({a // 8 for a in half}, 16) for half in halves)
    assert shared_transactions_of_doubles(np.array([row]))[0, 0] == expected


@pytest.mark.parametrize(
    ("step", "start", "sectors"),
    [(4, 0, 4), (4, 4, 5), (8, 0, 8), (32, 0, 32), (0, 0, 1), (1, 0, 1), (2, 0, 2), (-4, 31 * 4, 4)],
)
def test_coalescing_of_a_full_warp(step: int, start: int, sectors: int) -> None:
    assert global_transactions(np.array([[32, 1, 0, 32, 1, 1, step, 0, 0, start]]))[0, 0] == sectors


@pytest.mark.parametrize(("words", "conflicts"), [(1, 1), (2, 2), (32, 32), (33, 1), (0, 1), (16, 16)])
def test_bank_conflicts_of_a_full_warp(words: int, conflicts: int) -> None:
    assert shared_transactions(np.array([[32, 1, 0, 32, 1, 1, 4 * words, 0, 0, 0]]))[0, 0] == conflicts


@pytest.mark.parametrize(
    ("block", "active", "threads_", "utilization"),
    [((16, 8, 1), (16, 8, 1), 128, 1.0), ((16, 8, 1), (8, 8, 1), 64, 0.5), ((16, 16, 2), (11, 11, 2), 242, 0.6302)],
)
def test_threads_and_lane_utilization(
    block: tuple[int, ...], active: tuple[int, ...], threads_: int, utilization: float
) -> None:
    warps, lanes, _, _ = warps_of_block(np.array([[*block, *active]]))[0].tolist()
    assert lanes == threads_
    assert lanes / (32 * warps) == pytest.approx(utilization, abs=5e-5)


@given(threads, st.integers(1, 3), st.data())
@settings(deadline=None)
def test_warps_of_a_block(xy: tuple[int, int], depth: int, data: st.DataObject) -> None:
    block = (*xy, depth)
    active = [data.draw(st.integers(1, n)) for n in block]
    inside = [
        lane for lane in range(block[0] * block[1] * block[2])
        if lane % block[0] < active[0] and lane // block[0] % block[1] < active[1]
        and lane // block[0] // block[1] < active[2]
    ]  # fmt: skip
    sizes = [sum(lane // 32 == w for lane in inside) for w in sorted({lane // 32 for lane in inside})]
    last = max(lane // 32 for lane in inside) * 32
    found = warps_of_block(np.array([[*block, *active]]))[0].tolist()
    assert found == [len(sizes), len(inside), last, int(sizes[-1] != sizes[0])]


def test_a_memo_counts_each_row_once() -> None:
    asked: list[int] = []

    def count(rows: np.ndarray[tuple[int, ...], np.dtype[np.int64]]) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
        asked.extend(rows[:, 0].tolist())
        return rows * 2

    memo = TransactionMemo(count, 1)
    assert memo(np.array([[3], [4], [3]])).tolist() == [[6], [8], [6]]
    assert memo(np.array([[4], [5]])).tolist() == [[8], [10]]
    assert sorted(asked) == [3, 4, 5]


def test_a_full_memo_is_emptied() -> None:
    asked: list[int] = []

    def sums(rows: NDArray[np.int64]) -> NDArray[np.int64]:
        asked.append(len(rows))
        return rows.sum(axis=1, keepdims=True)

    memo = TransactionMemo(sums, 1, most=10)
    rows = np.arange(24).reshape(12, 2)
    for part in (rows[:8], rows[4:], rows[:8], rows[:2], rows):
        assert memo(part).tolist() == part.sum(axis=1, keepdims=True).tolist()
        assert len(memo) <= 12
    assert asked == [8, 4, 8, 4]  # the third call finds the memo over its limit and empties it
