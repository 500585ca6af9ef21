"""Launch a pipeline's kernels on the caller's stream: one by one at first, as a CUDA graph for a repeated call."""

from __future__ import annotations

import contextlib
import threading
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from autosched.errors import LaunchError
from autosched.runtime.backends.cupy_driver import gpu_driver
from autosched.runtime.backends.gpu_driver import DeviceMemory, GpuDriver, Stream
from autosched.runtime.call.caller_context import CallerContext, cupy_caller
from autosched.runtime.call.cuda_graphs import BoundStep, CapturedGraph, RecentCall, RecentCalls
from autosched.runtime.call.launch_plan import Binding, Dim3, LaunchStep, Signature
from autosched.runtime.call.workspaces import Workspaces, stream_key
from autosched.settings import settings

SHARED_MEMORY_WITHOUT_OPT_IN = 48 * 1024
"""Bytes of dynamic shared memory available to every kernel; more needs a function attribute."""

_RECENT_CALLS = 16


class CudaModule:
    """A cubin, loaded on each device that launches one of its kernels.

    Args:
        code: The cubin.
        driver: The GPU; this machine's, through CuPy, when left out.

    Raises:
        LaunchError: If this machine has no GPU.
    """

    def __init__(self, code: bytes, driver: GpuDriver | None = None) -> None:
        self._code = code
        self._driver = driver or gpu_driver()
        self._modules: dict[int, Any] = {}
        self._functions: dict[tuple[int, str], Any] = {}
        self._allowed: dict[tuple[int, str], int] = {}
        self._lock = threading.Lock()

    def function(self, name: str, shared_bytes: int = 0) -> Any:
        """Return a kernel on the current device, with its shared memory enabled.

        Raises:
            LaunchError: If the cubin does not load here, has no such kernel, or the device has too
                little shared memory.
        """
        device = self._driver.current_device()
        key = device, name
        with self._lock:
            if key not in self._functions:
                if device not in self._modules:
                    self._modules[device] = self._driver.load_module(self._code)
                self._functions[key] = self._driver.get_function(self._modules[device], name)
            function = self._functions[key]
            if shared_bytes > self._allowed.get(key, SHARED_MEMORY_WITHOUT_OPT_IN):
                self._opt_in(function, name, shared_bytes)
                self._allowed[key] = shared_bytes
        return function

    def launch(
        self,
        function: str,
        grid: Dim3,
        block: Dim3,
        arguments: tuple[Any, ...],
        shared_bytes: int = 0,
        stream: Stream | None = None,
    ) -> None:
        """Launch one kernel on the current device.

        Args:
            function: Its name.
            grid: Blocks in x, y, z; with a 0 nothing is launched.
            block: Threads per block in x, y, z.
            arguments: NumPy scalars (pointers as ``np.uint64``) or CuPy arrays.
            shared_bytes: Dynamic shared memory per block.
            stream: The stream; CuPy's current one when left out.

        Raises:
            LaunchError: If the driver refuses.
        """
        step = LaunchStep(function, grid, block, shared_bytes, ())
        if not step.is_empty:
            bound = BoundStep(step, self.function(function, shared_bytes), arguments)
            _launch(self._driver, bound, stream or self._driver.current_stream())

    def _opt_in(self, function: Any, name: str, shared_bytes: int) -> None:
        limit = self._driver.shared_memory_limit()
        if shared_bytes > limit:
            raise LaunchError(
                f"kernel {name} needs {shared_bytes} bytes of shared memory per block, this GPU has {limit}: "
                "schedule the pipeline for this GPU, target='cuda'"
            )
        self._driver.allow_shared_memory(function, shared_bytes)


@dataclass(frozen=True, slots=True)
class PreparedCall:
    """The values of a call.

    Attributes:
        binding: The pointers and scalars.
        key: Hashable key of the binding.
    """

    binding: Binding
    key: tuple[object, ...]


