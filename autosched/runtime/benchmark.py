"""Time of a compiled pipeline on cold inputs."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from autosched.errors import InputError
from autosched.host import read_host
from autosched.runtime.backends.executable import Backend, Executable
from autosched.runtime.call.buffers import as_device_array, as_host_array
from autosched.runtime.call.frameworks import device_of, on_gpu
from autosched.runtime.call.launch_plan import CompiledLaunches
from autosched.runtime.call.signature import ArraySpec, CallSignature, KernelCall
from autosched.runtime.timing.durations import format_time
from autosched.runtime.timing.gpu_arrays import GpuArrays
from autosched.runtime.timing.gpu_device import GpuDevice
from autosched.runtime.timing.gpu_timer import GpuTimer
from autosched.runtime.timing.host_arrays import HostArrays
from autosched.runtime.timing.statistics import StopRule, collect, median_and_spread
from autosched.runtime.timing.synthetic_inputs import synthetic_inputs
from autosched.runtime.timing.timed_launches import copy_arguments


@dataclass(frozen=True, slots=True)
class Benchmark:
    """Times of a compiled pipeline, made by `CompiledPipeline.benchmark`.

    Attributes:
        pipeline: Name of the pipeline.
        backend: Its backend.
        seconds: Median time of a run.
        spread: Interquartile range as a fraction of the median.
        samples: Times of single runs; on a GPU each is an average over a few runs.
        bytes_moved: Bytes of all inputs and outputs, a lower bound of the memory traffic.
        kernel_seconds: Time of each kernel, by name in launch order; empty except on a GPU.
    """

    pipeline: str
    backend: Backend
    seconds: float
    spread: float
    samples: tuple[float, ...] = field(repr=False)
    bytes_moved: int
    kernel_seconds: Mapping[str, float] = field(default_factory=dict)

    @property
    def gb_per_s(self) -> float:
        """Bandwidth of inputs and outputs, in 1e9 bytes per second."""
        return self.bytes_moved / self.seconds / 1e9 if self.seconds > 0 else math.inf

    def __str__(self) -> str:
        lines = [
            f"{self.pipeline} on {self.backend}: {format_time(self.seconds)}, median of {len(self.samples)} "
            f"(spread {self.spread:.1%}); {self.bytes_moved / 1e6:.4g} MB of arrays, {self.gb_per_s:.3g} GB/s"
        ]
        width = max(map(len, self.kernel_seconds), default=0)
        lines += [f"  {name:<{width}}  {format_time(seconds):>8}" for name, seconds in self.kernel_seconds.items()]
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"<Benchmark {str(self).splitlines()[0]}>"

    def __rich_repr__(self) -> Iterator[tuple[str, object]]:
        yield "pipeline", self.pipeline
        yield "backend", self.backend
        yield "time", format_time(self.seconds)
        yield "spread", f"{self.spread:.1%}"
        yield "samples", len(self.samples)
        yield "gb_per_s", round(self.gb_per_s, 3)
        if self.kernel_seconds:
            yield "kernels", {name: format_time(seconds) for name, seconds in self.kernel_seconds.items()}


def benchmark(
    executable: Executable,
    signature: CallSignature,
    backend: Backend,
    inputs: Mapping[str, Any] | None,
    arguments: Mapping[str, Any],
    seconds: float,
) -> Benchmark:
    """Time an executable; see `CompiledPipeline.benchmark`.

    Args:
        executable: The compiled pipeline.
        signature: Inputs, outputs and parameters.
        backend: Its backend.
        inputs: Arguments in a dict.
        arguments: Arguments by keyword.
        seconds: Time budget of the measurement.

    Raises:
        InputError: If an argument does not fit, or the time is not positive.
        LaunchError: If there is no GPU, or too little memory.
    """
    if not 0 < seconds < math.inf:
        raise InputError(f"benchmark for {seconds!r} seconds: give a positive number")
    rule = StopRule(precision=0.005, most_samples=1000, least_seconds=min(0.1, seconds), most_seconds=seconds)
    rng = np.random.default_rng(0)
    call = signature.sort(inputs, arguments, None, make=lambda spec: synthetic_inputs(spec, rng))
    arrays = {s.name: _on_host(call.arrays[s.name], s) for s in signature.inputs}
    kernel_seconds: Mapping[str, float] = {}
    if backend == "cuda":
        samples, kernel_seconds = _time_on_current_gpu(executable, signature, call, arrays, rule)
    else:
        samples = time_on_host(executable, signature, arrays, call.scalars, rule)
    middle, spread = median_and_spread(samples)
    moved = sum(math.prod(s.shape) * s.dtype.bytes_ for s in (*signature.inputs, *signature.outputs))
    return Benchmark(signature.pipeline, backend, middle, spread, tuple(samples), moved, kernel_seconds)


def time_on_host(
    executable: Executable,
    signature: CallSignature,
    inputs: Mapping[str, NDArray[Any]],
    scalars: Mapping[str, np.generic],
    rule: StopRule,
    clock: Callable[[], float] = time.perf_counter,
) -> list[float]:
    """Return the times of calls in seconds, in rotation over copies of the arrays.

    Args:
        executable: The compiled pipeline.
        signature: Inputs, outputs and parameters.
        inputs: Contents of every input.
        scalars: Value of each run-time parameter.
        rule: Stopping rule.
        clock: Clock, in seconds.

    Raises:
        LaunchError: If there is too little memory.
    """
    arrays = HostArrays(inputs, signature.outputs, read_host())
    calls = [
        KernelCall(
            {s.name: arrays.array(copy, s.name) for s in signature.inputs},
            {s.name: arrays.array(copy, s.name) for s in signature.outputs},
            dict(scalars),
        )
        for copy in range(arrays.rotation.copies)
    ]
    executable.launch(calls[0], None)  # loads the code, starts the threads
    turn = 0

    def sample() -> float:
        nonlocal turn
        if turn == 0:
            arrays.flush()
        call, turn = calls[turn], (turn + 1) % len(calls)
        started = clock()
        executable.launch(call, None)
        return clock() - started

    return collect(sample, rule, clock)


def time_on_gpu(
    device: GpuDevice,
    compiled: CompiledLaunches,
    signature: CallSignature,
    inputs: Mapping[str, NDArray[Any]],
    scalars: Mapping[str, Any],
    rule: StopRule,
) -> tuple[list[float], dict[str, float]]:
    """Return times of runs on copies of the arrays, and the time of each kernel in a median run, in seconds.

    Args:
        device: The GPU.
        compiled: The launches.
        signature: Inputs, outputs and parameters.
        inputs: Contents of every input.
        scalars: Value of each run-time parameter.
        rule: Stopping rule.

    Raises:
        LaunchError: If the device refuses, or there is too little memory.
        DeviceLostError: If a kernel failed.
    """
    arrays = GpuArrays(device, inputs, signature.outputs)
    launches = copy_arguments(device, arrays, compiled, scalars)
    timer = GpuTimer(device, arrays, rule)
    samples = timer.samples(launches)
    median, _ = median_and_spread(samples)
    seconds: dict[str, float] = {}
    for step, taken in zip(compiled.steps, timer.kernel_seconds(launches, median), strict=True):
        seconds[step.function] = seconds.get(step.function, 0.0) + taken  # a kernel may be launched more than once
    return samples, seconds


def _time_on_current_gpu(
    executable: Executable,
    signature: CallSignature,
    call: KernelCall,
    inputs: Mapping[str, NDArray[Any]],
    rule: StopRule,
) -> tuple[list[float], dict[str, float]]:
    """Time a pipeline on the GPU of the caller's arrays, else on the current one."""
    from autosched.runtime.backends.cuda import CudaCalls
    from autosched.runtime.backends.cupy_driver import gpu_driver
    from autosched.runtime.timing.cupy_device import CupyDevice

    assert isinstance(executable, CudaCalls)
    driver = gpu_driver()
    lying = (device_of(value) for value in call.arrays.values())
    number = next((d.index for d in lying if d is not None and d.kind == "cuda"), driver.current_device())
    with driver.on_device(number):
        launches = executable.launches_of(call.scalars)
        return time_on_gpu(CupyDevice(number), launches, signature, inputs, call.scalars, rule)


def _on_host(value: Any, spec: ArraySpec) -> NDArray[Any]:
    """Return the contents of an input as a NumPy array."""
    if not on_gpu(value):
        return as_host_array(value, spec.name, spec.dtype, spec.shape)
    import cupy

    array: NDArray[Any] = cupy.asnumpy(as_device_array(value, spec.name, spec.dtype, spec.shape)).view(spec.dtype.numpy)
    return array
