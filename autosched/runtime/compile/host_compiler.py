"""Compile generated C and C++ to shared libraries with the system's compiler."""

from __future__ import annotations

import hashlib
import logging
import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Literal

from autosched.errors import CompileError, shortened
from autosched.host import has_fast_gathers, has_vector_math, read_host
from autosched.runtime.compile.cache import DiskCache, cache_key
from autosched.runtime.compile.compiler_diagnostics import refused_source
from autosched.runtime.compile.host_compile_flags import kernel_options
from autosched.settings import NamedCompiler, child_environment, settings

logger = logging.getLogger(__name__)

Language = Literal["c", "c++"]

WIDE_VECTORS = {8: "-mprefer-vector-width=256", 16: "-mprefer-vector-width=512"}
"""By floats in a processor's vectors: compilers keep to shorter ones on some, which takes up to twice as long.

They do so with 16 floats on Intel's, and with eight on AMD's first EPYC, which virtual machines often pretend to have.
"""

GATHERS = "-mgather"
"""On Intel's processors with fast gathers: gcc since 12.4 and 13.3 forms none on any of Intel's, which takes up to four
times as long where lanes load at indices from data."""

VECTOR_MATH = "-fveclib=libmvec"
"""For clang, which calls the C library's functions of vectors only when told to; gcc does where they are declared."""

_STANDARDS: dict[Language, str] = {"c": "-std=gnu11", "c++": "-std=gnu++17"}
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

_MACRO = re.compile(r"^#define (\w+) (.*)$", re.MULTILINE)
_LIBRARIES = DiskCache("library", suffix=".so")
_TIME_LIMIT_S = 600.0
_PROBE_TIME_LIMIT_S = 60.0
"""For questions to a compiler, which take it a fraction of a second."""


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
    for words in [chosen.words] if chosen else [(name,) for name in _SEARCHED[language]]:
        program = shutil.which(words[0])
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
    compiler = find_compiler(language)
    openmp = "-fopenmp" if has_openmp(compiler) else "-fopenmp-simd"  # which asks for vectors and no library
    return (_STANDARDS[language], *kernel_options(gnu_version(compiler)), *processor_options(compiler), openmp)


@lru_cache(maxsize=8)
def gnu_version(compiler: HostCompiler) -> tuple[int, int] | None:
    """Return major and minor version of gcc, None for another compiler (clang, which poses as gcc 4.2).

    Raises:
        CompileError: If the compiler cannot be run.
    """
    macros = dict(_MACRO.findall(_preprocessed(compiler, ())))
    if "__clang__" in macros or "__GNUC__" not in macros:
        return None
    return int(macros["__GNUC__"]), int(macros["__GNUC_MINOR__"])


@lru_cache(maxsize=1)
def machine_flags() -> tuple[str, ...]:
    """Return the flags of generated kernels that this machine's processor asks any compiler for."""
    option = WIDE_VECTORS.get(read_host().simd_lanes)
    return () if option is None else (option,)


def processor_options(compiler: HostCompiler) -> tuple[str, ...]:
    """Return the options of generated kernels that this machine's processor asks for, as far as a compiler knows them.

    Raises:
        CompileError: If the compiler cannot be run.
    """
    wanted: list[tuple[str, ...]]
    if gnu_version(compiler) is not None:
        wanted = [(GATHERS,)] if has_fast_gathers() else []
    else:
        wanted = [whole_lanes(read_host().simd_lanes), *([(VECTOR_MATH,)] if has_vector_math() else [])]
    known = (option for options in wanted if _knows(compiler, options) for option in options)
    return (*machine_flags(), *known)


def whole_lanes(lanes: int) -> tuple[str, str]:
    """Return what keeps LLVM from writing out loops over lanes before it looks for vectors, which it then misses."""
    return "-mllvm", f"-unroll-full-max-count={lanes - 1}"


@lru_cache(maxsize=8)
def _knows(compiler: HostCompiler, options: tuple[str, ...]) -> bool:
    nothing = ["-S", "-x", compiler.language, "/dev/null", "-o", "/dev/null"]
    return _run([*compiler.command, *options, *nothing], None).returncode == 0


@lru_cache(maxsize=8)
def has_openmp(compiler: HostCompiler) -> bool:
    """Return whether a compiler builds an OpenMP program; without it kernels use one core.

    Raises:
        CompileError: If the compiler hangs, crashes or writes nothing.
    """
    flags = (_STANDARDS[compiler.language], "-fopenmp")
    try:
        _compile(compiler, _OPENMP_PROBE, flags, _PROBE_TIME_LIMIT_S)
    except CompileError as error:
        if not error.source:  # it did not refuse the program
            raise
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


def _compile(compiler: HostCompiler, source: str, flags: tuple[str, ...], limit_s: float = _TIME_LIMIT_S) -> Path:
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
    return _LIBRARIES.put(key, lambda target: _run_compiler(compiler, source, flags, target, limit_s))


