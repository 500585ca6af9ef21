"""The interpreter: check the arguments, derive domains, compute one Func after another."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import prod
from typing import Any

import numpy as np

from autosched.analysis.bind import output_boxes
from autosched.errors import BoundsError, InputError
from autosched.host import memory_bytes
from autosched.lang.expr import Scalar
from autosched.lang.func import Func, Input
from autosched.lang.pipeline import Pipeline, producers_of
from autosched.reference.arguments import bind_arguments
from autosched.reference.buffers import Array, ReferenceBuffer, blocks, scope_of
from autosched.reference.domains import derive_domains
from autosched.reference.guards import mark_guarded_reads, with_stored_ranges
from autosched.reference.program import Bindings, ReferenceProgram, known_integer
from autosched.reference.stage import Box, ReferenceStage, specialiser_of, stages_of, with_integer_widths
from autosched.reference.updates import run_update


def interpret(
    pipeline: Pipeline, inputs: Mapping[str, Array], params: Mapping[str, Scalar] | None = None
) -> dict[str, Array]:
    """Compute a pipeline's outputs.

    Args:
        pipeline: The pipeline.
        inputs: An array for each input, by name, of its element type and rank.
        params: Values of the parameters, by name; missing ones have their default.

    Returns:
        One array for each of ``pipeline.output_names``, over the declared or deduced box.

    Raises:
        InputError: If an argument is missing, unknown or of the wrong type. Also if loops that carry a dependence have
            more than a million iterations, or if a Func over its domain does not fit this machine's memory.
        BoundsError: If an index reaches outside an input or cannot be bounded.
    """
    with np.errstate(all="ignore"):
        boxes, computed = _compute(pipeline, inputs, params, set())
    arrays: list[Array] = []
    for output in pipeline.outputs:
        buffer, box = computed[output.func], boxes[output.func]
        window = tuple(slice(low - o, high - o) for (low, high), o in zip(box, buffer.origin, strict=True))
        arrays += [np.asarray(a[window], order="C") for a in buffer.arrays]
    return dict(zip(pipeline.output_names, arrays, strict=True))


def interpret_funcs(
    pipeline: Pipeline,
    inputs: Mapping[str, Array],
    params: Mapping[str, Scalar] | None = None,
    *,
    funcs: Iterable[Func] | None = None,
) -> dict[Func, ReferenceBuffer]:
    """Compute a pipeline and return outputs and intermediate Funcs, each over its whole domain.

    Args:
        pipeline: The pipeline.
        inputs: As for `interpret`.
        params: As for `interpret`.
        funcs: Intermediate Funcs to return; by default all that the outputs need.

    Raises:
        InputError: As for `interpret`.
        BoundsError: As for `interpret`.
    """
    wanted = set(pipeline.funcs if funcs is None else funcs)
    with np.errstate(all="ignore"):
        return _compute(pipeline, inputs, params, wanted)[1]


def _compute(
    pipeline: Pipeline, inputs: Mapping[str, Array], params: Mapping[str, Scalar] | None, wanted: set[Func]
) -> tuple[dict[Func, Box], dict[Func, ReferenceBuffer]]:
    """Return the boxes of the outputs, and the values of outputs and ``wanted`` Funcs."""
    sources: dict[Func | Input, ReferenceBuffer]
    bindings, sources = bind_arguments(pipeline, inputs, params or {})
    boxes = _output_boxes(pipeline, bindings)
    stages = {f: stages_of(f, pipeline, bindings) for f in pipeline.funcs}
    guarded = False
    try:
        domains = derive_domains(pipeline, stages, boxes, bindings)
    except BoundsError:
        mark_guarded_reads(s for of_func in stages.values() for s in of_func)
        domains = derive_domains(pipeline, stages, boxes, with_stored_ranges(pipeline, stages, bindings))
        guarded = True
    specialiser = specialiser_of(pipeline, bindings)
    readers = {f: 0 for f in pipeline.funcs}
    for f in domains:
        for p in producers_of(f):
            if isinstance(p, Func):
                readers[p] += 1
    keep = wanted | set(boxes)
    for f in pipeline.funcs:
        if f not in domains:
            continue
        widened = [with_integer_widths(s, domains[f], specialiser, bindings) for s in stages[f]]
        if guarded:
            mark_guarded_reads(widened)
        _compute_func(f, widened, domains[f], bindings, sources)
        for p in producers_of(f):
            if isinstance(p, Func):
                readers[p] -= 1
                if readers[p] == 0 and p not in keep:
                    sources.pop(p, None)
    return boxes, {f: sources[f] for f in pipeline.funcs if f in keep and f in sources}


def _compute_func(
    func: Func,
    stages: list[ReferenceStage],
    domain: Box,
    bindings: Bindings,
    sources: dict[Func | Input, ReferenceBuffer],
) -> None:
    """Compute a Func over its domain and add it to the sources.

    Points of an ``undef`` Func that no update writes are 0; reads of such points are not checked here.
    """
    shape = tuple(high - low for low, high in domain)
    _check_memory(stages[0].name, shape, sum(d.bytes_ for d in func.dtypes))
    buffer = ReferenceBuffer(tuple(low for low, _ in domain), tuple(np.zeros(shape, d.numpy) for d in func.dtypes))
    sources[func] = buffer
    if 0 in shape:
        return
    if stages[0].values:
        _run_pure(stages[0], domain, buffer, bindings, sources)
    for stage in stages[1:]:
        if not stage.never_runs:
            run_update(stage, domain, bindings, sources)


def _check_memory(name: str, shape: tuple[int, ...], element_bytes: int) -> None:
    """Raise for arrays that do not fit this machine's memory."""
    needed, limit = prod(shape) * element_bytes, memory_bytes()
    if needed > limit:
        raise InputError(
            f"{name} needs {needed} bytes over {' x '.join(map(str, shape))} points, more than the {limit} of this "
            "machine; use smaller inputs or a smaller box"
        )


def _run_pure(
    stage: ReferenceStage,
    domain: Box,
    buffer: ReferenceBuffer,
    bindings: Bindings,
    sources: Mapping[Func | Input, ReferenceBuffer],
) -> None:
    program = ReferenceProgram(stage.numbering, stage.values, bindings, sources)
    for block in blocks(stage.loops(domain)):
        at = tuple(slice(r.start - o, r.stop - o) for (_, r), o in zip(block, buffer.origin, strict=True))
        for array, value in zip(buffer.arrays, program.run(scope_of(block)), strict=True):
            array[at] = value


def _output_boxes(pipeline: Pipeline, bindings: Bindings) -> dict[Func, Box]:
    boxes: dict[Func, Box] = {}
    if any(o.box is None for o in pipeline.outputs):
        params: dict[str, Any] = {name: value.item() for name, value in bindings.params.items()}
        boxes.update(output_boxes(pipeline, dict(bindings.shapes), params))
    for o in pipeline.outputs:
        if o.box is not None:
            boxes[o.func] = tuple((known_integer(a, bindings), known_integer(b, bindings)) for a, b in o.box)
        for dim, (low, high) in zip(o.func.dims, boxes[o.func], strict=True):
            if low > high:
                raise BoundsError(
                    f"output {pipeline.name_of(o.func)!r} has a negative extent: {dim} runs from {low} to {high}",
                    location=o.func.location,
                    hint="pass larger inputs or declare another box",
                )
    return boxes
