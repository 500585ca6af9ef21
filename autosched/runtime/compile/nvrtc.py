"""Compile generated CUDA C to a cubin with NVRTC; needs neither a GPU nor a driver."""

from __future__ import annotations

import io
import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from pathlib import Path

from autosched.deprecation import renamed_attributes, renamed_fields
from autosched.errors import CompileError
from autosched.runtime.call.launch_bounds import relax_launch_bounds
from autosched.runtime.compile.cache import DiskCache, cache_key
from autosched.runtime.compile.compiler_diagnostics import refused_source
from autosched.runtime.compile.ptxas_log import KernelResources, parse_ptxas_log

logger = logging.getLogger(__name__)

_CUBINS = DiskCache("cubin", suffix=".cubin")
_LOGS = DiskCache("nvrtc-log", suffix=".txt")
_ARCH = re.compile(r"sm_(\d+)[a-z]?")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_FIRST_WITH_CACHE = (12, 9)
_NOTHING = 'extern "C" __global__ void nothing() {}'
_ELSEWHERE = b"together "
"""Prefix of a cache entry that refers to the code of a batch by its key, instead of holding code."""
_ROOM = "launch bounds ask for one block a multiprocessor, without that {} bytes a thread are spilled\n"


@renamed_fields(room="relax_launch_bounds")
@dataclass(frozen=True, slots=True)
class NvrtcOptions:
    """Options of a compilation; all are part of the cache key.

    Launch bounds limit the registers of each kernel and overrule the compiler's own option; for kernels that spill
    they may be relaxed (`autosched.runtime.call.launch_bounds`).

    There is no option for debug code (``-G``) on purpose: mixed with optimised code in one process it
    corrupts later kernels. Line information costs nothing at run time and serves profilers.

    Attributes:
        fast_math: Allow approximate division, square root and functions, and flush denormals.
        fmad: Contract a multiplication and an addition into one rounding.
        lineinfo: Record source lines in the cubin.
        relax_launch_bounds: Compile generated code that spills a second time, with relaxed launch bounds.
    """

    fast_math: bool = False
    fmad: bool = True
    lineinfo: bool = True
    relax_launch_bounds: bool = True

    def as_flags(self) -> tuple[str, ...]:
        """Return the options as command-line flags of NVRTC and nvcc."""
        flags = ["-std=c++17", f"-fmad={str(self.fmad).lower()}"]
        if self.fast_math:
            flags.append("-use_fast_math")
        if self.lineinfo:
            flags.append("-lineinfo")
        return tuple(flags)


@renamed_attributes(has_room="has_relaxed_bounds")
@dataclass(frozen=True, slots=True)
class Cubin:
    """Compiled kernels of one source.

    Attributes:
        code: The cubin itself.
        arch: Its architecture, e.g. "sm_90".
        kernels: Resources of every kernel, by name.
        log: The output of NVRTC and ptxas.
    """

    code: bytes
    arch: str
    kernels: Mapping[str, KernelResources]
    log: str

    @property
    def has_relaxed_bounds(self) -> bool:
        """Whether the launch bounds were relaxed because the code spills more without that."""
        return self.log.startswith(_ROOM.partition("{}")[0])

    @property
    def spill_bytes(self) -> int:
        """Register bytes that a thread spills to local memory, summed over all kernels."""
        return sum(r.spill_bytes for r in self.kernels.values())


def compile_cubin(source: str, arch: str, options: NvrtcOptions | None = None, *, name: str = "kernel") -> Cubin:
    """Compile CUDA C source, or return the cached result of an earlier compilation.

    Generated code that spills registers is compiled a second time, with room for more of them, and kept so if it then
    spills less (`NvrtcOptions.relax_launch_bounds`).

    Args:
        source: CUDA C++17 that includes nothing.
        arch: Architecture to compile for, e.g. "sm_90".
        options: How to compile; the defaults when left out.
        name: C identifier that names the source in logs and in line information.

    Raises:
        CompileError: If NVRTC is missing, does not support `arch`, or refuses the source.
        CacheError: If the cache directory cannot be written.
    """
    options = options or NvrtcOptions()
    key = cubin_key(source, arch, options, name)
    cached = cached_cubin(key, arch)
    if cached is not None:
        return cached
    cubin = with_fewest_spills(compile_program(source, arch, options, name), source, arch, options, name)
    store(key, cubin)
    return cubin


