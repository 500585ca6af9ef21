"""The functions that schedule a pipeline: search, autotuning, and loading from a file."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from autosched.analysis.bind import bind
from autosched.errors import InputError
from autosched.lang.expr import Scalar
from autosched.lang.pipeline import Pipeline
from autosched.schedule.io.serialise import load_schedule as read_schedule
from autosched.scheduled_pipeline import ScheduledPipeline
from autosched.search.guidance.guide import Guide
from autosched.search.guidance.guide_file import as_guide
from autosched.search.settings import SAMPLES
from autosched.search.tune.request import Request
from autosched.target import Target, get_target

if TYPE_CHECKING:
    from autosched.search.strategies.protocol import Strategy
    from autosched.search.tune.autotune.report import TuneReport
    from autosched.search.tune.cost_models import Choice
    from autosched.search.tune.effort_levels import Effort
    from autosched.search.tune.greedy_samples import Progress

__all__ = ["ScheduledPipeline", "autotune", "load_schedule", "schedule"]

Shapes = Mapping[str, Sequence[int]]


def schedule(
    pipeline: Pipeline,
    shapes: Shapes | None = None,
    target: str | Target = "h200",
    params: Mapping[str, Scalar] | None = None,
    *,
    inputs: Mapping[str, Any] | None = None,
    strategy: str | Strategy | None = None,
    effort: Effort = "default",
    samples: int | None = None,
    top_k: int = 1,
    cost: Choice = None,
    measure: str = "device",
    seed: int = 0,
    seconds: float | None = None,
    reuse: bool = True,
    measure_finalists: bool | None = None,
    workers: int | None = None,
    guide: Guide | str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
) -> ScheduledPipeline:
    """Find a schedule for a pipeline; needs no GPU unless schedules are measured on one.

    By default a beam search finds schedules, and the cost model ranks them. The best one whose kernels do not spill
    registers is returned. A thorough search adds greedy searches.

    Args:
        pipeline: The pipeline.
        shapes: Shape of every input by name.
        target: The device: a name such as ``h200``, ``cpu``, ``cuda`` (the GPU of this machine), or a `Target`.
        params: Values of parameters. Values in an index or a domain are built into the kernels; the rest are defaults
            of calls.
        inputs: Arrays with the shapes of the inputs, instead of ``shapes``.
        strategy: A single search strategy: ``roots`` (without a search, every stage in a kernel of its own unless it
            is cheap to inline), ``beam``, ``sioutas``, ``forma``, or a `Strategy`.
        effort: Effort of the search without a strategy: ``fast``, ``default`` or ``thorough``; see `EFFORTS` of
            `autosched.search.tune.effort_levels`.
        samples: Number of searches without a strategy: beam searches, and greedy ones. When left out, by ``effort``.
        top_k: Above 1, this many of the schedules with the best predictions are compiled, checked against the
            baseline's result and timed, and the fastest is returned.
        cost: Cost model: ``learned``, ``analytical``, a file of weights, or a model. When left out, the learned one
            if the package has weights of measured times for the target, else the analytical one.
        measure: Measurement backend: ``device`` (this machine's, which must be the target) or ``simulated``.
        seed: Random seed; the same seed finds the same schedule, unless schedules are measured.
        seconds: Time budget, kept to within half a second on an idle core. At its end the most promising partial
            schedule is completed, or else the baseline taken; registers that the compiler has not counted by then are
            not checked. The provenance notes both. Imports of the first call and measurements come on top.
        reuse: Use the schedule cache in the user's cache directory, with tuned schedules and earlier results of the
            same search, and store new ones. Searches with a given strategy do not use it.
        measure_finalists: Time the best prediction, another one with other kernels and the baseline on synthetic
            inputs, and return the fastest, where the target is this machine's processor and there is neither
            ``strategy`` nor ``top_k``. It takes half a second and a few compilations, and the result may then differ
            from call to call. None stands for the environment variable ``AUTOSCHED_HOST_TIMING``, which is 1 by
            default, and for False with the effort ``fast``.
        workers: Most processes, this one included, of a search without ``strategy``, ``samples`` and ``seconds``.
            Several rewrites of a pipeline of about a dozen stages or more are searched at a time, by forks of this
            process (on Linux); the schedule is the same for any number. None stands for the environment variable
            ``AUTOSCHED_WORKERS``, by default the CPUs that this process may use, at most 8.
        guide: Choices of an expert that the schedule must meet, or the path of a YAML or JSON file with them. It
            restricts the search; tuned schedules are not reused, and finalists are not timed.
        progress: Called after each search with the number of finished and of all searches. When left out, a search of
            over a second shows a bar if standard error is a terminal, and removes it at the end.

    Returns:
        The pipeline with its schedule.

    Raises:
        InputError: For invalid shapes, parameters, target, strategy, effort or model, or a device that this machine
            lacks; for a guide that no schedule meets, with the reason.
        MeasureError: If no schedule could be measured.
        BoundsError: If a stage reads outside an input, with stage, index and range.
        DSLError: If no output box is declared and none can be deduced.
    """
    request = Request(
        strategy, samples, top_k, cost, measure, seed, seconds, reuse, effort, measure_finalists, workers,
        as_guide(guide),
    )  # fmt: skip
    chosen = as_target(target)
    bound = bind(pipeline, _shapes_of(pipeline, shapes, inputs), params)
    if request.is_baseline:  # importing the search takes longer than making the baseline
        from autosched.search.tune.baseline import baseline_answer

        answer = baseline_answer(bound, chosen, request)
    else:
        from autosched.search.tune.one_shot import find_schedule
        from autosched.search.tune.progress_bar import progress_bar

        with nullcontext(progress) if progress is not None else progress_bar() as report:
            answer = find_schedule(bound, chosen, request, params, report)
    return ScheduledPipeline(
        bound, answer.schedule, chosen, params, answer.search_result, answer.provenance, answer.trials
    )


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
    guide: Guide | str | os.PathLike[str] | None = None,
    report: Callable[[TuneReport], None] | None = None,
    plan: str | None = None,
    levels: str | None = None,
) -> ScheduledPipeline:
    """Repeat search, measurement and training of the cost model; return the fastest schedule.

    Results are stored at once, so a killed or interrupted run can be resumed.

    Args:
        pipeline: As for `schedule`.
        shapes: As for `schedule`.
        target: As for `schedule`.
        params: As for `schedule`; schedules are measured with these values.
        inputs: As for `schedule`; schedules are measured on synthetic arrays of these shapes.
        iterations: Number of batches.
        samples: Schedules per batch.
        seconds: Time budget of this call.
        database: SQLite file of the results, beside which schedule, weights and state are stored. When left out, a
            directory in the user's cache for this pipeline, shapes and target, whose earlier run is resumed.
        resume: Resume the run of existing files.
        weights: File of initial weights, or ``random``, new ones that start from the analytical times; the package's
            weights when left out.
        measure: As for `schedule`.
        seed: Random seed.
        keep: Store the schedule in the user's schedule cache, which `schedule` reads; not with a ``guide``.
        guide: As for `schedule`: all candidates meet it.
        report: Called with the progress of batches.
        plan: ``artemis``: tune the schedule of the search level by level, as the bottlenecks of its kernels suggest,
            instead of by batches. Nothing is trained or stored but the schedule, so that neither ``database``,
            ``resume``, ``weights`` nor ``report`` may be given; ``iterations`` and ``samples`` have no meaning.
        levels: Levels of the plan in their order, separated by commas; all when left out.

    Returns:
        The pipeline with the fastest schedule; `ScheduledPipeline.tuned` has the results of the run by batches.

    Raises:
        InputError: As for `schedule`, if there are files of another run, or for arguments that do not fit together.
        MeasureError: If no schedule has a time.
        DatabaseError: If results cannot be read or stored.
    """
    from autosched.search.guidance.guide_checks import check_guide
    from autosched.search.guidance.guided_settings import guided_settings
    from autosched.search.settings import COMPILED
    from autosched.search.tune.autotune.run import tune
    from autosched.search.tune.autotune.settings import TuneSettings

    chosen = as_target(target)
    bound = bind(pipeline, _shapes_of(pipeline, shapes, inputs), params)
    chosen_guide = as_guide(guide)
    check_guide(bound, chosen_guide, chosen)
    if plan is not None or levels is not None:
        from autosched.search.tune.plan.levels import plan_levels
        from autosched.search.tune.plan.plan_run import tune_by_plan

        if plan is None:
            raise InputError("levels are those of a plan: pass plan='artemis'")
        if database is not None or resume or weights is not None or report is not None:
            raise InputError(
                "a plan trains no weights and stores no batches: leave out database, resume, weights and report"
            )
        result, how, trials = tune_by_plan(
            bound, chosen, plan, plan_levels(plan, levels), params, seconds=seconds, measure=measure, seed=seed,
            keep=keep and not chosen_guide, guide=chosen_guide,
        )  # fmt: skip
        return ScheduledPipeline(bound, result.best.schedule, chosen, params, provenance=how, trials=trials)
    tuning = TuneSettings(
        iterations, samples, weights=None if weights is None else os.fspath(weights), seed=seed,
        search=guided_settings(COMPILED, chosen_guide),
    )  # fmt: skip
    tuned, provenance = tune(
        bound, chosen, tuning, params, seconds=seconds, database=database, resume=resume, measure=measure,
        keep=keep and not chosen_guide,
        report=report,
    )  # fmt: skip
    return ScheduledPipeline(
        bound, tuned.schedule, chosen, params, provenance=provenance, trials=tuned.trials, tuned=tuned
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
        path: A file from `ScheduledPipeline.save`.
        pipeline: The pipeline of the schedule.
        shapes: As for `schedule`.
        target: As for `schedule`.
        params: As for `schedule`.
        inputs: As for `schedule`.

    Raises:
        ScheduleError: If the file is no schedule, of another version or pipeline, or illegal for shapes or target.
        InputError: If the file cannot be read; otherwise as for `schedule`.
    """
    chosen = as_target(target)
    bound = bind(pipeline, _shapes_of(pipeline, shapes, inputs), params)
    return ScheduledPipeline(bound, read_schedule(path, bound), chosen, params)


def as_target(target: str | Target) -> Target:
    """Return a target by name; a target is itself."""
    return target if isinstance(target, Target) else get_target(target)


def _shapes_of(pipeline: Pipeline, shapes: Shapes | None, inputs: Mapping[str, Any] | None) -> Shapes:
    """Return the shapes, from shapes or arrays."""
    if not isinstance(pipeline, Pipeline):
        raise InputError(f"a {type(pipeline).__name__} cannot be scheduled; pass a Pipeline: Pipeline([output])")
    if shapes is not None and inputs is not None:
        raise InputError("give either shapes or inputs, not both")
    if inputs is not None:
        return {name: _shape_of(name, value) for name, value in inputs.items()}
    if shapes is not None and not isinstance(shapes, Mapping):
        raise InputError(
            f"shapes is of type {type(shapes).__qualname__}, expected a shape for every input by name; arrays to take "
            "the shapes from go to inputs={...}"
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
