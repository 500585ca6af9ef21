"""One emulated launch: check configuration and arguments, run, read back errors and counts."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from autosched.errors import InputError, LaunchError
from autosched.runtime.emulator.errors import EmulatorError, ErrorKind, Index3
from autosched.runtime.emulator.kernel_text import KernelText, Site
from autosched.runtime.emulator.native import ErrorReport, LaunchArguments, load_runtime
from autosched.runtime.emulator.params import ParamSpec
from autosched.runtime.emulator.trace import (
    BUFFER_COLUMNS,
    SITE_COLUMNS,
    Counts,
    Trace,
    footprint_from_columns,
)
from autosched.settings import available_cpus

# CUDA's limits on every architecture that it supports, in x, y, z.
_MAX_GRID = (2**31 - 1, 65535, 65535)
_MAX_BLOCK = (1024, 1024, 64)
_MAX_THREADS = 1024

# The emulator packs a block's number into 28 bits.
_MAX_BLOCKS = 1 << 28

_WARP_SIZE = 32

# With fewer threads than this, another operating system thread costs more than it saves.
_THREADS_PER_WORKER = 16384


@dataclass(frozen=True, slots=True)
class Configuration:
    """A checked launch configuration; ``blocks`` holds the linear indices of the blocks to run."""

    grid: Index3
    block: Index3
    shared_bytes: int
    blocks: npt.NDArray[np.uint64]

    @property
    def threads(self) -> int:
        """Threads of one block."""
        return self.block[0] * self.block[1] * self.block[2]


def check_launch(
    text: KernelText,
    grid: Sequence[int],
    block: Sequence[int],
    shared_bytes: int,
    blocks: Sequence[Sequence[int]] | None,
) -> Configuration:
    """Return the checked configuration of a launch.

    Raises:
        LaunchError: If the configuration exceeds CUDA's limits, or the grid is too large to emulate.
    """
    grid3, block3 = _index3("grid", grid), _index3("block", block)
    for axis_kind, sizes, limits in (("grid", grid3, _MAX_GRID), ("block", block3, _MAX_BLOCK)):
        if any(not 1 <= size <= limit for size, limit in zip(sizes, limits, strict=True)):
            raise LaunchError(f"{text.name}: {axis_kind} {sizes} is not within 1 and {limits}")
    threads, count = block3[0] * block3[1] * block3[2], grid3[0] * grid3[1] * grid3[2]
    if threads > min(text.max_threads, _MAX_THREADS):
        raise LaunchError(f"{text.name}: {threads} threads per block, but it was compiled for {text.max_threads}")
    if blocks is None and count >= _MAX_BLOCKS:
        raise LaunchError(f"{text.name}: a grid of {count} blocks is too large to emulate; pass a subset of its blocks")
    if shared_bytes < 0:
        raise LaunchError(f"{text.name}: {shared_bytes} bytes of shared memory; give 0 or more")
    return Configuration(grid3, block3, shared_bytes, _linear_blocks(text.name, grid3, count, blocks))


def _index3(what: str, values: Sequence[int]) -> Index3:
    if len(values) != 3:
        raise LaunchError(f"{what} {tuple(values)} does not have the three sizes x, y, z")
    return (int(values[0]), int(values[1]), int(values[2]))


def _linear_blocks(
    name: str, grid: Index3, count: int, blocks: Sequence[Sequence[int]] | None
) -> npt.NDArray[np.uint64]:
    if blocks is None:
        return np.arange(count, dtype=np.uint64)
    linear = []
    for index in blocks:
        x, y, z = _index3("block index", index)
        if not (0 <= x < grid[0] and 0 <= y < grid[1] and 0 <= z < grid[2]):
            raise LaunchError(f"{name}: block {(x, y, z)} is not in the grid {grid}")
        linear.append(x + grid[0] * (y + grid[1] * z))
    # In launch order without duplicates: a block that runs twice would race with itself.
    return np.unique(np.array(linear, dtype=np.uint64))


class Launch:
    """A launch of one kernel with one configuration.

    Args:
        text: Declarations of the generated text.
        lines: The generated text.
        params: The kernel's parameters.
        configuration: Checked grid, block and shared memory.
        traced: Whether the kernel was compiled to record accesses.
    """

    def __init__(
        self,
        text: KernelText,
        lines: Sequence[str],
        params: Sequence[ParamSpec],
        configuration: Configuration,
        *,
        traced: bool,
    ) -> None:
        self._text = text
        self._lines = lines
        self._params = params
        self._configuration = configuration
        self._traced = traced

    def execute(
        self,
        entry: int | None,
        args: Sequence[Any],
        *,
        seed: int,
        granule: int,
        single_writer: bool,
        workers: int | None,
    ) -> Trace | None:
        """Run the blocks; see :meth:`autosched.runtime.emulator.kernel.EmulatedKernel.launch`."""
        configuration, params = self._configuration, self._params
        arrays = self._check_arguments(args)
        pointers = (ctypes.c_void_p * max(len(arrays), 1))(*(a.ctypes.data for a in arrays))
        written = np.array([p.count if p.kind == "out" else 0 for p in params], dtype=np.uint64)
        site_count = max(self._text.sites, default=-1) + 1
        site_counts = np.zeros((site_count, len(SITE_COLUMNS)), np.int64)
        parameter_counts = np.zeros((len(params), len(BUFFER_COLUMNS)), np.int64)
        barriers, warp_barriers, shuffles = ctypes.c_uint64(0), ctypes.c_uint64(0), ctypes.c_uint64(0)
        report = ErrorReport()
        arguments = LaunchArguments(
            entry=entry,
            arguments=pointers,
            grid=configuration.grid,
            block=configuration.block,
            shared_bytes=configuration.shared_bytes,
            seed=seed & (2**64 - 1),
            stack_bytes=self._stack_bytes(),
            blocks=configuration.blocks.ctypes.data,
            block_count=len(configuration.blocks),
            written_counts=written.ctypes.data,
            parameter_count=len(params),
            workers=self._workers(workers),
            use_fibers=self._text.has_barrier or self._text.has_shuffle,
            single_writer=single_writer,
            granule=granule,
            site_count=site_count,
            site_counts=site_counts.ctypes.data if self._traced else None,
            parameter_counts=parameter_counts.ctypes.data if self._traced else None,
            barriers=ctypes.pointer(barriers),
            warp_barriers=ctypes.pointer(warp_barriers),
            shuffles=ctypes.pointer(shuffles),
            error=ctypes.addressof(report),
        )
        if load_runtime().as_emulator_launch(ctypes.byref(arguments)):
            raise self._error(report)
        if not self._traced:
            return None
        return self._trace(site_counts, parameter_counts, barriers.value, warp_barriers.value, shuffles.value)

    def _check_arguments(self, args: Sequence[Any]) -> list[npt.NDArray[Any]]:
        """Return an array for each argument; a scalar becomes an array of one element."""
        if len(args) != len(self._params):
            raise InputError(f"{self._text.name} takes {len(self._params)} arguments, not {len(args)}")
        arrays = [self._check_argument(p, value) for p, value in zip(self._params, args, strict=True)]
        for i, param in enumerate(self._params):
            for other, array in zip(self._params, arrays, strict=True):
                if param.kind == "out" and other is not param and np.may_share_memory(arrays[i], array):
                    raise InputError(f"{self._text.name}: {param.name} overlaps {other.name} in memory")
        return arrays

    def _check_argument(self, param: ParamSpec, value: Any) -> npt.NDArray[Any]:
        where = f"{self._text.name}: {param.name}"
        if param.kind == "scalar":
            return np.array([value], dtype=param.dtype)
        if not isinstance(value, np.ndarray) or value.dtype != param.dtype or value.size != param.count:
            actual = f"{value.size} of {value.dtype}" if isinstance(value, np.ndarray) else type(value).__name__
            raise InputError(f"{where} is an array of {param.count} elements of {param.dtype}, not {actual}")
        if not value.flags.c_contiguous or not value.flags.aligned:
            fix = "a new array from numpy.empty" if param.kind == "out" else "numpy.ascontiguousarray(...)"
            raise InputError(f"{where} is not C-contiguous: pass {fix}")
        if param.kind == "out" and not value.flags.writeable:
            raise InputError(f"{where} is written by the kernel, but the array is read-only")
        return value

    def _stack_bytes(self) -> int:
        """Return an upper bound on the bytes of a thread's stack; untouched pages cost nothing.

        The stack holds register arrays with a written bit per element, and in a long unrolled body a temporary for
        each expression.
        """
        return (1 << 16) + 2 * self._text.register_bytes + 2 * sum(map(len, self._lines))

    def _workers(self, workers: int | None) -> int:
        blocks = len(self._configuration.blocks)
        if workers is None:
            workers = min(available_cpus(), 1 + blocks * self._configuration.threads // _THREADS_PER_WORKER)
        return max(1, min(workers, blocks))

    def _error(self, report: ErrorReport) -> EmulatorError:
        line = report.line
        return EmulatorError(
            ErrorKind(report.kind),
            kernel=self._text.name,
            block=_triple(report.block),
            thread=_triple(report.thread),
            line=line,
            source=self._lines[line - 1].strip() if 0 < line <= len(self._lines) else "",
            buffer=report.buffer.decode(),
            index=report.index,
            other_thread=_triple(report.other_thread) if report.has_other else None,
            other_line=report.other_line,
        )

    def _trace(
        self, site_counts: Counts, parameter_counts: Counts, barriers: int, warp_barriers: int, shuffles: int
    ) -> Trace:  # fmt: skip
        absent = Site(False, "", cast(Any, ""), 0, 0, 0)
        sites = [self._text.sites.get(n, absent) for n in range(len(site_counts))]
        columns = {name: site_counts[:, i] for i, name in enumerate(SITE_COLUMNS)}
        of_parameters = {name: parameter_counts[:, i] for i, name in enumerate(BUFFER_COLUMNS)}
        blocks, threads = len(self._configuration.blocks), self._configuration.threads
        sizes = np.array([np.dtype(p.dtype).itemsize for p in self._params], np.int64)
        return Trace(
            kernel=self._text.name,
            blocks=blocks,
            warps=blocks * -(-threads // _WARP_SIZE),
            threads=blocks * threads,
            barriers=barriers,
            warp_barriers=warp_barriers,
            shuffles=shuffles,
            buffer=tuple(site.buffer for site in sites),
            space=tuple(site.space for site in sites),
            is_store=np.array([site.store for site in sites], np.bool_),
            element_bytes=np.array([site.element_bytes for site in sites], np.int64),
            length=np.array([site.length for site in sites], np.int64),
            line=np.array([site.line for site in sites], np.int64),
            **{name: columns[name] for name in SITE_COLUMNS[:5]},
            footprint=footprint_from_columns(columns, np.ones(len(sites), np.int64), blocks),
            parameter_names=tuple(p.name for p in self._params),
            parameter_footprint=footprint_from_columns(of_parameters, sizes, blocks),
        )


def _triple(values: ctypes.Array[ctypes.c_uint]) -> Index3:
    x, y, z = values
    return (int(x), int(y), int(z))
