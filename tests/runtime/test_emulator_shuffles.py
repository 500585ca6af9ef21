"""Shuffles in the emulator: lanes exchange values in any thread order, and every named lane must take part."""

from __future__ import annotations

import numpy as np
import pytest

from autosched.runtime.compile.host_compiler import have_compiler
from autosched.runtime.emulator import EmulatorError, ErrorKind
from tests.runtime.test_emulator_vectors import run

pytestmark = pytest.mark.skipif(not have_compiler("c++"), reason="no C++ compiler")

ALL = "0xffffffffu"


def given(distance: str, lanes: str = ALL) -> str:
    return f"STORE(1, b, t, SHUFFLE(float, LOAD(0, a, t), {distance}, {lanes}));"


@pytest.mark.parametrize(("c_type", "dtype"), [("float", "float32"), ("double", "float64")])
def test_lanes_get_what_others_give(c_type: str, dtype: str) -> None:
    body = given("4").replace("float", c_type)
    found, trace = run(body, dtype=dtype, block=64, traced=True)
    assert found[:64].tolist() == [t ^ 4 for t in range(64)]
    assert trace is not None and (trace.shuffles, trace.barriers) == (64, 0)


@pytest.mark.parametrize("width", [2, 8, 32])
def test_a_butterfly_adds_up_groups_of_lanes(width: int) -> None:
    lanes = ALL if width == 32 else f"LANES({width}u)"
    body = f"""
    float sum = LOAD(0, a, t);
    for (int d = {width // 2}; d > 0; d /= 2) sum += SHUFFLE(float, sum, d, {lanes});
    STORE(1, b, t, sum);
    """
    found, _ = run(body, block=64)
    expected = np.arange(64).reshape(-1, width).sum(axis=1).repeat(width)
    assert found[:64].tolist() == expected.tolist()


def test_groups_of_lanes_go_on_by_themselves() -> None:
    """One half of a warp executes more shuffles than the other; a barrier follows."""
    body = f"""
    float sum = LOAD(0, a, t);
    for (int k = 0; k < (t < 16 ? 1 : 3); k++) sum += SHUFFLE(float, sum, 1, LANES(16u));
    STORE(1, s, t, sum);
    BARRIER();
    STORE(2, b, t, LOAD(3, s, 31 - t) + SHUFFLE(float, 1.0f, 2, {ALL}));
    """
    found, _ = run(body)
    pairs = np.arange(32) // 2 * 4 + 1
    expected = np.where(np.arange(32) < 16, pairs, 4 * pairs)[::-1] + 1
    assert found[:32].tolist() == expected.tolist()


@pytest.mark.parametrize(
    ("body", "block"),
    [
        (f"if (t < 31) {{ {given('1')} }}", 32),  # one lane has returned
        (given("1"), 24),  # the block has no such lanes
        (given("1", "0x55555555u"), 32),  # the lane itself, or its partner, is not among those named
        (f"if (t == 5) BARRIER(); {given('1')} if (t != 5) BARRIER();", 32),  # one waits at a barrier
        (f"if (t < 16) {{ {given('1')} }} else {{ {given('1').replace('1, b', '2, b').replace('(0', '(3')} }}", 32),
        (given("16", "LANES(16u)"), 32),  # a partner in another group
    ],
)
def test_lanes_that_do_not_come(body: str, block: int) -> None:
    with pytest.raises(EmulatorError, match="the shuffle is not reached by") as caught:
        run(body, block=block)
    assert caught.value.kind == ErrorKind.ABSENT_LANE
    assert "SHUFFLE" in caught.value.source
    assert caught.value.line == 5


def test_who_does_not_come_is_named() -> None:
    with pytest.raises(EmulatorError, match=r"thread \(7, 0, 0\), which waits at line 5"):
        run(f"if (t == 7) BARRIER(); else {{ {given('1')} }}")
