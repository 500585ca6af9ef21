"""Run a lowered pipeline on the CPU through the C backend."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from autosched.codegen.c import CSource, print_c, print_c_library
from autosched.lang.expr import Scalar
from autosched.lower.program import Program
from autosched.runtime.compile.host_compiler import compile_shared_library
from autosched.runtime.compile.shared_library import load_function
from autosched.runtime.host_memory import address_of, aligned_empty

Array = np.ndarray[Any, np.dtype[Any]]


class CpuExecutable:
    """A pipeline compiled by the system's C compiler.

    Args:
        program: The lowered pipeline.
        source: Its C text; printed when left out.

    Attributes:
        source: The C text.
        library: The compiled library; None if there is nothing to compute.
        arrays: For each array of the entry, the input and the output that it is, or neither and its offset in the
            workspace.

    Raises:
        CompileError: If there is no compiler, or it refuses the code.
    """

    def __init__(self, program: Program, source: CSource | None = None) -> None:
        self.program = program
        self.source: CSource = source or print_c(program)
        inputs = {a.buffer.name: n for n, a in program.inputs.items()}
        outputs = {a.buffer.name: n for n, a in program.outputs.items()}
        offsets = {slot.buffer.name: slot.offset for slot in program.workspace}
        self.arrays = tuple((inputs.get(n), outputs.get(n), offsets.get(n, 0)) for n in self.source.arrays)
        self._scratch = threading.local()
        self._entry: Any = None
        self.library: Path | None = None
        if not program.kernels:  # of arrays without elements
            return
        self.library = compile_shared_library(self.source.text, "c")
        self._entry = load_function(self.library, self.source.entry, parameters=2)

    def run(self, inputs: Mapping[str, Array], outputs: Mapping[str, Array], scalars: Mapping[str, Scalar]) -> None:
        """Compute the outputs in place.

        Args:
            inputs: Checked C-contiguous arrays by name.
            outputs: Arrays to fill, by public name.
            scalars: Values of the pipeline's run-time parameters.
        """
        if self._entry is None:
            return
        base = address_of(self._workspace()) if self.program.workspace else 0
        addresses = [
            address_of(inputs[read]) if read is not None
            else address_of(outputs[written]) if written is not None
            else base + offset
            for read, written, offset in self.arrays
        ]  # fmt: skip
        arrays = (ctypes.c_void_p * max(len(addresses), 1))(*addresses)
        values = scalar_arguments(self.program, scalars)
        scalar_values = [values[name] for name, _ in self.source.scalars]
        pointers = (ctypes.c_void_p * max(len(scalar_values), 1))(*map(address_of, scalar_values))
        self._entry(arrays, pointers)

    def _workspace(self) -> Array:
        """Return this thread's scratch memory: kept between calls, since fresh pages cost more than a small kernel."""
        memory_block: Array | None = getattr(self._scratch, "memory", None)
        if memory_block is None:
            memory_block = self._scratch.memory = aligned_empty(self.program.workspace_bytes)
        return memory_block


def compile_library(programs: Sequence[Program]) -> tuple[CpuExecutable, ...]:
    """Compile several pipelines as one library.

    Args:
        programs: The lowered pipelines.

    Raises:
        CompileError: If there is no compiler, or it refuses the code.
    """
    return tuple(map(CpuExecutable, programs, print_c_library(programs)))


def scalar_arguments(program: Program, scalars: Mapping[str, Scalar]) -> dict[str, Array]:
    """Return run-time parameters by identifier, as one-element arrays of their argument type."""
    arguments: dict[str, Array] = {}
    for p in program.bound.scalars:
        value = np.array([scalars[p.name]]).astype(p.dtype.numpy)
        arguments[program.names[p.name]] = value.astype(np.float32) if p.dtype.is_reduced_float else value
    return arguments