def _run_compiler(compiler: HostCompiler, source: str, flags: tuple[str, ...], target: Path, limit_s: float) -> None:
    file_name = _FILE_NAMES[compiler.language]
    with tempfile.TemporaryDirectory(prefix="autosched-") as directory:
        Path(directory, file_name).write_text(source, encoding="utf-8")
        # libraries go last: a linker drops those that nothing before them needs
        command = [*compiler.command, *_LIBRARY_FLAGS, *flags, file_name, "-o", str(target.absolute()), "-lm"]
        finished = _run(command, directory, limit_s)
        if finished.returncode and any(text in finished.stderr for text in _INTERNAL_ERRORS):
            logger.warning(
                "%s has an internal error with a kernel, which is compiled with %s and may be slow; another version of "
                "the compiler may be free of it", compiler.title, _CAREFUL,
            )  # fmt: skip
            finished = _run([*command, _CAREFUL], directory, limit_s)
    if finished.returncode < 0:
        raise _unusable(compiler, f"was ended by signal {-finished.returncode}", finished.stderr)
    if finished.returncode != 0:
        raise refused_source(compiler.title, file_name, source, finished.stderr.strip(), flags)
    if not target.is_file() or not target.stat().st_size:
        raise _unusable(compiler, "says that it succeeded and has written no library", finished.stderr)


_CAREFUL = "-O1"
"""Leaves out most of a compiler: its loops, vectors and what fails in them."""
_INTERNAL_ERRORS = ("internal compiler error", "PLEASE submit a bug report")
"""What gcc and clang say when they fail, whatever the source."""


def _unusable(compiler: HostCompiler, problem: str, log: str) -> CompileError:
    """Return the error for a compiler that does not do what compilers do, whatever the source."""
    return CompileError(
        f"the compiler {' '.join(compiler.command)} {problem}: set AUTOSCHED_{_VARIABLES[compiler.language]} to "
        "another one, such as gcc or clang",
        log=log.strip(),
    )


def _no_compiler(language: Language, chosen: NamedCompiler | None) -> CompileError:
    variable = _VARIABLES[language]
    if chosen is None:
        reason = f"no {_TITLES[language]} compiler is found"
    else:
        reason = f"{chosen.variable} names {shortened(chosen.words[0])}, which is not there"
    return CompileError(
        f"{reason}: install gcc or clang (Debian, Ubuntu: apt install build-essential; macOS: xcode-select --install; "
        f"conda: conda install -c conda-forge compilers), or set AUTOSCHED_{variable} to the one to use; "
        "without a compiler, pipelines run on the CPU in the NumPy interpreter only"
    )


@lru_cache(maxsize=8)
def _version_of(command: tuple[str, ...]) -> str:
    finished = _run([*command, "--version"], None)
    if finished.returncode != 0:
        raise CompileError(
            f"the compiler {' '.join(command)} does not run, it ends with status {finished.returncode}: "
            f"{_ANOTHER_COMPILER}",
            log=finished.stderr.strip(),
        )
    return finished.stdout


@lru_cache(maxsize=16)
def _predefined_macros(compiler: HostCompiler, flags: tuple[str, ...]) -> str:
    """Return a digest of the macros that flags predefine: ``-march=native`` means another CPU elsewhere."""
    return hashlib.sha256(_preprocessed(compiler, flags).encode()).hexdigest()


def _preprocessed(compiler: HostCompiler, flags: tuple[str, ...]) -> str:
    """Return the definitions of all macros that a compiler predefines."""
    language = compiler.language
    finished = _run([*compiler.command, *flags, "-dM", "-E", "-x", language, "/dev/null"], None)
    if finished.returncode != 0:
        raise CompileError(
            f"{compiler.title} refuses the flags {' '.join(flags)}: set AUTOSCHED_{_VARIABLES[language]} to a newer "
            "gcc or clang",
            log=finished.stderr.strip(),
        )
    return finished.stdout


def _run(
    command: Sequence[str], directory: str | None, limit_s: float = _PROBE_TIME_LIMIT_S
) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            command,
            cwd=directory,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            env=child_environment(LC_ALL="C"),
            text=True,
            errors="replace",
            timeout=limit_s,
            check=False,
        )
    except OSError as error:
        raise CompileError(
            f"the compiler {command[0]} cannot be run ({error.strerror or error}): {_ANOTHER_COMPILER}"
        ) from error
    except subprocess.TimeoutExpired as error:
        raise CompileError(f"the compiler {command[0]} did not finish in {limit_s:g} s: {_ANOTHER_COMPILER}") from error


_ANOTHER_COMPILER = "set AUTOSCHED_CC for C, AUTOSCHED_CXX for C++ to another one, such as gcc and g++"
