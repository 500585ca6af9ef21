"""Cache of kernels: one search and one compilation per pipeline, shapes and device."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from autosched.analysis.specialise import specialised_params
from autosched.api import schedule
from autosched.errors import InputError
from autosched.lang.expr import Scalar
from autosched.lang.pipeline import Pipeline
from autosched.runtime.call.buffers import as_device_array, as_host_array
from autosched.runtime.call.compiled import CompiledPipeline
from autosched.runtime.call.frameworks import ArrayDevice
from autosched.scheduled_pipeline import ScheduledPipeline
from autosched.target import Target

_SCHEDULE_OPTIONS = tuple(
    name
    for name in inspect.signature(schedule).parameters
    if name not in ("pipeline", "shapes", "target", "params", "inputs")
)
"""Keywords of `autosched.schedule` that are options of a jit function."""


class Compilable(Protocol):
    """A pipeline with a schedule."""

    def compile(self, backend: str | None = None, *, fast_math: bool = False) -> CompiledPipeline:
        """Compile it."""


S = TypeVar("S", bound=Compilable)


@dataclass(frozen=True, slots=True)
class Invocation:
    """A pipeline with the arguments of one call.

    Attributes:
        pipeline: The pipeline.
        arrays: The caller's array for each input, by name.
        shapes: Their shapes, by name.
        scalars: Value of each parameter, by name; those with a default may be missing.
        device: The arrays' device.
    """

    pipeline: Pipeline
    arrays: Mapping[str, Any]
    shapes: Mapping[str, tuple[int, ...]]
    scalars: Mapping[str, Scalar]
    device: ArrayDevice

    def check(self) -> None:
        """Refuse unusable arrays before a kernel is made for them.

        Raises:
            InputError: If an array is not contiguous, requires grad, or its memory is not accessible.
        """
        take = as_device_array if self.device.kind == "cuda" else as_host_array
        for i in self.pipeline.inputs:
            take(self.arrays[i.name], i.name, i.dtype, self.shapes[i.name])

    def call(self, kernel: CompiledPipeline) -> Any:
        """Call a kernel of this invocation."""
        return kernel({**self.arrays, **self.scalars})


class CacheInfo(NamedTuple):
    """Statistics of a kernel cache, as of `functools.lru_cache`.

    Attributes:
        hits: Calls with a cached kernel.
        misses: Calls without one, also while it is being made.
        currsize: Number of cached kernels.
    """

    hits: int
    misses: int
    currsize: int


@dataclass(frozen=True, slots=True)
class CompileOptions:
    """Options of scheduling and compilation.

    Attributes:
        target: The device; that of the arrays when left out.
        backend: As for `ScheduledPipeline.compile`.
        fast_math: As for `ScheduledPipeline.compile`.
        schedule: Further keywords of `autosched.schedule`.
    """

    target: str | Target | None
    backend: str | None
    fast_math: bool
    schedule: Mapping[str, Any]

    def target_for(self, device: ArrayDevice) -> str | Target:
        """Return the target for arrays on a device.

        Raises:
            InputError: If there is no GPU of that number.
        """
        if self.target is not None:
            return self.target
        return Target.detect(device.index) if device.kind == "cuda" else "cpu"


class KernelCache(Generic[S]):
    """Cache that schedules and compiles new invocations; may be used from several threads.

    Threads that need the same kernel wait for one search; threads with different kernels run concurrently.

    Args:
        options: Options of scheduling and compilation.
        scheduler: Finds the schedule of a pipeline, from shapes, target, values of parameters and further keywords.
    """

    def __init__(self, options: CompileOptions, scheduler: Callable[..., S]) -> None:
        self._options = options
        self._scheduler = scheduler
        self._slots: dict[Hashable, _Slot[S]] = {}
        self._built_in: dict[Pipeline, tuple[str, ...]] = {}
        self._lock = threading.Lock()
        self._hits = self._misses = 0

    def scheduled(self, invocation: Invocation) -> S:
        """Return the pipeline with a schedule for an invocation.

        Raises:
            InputError: As for `autosched.schedule`, whose other errors apply too.
        """
        slot = self._slot(invocation)
        with slot.lock:
            return self._schedule(slot, invocation)

    def compiled(self, invocation: Invocation) -> CompiledPipeline:
        """Return the kernel for an invocation.

        Raises:
            CompileError: As for `ScheduledPipeline.compile`; otherwise as for `scheduled`.
        """
        slot = self._slot(invocation)
        kernel = slot.compiled
        with self._lock:
            self._hits += kernel is not None
            self._misses += kernel is None
        if kernel is not None:
            return kernel
        invocation.check()
        with slot.lock:
            if slot.compiled is None:
                options = self._options
                scheduled = self._schedule(slot, invocation)
                slot.compiled = scheduled.compile(options.backend, fast_math=options.fast_math)
            return slot.compiled

    def info(self) -> CacheInfo:
        """Return hits, misses and size."""
        with self._lock:
            kept = sum(slot.compiled is not None for slot in self._slots.values())
            return CacheInfo(self._hits, self._misses, kept)

    def clear(self) -> None:
        """Clear the cache; kernels in progress are finished for their waiting calls."""
        with self._lock:
            self._slots.clear()
            self._built_in.clear()
            self._hits = self._misses = 0

    def built_in(self, pipeline: Pipeline, scalars: Mapping[str, Scalar]) -> dict[str, Scalar]:
        """Return the given values of parameters that are built into kernels."""
        names = self._built_in.get(pipeline)
        if names is None:
            names = self._built_in[pipeline] = tuple(p.name for p in specialised_params(pipeline))
        return {name: scalars[name] for name in names if name in scalars}

    def _slot(self, invocation: Invocation) -> _Slot[S]:
        values = self.built_in(invocation.pipeline, invocation.scalars)
        key = (
            invocation.pipeline,  # compared by identity
            tuple(invocation.shapes.items()),
            tuple(values.items()),
            invocation.device if self._options.target is None else None,
        )
        with self._lock:
            slot = self._slots.get(key)
            if slot is None:
                slot = self._slots[key] = _Slot()
            return slot

    def _schedule(self, slot: _Slot[S], invocation: Invocation) -> S:
        """Return a slot's schedule, from a search if needed; the caller holds its lock."""
        if slot.scheduled is None:
            target = self._options.target_for(invocation.device)
            values = self.built_in(invocation.pipeline, invocation.scalars)
            slot.scheduled = self._scheduler(
                invocation.pipeline, invocation.shapes, target, values, **self._options.schedule
            )
        return slot.scheduled


class _Slot(Generic[S]):
    """A cache entry with the lock of the thread that makes it."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.scheduled: S | None = None
        self.compiled: CompiledPipeline | None = None


def schedule_pipeline(*args: Any, **options: Any) -> ScheduledPipeline:
    """Return the schedule of a pipeline, as `autosched.schedule`."""
    return schedule(*args, **options)


def check_options(options: Mapping[str, Any], further: tuple[str, ...] = ()) -> None:
    """Refuse keywords that are no options of `autosched.schedule`.

    Args:
        options: The keywords.
        further: Names of further options.

    Raises:
        InputError: With the keyword and the available ones.
    """
    for name in options:
        if name not in (*_SCHEDULE_OPTIONS, *further):
            raise InputError(
                f"there is no option {name!r} for scheduling on the first call; there is target, backend, fast_math, "
                f"{', '.join((*_SCHEDULE_OPTIONS, *further))}"
            )
