"""Vector accesses in the emulator: errors, and counts equal to those by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from autosched.runtime.compile.host_compiler import have_compiler
from autosched.runtime.emulator import EmulatorError, ErrorKind, ParamSpec, Trace, compile_emulated

pytestmark = pytest.mark.skipif(not have_compiler("c++"), reason="no C++ compiler")

COUNT = 256


def run(body: str, *, traced: bool = False, dtype: str = "float32", block: int = 32) -> tuple[Any, Trace | None]:
    """Run a body over the arrays ``a`` (0, 1, 2, ...) and ``b``; return ``b`` and the trace."""
    c_type = {"float32": "float", "float64": "double", "uint8": "unsigned char"}[dtype]
    text = f"""
KERNEL(k, {block})(GLOBAL_IN({c_type}, a, {COUNT}), GLOBAL_OUT({c_type}, b, {COUNT})) {{
    SHARED({c_type}, s, {COUNT}, 16);
    const int t = threadIdx.x;
{body}
}}
"""
    params = [ParamSpec("in", np.dtype(dtype), "a", COUNT), ParamSpec("out", np.dtype(dtype), "b", COUNT)]
    kernel = compile_emulated(text, "k", params, common_prelude="", traced=traced)
    a, b = np.arange(COUNT).astype(dtype), np.zeros(COUNT, dtype)
    trace = kernel.launch((1, 1, 1), (block, 1, 1), 16 + COUNT * np.dtype(dtype).itemsize, [a, b])
    return b, trace


def copied(load: str, store: str, c_type: str = "float") -> str:
    return f"""
    const auto v = LOAD_VECTOR(0, {c_type}, 4, a, {load});
    STORE_VECTOR(1, {c_type}, 4, b, {store}, v.at[3], v.at[2], v.at[1], v.at[0]);
"""


@pytest.mark.parametrize(("dtype", "c_type"), [("float32", "float"), ("uint8", "unsigned char")])
def test_elements_arrive_in_order(dtype: str, c_type: str) -> None:
    b, _ = run(copied("4 * t", "4 * t", c_type), dtype=dtype)
    np.testing.assert_array_equal(b[:128], np.arange(128).reshape(32, 4)[:, ::-1].ravel().astype(dtype))


@pytest.mark.parametrize(
    ("load", "store", "kind", "buffer", "index"),
    [
        ("4 * t + (t == 7)", "4 * t", ErrorKind.MISALIGNED, "a", 29),
        ("4 * t", "4 * t + 2 * (t == 3)", ErrorKind.MISALIGNED, "b", 14),
        ("4 * t + 256 * (t == 9)", "4 * t", ErrorKind.OUT_OF_BOUNDS, "a", 292),
        ("4 * t", "4 * t - 4 * (t == 5)", ErrorKind.WRITE_CONFLICT, "b", None),
    ],
)
def test_what_is_refused(load: str, store: str, kind: ErrorKind, buffer: str, index: int | None) -> None:
    with pytest.raises(EmulatorError) as caught:
        run(copied(load, store))
    assert (caught.value.kind, caught.value.buffer) == (kind, buffer)
    assert index is None or caught.value.index == index


def test_the_last_element_is_checked_too() -> None:
    body = """
    const auto v = LOAD_VECTOR(0, float, 2, a, 254);
    STORE_VECTOR(1, float, 2, b, 2 * t, v.at[0], v.at[1]);
"""
    assert run(body)[0][0] == 254
    with pytest.raises(EmulatorError, match=r"b\[256\] is out of bounds"):
        run(body.replace("2 * t", "(t + 97) * 2"))  # from 194 to 256


@pytest.mark.parametrize(
    ("store", "kind"),
    [
        ("if (t != 4) STORE(1, s, 2 * t + 1, 0.0f);", ErrorKind.UNINITIALISED_READ),
        ("STORE(1, s, (2 * t + 3) % 64, 0.0f); BARRIER(); STORE(3, s, 2 * t + 1, 0.0f);", None),
    ],
)
def test_shared_elements_are_checked_one_by_one(store: str, kind: ErrorKind | None) -> None:
    body = f"""
    STORE(0, s, 2 * t, 1.0f);
    {store}
    BARRIER();
    const auto v = LOAD_VECTOR(2, float, 2, s, 2 * t);
    STORE(4, b, t, v.at[0] + v.at[1]);
"""
    if kind is None:
        assert run(body)[0][:32].tolist() == [1.0] * 32
        return
    with pytest.raises(EmulatorError) as caught:
        run(body)
    assert (caught.value.kind, caught.value.index) == (kind, 9)


def test_races_on_part_of_a_vector() -> None:
    body = """
    STORE_VECTOR(0, float, 2, s, 2 * t, 1.0f, 2.0f);
    BARRIER();
    STORE_VECTOR(1, float, 2, s, 2 * t, 3.0f, 4.0f);
    STORE(2, b, t, LOAD(3, s, (2 * t + 3) % 64));
"""
    with pytest.raises(EmulatorError) as caught:
        run(body)
    assert caught.value.kind is ErrorKind.RACE


@pytest.mark.parametrize(
    ("dtype", "length", "index", "sectors", "footprint"),
    [
        ("float32", 2, "2 * t", 8, 256),
        ("float32", 4, "4 * t", 16, 512),
        ("float32", 4, "4 * (t / 2)", 8, 256),
        ("float32", 4, "8 * (t % 16)", 16, 256),
        ("uint8", 8, "8 * t", 8, 256),
        ("uint8", 16, "16 * (t % 16)", 8, 256),
        ("float64", 2, "2 * t", 16, 512),
    ],
)
def test_sectors_of_vectors(dtype: str, length: int, index: str, sectors: int, footprint: int) -> None:
    c_type = {"float32": "float", "float64": "double", "uint8": "unsigned char"}[dtype]
    body = f"const auto v = LOAD_VECTOR(0, {c_type}, {length}, a, {index});\nSTORE(1, b, t, v.at[{length - 1}]);"
    _, trace = run(body, traced=True, dtype=dtype)
    assert trace is not None
    assert (trace.requests[0], trace.active_lanes[0], trace.sectors[0]) == (1, 32, sectors)
    assert trace.length.tolist() == [length, 1]
    assert trace.footprint.total[0] == footprint


@pytest.mark.parametrize(
    ("length", "index", "wavefronts", "conflicts"),
    [
        (2, "2 * t", 2, 0),  # a half-warp of 8 bytes fills the banks once
        (4, "4 * t", 4, 0),  # a quarter of 16 bytes
        (4, "0 * t", 4, 0),  # the same for all: still four passes
        (4, "8 * (t % 16)", 8, 4),  # every other quad of banks
        (2, "2 * (t / 2)", 2, 0),
        (2, "4 * (t % 16) + 2 * (t / 16)", 4, 2),
    ],
)
def test_wavefronts_of_vectors(length: int, index: str, wavefronts: int, conflicts: int) -> None:
    body = f"""
    for (int k = 0; k < 8; k++) {{
        ITER(0, k);
        STORE(0, s, t + 32 * k, 1.0f);
    }}
    BARRIER();
    const auto v = LOAD_VECTOR(1, float, {length}, s, {index});
    STORE(2, b, t, v.at[0]);
"""
    _, trace = run(body, traced=True)
    assert trace is not None
    assert (trace.requests[1], trace.wavefronts[1], trace.bank_conflicts[1]) == (1, wavefronts, conflicts)
