"""Emulator that runs generated CUDA text on the host, thread by thread, and checks every access.

A C++ compiler compiles the text that NVRTC compiles for the GPU, against a prelude of checking
macros. Each CUDA thread is a fiber; after every barrier the threads of a block continue in a new
random order, and the lanes of a shuffle synchronise. Out-of-bounds accesses, uninitialised reads,
races, divergent barriers and shuffles without all lanes stop the launch with block, thread and
source line. A traced launch counts memory transactions.
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
