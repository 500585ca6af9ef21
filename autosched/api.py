"""From a pipeline to a function on arrays: schedule, look at the result, compile, call."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

from autosched.analysis.bind import bind
from autosched.analysis.bound import BoundPipeline
from autosched.codegen.c import print_c
from autosched.codegen.cuda import cuda_prelude, print_cuda
from autosched.codegen.prelude import called_scalar_functions, scalar_prelude
from autosched.errors import InputError
from autosched.lang.expr import Scalar
from autosched.lang.pipeline import Pipeline
from autosched.lower.program import Program, lower
from autosched.runtime.compiled import CompiledPipeline
from autosched.runtime.executable import as_backend, choose_backend, make_executable
from autosched.runtime.signature import CallSignature
from autosched.schedule.serialise import load_schedule as read_schedule
from autosched.schedule.serialise import save_schedule
from autosched.schedule.text import schedule_text
from autosched.schedule.types import Schedule
from autosched.schedule.validate import validate
from autosched.search.strategy import STRATEGIES, Found, Strategy
from autosched.target import Target, get_target

Shapes = Mapping[str, Sequence[int]]


class ScheduledPipeline:
    """A pipeline with concrete shapes and a legal schedule for a target.

    Args:
        bound: The pipeline with its shapes.
        schedule: A schedule of it.
        target: What the schedule was made for.
        params: Values of run-time parameters, used where a call does not pass them.
        found: The search that the schedule comes from: other schedules it found, and what it did.

    Raises:
        ScheduleError: If the schedule is not legal for the pipeline, its shapes and the target.
        InputError: If a parameter's value does not fit.
    """

    def __init__(
        self,
        bound: BoundPipeline,
        schedule: Schedule,
        target: Target,
        params: Mapping[str, Scalar] | None = None,
        found: Found | None = None,
    ) -> None:
        validate(bound, schedule, target)
        self.bound = bound
        self.schedule = schedule
        self.target = target
        self.found = found
        self.signature = CallSignature.of(bound, params)

    @cached_property
    def program(self) -> Program:
        """The kernels as lowered from the schedule."""
        return lower(self.bound, self.schedule)

    def text(self) -> str:
        """Return the schedule as an indented loop nest."""
        return schedule_text(self.bound, self.schedule)

    def source(self, backend: str = "cuda") -> str:
        """Return the generated code.

        Args:
            backend: ``cuda`` for CUDA C (the emulator runs the same text), ``cpu`` for C with OpenMP.

        Returns:
            A complete file that includes nothing.

        Raises:
            InputError: If the backend generates no code.
        """
        match backend:
            case "cuda" | "emulator":
                body = "\n".join(print_cuda(kernel).body for kernel in self.program.kernels)
                return f"{cuda_prelude()}\n{scalar_prelude(called_scalar_functions(body))}\n{body}"
            case "cpu":
                return print_c(self.program).text
        raise InputError(f"backend {backend!r} generates no code; there is cuda, cpu and emulator")

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the schedule as JSON; the file is replaced whole or not at all.

        Raises:
            InputError: If the file cannot be written.
        """
        save_schedule(path, self.bound, self.schedule)

    def compile(self, backend: str | None = None, *, fast_math: bool = False) -> CompiledPipeline:
        """Compile the pipeline.

        Args:
            backend: ``cuda``, ``cpu``, ``emulator`` or ``interpreter``. When left out: the GPU if the schedule was
                made for one and one can be used; else C; without a C compiler, with a warning, the NumPy interpreter.
                ``cuda`` needs no GPU to compile, only to be called.
            fast_math: Let the CUDA compiler approximate division, square roots and elementary functions and flush
                subnormal numbers to zero: faster, no longer exact. The other backends stay exact.

        Raises:
            CompileError: If a compiler is missing or refuses the generated code.
            InputError: If there is no such backend, or it does not fit the target.
        """
        chosen = choose_backend(self.target) if backend is None else as_backend(backend)
        executable = make_executable(
            self.bound, lambda: self.program, self.signature, self.target, chosen, fast_math=fast_math
        )
        return CompiledPipeline(self.signature, executable, chosen)

    def __repr__(self) -> str:
        kernels = len(self.schedule.kernels)
        return f"<ScheduledPipeline {self.bound.pipeline.name}: {kernels} kernels for {self.target.name}>"


