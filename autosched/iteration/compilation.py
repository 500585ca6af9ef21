"""Compile a time loop: each used version once, for calls with any number of steps."""

from __future__ import annotations

from collections.abc import Callable

from autosched.iteration.cuda_iteration import CudaIteration, CudaVersion
from autosched.iteration.host_iteration import HostIteration, VersionRun
from autosched.iteration.protocol import ScheduledSteps
from autosched.runtime.backends.cpu import CpuExecutable
from autosched.runtime.backends.emulator import EmulatedExecutable
from autosched.runtime.backends.executable import Backend, Executable, as_backend
from autosched.runtime.backends.factory import choose_backend, launch_info
from autosched.runtime.backends.host_executable import HostExecutable
from autosched.runtime.backends.interpreter import InterpretedExecutable
from autosched.runtime.call.compiled import CompiledPipeline
from autosched.scheduled_pipeline import ScheduledPipeline


def compile_time_loop(
    scheduled: ScheduledSteps, backend: str | None = None, *, fast_math: bool = False
) -> CompiledPipeline:
    """Compile a time loop; see `ScheduledTimeLoop.compile`.

    Args:
        scheduled: The time loop.
        backend: As for `ScheduledPipeline.compile`.
        fast_math: As for `ScheduledPipeline.compile`.

    Raises:
        CompileError: If a compiler is missing or refuses the generated code.
        InputError: If there is no such backend, or it does not fit the target.
    """
    chosen = choose_backend(scheduled.target) if backend is None else as_backend(backend)
    return CompiledPipeline(scheduled.signature, _executable(scheduled, chosen, fast_math), chosen)


def _executable(scheduled: ScheduledSteps, backend: Backend, fast_math: bool) -> Executable:
    if backend == "cuda":
        arch = scheduled.target.arch  # before lowering: raises for a target that is no GPU
        return CudaIteration(
            scheduled.signature,
            {v.steps: CudaVersion(v.scheduled.program, v.unrolled) for v in scheduled.used},
            {field: CudaVersion(program) for field, program in scheduled.copies.items()},
            scheduled.plan,
            arch,
            fast_math=fast_math,
        )
    run = _runs(backend)
    host = HostIteration(
        {v.steps: v.unrolled for v in scheduled.used},
        {v.steps: v.scheduled.signature for v in scheduled.used},
        {v.steps: run(v.scheduled) for v in scheduled.used},
        scheduled.plan,
    )
    kernels = (
        () if backend == "interpreter" else tuple(k for v in scheduled.used for k in launch_info(v.scheduled.program))
    )
    return HostExecutable(scheduled.signature, host.run, kernels)


def _runs(backend: Backend) -> Callable[[ScheduledPipeline], VersionRun]:
    """Return the compiler of a backend that computes in host memory."""
    if backend == "interpreter":
        return lambda scheduled: InterpretedExecutable(scheduled.bound).run
    if backend == "emulator":
        return lambda scheduled: EmulatedExecutable(scheduled.program).run
    return lambda scheduled: CpuExecutable(scheduled.program).run
