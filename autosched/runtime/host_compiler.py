"""Compile generated C and C++ to shared libraries with the system's compiler."""

from __future__ import annotations

import hashlib
import logging
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Literal

from autosched.errors import CompileError
from autosched.host import read_host
from autosched.runtime.cache import DiskCache, cache_key
from autosched.runtime.diagnostics import refused_source
from autosched.settings import child_environment, settings

logger = logging.getLogger(__name__)

Language = Literal["c", "c++"]

KERNEL_FLAGS: tuple[str, ...] = (
    "-O3",
    "-march=native",
    "-ffp-contract=off",
    "-fno-math-errno",
    "-fno-trapping-math",
    # gcc before 12.4 and 13.3 may rewrite addresses such that it loses track of what they point to (its PR 110702):
    # stores vanish, masked loads go astray.
    "-fno-ivopts",
    # gcc 12 interchanges reduction loops that accumulate in memory, and so adds floats in another order.
    "-fno-loop-interchange",
    # Where a kernel begins is then the same whatever kernels come before it: a loop with many branches takes up to a
    # third longer at one place than at another.
    "-falign-functions=64",
    # Sums stay in registers where all loops inside the reduction are unrolled, eight points of two vectors, say; by
    # itself gcc unrolls up to 200 instructions. With 800 stencils take twice as long to compile.
    "--param=max-completely-peeled-insns=400",
    # A condition that is the same in all lanes, as in blocks at a border, keeps gcc 12 from forming vectors unless it
    # is taken out of the loop; by itself gcc does that in loops of at most 50 instructions.
    "--param=max-unswitch-insns=1000",
    # gcc takes up to 63 lanes one by one until an array of Members begins at a multiple of the vectors, and as many at
    # the end; vectors across two lines cost less.
    "--param=vect-max-peeling-for-alignment=0",
)
"""Flags of generated kernels; contraction is off so that results are the interpreter's, bit for bit."""

WIDE_VECTORS = "-mprefer-vector-width=512"
"""On processors with vectors of 16 floats: gcc keeps to eight on Intel's, which takes up to twice as long."""

_STANDARDS: dict[Language, str] = {"c": "-std=gnu11", "c++": "-std=gnu++17"}
_FLOATS_OF_AVX512 = 16
_LIBRARY_FLAGS = ("-fPIC", "-shared")
_SEARCHED: dict[Language, tuple[str, ...]] = {"c": ("cc", "gcc", "clang"), "c++": ("c++", "g++", "clang++")}
_FILE_NAMES: dict[Language, str] = {"c": "kernel.c", "c++": "kernel.cpp"}
_VARIABLES: dict[Language, str] = {"c": "CC", "c++": "CXX"}
_TITLES: dict[Language, str] = {"c": "C", "c++": "C++"}

_OPENMP_PROBE = """
#include <omp.h>
int probe(void) {
    int sum = 0;
#pragma omp parallel for reduction(+ : sum)
    for (int i = 0; i < 8; i++) sum += omp_get_thread_num();
    return sum;
}
"""

_LIBRARIES = DiskCache("library", suffix=".so")
_TIME_LIMIT_S = 600.0


@dataclass(frozen=True, slots=True)
class HostCompiler:
    """A compiler of this machine.

    Attributes:
        language: What it compiles.
        command: How it is called; more than one word for the likes of ``ccache gcc``.
        version: All that it prints for ``--version``.
    """

    language: Language
    command: tuple[str, ...]
    version: str

    @property
    def title(self) -> str:
        """First line of the version, to show to people."""
        return self.version.splitlines()[0] if self.version else " ".join(self.command)


def find_compiler(language: Language = "c") -> HostCompiler:
    """Return the compiler that the settings name, or the first that is found on the path.

    Raises:
        CompileError: If there is none, or the one that is named cannot be run.
    """
    chosen = settings().cc if language == "c" else settings().cxx
    for candidate in [chosen] if chosen else _SEARCHED[language]:
        words = shlex.split(candidate)
        program = shutil.which(words[0]) if words else None
        if program is not None:
            command = (str(Path(program).absolute()), *words[1:])
            return HostCompiler(language, command, _version_of(command))
    raise _no_compiler(language, chosen)


def have_compiler(language: Language = "c") -> bool:
    """Return whether a compiler is there; without one only the NumPy interpreter runs pipelines on the CPU."""
    try:
        find_compiler(language)
    except CompileError:
        return False
    return True


def kernel_flags(language: Language = "c") -> tuple[str, ...]:
    """Return the flags of generated kernels, with OpenMP where the compiler has it.

    Raises:
        CompileError: If there is no compiler.
    """
    openmp = ("-fopenmp",) if has_openmp(find_compiler(language)) else ()
    return (_STANDARDS[language], *KERNEL_FLAGS, *machine_flags(), *openmp)


