"""A compiled pipeline: called with arrays, it returns arrays."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from autosched.errors import InputError, LaunchError
from autosched.runtime.backends.executable import Backend, Executable
from autosched.runtime.backends.kernel_info import KernelInfo
from autosched.runtime.call.signature import CallSignature

if TYPE_CHECKING:
    from autosched.runtime.backends.cpu import CpuExecutable
    from autosched.runtime.benchmark import Benchmark


class CompiledPipeline:
    """A pipeline compiled for fixed shapes on one backend; may be called from several threads.

    Args:
        signature: Inputs, outputs and parameters.
        executable: Runs the kernels.
        backend: The backend that the pipeline is compiled for.
    """

    def __init__(self, signature: CallSignature, executable: Executable, backend: Backend) -> None:
        self.signature = signature
        self.backend = backend
        self._executable = executable
        names = [spec.name for spec in signature.outputs]
        self._outputs = namedtuple(f"{signature.pipeline}_outputs", names, rename=True)  # type: ignore[misc]

    @property
    def resources(self) -> tuple[KernelInfo, ...]:
        """The kernels in launch order; with registers, stack and spills for the backend ``cuda``."""
        return self._executable.resources

    @property
    def code(self) -> CpuExecutable | None:
        """The compiled C, for callers that pass addresses themselves; None on other backends than ``cpu``."""
        return getattr(self._executable, "code", None)

    def __call__(self, inputs: Mapping[str, Any] | None = None, /, *, out: Any = None, **arguments: Any) -> Any:
        """Compute the pipeline.

        On a GPU the kernels go to the caller's current stream (PyTorch's for tensors, else CuPy's), and the call
        returns before they are done. A repeated call becomes a CUDA graph.

        Args:
            inputs: Inputs and parameters in a dict, for names that cannot be keywords (``out``, ``in``).
            out: Arrays for the outputs: one, a sequence in order, or a dict by name; made when left out.
            **arguments: An array for every input and a number for every parameter without a default. Arrays are
                C-contiguous, of the element type and shape the pipeline was scheduled for: NumPy, CuPy, PyTorch, or
                anything with DLPack or an array interface. Arrays are not copied.

        Returns:
            The output, in the caller's framework and on the caller's device; for several outputs a named tuple.

        Raises:
            InputError: If an argument is missing, unknown or does not fit, or ``out`` shares memory with an input.
            LaunchError: If there is no GPU, or a kernel cannot be launched.
        """
        results = self._executable.call(self.signature.sort(inputs, arguments, out))
        return self._as_returned(results)

    def launch(
        self, stream: object = None, inputs: Mapping[str, Any] | None = None, /, *, out: Any, **arguments: Any
    ) -> None:
        """Queue the pipeline on a stream, without waiting for it and without making arrays.

        This stream is not synchronised with those on which the arrays were made; keep the arrays until the work is
        done. In host memory the pipeline runs at once.

        Args:
            stream: A CUDA stream: of CuPy, of PyTorch, anything with ``__cuda_stream__``, or a handle as an integer.
                None means the caller's current one; other backends accept only None.
            inputs: As for a call; on the backend ``cuda`` all arrays must lie on one GPU.
            out: Arrays for the outputs, as for a call.
            **arguments: As for a call.

        Raises:
            InputError: As for a call, if ``out`` is None, or if there is no such stream.
            LaunchError: As for a call.
        """
        call = self.signature.sort(inputs, arguments, out)
        if call.out is None:
            names = ", ".join(spec.name for spec in self.signature.outputs)
            raise InputError(f"launch makes no arrays: pass out=<arrays for {names}>, or call the pipeline instead")
        self._executable.launch(call, stream)

    def benchmark(
        self, inputs: Mapping[str, Any] | None = None, /, *, seconds: float = 1.0, **arguments: Any
    ) -> Benchmark:
        """Time the pipeline on cold inputs, with preallocated outputs.

        On the current GPU device time is measured, otherwise the time of a call. Runs rotate over copies of the arrays,
        so that more than twice the last-level cache is touched before an array is read again.

        Args:
            inputs: As for a call; inputs that are left out are random arrays.
            seconds: Time budget of the measurement, which ends earlier once the median has a precision of 0.5 %.
                Warm-up and copies of arrays take additional time.
            **arguments: As for a call.

        Raises:
            InputError: As for a call, or if ``seconds`` is not positive.
            LaunchError: As for a call, or if there is too little memory.
        """
        from autosched.runtime.benchmark import benchmark

        return benchmark(self._executable, self.signature, self.backend, inputs, arguments, seconds)

    def graph(self, inputs: Mapping[str, Any] | None = None, /, *, out: Any = None, **arguments: Any) -> PipelineGraph:
        """Capture one call as a CUDA graph, without running it.

        Args:
            inputs: As for a call; all arrays must lie on one GPU.
            out: As for a call.
            **arguments: As for a call.

        Returns:
            The graph; each launch reads and writes the same arrays.

        Raises:
            InputError: As for a call, or if an array is not on the GPU.
            LaunchError: If the pipeline was compiled for another backend, or there is no GPU.
        """
        from autosched.runtime.backends.cuda import CudaCalls

        if not isinstance(self._executable, CudaCalls):
            raise LaunchError(f"CUDA graphs need the backend 'cuda', this pipeline was compiled for {self.backend!r}")
        launch, results = self._executable.graph(self.signature.sort(inputs, arguments, out))
        return PipelineGraph(launch, self._as_returned(results))

    def _as_returned(self, results: Mapping[str, Any]) -> Any:
        values = list(results.values())
        return values[0] if len(values) == 1 else self._outputs(*values)

    def __repr__(self) -> str:
        inputs = ", ".join(f"{s.name}: {s.dtype}{list(s.shape)}" for s in self.signature.inputs)
        outputs = ", ".join(f"{s.name}: {s.dtype}{list(s.shape)}" for s in self.signature.outputs)
        return f"<CompiledPipeline {self.signature.pipeline}({inputs}) -> {outputs}, backend {self.backend}>"


class PipelineGraph:
    """A pipeline captured with its arrays, made by `CompiledPipeline.graph`.

    Attributes:
        outputs: The outputs as a call returns them; the arrays hold results after a launch.
    """

    def __init__(self, launch: Callable[[object], None], outputs: Any) -> None:
        self._launch = launch
        self.outputs = outputs

    def __repr__(self) -> str:
        outputs = self.outputs if isinstance(self.outputs, tuple) else (self.outputs,)
        arrays = ", ".join(f"{a.dtype}{list(a.shape)}" for a in outputs)
        return f"<PipelineGraph -> {arrays}>"

    def launch(self, stream: object = None) -> None:
        """Queue the pipeline on a stream, without waiting for it.

        Args:
            stream: As for `CompiledPipeline.launch`; the caller's current one when left out.

        Raises:
            InputError: If there is no such stream.
            LaunchError: If the driver refuses.
        """
        self._launch(stream)
