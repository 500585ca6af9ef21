"""The three witnesses of one scheduled pipeline, compared bit for bit: interpreter, CUDA emulator, C backend."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.apps.agreement import Comparison, comparison_for
from autosched.codegen.cuda import cuda_prelude, print_cuda
from autosched.codegen.prelude import called_scalar_functions, scalar_prelude
from autosched.lower.program import Program, lower
from autosched.lower.verify import verify
from autosched.reference import interpret
from autosched.runtime.backends.cpu import CpuExecutable
from autosched.runtime.backends.emulator import EmulatedExecutable
from autosched.runtime.compile.nvrtc import compile_cubin
from autosched.schedule.types import Schedule
from tests.fuzz.pipelines import Case

Array = np.ndarray[Any, Any]
Arrays = Mapping[str, Array]
FENCE = 256
"""Bytes around every output that a backend must leave alone."""
FENCE_BYTE = 0xA5
GARBAGE_BYTE = 0x5A
"""Initial content of memory."""


class Disagreement(AssertionError):
    """Two witnesses differ, or one wrote where it must not."""


@dataclass(frozen=True)
class Fenced:
    """An array with fences around it."""

    array: Array
    memory: Array

    @classmethod
    def full_of_garbage(cls, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Fenced:
        """Return an array nothing has been written to."""
        size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
        memory = np.full(size + 2 * FENCE, FENCE_BYTE, np.uint8)
        memory[FENCE : FENCE + size] = GARBAGE_BYTE
        return cls(memory[FENCE : FENCE + size].view(dtype).reshape(shape), memory)

    def check(self, name: str, witness: str) -> None:
        """Raise `Disagreement` if a fence has changed."""
        if (self.memory[:FENCE] != FENCE_BYTE).any() or (self.memory[-FENCE:] != FENCE_BYTE).any():
            raise Disagreement(f"{witness} writes outside of {name}")


def garbage(size: int) -> Array:
    """Return bytes at an aligned address that are no sensible values; stands in for uninitialised workspaces."""
    memory = np.full(size + 64, GARBAGE_BYTE, np.uint8)
    start = -memory.ctypes.data % 64
    return memory[start : start + size]


def reference_outputs(case: Case) -> dict[str, Array]:
    """Return the interpreter's outputs.

    A pipeline with rfactor may lack an input or parameter that only defined the extent of a loop.
    """
    inputs = {i.name: case.inputs[i.name] for i in case.pipeline.inputs}
    return interpret(case.pipeline, inputs, {p.name: case.params[p.name] for p in case.pipeline.params})


def check_schedule(
    case: Case, bound: BoundPipeline, schedule: Schedule, expected: Arrays, *, seed: int = 0, emulate: bool = True,
    vectors: bool = False,
) -> Program:  # fmt: skip
    """Lower a schedule, run it in the emulator and on the CPU, and compare with the expected outputs.

    Values are left alone where the schedule rounds otherwise.

    Args:
        case: The pipeline with its inputs.
        bound: The same, bound to shapes and parameters.
        schedule: A legal schedule.
        expected: The outputs by name.
        seed: Seed of the order in which the emulator runs threads.
        emulate: Whether the CUDA text is run too (not for schedules made for a CPU, whose blocks may be too large).
        vectors: Whether the CUDA text has coalesced accesses.

    Raises:
        Disagreement: If a witness gives something else.
        CompileError: If a kernel's code breaks a rule of its own.
    """
    program = lower(bound, schedule, vectors=vectors)
    for kernel in program.kernels:
        verify(kernel)
    scalars = {p.name: case.params[p.name] for p in bound.scalars}
    comparison = comparison_for(bound, schedule) or _left_open
    if emulate:  # first: it stops at an access out of bounds, which would crash the process below
        outputs = _empty_outputs(program)
        EmulatedExecutable(program, seed=seed).run(case.inputs, _arrays(outputs), scalars)
        _compare("emulator", outputs, expected, comparison)
    outputs = _empty_outputs(program)
    CpuExecutable(program).run(case.inputs, _arrays(outputs), scalars)
    _compare("C backend", outputs, expected, comparison)
    return program


def _left_open(found: Array, _: Array) -> Array:
    return np.ones(found.shape, np.bool_)


def compile_for_gpu(program: Program, arch: str) -> None:
    """Compile all kernels with NVRTC.

    Raises:
        CompileError: If it refuses them.
    """
    bodies = "\n".join(print_cuda(kernel).body for kernel in program.kernels)
    compile_cubin(f"{cuda_prelude()}\n{scalar_prelude(called_scalar_functions(bodies))}\n{bodies}", arch)


def _empty_outputs(program: Program) -> dict[str, Fenced]:
    return {n: Fenced.full_of_garbage(a.extents, a.buffer.dtype.numpy) for n, a in program.outputs.items()}


def _arrays(outputs: Mapping[str, Fenced]) -> dict[str, Array]:
    return {name: fenced.array for name, fenced in outputs.items()}


def _compare(witness: str, outputs: Mapping[str, Fenced], expected: Arrays, comparison: Comparison) -> None:
    if set(outputs) != set(expected):
        raise Disagreement(f"{witness} returns {sorted(outputs)}, the interpreter {sorted(expected)}")
    for name, fenced in outputs.items():
        found, wanted = fenced.array, expected[name]
        fenced.check(name, witness)
        if found.shape != wanted.shape or found.dtype != wanted.dtype:
            kinds = f"{found.dtype}{found.shape}", f"{wanted.dtype}{wanted.shape}"
            raise Disagreement(f"{witness} returns {name} as {kinds[0]}, the interpreter as {kinds[1]}")
        wrong = np.argwhere(~comparison(found, wanted))
        if len(wrong):
            at = tuple(int(i) for i in wrong[0])
            raise Disagreement(
                f"{witness} differs from the interpreter in {len(wrong)} of {found.size} values of {name}, "
                f"first at {at}: {found[at]!r}, not {wanted[at]!r}"
            )
