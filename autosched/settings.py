"""Settings from environment variables, which no other module reads."""

from __future__ import annotations

import os
import re
import shlex
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from autosched.errors import CacheError, InputError, shortened

ENVIRONMENT_VARIABLES: dict[str, str] = {
    "AUTOSCHED_CACHE_DIR": "directory of compiled kernels (default: XDG_CACHE_HOME/autosched or ~/.cache/autosched)",
    "AUTOSCHED_CC": "C compiler of the CPU backend (default: CC, then cc, gcc, clang)",
    "AUTOSCHED_CXX": "C++ compiler of the emulator (default: CXX, then c++, g++, clang++)",
    "AUTOSCHED_COMPILE_JOBS": "number of parallel compiler processes (default: the CPUs this process may use)",
    "AUTOSCHED_CUDA_GRAPHS": "0 turns automatic CUDA graphs off (default: 1)",
    "AUTOSCHED_DEBUG": "1 shows the traceback of every error on the command line (default: 0)",
    "AUTOSCHED_HOST_TIMING": "0 keeps searches for this machine's processor from timing programs on it (default: 1)",
    "AUTOSCHED_WORKERS": "number of processes of a long search (default: the CPUs this process may use, at most 8)",
    "OMP_NUM_THREADS": "number of cores that the target cpu has, if fewer than this process may use; OpenMP's own",
}
"""Every variable of the library, with its meaning; the documentation prints this table."""

MOST_JOBS = 1024
"""Most concurrent compiler processes, and most processes of a search."""
DEFAULT_WORKERS = 8
"""Most processes of a search by default: more have too few tasks at a time."""

