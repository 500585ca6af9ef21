"""Compile a lowered pipeline with NVRTC and launch it on the GPU of the caller's arrays."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

from autosched.codegen.cuda import CudaKernel, KernelParam
from autosched.codegen.identical_kernels import distinct_kernels, share_cuda_kernels
from autosched.errors import CompileError
from autosched.lang.dtypes import float32
from autosched.lower.program import Program, ProgramLayout
from autosched.runtime.backends.cupy_driver import gpu_driver
from autosched.runtime.backends.gpu_driver import Stream
from autosched.runtime.backends.kernel_info import KernelInfo
from autosched.runtime.call.buffers import (
    as_device_array,
    device_dtype,
    empty_cupy_array,
    empty_like_caller,
    like_caller,
)
from autosched.runtime.call.call_cache import Form, ValidatedCall, ValidatedCalls, forms_of
from autosched.runtime.call.caller_context import CallerContext, context_of
from autosched.runtime.call.cuda_streams import stream_handle
from autosched.runtime.call.frameworks import device_of, is_torch, on_gpu
from autosched.runtime.call.launch_plan import (
    Argument,
    BufferArgument,
    CompiledLaunches,
    LaunchScalar,
    LaunchStep,
    StepArgument,
    WorkspaceArgument,
)
from autosched.runtime.call.launcher import LaunchSequence
from autosched.runtime.call.signature import ArraySpec, CallSignature, KernelCall, check_no_overlap
from autosched.runtime.compile.nvrtc import Cubin, NvrtcOptions
from autosched.runtime.compile.nvrtc_pool import compile_many

_ONE_PROCESS_UP_TO = 16
"""Most kernels that are compiled in this process: loading the compiler in another takes longer."""


class CudaCalls(ABC):
    """Calls on the GPU of the caller's arrays; a subclass gives the launches of a call.

    Args:
        signature: Inputs, outputs and parameters.
    """

    def __init__(self, signature: CallSignature) -> None:
        self._signature = signature
        self._validated = ValidatedCalls()

    @property
    @abstractmethod
    def resources(self) -> tuple[KernelInfo, ...]:
        """The kernels with the registers and local memory that ptxas gave them."""

    @abstractmethod
    def launches_of(self, scalars: Mapping[str, Any]) -> CompiledLaunches:
        """Return code and launches of a call, for arrays with the alignment of whole allocations.

        Args:
            scalars: Value of each scalar of the call.
        """

    @abstractmethod
    def _launches(self, pointers: Mapping[str, int], scalars: Mapping[str, Any]) -> LaunchSequence:
        """Return the launches of a call, for arrays at some addresses."""

    def call(self, call: KernelCall) -> dict[str, Any]:
        """Launch the pipeline on the caller's current stream; see `Executable`.

        Inputs in host memory are copied to the GPU. If all inputs are in host memory, so are the outputs; otherwise
        the outputs are made on the GPU, and the call returns before they are computed.
        """
        inputs = forms_of(call.arrays.values())
        if call.out is None and inputs:
            device = self._validated.device_of(inputs)
            if device is not None:
                call = replace(call, out=self._make_outputs(call, device))
        if self._run_validated(inputs, call, None):
            return call.out or {}
        with _Arrays(self._signature, call, upload=True) as arrays:
            self._run(arrays, call, inputs)
            return arrays.results()

    def launch(self, call: KernelCall, stream: object) -> None:
        """Launch the pipeline on a stream, on arrays that all lie on the GPU; see `Executable`."""
        handle = None if stream is None else stream_handle(stream)
        inputs = forms_of(call.arrays.values())
        if self._run_validated(inputs, call, handle):
            return
        with _Arrays(self._signature, call, upload=False, stream=handle) as arrays:
            self._run(arrays, call, inputs)

    def graph(self, call: KernelCall) -> tuple[Callable[[object], None], dict[str, Any]]:
        """Capture one call on arrays that all lie on the GPU, without running it.

        Returns:
            A function that launches the graph on a stream, None for the caller's current one; and the outputs.
        """
        with _Arrays(self._signature, call, upload=False) as arrays:
            sequence = self._launches(arrays.pointers, call.scalars)
            keep = (arrays.inputs, arrays.outputs, call.arrays, call.out)
            graph = sequence.capture(arrays.pointers, call.scalars, device=arrays.device, keep_alive=keep)
            return lambda stream: graph.launch(arrays.stream(stream)), arrays.results()

    def _run_validated(self, inputs: Form | None, call: KernelCall, stream: int | None) -> bool:
        """Launch a call that is in the cache of validated calls; return whether it is."""
        validated = self._validated.find(_key(inputs, call.out, call))
        if validated is not None:
            validated.run(gpu_driver(), stream)
        return validated is not None

    def _run(self, arrays: _Arrays, call: KernelCall, inputs: Form | None) -> None:
        sequence = self._launches(arrays.pointers, call.scalars)
        prepared = sequence.prepare(arrays.pointers, call.scalars)
        sequence.run_prepared(prepared, arrays.device, arrays.caller)
        key = _key(inputs, arrays.returned, call)
        if inputs is not None and key is not None:
            as_torch = any(is_torch(a) for a in (*call.arrays.values(), *arrays.returned.values()))
            self._validated.add(inputs, key, ValidatedCall(sequence, prepared, arrays.device, as_torch))

    def _make_outputs(self, call: KernelCall, device: int) -> dict[str, Any]:
        """Return new outputs for inputs that lie on a GPU."""
        with gpu_driver().on_device(device):
            return {s.name: empty_like_caller(call.example, s.dtype, s.shape) for s in self._signature.outputs}


class CudaExecutable(CudaCalls):
    """A pipeline compiled for one GPU architecture; needs a GPU only when it is called.

    Args:
        program: The lowered pipeline.
        signature: Inputs, outputs and parameters.
        arch: Architecture, such as ``sm_90``.
        fast_math: Approximate division and elementary functions.

    Raises:
        CompileError: If NVRTC is missing or refuses a kernel.
    """

    def __init__(self, program: Program, signature: CallSignature, arch: str, *, fast_math: bool = False) -> None:
        super().__init__(signature)
        self.arch = arch
        self._program = program
        self._kernels = share_cuda_kernels(program.kernels)
        distinct = distinct_kernels(self._kernels)
        cubins = compile_kernels(distinct, arch, NvrtcOptions(fast_math=fast_math))
        self.cubins: Mapping[str, Cubin] = {k.name: cubin for k, cubin in zip(distinct, cubins, strict=True)}
        self._fast_math = fast_math
        self._alignments = alignments(program, self._kernels)
        self._lock = threading.Lock()
        self._sequence: LaunchSequence | None = None
        self._for_any_alignment: CudaExecutable | None = None

    @property
    def resources(self) -> tuple[KernelInfo, ...]:
        """The kernels with the registers and local memory that ptxas gave them."""
        return tuple(
            replace(kernel_info(shared, self.cubins[shared.name]), name=kernel.name)
            for kernel, shared in zip(self._program.kernels, self._kernels, strict=True)
        )

    @property
    def launches(self) -> CompiledLaunches:
        """Code and launches for arrays with the alignment of whole allocations, which fits every vector."""
        return CompiledLaunches(
            {name: cubin.code for name, cubin in self.cubins.items()},
            tuple(launch_steps(self._program, self._kernels)),
            self._program.workspace_bytes,
        )

    def launches_of(self, scalars: Mapping[str, Any]) -> CompiledLaunches:
        """Return `launches`, which are those of every call."""
        return self.launches

    def _launches(self, pointers: Mapping[str, int], scalars: Mapping[str, Any]) -> LaunchSequence:
        """Return the launches for arrays at some addresses.

        Whole allocations are aligned for every vector; a slice of one may not be. The first call on such a slice
        compiles the kernels again, with scalar accesses.
        """
        with self._lock:
            if any(pointers[name] % aligned for name, aligned in self._alignments.items()):
                if self._for_any_alignment is None:
                    self._for_any_alignment = CudaExecutable(
                        self._program.without_vectors(), self._signature, self.arch, fast_math=self._fast_math
                    )
                return self._for_any_alignment._launches(pointers, scalars)
            if self._sequence is None:
                plan = self.launches
                self._sequence = LaunchSequence(plan.cubins, plan.steps, workspace_bytes=plan.workspace_bytes)
            return self._sequence


class _Arrays:
    """A call's arrays on one GPU, as a context in which that GPU is the current one."""

    def __init__(self, signature: CallSignature, call: KernelCall, *, upload: bool, stream: int | None = None) -> None:
        self._signature = signature
        self._call = call
        self._upload = upload
        self._stream = stream
        self._driver = gpu_driver()
        self.device = _device(call, self._driver.current_device())
        self._context = self._driver.on_device(self.device)

    def __enter__(self) -> _Arrays:
        self._context.__enter__()
        try:
            self._given: list[object] = [*self._call.arrays.values(), *(self._call.out or {}).values()]
            self.caller = self.caller_now()
            # taking an array of another framework orders it with the current stream
            with nullcontext() if self._stream is None else self._driver.on_stream(self.caller.stream):
                self._take()
        except BaseException:
            self._context.__exit__(None, None, None)
            raise
        return self

    def __exit__(self, *error: object) -> None:
        self._context.__exit__(None, None, None)

    def _take(self) -> None:
        call, signature = self._call, self._signature
        self._example = next((a for a in self._given if on_gpu(a)), None)
        # Only if all are in host memory: a copy would have to be ordered with the caller's own stream.
        upload = self._upload and self._example is None
        self.inputs = {
            s.name: as_device_array(call.arrays[s.name], s.name, s.dtype, s.shape, device=self.device, upload=upload)
            for s in signature.inputs
        }
        self.returned = call.out or {s.name: self._empty(s) for s in signature.outputs}
        own = call.out is None and self._example is None
        self.outputs = self.returned if own else {
            s.name: as_device_array(self.returned[s.name], s.name, s.dtype, s.shape, role="output", device=self.device)
            for s in signature.outputs
        }  # fmt: skip
        check_no_overlap(self.inputs, self.outputs)

    def caller_now(self) -> CallerContext:
        """Return the caller's context with the requested stream, or else with the current one."""
        return context_of(self._given, self._driver, self.device, self._stream)

    def stream(self, stream: object) -> Stream:
        """Return a stream of any framework on the GPU of the arrays; the current one for None."""
        if stream is None:
            return self.caller_now().stream
        return self._driver.foreign_stream(stream_handle(stream), self.device)

    def _empty(self, spec: ArraySpec) -> Any:
        if self._example is not None:
            return empty_like_caller(self._example, spec.dtype, spec.shape)
        if self._call.example is None:
            return empty_cupy_array(spec.dtype, spec.shape)
        import cupy

        return cupy.empty(spec.shape, dtype=device_dtype(spec.dtype))

    @property
    def pointers(self) -> dict[str, int]:
        """Address of every array by name."""
        return {name: int(a.data.ptr) for name, a in (*self.inputs.items(), *self.outputs.items())}

    def results(self) -> dict[str, Any]:
        """Return the outputs in the caller's framework and memory."""
        example = self._call.example
        if self._call.out is not None or self._example is not None or example is None:
            return self.returned
        return {s.name: like_caller(self.returned[s.name], example, s.dtype) for s in self._signature.outputs}


