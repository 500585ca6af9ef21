"""GPUs as measurement devices."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import lru_cache

from autosched.errors import InputError, LaunchError
from autosched.measure.backend import Backend, Outputs
from autosched.measure.compile.codegen_version import generator_version
from autosched.measure.compile.compile_candidate import emit
from autosched.measure.compile.kernel_names import own_kernel_names
from autosched.measure.job import Job, Prepared, Timing
from autosched.measure.problem import Problem
from autosched.runtime.backends.cuda import launch_steps
from autosched.runtime.call.launch_plan import CompiledLaunches
from autosched.runtime.call.signature import output_specs
from autosched.runtime.compile.nvrtc import NvrtcOptions, check_compiler, nvrtc_version
from autosched.runtime.timing.cupy_device import CupyDevice
from autosched.runtime.timing.gpu_arrays import GpuArrays
from autosched.runtime.timing.gpu_device import GpuDevice
from autosched.runtime.timing.gpu_timer import GpuTimer
from autosched.runtime.timing.interleaved import Rounds, RoundsRule, time_interleaved
from autosched.runtime.timing.statistics import StopRule, median_and_spread
from autosched.runtime.timing.timed_launches import Launches, copy_arguments
from autosched.target import Target


@dataclass(frozen=True, slots=True)
class CudaBackend:
    """GPUs of this machine, through CUDA C; see `detect`.

    Attributes:
        device: Name of the GPU in labels.
        numbers: Numbers of the GPUs, all of one kind; each has a separate measuring process.
        rule: Stopping rule of timing a candidate.
        fast_math: Whether divisions and functions are approximate, which is part of the labels' source.
    """

    device: str
    numbers: tuple[int, ...] = (0,)
    rule: StopRule = field(default_factory=StopRule)
    fast_math: bool = False

    @classmethod
    def detect(cls, number: int = 0, *, rule: StopRule | None = None, fast_math: bool = False) -> CudaBackend:
        """Return the backend of an installed GPU.

        Raises:
            InputError: If there is no GPU of that number.
        """
        return cls(Target.detect(number).name, (number,), rule or StopRule(), fast_math)

    @property
    def source(self) -> str:
        """Source of its labels."""
        return f"measured:{self.device}" + (" fast-math" if self.fast_math else "")

    @property
    def generator(self) -> str:
        """Version of the code generator."""
        return generator_version("cuda")

    @property
    def same_bits(self) -> bool:
        """False: contraction of products and sums depends on the schedule."""
        return False

    @property
    def needs_quiet(self) -> bool:
        """False: a round is queued as a whole before it starts, so compilers do not slow the GPU."""
        return False

    @property
    def environment(self) -> Mapping[str, str]:
        """Empty."""
        return {}

    def device_backends(self) -> tuple[Backend, ...]:
        """Return a backend for each GPU."""
        return tuple(replace(self, numbers=(number,)) for number in self.numbers)

    def check_machine(self) -> None:
        """Check that the GPUs are of the labels' kind, and that NVRTC compiles for them."""
        for number in set(self.numbers):
            installed = Target.detect(number)
            if installed.name != self.device:
                raise InputError(
                    f"GPU {number} of this machine is {installed.name!r}, and the backend labels times of "
                    f"{self.device!r}: use a backend for each kind of GPU, CudaBackend.detect({number})"
                )
            check_compiler(installed.arch)

    def prepare(self, job: Job, *, wait: bool = True) -> Prepared:
        """Compile a candidate; equal kernels are compiled once. See `Backend.prepare`."""
        emitted = emit(job)
        kernels = emitted.functions
        # Line information would double the size of the code, and candidates are not profiled.
        options = NvrtcOptions(fast_math=self.fast_math, lineinfo=False)
        cubins = emitted.compiled(job.target.arch, options, wait=wait)
        resources = [cubin.kernels[kernel.name] for kernel, cubin in zip(kernels, cubins, strict=True)]
        records = emitted.records([r.registers for r in resources], [r.spill_bytes for r in resources])
        code = {kernel.name: cubin.code for kernel, cubin in zip(kernels, cubins, strict=True)}
        outline = emitted.outline
        payload = CompiledLaunches(code, tuple(launch_steps(outline, kernels)), outline.workspace_bytes, emitted.names)
        return Prepared(job, records, f"NVRTC {nvrtc_version()}", payload)

    def outputs(self, prepared: Prepared) -> Outputs | None:
        """Run a candidate once and return its outputs; see `Backend.outputs`."""
        return run_once(_device(self.numbers[0]), prepared)

    def time(self, prepared: Prepared) -> Timing:
        """Time a candidate on cold inputs; see `Backend.time`."""
        return time_launches(_device(self.numbers[0]), prepared, self.rule)

    def time_interleaved(self, prepared: Sequence[Prepared], rule: RoundsRule) -> Rounds:
        """Time candidates interleaved; see `Backend.time_interleaved`."""
        return time_launches_interleaved(_device(self.numbers[0]), prepared, rule)