@lru_cache(maxsize=1)
def machine_flags() -> tuple[str, ...]:
    """Return the flags of generated kernels that this machine's processor asks for."""
    return (WIDE_VECTORS,) if read_host().simd_lanes == _FLOATS_OF_AVX512 else ()


@lru_cache(maxsize=8)
def has_openmp(compiler: HostCompiler) -> bool:
    """Return whether a compiler builds an OpenMP program; without it kernels use one core."""
    flags = (_STANDARDS[compiler.language], "-fopenmp")
    try:
        _compile(compiler, _OPENMP_PROBE, flags)
    except CompileError as error:
        logger.warning("%s has no OpenMP, so kernels run on one core: %s", compiler.title, error)
        return False
    return True


def compile_shared_library(source: str, language: Language = "c", flags: Sequence[str] | None = None) -> Path:
    """Compile source to a shared library, or take the result of an earlier compilation from the cache.

    Args:
        source: C or C++ text.
        language: Which of the two.
        flags: Compiler flags besides ``-fPIC -shared``; those of generated kernels when left out.

    Returns:
        Path of the library in the on-disk cache; load it with ctypes.

    Raises:
        CompileError: If there is no compiler, or it refuses the source.
        CacheError: If the cache directory cannot be written.
    """
    compiler = find_compiler(language)
    return _compile(compiler, source, kernel_flags(language) if flags is None else tuple(flags))


def _compile(compiler: HostCompiler, source: str, flags: tuple[str, ...]) -> Path:
    key = cache_key(
        source=source,
        flags=flags,
        language=compiler.language,
        command=compiler.command,
        version=compiler.version,
        machine=_predefined_macros(compiler, flags) if any(flag.endswith("=native") for flag in flags) else "",
    )
    path = _LIBRARIES.get(key)
    if path is not None:
        return path
    logger.debug("compiling with %s", compiler.title)
    return _LIBRARIES.put(key, lambda target: _run_compiler(compiler, source, flags, target))


def _run_compiler(compiler: HostCompiler, source: str, flags: tuple[str, ...], target: Path) -> None:
    file_name = _FILE_NAMES[compiler.language]
    with tempfile.TemporaryDirectory(prefix="autosched-") as directory:
        Path(directory, file_name).write_text(source, encoding="utf-8")
        # libraries go last: a linker drops those that nothing before them needs
        command = [*compiler.command, *_LIBRARY_FLAGS, *flags, file_name, "-o", str(target.absolute()), "-lm"]
        finished = _run(command, directory)
    if finished.returncode != 0:
        raise refused_source(compiler.title, file_name, source, finished.stderr.strip(), flags)


def _no_compiler(language: Language, chosen: str | None) -> CompileError:
    variable = _VARIABLES[language]
    reason = (
        f"{variable} names {chosen!r}, which is not there" if chosen else f"no {_TITLES[language]} compiler is found"
    )
    return CompileError(
        f"{reason}: install gcc or clang (Debian, Ubuntu: apt install build-essential; macOS: xcode-select --install; "
        f"conda: conda install -c conda-forge compilers), or set AUTOSCHED_{variable} to the one to use; "
        "without a compiler, pipelines run on the CPU in the NumPy interpreter only"
    )


@lru_cache(maxsize=8)
def _version_of(command: tuple[str, ...]) -> str:
    finished = _run([*command, "--version"], None)
    if finished.returncode != 0:
        raise CompileError(f"the compiler {' '.join(command)} does not run", log=finished.stderr.strip())
    return finished.stdout


@lru_cache(maxsize=16)
def _predefined_macros(compiler: HostCompiler, flags: tuple[str, ...]) -> str:
    """Return a digest of the macros that flags predefine: ``-march=native`` means another CPU elsewhere."""
    language = compiler.language
    finished = _run([*compiler.command, *flags, "-dM", "-E", "-x", language, "/dev/null"], None)
    if finished.returncode != 0:
        raise CompileError(
            f"{compiler.title} refuses the flags {' '.join(flags)}: set AUTOSCHED_{_VARIABLES[language]} to a newer "
            "gcc or clang",
            log=finished.stderr.strip(),
        )
    return hashlib.sha256(finished.stdout.encode()).hexdigest()


def _run(command: Sequence[str], directory: str | None) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            command,
            cwd=directory,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            env=child_environment(LC_ALL="C"),
            text=True,
            errors="replace",
            timeout=_TIME_LIMIT_S,
            check=False,
        )
    except OSError as error:
        raise CompileError(f"the compiler {command[0]} cannot be run: {error.strerror or error}") from error
    except subprocess.TimeoutExpired as error:
        raise CompileError(f"the compiler {command[0]} did not finish in {_TIME_LIMIT_S:g} s") from error
