"""Load compiled libraries into this process."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from autosched.errors import CacheError, CompileError
from autosched.settings import available_cpus, openmp_environment


def load_library(path: Path) -> ctypes.CDLL:
    """Load a compiled library.

    Args:
        path: The file, in the on-disk cache.

    Raises:
        CacheError: If its file system does not allow code to run.
        CompileError: If it is no library that this process can load.
    """
    try:
        with openmp_environment():
            return ctypes.CDLL(str(path))
    except OSError as error:
        if _is_noexec(path):
            raise CacheError(
                f"{path} cannot be loaded, since its file system is mounted noexec: set AUTOSCHED_CACHE_DIR to a "
                "directory of another file system"
            ) from error
        raise CompileError(
            f"the compiled library {path} cannot be loaded ({error}): set AUTOSCHED_CC and AUTOSCHED_CXX to compilers "
            "for this machine, such as gcc and g++"
        ) from error


def load_function(path: Path, name: str, parameters: int) -> Callable[..., Any]:
    """Return a function of a library that takes pointers and returns nothing.

    Its OpenMP threads are limited to the available CPUs, even if another library loaded the runtime before.

    Args:
        path: The file.
        name: The function.
        parameters: Number of pointer arguments.

    Raises:
        CacheError: As `load_library`.
        CompileError: As `load_library`, or the library has no such function.
    """
    library = load_library(path)
    try:
        function = library[name]
    except AttributeError as error:
        raise CompileError(
            f"the compiled library {path} has no function {name}: set AUTOSCHED_CC to another compiler, such as gcc"
        ) from error
    function.argtypes = [ctypes.c_void_p] * parameters
    function.restype = None
    return _with_thread_limit(library, function)


def _with_thread_limit(library: ctypes.CDLL, function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function with its OpenMP threads limited to the available CPUs."""
    try:
        threads, set_threads = library.omp_get_max_threads, library.omp_set_num_threads
    except AttributeError:  # compiled without OpenMP
        return function
    most = available_cpus()
    if threads() <= most:
        return function

    def limited(*arguments: Any) -> None:
        before = threads()  # of this Python thread
        set_threads(min(before, most))
        try:
            function(*arguments)
        finally:
            set_threads(before)

    return limited


def _is_noexec(path: Path) -> bool:
    try:
        return bool(os.statvfs(path).f_flag & os.ST_NOEXEC)
    except OSError:  # deleted, or not readable
        return False
