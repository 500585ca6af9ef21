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
"""Flags by floats in a processor's vectors: compilers prefer shorter vectors on some processors, which is slower.

They do so for 16 floats on Intel's, and for eight on AMD's first EPYC, a frequent model name of virtual machines.
"""

GATHERS = "-mgather"
"""Enables gathers on Intel's processors with fast ones: gcc since 12.4 and 13.3 generates none on any Intel processor,
which makes data-dependent loads much slower."""

NO_GATHERS = ("-mno-gather", "-mtune-ctrl=^use_gather")
"""Keep gcc from gathers of eight floats; the first that a version accepts is used.

gcc 12.2 compiled masked gathers wrongly: a store under a condition that is equal for all lanes got undefined values. It
generates such gathers for Haswell and Zen 3, not for Zen 1 and 2. No such fault was seen with AVX-512.
"""

VECTOR_MATH = "-fveclib=libmvec"
"""Vector math library for clang, which uses the C library's only with this flag; gcc uses declared vector variants."""

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
"""Time limit of probes of a compiler, which take a fraction of a second."""


@dataclass(frozen=True, slots=True)
class HostCompiler:
    """A compiler of this machine.

    Attributes:
        language: Its language.
        command: Its command line; several words for wrappers such as ``ccache gcc``.
        version: The whole output for ``--version``.
    """

    language: Language
    command: tuple[str, ...]
    version: str

    @property
    def title(self) -> str:
        """First line of the version, for messages."""
        return self.version.splitlines()[0] if self.version else " ".join(self.command)


def find_compiler(language: Language = "c") -> HostCompiler:
    """Return the compiler of the settings, or else the first one on the path.

    Raises:
        CompileError: If there is none, or the compiler of the settings cannot be run.
    """
    chosen = settings().cc if language == "c" else settings().cxx
    for words in [chosen.words] if chosen else [(name,) for name in _SEARCHED[language]]:
        program = shutil.which(words[0])
        if program is not None:
            command = (str(Path(program).absolute()), *words[1:])
            return HostCompiler(language, command, _version_of(command))
    raise _no_compiler(language, chosen)


def have_compiler(language: Language = "c") -> bool:
    """Return whether there is a compiler; without one only the NumPy interpreter runs pipelines on the CPU."""
    try:
        find_compiler(language)
    except CompileError:
        return False
    return True


def kernel_flags(language: Language = "c") -> tuple[str, ...]:
    """Return the flags of generated kernels, with OpenMP if the compiler supports it.

    Raises:
        CompileError: If there is no compiler.
    """
    compiler = find_compiler(language)
    openmp = "-fopenmp" if has_openmp(compiler) else "-fopenmp-simd"  # enables vectorisation pragmas without a library
    return (_STANDARDS[language], *kernel_options(gnu_version(compiler)), *processor_options(compiler), openmp)


@lru_cache(maxsize=8)
def gnu_version(compiler: HostCompiler) -> tuple[int, int] | None:
    """Return major and minor version of gcc; None for another compiler (clang reports gcc 4.2).

    Raises:
        CompileError: If the compiler cannot be run.
    """
    macros = dict(_MACRO.findall(_preprocessed(compiler, ())))
    if "__clang__" in macros or "__GNUC__" not in macros:
        return None
    return int(macros["__GNUC__"]), int(macros["__GNUC_MINOR__"])


@lru_cache(maxsize=1)
def machine_flags() -> tuple[str, ...]:
    """Return the processor-dependent flags of generated kernels that every compiler accepts."""
    option = WIDE_VECTORS.get(read_host().simd_lanes)
    return () if option is None else (option,)


def processor_options(compiler: HostCompiler) -> tuple[str, ...]:
    """Return the processor-dependent options of generated kernels that a compiler accepts.

    Raises:
        CompileError: If the compiler cannot be run.
    """
    candidates: list[tuple[str, ...]]
    if gnu_version(compiler) is not None:
        candidates = [(GATHERS,)] if has_fast_gathers() else []
        if not candidates and read_host().simd_lanes == 8:
            candidates += [(option,) for option in NO_GATHERS if _knows(compiler, (option,))][:1]
    else:
        candidates = [whole_lanes(read_host().simd_lanes), *([(VECTOR_MATH,)] if has_vector_math() else [])]
    accepted = (option for options in candidates if _knows(compiler, options) for option in options)
    return (*machine_flags(), *accepted)


