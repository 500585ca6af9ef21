"""Lanes that share terms, on the simulated device."""

from __future__ import annotations

from dataclasses import replace

import pytest

from autosched.lower.program import lower
from autosched.measure.simulated.count import count_kernel
from autosched.measure.simulated.device import SHUFFLE_CYCLES
from autosched.measure.simulated.operations import ARITHMETIC_LATENCY
from autosched.measure.simulated.simulate import simulate
from autosched.measure.simulated.work import KernelWork
from autosched.target import get_target
from tests.measure.simulated.test_timing import streaming, timed
from tests.schedule.building import kernel, root, schedule
from tests.schedule.warp_reduction_cases import at_root, rows_of

H200 = get_target("h200")


def work(width: int, dtype: str = "float32") -> KernelWork:
    bound = rows_of((64, 256), "add", dtype)
    found = at_root(bound, "by=16 ty=4", f"by=16 rr.k={256 // width} tr.k={width} ty=4")
    return count_kernel(lower(bound, found).kernels[0])


@pytest.mark.parametrize("width", [2, 8, 32])
def test_what_warps_exchange_is_counted(width: int) -> None:
    steps = width.bit_length() - 1
    assert work(width).total("shuffles") == steps * -(-4 * width // 32)
    assert work(width, "float64").total("shuffles") == 2 * steps * -(-4 * width // 32)


def test_one_exchange_waits_for_the_other() -> None:
    """All other work of the lanes is equal; the terms are unrolled, and their loads overlap."""
    few, many = work(8), work(32)
    terms = (32 - 8) * ARITHMETIC_LATENCY  # one after the other
    more = many.total("chain_cycles") - few.total("chain_cycles")
    assert more == pytest.approx(2 * (SHUFFLE_CYCLES + ARITHMETIC_LATENCY) - terms)


def test_shuffles_go_the_way_of_shared_memory() -> None:
    plain = streaming()
    (phase,) = plain.phases
    more = replace(plain, phases=(replace(phase, shuffles=1e6),))
    other = replace(plain, phases=(replace(phase, wavefronts=phase.wavefronts + 1e6),))
    assert timed(more).parts["l1"] == pytest.approx(timed(other).parts["l1"])
    assert timed(more).parts["l1"] > timed(plain).parts["l1"]


def test_a_few_long_sums_are_faster_with_lanes() -> None:
    bound = rows_of((4096, 1024))
    alone = schedule(bound, kernel(bound, [root("f", "by=128 ty=32"), root("f.1", "by=128 ty=32 rr.k=1024")]))
    lanes = at_root(bound, "by=1024 ty=4", "by=1024 rr.k=32 tr.k=32 ty=4")
    assert simulate(bound, lanes, H200).seconds < simulate(bound, alone, H200).seconds / 4