def alignments(program: Program, kernels: Iterable[CudaKernel]) -> dict[str, int]:
    """Return the alignment in bytes that vector accesses require of the caller's arrays, by name."""
    public = {a.buffer.name: name for name, a in (*program.inputs.items(), *program.outputs.items())}
    bytes_by_name: dict[str, int] = {}
    for p in (p for k in kernels for p in k.params):
        if p.aligned > 1 and p.name in public:
            bytes_by_name[public[p.name]] = max(bytes_by_name.get(public[p.name], 1), p.aligned)
    return bytes_by_name


def launch_steps(program: ProgramLayout, kernels: Iterable[CudaKernel]) -> list[LaunchStep]:
    """Return the launches; each argument is an array, part of the workspace or a scalar of the call."""
    arguments: dict[str, Argument] = {a.buffer.name: BufferArgument(n) for n, a in program.inputs.items()}
    arguments |= {a.buffer.name: BufferArgument(n) for n, a in program.outputs.items()}
    arguments |= {slot.buffer.name: WorkspaceArgument(slot.offset) for slot in program.workspace}
    public = {program.names[p.name]: p.name for p in program.bound.scalars}

    def argument(p: KernelParam) -> Argument:
        if p.kind == "step":
            return StepArgument()
        if p.kind != "scalar":
            return arguments[p.name]
        return LaunchScalar(public[p.name], float32 if p.dtype.is_reduced_float else p.dtype)  # kernels take a float

    return [
        LaunchStep(k.name, k.grid, k.block, k.shared_bytes, tuple(argument(p) for p in k.params), k.launches)
        for k in kernels
    ]