def whole_lanes(lanes: int) -> tuple[str, str]:
    """Return the options that keep LLVM from unrolling lane loops before vectorisation."""
    return "-mllvm", f"-unroll-full-max-count={lanes - 1}"


@lru_cache(maxsize=8)
def _knows(compiler: HostCompiler, options: tuple[str, ...]) -> bool:
    nothing = ["-S", "-x", compiler.language, "/dev/null", "-o", "/dev/null"]
    return _run([*compiler.command, *options, *nothing], None).returncode == 0


@lru_cache(maxsize=8)
def has_openmp(compiler: HostCompiler) -> bool:
    """Return whether a compiler builds an OpenMP program; without it kernels use one core.

    Raises:
        CompileError: If the compiler hangs, crashes or writes no library.
    """
    flags = (_STANDARDS[compiler.language], "-fopenmp")
    try:
        _compile(compiler, _OPENMP_PROBE, flags, _PROBE_TIME_LIMIT_S)
    except CompileError as error:
        if not error.source:  # a failure other than a rejected program
            raise
        logger.warning("%s has no OpenMP, so kernels run on one core: %s", compiler.title, error)
        return False
    return True


def compile_shared_library(source: str, language: Language = "c", flags: Sequence[str] | None = None) -> Path:
    """Compile source to a shared library, or return the cached result of an earlier compilation.

    Args:
        source: C or C++ text.
        language: The source language.
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
        # libraries come last: a linker drops libraries that no earlier object needs
        command = [*compiler.command, *_LIBRARY_FLAGS, *flags, file_name, "-o", str(target.absolute()), "-lm"]
        finished = _run(command, directory, limit_s)
        if finished.returncode and any(text in finished.stderr for text in _INTERNAL_ERRORS):
            logger.warning(
                "%s has an internal error with a kernel, which is compiled with %s and may be slow; another version of "
                "the compiler may not have it", compiler.title, _CAREFUL,
            )  # fmt: skip
            finished = _run([*command, _CAREFUL], directory, limit_s)
    if finished.returncode < 0:
        raise _unusable(compiler, f"was ended by signal {-finished.returncode}", finished.stderr)
    if finished.returncode != 0:
        raise refused_source(compiler.title, file_name, source, finished.stderr.strip(), flags)
    if not target.is_file() or not target.stat().st_size:
        raise _unusable(compiler, "reports success but has written no library", finished.stderr)


_CAREFUL = "-O1"
"""Disables most optimisations, among them those of loops and vectors that fail most."""
_INTERNAL_ERRORS = ("internal compiler error", "PLEASE submit a bug report")
"""Messages of internal errors of gcc and clang."""


def _unusable(compiler: HostCompiler, problem: str, log: str) -> CompileError:
    """Return the error for a compiler that fails independently of the source."""
    return CompileError(
        f"the compiler {' '.join(compiler.command)} {problem}: set AUTOSCHED_{_VARIABLES[compiler.language]} to "
        "another one, such as gcc or clang",
        log=log.strip(),
    )


def _no_compiler(language: Language, chosen: NamedCompiler | None) -> CompileError:
    variable = _VARIABLES[language]
    if chosen is None:
        reason = f"no {_TITLES[language]} compiler was found"
    else:
        reason = f"{chosen.variable} names {shortened(chosen.words[0])}, which does not exist"
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
    """Return a digest of the predefined macros: ``-march=native`` depends on the machine."""
    return hashlib.sha256(_preprocessed(compiler, flags).encode()).hexdigest()


def _preprocessed(compiler: HostCompiler, flags: tuple[str, ...]) -> str:
    """Return the definitions of all predefined macros of a compiler."""
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
