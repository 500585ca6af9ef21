"""Loops that carry a dependence keep it, whatever the C compiler makes of their addresses.

`AUTOSCHED_CC` chooses the compiler. gcc 12 with vectors of AVX-512 gets some of these programs wrong where nothing
marks such loops, and so does clang 14.
"""

from __future__ import annotations

import ctypes
import subprocess
from pathlib import Path

import numpy as np
import pytest

from autosched.analysis.bind import bind
from autosched.codegen.c import ENTRY, CSource, print_c
from autosched.lower.program import Program, lower
from autosched.reference import interpret
from autosched.runtime.compile.host_compiler import find_compiler, kernel_flags
from autosched.schedule.sampling.random_schedule import sample_schedule
from autosched.search.strategies.compute_root import schedule_roots
from autosched.target import get_target
from tests.fuzz.recurrences import Recurrence, random_recurrence

CPU = get_target("cpu")
TOGETHER = 50


@pytest.mark.parametrize("first", range(0, 50, TOGETHER))
def test_recurrences_are_right(first: int, tmp_path: Path) -> None:
    assert wrong_recurrences(first, tmp_path) == []


@pytest.mark.fuzz
@pytest.mark.parametrize("first", range(50, 5050, TOGETHER))
def test_many_recurrences_are_right(first: int, tmp_path: Path) -> None:
    assert wrong_recurrences(first, tmp_path) == []


def wrong_recurrences(first: int, directory: Path) -> list[int]:
    """Return the seeds of programs that C computes otherwise than the interpreter, each in two schedules."""
    found: list[tuple[int, Recurrence, Program, CSource]] = []
    for seed in range(first, first + TOGETHER):
        recurrence = random_recurrence(seed)
        bound = bind(recurrence.pipeline, {"image": recurrence.image.shape})
        for schedule in (schedule_roots(bound, CPU), sample_schedule(bound, CPU, np.random.default_rng(seed))):
            program = lower(bound, schedule)
            found.append((seed, recurrence, program, print_c(program)))
    library = _compiled([source.text for *_, source in found], directory)
    expected = {seed: interpret(r.pipeline, {"image": r.image})["f"] for seed, r, *_ in found}
    return [
        seed
        for k, (seed, r, program, source) in enumerate(found)
        if _run(library, k, r, program, source, expected[seed].shape).tobytes() != expected[seed].tobytes()
    ]


def _compiled(texts: list[str], directory: Path) -> ctypes.CDLL:
    for k, text in enumerate(texts):
        (directory / f"{k}.c").write_text(f"#define {ENTRY} {ENTRY}_{k}\n{text}")
    files = [f"{k}.c" for k in range(len(texts))]
    command = [*find_compiler().command, *kernel_flags(), "-fPIC", "-shared", "-w", *files, "-o", "all.so", "-lm"]
    subprocess.run(command, cwd=directory, check=True, capture_output=True)
    return ctypes.CDLL(str(directory / "all.so"))


def _run(
    library: ctypes.CDLL, number: int, r: Recurrence, program: Program, source: CSource, shape: tuple[int, ...]
) -> np.ndarray[tuple[int, ...], np.dtype[np.generic]]:
    output = np.zeros(shape, r.image.dtype)
    arrays = {program.inputs["image"].buffer.name: r.image, program.outputs["f"].buffer.name: output}
    for slot in program.workspace:
        arrays[slot.buffer.name] = np.zeros(slot.buffer.count, slot.buffer.dtype.numpy)
    addresses = (ctypes.c_void_p * len(source.arrays))(*(arrays[name].ctypes.data for name in source.arrays))
    library[f"{ENTRY}_{number}"](addresses, None)
    return output