def compile_program(source: str, arch: str, options: NvrtcOptions, name: str) -> Cubin:
    """Compile unmodified CUDA C source without the cache; see `compile_cubin`."""
    return _cubin(*_compile(source, arch, options, name), arch)


def with_fewest_spills(found: Cubin, source: str, arch: str, options: NvrtcOptions, name: str) -> Cubin:
    """Return the code of a source, or with relaxed launch bounds if these reduce spills; see `compile_cubin`."""
    relaxed = relax_launch_bounds(source) if options.relax_launch_bounds else source
    if found.spill_bytes and relaxed != source:
        other = compile_program(relaxed, arch, options, name)
        if other.spill_bytes < found.spill_bytes:
            return replace(other, log=_ROOM.format(found.spill_bytes) + other.log)
    return found


def cubin_key(source: str, arch: str, options: NvrtcOptions, name: str) -> str:
    """Return the cache key of a compilation.

    Raises:
        CompileError: If NVRTC is missing or does not support `arch`.
    """
    if not _NAME.fullmatch(name):
        raise ValueError(f"{name!r} is not a C identifier")
    _check_arch(arch)
    compiler = [nvrtc_version(), _library_size()]
    in_key = asdict(options)
    in_key["room"] = in_key.pop("relax_launch_bounds")  # its former name, by which cached code is found
    return cache_key(source=source, arch=arch, options=in_key, name=name, nvrtc=compiler)


def cached_cubin(key: str, arch: str) -> Cubin | None:
    """Return the cached result of a compilation, or None."""
    code, log = _CUBINS.get_bytes(key), _LOGS.get_bytes(key)
    if code is not None and code.startswith(_ELSEWHERE):
        code = _CUBINS.get_bytes(code.removeprefix(_ELSEWHERE).decode())
        if code is None:
            _CUBINS.discard(key)  # otherwise it would hide its replacement
    return None if code is None or log is None else _cubin(code, log.decode(), arch)


def store(key: str, found: Cubin, together: str | None = None) -> None:
    """Store the result of a compilation in the on-disk cache.

    Args:
        key: From `cubin_key`.
        found: The result.
        together: Key of the code of its batch, if it was compiled in one (`store_code`).

    Raises:
        CacheError: If the cache directory cannot be written.
    """
    _LOGS.put(key, found.log.encode())
    _CUBINS.put(key, found.code if together is None else _ELSEWHERE + together.encode())  # last: completes it


def store_code(keys: Sequence[str], code: bytes) -> str:
    """Store the code of a batch in the on-disk cache; return its key.

    Args:
        keys: Keys of the sources.
        code: Code of all of them.

    Raises:
        CacheError: If the cache directory cannot be written.
    """
    together = cache_key(together=list(keys))
    _CUBINS.put(together, code)
    return together


@lru_cache(maxsize=1)
def nvrtc_version() -> str:
    """Return NVRTC's version, e.g. "13.0".

    Raises:
        CompileError: If NVRTC cannot be loaded.
    """
    with _usable():
        from cuda.bindings import nvrtc

        status, major, minor = nvrtc.nvrtcVersion()
    if status != nvrtc.nvrtcResult.NVRTC_SUCCESS:
        raise CompileError(f"nvrtcVersion failed with status {status}")
    return f"{major}.{minor}"


@lru_cache(maxsize=1)
def supported_archs() -> tuple[int, ...]:
    """Return the compute capabilities that the installed NVRTC compiles for, 90 meaning 9.0.

    Raises:
        CompileError: If NVRTC cannot be loaded.
    """
    nvrtc_version()
    with _usable():
        from cuda.bindings import nvrtc

        status, archs = nvrtc.nvrtcGetSupportedArchs()
    if status != nvrtc.nvrtcResult.NVRTC_SUCCESS:
        raise CompileError(f"the query of NVRTC's supported architectures failed with status {status}")
    return tuple(archs)


def load_nvrtc() -> None:
    """Load the compiler, which takes half a second; otherwise the first compilation loads it.

    Raises:
        CompileError: If NVRTC or cuda.core, through which it is called, cannot be loaded.
    """
    nvrtc_version()
    with _usable():
        import cuda.core  # noqa: F401


