"""Counts of traced launches equal counts by hand."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from autosched.runtime.compile.host_compiler import have_compiler
from autosched.runtime.emulator import ParamSpec, Trace, TraceFootprint, compile_emulated

pytestmark = pytest.mark.skipif(not have_compiler("c++"), reason="no C++ compiler")

C_TYPES = {"uint8": "unsigned char", "uint16": "unsigned short", "float32": "float", "float64": "double"}


def trace_global(
    index: str, dtype: str = "float32", *, threads: int = 32, grid: int = 1, guard: str = "true", count: int = 4096
) -> Trace:
    """Trace a load (site 0) and a store (site 1) of ``index``, a C expression of the thread t and block n."""
    c_type = C_TYPES[dtype]
    body = f"""
KERNEL(k, {threads})(GLOBAL_IN({c_type}, a, {count}), GLOBAL_OUT({c_type}, b, {count})) {{
    const int t = threadIdx.x, n = blockIdx.x;
    if ({guard}) {{
        STORE(1, b, {index}, LOAD(0, a, {index}));
    }}
}}
"""
    params = [ParamSpec("in", np.dtype(dtype), "a", count), ParamSpec("out", np.dtype(dtype), "b", count)]
    kernel = compile_emulated(body, "k", params, common_prelude="", traced=True)
    result = kernel.launch((grid, 1, 1), (threads, 1, 1), 0, [np.zeros(count, dtype) for _ in range(2)])
    assert result is not None
    return result


@pytest.mark.parametrize(
    ("index", "dtype", "sectors"),
    [
        ("t", "float32", 4),
        ("31 - t", "float32", 4),
        ("t + 8", "float32", 4),
        ("t + 1", "float32", 5),
        ("t + 7", "float32", 5),
        ("2 * t", "float32", 8),
        ("2 * t + 5", "float32", 9),
        ("8 * t", "float32", 32),
        ("100 * t", "float32", 32),
        ("t % 8 + 16 * (t / 8)", "float32", 4),
        ("t", "uint8", 1),
        ("t + 1", "uint8", 2),
        ("t", "uint16", 2),
        ("t", "float64", 8),
        ("t + 1", "float64", 9),
    ],
)
def test_sectors_of_one_warp(index: str, dtype: str, sectors: int) -> None:
    trace = trace_global(index, dtype)
    assert trace.sectors.tolist() == [sectors, sectors]
    assert trace.requests.tolist() == [1, 1]
    assert trace.active_lanes.tolist() == [32, 32]
    assert (trace.global_load_sectors, trace.global_store_sectors) == (sectors, sectors)
    assert not trace.wavefronts.any()
    assert trace.footprint.total.tolist() == [32 * np.dtype(dtype).itemsize] * 2


def test_a_broadcast_read_is_one_sector() -> None:
    body = """
KERNEL(k, 32)(GLOBAL_IN(float, a, 64), GLOBAL_OUT(float, b, 32)) {
    STORE(1, b, threadIdx.x, LOAD(0, a, 33));
}
"""
    f32 = np.dtype(np.float32)
    params = [ParamSpec("in", f32, "a", 64), ParamSpec("out", f32, "b", 32)]
    kernel = compile_emulated(body, "k", params, common_prelude="", traced=True)
    trace = kernel.launch((1, 1, 1), (32, 1, 1), 0, [np.zeros(64, f32), np.zeros(32, f32)])
    assert trace is not None
    assert trace.sectors.tolist() == [1, 4]
    assert trace.footprint.total.tolist() == [4, 128]


def test_partial_warps_and_guarded_lanes() -> None:
    # 72 threads are warps of 32, 32 and 8 lanes; the guard leaves 32, 16 and none of them.
    trace = trace_global("n * 72 + t", threads=72, grid=3, guard="t < 48")
    assert (trace.blocks, trace.warps, trace.threads) == (3, 9, 216)
    assert trace.requests.tolist() == [6, 6]
    assert trace.active_lanes.tolist() == [144, 144]
    # Blocks start at byte 0, 288 and 576, all multiples of 32: 128 and 64 bytes are 4 and 2 sectors.
    assert trace.sectors.tolist() == [18, 18]


def test_warps_are_numbered_with_x_innermost() -> None:
    body = """
