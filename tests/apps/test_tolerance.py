"""Differences within a tolerance."""

from __future__ import annotations

import re

import numpy as np
import pytest

from autosched.apps.tolerance import EXACT, Tolerance

NAN, INF = float("nan"), float("inf")


def _floats(*values: float) -> np.ndarray:
    return np.array(values, np.float64)


@pytest.mark.parametrize(
    ("tolerance", "got", "expected"),
    [
        (EXACT, _floats(1.0, NAN, INF), _floats(1.0, NAN, INF)),
        (EXACT, np.array([2**62 + 1]), np.array([2**62 + 1])),
        (Tolerance(atol=0.1), _floats(1.05), _floats(1.0)),
        (Tolerance(rtol=0.1), _floats(105.0), _floats(100.0)),
        (Tolerance(bad_fraction=0.5), _floats(1.0, 7.0), _floats(1.0, 2.0)),
        (Tolerance(bad_fraction=0.5, hard_atol=5.0), _floats(1.0, 7.0), _floats(1.0, 2.0)),
        (EXACT, np.zeros((0, 3)), np.zeros((0, 3))),
    ],
)
def test_passes(tolerance: Tolerance, got: np.ndarray, expected: np.ndarray) -> None:
    assert tolerance.mismatch(got, expected) is None


@pytest.mark.parametrize(
    ("tolerance", "got", "expected", "message"),
    [
        (EXACT, _floats(1.0), np.array([1.0], np.float32), "dtype float64, expected float32"),
        (EXACT, _floats(1.0), _floats(1.0, 2.0), r"shape \(1,\), expected \(2,\)"),
        (EXACT, np.array([[1, 2], [3, 5]]), np.array([[1, 2], [3, 4]]), r"1 of 4 elements .* worst is \[1, 1\]"),
        (EXACT, np.array([2**62 + 1]), np.array([2**62]), "1 of 1"),
        (Tolerance(rtol=1.0, atol=1.0), _floats(NAN), _floats(1.0), "1 of 1"),
        (Tolerance(rtol=1.0, atol=1.0), _floats(1.0), _floats(INF), "1 of 1"),
        (Tolerance(rtol=1.0, atol=1.0), _floats(INF), _floats(-INF), "1 of 1"),
        (Tolerance(atol=0.1), _floats(0.0, 1.2, 9.0), _floats(0.0, 1.0, 2.0), r"2 of 3 .* worst is \[2\]"),
        (Tolerance(bad_fraction=0.4), _floats(1.0, 7.0), _floats(1.0, 2.0), "1 of 2"),
        (Tolerance(bad_fraction=0.5, hard_atol=4.0), _floats(1.0, 7.0), _floats(1.0, 2.0), "1 of 2"),
    ],
)
def test_refuses(tolerance: Tolerance, got: np.ndarray, expected: np.ndarray, message: str) -> None:
    problem = tolerance.mismatch(got, expected)
    assert problem is not None
    assert re.search(message, problem)
