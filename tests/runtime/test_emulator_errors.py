"""The emulator stops a wrong kernel, with the thread, line, buffer and index."""

from __future__ import annotations

import numpy as np
import pytest

from autosched.runtime.emulator import EmulatedKernel, EmulatorError, ErrorKind, ParamSpec, compile_emulated
from autosched.runtime.host_compiler import have_compiler

pytestmark = pytest.mark.skipif(not have_compiler("c++"), reason="no C++ compiler")

F32 = np.dtype(np.float32)
U8 = np.dtype(np.uint8)
I32 = np.dtype(np.int32)


def out(name: str, count: int, dtype: np.dtype = F32) -> ParamSpec:
    return ParamSpec("out", dtype, name, count)


def into(name: str, count: int, dtype: np.dtype = F32) -> ParamSpec:
    return ParamSpec("in", dtype, name, count)


def compile_text(body: str, *params: ParamSpec) -> EmulatedKernel:
    return compile_emulated(body, body.split("KERNEL(")[1].split(",")[0], params, common_prelude="")


def line_of(body: str, text: str) -> int:
    """Return the line, from 1, that holds ``text``, which only one line does."""
    (line,) = [number for number, line in enumerate(body.splitlines(), 1) if text in line]
    return line


@pytest.mark.parametrize("shift", [-1, 1])
def test_out_of_bounds_global_accesses_name_thread_line_and_index(shift: int) -> None:
    body = f"""
KERNEL(copy, 32)(GLOBAL_IN(float, a, 64), GLOBAL_OUT(float, b, 64)) {{
    const int i = blockIdx.x * 32 + threadIdx.x;
    const float value = LOAD(0, a, i + {shift});
    STORE(1, b, i, value);
}}
"""
    a, b = np.zeros(64, np.float32), np.zeros(64, np.float32)
    with pytest.raises(EmulatorError) as caught:
        compile_text(body, into("a", 64), out("b", 64)).launch((2, 1, 1), (32, 1, 1), 0, [a, b])
    error = caught.value
    assert (error.kind, error.kernel, error.buffer) == (ErrorKind.OUT_OF_BOUNDS, "copy", "a")
    assert error.index == (-1 if shift < 0 else 64)
    assert error.block == ((0, 0, 0) if shift < 0 else (1, 0, 0))
    assert error.thread == ((0, 0, 0) if shift < 0 else (31, 0, 0))
    assert error.line == line_of(body, "value =")
    assert f"LOAD(0, a, i + {shift})" in str(error)


def test_out_of_bounds_store_leaves_the_neighbouring_memory_alone() -> None:
    body = """
KERNEL(fill, 16)(GLOBAL_OUT(float, b, 8)) {
    STORE(0, b, threadIdx.x, 1.0f);
}
"""
    memory = np.zeros(16, np.float32)
    with pytest.raises(EmulatorError, match=r"b\[\d+\] is out of bounds"):
        compile_text(body, out("b", 8)).launch((1, 1, 1), (16, 1, 1), 0, [memory[:8]])
    assert not memory[8:].any()


def test_out_of_bounds_shared_and_register_accesses() -> None:
    body = """
KERNEL(wide, 32)(GLOBAL_OUT(float, b, 32), SCALAR(int, which)) {
    SHARED(float, s, 40, 0);
    SHARED(float, after, 40, 160);
    REGISTER(float, r, 4);
    const int t = threadIdx.x;
    if (which == 0) { STORE(0, s, t + 9, 1.0f); }
    if (which == 1) { STORE(1, r, t / 7, 1.0f); }
    STORE(2, b, t, 0.0f);
}
"""
    kernel = compile_text(body, out("b", 32), ParamSpec("scalar", I32, "which"))
    b = np.zeros(32, np.float32)
    kernel.launch((1, 1, 1), (32, 1, 1), 320, [b, 2])
    for which, buffer, index, threads in ((0, "s", 40, {31}), (1, "r", 4, {28, 29, 30, 31})):
        with pytest.raises(EmulatorError) as caught:
            kernel.launch((1, 1, 1), (32, 1, 1), 320, [b, which])
        error = caught.value
        assert (error.kind, error.buffer, error.index) == (ErrorKind.OUT_OF_BOUNDS, buffer, index)
        assert error.thread[0] in threads
        assert error.line == line_of(body, f"which == {which}")


