"""Copies past registers in the emulator: they arrive when they are waited for, and not before."""

from __future__ import annotations

import numpy as np
import pytest

from autosched.runtime.compile.host_compiler import have_compiler
from autosched.runtime.emulator import EmulatorError, ErrorKind
from tests.runtime.test_emulator_vectors import run

pytestmark = pytest.mark.skipif(not have_compiler("c++"), reason="no C++ compiler")

FILLED = "STORE(0, s, t, 7); BARRIER(); COPY(1, 2, float, 1, s, a, t, 255 - t);"


def test_a_copy_arrives_when_it_is_waited_for() -> None:
    body = f"{FILLED} const float before = LOAD(3, s, t); WAIT_FOR_COPIES(); STORE(4, b, t, before);"
    body += " STORE(5, b, 32 + t, LOAD(6, s, t));"
    found, _ = run(body)
    assert found[:32].tolist() == [7] * 32
    np.testing.assert_array_equal(found[32:64], 255 - np.arange(32))


def test_others_read_it_after_the_next_barrier() -> None:
    read = "STORE(3, b, t, LOAD(4, s, 31 - t));"
    found, _ = run(f"{FILLED} WAIT_FOR_COPIES(); BARRIER(); {read}")
    np.testing.assert_array_equal(found[:32], 255 - np.arange(31, -1, -1))
    with pytest.raises(EmulatorError) as caught:  # it may arrive at any time from the beginning on
        run(f"{FILLED} {read}")
    assert (caught.value.kind, caught.value.buffer) == (ErrorKind.RACE, "s")


def test_vectors_are_copied_and_counted_as_a_load_and_a_store() -> None:
    body = "COPY(0, 1, float, 4, s, a, 4 * t, 4 * t); WAIT_FOR_COPIES(); STORE(2, b, t, LOAD(3, s, 4 * t + 3));"
    found, trace = run(body, traced=True)
    np.testing.assert_array_equal(found[:32], 4 * np.arange(32) + 3)
    assert trace is not None
    assert trace.requests[:2].tolist() == [1, 1]
    assert trace.sectors[0] == 16 and trace.wavefronts[1] == 4


@pytest.mark.parametrize(
    ("target", "source", "kind", "buffer"),
    [
        ("4 * t + 2 * (t == 3)", "4 * t", ErrorKind.MISALIGNED, "s"),
        ("4 * t", "4 * t + (t == 7)", ErrorKind.MISALIGNED, "a"),
        ("4 * t", "4 * t + 256 * (t == 9)", ErrorKind.OUT_OF_BOUNDS, "a"),
    ],
)
def test_what_is_refused(target: str, source: str, kind: ErrorKind, buffer: str) -> None:
    with pytest.raises(EmulatorError) as caught:
        run(f"COPY(0, 1, float, 4, s, a, {target}, {source}); WAIT_FOR_COPIES();")
    assert (caught.value.kind, caught.value.buffer) == (kind, buffer)
