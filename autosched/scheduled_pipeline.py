"""A pipeline with its schedule: print, compile, export and report it."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING

from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.deprecation import renamed_attributes, warn_renamed
from autosched.lang.expr import Scalar
from autosched.runtime.call.signature import CallSignature
from autosched.schedule.io.serialise import save_schedule
from autosched.schedule.io.text import schedule_text
from autosched.schedule.legality.validate import validate
from autosched.schedule.rewrites import apply_rewrites
from autosched.schedule.types import Schedule
from autosched.target import Target

if TYPE_CHECKING:
    from autosched.export import Exported
    from autosched.lower.program import Program
    from autosched.report.measured import Measured
    from autosched.runtime.call.compiled import CompiledPipeline
    from autosched.search.results import SearchResult
    from autosched.search.tune.autotune.report import Tuned
    from autosched.search.tune.provenance import Provenance
    from autosched.search.tune.top_k import Trials


@renamed_attributes(found="search_result", origin="provenance")
class ScheduledPipeline:
    """A pipeline with concrete shapes and a legal schedule for a target.

    Args:
        bound: The pipeline with its shapes.
        schedule: A schedule of it.
        target: The schedule's target.
        params: Default values of run-time parameters.
        search_result: The search of the schedule, with its other schedules and statistics.
        provenance: How the schedule was found, with predicted and measured times.
        trials: The measurements that chose it, if any.
        tuned: The tuning run, if there was one.

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
        search_result: SearchResult | None = None,
        provenance: Provenance | None = None,
        trials: Trials | None = None,
        tuned: Tuned | None = None,
        *,
        found: SearchResult | None = None,
        origin: Provenance | None = None,
    ) -> None:
        if found is not None or origin is not None:
            warn_renamed("ScheduledPipeline(found=, origin=)", "ScheduledPipeline(search_result=, provenance=)")
            search_result, provenance = search_result or found, provenance or origin
        validate(bound, schedule, target)
        self.bound = apply_rewrites(bound, schedule)
        self.schedule = schedule
        self.target = target
        self.search_result = search_result
        self.provenance = provenance
        self.trials = trials
        self.tuned = tuned
        self.signature = CallSignature.of(bound, params)

    @cached_property
    def program(self) -> Program:
        """The lowered kernels."""
        from autosched.lower.program import lower

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
        from autosched.generated_source import generated_source

        return generated_source(self.program, backend)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the schedule as JSON, with a guide's choices as a note; the file is replaced whole or not at all.

        Raises:
            InputError: If the file cannot be written.
        """
        guide = "" if self.provenance is None else self.provenance.guide
        save_schedule(path, self.bound, self.schedule, {"guide": json.loads(guide)} if guide else None)

    def compile(self, backend: str | None = None, *, fast_math: bool = False) -> CompiledPipeline:
        """Compile the pipeline.

        Args:
            backend: ``cuda``, ``cpu``, ``emulator`` or ``interpreter``. When left out: the GPU if the schedule is for a
                GPU and this machine has one; else C; without a C compiler, with a warning, the NumPy interpreter.
                Compiling for ``cuda`` needs no GPU.
            fast_math: Let the CUDA compiler approximate division, square roots and elementary functions and flush
                subnormal numbers to zero: faster, but inexact. Other backends stay exact.

        Raises:
            CompileError: If a compiler is missing or refuses the generated code.
            InputError: If there is no such backend, or it does not fit the target.
        """
        from autosched.runtime.backends.factory import compile_pipeline

        return compile_pipeline(
            self.bound, lambda: self.program, self.signature, self.target, backend, fast_math=fast_math
        )

    def export(
        self,
        directory: str | os.PathLike[str],
        *,
        name: str | None = None,
        fast_math: bool = False,
        any_alignment: bool = False,
    ) -> Exported:
        """Write the pipeline as C or CUDA source with header, build files and example, for use without Python.

        Args:
            directory: The directory, which is made if it does not exist.
            name: Name of the C function and its files; the pipeline's when left out.
            fast_math: As for `compile`.
            any_alignment: Accept arrays with the alignment of their element type.

        Raises:
            InputError: If the name cannot be used, the directory cannot be written, or it holds other files.
        """
        from autosched.export import export

        return export(self, directory, name=name, fast_math=fast_math, any_alignment=any_alignment)

    @property
    def measured(self) -> Measured | None:
        """Measured or simulated times of the schedule and its competitors; None if nothing was timed."""
        from autosched.report.measured import Measured, MeasuredCandidate

        if self.provenance is None or self.provenance.measured_s is None:
            return None
        trials = self.trials.trials if self.trials else ()
        candidates = tuple(
            MeasuredCandidate(t.predicted, None if t.problem else t.seconds, t.problem or t.note) for t in trials
        )
        kernel_seconds = trials[0].kernel_seconds or None if trials else None
        return Measured(self.provenance.measured_s, kernel_seconds, candidates, self.provenance.source)

    def report(self, path: str | os.PathLike[str], measured: Measured | None = None) -> None:
        """Write one HTML file on the pipeline: stage graph, loop nest, and each kernel with its times and source.

        Args:
            path: The file, which is replaced whole or not at all.
            measured: Times; those of `measured` when left out.

        Raises:
            InputError: If the file cannot be written, or the extra ``report`` is not installed.
        """
        from autosched.report.page import write_report

        write_report(path, self, measured=measured or self.measured)

    def _repr_html_(self) -> str:
        from autosched.report.notebook import notebook_html

        return notebook_html(self)

    def __repr__(self) -> str:
        kernels = len(self.schedule.kernels)
        return f"<ScheduledPipeline {self.bound.pipeline.name}: {kernels} kernels for {self.target.name}>"