KERNEL(k, 64)(GLOBAL_OUT(float, b, 8192)) {
    STORE(0, b, threadIdx.x + 128 * (threadIdx.y + 4 * threadIdx.z), 0.0f);
}
"""
    kernel = compile_emulated(body, "k", [ParamSpec("out", np.dtype("f4"), "b", 8192)], common_prelude="", traced=True)
    trace = kernel.launch((1, 1, 1), (16, 2, 2), 0, [np.zeros(8192, np.float32)])
    assert trace is not None
    # A warp is 16 by 2 threads: two rows of 64 bytes.
    assert trace.requests.tolist() == [2]
    assert trace.sectors.tolist() == [8]


@pytest.mark.parametrize(
    ("index", "dtype", "wavefronts", "conflicts"),
    [
        ("t", "float32", 1, 0),
        ("31 - t", "float32", 1, 0),
        ("2 * t", "float32", 2, 1),
        ("3 * t", "float32", 1, 0),
        ("32 * t", "float32", 32, 31),
        ("33 * t", "float32", 1, 0),
        ("7", "float32", 1, 0),
        ("t / 2", "float32", 1, 0),
        ("t % 4 * 32", "float32", 4, 3),
        ("t", "uint8", 1, 0),
        ("128 * (t % 2)", "uint8", 2, 1),
        ("t", "uint16", 1, 0),
        ("2 * t", "uint16", 1, 0),
        ("4 * t", "uint16", 2, 1),
        # Eight bytes: each half-warp takes one wavefront when its 32 words lie in 32 banks.
        ("t", "float64", 2, 0),
        ("2 * t", "float64", 4, 2),
        ("16 * t", "float64", 32, 30),
        ("5", "float64", 2, 0),
    ],
)
def test_wavefronts_of_one_warp(index: str, dtype: str, wavefronts: int, conflicts: int) -> None:
    c_type, size = C_TYPES[dtype], np.dtype(dtype).itemsize
    body = f"""
KERNEL(k, 32)(GLOBAL_OUT({c_type}, b, 32)) {{
    SHARED({c_type}, s, 1056, 128);
    const int t = threadIdx.x;
    for (int i = t; i < 1056; i += 32) {{
        ITER(0, i / 32);
        STORE(0, s, i, 0);
    }}
    BARRIER();
    STORE(1, b, t, LOAD(2, s, {index}));
}}
"""
    kernel = compile_emulated(
        body, "k", [ParamSpec("out", np.dtype(dtype), "b", 32)], common_prelude="", traced=True, site_depths=[1, 0, 0]
    )
    trace = kernel.launch((1, 1, 1), (32, 1, 1), 128 + 1056 * size, [np.zeros(32, dtype)])
    assert trace is not None
    assert trace.requests.tolist() == [33, 1, 1]
    assert trace.wavefronts[2] == wavefronts
    assert trace.bank_conflicts[2] == conflicts
    assert trace.wavefronts[0] == 33 * (2 if size == 8 else 1)
    assert trace.bank_conflicts[0] == 0
    assert trace.sectors[2] == 0
    assert trace.barriers == 1
    assert (trace.shared_load_wavefronts, trace.total_bank_conflicts) == (wavefronts, conflicts)
    assert trace.space == ("shared", "global", "shared")


@pytest.mark.parametrize(("offset", "wavefronts"), [(0, 2), (2, 1)])
def test_banks_follow_from_the_position_in_shared_memory(offset: int, wavefronts: int) -> None:
    # Bytes 1 and 130 lie in words 0 and 32, which share a bank; two bytes further in words 0 and 33.
    body = f"""
KERNEL(k, 2)(GLOBAL_OUT(unsigned char, b, 2)) {{
    SHARED(unsigned char, s, 256, {offset});
    const int at = threadIdx.x == 0 ? 1 : 130;
    STORE(0, s, at, 1);
    STORE(2, b, threadIdx.x, LOAD(1, s, at));
}}
"""
    kernel = compile_emulated(body, "k", [ParamSpec("out", np.dtype("u1"), "b", 2)], common_prelude="", traced=True)
    trace = kernel.launch((1, 1, 1), (2, 1, 1), 258, [np.zeros(2, np.uint8)])
    assert trace is not None
    assert trace.wavefronts.tolist() == [wavefronts, wavefronts, 0]


def test_a_half_warp_without_active_lanes_costs_nothing() -> None:
    body = """
