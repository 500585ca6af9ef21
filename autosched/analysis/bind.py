"""Bind a pipeline to shapes and parameters: concrete regions, checked reads, deduced output boxes."""

from __future__ import annotations

from collections.abc import Mapping

from autosched.analysis.arguments import Shapes
from autosched.analysis.binder import Binder, NarrowBinder
from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.analysis.boundaries.simplification import simplify_boundaries
from autosched.analysis.guard_binder import GuardedBinder, NarrowGuardedBinder
from autosched.analysis.output_box import deduce_boxes
from autosched.errors import BoundsError, DSLError
from autosched.lang.expr import Scalar
from autosched.lang.func import Func
from autosched.lang.pipeline import Pipeline


def bind(pipeline: Pipeline, shapes: Shapes, params: Mapping[str, Scalar] | None = None) -> BoundPipeline:
    """Bind a pipeline to concrete input shapes.

    Args:
        pipeline: The pipeline.
        shapes: Shape of every input by name.
        params: Values of parameters; required for those that reach an index or a domain.

    Raises:
        InputError: For a missing, unknown or ill-formed shape, or a missing parameter value.
        BoundsError: If a read leaves an input, naming stage, index expression and range, or if a stage has more than
            `autosched.analysis.binder.MOST_ITERATIONS` iterations.
        DSLError: If no output box is declared and none can be deduced.
    """
    binder: Binder | None = None
    try:
        binder = Binder(pipeline, shapes, params or {})
        return _bound(binder)
    except (BoundsError, DSLError) as first:
        guarded: BoundsError | DSLError | None = None
        for further in _further_binders(binder):
            try:
                return _bound(further(pipeline, shapes, params or {}))
            except (BoundsError, DSLError) as error:
                guarded = error if further is GuardedBinder else guarded
        if guarded is not None and str(guarded) != str(first):  # with ranges that conditions have narrowed
            raise guarded from None
        raise  # the first error: its message holds without ranges of coordinates


def _further_binders(binder: Binder | None) -> list[type[Binder]]:
    """Return binders that accept more pipelines, the cheapest first.

    Args:
        binder: That of the first attempt; None if it refused the pipeline before any region was inferred.
    """
    if binder is None or binder.needs_coordinates():
        return [NarrowBinder, GuardedBinder, NarrowGuardedBinder][binder is None :]
    return [GuardedBinder]


def _bound(binder: Binder) -> BoundPipeline:
    pipeline = binder.pipeline
    boxes = {o.func: binder.declared_box(o.func) for o in pipeline.outputs}
    missing = [f for f, box in boxes.items() if box is None]
    if missing:
        boxes |= deduce_boxes(binder, missing)
    known = {f: b for f, b in boxes.items() if b is not None}
    simplify_boundaries(binder, known)
    return binder.bind(known)


def output_boxes(
    pipeline: Pipeline, shapes: Shapes, params: Mapping[str, Scalar] | None = None
) -> dict[Func, tuple[tuple[int, int], ...]]:
    """Return the half-open box of every output, declared or deduced; see `bind` for the errors."""
    bound = bind(pipeline, shapes, params)
    regions = {o.func: bound.funcs[bound.outputs[pipeline.name_of(o.func)]].region for o in pipeline.outputs}
    return {f: tuple((lo, hi + 1) for lo, hi in box) for f, box in regions.items()}
