"""Barriers of a warp in the emulator: they order the accesses of the warp's threads alone, who must all come."""

from __future__ import annotations

import numpy as np
import pytest

from autosched.runtime.compile.host_compiler import have_compiler
from autosched.runtime.emulator import EmulatorError, ErrorKind
from autosched.runtime.emulator.trace import Trace
from tests.runtime.test_emulator_races import I32, compile_text, line_of, out
from tests.runtime.test_emulator_vectors import run

pytestmark = pytest.mark.skipif(not have_compiler("c++"), reason="no C++ compiler")

ALL = "WARP_BARRIER(0xffffffffu);"
SEEDS = range(8)

REVERSE = f"""
KERNEL(reverse, 64)(GLOBAL_OUT(int, b, 128)) {{
    SHARED(int, s, 64, 0);
    const int lane = threadIdx.x, warp = threadIdx.y;
    STORE(0, s, 32 * warp + lane, lane);
    {ALL}  // written
    STORE(1, b, 64 * blockIdx.x + 32 * warp + lane, LOAD(2, s, 32 * warp + 31 - lane));
    {ALL}  // read
    STORE(3, s, 32 * warp + lane, 0);
}}
"""


def launch(body: str, *, seed: int = 0) -> np.ndarray:
    found = np.zeros(128, np.int32)
    compile_text(body, out("b", 128, I32)).launch((2, 1, 1), (32, 2, 1), 256, [found], seed=seed, single_writer=False)
    return found


@pytest.mark.parametrize("seed", SEEDS)
def test_warps_exchange_values_in_their_own_slices(seed: int) -> None:
    np.testing.assert_array_equal(launch(REVERSE, seed=seed), np.tile(np.arange(31, -1, -1), 4))


@pytest.mark.parametrize("mark", ["written", "read"])
def test_each_barrier_is_needed(mark: str) -> None:
    broken = "\n".join(line.replace(ALL, "") if mark in line else line for line in REVERSE.split("\n"))
    assert broken != REVERSE
    for seed in SEEDS:
        with pytest.raises(EmulatorError) as caught:
            launch(broken, seed=seed)
        assert caught.value.kind in (ErrorKind.RACE, ErrorKind.UNINITIALISED_READ)
        assert caught.value.buffer == "s"


def test_a_barrier_of_the_warp_does_not_order_other_warps() -> None:
    across = REVERSE.replace("LOAD(2, s, 32 * warp + 31 - lane)", "LOAD(2, s, 63 - 32 * warp - lane)")
    across = across.replace("STORE(3, s, 32 * warp + lane, 0);", "")
    found = set()
    for seed in SEEDS:
        with pytest.raises(EmulatorError) as caught:
            launch(across, seed=seed)
        found.add(caught.value.kind)
    assert found <= {ErrorKind.RACE, ErrorKind.UNINITIALISED_READ} and ErrorKind.RACE in found
    np.testing.assert_array_equal(launch(across.replace(ALL, "BARRIER();")), np.tile(np.arange(31, -1, -1), 4))


@pytest.mark.parametrize("reader", ["lane", "0 * lane"])
def test_reads_of_another_warp_conflict_with_a_later_write(reader: str) -> None:
    """The other warp's read is not forgotten at a barrier of the reader's or the writer's warp."""
    body = f"""
KERNEL(later, 64)(GLOBAL_OUT(int, b, 128)) {{
    SHARED(int, s, 64, 0);
    const int lane = threadIdx.x, warp = threadIdx.y;
    if (warp == 0) STORE(0, s, lane, lane);
    BARRIER();
    STORE(1, b, 64 * blockIdx.x + 32 * warp + lane, LOAD(2, s, {reader}));
    {ALL}
    if (warp == 0) STORE(3, s, lane, 7);
}}
"""
    for seed in SEEDS:
        with pytest.raises(EmulatorError) as caught:
            launch(body, seed=seed)
        assert caught.value.kind is ErrorKind.RACE
    launch(body.replace(ALL, "BARRIER();"))