KERNEL(k, 32)(GLOBAL_OUT(double, b, 32)) {
    SHARED(double, s, 32, 0);
    if (threadIdx.x >= 16) { STORE(0, s, threadIdx.x, 1.0); }
}
"""
    kernel = compile_emulated(body, "k", [ParamSpec("out", np.dtype("f8"), "b", 32)], common_prelude="", traced=True)
    trace = kernel.launch((1, 1, 1), (32, 1, 1), 256, [np.zeros(32)])
    assert trace is not None
    assert (trace.requests[0], trace.active_lanes[0], trace.wavefronts[0]) == (1, 16, 1)


def trace_loop(body: str, *, seed: int = 0, workers: int | None = None, grid: int = 1) -> Trace:
    """Trace a kernel of 32 threads whose statements are ``body``; a and b have 4096 elements."""
    text = f"""
KERNEL(k, 32)(GLOBAL_IN(float, a, 4096), GLOBAL_OUT(float, b, 4096)) {{
    const int t = threadIdx.x, n = blockIdx.x;
    float sum = 0;
    {body}
    STORE(9, b, n * 32 + t, sum);
}}
"""
    f32 = np.dtype(np.float32)
    params = [ParamSpec("in", f32, "a", 4096), ParamSpec("out", f32, "b", 4096)]
    kernel = compile_emulated(text, "k", params, common_prelude="", traced=True)
    arrays = [np.zeros(4096, f32) for _ in range(2)]
    trace = kernel.launch((grid, 1, 1), (32, 1, 1), 0, arrays, seed=seed, workers=workers)
    assert trace is not None
    return trace


def test_iterations_that_lanes_skip_are_not_mixed_up() -> None:
    # In each iteration half of the lanes read. By order of execution alone the first reads of all lanes
    # would look like one request.
    trace = trace_loop(
        "for (int i = 0; i < 4; i++) { ITER(0, i); if ((t + i) % 2) { sum += LOAD(0, a, 64 * i + t); } }"
    )
    assert trace.requests[0] == 4
    assert trace.active_lanes[0] == 64
    assert trace.sectors[0] == 16


def test_lanes_with_different_trip_counts() -> None:
    trace = trace_loop("for (int i = 0; i < t; i++) { ITER(0, i); sum += LOAD(0, a, i); }")
    assert trace.requests[0] == 31
    assert trace.active_lanes[0] == 31 * 32 // 2
    assert trace.sectors[0] == 31


def test_nested_and_sibling_loops() -> None:
    trace = trace_loop("""
    for (int j = 0; j < 3; j++) {
        ITER(0, j);
        sum += LOAD(0, a, 8 * (t + j));
        for (int i = 0; i < 5; i++) {
            ITER(1, i);
            if ((t + i + j) % 2) { sum += LOAD(1, a, t); }
        }
        for (int i = 0; i < 2; i++) {
            ITER(1, i);
            sum += LOAD(2, a, t);
        }
        sum += LOAD(3, a, 0);
    }
    for (int i = 0; i < 7; i++) { ITER(0, i); if (t != i) { sum += LOAD(4, a, i); } }
    sum += LOAD(5, a, t);
    """)
    assert trace.requests[:6].tolist() == [3, 15, 6, 3, 7, 1]
    assert trace.active_lanes[:6].tolist() == [96, 240, 192, 96, 217, 32]
    assert trace.sectors[:6].tolist() == [96, 60, 24, 3, 7, 4]


def test_repetitions_within_an_iteration_keep_their_order() -> None:
    trace = trace_loop("""
    for (int j = 0; j < 4; j++) {
        ITER(0, j);
        for (int i = 0; i < 3; i++) { sum += LOAD(0, a, 512 * j + 64 * i + t); }
    }
    """)
    assert (trace.requests[0], trace.active_lanes[0], trace.sectors[0]) == (12, 384, 48)


def test_repetitions_that_no_counter_tells_apart_are_requests_of_their_own() -> None:
    trace = trace_loop("for (int i = 0; i < 3; i++) { sum += LOAD(0, a, 32 * i + t); }")
    assert (trace.requests[0], trace.active_lanes[0], trace.sectors[0]) == (3, 96, 12)


def test_counts_do_not_depend_on_thread_order_or_workers() -> None:
    body = """
    for (int i = 0; i < 90; i++) {
        ITER(0, i);
        if (t % 3 != i % 3 && (n > 0 || i > 2)) { sum += LOAD(0, a, 7 * t + n * i); }
    }
    """
    reference = trace_loop(body, grid=40, workers=1)
    assert reference.footprint.block_min[0] < reference.footprint.block_mean[0] < reference.footprint.block_max[0]
    for seed, workers in ((1, 1), (2, 2), (3, 3), (4, 4), (5, 40)):
        trace = trace_loop(body, grid=40, seed=seed, workers=workers)
        for field in dataclasses.fields(Trace):
            mine, theirs = getattr(trace, field.name), getattr(reference, field.name)
            if isinstance(mine, TraceFootprint):
                mine, theirs = dataclasses.astuple(mine), dataclasses.astuple(theirs)
            np.testing.assert_equal(mine, theirs)


def test_footprints_by_block_site_and_parameter() -> None:
    # Blocks of 32 read a window of 34, but the first and last only its part inside [0, 128).
    trace = trace_loop(
        """
    const int x = 32 * n + t;
    if (x > 0) { sum += LOAD(0, a, x - 1); }
    sum += LOAD(1, a, x);
    if (x < 127) { sum += LOAD(2, a, x + 1); }
    """,
        grid=4,
    )
    site = trace.footprint
    assert site.block_min[:3].tolist() == [124, 128, 124]
    assert site.block_mean[:3].tolist() == [127, 128, 127]
    assert site.block_max[:3].tolist() == [128, 128, 128]
    assert site.total[:3].tolist() == [508, 512, 508]
    parameter = trace.parameter_footprint
    assert trace.parameter_names == ("a", "b")
    assert parameter.block_min.tolist() == [132, 128]
    assert parameter.block_mean.tolist() == [134, 128]
    assert parameter.block_max.tolist() == [136, 128]
    assert parameter.total.tolist() == [512, 512]


def test_a_subset_of_blocks_and_what_sites_are() -> None:
    body = """
