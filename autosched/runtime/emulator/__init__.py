"""Runs generated CUDA text on the host, thread by thread: a witness of its correctness.

The text that NVRTC compiles for the GPU is here compiled by a C++ compiler, against a prelude whose
macros check every access. Each CUDA thread is a fiber; after every barrier the threads of a block
continue in a new random order, and lanes that exchange values meet. Out-of-bounds accesses,
uninitialised reads, races, divergent barriers and shuffles that miss a lane stop the launch with
block, thread and source line. Traced, it counts memory transactions.
"""

from autosched.runtime.emulator.errors import EmulatorError, ErrorKind
from autosched.runtime.emulator.kernel import (
    EmulatedKernel,
    GeneratedKernel,
    compile_emulated,
    compile_emulated_kernels,
)
from autosched.runtime.emulator.params import ParamSpec
from autosched.runtime.emulator.trace import Trace, TraceFootprint

__all__ = [
    "EmulatedKernel",
    "EmulatorError",
    "ErrorKind",
    "GeneratedKernel",
    "ParamSpec",
    "Trace",
    "TraceFootprint",
    "compile_emulated",
    "compile_emulated_kernels",
]  # fmt: skip
