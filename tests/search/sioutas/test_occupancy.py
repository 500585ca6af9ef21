"""Occupancy: the paper's example, and figures of NVIDIA's occupancy calculator."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from autosched.search.strategies.sioutas.occupancy import estimate_occupancy, registers_per_thread
from autosched.target import get_target


def test_registers_are_the_most_that_a_block_can_have_up_to_64() -> None:
    threads = np.array([32, 512, 1024])
    assert registers_per_thread(get_target("rtx-2080-ti"), threads).tolist() == [64, 64, 64]  # the example of section 3
    few = replace(get_target("v100"), name="few", registers_per_sm=32768)
    assert registers_per_thread(few, threads).tolist() == [64, 64, 32]


@pytest.mark.parametrize(
    ("target", "threads", "shared", "occupancy", "active"),
    [
        ("rtx-2080-ti", 512, 2048, 1.0, 1024),  # section 3: 64 registers, 2048 bytes, 512 threads: 100 %
        ("rtx-2080-ti", 96, 0, 30 / 32, 960),  # 3 warps: 10 blocks
        ("rtx-2080-ti", 32, 0, 16 / 32, 512),  # at most 16 blocks
        ("rtx-2080-ti", 96, 40 * 1024, 3 / 32, 96),  # 64 KiB hold one block
        ("rtx-2080-ti", 34, 0, 1.0, 16 * 34),  # 2 warps, the second one nearly empty
        ("v100", 256, 33 * 1024, 16 / 64, 512),  # 96 KiB hold two blocks
        ("v100", 256, 0, 32 / 64, 1024),  # 64 registers: four blocks
    ],
)
def test_occupancy(target: str, threads: int, shared: int, occupancy: float, active: int) -> None:
    found = estimate_occupancy(get_target(target), np.array([threads]), np.array([shared]), np.array([1000]))
    assert found.occupancy.tolist() == [occupancy]
    assert found.active_threads.tolist() == [active]


def test_fewer_blocks_than_multiprocessors_leave_some_idle() -> None:
    blocks = np.array([10, 68, 500])
    found = estimate_occupancy(get_target("rtx-2080-ti"), np.full(3, 64), np.zeros(3, np.int64), blocks)
    assert found.active_multiprocessors.tolist() == [10, 68, 68]


def test_no_multiprocessor_is_active_where_a_block_does_not_fit() -> None:
    found = estimate_occupancy(get_target("rtx-2080-ti"), np.array([64]), np.array([65 * 1024]), np.array([500]))
    assert (found.occupancy[0], found.active_threads[0], found.active_multiprocessors[0]) == (0, 0, 0)
