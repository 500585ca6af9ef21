"""Caches: reuse between requests, blocks and kernels."""

from __future__ import annotations

from dataclasses import replace

import pytest

from autosched.measure.simulated.traffic import L2State, Traffic, kernel_bytes, read_bytes, traffic_of
from autosched.measure.simulated.work import BufferWork, KernelWork, Phase
from autosched.runtime.compile.ptxas_log import KernelResources
from tests.measure.simulated.handmade import DEVICE, MIB, cold_l2, streaming

PLAIN = KernelResources(registers=32)


def array(name: str, *, mib: float, blocks: int, store: bool = False, fresh: tuple[float, ...] = (1.0,)) -> BufferWork:
    """Return an array of some size that the blocks of a kernel read or write once."""
    each = mib * MIB / blocks
    return BufferWork(
        name=name, bytes=int(mib * MIB), load_sectors=0.0 if store else each / 32, load_bytes=0.0 if store else each,
        window_bytes=0.0 if store else each, store_bytes=each if store else 0.0, span_bytes=mib * MIB, fresh=fresh,
    )  # fmt: skip


def pass_over(*buffers: BufferWork, blocks: int = 1024) -> KernelWork:
    """Return a kernel of one loop over blocks."""
    loads = sum(b.load_sectors for b in buffers)
    phase = Phase(load_sectors=loads, load_requests=loads / 4, store_sectors=sum(b.store_bytes / 32 for b in buffers))
    return KernelWork("k", (blocks,), 256, 0, (phase,), buffers, repeats=1.0)


def moved(
    work: KernelWork, l2: L2State | None = None, resident: int = 8, resources: KernelResources = PLAIN
) -> Traffic:
    return traffic_of(work, resources, resident, DEVICE, l2 or cold_l2())


def test_a_consumer_finds_what_the_kernel_before_wrote() -> None:
    producer = pass_over(array("in", mib=4, blocks=1024), array("scratch", mib=4, blocks=1024, store=True))
    consumer = pass_over(array("scratch", mib=4, blocks=1024), array("out", mib=4, blocks=1024, store=True))
    l2 = cold_l2()
    assert moved(producer, l2).dram_read_bytes == pytest.approx(4 * MIB)
    l2.advance(producer)
    assert moved(consumer, l2).dram_read_bytes == 0.0
    assert moved(consumer).dram_read_bytes == pytest.approx(4 * MIB)


def test_what_came_between_drives_it_out() -> None:
    producer = pass_over(array("scratch", mib=4, blocks=1024, store=True))
    consumer = pass_over(array("scratch", mib=4, blocks=1024))
    reads = []
    for between in (1, 28, 200):
        l2 = cold_l2()
        l2.advance(producer)
        l2.advance(pass_over(array("other", mib=between, blocks=1024)))
        reads.append(moved(consumer, l2).dram_read_bytes)
    assert reads[0] == 0.0
    assert 0.0 < reads[1] < 4 * MIB
    assert reads[2] == pytest.approx(4 * MIB)


def test_an_array_larger_than_the_cache_is_kept_in_part() -> None:
    l2 = cold_l2()
    l2.advance(pass_over(array("scratch", mib=60, blocks=1024, store=True)))
    read = moved(pass_over(array("scratch", mib=60, blocks=1024)), l2).dram_read_bytes
    assert read == pytest.approx(60 * MIB - DEVICE.l2_capacity, rel=1e-6)


def test_scratch_is_written_back_as_far_as_a_run_exceeds_the_cache() -> None:
    work = pass_over(array("scratch", mib=4, blocks=1024, store=True), array("out", mib=4, blocks=1024, store=True))
    assert moved(work, cold_l2(run_bytes=8 * MIB)).dram_write_bytes == pytest.approx(4 * MIB)
    half = moved(work, cold_l2(run_bytes=2 * DEVICE.l2_capacity)).dram_write_bytes
    assert half == pytest.approx((4 + 2) * MIB)


def test_blocks_that_share_rows_read_them_once_from_memory() -> None:
    work = pass_over(replace(array("in", mib=16, blocks=1024), load_bytes=2 * 16 * MIB / 1024, fresh=(0.5,)))
    assert read_bytes(work.buffers[0], work.grid) == pytest.approx(16 * MIB, rel=0.01)
    assert moved(work).dram_read_bytes == pytest.approx(16 * MIB, rel=0.01)


def test_a_neighbour_that_comes_too_late_reads_again() -> None:
    """Blocks of the outer loop reread the data of the inner loop: 8 MiB stay in the cache, 64 MiB do not."""
    for mib, times in ((8, 1), (64, 4)):
        each = array("in", mib=mib, blocks=4096, fresh=(1.0, 0.0))
        work = replace(pass_over(each), grid=(4096, 4))
        assert moved(work).dram_read_bytes == pytest.approx(times * mib * MIB, rel=0.01)


def test_neighbours_that_run_together_share_whatever_the_sweep() -> None:
    each = array("in", mib=64, blocks=64, fresh=(1.0, 0.0))
    assert moved(replace(pass_over(each), grid=(64, 4))).dram_read_bytes == pytest.approx(64 * MIB, rel=0.01)


def test_the_first_cache_serves_what_a_block_reads_again() -> None:
    again = replace(array("in", mib=16, blocks=1024), load_sectors=8 * 16 * MIB / 1024 / 32)
    work = pass_over(again)
    assert moved(work).miss_l1 == pytest.approx(1 / 8)
    crowded = replace(work, shared_bytes=28 * 1024)
    assert moved(crowded).l2_read_bytes > 2 * moved(work).l2_read_bytes


def test_spilled_registers_leave_the_first_cache_when_they_are_many() -> None:
    work = streaming()
    few = KernelResources(registers=255, spill_store_bytes=64, spill_load_bytes=64, stack_bytes=64)
    many = KernelResources(registers=255, spill_store_bytes=64, spill_load_bytes=64, stack_bytes=4096)
    assert moved(work, resources=few).l2_write_bytes == moved(work).l2_write_bytes
    assert moved(work, resources=many).l2_write_bytes > moved(work).l2_write_bytes


def test_a_kernel_touches_each_byte_once() -> None:
    work = pass_over(array("in", mib=4, blocks=1024), array("out", mib=2, blocks=1024, store=True))
    assert kernel_bytes(work) == pytest.approx(6 * MIB)