KERNEL(k, 32)(GLOBAL_IN(short, a, 1024), GLOBAL_OUT(float, b, 1024)) {
    REGISTER(float, r, 1);
    const int x = 32 * blockIdx.x + threadIdx.x;
    // LOAD(7, a, 0) in a comment is no site
    STORE(2, r, 0, LOAD(0, a, x));
    if (blockIdx.x == 31) {
        STORE(5, b, x, LOAD(3, r, 0));
    }
}
"""
    params = [ParamSpec("in", np.dtype(np.int16), "a", 1024), ParamSpec("out", np.dtype(np.float32), "b", 1024)]
    kernel = compile_emulated(body, "k", params, common_prelude="", traced=True)
    arrays = [np.zeros(1024, np.int16), np.zeros(1024, np.float32)]
    trace = kernel.launch((32, 1, 1), (32, 1, 1), 0, arrays, blocks=[(31, 0, 0), (0, 0, 0), (5, 0, 0)])
    assert trace is not None
    assert (trace.blocks, trace.warps) == (3, 3)
    assert trace.buffer == ("a", "", "r", "r", "", "b")
    assert trace.space == ("global", "", "register", "register", "", "global")
    assert trace.is_store.tolist() == [False, False, True, False, False, True]
    assert trace.element_bytes.tolist() == [2, 0, 4, 4, 0, 4]
    assert trace.line.tolist() == [6, 0, 6, 8, 0, 8]
    assert trace.requests.tolist() == [3, 0, 0, 0, 0, 1]
    assert trace.sectors.tolist() == [6, 0, 0, 0, 0, 4]
    assert trace.footprint.block_min[5] == 0
    assert trace.footprint.block_max[5] == 128
