"""Accesses out of bounds and of memory never written are stopped, with thread, line, buffer and index."""

from __future__ import annotations

import numpy as np
import pytest

from autosched.runtime.compile.host_compiler import have_compiler
from autosched.runtime.emulator import EmulatedKernel, EmulatorError, ErrorKind, ParamSpec, compile_emulated

pytestmark = pytest.mark.skipif(not have_compiler("c++"), reason="no C++ compiler")

F32 = np.dtype(np.float32)
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