def test_atomic_updates_of_a_warp_are_read_after_its_barrier() -> None:
    body = f"""
KERNEL(total, 64)(GLOBAL_OUT(int, b, 128)) {{
    SHARED(int, s, 2, 0);
    const int lane = threadIdx.x, warp = threadIdx.y;
    if (lane == 0) STORE(0, s, warp, 0);
    {ALL}  // zero
    ATOMIC_ADD(1, int, s, warp, lane);
    {ALL}  // total
    STORE(2, b, 64 * blockIdx.x + 32 * warp + lane, LOAD(3, s, warp));
}}
"""
    for seed in SEEDS:
        assert launch(body, seed=seed).tolist() == [31 * 16] * 128
    for mark in ("zero", "total"):
        broken = "\n".join(line.replace(ALL, "") if mark in line else line for line in body.split("\n"))
        with pytest.raises(EmulatorError):
            launch(broken)


def test_global_memory_is_ordered_within_a_warp() -> None:
    body = f"""
KERNEL(rotate, 64)(GLOBAL_OUT(int, b, 128)) {{
    const int lane = threadIdx.x, first = 64 * blockIdx.x + 32 * threadIdx.y;
    STORE(0, b, first + lane, lane);
    {ALL}
    const int next = LOAD(1, b, first + (lane + 1) % 32), all = LOAD(2, b, first);
    {ALL}
    STORE(3, b, first + lane, next + all);
}}
"""
    for seed in SEEDS:
        np.testing.assert_array_equal(launch(body, seed=seed), np.tile((np.arange(32) + 1) % 32, 4))
    before, between, after = body.split(ALL)
    for broken in (before + between + ALL + after, before + ALL + between + after):
        with pytest.raises(EmulatorError, match="race"):
            launch(broken)
    with pytest.raises(EmulatorError, match="race"):
        launch(body.replace("LOAD(2, b, first)", "LOAD(2, b, 64 * blockIdx.x)"))


@pytest.mark.parametrize(
    ("statement", "block", "reason"),
    [
        (f"if (t < 31) {{ {ALL} }}", 32, r"thread \(31, 0, 0\), which has returned"),
        (f"if (t != 5) {{ {ALL} }} else {{ BARRIER(); }}", 32, r"thread \(5, 0, 0\), which waits at line 5"),
        (f"if (t < 16) {{ {ALL} }} else {{ {ALL} }}", 32, r"thread \(16, 0, 0\), which waits at line 5"),
        (ALL, 24, "other threads, which do not take part"),
        ("WARP_BARRIER(0xffffu);", 24, r"thread \(16, 0, 0\)"),
    ],
)
def test_every_thread_of_the_warp_has_to_come(statement: str, block: int, reason: str) -> None:
    with pytest.raises(EmulatorError, match=f"the barrier is not reached by {reason}") as caught:
        run(statement + " STORE(1, b, t, LOAD(0, a, t));", block=block)
    assert caught.value.kind is ErrorKind.DIVERGENT_BARRIER
    assert caught.value.line == 5


def test_warps_pass_different_numbers_of_barriers() -> None:
    body = f"""
    for (int k = 0; k < 1 + 2 * (t / 32); k++) {{
        STORE(0, s, t, k);
        {ALL}
        STORE(1, b, t, LOAD(2, s, t / 32 * 32 + 31 - t % 32) + LOAD(3, a, t));
        {ALL}
    }}
    """
    found, trace = run(body, block=64, traced=True)
    np.testing.assert_array_equal(found[:64], np.arange(64) + 2 * (np.arange(64) // 32))
    assert isinstance(trace, Trace) and (trace.warp_barriers, trace.barriers) == (2 + 6, 0)
    assert trace.requests[0] == 4


def test_the_text_names_its_lanes() -> None:
    with pytest.raises(Exception, match=f"line {line_of(REVERSE, 'written')}: WARP_BARRIER does not follow"):
        launch(REVERSE.replace(f"{ALL}  // written", "WARP_BARRIER();  // written"))
