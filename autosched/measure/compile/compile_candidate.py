"""Emission and compilation of CUDA C candidates; each kernel is printed once, and each function compiled once.

Functions have canonical names (`autosched.codegen.identical_kernels`), so equal kernels of one candidate, of all
candidates and of other pipelines are one function, also in the caches that processes share.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from autosched.analysis.pipeline_rewrites import PipelineRewrites
from autosched.codegen.cuda import CudaKernel
from autosched.codegen.identical_kernels import print_with_canonical_names
from autosched.lower.ir import KernelIR
from autosched.lower.program import Program, ProgramLayout, lower_kernel_of, outline
from autosched.measure.compile.content_keys import digest, kernel_keys
from autosched.measure.compile.kernel_names import own_kernel_names
from autosched.measure.compile.single_flight import once_in_batches
from autosched.measure.compile.text_cache import cached_text
from autosched.measure.job import Job, KernelRecord
from autosched.measure.problem import Problem
from autosched.runtime.compile.nvrtc import Cubin, NvrtcOptions, cubin_key
from autosched.runtime.compile.nvrtc_batch import MAX_BATCH, KernelSource, compile_batch
from autosched.schedule.kernel import vector_access as rules
from autosched.schedule.legality.validate import validate
from autosched.schedule.types import Kernel

_MOST_PRINTED = 4096
_PRINTED: dict[tuple[str, str, bool], tuple[CudaKernel, CudaKernel]] = {}
_MOST_COMPILED = 256
_COMPILED: dict[str, Cubin] = {}
"""Machine code of recent kernels by `autosched.runtime.compile.nvrtc.cubin_key`."""
_LOWERED: dict[tuple[Problem, PipelineRewrites], dict[tuple[Kernel, str], KernelIR]] = {}
"""Lowered kernels of the last problem, whose consecutive candidates share many."""


@dataclass(frozen=True, slots=True)
class EmittedProgram:
    """A candidate as CUDA C.

    Attributes:
        problem: Its problem.
        outline: Its program without the kernels.
        keys: Key of each kernel, from `autosched.measure.compile.content_keys.kernel_keys`.
        kernels: The printed kernels.
        functions: The function of each kernel, with canonical names; equal kernels have one.
    """

    problem: Problem
    outline: ProgramLayout
    keys: tuple[str, ...]
    kernels: tuple[CudaKernel, ...]
    functions: tuple[CudaKernel, ...]

    @property
    def distinct_kernels(self) -> tuple[CudaKernel, ...]:
        """The first kernel of each function, with its own names."""
        first: dict[str, CudaKernel] = {}
        for function, kernel in zip(self.functions, self.kernels, strict=True):
            first.setdefault(function.name, kernel)
        return tuple(first.values())

    @property
    def names(self) -> dict[str, str]:
        """The name of the first kernel of each function, by name of the function."""
        names: dict[str, str] = {}
        for function, kernel in zip(self.functions, self.kernels, strict=True):
            names.setdefault(function.name, kernel.name)
        return names

    def compiled(self, arch: str, options: NvrtcOptions, *, wait: bool = True) -> list[Cubin]:
        """Return the compiled function of each kernel; errors name kernels. See `compile_kernels`."""
        with own_kernel_names(self.names):
            return compile_kernels(self.functions, arch, options, wait=wait)

    def records(self, registers: Sequence[int | None], spill_bytes: Sequence[int | None]) -> tuple[KernelRecord, ...]:
        """Return the record of each kernel, from its registers and spilled bytes per thread."""
        return tuple(
            KernelRecord(key, digest(kernel.source), used, spilled)
            for key, kernel, used, spilled in zip(self.keys, self.kernels, registers, spill_bytes, strict=True)
        )

    def program(self) -> Program:
        """Return the program with lowered kernels, which schedules of the last problem share."""
        kernels = (_lowered(self.problem, self.outline, number) for number in range(len(self.keys)))
        return Program(**vars(self.outline), kernels=tuple(kernels))


def emit(job: Job) -> EmittedProgram:
    """Return a candidate as CUDA C.

    Raises:
        ScheduleError: If its schedule is not legal.
        CompileError: If a kernel violates a limit of the code generator.
    """
    bound = job.problem.bind()
    schedule = job.read_schedule()
    validate(bound, schedule, job.target)
    layout = outline(bound, schedule)
    keys = tuple(kernel_keys(bound, job.schedule, job.target))

    lowered = (partial(_lowered, job.problem, layout, number) for number in range(len(keys)))
    printed = [print_cached(*k) for k in zip(keys, layout.labels, lowered, strict=True)]
    kernels, functions = tuple(k for k, _ in printed), tuple(f for _, f in printed)
    return EmittedProgram(job.problem, layout, keys, kernels, functions)


def _lowered(problem: Problem, of: ProgramLayout, number: int) -> KernelIR:
    """Return a lowered kernel, cached for all schedules of a problem with the same rewrites."""
    if any(cache != problem for cache, _ in _LOWERED):
        _LOWERED.clear()
    cache = _LOWERED.setdefault((problem, of.schedule.rewrites), {})
    key = of.schedule.kernels[number], of.labels[number]
    lowered_kernel = cache.get(key)
    if lowered_kernel is None:
        lowered_kernel = cache[key] = lower_kernel_of(of, number)
    return lowered_kernel


def print_cached(key: str, label: str, lowered: Callable[[], KernelIR]) -> tuple[CudaKernel, CudaKernel]:
    """Return the CUDA C of a kernel, and its function with canonical names, from a cache that schedules share.

    Args:
        key: Its key; see `autosched.measure.compile.content_keys.kernel_keys`.
        label: Its name.
        lowered: Returns the lowered kernel.
    """
    name = key, label, rules.VECTORS
    printed = _PRINTED.get(name)
    if printed is None:
        if len(_PRINTED) >= _MOST_PRINTED:
            _PRINTED.clear()
        printed = _PRINTED[name] = cached_text(f"printed {name}", lambda: print_with_canonical_names(lowered()))
    return printed


def compile_kernels(
    kernels: Sequence[CudaKernel], arch: str, options: NvrtcOptions, *, wait: bool = True
) -> list[Cubin]:
    """Return the compiled kernels; each text is compiled once, across all processes.

    Args:
        kernels: The printed kernels.
        arch: Architecture, such as ``sm_90``.
        options: Options of NVRTC.
        wait: Whether to wait for kernels that another process is compiling.

    Raises:
        MadeElsewhere: Without waiting, if another process is compiling a kernel; the rest is compiled.
        CompileError: If NVRTC is missing or rejects a kernel.
        CacheError: If the cache cannot be written.
    """
    keys = [cubin_key(k.source, arch, options, k.name) for k in kernels]
    fresh = {key: KernelSource(k.source, k.name) for key, k in zip(keys, kernels, strict=True) if key not in _COMPILED}
    made = once_in_batches(
        list(fresh),
        lambda key: key,
        lambda batch: compile_batch([fresh[key] for key in batch], arch, options),
        at_once=1 if options.lineinfo else MAX_BATCH,
        wait=wait,
    )
    compiled = {key: _COMPILED[key] for key in keys if key not in fresh} | dict(zip(fresh, made, strict=True))
    if len(_COMPILED) + len(fresh) > _MOST_COMPILED:
        _COMPILED.clear()
    _COMPILED.update(compiled)
    return [compiled[key] for key in keys]