def _device(call: KernelCall, current: int) -> int:
    """Return the GPU of the caller's arrays; the current one if no array is on a GPU."""
    for value in (*call.arrays.values(), *(call.out or {}).values()):
        device = device_of(value)
        if device is not None and device.kind == "cuda":
            return device.index
    return current


def _key(inputs: Form | None, outputs: Mapping[str, Any] | None, call: KernelCall) -> Form | None:
    """Return the cache key of a call; None if some of its arrays must be checked at every call."""
    output_forms = None if inputs is None or not outputs else forms_of(outputs.values())
    # bytes, since a NaN is not equal to itself and 0.0 is equal to -0.0
    return (
        None
        if output_forms is None
        else (inputs, output_forms, *((n, v.dtype, v.tobytes()) for n, v in call.scalars.items()))
    )


def compile_kernels(kernels: Iterable[CudaKernel], arch: str, options: NvrtcOptions) -> list[Cubin]:
    """Return the cubin of each kernel.

    Args:
        kernels: The kernels.
        arch: Architecture.
        options: Options of NVRTC.

    Raises:
        CompileError: If NVRTC is missing or refuses a kernel.
    """
    printed = list(kernels)
    if not printed:  # of arrays without elements
        return []
    processes = 1 if len(printed) <= _ONE_PROCESS_UP_TO else None
    names = [k.name for k in printed]
    cubins: list[Cubin] = []
    for result in compile_many([k.source for k in printed], arch, options, names=names, processes=processes):
        if isinstance(result, CompileError):
            raise result
        cubins.append(result)
    return cubins


def kernel_info(kernel: CudaKernel, cubin: Cubin) -> KernelInfo:
    """Return a kernel's launch configuration and resources."""
    used = cubin.kernels[kernel.name]
    return KernelInfo(
        kernel.name,
        kernel.grid,
        kernel.block,
        kernel.shared_bytes,
        registers=used.registers,
        stack_bytes=used.stack_bytes,
        spill_bytes=used.spill_bytes,
    )
