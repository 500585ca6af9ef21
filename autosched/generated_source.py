"""The generated code of a lowered pipeline as one file."""

from __future__ import annotations

from autosched.codegen.c import print_c
from autosched.codegen.cuda import cuda_prelude
from autosched.codegen.identical_kernels import distinct_kernels, share_cuda_kernels
from autosched.codegen.prelude import called_scalar_functions, scalar_prelude
from autosched.errors import InputError
from autosched.lower.program import Program


def generated_source(program: Program, backend: str) -> str:
    """Return a complete file that includes nothing.

    Args:
        program: The lowered pipeline.
        backend: ``cuda`` or ``emulator`` for CUDA C, ``cpu`` for C with OpenMP.

    Raises:
        InputError: If the backend generates no code.
    """
    match backend:
        case "cuda" | "emulator":
            body = "\n".join(kernel.body for kernel in distinct_kernels(share_cuda_kernels(program.kernels)))
            return f"{cuda_prelude(body)}\n{scalar_prelude(called_scalar_functions(body))}\n{body}"
        case "cpu":
            return print_c(program).text
    raise InputError(f"backend {backend!r} generates no code; there is cuda, cpu and emulator")
