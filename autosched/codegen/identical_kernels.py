"""Kernels of equal text up to names, such as sweeps of a smoother, which share one compiled function.

    // computes sweep_1                     // computes sweep_2
    KERNEL(sweep_1, 256)(                   KERNEL(sweep_2, 256)(
        GLOBAL_IN(double, in, 64),              GLOBAL_IN(double, sweep_1, 64),
        GLOBAL_OUT(double, sweep_1, 64))        GLOBAL_OUT(double, sweep_2, 64))

Both are launched as the first, each with its own arrays. Candidates that are measured are compiled with canonical
names, so that kernels of different schedules and pipelines share code, too:

    KERNEL(as_kernel_5f0c1a2b, 256)(
        GLOBAL_IN(double, as_name_1, 64),
        GLOBAL_OUT(double, as_name_2, 64))
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace

from autosched.codegen.cuda import CudaKernel, print_passed_cuda
from autosched.lower.ir import Alloc, For, KernelIR, Let, LetIndex, LetVector, walk
from autosched.lower.pipelines import CUDA_PASSES, run_passes

_TOKEN = re.compile(r"//[^\n]*|(?<![\w.])[A-Za-z_]\w*")
"""A comment or a name; suffixes of numbers and members are no names."""
_CANONICAL = "as_name_{}"
"""Canonical name by number; names of pipelines have no prefix ``as_``."""
_KERNEL = "as_kernel_{}"
"""Canonical name of a CUDA kernel by digest: kernels that are compiled as one program have different names."""


def canonical_text(text: str, kernel: KernelIR) -> str:
    """Return a kernel's text without comments, its own names replaced by numbered ones in order of appearance.

    The text is a valid kernel. A name that is not replaced only keeps kernels from sharing.

    Args:
        text: The printed kernel.
        kernel: The kernel, after the passes of its backend.
    """
    own = set(_own_names(kernel))
    numbers: dict[str, str] = {}

    def replaced(token: re.Match[str]) -> str:
        name = token[0]
        if name.startswith("//"):
            return ""
        return numbers.setdefault(name, _CANONICAL.format(len(numbers))) if name in own else name

    return _TOKEN.sub(replaced, text)


def _own_names(kernel: KernelIR) -> Iterator[str]:
    """Yield the names that a kernel declares: itself, its parameters, loops and local variables."""
    yield kernel.name
    yield from (b.name for b in (*kernel.reads, *kernel.writes))
    yield from (slot.buffer.name for slot in kernel.shared)
    yield from (s.name for s in kernel.scalars)
    yield from (name for name, _ in (*kernel.grid_loops, *kernel.step_loops))
    if kernel.step:
        yield kernel.step
    for s in walk(kernel.body):
        match s:
            case For() | Let() | LetIndex() | LetVector():
                yield s.name
            case Alloc():
                yield s.buffer.name


def rename_kernel(text: str, name: str) -> str:
    """Return a canonical text in which the kernel, whose name is the first of its own names, has another name."""
    return re.sub(rf"\b{_CANONICAL.format(0)}\b", name, text, count=1)


def canonicalise_names(printed: CudaKernel, kernel: KernelIR) -> CudaKernel:
    """Return a kernel's function with canonical names; functions that are equal up to names have equal bodies.

    Launches are those of the given kernel, whose parameters keep the names of its arrays.

    Args:
        printed: The printed kernel.
        kernel: The kernel, after `CUDA_PASSES`.
    """
    text = canonical_text(printed.body, kernel)
    name = _KERNEL.format(hashlib.sha256(f"{printed.shared_bytes}\n{text}".encode()).hexdigest()[:32])
    return replace(printed, name=name, body=rename_kernel(text, name))


def print_with_canonical_names(kernel: KernelIR) -> tuple[CudaKernel, CudaKernel]:
    """Run `CUDA_PASSES` on a kernel and return it as CUDA C, with its own names and with canonical ones."""
    passed = run_passes(kernel, CUDA_PASSES)
    printed = print_passed_cuda(passed)
    return printed, canonicalise_names(printed, passed)


def share_cuda_kernels(kernels: Iterable[KernelIR]) -> tuple[CudaKernel, ...]:
    """Return printed kernels in order; each that equals an earlier one up to names has its name and text.

    Args:
        kernels: The kernels, before `CUDA_PASSES`.
    """
    first: dict[tuple[object, ...], CudaKernel] = {}
    shared = []
    for kernel in kernels:
        passed = run_passes(kernel, CUDA_PASSES)
        printed = print_passed_cuda(passed)
        text = canonical_text(printed.body, passed)
        launch = printed.grid, printed.block, printed.shared_bytes, printed.launches, printed.is_ordered
        same = first.setdefault((text, *launch), printed)
        shared.append(printed if same is printed else replace(printed, name=same.name, body=same.body))
    return tuple(shared)


def distinct_kernels(kernels: Iterable[CudaKernel]) -> tuple[CudaKernel, ...]:
    """Return the first kernel of each name, in order."""
    first: dict[str, CudaKernel] = {}
    for kernel in kernels:
        first.setdefault(kernel.name, kernel)
    return tuple(first.values())