def check_compiler(arch: str) -> None:
    """Check that kernels can be compiled for an architecture, by compiling an empty one.

    Packages may be missing, or have incompatible versions: PyTorch installs NVRTC and its bindings, but not cuda.core,
    which calls them.

    Raises:
        CompileError: If they cannot; the message names the package to install.
    """
    load_nvrtc()
    _check_arch(arch)
    _compile_nothing(arch)


def have_nvrtc() -> bool:
    """Return whether kernels can be compiled for NVRTC's latest architecture."""
    try:
        load_nvrtc()
        check_compiler(f"sm_{max(supported_archs())}")
    except CompileError:
        return False
    return True


@lru_cache(maxsize=8)
def _compile_nothing(arch: str) -> None:
    found = compile_program(_NOTHING, arch, NvrtcOptions(), "nothing")
    if not found.code:
        raise CompileError(
            f"NVRTC {nvrtc_version()} generates no code for {arch}: install the package nvidia-cuda-nvrtc again"
        )


@lru_cache(maxsize=1)
def _library_size() -> int:
    """Return the size of the NVRTC library, which distinguishes releases of one version number."""
    with _usable():
        from cuda.pathfinder import load_nvidia_dynamic_lib

        path = load_nvidia_dynamic_lib("nvrtc").abs_path
    return Path(path).stat().st_size if path else 0


def _check_arch(arch: str) -> None:
    match = _ARCH.fullmatch(arch)
    if not match:
        raise CompileError(f"{arch!r} is not an architecture: write it as sm_90")
    if int(match[1]) not in supported_archs():
        known = ", ".join(f"sm_{number}" for number in supported_archs())
        raise CompileError(
            f"NVRTC {nvrtc_version()} does not compile for {arch}, only for {known}: "
            "for an older GPU install the extra cuda12, pip install 'autosched[cuda12]'; for a newer one upgrade "
            "the package nvidia-cuda-nvrtc"
        )


@contextmanager
def _usable() -> Iterator[None]:
    """Turn every failure of the compiler's packages into one error that names the package to install."""
    try:
        yield
    except Exception as error:  # missing or incompatible packages raise all kinds of errors
        raise CompileError(
            "NVRTC, the CUDA compiler library, cannot be used: install the extra nvrtc, pip install 'autosched[nvrtc]' "
            "(to launch kernels too, autosched[cuda13], or cuda12 for a driver of CUDA 12); compiling needs no GPU",
            log=f"{type(error).__name__}: {error}",
        ) from error


def _compile(source: str, arch: str, options: NvrtcOptions, name: str) -> tuple[bytes, str]:
    load_nvrtc()
    written = io.StringIO()
    try:
        code = _compiled_code(source, arch, options, name, written)
    except Exception as error:
        if type(error).__name__ != "NVRTCError":  # the class is not public in cuda.core
            with _usable():
                raise
        flags = (f"-arch={arch}", "-minimal", *options.as_flags())
        raise refused_source(f"NVRTC {nvrtc_version()}", f"{name}.cu", source, _clean(str(error)), flags) from error
    logger.debug("compiled %s.cu for %s, %d bytes", name, arch, len(code))
    return code, _clean(written.getvalue())


def _compiled_code(source: str, arch: str, options: NvrtcOptions, name: str, log: io.StringIO) -> bytes:
    """Return the object code of a source from cuda.core, whose errors propagate."""
    from cuda.core import Program, ProgramOptions

    program_options = ProgramOptions(
        name=f"{name}.cu",
        arch=arch,
        std="c++17",
        minimal=True,  # no textures and no runtime API: they are unused, and declaring them takes compile time
        fma=options.fmad,
        use_fast_math=options.fast_math or None,
        lineinfo=options.lineinfo or None,
        ptxas_options="-v",
        no_cache=_has_own_cache() or None,
    )
    return bytes(Program(source, "c++", program_options).compile("cubin", logs=log).code)


def _has_own_cache() -> bool:
    """Return whether NVRTC has a cache of its own on machines with a driver; cached code has no ptxas log."""
    return tuple(int(part) for part in nvrtc_version().split(".")) >= _FIRST_WITH_CACHE


def _clean(log: str) -> str:
    """Return a log without the NUL characters that end NVRTC's strings."""
    return log.replace("\0", "").strip()


def _cubin(code: bytes, log: str, arch: str) -> Cubin:
    return Cubin(code=code, arch=arch, kernels=parse_ptxas_log(log), log=log)
