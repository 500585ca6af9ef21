"""One interface to every way of running a scheduled pipeline: GPU, C, emulator, interpreter."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol, get_args

import numpy as np

from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.codegen.cuda import grid_mapping
from autosched.errors import InputError
from autosched.lower.program import Program
from autosched.reference import interpret
from autosched.runtime.backends.cpu import CpuExecutable
from autosched.runtime.backends.cupy_driver import gpu_problem
from autosched.runtime.call.buffers import as_host_array, empty_like_caller
from autosched.runtime.call.signature import CallSignature, KernelCall, check_no_overlap
from autosched.runtime.compile.host_compiler import find_compiler, have_compiler
from autosched.settings import settings
from autosched.target import Target

Array = np.ndarray[Any, Any]
Backend = Literal["cuda", "cpu", "emulator", "interpreter"]
BACKENDS: tuple[Backend, ...] = get_args(Backend)
"""``cuda`` compiles with NVRTC and launches on a GPU; ``cpu`` compiles C; ``emulator`` runs the CUDA text on the host;
``interpreter`` computes with NumPy and ignores the schedule."""


@dataclass(frozen=True, slots=True)
class KernelInfo:
    """A kernel's launch configuration, and what the compiler gave it.

    Attributes:
        name: Name in the generated code.
        grid: Blocks in x, y, z.
        block: Threads per block in x, y, z.
        shared_bytes: Shared memory per block.
        registers: 32-bit registers per thread; None unless compiled for CUDA, as are the next two.
        stack_bytes: Local memory per thread.
        spill_bytes: Bytes of registers that a thread writes to and reads back from local memory.
    """

    name: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared_bytes: int
    registers: int | None = None
    stack_bytes: int | None = None
    spill_bytes: int | None = None


class Executable(Protocol):
    """A pipeline compiled for one backend; may be called from several threads."""

    @property
    def resources(self) -> tuple[KernelInfo, ...]:
        """The kernels in launch order."""

    def call(self, call: KernelCall) -> dict[str, Any]:
        """Run the pipeline.

        Args:
            call: The arguments, sorted.

        Returns:
            The outputs by name, in the caller's framework; those of ``call.out`` if given.

        Raises:
            InputError: If an array does not fit.
            LaunchError: If the kernels cannot be launched.
        """

    def launch(self, call: KernelCall, stream: object) -> None:
        """Queue the pipeline on a stream, without waiting for it and without making arrays.

        Args:
            call: The arguments, sorted; it has outputs.
            stream: A stream as `stream_handle` takes it, or None for the caller's current one.

        Raises:
            InputError: If an array does not fit, or the stream is none of the device's.
            LaunchError: If the kernels cannot be launched.
        """


class HostExecutable:
    """A pipeline that computes in host memory.

    Args:
        signature: What it takes and returns.
        run: Fills outputs, given checked inputs, outputs and scalars by name.
        resources: Its kernels.
    """

    def __init__(
        self,
        signature: CallSignature,
        run: Callable[[Mapping[str, Array], Mapping[str, Array], Mapping[str, Any]], None],
        resources: tuple[KernelInfo, ...] = (),
    ) -> None:
        self._signature = signature
        self._run = run
        self.resources = resources

    def call(self, call: KernelCall) -> dict[str, Any]:
        """Run the pipeline on arrays in host memory; see `Executable`."""
        signature = self._signature
        inputs = {s.name: as_host_array(call.arrays[s.name], s.name, s.dtype, s.shape) for s in signature.inputs}
        returned = call.out
        if returned is None:
            returned = {s.name: empty_like_caller(call.example, s.dtype, s.shape) for s in signature.outputs}
        outputs = {
            s.name: as_host_array(returned[s.name], s.name, s.dtype, s.shape, role="output") for s in signature.outputs
        }
        check_no_overlap(inputs, outputs)
        self._run(inputs, outputs, call.scalars)
        return returned

    def launch(self, call: KernelCall, stream: object) -> None:
        """Run the pipeline at once; see `Executable`."""
        if stream is not None:
            raise InputError(
                f"this pipeline was compiled for host memory, where it runs at once and not on a stream "
                f"({type(stream).__qualname__}): pass None as the stream, or compile it with backend='cuda'"
            )
        self.call(call)


def choose_backend(target: Target) -> Backend:
    """Return the backend to use where none is named: the GPU, else C, else with a warning the interpreter.

    Args:
        target: What the schedule was made for; a GPU is used only for schedules made for one.

    Raises:
        CompileError: If the settings name a C compiler that is not there.
    """
    if target.kind == "cuda" and not gpu_problem():
        return "cuda"
    if settings().cc is not None:
        find_compiler("c")  # a named compiler that is missing is a mistake, not a reason to go without
    if have_compiler("c"):
        return "cpu"
    warnings.warn(
        "no C compiler is found, so the pipeline runs in the NumPy interpreter, slowly and without its schedule: "
        "install gcc or clang, or set AUTOSCHED_CC",
        RuntimeWarning,
        stacklevel=4,
    )
    return "interpreter"


def as_backend(name: str) -> Backend:
    """Return the backend of that name.

    Raises:
        InputError: If there is none.
    """
    for backend in BACKENDS:
        if backend == name:
            return backend
    raise InputError(f"unknown backend {name!r}; there is {', '.join(BACKENDS)}")


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
        lowered: Returns it lowered by its schedule; not called for the interpreter, which needs no schedule.
        signature: What it takes and returns.
        target: What it was scheduled for.
        backend: What to compile for.
        fast_math: Whether CUDA may approximate; part of the key under which its code is cached.

    Raises:
        CompileError: If a compiler is missing or refuses the code.
        InputError: If the target is no GPU and the backend is ``cuda``.
    """
    if backend == "interpreter":
        return HostExecutable(signature, _Interpreted(bound).run)
    if backend == "cuda":
        from autosched.runtime.backends.cuda import CudaExecutable

        arch = target.arch  # before lowering: it refuses a target that is no GPU
        return CudaExecutable(lowered(), signature, arch, fast_math=fast_math)
    program = lowered()
    if backend == "emulator":
        from autosched.runtime.backends.emulator import EmulatedExecutable

        return HostExecutable(signature, EmulatedExecutable(program).run, launch_info(program))
    return HostExecutable(signature, CpuExecutable(program).run, launch_info(program))


def launch_info(program: Program) -> tuple[KernelInfo, ...]:
    """Return the launch configuration of every kernel."""
    return tuple(KernelInfo(k.name, grid_mapping(k.grid_loops)[0], k.block, k.shared_bytes) for k in program.kernels)


class _Interpreted:
    """The NumPy interpreter in the form of an executable."""

    def __init__(self, bound: BoundPipeline) -> None:
        self._bound = bound

    def run(self, inputs: Mapping[str, Array], outputs: Mapping[str, Array], scalars: Mapping[str, Any]) -> None:
        """Fill the outputs."""
        computed = interpret(self._bound.pipeline, inputs, {**self._bound.specialised, **scalars})
        for name, array in outputs.items():
            array[...] = computed[name]
