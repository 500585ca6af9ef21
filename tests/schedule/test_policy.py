"""Lowering policy: scalars and arrays give the same results, and the rules have their limits."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from autosched.schedule import policy

POINTS = np.array([1, 2, 3, 8, 15, 16, 17, 31, 32, 33, 64, 65, 100, 128, 1000])
GRID = np.array(list(itertools.product(POINTS, POINTS))).T

RULES: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "unrolled": (policy.is_unrolled, (POINTS,)),
    "reduction unrolled": (policy.unrolls_reduction, tuple(GRID)),
    "promoted": (policy.in_registers, (POINTS,)),
    "promoted tuples": (lambda n: policy.in_registers(n, 5), (POINTS,)),
    "row pitch": (lambda n: policy.row_pitch(n, 2), (POINTS,)),
    "row pitch of doubles": (lambda n: policy.row_pitch(n, 8), (POINTS,)),
    "shared pitch along rows": (lambda n: policy.shared_pitch(n, 4, False), (POINTS,)),
    "shared pitch across rows": (lambda n: policy.shared_pitch(n, 4, True), (POINTS,)),
    "shared pitch of bytes along rows": (lambda n: policy.shared_pitch(n, 1, False), (POINTS,)),
    "shared pitch of bytes": (lambda n: policy.shared_pitch(n, 1, True), (POINTS,)),
    "shared pitch of doubles": (lambda n: policy.shared_pitch(n, 8, True), (POINTS,)),
}


@pytest.mark.parametrize("name", RULES)
def test_scalar_and_vectorised_agree(name: str) -> None:
    rule, columns = RULES[name]
    together = np.asarray(rule(*columns))
    assert together.shape == columns[0].shape
    for k, values in enumerate(zip(*columns, strict=True)):
        alone = rule(*(int(v) for v in values))
        assert not isinstance(alone, np.ndarray)
        assert together[k] == alone, values


def test_serial_loops_are_unrolled_up_to_sixteen_points() -> None:
    assert [bool(policy.is_unrolled(n)) for n in (1, 16, 17)] == [True, True, False]
    assert bool(policy.unrolls_reduction(4, 8)) and not bool(policy.unrolls_reduction(4, 9))


def test_accumulators_stay_in_registers_while_their_loops_are_unrolled() -> None:
    assert bool(policy.in_registers(16)) and not bool(policy.in_registers(17))
    assert bool(policy.in_registers(16, 4)) and not bool(policy.in_registers(16, 5))


def test_rows_of_intermediates_start_on_cache_lines() -> None:
    assert [policy.row_pitch(n, 4) for n in (1, 32, 33)] == [32, 32, 64]
    assert [policy.row_pitch(32 * n, 4) // 32 for n in (15, 16, 17, 60)] == [15, 17, 17, 61]
    assert policy.array_strides((3, 5, 33), 4, pitched=True) == ((5 * 64, 64, 1), 3 * 5 * 64)
    assert policy.array_strides((3, 5, 33), 4, pitched=False) == ((5 * 33, 33, 1), 3 * 5 * 33)
    assert policy.array_strides((33,), 4, pitched=True) == ((1,), 33)
    assert policy.array_strides((), 4, pitched=True) == ((), 1)


def test_narrow_rows_are_padded_as_a_group() -> None:
    def strides(*extents: int, itemsize: int = 4) -> tuple[tuple[int, ...], int]:
        return policy.array_strides(extents, itemsize, pitched=True)

    assert strides(7, 100, 3) == ((320, 3, 1), 7 * 320)  # an image with its channels last
    assert strides(7, 200, 3)[0] == (19 * 32, 3, 1) == strides(7, 192, 3)[0]  # an odd number of lines
    assert strides(7, 100, 16) == ((51 * 32, 16, 1), 7 * 51 * 32)
    assert strides(7, 100, 17)[0] == (3200, 32, 1)
    assert strides(7, 100, 1, itemsize=2)[0] == (128, 1, 1)
    assert strides(5, 4, 2, 3)[0] == (32, 6, 3, 1)
    assert strides(5, 2, 2, 3) == ((12, 6, 3, 1), 60)  # the whole array is a few lines


def conflicts(pitch: int, itemsize: int) -> int:
    """Return the number of bank conflicts of a warp in a column access."""
    lanes = np.arange(32 if itemsize <= 4 else 16)  # wider accesses are served half a warp at a time
    words = {int(w) for t in lanes for w in range(t * pitch * itemsize // 4, -(-(t * pitch + 1) * itemsize // 4))}
    return int(np.bincount([w % 32 for w in words]).max())


@pytest.mark.parametrize("itemsize", [1, 2, 4, 8])
def test_column_accesses_of_padded_rows_have_no_bank_conflicts(itemsize: int) -> None:
    for extent in range(1, 300):
        pitch = policy.shared_pitch(extent, itemsize, True)
        assert extent <= pitch <= extent + max(8 // itemsize - 1, 1)
        assert conflicts(pitch, itemsize) == 1
    assert conflicts(32, itemsize) > 1


@pytest.mark.parametrize("itemsize", [1, 2, 4, 8])
def test_shared_rows_accessed_along_rows_have_whole_vectors(itemsize: int) -> None:
    for extent in range(1, 300):
        pitch = policy.shared_pitch(extent, itemsize, False)
        assert extent <= pitch < extent + 16 // itemsize
        assert pitch * itemsize % 16 == 0 if extent * itemsize >= 32 else pitch == extent
