"""Run a lowered pipeline's CUDA text in the emulator."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any, Literal, cast

import numpy as np

from autosched.codegen.cuda import CudaKernel, KernelParam
from autosched.codegen.identical_kernels import distinct_kernels, share_cuda_kernels
from autosched.codegen.prelude import called_scalar_functions, scalar_prelude
from autosched.lower.program import Program
from autosched.runtime.backends.cpu import scalar_arguments
from autosched.runtime.emulator import GeneratedKernel, ParamSpec, compile_emulated_kernels
from autosched.runtime.host_memory import aligned_empty

Array = np.ndarray[Any, Any]


class EmulatedExecutable:
    """A pipeline whose CUDA kernels run on the host, thread by thread, with every access checked.

    Args:
        program: The lowered pipeline.
        seed: Seed of the order of threads; a correct kernel gives the same result for every seed.

    Raises:
        CompileError: If there is no C++ compiler, or it refuses the code.
    """

    def __init__(self, program: Program, *, seed: int = 0) -> None:
        self.program = program
        self.seed = seed
        printed = share_cuda_kernels(program.kernels)
        distinct = distinct_kernels(printed)
        helpers = scalar_prelude(called_scalar_functions("\n".join(kernel.body for kernel in distinct)))
        compiled = compile_emulated_kernels([_generated(kernel) for kernel in distinct], helpers)
        by_name = {kernel.name: code for kernel, code in zip(distinct, compiled, strict=True)}
        self._kernels = [(kernel, by_name[kernel.name]) for kernel in printed]
        self._lock = threading.Lock()  # each launch uses all processors

    def run(self, inputs: Mapping[str, Array], outputs: Mapping[str, Array], scalars: Mapping[str, Any]) -> None:
        """Compute the outputs in place.

        Args:
            inputs: Checked C-contiguous arrays by name.
            outputs: Arrays to fill, by public name.
            scalars: Values of the pipeline's run-time parameters.

        Raises:
            EmulatorError: If the behaviour of a kernel is undefined in CUDA.
        """
        program = self.program
        workspace = aligned_empty(program.workspace_bytes)
        values: dict[str, Any] = {a.buffer.name: inputs[n] for n, a in program.inputs.items()}
        values |= {a.buffer.name: outputs[n] for n, a in program.outputs.items()}
        for slot in program.workspace:
            dtype = slot.buffer.dtype.numpy
            values[slot.buffer.name] = workspace[slot.offset :][: slot.buffer.count * dtype.itemsize].view(dtype)
        values |= {name: value[0] for name, value in scalar_arguments(program, scalars).items()}
        with self._lock:
            for printed, kernel in self._kernels:
                for step in range(printed.launches):
                    arguments = [step if p.kind == "step" else values[p.name] for p in printed.params]
                    kernel.launch(
                        printed.grid, printed.block, printed.shared_bytes, arguments, self.seed,
                        single_writer=not printed.is_ordered,
                    )  # fmt: skip


def _generated(kernel: CudaKernel) -> GeneratedKernel:
    return GeneratedKernel(kernel.body, kernel.name, [_spec(p) for p in kernel.params], kernel.site_depths)


def _spec(p: KernelParam) -> ParamSpec:
    as_float = p.kind == "scalar" and p.dtype.is_reduced_float  # which kernels take as a float
    dtype = np.dtype(np.float32) if as_float else p.dtype.numpy
    kind = "scalar" if p.kind == "step" else p.kind
    return ParamSpec(cast(Literal["in", "out", "scalar"], kind), dtype, p.name, p.count)
