"""From a pipeline to a function on arrays: schedule, look at the result, compile, call."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from autosched.analysis.bind import bind
from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.codegen.c import print_c
from autosched.codegen.cuda import cuda_prelude, print_cuda
from autosched.codegen.prelude import called_scalar_functions, scalar_prelude
from autosched.errors import InputError
from autosched.lang.expr import Scalar
from autosched.lang.pipeline import Pipeline
from autosched.lower.program import Program, lower
from autosched.runtime.backends.executable import as_backend, choose_backend, make_executable
from autosched.runtime.call.compiled import CompiledPipeline
from autosched.runtime.call.signature import CallSignature
from autosched.schedule.io.serialise import load_schedule as read_schedule
from autosched.schedule.io.serialise import save_schedule
from autosched.schedule.io.text import schedule_text
from autosched.schedule.legality.validate import validate
from autosched.schedule.rewrites import apply_rewrites
from autosched.schedule.types import Schedule
from autosched.search.results import SearchResult
from autosched.search.strategies.protocol import Strategy
from autosched.search.tune.cost_models import Choice
from autosched.search.tune.greedy_samples import SAMPLES, Progress
from autosched.search.tune.one_shot import OneShotAnswer, Request, find_schedule
from autosched.search.tune.provenance import Provenance
from autosched.search.tune.top_k import Trials
from autosched.target import Target, get_target

if TYPE_CHECKING:
    from autosched.export import Exported
    from autosched.report.measured import Measured
    from autosched.search.tune.autotune.report import Tuned, TuneReport

Shapes = Mapping[str, Sequence[int]]


class ScheduledPipeline:
    """A pipeline with concrete shapes and a legal schedule for a target.

    Args:
        bound: The pipeline with its shapes.
        schedule: A schedule of it.
        target: What the schedule was made for.
        params: Values of run-time parameters, used where a call does not pass them.
        found: The search that the schedule comes from: other schedules it found, and what it did.
        origin: How it was found, with predicted and measured times.
        trials: What was measured to choose it, if anything was.
        tuned: The tuning run that it comes from, if it comes from one.

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
        found: SearchResult | None = None,
        origin: Provenance | None = None,
        trials: Trials | None = None,
        tuned: Tuned | None = None,
    ) -> None:
        validate(bound, schedule, target)
        self.bound = apply_rewrites(bound, schedule)
        self.schedule = schedule
        self.target = target
        self.found = found
        self.origin = origin
        self.trials = trials
        self.tuned = tuned
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
                return f"{cuda_prelude(body)}\n{scalar_prelude(called_scalar_functions(body))}\n{body}"
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

    def export(
        self,
        directory: str | os.PathLike[str],
        *,
        name: str | None = None,
        fast_math: bool = False,
        any_alignment: bool = False,
    ) -> Exported:
        """Write the pipeline as C or CUDA source with header, build files and example; needs no Python to be used.

        Args:
            directory: Where to; made if it is not there.
            name: Name of the C function and its files; the pipeline's when left out.
            fast_math: As for `compile`.
            any_alignment: Take arrays at any address that is a multiple of their element's size.

        Raises:
            InputError: If the name cannot be used, the directory cannot be written, or holds something else.
        """
        from autosched.export import export

        return export(self, directory, name=name, fast_math=fast_math, any_alignment=any_alignment)

    @property
    def measured(self) -> Measured | None:
        """Measured or simulated times of the schedule and of those it was chosen from; None if nothing was timed."""
        from autosched.report.measured import Measured, MeasuredCandidate

        if self.origin is None or self.origin.measured_s is None:
            return None
        trials = self.trials.trials if self.trials else ()
        candidates = tuple(
            MeasuredCandidate(t.predicted, None if t.problem else t.seconds, t.problem or t.note) for t in trials
        )
        kernel_seconds = trials[0].kernel_seconds or None if trials else None
        return Measured(self.origin.measured_s, kernel_seconds, candidates, self.origin.source)

    def report(self, path: str | os.PathLike[str], measured: Measured | None = None) -> None:
        """Write one HTML file on the pipeline: stage graph, loop nest, and each kernel with its times and source.

        Args:
            path: The file, which is replaced whole or not at all.
            measured: Times to show; those of `measured` when left out.

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


def schedule(
    pipeline: Pipeline,
    shapes: Shapes | None = None,
    target: str | Target = "h200",
    params: Mapping[str, Scalar] | None = None,
    *,
    inputs: Mapping[str, Any] | None = None,
    strategy: str | Strategy | None = None,
    samples: int = SAMPLES,
    top_k: int = 1,
    cost: Choice = None,
    measure: str = "device",
    seed: int = 0,
    seconds: float | None = None,
    reuse: bool = True,
    progress: Progress | None = None,
) -> ScheduledPipeline:
    """Find a schedule for a pipeline; takes no GPU unless schedules are measured on one.

    By default schedules are drawn by a beam search and by quick searches that differ, the cost model ranks them, and
    the best one that the compiler finds registers for is taken.

    Args:
        pipeline: What to compute.
        shapes: Shape of every input by name.
        target: What to schedule for: a name such as ``h200``, ``cpu``, ``cuda`` (the GPU of this machine), or a
            `Target`.
        params: Values of parameters. Those that reach an index or a domain are built into the kernels; the others
            serve where a call does not pass them.
        inputs: Arrays to take the shapes from, instead of ``shapes``.
        strategy: Search in one way only: ``roots`` at once, with every stage in a kernel of its own unless it is
            cheap to inline; ``beam``; ``sioutas``; or a `Strategy`.
        samples: Searches, if no strategy is given: a beam search and greedy ones.
        top_k: Above 1, so many of the schedules predicted to be fastest are compiled, compared with the baseline's
            result and timed, and the fastest is taken.
        cost: Cost model: ``learned``, ``analytical``, a file of weights, or a model. When left out, the learned one
            if weights for the target come with the package.
        measure: Where schedules are timed: ``device`` (this machine's, which must be the target) or ``simulated``.
        seed: Source of randomness; the same seed finds the same schedule.
        seconds: Time budget of the search; when it ends, the most promising way is followed to its end.
        reuse: Take a schedule that was tuned, or found by the same search before, from the user's cache directory,
            and keep new ones there. Searches with a strategy of one's own are neither taken nor kept.
        progress: Told after each search how many of how many are done.

    Returns:
        The pipeline with its schedule.

    Raises:
        InputError: For shapes, parameters, target, strategy or model that do not fit, or a device that is not here.
        MeasureError: If no schedule could be measured.
        BoundsError: If a stage reads outside an input, with stage, index and range.
        DSLError: If no output box is declared and none can be deduced.
    """
    request = Request(strategy, samples, top_k, cost, measure, seed, seconds, reuse)
    chosen = _as_target(target)
    bound = bind(pipeline, _shapes_of(pipeline, shapes, inputs), params)
    answer: OneShotAnswer = find_schedule(bound, chosen, request, params, progress)
    return ScheduledPipeline(bound, answer.schedule, chosen, params, answer.found, answer.origin, answer.trials)


def autotune(
    pipeline: Pipeline,
    shapes: Shapes | None = None,
    target: str | Target = "h200",
    params: Mapping[str, Scalar] | None = None,
    *,
    inputs: Mapping[str, Any] | None = None,
    iterations: int = 20,
    samples: int = SAMPLES,
    seconds: float | None = None,
    database: str | os.PathLike[str] | None = None,
    resume: bool = False,
    weights: str | os.PathLike[str] | None = None,
    measure: str = "device",
    seed: int = 0,
    keep: bool = True,
    report: Callable[[TuneReport], None] | None = None,
) -> ScheduledPipeline:
    """Search, measure, train the cost model on what was measured, and again; return the fastest schedule.

    Everything is on disk as soon as it is known, so a run that is killed or interrupted goes on where it was.

    Args:
        pipeline: As for `schedule`.
        shapes: As for `schedule`.
        target: As for `schedule`.
        params: As for `schedule`; schedules are measured with these values.
        inputs: As for `schedule`; schedules are measured on made-up arrays of their shapes.
        iterations: Batches.
        samples: Schedules of a batch.
        seconds: Time budget of this call.
        database: Where results go (SQLite); schedule, weights and state lie beside it. When left out, a directory in
            the user's cache that belongs to the pipeline, its shapes and the target, and a run found there is resumed.
        resume: Go on with the run whose files are there.
        weights: A file of weights to begin with, or ``random``; when left out, those that come with the package.
        measure: As for `schedule`.
        seed: Source of randomness.
        keep: Keep the schedule in the user's cache directory, where `schedule` finds it.
        report: Told how it goes.

    Returns:
        The pipeline with the fastest schedule; `ScheduledPipeline.tuned` says how the run went.

    Raises:
        InputError: As for `schedule`, or if files of another run are in the way.
        MeasureError: If no schedule has a time.
        DatabaseError: If results cannot be read or stored.
    """
    from autosched.search.tune.autotune.run import tune

    chosen = _as_target(target)
    bound = bind(pipeline, _shapes_of(pipeline, shapes, inputs), params)
    tuned, origin = tune(
        bound, chosen, params, iterations=iterations, samples=samples, seconds=seconds, database=database,
        resume=resume, weights=weights, measure=measure, seed=seed, keep=keep, report=report,
    )  # fmt: skip
    return ScheduledPipeline(
        bound, tuned.schedule, chosen, params, origin=origin, trials=tuned.trials, tuned=tuned
    )  # fmt: skip


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
    if shapes is not None and not isinstance(shapes, Mapping):
        raise InputError(
            f"shapes is a {type(shapes).__qualname__}, expected a shape for every input by name; arrays to take the "
            "shapes from go to inputs={...}"
        )
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
