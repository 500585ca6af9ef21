"""Each mechanism of the timing model shows where it must, and only there."""

from __future__ import annotations

from dataclasses import replace

import pytest

from autosched.errors import InputError, LaunchError
from autosched.measure.simulated.device import GAP_SECONDS, KERNEL_SECONDS, Device
from autosched.measure.simulated.residency import resident_blocks
from autosched.measure.simulated.timing import load_latency
from autosched.measure.simulated.traffic import Traffic
from autosched.measure.simulated.work import KernelWork, Phase
from autosched.target import get_target
from tests.measure.simulated.handmade import DEVICE, H200, streaming, timed

LAUNCH = KERNEL_SECONDS + GAP_SECONDS
SMS = H200.multiprocessors


def work_seconds(work: KernelWork, **resources: int) -> float:
    """Return a kernel's time without its launch."""
    return timed(work, **resources).seconds - LAUNCH


def computing(**counts: float) -> KernelWork:
    """Return a kernel without memory accesses, of one wave."""
    phase = Phase(**{"instructions": 1e5, "chain_cycles": 10.0, **counts})
    return KernelWork("k", (SMS * 8,), 256, 0, (phase,), (), repeats=1.0)


def test_a_streaming_kernel_takes_its_bytes_over_the_bandwidth() -> None:
    work = streaming(blocks=200_000, requests=32.0)
    bytes_ = sum(b.bytes for b in work.buffers)
    found = timed(work)
    assert found.limiter == "dram"
    assert found.parts["dram"] == pytest.approx(bytes_ / (0.91 * H200.dram_bytes_per_s), rel=0.02)
    assert 1.0 < (found.seconds - LAUNCH) / found.parts["dram"] < 1.3


def test_twice_the_bytes_takes_twice_as_long() -> None:
    assert work_seconds(streaming(blocks=400_000)) == pytest.approx(
        2 * work_seconds(streaming(blocks=200_000)), rel=0.02
    )


def test_scattered_lanes_are_slower() -> None:
    together, scattered = streaming(sectors_each=4.0), streaming(sectors_each=32.0)
    assert work_seconds(scattered) > 4 * work_seconds(together)


def test_fewer_resident_warps_hide_less() -> None:
    work = streaming(requests=2.0, chain_global=2.0)
    many, few = timed(work, registers=32), timed(work, registers=255)
    assert few.waves == 8 / 1 * many.waves
    assert few.seconds - LAUNCH > 2 * (many.seconds - LAUNCH)


def test_dependent_loads_cost_where_few_warps_hide_them() -> None:
    one, four = (streaming(requests=4.0, chain_global=n) for n in (1.0, 4.0))
    exposed = work_seconds(four, registers=255) / work_seconds(one, registers=255)
    hidden = work_seconds(four, registers=32) / work_seconds(one, registers=32)
    assert exposed > 2.0
    assert 1.0 <= hidden < exposed


def test_loads_on_the_way_need_registers() -> None:
    work = streaming(blocks=SMS, requests=512.0)  # 64 loads a warp, all independent
    assert timed(work, registers=24).parts["latency"] > 4 * timed(work, registers=96).parts["latency"]


def test_a_barrier_waits_for_the_warp_with_most_loads() -> None:
    """The same loads by one warp of eight fill its registers eight times as often."""
    all_warps = streaming(blocks=SMS, requests=512.0)
    one_warp = replace(all_warps, phases=(replace(all_warps.phases[0], warp_load_registers=512.0),))
    latencies = [timed(work, registers=40).parts["latency"] for work in (all_warps, one_warp)]
    assert 5 < latencies[1] / latencies[0] < 8


@pytest.mark.parametrize(("count", "cycles"), [("warp_instructions", 2.0), ("warp_fp64", 2.0)])
def test_a_warp_issues_its_instructions_one_by_one(count: str, cycles: float) -> None:
    """Eight warps take as long as the busiest, though units and schedulers have time for more."""
    even, uneven = computing(**{count: 1e3}), computing(**{count: 1e4})
    longer = timed(uneven).parts["latency"] - timed(even).parts["latency"]
    assert longer == pytest.approx(9e3 * cycles / DEVICE.clock_hz)


def test_a_load_waits_for_the_farthest_of_its_sectors() -> None:
    """Of requests with four sectors more wait for DRAM than of requests with one, at the same share of misses."""
    traffic = Traffic(0.0, 0.0, 0.0, 0.0, 0.0, miss_l1=0.5, miss_l2=0.25)
    at = DEVICE.latencies
    one, four = (load_latency(streaming(sectors_each=n), traffic, DEVICE) for n in (1.0, 4.0))
    assert one == pytest.approx(at.l1 + 0.5 * (at.l2 - at.l1) + 0.25 * (at.dram - at.l2))
    assert four == pytest.approx(at.l1 + (1 - 0.5**4) * (at.l2 - at.l1) + (1 - 0.75**4) * (at.dram - at.l2))


def test_blocks_come_in_waves() -> None:
    resident = resident_blocks(H200, "k", 256, 32, 0)
    waves = [work_seconds(replace(computing(), grid=(SMS * resident * n,))) for n in (1, 2)]
    assert waves[1] == pytest.approx(2 * waves[0])
    one_more = work_seconds(replace(computing(), grid=(SMS * resident + 1,)))
    assert waves[0] * 1.05 < one_more < waves[1]


def test_few_blocks_leave_multiprocessors_idle() -> None:
    one, all_of_them, twice = (work_seconds(replace(computing(), grid=(n,))) for n in (1, SMS, SMS + 1))
    assert one == pytest.approx(all_of_them)
    assert twice > 1.5 * one


