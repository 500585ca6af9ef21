"""Compile kernels as one program, which shares the constant cost of an NVRTC program.

The machine code of each kernel is byte-identical to that of a program of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from autosched.errors import CompileError
from autosched.runtime.compile.nvrtc import (
    Cubin,
    NvrtcOptions,
    cached_cubin,
    compile_cubin,
    compile_program,
    cubin_key,
    store,
    store_code,
    with_fewest_spills,
)
from autosched.runtime.compile.ptxas_log import log_of_kernel, parse_ptxas_log

MAX_BATCH = 8
"""Most kernels of a program: more save little, and a process that needs one kernel waits for all."""


@dataclass(frozen=True, slots=True)
class KernelSource:
    """CUDA C++17 of one kernel, with C linkage, that includes nothing.

    Attributes:
        text: The source.
        name: Name of the kernel.
    """

    text: str
    name: str


def compile_batch(sources: Sequence[KernelSource], arch: str, options: NvrtcOptions) -> list[Cubin]:
    """Compile the kernels that are not in the on-disk cache as one program.

    With line information each kernel is a program of its own, since profilers show its file. A kernel that spills
    registers is compiled again in a program of its own (`NvrtcOptions.relax_launch_bounds`).

    Args:
        sources: The kernels, with different names.
        arch: Architecture to compile for, e.g. "sm_90".
        options: Compiler options.

    Returns:
        The cubin of each kernel; its code may contain the other kernels too.

    Raises:
        CompileError: If NVRTC is missing, does not support `arch`, or refuses a source.
        CacheError: If the cache directory cannot be written.
    """
    keys = {s: cubin_key(s.text, arch, options, s.name) for s in sources}
    cubins = {s: cubin for s, key in keys.items() if (cubin := cached_cubin(key, arch)) is not None}
    missing = [s for s in keys if s not in cubins]
    if len(missing) > 1 and not options.lineinfo:
        cubins |= _compiled(missing, [keys[s] for s in missing], arch, options)
    for s in missing:
        if s not in cubins:
            cubins[s] = compile_cubin(s.text, arch, options, name=s.name)
    return [cubins[s] for s in sources]


def _compiled(
    sources: Sequence[KernelSource], keys: Sequence[str], arch: str, options: NvrtcOptions
) -> dict[KernelSource, Cubin]:
    """Return kernels compiled as one program, which are then cached; none if NVRTC rejects the program."""
    program = "".join(f"namespace as_{k} {{\n{s.text}\n}}\n" for k, s in enumerate(sources))
    try:
        whole = compile_program(program, arch, options, "together")
    except CompileError:
        return {}  # compiling each by itself finds the rejected kernel
    together = store_code(keys, whole.code)
    cubins = {}
    for source, key in zip(sources, keys, strict=True):
        log = log_of_kernel(whole.log, source.name)
        cubin = replace(whole, kernels=parse_ptxas_log(log), log=log)
        cubins[source] = with_fewest_spills(cubin, source.text, arch, options, source.name)
        store(key, cubins[source], together if cubins[source] is cubin else None)
    return cubins
