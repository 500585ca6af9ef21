"""A GPU whose memory is the host's and whose kernels run in the emulator, behind the interface of a driver."""

from __future__ import annotations

import ctypes
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any, Literal, cast

import numpy as np

from autosched.codegen.cuda import CudaKernel
from autosched.codegen.prelude import called_scalar_functions, scalar_prelude
from autosched.runtime.emulator import ParamSpec, compile_emulated


class EmulatedDevice:
    """A driver whose device memory is host memory, and whose kernels the emulator runs."""

    def __init__(self, kernels: tuple[CudaKernel, ...]) -> None:
        self.kernels = {kernel.name: kernel for kernel in kernels}
        self.allocated: list[np.ndarray[Any, Any]] = []
        self.stream = SimpleNamespace(ptr=0, recorded=None)
        self.graphs_launched = 0
        self.graph_streams: list[int] = []

    def current_device(self) -> int:
        return 0

    def on_device(self, device: int) -> Any:
        return nullcontext()

    def current_stream(self) -> Any:
        return self.stream

    def foreign_stream(self, pointer: int, device: int) -> Any:
        return SimpleNamespace(ptr=pointer, recorded=None)

    def private_stream(self) -> Any:
        return SimpleNamespace(ptr=100, recorded=None)

    def is_capturing(self, stream: Any) -> bool:
        return stream.recorded is not None

    def begin_capture(self, stream: Any) -> None:
        stream.recorded = []

    def end_capture(self, stream: Any) -> Any:
        graph, stream.recorded = stream.recorded, None
        return graph

    def launch_graph(self, graph: Any, stream: Any) -> None:
        self.graphs_launched += 1
        self.graph_streams.append(stream.ptr)
        for arguments in graph:
            self.launch(*arguments, stream)

    def allocate(self, size: int, stream: Any) -> Any:
        memory = np.empty(size + 256, np.uint8)
        self.allocated.append(memory)
        return SimpleNamespace(ptr=memory.ctypes.data + -memory.ctypes.data % 256)

    def load_module(self, code: bytes) -> bytes:
        return code

    def get_function(self, module: bytes, name: str) -> str:
        assert name.encode() in module
        return name

    def launch(self, function: str, grid: Any, block: Any, arguments: Any, shared_bytes: int, stream: Any) -> None:
        if stream.recorded is not None:
            stream.recorded.append((function, grid, block, arguments, shared_bytes))
            return
        kernel = self.kernels[function]
        specs = []
        values: list[Any] = []
        for p, argument in zip(kernel.params, arguments, strict=True):
            dtype = argument.dtype if p.kind == "scalar" else p.dtype.numpy
            specs.append(ParamSpec(cast(Literal["in", "out", "scalar"], p.kind), dtype, p.name, p.count))
            values.append(argument if p.kind == "scalar" else memory_at(int(argument), p.count, dtype))
        prelude = scalar_prelude(called_scalar_functions(kernel.body))
        emulated = compile_emulated(kernel.body, kernel.name, specs, common_prelude=prelude)
        emulated.launch(grid, block, shared_bytes, values)


def memory_at(address: int, count: int, dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """Return the elements at an address."""
    raw = (ctypes.c_char * (count * dtype.itemsize)).from_address(address)
    return np.frombuffer(raw, dtype)
