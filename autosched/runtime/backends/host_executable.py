"""A pipeline that computes on arrays in host memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from autosched.errors import InputError
from autosched.runtime.backends.kernel_info import KernelInfo
from autosched.runtime.call.buffers import as_host_array, empty_like_caller
from autosched.runtime.call.signature import CallSignature, KernelCall, check_no_overlap

if TYPE_CHECKING:
    from autosched.runtime.backends.cpu import CpuExecutable

Array = np.ndarray[Any, Any]


class HostExecutable:
    """A pipeline that computes in host memory.

    Args:
        signature: Inputs, outputs and parameters.
        run: Computes outputs in place, from checked inputs, outputs and scalars by name.
        resources: The kernels in launch order.
        code: The compiled C, on the backend ``cpu``.
    """

    def __init__(
        self,
        signature: CallSignature,
        run: Callable[[Mapping[str, Array], Mapping[str, Array], Mapping[str, Any]], None],
        resources: tuple[KernelInfo, ...] = (),
        code: CpuExecutable | None = None,
    ) -> None:
        self._signature = signature
        self._run = run
        self.resources = resources
        self.code = code

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