class LaunchSequence:
    """Launches the kernels of a pipeline in order; may be called from any thread, for any device.

    Calls on one stream are serialised and share a workspace; calls on several streams have a workspace each and may
    overlap.

    Args:
        cubins: Cubin of each kernel, by name.
        steps: The launches in order.
        workspace_bytes: Size of the memory for intermediate arrays.
        driver: The GPU; this machine's, through CuPy, when left out.

    Raises:
        LaunchError: If this machine has no GPU.
    """

    def __init__(
        self,
        cubins: Mapping[str, bytes],
        steps: Sequence[LaunchStep],
        *,
        workspace_bytes: int = 0,
        driver: GpuDriver | None = None,
    ) -> None:
        self._driver = driver or gpu_driver()
        self._steps = tuple(step for step in steps if not step.is_empty)
        by_code = {code: CudaModule(code, self._driver) for code in set(cubins.values())}
        self._modules = {step.function: by_code[cubins[step.function]] for step in self._steps}
        self._workspaces = Workspaces(workspace_bytes)
        self._signature = Signature.of(self._steps)
        self._recent = RecentCalls(_RECENT_CALLS)
        # a graph saves the launches between the first and the last kernel
        self._use_graphs = sum(step.launches for step in self._steps) > 1 and settings().cuda_graphs
        self._capture_streams: dict[int, Stream] = {}
        # Locked for a whole call: two interleaved calls on one stream would overwrite each other's workspace.
        self._lock = threading.RLock()

    def run(
        self,
        pointers: Mapping[str, int],
        scalars: Mapping[str, Any] | None = None,
        *,
        device: int | None = None,
        caller: CallerContext | None = None,
    ) -> None:
        """Launch all kernels on the caller's stream; returns before they are done.

        The second call with the same pointers and scalars on a stream is captured as a CUDA graph. While the caller
        captures the stream, kernels are launched one by one into the caller's graph. Graphs captured from one stream
        share a workspace, so they must not be replayed at the same time.

        Args:
            pointers: Address of each input and output.
            scalars: Value of each scalar parameter.
            device: Number of the GPU on which the arrays lie; the current one when left out.
            caller: The caller's stream and memory, from `context_of`; CuPy's when left out.

        Raises:
            LaunchError: If the driver refuses, or memory runs out.
            InputError: If a scalar does not fit its type.
        """
        device = self._driver.current_device() if device is None else device
        with self._driver.on_device(device):
            self.run_prepared(self.prepare(pointers, scalars), device, caller or cupy_caller(self._driver))

    def prepare(self, pointers: Mapping[str, int], scalars: Mapping[str, Any] | None = None) -> PreparedCall:
        """Return a call that may be run often.

        Args:
            pointers: Address of each input and output.
            scalars: Value of each scalar parameter.

        Raises:
            InputError: If a scalar does not fit its type.
        """
        binding = Binding(pointers, scalars or {})
        return PreparedCall(binding, self._signature.key(binding))

    def run_prepared(self, call: PreparedCall, device: int, caller: CallerContext) -> None:
        """Launch all kernels on the caller's stream; see `run`.

        Args:
            call: The result of `prepare`.
            device: Number of the arrays' GPU, which is the current one.
            caller: The caller's stream and memory.

        Raises:
            LaunchError: If the driver refuses, or memory runs out.
        """
        with self._lock:
            if self._driver.is_capturing(caller.stream):
                memory = self._workspaces.for_capture(device, caller)
                self._launch_all(self._bind(call.binding, memory), caller.stream)
            else:
                self._run_directly(call, device, caller)

    def capture(
        self,
        pointers: Mapping[str, int],
        scalars: Mapping[str, Any] | None = None,
        *,
        device: int | None = None,
        keep_alive: object = None,
    ) -> CapturedGraph:
        """Return a CUDA graph of one call, with a private workspace, without running it.

        Args:
            pointers: Address of each input and output.
            scalars: Value of each scalar parameter.
            device: Number of the GPU on which the arrays lie; the current one when left out.
            keep_alive: The arrays behind the pointers.

        Raises:
            LaunchError: If the driver refuses, or memory runs out.
            InputError: If a scalar does not fit its type.
        """
        binding = Binding(pointers, scalars or {})
        device = self._driver.current_device() if device is None else device
        with self._lock, self._driver.on_device(device):
            memory = self._workspaces.fresh(cupy_caller(self._driver))
            graph = self._capture(self._bind(binding, memory), device)
        return CapturedGraph(graph, self._driver, device, (memory, keep_alive, self))

    def _run_directly(self, call: PreparedCall, device: int, caller: CallerContext) -> None:
        if not self._steps:
            return
        memory = self._workspaces.for_stream(device, caller)
        place = (device, stream_key(caller.stream), memory.ptr if memory else 0)
        key = (place, call.key)
        before = self._recent.find(key)
        if before is not None and before.graph is None and self._use_graphs:
            before.graph = self._try_to_capture(before.bound, device)
        if before is not None and before.graph is not None:
            self._driver.launch_graph(before.graph, caller.stream)
            return
        bound = before.bound if before is not None else self._bind(call.binding, memory)
        self._launch_all(bound, caller.stream)
        if before is None:
            self._recent.add(key, RecentCall(bound))

    def _bind(self, binding: Binding, memory: DeviceMemory | None) -> tuple[BoundStep, ...]:
        return tuple(
            BoundStep(
                step,
                self._modules[step.function].function(step.function, step.shared_bytes),
                binding.arguments_of(step, memory.ptr if memory else 0),
            )
            for step in self._steps
        )

    def _launch_all(self, bound: Sequence[BoundStep], stream: Stream) -> None:
        for launch in bound:
            _launch(self._driver, launch, stream)

    def _try_to_capture(self, bound: Sequence[BoundStep], device: int) -> Any | None:
        """Return the graph of some launches; if the driver refuses, None, and capture no further graphs."""
        try:
            return self._capture(bound, device)
        except LaunchError as error:
            self._use_graphs = False
            warnings.warn(f"CUDA graphs are disabled: {error}", RuntimeWarning, stacklevel=4)
            return None

    def _capture(self, bound: Sequence[BoundStep], device: int) -> Any:
        """Record launches on a private stream: the caller's may be the default one, which cannot be captured."""
        if device not in self._capture_streams:
            self._capture_streams[device] = self._driver.private_stream()
        stream = self._capture_streams[device]
        self._driver.begin_capture(stream)
        try:
            self._launch_all(bound, stream)
        except BaseException:
            with contextlib.suppress(LaunchError):  # the first error is reported; the stream must leave capture
                self._driver.end_capture(stream)
            raise
        return self._driver.end_capture(stream)


def _launch(driver: GpuDriver, launch: BoundStep, stream: Stream) -> None:
    step = launch.step
    try:
        for arguments in launch.launches():
            driver.launch(launch.function, step.grid, step.block, arguments, step.shared_bytes, stream)
    except LaunchError as error:
        raise LaunchError(f"kernel {step.function}: {error}") from error
