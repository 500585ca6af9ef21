"""Compilation and interleaved timing of whole programs."""

from __future__ import annotations

from pathlib import Path

import pytest

from autosched.codegen.c import ENTRY
from autosched.lang.dtypes import float32
from autosched.measure.workers.program_service import LEAST_ROUNDS, ProgramService, TimedArrays
from autosched.runtime.call.signature import ArraySpec
from autosched.runtime.timing.host_timer import HostLibrary, HostProgram

ARRAYS = TimedArrays((ArraySpec("a", float32, (5, 7)),), (ArraySpec("out", float32, (5, 7)),))


def program_of(path: str) -> HostProgram:
    return HostProgram((HostLibrary(path, ENTRY, ("a", "out"), ()),), {"a": "a", "out": "out"}, {}, 0)


def source(milliseconds: int) -> str:
    """Return a program that copies its array and sleeps."""
    return (
        "#include <unistd.h>\n"
        f"void {ENTRY}(void* const* arrays, void* const* scalars) {{\n"
        "    for (int k = 0; k < 35; k++) ((float*)arrays[1])[k] = ((const float*)arrays[0])[k];\n"
        f"    usleep({1000 * milliseconds});\n"
        "}\n"
    )


@pytest.fixture(scope="module")
def programs() -> dict[int, HostProgram]:
    times = (0, 5, 200)
    paths = ProgramService().compile([source(ms) for ms in times])
    assert None not in paths
    return {ms: program_of(str(path)) for ms, path in zip(times, paths, strict=True)}


def test_a_refused_program_does_not_stop_the_others() -> None:
    good, bad = ProgramService().compile([source(0), "no C"])
    assert good is not None and Path(good).is_file()
    assert bad is None


def test_programs_are_timed_in_the_same_rounds(programs: dict[int, HostProgram]) -> None:
    rounds = ProgramService().time([programs[0], programs[5]], ARRAYS, 0.5)
    assert rounds is not None
    assert len(rounds.seconds) >= LEAST_ROUNDS
    assert rounds.ratio(0, 1) < 1
    assert min(row[1] for row in rounds.seconds) >= 5e-3


def test_the_last_programs_are_left_out_if_time_is_short(programs: dict[int, HostProgram]) -> None:
    rounds = ProgramService().time([programs[0], programs[5], programs[200]], ARRAYS, 0.5)
    assert rounds is not None
    assert len(rounds.seconds[0]) == 2


def test_nothing_is_timed_if_two_programs_take_too_long(programs: dict[int, HostProgram]) -> None:
    assert ProgramService().time([programs[0], programs[200]], ARRAYS, 0.5) is None
    assert ProgramService().time([programs[200], programs[0]], ARRAYS, 0.1) is None
