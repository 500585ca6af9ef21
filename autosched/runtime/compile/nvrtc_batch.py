"""Compile kernels as one program: a program without any work takes NVRTC 21 ms, which several kernels then share.

Their machine code is what it is for each by itself, byte by byte: no kernel sees the others.
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

MOST_TOGETHER = 8
"""Kernels of a program: more save little besides, and who needs one of them waits for all."""


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
    """Compile kernels as one program, as far as the on-disk cache does not have them.

    With line information each is a program of its own, as profilers show the file. So is, a second time, a kernel that
    spills registers (`NvrtcOptions.room`).

    Args:
        sources: The kernels; their names are different.
        arch: Architecture to compile for, e.g. "sm_90".
        options: How to compile.

    Returns:
        Of each kernel its resources, with code that may contain the other kernels.

    Raises:
        CompileError: If NVRTC is missing, does not know `arch`, or refuses a source.
        CacheError: If the cache directory cannot be written.
    """
    keys = {s: cubin_key(s.text, arch, options, s.name) for s in sources}
    found = {s: cubin for s, key in keys.items() if (cubin := cached_cubin(key, arch)) is not None}
    missing = [s for s in keys if s not in found]
    if len(missing) > 1 and not options.lineinfo:
        found |= _compiled(missing, [keys[s] for s in missing], arch, options)
    for s in missing:
        if s not in found:
            found[s] = compile_cubin(s.text, arch, options, name=s.name)
    return [found[s] for s in sources]


def _compiled(
    sources: Sequence[KernelSource], keys: Sequence[str], arch: str, options: NvrtcOptions
) -> dict[KernelSource, Cubin]:
    """Return kernels compiled as one program, and put them into the cache; none if NVRTC refuses that."""
    program = "".join(f"namespace as_{k} {{\n{s.text}\n}}\n" for k, s in enumerate(sources))
    try:
        whole = compile_program(program, arch, options, "together")
    except CompileError:
        return {}  # each by itself says which of them it is
    together = store_code(keys, whole.code)
    found = {}
    for source, key in zip(sources, keys, strict=True):
        log = log_of_kernel(whole.log, source.name)
        own = replace(whole, kernels=parse_ptxas_log(log), log=log)
        found[source] = with_fewest_spills(own, source.text, arch, options, source.name)
        store(key, found[source], together if found[source] is own else None)
    return found
