"""Atomic operations in the emulator: none is lost, and other accesses to their elements are races."""

from __future__ import annotations

import numpy as np
import pytest

from autosched.runtime.compile.host_compiler import have_compiler
from autosched.runtime.emulator import EmulatorError, ErrorKind
from tests.runtime.test_emulator_vectors import run

pytestmark = pytest.mark.skipif(not have_compiler("c++"), reason="no C++ compiler")

FILLED = "STORE(0, s, t, 1); BARRIER();"
ADDED = "ATOMIC_ADD(1, float, s, t % 4, LOAD(2, a, t));"


def test_all_threads_are_counted() -> None:
    found, trace = run(f"{FILLED} {ADDED} BARRIER(); STORE(3, b, t, LOAD(4, s, t));", traced=True)
    expected = [1 + sum(range(k, 32, 4)) for k in range(4)] + [1] * 28
    assert found[:32].tolist() == expected
    assert trace is not None
    assert trace.is_store[:3].tolist() == [True, True, False]
    assert trace.requests[1] == 1


def test_global_memory_that_was_there_before() -> None:
    before, _ = run("(void)t;")
    found, _ = run("ATOMIC_MAX(0, float, b, t / 8, t);")
    assert found[:4].tolist() == np.maximum(before[:4], [7, 15, 23, 31]).tolist()


@pytest.mark.parametrize(
    ("body", "kind", "buffer"),
    [
        (f"STORE(0, s, t, 1); {ADDED}", None, "s"),  # the kind of error depends on the thread order
        (f"{FILLED} STORE(3, b, t, LOAD(4, s, t)); {ADDED}", ErrorKind.RACE, "s"),
        (f"{FILLED} {ADDED} STORE(3, b, t, LOAD(4, s, t));", ErrorKind.RACE, "s"),
        (f"{FILLED} {ADDED} STORE(3, s, t, 2);", ErrorKind.RACE, "s"),
        (ADDED, ErrorKind.UNINITIALISED_READ, "s"),
        (f"{FILLED} ATOMIC_ADD(1, float, s, t + 999999, 1);", ErrorKind.OUT_OF_BOUNDS, "s"),
        ("STORE(0, b, t, 1); ATOMIC_ADD(1, float, b, 0, 1);", None, "b"),
        ("ATOMIC_ADD(0, float, b, 0, 1); STORE(1, b, t + 1, LOAD(2, b, 0));", ErrorKind.RACE, "b"),
        ("ATOMIC_ADD(0, float, b, t % 2, 1); STORE(1, b, 31 - t, 2);", None, "b"),
    ],
)
def test_what_conflicts(body: str, kind: ErrorKind | None, buffer: str) -> None:
    with pytest.raises(EmulatorError) as caught:
        run(body)
    assert kind is None or caught.value.kind == kind
    assert caught.value.buffer == buffer
