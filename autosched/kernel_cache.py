"""Kernels made when they are first needed: one search and one compilation for each pipeline, shapes and device."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

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
"""Keywords of `autosched.schedule` that do not come from a call's arguments."""


@dataclass(frozen=True, slots=True)
class Invocation:
    """A pipeline with the arguments of one call.

    Attributes:
        pipeline: What to compute.
        arrays: The caller's array for each input, by name.
        shapes: Their shapes, by name.
        scalars: Value of each parameter, by name; those with a default may be missing.
        device: Where the arrays lie.
    """

    pipeline: Pipeline
    arrays: Mapping[str, Any]
    shapes: Mapping[str, tuple[int, ...]]
    scalars: Mapping[str, Scalar]
    device: ArrayDevice

    def check(self) -> None:
        """Refuse arrays that no kernel takes, before one is made for them.

        Raises:
            InputError: If an array is not contiguous, requires grad, or its memory is not accessible.
        """
        take = as_device_array if self.device.kind == "cuda" else as_host_array
        for i in self.pipeline.inputs:
            take(self.arrays[i.name], i.name, i.dtype, self.shapes[i.name])

    def call(self, kernel: CompiledPipeline) -> Any:
        """Return what a kernel made for this invocation computes."""
        return kernel({**self.arrays, **self.scalars})


class CacheInfo(NamedTuple):
    """How often kernels were found, like that of `functools.lru_cache`.

    Attributes:
        hits: Calls whose kernel was there.
        misses: Calls whose kernel had to be made, or was being made.
        currsize: Kernels that are kept.
    """

    hits: int
    misses: int
    currsize: int


@dataclass(frozen=True, slots=True)
class CompileOptions:
    """How kernels are made.

    Attributes:
        target: What to schedule for; where the arrays lie when left out.
        backend: As for `ScheduledPipeline.compile`.
        fast_math: As for `ScheduledPipeline.compile`.
        schedule: Further keywords of `autosched.schedule`.
    """

    target: str | Target | None
    backend: str | None
    fast_math: bool
    schedule: Mapping[str, Any]

    def target_for(self, device: ArrayDevice) -> str | Target:
        """Return what to schedule for, given where the arrays lie.

        Raises:
            InputError: If there is no GPU of that number.
        """
        if self.target is not None:
            return self.target
        return Target.detect(device.index) if device.kind == "cuda" else "cpu"


class KernelCache:
    """Schedules and compiles invocations when they first come; may be used from several threads.

    Threads that need the same kernel wait for one search; those that need different ones do not wait for each other.

    Args:
        options: How kernels are made.
    """

    def __init__(self, options: CompileOptions) -> None:
        self._options = options
        self._slots: dict[Hashable, _Slot] = {}
        self._built_in: dict[Pipeline, tuple[str, ...]] = {}
        self._lock = threading.Lock()
        self._hits = self._misses = 0

    def scheduled(self, invocation: Invocation) -> ScheduledPipeline:
        """Return the pipeline with a schedule for an invocation.

        Raises:
            InputError: As `autosched.schedule` does, which see for others too.
        """
        slot = self._slot(invocation)
        with slot.lock:
            return self._schedule(slot, invocation)

    def compiled(self, invocation: Invocation) -> CompiledPipeline:
        """Return the kernel for an invocation.

        Raises:
            CompileError: As `ScheduledPipeline.compile` does; otherwise as `scheduled`.
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
        """Return how often kernels were found, and how many there are."""
        with self._lock:
            kept = sum(slot.compiled is not None for slot in self._slots.values())
            return CacheInfo(self._hits, self._misses, kept)

    def clear(self) -> None:
        """Forget all kernels; those that are being made are finished for the calls that wait for them."""
        with self._lock:
            self._slots.clear()
            self._built_in.clear()
            self._hits = self._misses = 0

    def built_in(self, pipeline: Pipeline, scalars: Mapping[str, Scalar]) -> dict[str, Scalar]:
        """Return the parameters whose values are built into kernels, with their values as far as they are given."""
        names = self._built_in.get(pipeline)
        if names is None:
            names = self._built_in[pipeline] = tuple(p.name for p in specialised_params(pipeline))
        return {name: scalars[name] for name in names if name in scalars}

    def _slot(self, invocation: Invocation) -> _Slot:
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

    def _schedule(self, slot: _Slot, invocation: Invocation) -> ScheduledPipeline:
        """Return a slot's schedule, made now if it is not there; its lock is held."""
        if slot.scheduled is None:
            target = self._options.target_for(invocation.device)
            values = self.built_in(invocation.pipeline, invocation.scalars)
            slot.scheduled = schedule(invocation.pipeline, invocation.shapes, target, values, **self._options.schedule)
        return slot.scheduled


class _Slot:
    """A place for a kernel, and the lock of whoever makes it."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.scheduled: ScheduledPipeline | None = None
        self.compiled: CompiledPipeline | None = None


def check_options(options: Mapping[str, Any]) -> None:
    """Refuse keywords that `autosched.schedule` does not take beside pipeline, shapes, target and parameters.

    Raises:
        InputError: Naming the keyword and those there are.
    """
    for name in options:
        if name not in _SCHEDULE_OPTIONS:
            raise InputError(
                f"there is no option {name!r} for scheduling on the first call; there is target, backend, fast_math, "
                f"{', '.join(_SCHEDULE_OPTIONS)}"
            )
