"""Choose a backend and compile a scheduled pipeline for it.

The modules of a backend are imported when a pipeline is compiled for it: most processes use one of them.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable

from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.codegen.cuda import launch_grid
from autosched.lower.program import Program
from autosched.runtime.backends.cpu import CpuExecutable
from autosched.runtime.backends.cupy_driver import gpu_problem
from autosched.runtime.backends.executable import Backend, Executable, as_backend
from autosched.runtime.backends.host_executable import HostExecutable
from autosched.runtime.backends.kernel_info import KernelInfo
from autosched.runtime.call.compiled import CompiledPipeline
from autosched.runtime.call.signature import CallSignature
from autosched.runtime.compile.host_compiler import find_compiler, have_compiler
from autosched.settings import settings
from autosched.target import Target


def compile_pipeline(
    bound: BoundPipeline,
    lowered: Callable[[], Program],
    signature: CallSignature,
    target: Target,
    backend: str | None = None,
    *,
    fast_math: bool = False,
) -> CompiledPipeline:
    """Compile a scheduled pipeline; see `autosched.ScheduledPipeline.compile`.

    Args:
        bound: As for `make_executable`, as are the arguments that follow.
        lowered: The lowering.
        signature: Inputs and outputs.
        target: The schedule's target.
        backend: Name of the backend; chosen for the target and this machine when left out.
        fast_math: Approximate arithmetic in CUDA.

    Raises:
        CompileError: If a compiler is missing or refuses the generated code.
        InputError: If there is no such backend, or it does not fit the target.
    """
    chosen = choose_backend(target) if backend is None else as_backend(backend)
    executable = make_executable(bound, lowered, signature, target, chosen, fast_math=fast_math)
    return CompiledPipeline(signature, executable, chosen)


def choose_backend(target: Target) -> Backend:
    """Return the default backend: the GPU, else C, else, with a warning, the interpreter.

    Args:
        target: The schedule's target; a GPU is used only for schedules for a GPU.

    Raises:
        CompileError: If the C compiler of the settings does not exist.
    """
    if target.kind == "cuda" and not gpu_problem():
        return "cuda"
    if settings().cc is not None:
        find_compiler("c")  # a missing compiler of the settings is an error, no reason for the interpreter
    if have_compiler("c"):
        return "cpu"
    warnings.warn(
        "no C compiler was found, so the pipeline runs in the NumPy interpreter, slowly and without its schedule: "
        "install gcc or clang, or set AUTOSCHED_CC",
        RuntimeWarning,
        stacklevel=4,
    )
    return "interpreter"


def make_executable(
    bound: BoundPipeline,
    lowered: Callable[[], Program],
    signature: CallSignature,
    target: Target,
    backend: Backend,
    *,
    fast_math: bool = False,
) -> Executable:
    """Compile a scheduled pipeline for a backend.

    Args:
        bound: The pipeline.
        lowered: Returns the lowered pipeline; not called for the interpreter.
        signature: Inputs, outputs and parameters.
        target: The schedule's target.
        backend: The backend to compile for.
        fast_math: Whether CUDA may approximate; part of the cache key of its code.

    Raises:
        CompileError: If a compiler is missing or refuses the code.
        InputError: If the target is no GPU and the backend is ``cuda``.
    """
    if backend == "interpreter":
        from autosched.runtime.backends.interpreter import InterpretedExecutable

        return HostExecutable(signature, InterpretedExecutable(bound).run)
    if backend == "cuda":
        from autosched.runtime.backends.cuda import CudaExecutable

        arch = target.arch  # before lowering: raises for a target that is no GPU
        return CudaExecutable(lowered(), signature, arch, fast_math=fast_math)
    program = lowered()
    if backend == "emulator":
        from autosched.runtime.backends.emulator import EmulatedExecutable

        return HostExecutable(signature, EmulatedExecutable(program).run, launch_info(program))
    code = CpuExecutable(program)
    return HostExecutable(signature, code.run, launch_info(program), code)


def launch_info(program: Program) -> tuple[KernelInfo, ...]:
    """Return the launch configuration of every kernel."""
    return tuple(
        KernelInfo(k.name, launch_grid(k), k.launch_block, k.shared_bytes * k.warp_tiles) for k in program.kernels
    )
