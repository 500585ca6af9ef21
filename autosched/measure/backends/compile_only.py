"""A backend that compiles for a GPU and runs nothing, to time the work of the host alone."""

from __future__ import annotations

from dataclasses import dataclass

from autosched.measure.backend import Backend, Outputs
from autosched.measure.backends.cuda import CudaBackend
from autosched.measure.job import Prepared, Timing
from autosched.runtime.compile.nvrtc import check_compiler


@dataclass(frozen=True, slots=True)
class CompileOnlyBackend(CudaBackend):
    """Compiles like a measurement on a GPU, and reports one second for every candidate.

    Attributes:
        arch: Architecture to compile for.
    """

    arch: str = "sm_90"

    @property
    def source(self) -> str:
        """Where its labels come from: nowhere."""
        return "measured:nothing"

    def device_backends(self) -> tuple[Backend, ...]:
        """Return itself."""
        return (self,)

    def check_machine(self) -> None:
        """Check that NVRTC is there."""
        check_compiler(self.arch)

    def outputs(self, prepared: Prepared) -> Outputs | None:
        """Return None: nothing is computed."""
        return None

    def time(self, prepared: Prepared) -> Timing:
        """Return a second, in equal parts for all kernels."""
        count = len(prepared.kernels)
        return Timing(1.0, 0.0, (1.0 / count,) * count if count else ())
