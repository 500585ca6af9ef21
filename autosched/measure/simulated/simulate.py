"""The simulated device: the time of a schedule from its code, without features."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.codegen.cuda import CudaKernel, print_cuda
from autosched.errors import CompileError
from autosched.lower.ir import KernelIR
from autosched.lower.program import Program, lower
from autosched.measure.simulated.count import count_kernel
from autosched.measure.simulated.device import NOISE, Device
from autosched.measure.simulated.residency import resident_blocks
from autosched.measure.simulated.timing import KernelTime, kernel_time
from autosched.measure.simulated.traffic import L2State, Traffic, kernel_bytes, traffic_of
from autosched.measure.simulated.work import KernelWork
from autosched.runtime.backends.cpu import scalar_arguments
from autosched.runtime.compile.nvrtc_pool import compile_many
from autosched.runtime.compile.ptxas_log import KernelResources
from autosched.schedule.io.serialise import to_json
from autosched.schedule.rewrites import apply_rewrites
from autosched.schedule.types import Schedule
from autosched.target import Target

MOST_COUNTED = 1 << 14
"""Most kernels whose counts a process caches, some kilobytes each."""
_COUNTED: dict[bytes, KernelWork] = {}


@dataclass(frozen=True, slots=True)
class KernelBreakdown:
    """One kernel of a simulated pipeline.

    Attributes:
        name: The kernel.
        work: Its counts.
        resources: Registers, stack and spills, from ptxas.
        resident_blocks: Blocks on a multiprocessor at once.
        traffic: Bytes moved between the levels of memory.
        time: Parts of its time, before noise.
    """

    name: str
    work: KernelWork
    resources: KernelResources
    resident_blocks: int
    traffic: Traffic
    time: KernelTime


@dataclass(frozen=True, slots=True)
class Simulated:
    """A simulated measurement.

    Attributes:
        seconds: Time of the pipeline, launched back to back.
        kernel_seconds: Time of each kernel, in launch order; their sum is ``seconds``.
        registers: Registers per thread of each kernel.
        spill_bytes: Spilled bytes per thread of each kernel.
        noise: Factor on all times.
        kernels: Breakdown of the time.
    """

    seconds: float
    kernel_seconds: tuple[float, ...]
    registers: tuple[int, ...]
    spill_bytes: tuple[int, ...]
    noise: float
    kernels: tuple[KernelBreakdown, ...]


def simulate(
    bound: BoundPipeline, schedule: Schedule, target: Target, *, seed: int = 0, program: Program | None = None,
    printed: Sequence[CudaKernel] | None = None, resources: Sequence[KernelResources] | None = None,
) -> Simulated:  # fmt: skip
    """Return the simulated time of a schedule on a GPU, which this machine need not have.

    NVRTC compiles the kernels for the resources from ptxas, through the on-disk cache. The model and the sources of its
    constants are in docs/explanation/simulated-device.md. Each process counts kernels of equal text once.

    Args:
        bound: The pipeline with its shapes.
        schedule: A legal schedule of it.
        target: The GPU.
        seed: Seed of the noise, together with the schedule and the target's name.
        program: The lowered schedule, if available.
        printed: The CUDA C of its kernels, if available.
        resources: The resources of its kernels, if they have been compiled.

    Returns:
        Times with their breakdown.

    Raises:
        InputError: The target is no GPU.
        CompileError: NVRTC is missing, or does not support the target's architecture.
        LaunchError: A kernel does not fit the target.
    """
    bound = apply_rewrites(bound, schedule)
    device = Device.of(target)
    program = lower(bound, schedule) if program is None else program
    printed = [print_cuda(k) for k in program.kernels] if printed is None else printed
    resources = compiled_resources(printed, target.arch) if resources is None else resources
    scalars = default_scalars(program)
    works = [count_once(k, p, scalars) for k, p in zip(program.kernels, printed, strict=True)]
    scratch = frozenset(slot.buffer.name for slot in program.workspace)
    l2 = L2State(device.l2_capacity, scratch, run_bytes=sum(map(kernel_bytes, works)))
    kernels = []
    for work, resource, ir in zip(works, resources, program.kernels, strict=True):
        kernels.append(_simulated_kernel(work, resource, device, l2, ir.launches))
        l2.advance(work)
    noise = noise_of(bound, schedule, target, seed)
    seconds = tuple(k.time.seconds * noise for k in kernels)
    return Simulated(
        seconds=sum(seconds), kernel_seconds=seconds, registers=tuple(r.registers for r in resources),
        spill_bytes=tuple(r.spill_store_bytes + r.spill_load_bytes for r in resources), noise=noise,
        kernels=tuple(kernels),
    )  # fmt: skip


def _simulated_kernel(
    work: KernelWork, resources: KernelResources, device: Device, l2: L2State, launches: int
) -> KernelBreakdown:  # fmt: skip
    threads, shared = work.threads * work.tiles, work.shared_bytes * work.tiles
    resident = resident_blocks(device.target, work.name, threads, resources.registers, shared)
    traffic = traffic_of(work, resources, resident * work.tiles, device, l2)
    time = kernel_time(work, resources, resident * work.tiles, traffic, device).repeated(launches)
    return KernelBreakdown(work.name, work, resources, resident, traffic, time)


def compiled_resources(printed: Sequence[CudaKernel], arch: str) -> list[KernelResources]:
    """Return the resources of each kernel from ptxas.

    Raises:
        CompileError: NVRTC is missing, or refuses the architecture or a kernel.
    """
    resources = []
    compiled = compile_many([k.source for k in printed], arch, names=[k.name for k in printed], processes=1)
    for k, cubin in zip(printed, compiled, strict=True):
        if isinstance(cubin, CompileError):
            raise cubin
        resources.append(cubin.kernels[k.name])
    return resources


def default_scalars(program: Program) -> dict[str, Any]:
    """Return run-time parameters by their names in kernels: their defaults, else 1."""
    values = {p.name: 1 if p.default is None else p.default for p in program.bound.scalars}
    return {name: value[0] for name, value in scalar_arguments(program, values).items()}


def count_once(kernel: KernelIR, printed: CudaKernel, scalars: Mapping[str, Any]) -> KernelWork:
    """Return a kernel's counts, cached by text and buffer sizes.

    The cache is local to the process: counting takes less time than writing a file.
    """
    named = sorted((name, float(value)) for name, value in scalars.items())
    key = hashlib.sha256(repr((printed.body, kernel.grid_loops, kernel.step_loops, named)).encode()).digest()
    work = _COUNTED.get(key)
    if work is None:
        if len(_COUNTED) >= MOST_COUNTED:
            _COUNTED.clear()
        work = _COUNTED[key] = count_kernel(kernel, scalars)
    return work


def counted_kernels() -> int:
    """Return the number of kernels in the cache of counts."""
    return len(_COUNTED)


def noise_of(bound: BoundPipeline, schedule: Schedule, target: Target, seed: int) -> float:
    """Return the factor on all times of a measurement: log-normal, the same for equal schedules, targets and seeds."""
    text = f"{to_json(bound, schedule)}\n{target.name}\n{seed}"
    digest = hashlib.sha256(text.encode()).digest()
    rng = np.random.default_rng(int.from_bytes(digest[:8], "big"))
    return float(np.exp(NOISE * rng.standard_normal()))
