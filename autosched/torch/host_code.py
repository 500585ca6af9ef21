"""Calls of a compiled region on the CPU, by addresses alone."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from autosched.runtime.compile.shared_library import load_function, load_library
from autosched.torch.host_plan import HostPlan, ResultForm

SERIAL_ELEMENTS = 1 << 15
"""Most elements of a call that runs in the caller's thread alone: waking others takes longer."""

_scratch = threading.local()


class HostCode:
    """A compiled region on the CPU.

    Args:
        plan: The plan of its calls.

    Raises:
        CompileError: If its library cannot be loaded.
        CacheError: If its file system does not allow code to run.
    """

    def __init__(self, plan: HostPlan) -> None:
        self.plan = plan
        self._entry: Any = None
        self._threads: tuple[Any, Any] | None = None
        if plan.library is not None:
            self._entry = load_function(plan.library, plan.entry, parameters=2)
            if plan.elements <= SERIAL_ELEMENTS:
                self._threads = thread_limits(plan.library)
        self._pointers = ctypes.c_void_p * max(len(plan.addresses), 1)
        self._template = [plan.constants[k].data_ptr() if kind == "constant" else 0 for kind, k in plan.addresses]
        self._arguments = [(at, k, plan.alignments[k]) for at, k in self._places("argument")]
        self._results = self._places("result")
        self._checks = self._places("check")
        self._workspace = self._places("workspace")
        self._forms = [
            (k, r.shape, r.strides, r.dtype) for k, r in enumerate(plan.results) if isinstance(r, ResultForm)
        ]

    def _places(self, wanted: str) -> list[tuple[int, int]]:
        return [(at, k) for at, (kind, k) in enumerate(self.plan.addresses) if kind == wanted]

    def __call__(self, *arguments: Any) -> Any:
        """Compute the region for tensors of the sizes, strides and types that it was compiled for.

        Raises:
            IndexError: If an index is out of range; other checks raise their errors.
        """
        plan = self.plan
        results: list[Any] = list(plan.results)
        for k, shape, strides, dtype in self._forms:
            results[k] = torch.empty_strided(shape, strides, dtype=dtype)
        if self._entry is not None:
            self._run(arguments, results)
        return tuple(results) if plan.is_tuple else results[0]

    def _run(self, arguments: Sequence[Any], results: Sequence[Any]) -> None:
        addresses = self._template.copy()
        copies: list[torch.Tensor] = []
        for at, k, alignment in self._arguments:
            tensor = arguments[k]
            address = tensor.data_ptr()
            if address % alignment or tensor.is_neg():  # of a buffer of bytes, or negated later
                copies.append(plain_copy(tensor))
                address = copies[-1].data_ptr()
            addresses[at] = address
        for at, k in self._results:
            addresses[at] = results[k].data_ptr()
        if self._workspace:
            base = _workspace(self.plan.workspace_bytes).data_ptr()
            for at, offset in self._workspace:
                addresses[at] = base + offset
        if not self._checks:
            self._compute(self._pointers(*addresses))
            return
        flags = (ctypes.c_uint8 * len(self.plan.checks))()
        first = ctypes.addressof(flags)
        for at, k in self._checks:
            addresses[at] = first + k
        self._compute(self._pointers(*addresses))
        for flag, (error, text) in zip(flags, self.plan.checks, strict=True):
            if flag:
                raise error(text)

    def _compute(self, pointers: Any) -> None:
        if self._threads is None:
            self._entry(pointers, None)
            return
        threads, set_threads = self._threads
        before = threads()
        if before == 1:
            self._entry(pointers, None)
            return
        set_threads(1)  # of this Python thread
        try:
            self._entry(pointers, None)
        finally:
            set_threads(before)


def plain_copy(tensor: torch.Tensor) -> torch.Tensor:
    """Return a copy with the same strides whose memory holds the values."""
    copy = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device=tensor.device)
    if not tensor.numel():
        return copy
    span = 1 + sum((n - 1) * s for n, s in zip(tensor.shape, tensor.stride(), strict=True))
    flat = copy.as_strided((span,), (1,))
    flat.copy_(tensor.detach().as_strided((span,), (1,)))
    return copy


def _workspace(size: int) -> torch.Tensor:
    """Return this thread's memory for intermediate results: fresh pages cost more than a small kernel."""
    memory: torch.Tensor | None = getattr(_scratch, "memory", None)
    if memory is None or memory.numel() < size:
        memory = _scratch.memory = torch.empty(size, dtype=torch.uint8)
    return memory


def thread_limits(library: Path) -> tuple[Any, Any] | None:
    """Return the functions that get and set the most threads of the caller's kernels; None without OpenMP."""
    loaded = load_library(library)
    try:
        return loaded.omp_get_max_threads, loaded.omp_set_num_threads
    except AttributeError:
        return None
