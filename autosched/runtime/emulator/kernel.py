"""Compile a generated CUDA kernel for the host and run it thread by thread with checked accesses."""

from __future__ import annotations

import _ctypes
import ctypes
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from autosched.errors import InputError
from autosched.runtime.compile.shared_library import load_library
from autosched.runtime.emulator.kernel_text import KernelText, Parameter, read_kernel_text
from autosched.runtime.emulator.launch import Launch, check_launch
from autosched.runtime.emulator.native import MAX_LOOP_DEPTH, compile_kernels, emulator_prelude
from autosched.runtime.emulator.params import ParamSpec
from autosched.runtime.emulator.trace import Trace

C_TYPES = {
    "bool": "unsigned char",
    "int8": "signed char",
    "uint8": "unsigned char",
    "int16": "short",
    "uint16": "unsigned short",
    "int32": "int",
    "uint32": "unsigned int",
    "int64": "long long",
    "uint64": "unsigned long long",
    "float16": "unsigned short",
    "bfloat16": "unsigned short",
    "float32": "float",
    "float64": "double",
}
"""C name of each NumPy dtype's elements in generated code; 16-bit floats are stored as their bits, and bool as a
byte."""

# Spilled registers are in local memory, which is limited to 512 KiB per thread.
_MAX_REGISTER_BYTES = 512 * 1024

MAX_KERNELS_PER_FILE = 8
"""Most kernels of one file; more take longer to compile than they save."""

_MACROS = {"in": "GLOBAL_IN", "out": "GLOBAL_OUT", "scalar": "SCALAR"}


@dataclass(frozen=True, slots=True)
class GeneratedKernel:
    """The generated text of one kernel.

    Args:
        body: The text, without prelude.
        name: Name of the kernel that it defines.
        params: The kernel's parameters, in order.
        site_depths: Number of serial loops around each site, by site number. They must equal those in the
            text's ITER macros.
    """

    body: str
    name: str
    params: Sequence[ParamSpec]
    site_depths: Sequence[int] = ()


class EmulatedKernel:
    """A kernel compiled for the host; made by :func:`compile_emulated`.

    Args:
        text: Declarations of the generated text.
        lines: The generated text, for error messages.
        params: The parameters.
        library: The compiled library, which may hold several kernels.
        entry: Name of its exported function.
        traced: Whether launches count memory transactions.
        granule: Bytes of shared memory per shadow cell.
    """

    def __init__(
        self,
        text: KernelText,
        lines: Sequence[str],
        params: Sequence[ParamSpec],
        library: ctypes.CDLL,
        entry: str,
        *,
        traced: bool,
        granule: int,
    ) -> None:
        self.text = text
        self.params = tuple(params)
        self.traced = traced
        self._lines = tuple(lines)
        self._granule = granule
        self._entry = ctypes.cast(library[entry], ctypes.c_void_p).value
        # ctypes never unloads a library; thousands of kernels in one process would exhaust the mappings.
        weakref.finalize(self, _ctypes.dlclose, library._handle)

    @property
    def name(self) -> str:
        """Name of the kernel."""
        return self.text.name

    def launch(
        self,
        grid: Sequence[int],
        block: Sequence[int],
        shared_bytes: int,
        args: Sequence[Any],
        seed: int = 0,
        blocks: Sequence[Sequence[int]] | None = None,
        *,
        single_writer: bool = True,
        workers: int | None = None,
    ) -> Trace | None:
        """Run the kernel, writing into the arrays of its "out" parameters.

        Blocks are independent of each other, as in CUDA, and run on several processors. Within a block
        the threads run one after another up to the next barrier of the block or of their warp, in a new random order
        after each.

        Args:
            grid: Blocks in x, y, z.
            block: Threads of a block in x, y, z.
            shared_bytes: Dynamic shared memory of a block.
            args: One value for each parameter: C-contiguous arrays of ``count`` elements of any shape,
                and numbers for scalars.
            seed: Seed of the order of threads. A correct kernel gives the same result for every seed.
            blocks: Indices (x, y, z) of the blocks to run; all when left out.
            single_writer: Stop when two threads of the launch write the same element of global memory.
                Otherwise only accesses without a barrier between them stop the launch.
            workers: Number of operating system threads; by the size of the launch when left out.

        Returns:
            The counts if the kernel was compiled with ``traced``, else None.

        Raises:
            InputError: If the arguments do not fit the parameters.
            LaunchError: If CUDA would refuse the launch configuration.
            EmulatorError: If the behaviour of a thread is undefined. Of several errors in one launch, one of the
                first such block is reported. "Out" arrays are then partly written.
        """
        configuration = check_launch(self.text, grid, block, shared_bytes, blocks)
        run = Launch(self.text, self._lines, self.params, configuration, traced=self.traced)
        return run.execute(
            self._entry, args, seed=seed, granule=self._granule, single_writer=single_writer, workers=workers
        )


def compile_emulated(
    source_body: str,
    kernel_name: str,
    params: Sequence[ParamSpec],
    *,
    common_prelude: str,
    traced: bool = False,
    site_depths: Sequence[int] = (),
) -> EmulatedKernel:
    """Compile the generated text of one kernel for emulation.

    Args:
        source_body: Generated text, without prelude.
        kernel_name: Name of its kernel.
        params: Its parameters, in order.
        common_prelude: Text of the scalar helper functions.
        traced: Count memory transactions; see :mod:`autosched.runtime.emulator.trace`. Slower.
        site_depths: Number of serial loops around each site, by site number. They must equal those in the
            text's ITER macros.

    Returns:
        The kernel, ready to launch.

    Raises:
        InputError: If the text does not follow the generated code contract, or does not have these
            parameters.
        CompileError: If there is no C++ compiler, or it rejects the text.
    """
    kernel = GeneratedKernel(source_body, kernel_name, params, site_depths)
    return _compiled([kernel], common_prelude, traced)[0]