def test_atomic_operations_wait_for_the_cache_and_for_their_words() -> None:
    work = streaming()
    (phase,) = work.phases
    lanes = replace(work, phases=(replace(phase, atomic_lanes=32 * 256.0),))
    assert timed(work).parts["atomic"] == 0
    clock = DEVICE.clock_hz
    whole = work.blocks * 32 * 256.0
    assert timed(lanes).parts["atomic"] == pytest.approx(whole / (0.5 * SMS) / clock)
    few = replace(lanes, buffers=(lanes.buffers[0], replace(lanes.buffers[1], span_bytes=32.0)))
    assert timed(few).parts["atomic"] == pytest.approx(whole / 8 / clock)


def test_every_kernel_pays_for_its_launch() -> None:
    nothing = KernelWork("k", (1,), 32, 0, (Phase(),), (), repeats=1.0)
    assert LAUNCH < timed(nothing).seconds < LAUNCH + 1e-6


def test_spills_are_counted_as_often_as_they_run() -> None:
    work = computing()
    once = work_seconds(work, spill_store_bytes=400, spill_load_bytes=400, stack_bytes=400)
    often = work_seconds(replace(work, repeats=50.0), spill_store_bytes=400, spill_load_bytes=400, stack_bytes=400)
    assert work_seconds(work) < once < often
    assert timed(work, spill_store_bytes=400, spill_load_bytes=400).parts["l1"] == pytest.approx(
        8 * 8 * 200 / DEVICE.clock_hz
    )


def test_arrays_in_local_memory_are_counted_only_where_there_is_a_stack() -> None:
    work = computing(register_array_requests=1e5)
    assert timed(work).parts["l1"] == 0.0
    assert timed(work, stack_bytes=64).parts["l1"] > 0.0


@pytest.mark.parametrize(
    ("counts", "part", "cycles"),
    [
        ({"fp32": 1e5}, "fp32", 1e5 / 4),
        ({"integer": 1e5}, "integer", 2 / 3 * 1e5 / 2),
        ({"integer": 1e5, "fp32": 1e5}, "fp32", 4 / 3 * 1e5 / 4),
        ({"fp64": 1e5}, "fp64", 1e5 / 2),
        ({"special": 1e5}, "special", 1e5 / 0.5),
        ({"wavefronts": 1e5}, "l1", 1e5),
        ({"passes": 1e5}, "l1", 1e5),
        ({}, "issue", 1e5 / 4),
    ],
)
def test_units_have_their_rates(counts: dict[str, float], part: str, cycles: float) -> None:
    found = timed(computing(**counts))
    assert found.parts[part] == pytest.approx(8 * cycles / DEVICE.clock_hz)
    assert found.seconds >= found.parts[part] + LAUNCH


def test_bank_conflicts_slow_a_kernel_down() -> None:
    assert work_seconds(computing(wavefronts=4e5)) > 3 * work_seconds(computing(wavefronts=1e4))


def test_a_lone_block_cannot_overlap_its_phases() -> None:
    loading = Phase(instructions=10.0, chain_cycles=4000.0)
    computing_ = Phase(instructions=16000.0, chain_cycles=10.0)
    split = KernelWork("k", (SMS * 4,), 1024, 0, (loading, computing_), (), repeats=1.0)
    joined = replace(split, phases=(Phase(instructions=16010.0, chain_cycles=4040.0),))  # a barrier's cycles less
    lone = {"registers": 64}  # one block of 1024 threads on a multiprocessor
    assert work_seconds(split, **lone) > 1.3 * work_seconds(joined, **lone)
    ratio = work_seconds(split, registers=32) / work_seconds(joined, registers=32)
    assert ratio < work_seconds(split, **lone) / work_seconds(joined, **lone)


def test_latency_and_throughput_meet_at_a_knee() -> None:
    """Where both bounds are equal, the time is more than either, and less than their sum."""
    chain = 25000.0
    work = KernelWork("k", (SMS,), 1024, 0, (Phase(instructions=4 * chain, chain_cycles=chain),), (), repeats=1.0)
    assert 1.3 * chain < work_seconds(work) * DEVICE.clock_hz < 1.6 * chain


@pytest.mark.parametrize(
    ("threads", "registers", "shared", "blocks"),
    [
        (32, 16, 0, 32),  # blocks
        (256, 32, 0, 8),  # threads and warps
        (256, 33, 0, 6),  # registers: 40 a thread, as they are given out in units
        (256, 255, 0, 1),
        (64, 16, 100 * 1024, 2),  # shared memory
        (64, 16, 113 * 1024 + 512, 1),  # two would fit without the system's reserve per block
        (48, 16, 0, 32),
        (1024, 64, 0, 1),
    ],
)
def test_residency(threads: int, registers: int, shared: int, blocks: int) -> None:
    assert resident_blocks(H200, "k", threads, registers, shared) == blocks


def test_a_block_that_fits_nowhere_is_refused() -> None:
    with pytest.raises(LaunchError, match="does not fit a multiprocessor of H200"):
        resident_blocks(H200, "k", 1024, 128, 0)


def test_only_gpus_are_simulated() -> None:
    with pytest.raises(InputError, match=r"choose one, e\.g\. h200"):
        Device.of(get_target("cpu"))


def test_every_gpu_of_the_table_can_be_simulated() -> None:
    for name in ("h200", "h100", "a100", "v100", "p100", "gtx 1080 ti", "rtx 2080 ti", "t4", "agx xavier", "rtx 4090"):
        device = Device.of(get_target(name))
        assert 1e9 < device.clock_hz < 3e9
        assert device.fp64 <= device.fp32
        assert device.latencies.l1 < device.latencies.l2 < device.latencies.dram
