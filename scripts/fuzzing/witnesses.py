"""Runs a schedule in the C backend or the emulator, and compares with the interpreter bit for bit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.analysis.rewrites.rfactor import apply_rfactors
from autosched.apps.agreement import Comparison, comparison_for, has_one_result
from autosched.apps.tolerance import Tolerance
from autosched.lower.program import lower
from autosched.lower.verify import verify
from autosched.reference import interpret
from autosched.runtime.backends import cpu, emulator
from autosched.runtime.backends.cpu import CpuExecutable
from autosched.runtime.backends.emulator import EmulatedExecutable
from autosched.schedule.types import Schedule
from fuzzing.program import Array, Built

Arrays = Mapping[str, Array]
FENCE = 256
"""Bytes around every output that a witness must leave alone."""
FENCE_BYTE = 0xA5
GARBAGE_BYTE = 0x5A
"""What memory holds before it is written."""
TOLERANCE = Tolerance(rtol=1e-2, atol=1e-3, bad_fraction=0.02)
"""For elementary functions, which libraries round differently."""
SCALAR_EVERY = 4
"""One trial in so many accesses one element at a time, as kernels for unaligned arrays do."""


class Disagreement(AssertionError):
    """Two witnesses differ, or one wrote where it must not."""


@dataclass(frozen=True)
class Fenced:
    """An array with fences around it."""

    array: Array
    memory: Array

    @classmethod
    def full_of_garbage(cls, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Fenced:
        """Return an array to which nothing has been written."""
        size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
        memory = np.full(size + 2 * FENCE, FENCE_BYTE, np.uint8)
        memory[FENCE : FENCE + size] = GARBAGE_BYTE
        return cls(memory[FENCE : FENCE + size].view(dtype).reshape(shape), memory)

    @property
    def intact(self) -> bool:
        """Whether the fences are as they were."""
        return bool((self.memory[:FENCE] == FENCE_BYTE).all() and (self.memory[-FENCE:] == FENCE_BYTE).all())


def garbage(size: int) -> Array:
    """Return bytes at an aligned address that are no sensible values; stands for a workspace that is not cleared."""
    memory = np.full(size + 64, GARBAGE_BYTE, np.uint8)
    start = -memory.ctypes.data % 64
    return memory[start : start + size]


def dirty_workspaces() -> None:
    """Fill the workspaces of this process with a pattern; they are clean too often otherwise."""
    for module in (cpu, emulator):
        module.__dict__["aligned_empty"] = garbage


def interpreted(built: Built) -> dict[str, Array]:
    """Return what the interpreter computes."""
    return interpret(built.pipeline, built.inputs, built.params)


def check_schedule(
    built: Built, bound: BoundPipeline, schedule: Schedule, expected: Arrays, *, emulate: bool, seed: int
) -> None:
    """Run a schedule and compare with the expected outputs.

    Args:
        built: The program.
        bound: Its pipeline, bound to the shapes.
        schedule: A legal schedule.
        expected: The outputs by name.
        emulate: Whether the CUDA text runs in the emulator; otherwise C.
        seed: Decides the order in which the emulator runs threads.

    Raises:
        Disagreement: If the result differs.
        AutoschedError: If the code cannot be made or compiled, or does what CUDA does not define.
    """
    if schedule.rfactors:  # sums of floating-point numbers round in another order
        split = apply_rfactors(bound, schedule.rfactors).pipeline  # without inputs that only said how long a loop is
        inputs = {i.name: built.inputs[i.name] for i in split.inputs}
        expected = interpret(split, inputs, {p.name: built.params[p.name] for p in split.params})
    program = lower(bound, schedule, vectors=seed % SCALAR_EVERY != 0)
    for kernel in program.kernels:
        verify(kernel)
    outputs = {n: Fenced.full_of_garbage(a.extents, a.buffer.dtype.numpy) for n, a in program.outputs.items()}
    executable = EmulatedExecutable(program, seed=seed) if emulate else CpuExecutable(program)
    scalars = {p.name: built.params[p.name] for p in bound.scalars}
    executable.run(built.inputs, {n: f.array for n, f in outputs.items()}, scalars)
    compare(built, outputs, expected, comparison_for(bound, schedule))


def compare(built: Built, outputs: Mapping[str, Fenced], expected: Arrays, comparison: Comparison | None) -> None:
    """Raise `Disagreement` where outputs differ from the interpreter's, or something beside them was written.

    Args:
        built: The program.
        outputs: What a backend has written, by name.
        expected: What the interpreter computes.
        comparison: How values are compared; None leaves them alone.
    """
    if set(outputs) != set(expected):
        raise Disagreement(f"outputs are {sorted(outputs)}, the interpreter's {sorted(expected)}")
    for name, fenced in outputs.items():
        found, wanted = fenced.array, expected[name]
        if not fenced.intact:
            raise Disagreement(f"memory beside {name} is written")
        if found.shape != wanted.shape or found.dtype != wanted.dtype:
            kinds = f"{found.dtype}{found.shape}", f"{wanted.dtype}{wanted.shape}"
            raise Disagreement(f"{name} is {kinds[0]}, the interpreter's {kinds[1]}")
        if comparison is not None and (problem := difference(built, found, wanted, comparison)):
            raise Disagreement(f"{name}: {problem}")


def difference(built: Built, found: Array, wanted: Array, comparison: Comparison) -> str:
    """Return how two arrays differ more than they may; empty where they agree."""
    if not has_one_result(built.pipeline):
        return TOLERANCE.mismatch(found, wanted) or ""
    wrong = np.argwhere(~comparison(found, wanted))
    if not len(wrong):
        return ""
    at = tuple(int(i) for i in wrong[0])
    return f"{len(wrong)} of {found.size} values differ, the first at {at}: {found[at]!r}, not {wanted[at]!r}"
