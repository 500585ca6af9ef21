"""A time loop with its schedules: print, compile, export and report it."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import cached_property, lru_cache

from autosched.analysis.bind import bind
from autosched.errors import InputError
from autosched.export import Exported
from autosched.iteration.compilation import compile_time_loop
from autosched.iteration.field_update import FieldUpdate, check_times
from autosched.iteration.launch_sequence import IterationLaunches, plan_launches
from autosched.iteration.report_page import write_time_loop_report
from autosched.iteration.scheduled_version import ScheduledVersion
from autosched.iteration.source_export import export_time_loop
from autosched.iteration.step_composition import StepComposition, sequence_text
from autosched.iteration.time_loop_signature import TimeLoopSignature
from autosched.iteration.version_files import save_versions
from autosched.lang.expr import Var
from autosched.lang.func import Func, Input
from autosched.lang.pipeline import Pipeline
from autosched.lower.program import Program, lower
from autosched.plural import counted
from autosched.runtime.call.compiled import CompiledPipeline
from autosched.runtime.call.signature import ArraySpec
from autosched.search.strategies.compute_root import schedule_roots
from autosched.target import Target

_KEPT_PLANS = 16


class ScheduledTimeLoop:
    """A time loop with concrete shapes and schedules of 1, 2, 3, ... fused steps for a target.

    Attributes:
        update: One step.
        shapes: Shape of every input.
        versions: The fused steps, in ascending order.
        stop: Why there are no more versions.
        target: The schedules' target.
        composition: The dynamic program that composes versions for any number of steps.
        signature: Inputs, outputs and parameters of a call.
    """

    def __init__(
        self,
        update: FieldUpdate,
        shapes: Mapping[str, tuple[int, ...]],
        versions: tuple[ScheduledVersion, ...],
        stop: str,
    ) -> None:
        self.update = update
        self.shapes: Mapping[str, tuple[int, ...]] = dict(shapes)
        self.versions = versions
        self.stop = stop
        self.target: Target = versions[0].scheduled.target
        self.composition = StepComposition({v.steps: v.seconds for v in versions})
        self.signature = TimeLoopSignature.of_update(update, shapes, versions[0].scheduled.signature)
        self.plan: Callable[[int], IterationLaunches] = lru_cache(_KEPT_PLANS)(self._plan)

    def version(self, steps: int) -> ScheduledVersion:
        """Return the version of some steps.

        Raises:
            InputError: If there is none.
        """
        for version in self.versions:
            if version.steps == steps:
                return version
        raise InputError(
            f"there is no version of {counted(steps, 'step')}; there is "
            f"{', '.join(str(v.steps) for v in self.versions)}"
        )

    @property
    def used(self) -> tuple[ScheduledVersion, ...]:
        """The versions that some number of steps uses."""
        return tuple(v for v in self.versions if v.steps in self.composition.used)

    def composed(self, times: int | None = None) -> tuple[int, ...]:
        """Return the fused steps of each run of a call, in order.

        Args:
            times: Number of steps; the time loop's when left out.

        Raises:
            InputError: If it is no number of steps.
        """
        return self.composition.versions(self.update.times if times is None else check_times(times))

    def predicted_seconds(self, times: int | None = None) -> float:
        """Return the time of a call; NaN if that of a step is unknown.

        Args:
            times: Number of steps; the time loop's when left out.

        Raises:
            InputError: If it is no number of steps.
        """
        return sum(self.version(x).seconds for x in self.composed(times))

    def text(self) -> str:
        """Return the schedules of all used versions as indented loop nests, each with its time."""
        parts = [f"{v.title}:\n{v.scheduled.text()}" for v in self.used]
        return "\n".join([*parts, f"{counted(self.update.times, 'step')}: {sequence_text(self.composed())}", ""])

    def source(self, backend: str = "cuda") -> str:
        """Return the generated code of all used versions, a complete file for each, one after the other.

        Args:
            backend: As for `ScheduledPipeline.source`.

        Raises:
            InputError: If the backend generates no code.
        """
        return "\n".join(f"// {v.title}:\n{v.scheduled.source(backend)}" for v in self.used)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write all schedules and their times as JSON; the file is replaced whole or not at all.

        Raises:
            InputError: If the file cannot be written.
        """
        save_versions(path, self)

    def compile(self, backend: str | None = None, *, fast_math: bool = False) -> CompiledPipeline:
        """Compile all used versions; a call with any number of steps compiles nothing.

        The result is called with arrays, parameters and ``times``, the number of steps. It returns the fields, in a
        named tuple if there are several.

        Args:
            backend: As for `ScheduledPipeline.compile`.
            fast_math: As for `ScheduledPipeline.compile`.

        Raises:
            CompileError: As `ScheduledPipeline.compile`.
            InputError: As `ScheduledPipeline.compile`.
        """
        return compile_time_loop(self, backend, fast_math=fast_math)

    def export(
        self,
        directory: str | os.PathLike[str],
        *,
        name: str | None = None,
        fast_math: bool = False,
        any_alignment: bool = False,
    ) -> Exported:
        """Write the time loop as C or CUDA source whose function takes the number of steps.

        Args:
            directory: As for `ScheduledPipeline.export`.
            name: As for `ScheduledPipeline.export`.
            fast_math: As for `ScheduledPipeline.export`.
            any_alignment: As for `ScheduledPipeline.export`.

        Raises:
            InputError: As `ScheduledPipeline.export`.
        """
        return export_time_loop(self, directory, name=name, fast_math=fast_math, any_alignment=any_alignment)

    def report(self, path: str | os.PathLike[str]) -> None:
        """Write one HTML file: times of all versions, their composition, and the report of each used version.

        Args:
            path: The file, which is replaced whole or not at all.

        Raises:
            InputError: As `ScheduledPipeline.report`.
        """
        write_time_loop_report(path, self)

    def __repr__(self) -> str:
        steps = ", ".join(str(v.steps) for v in self.versions)
        return f"<ScheduledTimeLoop {self.update.name}: versions of {steps} steps for {self.target.name}>"

    def _plan(self, times: int) -> IterationLaunches:
        """Return the launches of a number of steps."""
        outputs = {v.steps: v.scheduled.signature.outputs for v in self.versions}
        return plan_launches(
            {v.steps: v.unrolled for v in self.versions}, self.composed(times), self.field_specs,
            [spec.name for spec in self.signature.outputs], outputs,
        )  # fmt: skip

    @cached_property
    def field_specs(self) -> tuple[ArraySpec, ...]:
        """Array of each field."""
        return tuple(spec for spec in self.signature.inputs if spec.name in self.update.fields)

    @cached_property
    def copies(self) -> dict[str, Program]:
        """For each field, the kernels that copy the array ``source`` to ``copy``."""
        return {spec.name: _copy_program(spec, self.target) for spec in self.field_specs}


def _copy_program(spec: ArraySpec, target: Target) -> Program:
    dims = [f"d{k}" for k in range(len(spec.shape))]
    source = Input("source", spec.dtype, len(dims), dims=dims)
    copy = Func("copy")
    copy[tuple(map(Var, dims))] = source[tuple(map(Var, dims))]
    box = {dim: (0, extent) for dim, extent in zip(dims, spec.shape, strict=True)}
    bound = bind(Pipeline(copy.over(**box), name="copy"), {"source": spec.shape})
    return lower(bound, schedule_roots(bound, target))
