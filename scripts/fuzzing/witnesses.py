"""Comparison of a schedule's results in the C backend or the emulator with the interpreter, bit for bit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.apps.agreement import Comparison, comparison_for, has_one_result
from autosched.apps.tolerance import Tolerance
from autosched.lower.program import lower
from autosched.lower.verify import verify
from autosched.reference import interpret
from autosched.runtime.backends import cpu, emulator
from autosched.runtime.backends.cpu import CpuExecutable
from autosched.runtime.backends.emulator import EmulatedExecutable
from autosched.schedule.rewrites import reassociated_pipeline
from autosched.schedule.types import Schedule
from fuzzing.program import Array, Built

Arrays = Mapping[str, Array]
FENCE = 256
"""Guard bytes around every output, which a backend must not change."""
FENCE_BYTE = 0xA5
GARBAGE_BYTE = 0x5A
"""Fill byte of unwritten memory."""
TOLERANCE = Tolerance(rtol=1e-2, atol=1e-3, bad_fraction=0.02)
"""Tolerance for elementary functions, which libraries round differently."""
SCALAR_EVERY = 4
"""Period of the trials without vector accesses, like kernels for unaligned arrays."""


class Disagreement(AssertionError):
    """Two backends differ, or one wrote out of bounds."""


@dataclass(frozen=True)
class Fenced:
    """An array between guard bytes."""

    array: Array
    memory: Array

    @classmethod
    def full_of_garbage(cls, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Fenced:
        """Return an unwritten array."""
        size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
        memory = np.full(size + 2 * FENCE, FENCE_BYTE, np.uint8)
        memory[FENCE : FENCE + size] = GARBAGE_BYTE
        return cls(memory[FENCE : FENCE + size].view(dtype).reshape(shape), memory)

    @property
    def intact(self) -> bool:
        """Whether the guard bytes are unchanged."""
        return bool((self.memory[:FENCE] == FENCE_BYTE).all() and (self.memory[-FENCE:] == FENCE_BYTE).all())


def garbage(size: int) -> Array:
    """Return bytes at an aligned address without valid values, like an uncleared workspace."""
    memory = np.full(size + 64, GARBAGE_BYTE, np.uint8)
    start = -memory.ctypes.data % 64
    return memory[start : start + size]


def dirty_workspaces() -> None:
    """Fill the workspaces of this process with a pattern, as fresh memory is often zero."""
    for module in (cpu, emulator):
        module.__dict__["aligned_empty"] = garbage


def interpreted(built: Built) -> dict[str, Array]:
    """Return the interpreter's outputs."""
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
        seed: Seed of the emulator's order of threads.

    Raises:
        Disagreement: If the result differs.
        AutoschedError: If the code cannot be generated or compiled, or has undefined behaviour in CUDA.
    """
    if schedule.reassociates:  # floating-point sums change with the order of terms
        split = reassociated_pipeline(bound, schedule).pipeline  # without inputs that only define extents
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
    """Raise `Disagreement` where outputs differ from the interpreter's, or guard bytes were written.

    Args:
        built: The program.
        outputs: A backend's outputs by name.
        expected: The interpreter's outputs.
        comparison: Comparison of values; None skips it.
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


def difference(built: Built, actual: Array, wanted: Array, comparison: Comparison) -> str:
    """Return the difference of two arrays beyond the tolerance; empty if they agree."""
    if not has_one_result(built.pipeline):
        return TOLERANCE.mismatch(actual, wanted) or ""
    wrong = np.argwhere(~comparison(actual, wanted))
    if not len(wrong):
        return ""
    at = tuple(int(i) for i in wrong[0])
    return f"{len(wrong)} of {actual.size} values differ, the first at {at}: {actual[at]!r}, not {wanted[at]!r}"