def test_uninitialised_reads_of_shared_and_register_memory() -> None:
    body = """
KERNEL(gap, 32)(GLOBAL_OUT(float, b, 32), SCALAR(int, which)) {
    SHARED(float, s, 32, 0);
    const int t = threadIdx.x;
    if (t != 5) { STORE(0, s, t, 1.0f); }
    BARRIER();
    REGISTER(float, r, 70);
    STORE(1, r, t, 2.0f);
    float value = 0.0f;
    if (which == 0) { value = LOAD(2, s, 31 - t); }
    if (which == 1) { value = LOAD(3, r, t == 3 ? 69 : t); }
    STORE(4, b, t, value);
}
"""
    kernel = compile_text(body, out("b", 32), ParamSpec("scalar", I32, "which"))
    b = np.zeros(32, np.float32)
    kernel.launch((1, 1, 1), (32, 1, 1), 128, [b, 2])
    for which, buffer, index, thread in ((0, "s", 5, 26), (1, "r", 69, 3)):
        with pytest.raises(EmulatorError, match="before anything was written") as caught:
            kernel.launch((1, 1, 1), (32, 1, 1), 128, [b, which])
        assert (caught.value.buffer, caught.value.index) == (buffer, index)
        assert caught.value.thread == (thread, 0, 0)


def test_shared_memory_of_an_earlier_block_is_not_initialised_for_the_next() -> None:
    body = """
KERNEL(first_only, 32)(GLOBAL_OUT(float, b, 64)) {
    SHARED(float, s, 32, 0);
    if (blockIdx.x == 0) { STORE(0, s, threadIdx.x, 1.0f); }
    STORE(1, b, blockIdx.x * 32 + threadIdx.x, LOAD(2, s, threadIdx.x));
}
"""
    with pytest.raises(EmulatorError) as caught:
        compile_text(body, out("b", 64)).launch((2, 1, 1), (32, 1, 1), 128, [np.zeros(64, np.float32)], workers=1)
    assert caught.value.kind is ErrorKind.UNINITIALISED_READ
    assert caught.value.block == (1, 0, 0)


def test_a_removed_second_barrier_is_found_although_everything_is_initialised() -> None:
    body = """
KERNEL(rotate, 64)(GLOBAL_OUT(int, out, 64)) {
    SHARED(int, s, 64, 0);
    const int t = threadIdx.x;
    STORE(0, s, t, t);
    BARRIER();
    const int next = LOAD(1, s, (t + 1) % 64);
    BARRIER();  // nobody may overwrite s before all have read it
    STORE(2, s, t, next + 100);
    BARRIER();
    STORE(3, out, t, LOAD(4, s, (t + 1) % 64));
}
"""
    result = np.zeros(64, np.int32)
    compile_text(body, out("out", 64, I32)).launch((1, 1, 1), (64, 1, 1), 256, [result])
    np.testing.assert_array_equal(result, (np.arange(64) + 2) % 64 + 100)

    broken = compile_text(body.replace("    BARRIER();  //", "    //"), out("out", 64, I32))
    for seed in range(5):
        with pytest.raises(EmulatorError, match="race") as caught:
            broken.launch((1, 1, 1), (64, 1, 1), 256, [result], seed=seed)
        error = caught.value
        assert error.buffer == "s"
        # Either a thread overwrites what another has read, or reads what another has overwritten.
        assert error.line in (line_of(body, "next ="), line_of(body, "next +"))
        assert error.other_thread is not None and error.other_thread != error.thread


def test_shared_bytes_reused_with_another_element_type_are_tracked() -> None:
    body = """
KERNEL(reuse, 32)(GLOBAL_OUT(float, b, 32), GLOBAL_OUT(unsigned char, c, 32)) {
    SHARED(unsigned char, bytes, 32, 0);
    SHARED(float, floats, 32, 0);
    const int t = threadIdx.x;
    STORE(0, bytes, t, t);
    BARRIER();
    STORE(1, c, t, LOAD(2, bytes, 31 - t));
    BARRIER();
    STORE(3, floats, t, t * 0.5f);
    BARRIER();
    STORE(4, b, t, LOAD(5, floats, 31 - t));
}
"""
    b, c = np.zeros(32, np.float32), np.zeros(32, np.uint8)
    params = out("b", 32), out("c", 32, U8)
    compile_text(body, *params).launch((1, 1, 1), (32, 1, 1), 128, [b, c])
    np.testing.assert_array_equal(b, np.arange(31, -1, -1) * np.float32(0.5))
    np.testing.assert_array_equal(c, np.arange(31, -1, -1))

    too_early = compile_text(body.replace("31 - t));\n    BARRIER();\n    STORE(3", "31 - t));\n    STORE(3"), *params)
    with pytest.raises(EmulatorError, match="race"):
        too_early.launch((1, 1, 1), (32, 1, 1), 128, [b, c])


@pytest.mark.parametrize("workers", [1, 4])
def test_a_barrier_in_a_divergent_branch_is_found(workers: int) -> None:
    body = """
KERNEL(some, 64)(GLOBAL_OUT(int, out, 128)) {
    if (threadIdx.x != 9 || blockIdx.x == 0) {
        BARRIER();
    }
    STORE(0, out, blockIdx.x * 64 + threadIdx.x, 1);
}
"""
    result = np.zeros(128, np.int32)
    with pytest.raises(EmulatorError, match=r"not reached by thread \(9, 0, 0\), which has returned") as caught:
        compile_text(body, out("out", 128, I32)).launch((2, 1, 1), (64, 1, 1), 0, [result], workers=workers)
    assert caught.value.kind is ErrorKind.DIVERGENT_BARRIER
    assert caught.value.block == (1, 0, 0)
    assert caught.value.thread == (0, 0, 0)
    assert caught.value.line == line_of(body, "BARRIER")
    assert caught.value.other_thread == (9, 0, 0)