def schedule(
    pipeline: Pipeline,
    shapes: Shapes | None = None,
    target: str | Target = "h200",
    params: Mapping[str, Scalar] | None = None,
    *,
    inputs: Mapping[str, Any] | None = None,
    strategy: str | Strategy = "roots",
    seed: int = 0,
    seconds: float | None = None,
) -> ScheduledPipeline:
    """Find a schedule for a pipeline; takes no GPU.

    Args:
        pipeline: What to compute.
        shapes: Shape of every input by name.
        target: What to schedule for: a name such as ``h200``, ``cpu``, ``cuda`` (the GPU of this machine), or a
            `Target`.
        params: Values of parameters. Those that reach an index or a domain are built into the kernels; the others
            serve where a call does not pass them.
        inputs: Arrays to take the shapes from, instead of ``shapes``.
        strategy: How to search: ``roots`` at once, with every stage in a kernel of its own unless it is cheap to
            inline; ``beam`` in seconds, for the fastest predicted schedule; or a `Strategy`.
        seed: Source of randomness; the same seed finds the same schedule.
        seconds: Time budget of the search; when it ends, the most promising way is followed to its end.

    Returns:
        The pipeline with its schedule.

    Raises:
        InputError: For shapes, parameters, target or strategy that do not fit.
        BoundsError: If a stage reads outside an input, with stage, index and range.
        DSLError: If no output box is declared and none can be deduced.
    """
    if isinstance(strategy, str):
        if strategy not in STRATEGIES:
            raise InputError(f"unknown strategy {strategy!r}; there is {', '.join(STRATEGIES)}")
        strategy = STRATEGIES[strategy]
    chosen = _as_target(target)
    bound = bind(pipeline, _shapes_of(pipeline, shapes, inputs), params)
    found = strategy.search(bound, chosen, seed=seed, seconds=seconds)
    return ScheduledPipeline(bound, found.best, chosen, params, found)


def load_schedule(
    path: str | os.PathLike[str],
    pipeline: Pipeline,
    shapes: Shapes | None = None,
    target: str | Target = "h200",
    params: Mapping[str, Scalar] | None = None,
    *,
    inputs: Mapping[str, Any] | None = None,
) -> ScheduledPipeline:
    """Return a pipeline with a schedule read from a JSON file.

    Args:
        path: A file that `ScheduledPipeline.save` wrote.
        pipeline: The pipeline it was made for.
        shapes: As for `schedule`.
        target: As for `schedule`.
        params: As for `schedule`.
        inputs: As for `schedule`.

    Raises:
        ScheduleError: If the file is no schedule, of another version or pipeline, or illegal for shapes or target.
        InputError: If the file cannot be read; otherwise as for `schedule`.
    """
    chosen = _as_target(target)
    bound = bind(pipeline, _shapes_of(pipeline, shapes, inputs), params)
    return ScheduledPipeline(bound, read_schedule(path, bound), chosen, params)


def _as_target(target: str | Target) -> Target:
    return target if isinstance(target, Target) else get_target(target)


def _shapes_of(pipeline: Pipeline, shapes: Shapes | None, inputs: Mapping[str, Any] | None) -> Shapes:
    """Return the shapes, given as such or as arrays."""
    if not isinstance(pipeline, Pipeline):
        raise InputError(f"a {type(pipeline).__name__} cannot be scheduled; pass a Pipeline: Pipeline([output])")
    if shapes is not None and inputs is not None:
        raise InputError("give either shapes or inputs, not both")
    if inputs is not None:
        return {name: _shape_of(name, value) for name, value in inputs.items()}
    if shapes is None and pipeline.inputs:
        example = ", ".join(f"{i.name!r}: ({', '.join(i.dims)}{',' * (i.ndim == 1)})" for i in pipeline.inputs)
        raise InputError(
            f"pipeline {pipeline.name!r} needs the shapes of its inputs: "
            f"pass shapes={{{example}}}, or the arrays as inputs={{...}}"
        )
    return shapes or {}


def _shape_of(name: str, value: Any) -> tuple[int, ...]:
    shape = getattr(value, "shape", None)
    if shape is None:
        raise InputError(f"input {name!r}: got a value of type {type(value).__qualname__}, expected an array")
    return tuple(shape)
