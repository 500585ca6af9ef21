"""Choices of the C backend, one at a time and many at once."""

from __future__ import annotations

import numpy as np
import pytest

from autosched.schedule import cpu_policy
from autosched.schedule.cpu_policy import jam_pays, lane_period, stream_count, strip_lengths


@pytest.mark.parametrize(
    ("lanes", "sums_bytes", "length"),
    [
        (512, 4, 128), (512, 12, 128), (512, 16, 64), (512, 48, 32), (512, 49, 0),  # the sums of a strip fit
        (128, 4, 0), (129, 4, 0), (159, 4, 0), (160, 4, 128),  # wide rows alone, with lanes left for a second strip
    ],
)  # fmt: skip
def test_lengths_of_strips(lanes: int, sums_bytes: int, length: int) -> None:
    assert int(strip_lengths(lanes, sums_bytes)) == length


def test_many_rows_are_like_one() -> None:
    rng = np.random.default_rng(0)
    lanes, sums_bytes = rng.integers(1, 600, 200), rng.integers(1, 60, 200)
    each = [int(strip_lengths(n, b)) for n, b in zip(lanes.tolist(), sums_bytes.tolist(), strict=True)]
    assert strip_lengths(lanes, sums_bytes).tolist() == each


def test_jamming_pays_within_its_limits() -> None:
    limits = {"operations": 100, "loads": 10, "loads_left": 24, "streams": cpu_policy.MAX_JAM_STREAMS}
    assert jam_pays(4, **limits)
    for name, value in (("operations", 101), ("loads_left", 25), ("streams", cpu_policy.MAX_JAM_STREAMS + 1)):
        assert not jam_pays(4, **(limits | {name: value}))


def test_streams_of_both_kinds_of_numbers() -> None:
    positions = [0, 16, 33, 34, 100]
    assert stream_count(positions) == stream_count(np.array(positions, np.uint64)) == 3


def test_periods_of_quotients() -> None:
    assert lane_period([]) == 1
    assert lane_period([(1, 2), (1, 3)]) == 6
    assert lane_period([(2, 4), (0, 5)]) == 2