def test_threads_waiting_at_two_barriers_are_divergent_even_on_one_line() -> None:
    body = """
KERNEL(two, 64)(GLOBAL_OUT(int, out, 64)) {
    if (threadIdx.x < 32) { BARRIER(); } else { BARRIER(); }
    STORE(0, out, threadIdx.x, 1);
}
"""
    with pytest.raises(EmulatorError, match="waits at line 3") as caught:
        compile_text(body, out("out", 64, I32)).launch((1, 1, 1), (64, 1, 1), 0, [np.zeros(64, np.int32)])
    assert caught.value.other_thread == (32, 0, 0)
    assert caught.value.other_line == 3


def test_two_writers_of_one_global_element() -> None:
    body = """
KERNEL(twice, 32)(GLOBAL_OUT(int, b, 8)) {
    if (threadIdx.x == 3 || threadIdx.x == 20) { STORE(0, b, 0, threadIdx.x); }
}
"""
    kernel = compile_text(body, out("b", 8, I32))
    with pytest.raises(EmulatorError, match=r"b\[0\] is written by this thread and by thread") as caught:
        kernel.launch((1, 1, 1), (32, 1, 1), 0, [np.zeros(8, np.int32)])
    assert caught.value.kind is ErrorKind.WRITE_CONFLICT
    assert {caught.value.thread, caught.value.other_thread} == {(3, 0, 0), (20, 0, 0)}
    with pytest.raises(EmulatorError, match="race"):
        kernel.launch((1, 1, 1), (32, 1, 1), 0, [np.zeros(8, np.int32)], single_writer=False)


def test_global_accesses_of_different_blocks_are_never_ordered() -> None:
    body = """
KERNEL(chain, 32)(GLOBAL_OUT(int, b, 8)) {
    const int n = blockIdx.x;
    if (threadIdx.x == 0) { STORE(0, b, n, n); }
    BARRIER();
    if (threadIdx.x == 1) { STORE(1, b, n + 4, LOAD(2, b, n ^ 1)); }
}
"""
    kernel = compile_text(body, out("b", 8, I32))
    for workers in (1, 2):
        with pytest.raises(EmulatorError, match="race") as caught:
            kernel.launch((2, 1, 1), (32, 1, 1), 0, [np.zeros(8, np.int32)], workers=workers)
        assert caught.value.buffer == "b"

    own = compile_text(body.replace("n ^ 1", "n"), out("b", 8, I32))
    b = np.zeros(8, np.int32)
    own.launch((4, 1, 1), (32, 1, 1), 0, [b], workers=2)
    np.testing.assert_array_equal(b, [0, 1, 2, 3, 0, 1, 2, 3])


def test_global_element_rewritten_after_a_barrier_needs_single_writer_off() -> None:
    body = """
KERNEL(update, 32)(GLOBAL_OUT(int, b, 32)) {
    const int t = threadIdx.x;
    STORE(0, b, t, t);
    BARRIER();
    STORE(1, b, 31 - t, LOAD(2, b, 31 - t) + 100);
}
"""
    kernel = compile_text(body, out("b", 32, I32))
    b = np.zeros(32, np.int32)
    with pytest.raises(EmulatorError) as caught:
        kernel.launch((1, 1, 1), (32, 1, 1), 0, [b])
    assert caught.value.kind is ErrorKind.WRITE_CONFLICT
    for seed in range(3):
        b[:] = 0
        kernel.launch((1, 1, 1), (32, 1, 1), 0, [b], seed=seed, single_writer=False)
        np.testing.assert_array_equal(b, np.arange(32) + 100)
    racing = compile_text(body.replace("BARRIER();", ""), out("b", 32, I32))
    with pytest.raises(EmulatorError, match="race"):
        racing.launch((1, 1, 1), (32, 1, 1), 0, [b], single_writer=False)


def test_the_error_of_the_earliest_block_is_reported_whatever_the_workers() -> None:
    body = """
KERNEL(late, 32)(GLOBAL_OUT(float, b, 2048)) {
    BARRIER();
    STORE(0, b, (blockIdx.x * 32 + threadIdx.x) + (blockIdx.x > 36 ? 2048 : 0), 1.0f);
}
"""
    kernel = compile_text(body, out("b", 2048))
    for workers in (1, 2, 7):
        with pytest.raises(EmulatorError) as caught:
            kernel.launch((64, 1, 1), (32, 1, 1), 0, [np.zeros(2048, np.float32)], workers=workers)
        assert caught.value.block == (37, 0, 0)