def run_once(device: GpuDevice, prepared: Prepared) -> Outputs:
    """Run a candidate once on a device and return its outputs.

    Raises:
        LaunchError: If the device refuses.
        DeviceLostError: If a kernel failed.
    """
    arrays = _arrays(device, prepared.job.problem, prepared.job.seed)
    with own_kernel_names(prepared.payload.names), _lost_or_refused(device):
        launches = _launches(device, arrays, prepared)
        arrays.poison(prepared.payload.workspace_bytes)
        GpuTimer(device, arrays, StopRule()).run(launches[0])
    return arrays.outputs()


def time_launches(device: GpuDevice, prepared: Prepared, rule: StopRule) -> Timing:
    """Time a candidate on a device.

    Raises:
        LaunchError: If the device refuses.
        DeviceLostError: If a kernel failed.
    """
    arrays = _arrays(device, prepared.job.problem, prepared.job.seed)
    with own_kernel_names(prepared.payload.names), _lost_or_refused(device):
        launches = _launches(device, arrays, prepared)
        timer = GpuTimer(device, arrays, rule)
        samples = timer.samples(launches)
        seconds, spread = median_and_spread(samples)
        kernel_seconds = timer.kernel_seconds(launches, seconds)
    return Timing(
        seconds,
        spread,
        kernel_seconds,
        tuple(k.registers or 0 for k in prepared.kernels),
        tuple(k.spill_bytes or 0 for k in prepared.kernels),
        len(samples),
        {"copies": len(launches), **device.conditions()},
    )


def time_launches_interleaved(
    device: GpuDevice, prepared: Sequence[Prepared], rule: RoundsRule, clock: Callable[[], float] = time.perf_counter
) -> Rounds:
    """Time candidates of one problem interleaved on a device.

    Raises:
        LaunchError: If the device refuses.
        DeviceLostError: If a kernel failed.
    """
    arrays = _arrays(device, prepared[0].job.problem, prepared[0].job.seed)
    names = {function: name for p in prepared for function, name in p.payload.names.items()}
    with own_kernel_names(names), _lost_or_refused(device):
        arrays.workspace(max(p.payload.workspace_bytes for p in prepared))  # once: its address must not change
        timer = GpuTimer(device, arrays, StopRule())
        return time_interleaved([timer.sampler(_launches(device, arrays, p)) for p in prepared], rule, clock)


def _launches(device: GpuDevice, arrays: GpuArrays, prepared: Prepared) -> list[Launches]:
    """Return the launches of a candidate for each copy of its arrays."""
    return copy_arguments(device, arrays, prepared.payload, prepared.job.problem.opened().scalars)


@contextmanager
def _lost_or_refused(device: GpuDevice) -> Iterator[None]:
    """Distinguish a refused launch from a lost device: synchronisation fails on the latter."""
    try:
        yield
    except LaunchError:
        device.synchronise()
        raise


@lru_cache(maxsize=1)
def _arrays(device: GpuDevice, problem: Problem, seed: int) -> GpuArrays:
    opened = problem.opened()
    return GpuArrays(device, opened.make_inputs(seed), output_specs(opened.bound))


@lru_cache(maxsize=8)
def _device(number: int) -> GpuDevice:
    return CupyDevice(number)
