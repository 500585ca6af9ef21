"""Settings taken from the environment; this is the only module that reads it."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from autosched.errors import CacheError, InputError

ENVIRONMENT_VARIABLES: dict[str, str] = {
    "AUTOSCHED_CACHE_DIR": "directory of compiled kernels (default: XDG_CACHE_HOME/autosched or ~/.cache/autosched)",
    "AUTOSCHED_CC": "C compiler of the CPU backend (default: CC, then cc, gcc, clang)",
    "AUTOSCHED_CXX": "C++ compiler of the emulator (default: CXX, then c++, g++, clang++)",
    "AUTOSCHED_COMPILE_JOBS": "number of parallel compiler processes (default: the CPUs this process may use)",
    "AUTOSCHED_CUDA_GRAPHS": "0 turns automatic CUDA graphs off (default: 1)",
    "OMP_NUM_THREADS": "number of cores that the target cpu has, if fewer than this process may use; OpenMP's own",
}
"""Every variable the library reads, with its meaning; the documentation prints this table."""

_FALSE_WORDS = frozenset({"0", "false", "no", "off"})
_TRUE_WORDS = frozenset({"1", "true", "yes", "on"})
_OPENMP_WAITING = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT")
_openmp_lock = threading.Lock()


@dataclass(frozen=True, slots=True)
class Settings:
    """What the environment says, read once per call of :func:`settings`.

    Attributes:
        cache_dir: Root of the on-disk cache; None if no home directory is known.
        cc: Command line of the C compiler, or None to search for one.
        cxx: Command line of the C++ compiler, or None to search for one.
        compile_jobs: Number of compiler processes that may run at a time, at least 1.
        cuda_graphs: Whether repeated launches are captured into CUDA graphs.
    """

    cache_dir: Path | None
    cc: str | None = None
    cxx: str | None = None
    compile_jobs: int = 1
    cuda_graphs: bool = True

    def require_cache_dir(self) -> Path:
        """Return the root of the on-disk cache.

        Raises:
            CacheError: If the environment names no directory for it.
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
        InputError: If a variable holds a value that has no meaning.
    """
    env = os.environ if environ is None else environ
    return Settings(
        cache_dir=_cache_dir(env),
        cc=env.get("AUTOSCHED_CC") or env.get("CC") or None,
        cxx=env.get("AUTOSCHED_CXX") or env.get("CXX") or None,
        compile_jobs=_compile_jobs(env),
        cuda_graphs=_switch(env, "AUTOSCHED_CUDA_GRAPHS", default=True),
    )


def child_environment(**changes: str) -> dict[str, str]:
    """Return this process's environment with some variables changed, for a child process."""
    return {**os.environ, **changes}


def available_cpus() -> int:
    """Return the number of CPUs this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def openmp_cpus(environ: Mapping[str, str] | None = None) -> int:
    """Return the number of CPUs that generated C runs on: those of this process, or the fewer that OpenMP is given.

    Args:
        environ: Variables to read; the process's own when left out.
    """
    env = os.environ if environ is None else environ
    first = env.get("OMP_NUM_THREADS", "").partition(",")[0].strip()  # one number for each level of nesting
    if not first.isdecimal() or int(first) < 1:  # OpenMP ignores it, too
        return available_cpus()
    return min(int(first), available_cpus())


def _cache_dir(env: Mapping[str, str]) -> Path | None:
    if chosen := env.get("AUTOSCHED_CACHE_DIR"):
        return Path(chosen).expanduser().absolute()
    xdg = Path(env.get("XDG_CACHE_HOME", ""))
    if xdg.is_absolute():  # the XDG specification says to ignore a relative one
        return xdg / "autosched"
    home = Path(env["HOME"]) if env.get("HOME") else _home()
    return home / ".cache" / "autosched" if home else None


def _home() -> Path | None:
    try:
        return Path.home()
    except RuntimeError:  # no HOME, and the user id has no entry in the password database
        return None


def _compile_jobs(env: Mapping[str, str]) -> int:
    text = env.get("AUTOSCHED_COMPILE_JOBS")
    if not text:
        return available_cpus()
    if not text.isdecimal() or int(text) < 1:
        raise InputError(f"AUTOSCHED_COMPILE_JOBS is {text!r}: set it to a whole number of at least 1, or unset it")
    return int(text)


def _switch(env: Mapping[str, str], name: str, *, default: bool) -> bool:
    text = env.get(name, "").strip().lower()
    if not text:
        return default
    if text not in _TRUE_WORDS | _FALSE_WORDS:
        raise InputError(f"{name} is {text!r}: set it to 0 or 1, or unset it")
    return text in _TRUE_WORDS


@contextmanager
def openmp_threads_sleep() -> Iterator[None]:
    """Let an OpenMP runtime that is loaded inside wait by sleeping, unless the user chose otherwise.

    Spinning threads save microseconds on an idle machine and lose a time slice at every barrier on a busy one (measured
    with five other processes on two cores: 16 ms against 3 ms for a kernel of 0.7 ms). libgomp reads the variable once,
    when it is loaded; it is taken back afterwards.
    """
    if any(name in os.environ for name in _OPENMP_WAITING):
        yield
        return
    with _openmp_lock:
        os.environ[_OPENMP_WAITING[0]] = "passive"
        try:
            yield
        finally:
            os.environ.pop(_OPENMP_WAITING[0], None)
