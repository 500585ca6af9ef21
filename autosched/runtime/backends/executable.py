"""The interface of a pipeline compiled for one backend: GPU, C, emulator or interpreter."""

from __future__ import annotations

from typing import Any, Literal, Protocol, get_args

from autosched.errors import InputError
from autosched.runtime.backends.kernel_info import KernelInfo
from autosched.runtime.call.signature import KernelCall

__all__ = ["BACKENDS", "Backend", "Executable", "KernelInfo", "as_backend"]

Backend = Literal["cuda", "cpu", "emulator", "interpreter"]
BACKENDS: tuple[Backend, ...] = get_args(Backend)
"""``cuda`` compiles with NVRTC and launches on a GPU; ``cpu`` compiles C; ``emulator`` runs the CUDA text on the host;
``interpreter`` computes with NumPy and ignores the schedule."""


class Executable(Protocol):
    """A pipeline compiled for one backend; may be called from several threads."""

    @property
    def resources(self) -> tuple[KernelInfo, ...]:
        """The kernels in launch order."""

    def call(self, call: KernelCall) -> dict[str, Any]:
        """Run the pipeline.

        Args:
            call: The sorted arguments.

        Returns:
            The outputs by name, in the caller's framework; those of ``call.out`` if given.

        Raises:
            InputError: If an array does not fit.
            LaunchError: If the kernels cannot be launched.
        """

    def launch(self, call: KernelCall, stream: object) -> None:
        """Queue the pipeline on a stream, without waiting for it and without making arrays.

        Args:
            call: The sorted arguments, with outputs.
            stream: A stream as `stream_handle` takes it, or None for the caller's current one.

        Raises:
            InputError: If an array does not fit, or the stream belongs to another device.
            LaunchError: If the kernels cannot be launched.
        """


def as_backend(name: str) -> Backend:
    """Return the backend of that name.

    Raises:
        InputError: If there is none.
    """
    for backend in BACKENDS:
        if backend == name:
            return backend
    raise InputError(f"unknown backend {name!r}; there is {', '.join(BACKENDS)}")