_FALSE_WORDS = frozenset({"0", "false", "no", "off"})
_TRUE_WORDS = frozenset({"1", "true", "yes", "on"})
_OPENMP_WAITING = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT")
_OPENMP_STACKS = ("OMP_STACKSIZE", "GOMP_STACKSIZE")
_STACK_SIZE = re.compile(r"\s*(\d{1,18})\s*([bkmgBKMG]?)\s*", re.ASCII)
_STACK_UNITS = {"b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "": 1 << 10}
_LARGEST_STACK = 256, "256M"
"""Largest stack of a thread in MiB, and in OpenMP's notation; generated code needs less than one."""
_openmp_lock = threading.Lock()


@dataclass(frozen=True, slots=True)
class NamedCompiler:
    """A compiler from a variable.

    Attributes:
        variable: The variable.
        words: The command line, at least one word.
    """

    variable: str
    words: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of the environment at a call of :func:`settings`.

    Attributes:
        cache_dir: Root of the on-disk cache; None if no home directory is known.
        cc: The C compiler, or None to search for one.
        cxx: The C++ compiler, or None to search for one.
        compile_jobs: Number of concurrent compiler processes, 1 to `MOST_JOBS`.
        cuda_graphs: Whether repeated launches are captured into CUDA graphs.
        debug: Whether the command line shows the tracebacks of errors.
        host_timing: Whether searches for this machine's processor time their best schedules on it and, once, measure
            the scale of their predictions.
        workers: Number of processes of a search, 1 to `MOST_JOBS`.
    """

    cache_dir: Path | None
    cc: NamedCompiler | None = None
    cxx: NamedCompiler | None = None
    compile_jobs: int = 1
    cuda_graphs: bool = True
    debug: bool = False
    host_timing: bool = True
    workers: int = 1

    def require_cache_dir(self) -> Path:
        """Return the root of the on-disk cache.

        Raises:
            CacheError: If the environment has no directory for it.
        """
        if self.cache_dir is None:
            raise CacheError(
                "no home directory is known for the cache: set AUTOSCHED_CACHE_DIR to a writable directory"
            )
        return self.cache_dir


def settings(environ: Mapping[str, str] | None = None) -> Settings:
    """Return the settings that an environment describes.

    Args:
        environ: Variables to read; the process's own when left out.

    Raises:
        InputError: If a variable has an invalid value.
    """
    env = os.environ if environ is None else environ
    return Settings(
        cache_dir=_cache_dir(env),
        cc=_compiler(env, "CC"),
        cxx=_compiler(env, "CXX"),
        compile_jobs=_processes(env, "AUTOSCHED_COMPILE_JOBS", available_cpus()),
        cuda_graphs=_switch(env, "AUTOSCHED_CUDA_GRAPHS", default=True),
        debug=_switch(env, "AUTOSCHED_DEBUG", default=False),
        host_timing=_switch(env, "AUTOSCHED_HOST_TIMING", default=True),
        workers=_processes(env, "AUTOSCHED_WORKERS", min(available_cpus(), DEFAULT_WORKERS)),
    )


def wants_tracebacks() -> bool:
    """Return whether the command line shows the tracebacks of errors; reads no other variable.

    Raises:
        InputError: If AUTOSCHED_DEBUG is no switch.
    """
    return _switch(os.environ, "AUTOSCHED_DEBUG", default=False)


def child_environment(**changes: str) -> dict[str, str]:
    """Return this process's environment with some variables changed, for a child process."""
    return {**os.environ, **changes}


def available_cpus() -> int:
    """Return the number of CPUs this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def openmp_cpus(environ: Mapping[str, str] | None = None) -> int:
    """Return the number of CPUs of generated C: those of this process, limited by OpenMP's variables.

    Args:
        environ: Variables to read; the process's own when left out.
    """
    env = os.environ if environ is None else environ
    first = env.get("OMP_NUM_THREADS", "").partition(",")[0]  # a number per nesting level
    return _threads(first) or available_cpus()  # OpenMP also ignores invalid numbers


def whole_number(text: str, low: int, high: int) -> int | None:
    """Return a decimal number within limits, of any length; None for other text."""
    if not (text.isascii() and text.isdecimal()):
        return None
    digits = text.lstrip("0") or "0"
    if len(digits) > len(str(high)):  # Python does not parse thousands of digits
        return None
    return int(digits) if low <= int(digits) <= high else None


def _threads(text: str) -> int | None:
    """Return the number of OpenMP threads of a text, at most that of the CPUs; None if it is no number."""
    digits = text.strip()
    if not (digits.isascii() and digits.isdecimal()) or not digits.strip("0"):
        return None
    most = available_cpus()
    return whole_number(digits, 1, most) or most


def _cache_dir(env: Mapping[str, str]) -> Path | None:
    if chosen := env.get("AUTOSCHED_CACHE_DIR"):
        try:
            return Path(chosen).expanduser().absolute()
        except (RuntimeError, OSError) as error:  # no such user; no current directory
            raise InputError(
                f"AUTOSCHED_CACHE_DIR is {shortened(chosen)}, which names no directory ({error}): set it to the whole "
                "path of one that can be written"
            ) from error
    xdg = Path(env.get("XDG_CACHE_HOME", ""))
    if xdg.is_absolute():  # the XDG specification requires ignoring a relative path
        return xdg / "autosched"
    home = Path(env["HOME"]) if env.get("HOME") else _home()
    return home / ".cache" / "autosched" if home else None


def _home() -> Path | None:
    try:
        return Path.home()
    except RuntimeError:  # no HOME, and the user id has no entry in the password database
        return None


def _processes(env: Mapping[str, str], name: str, default: int) -> int:
    text = env.get(name)
    if not text:
        return default
    count = whole_number(text, 1, MOST_JOBS)
    if count is None:
        raise InputError(f"{name} is {shortened(text)}: set it to a whole number from 1 to {MOST_JOBS}, or unset it")
    return count


def _compiler(env: Mapping[str, str], common: str) -> NamedCompiler | None:
    """Return the compiler from the library's own variable or the common one."""
    for variable in (f"AUTOSCHED_{common}", common):
        text = env.get(variable)
        if not text:
            continue
        try:
            words = tuple(shlex.split(text))
        except ValueError as error:  # an open quote, or a backslash at the end
            raise InputError(
                f"{variable} is {shortened(text)}, which is no command line ({error}): set it to a compiler such as "
                f"gcc, quoted as for a shell, or unset it"
            ) from error
        if not words or not words[0]:
            raise InputError(f"{variable} is {shortened(text)}: set it to a compiler such as gcc, or unset it")
        return NamedCompiler(variable, words)
    return None


def _switch(env: Mapping[str, str], name: str, *, default: bool) -> bool:
    text = env.get(name, "").strip().lower()
    if not text:
        return default
    if text not in _TRUE_WORDS | _FALSE_WORDS:
        raise InputError(f"{name} is {shortened(text)}: set it to 0 or 1, or unset it")
    return text in _TRUE_WORDS


@contextmanager
def openmp_environment() -> Iterator[None]:
    """Set the environment for loading an OpenMP runtime in the block, and restore it afterwards.

    A runtime reads it once, when it is loaded. Its threads wait by sleeping, unless the user chose otherwise: spinning
    threads save microseconds on an idle machine, but lose a time slice at every barrier on a busy one. There are at
    most as many threads as CPUs, with small stacks, since a runtime that cannot start its threads ends the process.
    """
    with _openmp_lock:
        changes = _openmp_changes(os.environ)
        before = {name: os.environ.get(name) for name in changes}
        os.environ.update(changes)
        try:
            yield
        finally:
            for name, value in before.items():
                if value is None:
                    os.environ.pop(name, None)
                else:
                    os.environ[name] = value


def _openmp_changes(env: Mapping[str, str]) -> dict[str, str]:
    """Return the variables to be changed for OpenMP."""
    changes = {} if any(name in env for name in _OPENMP_WAITING) else {_OPENMP_WAITING[0]: "passive"}
    if threads := env.get("OMP_NUM_THREADS"):
        changes["OMP_NUM_THREADS"] = ",".join(str(_threads(n) or n) for n in threads.split(","))
    for name in _OPENMP_STACKS:
        size = _STACK_SIZE.fullmatch(env.get(name, ""))
        if size and int(size[1]) * _STACK_UNITS[size[2].lower()] > _LARGEST_STACK[0] << 20:
            changes[name] = _LARGEST_STACK[1]
    return changes
