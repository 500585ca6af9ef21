"""The exported CUDA file: the kernels, and the host function that launches them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from autosched.codegen.cuda import CudaKernel, KernelParam, cuda_prelude, scalar_type
from autosched.codegen.expressions import storage_type
from autosched.codegen.identical_kernels import distinct_kernels, share_cuda_kernels
from autosched.codegen.prelude import called_scalar_functions, scalar_prelude
from autosched.errors import CompileError
from autosched.export.arguments import INDENT, argument_checks, checking_functions, rounded_text
from autosched.export.interface import Interface
from autosched.export.names import ArgumentNames, undefine
from autosched.export.templates import fill, template
from autosched.lower.program import Program
from autosched.runtime.backends.cuda import launch_steps
from autosched.runtime.call.launch_bounds import relax_launch_bounds
from autosched.runtime.call.launch_plan import Argument, BufferArgument, LaunchStep, StepArgument, WorkspaceArgument
from autosched.runtime.call.launcher import SHARED_MEMORY_WITHOUT_OPT_IN
from autosched.runtime.compile.nvrtc import Cubin, NvrtcOptions
from autosched.runtime.compile.nvrtc_pool import compile_many


def print_kernels(program: Program, interface: Interface) -> tuple[CudaKernel, ...]:
    """Return the kernels of a pipeline as CUDA text, with names that the host function does not use."""
    names = ArgumentNames([interface.name, f"{interface.name}_workspace_bytes", *interface.identifiers.values()])
    return share_cuda_kernels(replace(k, name=names(k.name)) for k in program.kernels)


def without_needless_spills(
    kernels: Sequence[CudaKernel], arch: str, *, fast_math: bool
) -> tuple[CudaKernel, ...]:  # fmt: skip
    """Return kernels with the launch bounds of the fewest spills.

    Without a compiler, or if the compiler rejects one, kernels are unchanged: building the export reports the error.

    Args:
        kernels: The kernels.
        arch: Architecture.
        fast_math: Whether divisions and functions are approximate.

    Raises:
        CacheError: If the cache directory cannot be written.
    """
    try:
        distinct = distinct_kernels(kernels)
        compiled = compile_many(
            [k.source for k in distinct], arch, NvrtcOptions(fast_math=fast_math), names=[k.name for k in distinct]
        )
    except CompileError:
        return tuple(kernels)
    pairs = zip(distinct, compiled, strict=True)
    relaxed = {k.name for k, c in pairs if isinstance(c, Cubin) and c.has_relaxed_bounds}
    return tuple(replace(k, body=relax_launch_bounds(k.body)) if k.name in relaxed else k for k in kernels)


def cuda_source(interface: Interface, program: Program, kernels: Sequence[CudaKernel]) -> str:
    """Return the CUDA file of an export.

    Args:
        interface: The host function.
        program: The pipeline.
        kernels: Its kernels from `print_kernels`.
    """
    body = "\n".join(k.body for k in distinct_kernels(kernels))
    prelude = cuda_prelude(body).partition("\n\n")[2]  # without the note on NVRTC
    return fill(
        "source.cu",
        name=interface.name,
        prefix=interface.prefix,
        undefine=undefine(body, prelude),
        prelude=prelude + template("launch.h"),
        scalars=scalar_prelude(called_scalar_functions(body)),
        kernels=body,
        checks=checking_functions(interface),
        function=_host_function(interface, program, kernels),
    )


def _host_function(interface: Interface, program: Program, kernels: Sequence[CudaKernel]) -> str:
    steps = launch_steps(program, kernels)
    lines = [f'extern "C" {interface.prototype} {{', *argument_checks(interface, "cudaErrorInvalidValue")]
    if any(isinstance(argument, WorkspaceArgument) for step in steps for argument in step.arguments):
        lines.append(f"{INDENT}unsigned char *const as_scratch = (unsigned char *)workspace;")
    lines.append(f"{INDENT}cudaError_t as_error = cudaSuccess;")
    for step, kernel in zip(steps, kernels, strict=True):
        if not step.is_empty:
            lines += _launch(interface, step, kernel)
    return "\n".join([*lines, f"{INDENT}return cudaSuccess;", "}", ""])


def _launch(interface: Interface, step: LaunchStep, kernel: CudaKernel) -> list[str]:
    stop = f"{INDENT}if (as_error != cudaSuccess) return as_error;"
    lines = [""]
    if step.shared_bytes > SHARED_MEMORY_WITHOUT_OPT_IN:
        lines += [f"{INDENT}as_error = AS_ALLOW_SHARED({step.function}, {step.shared_bytes});", stop]
    grid, block = (f"dim3({', '.join(map(str, sizes))})" for sizes in (step.grid, step.block))
    values = [_value(interface, a, p, step.launches) for a, p in zip(step.arguments, kernel.params, strict=True)]
    launch = [f"{INDENT}as_error = AS_LAUNCH({step.function}, {grid}, {block}, {step.shared_bytes}, stream,"]
    launch += [f"{INDENT * 2}{value}{');' if k == len(values) - 1 else ','}" for k, value in enumerate(values)]
    launch.append(stop)
    if step.launches > 1:
        loop = f"{INDENT}for (int as_step = 0; as_step < {step.launches}; as_step++) {{"
        launch = [loop, *(INDENT + line for line in launch), f"{INDENT}}}"]
    return [*lines, *launch]


def _value(interface: Interface, argument: Argument, param: KernelParam, launches: int) -> str:
    """Return the host function's argument for a parameter of a kernel."""
    pointer = f"{'const ' if param.kind == 'in' else ''}{storage_type(param.dtype)} *"
    match argument:
        case BufferArgument(name, offset):
            assert offset == 0, argument
            return f"({pointer}){interface.identifiers[name]}"
        case WorkspaceArgument(offset):
            return f"({pointer})(as_scratch + {offset})"
        case StepArgument():
            return "as_step" if launches > 1 else "0"
    identifier = interface.identifiers[argument.name]
    if param.dtype.is_reduced_float:
        return rounded_text(identifier, param.dtype)
    return f"({scalar_type(param.dtype)}){identifier}"