def compile_emulated_kernels(kernels: Sequence[GeneratedKernel], common_prelude: str) -> list[EmulatedKernel]:
    """Compile several kernels for emulation without tracing, at most `MAX_KERNELS_PER_FILE` in one file.

    The compiler's start, the prelude and the linker dominate the compile time of a small kernel.

    Args:
        kernels: The kernels, with different names.
        common_prelude: Text of the scalar helper functions of all of them.

    Raises:
        InputError: As `compile_emulated`.
        CompileError: As `compile_emulated`.
    """
    groups = [kernels[k : k + MAX_KERNELS_PER_FILE] for k in range(0, len(kernels), MAX_KERNELS_PER_FILE)]
    return [kernel for group in groups for kernel in _compiled(group, common_prelude, traced=False)]


def _compiled(kernels: Sequence[GeneratedKernel], common_prelude: str, traced: bool) -> list[EmulatedKernel]:
    """Compile kernels as one file; a traced kernel alone, since the prelude holds its site depths."""
    texts = [_checked_text(kernel) for kernel in kernels]
    granule = min((n for text in texts for n in text.shared_element_bytes), default=8)
    declarations = (f"void {text.name}({_declare(text.parameters)});" for text in texts)
    source = [
        emulator_prelude(traced=traced, granule=granule, site_depths=_site_depths(texts[0]) if traced else ()),
        '#line 1 "scalar helpers"',
        common_prelude,
        f"struct as_kernel : as_thread {{ {' '.join(declarations)} }};",
    ]
    for kernel, text in zip(kernels, texts, strict=True):
        source += [f'#line 1 "{text.name}"', kernel.body]
    source += ['#line 1 "entry"', *(_entry_point(text) for text in texts)]
    path = compile_kernels("\n".join(source))
    return [
        EmulatedKernel(
            text, kernel.body.splitlines(), kernel.params, load_library(path), _entry_name(text),
            traced=traced, granule=granule,
        )
        for kernel, text in zip(kernels, texts, strict=True)
    ]  # fmt: skip


def _checked_text(kernel: GeneratedKernel) -> KernelText:
    text = read_kernel_text(kernel.body)
    _check_parameters(text, kernel.name, kernel.params)
    if text.max_depth > MAX_LOOP_DEPTH:
        raise InputError(f"{kernel.name} nests {text.max_depth} serial loops; the emulator supports {MAX_LOOP_DEPTH}")
    if text.register_bytes > _MAX_REGISTER_BYTES:
        raise InputError(
            f"{kernel.name} declares {text.register_bytes} bytes of register arrays; CUDA allows a thread at most "
            f"{_MAX_REGISTER_BYTES}"
        )
    depths = _site_depths(text)
    if kernel.site_depths and list(kernel.site_depths) != depths:
        raise InputError(f"{kernel.name}: site depths {list(kernel.site_depths)} given, but the text has {depths}")
    return text


def _site_depths(text: KernelText) -> list[int]:
    return [text.sites[n].depth if n in text.sites else 0 for n in range(max(text.sites, default=-1) + 1)]


def _check_parameters(text: KernelText, kernel_name: str, params: Sequence[ParamSpec]) -> None:
    if text.name != kernel_name:
        raise InputError(f"the generated code defines {text.name}, not {kernel_name}")
    expected = [
        Parameter(_MACROS[p.kind], _declared_type(p), p.name, 1 if p.kind == "scalar" else p.count) for p in params
    ]
    if expected != text.parameters:
        differing = next(
            (pair for pair in zip(expected, text.parameters, strict=False) if pair[0] != pair[1]),
            (f"{len(expected)} parameters", f"{len(text.parameters)}"),
        )
        raise InputError(f"{kernel_name}: {differing[0]} expected, but the generated code has {differing[1]}")


def _declared_type(param: ParamSpec) -> str:
    name = np.dtype(param.dtype).name
    return "bool" if param.kind == "scalar" and name == "bool" else C_TYPES[name]


def _declare(parameters: Sequence[Parameter]) -> str:
    counts = {"GLOBAL_IN": ", {}", "GLOBAL_OUT": ", {}", "SCALAR": ""}
    return ", ".join(f"{p.macro}({p.c_type}, {p.name}{counts[p.macro].format(p.count)})" for p in parameters)


def _entry_name(text: KernelText) -> str:
    return f"as_entry_{text.name}"


def _entry_point(text: KernelText) -> str:
    """Return the exported function that calls the kernel with arguments from an array of pointers."""
    values = []
    for i, p in enumerate(text.parameters):
        if p.macro == "SCALAR":
            values.append(f"*(const {p.c_type}*)arguments[{i}]")
        elif p.macro == "GLOBAL_IN":
            values.append(f"as_global_in<{p.c_type}, {p.count}>{{(const {p.c_type}*)arguments[{i}], {i}}}")
        else:
            cells = f"thread->as_block_state->global_cells[{i}]"
            values.append(f"as_global_out<{p.c_type}, {p.count}>{{({p.c_type}*)arguments[{i}], {i}, {cells}}}")
    call = ",\n        ".join(values)
    return (
        'extern "C" __attribute__((visibility("default")))\n'
        f"void {_entry_name(text)}(as_thread* thread, void* const* arguments) {{\n"
        f"    static_cast<as_kernel*>(thread)->{text.name}(\n        {call});\n"
        "}\n"
    )
