"""The emulator's C++ sources, its compiled runtime, and the structs shared with it."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Sequence
from importlib import resources
from pathlib import Path

from autosched.runtime.compile.host_compile_flags import NO_IVOPTS
from autosched.runtime.compile.host_compiler import compile_shared_library
from autosched.runtime.compile.shared_library import load_library

MAX_LOOP_DEPTH = 32
"""Serial loops that a traced kernel may nest (``AS_MAX_LOOP_DEPTH``)."""

_COMMON_FLAGS = (
    "-std=c++17",
    "-fvisibility=hidden",
    # Shared memory is bytes that are read and written through views of any element type.
    "-fno-strict-aliasing",
    # Bit-identical to the NumPy interpreter and the C backend.
    "-ffp-contract=off",
    "-fno-math-errno",
    NO_IVOPTS,  # for every version of gcc; clang ignores it
)
# A fortified longjmp refuses to jump to another stack.
_RUNTIME_FLAGS = (*_COMMON_FLAGS, "-O2", "-pthread", "-U_FORTIFY_SOURCE")
_KERNEL_FLAGS = (*_COMMON_FLAGS, "-O1", "-fno-exceptions", "-fno-rtti")


class LaunchArguments(ctypes.Structure):
    """``as_launch`` in runtime.h."""

    _fields_ = (
        ("entry", ctypes.c_void_p),
        ("arguments", ctypes.POINTER(ctypes.c_void_p)),
        ("grid", ctypes.c_uint * 3),
        ("block", ctypes.c_uint * 3),
        ("shared_bytes", ctypes.c_uint64),
        ("seed", ctypes.c_uint64),
        ("stack_bytes", ctypes.c_uint64),
        ("blocks", ctypes.c_void_p),
        ("block_count", ctypes.c_uint64),
        ("written_counts", ctypes.c_void_p),
        ("parameter_count", ctypes.c_int),
        ("workers", ctypes.c_int),
        ("use_fibers", ctypes.c_int),
        ("single_writer", ctypes.c_int),
        ("granule", ctypes.c_int),
        ("site_count", ctypes.c_int),
        ("site_counts", ctypes.c_void_p),
        ("parameter_counts", ctypes.c_void_p),
        ("barriers", ctypes.POINTER(ctypes.c_uint64)),
        ("warp_barriers", ctypes.POINTER(ctypes.c_uint64)),
        ("shuffles", ctypes.POINTER(ctypes.c_uint64)),
        ("error", ctypes.c_void_p),
    )


class ErrorReport(ctypes.Structure):
    """``as_error`` in runtime.h."""

    _fields_ = (
        ("kind", ctypes.c_int),
        ("line", ctypes.c_int),
        ("other_line", ctypes.c_int),
        ("index", ctypes.c_int64),
        ("block", ctypes.c_uint * 3),
        ("thread", ctypes.c_uint * 3),
        ("other_thread", ctypes.c_uint * 3),
        ("has_other", ctypes.c_int),
        ("buffer", ctypes.c_char * 64),
    )


@functools.cache
def read_sources(*names: str) -> str:
    """Return the named C++ files of this package in one text, each with its own ``#line``."""
    package = resources.files("autosched.runtime.emulator")
    return "".join(f'#line 1 "{name}"\n{package.joinpath(name).read_text()}\n' for name in names)


def emulator_prelude(*, traced: bool, granule: int, site_depths: Sequence[int]) -> str:
    """Return the C++ text that defines the macros of generated code for the emulator.

    Args:
        traced: Whether accesses are recorded.
        granule: Bytes of shared memory per record of writers and readers; divides the size of every
            element in shared memory.
        site_depths: For each site number the number of serial loops around it; used when traced.
    """
    depths = ",".join(map(str, site_depths)) or "0"
    lines = [
        f"#define AS_TRACED {int(traced)}",
        f"#define AS_GRANULE {granule}",
        f"static constexpr int as_site_depths[] = {{{depths}}};" if traced else "",
        "#define AS_SITE_DEPTH(site) " + ("as_site_depths[site]" if traced else "0"),
    ]
    return "\n".join(lines) + "\n" + read_sources("abi.h", "checks.h", "macros.h")


@functools.cache
def load_runtime() -> ctypes.CDLL:
    """Return the emulator's runtime, compiled on first use and cached on disk after that.

    Raises:
        CompileError: If there is no C++ compiler, or it fails.
    """
    source = read_sources("abi.h", "fibers.h", "trace.h", "runtime.h")
    library = load_library(compile_shared_library(source, "c++", _RUNTIME_FLAGS))
    library.as_emulator_launch.argtypes = [ctypes.POINTER(LaunchArguments)]
    library.as_emulator_launch.restype = ctypes.c_int
    return library


def compile_kernels(source: str) -> Path:
    """Return the shared library of the complete C++ text of some kernels."""
    return compile_shared_library(source, "c++", _KERNEL_FLAGS)
