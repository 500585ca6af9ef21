"""Domains of Funcs, from the outputs back to the producers.

The domain of a Func is the hull of its consumers' index ranges over their loops. Updates extend it by the points of
their own Func that they access at computed indices.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

from autosched.errors import BoundsError
from autosched.lang.expr import Cast, Expr, RVar, Select
from autosched.lang.func import Func, Input, source_of
from autosched.lang.pipeline import Pipeline
from autosched.reference.buffers import LoopKey
from autosched.reference.guards import guard_facts, reached
from autosched.reference.intervals import Interval
from autosched.reference.numbering import loop_key
from autosched.reference.program import Bindings, known_integer
from autosched.reference.ranges import ENDLESS, Ranges
from autosched.reference.stage import Box, ReferenceStage

_MAX_ELEMENTS = 1 << 32
_MAX_ROUNDS = 16
_HINT = (
    "bound it with clamp(e, low, high), with %, by an 8- or 16-bit type, or by comparisons in a select or in RDom.where"
)


def derive_domains(
    pipeline: Pipeline, stages: Mapping[Func, Sequence[ReferenceStage]], boxes: Mapping[Func, Box], bindings: Bindings
) -> dict[Func, Box]:
    """Return the domain of every Func that an output needs.

    Args:
        pipeline: The pipeline.
        stages: The stages of every Func.
        boxes: The boxes of the outputs.
        bindings: Shapes and parameters.

    Raises:
        BoundsError: If an index reaches outside an input or cannot be bounded.
    """
    domains: dict[Func, Box] = dict(boxes)
    for func in reversed(pipeline.funcs):
        if func not in domains or _is_empty(domains[func]):
            continue  # all its readers have empty loops
        _check_arguments(stages[func], bindings)
        domains[func] = _extended_by_updates(stages[func][1:], domains[func], bindings)
        _check_size(pipeline.name_of(func), func, domains[func])
        for stage in stages[func]:
            if not stage.never_runs:
                _require_producers(stage, domains, bindings)
    return domains


def _require_producers(stage: ReferenceStage, domains: dict[Func, Box], bindings: Bindings) -> None:
    ranges = Ranges(stage.numbering, bindings, stage.loops(domains[stage.func]))
    facts = guard_facts(stage, ranges)
    for number, load, indices in stage.loads():
        source = source_of(load)
        if source is stage.func:
            continue
        at = reached(indices, ranges, facts.get(number))
        if isinstance(source, Input):
            _check_input(stage, source, load.indices, at, bindings.shapes[source.name])
            continue
        for axis, (index, r) in enumerate(zip(load.indices, at, strict=True)):
            _check_bounded(stage, f"reads {source.name!r}", index, source.dims[axis], r)
        box = tuple((int(r.low), int(r.high) + 1) for r in at)
        previous = domains.get(source)
        domains[source] = box if previous is None or _is_empty(previous) else _hull(previous, box)


def _extended_by_updates(updates: Sequence[ReferenceStage], domain: Box, bindings: Bindings) -> Box:
    """Return the domain extended until it contains all accesses of the updates, whose pure loops grow with it."""
    for k in range(2 * _MAX_ROUNDS):
        before = domain
        for stage in updates:
            if not stage.never_runs:
                domain = _hull(domain, _touched(stage, domain, bindings))
                if k >= _MAX_ROUNDS:  # growth is slow: extend to the limits of the self-reads
                    domain = _hull(domain, _limits(stage, domain, bindings))
        if domain == before:
            return domain
    raise BoundsError(
        f"the domain of {stage.func.name!r} grows without bound: its updates read it further out in every iteration",
        location=stage.definition.location,
        hint="clamp the index of the self-read, or declare the output's box",
    )


def _touched(stage: ReferenceStage, domain: Box, bindings: Bindings) -> Box:
    ranges = Ranges(stage.numbering, bindings, stage.loops(domain))
    box = list(domain)
    facts = guard_facts(stage, ranges)
    own_reads = ((at, facts.get(k)) for k, load, at in stage.loads() if load.source is stage.func)
    for place, known in ((stage.indices, None), *own_reads):
        for axis, (n, r) in enumerate(zip(place, reached(place, ranges, known), strict=True)):
            if stage.is_own_var(axis) and n == stage.indices[axis]:
                continue
            _check_bounded(stage, f"reaches {stage.func.name!r}", stage.numbering.nodes[n], stage.func.dims[axis], r)
            low, high = box[axis]
            box[axis] = min(low, int(r.low)), max(high, int(r.high) + 1)
    return tuple(box)


def _limits(stage: ReferenceStage, domain: Box, bindings: Bindings) -> Box:
    """Return the box of self-reads at other points over an unlimited domain, in the dimensions that are bounded."""
    endless = [(key, range(-ENDLESS, ENDLESS)) for key, _ in stage.pure(domain)]
    ranges = Ranges(stage.numbering, bindings, [*stage.reduction, *endless])
    box = list(domain)
    for place in stage.self_accesses():
        for axis, n in enumerate(place):
            if stage.is_own_var(axis) and n != stage.indices[axis] and _is_bounded(r := ranges.of(n)):
                box[axis] = min(box[axis][0], int(r.low)), max(box[axis][1], int(r.high) + 1)
    return tuple(box)


def _hull(a: Box, b: Box) -> Box:
    return tuple((min(p, r), max(q, s)) for (p, q), (r, s) in zip(a, b, strict=True))


def _is_empty(box: Box) -> bool:
    return any(low >= high for low, high in box)


def _check_arguments(stages: Sequence[ReferenceStage], bindings: Bindings) -> None:
    """Raise for argmin and argmax over an empty domain: their coordinates start at the first of the domain."""
    if len(stages) != 2 or not stages[1].never_runs or len(stages[0].values) != len(stages[1].reduction) + 1:
        return
    pure, update = stages
    for value, first, (key, steps) in zip(update.values, pure.values, update.reduction, strict=False):
        if _chosen_loop(update, value) != key or pure.numbering.loops[first] or pure.numbering.sources[first]:
            return
        if known_integer(pure.numbering.nodes[first], bindings) != steps.start:
            return
    raise BoundsError(
        f"{pure.name} is an argmin or argmax over a domain without points, where there are no coordinates",
        location=update.definition.location,
        hint="pass larger inputs, or a reduction domain with points",
    )


def _chosen_loop(stage: ReferenceStage, n: int) -> LoopKey | None:
    """Return the loop whose variable a selection may store in a component."""
    numbering = stage.numbering
    if not isinstance(numbering.nodes[n], Select):
        return None
    n = numbering.operands[n][1]
    while isinstance(numbering.nodes[n], Cast):
        (n,) = numbering.operands[n]
    node = numbering.nodes[n]
    return loop_key(node) if isinstance(node, RVar) else None


def _is_bounded(r: Interval) -> bool:
    return r.high - r.low < (1 << 31) - 1


def _check_bounded(stage: ReferenceStage, action: str, index: Expr, dim: str, r: Interval) -> None:
    if not _is_bounded(r):
        raise BoundsError(
            f"{stage.name} {action} at {index!r} in dimension {dim}: this index cannot be bounded",
            location=stage.definition.location,
            hint=_HINT,
        )


def _check_input(
    stage: ReferenceStage, source: Input, indices: Sequence[Expr], reached: Sequence[Interval], shape: tuple[int, ...]
) -> None:
    for index, r, dim, size in zip(indices, reached, source.dims, shape, strict=True):
        _check_bounded(stage, f"reads input {source.name!r}", index, dim, r)
        if r.low < 0 or r.high >= size:
            raise BoundsError(
                f"{stage.name} reads input {source.name!r} at {index!r} in dimension {dim}: "
                f"{r.low} to {r.high} is not within 0 to {size - 1}",
                location=stage.definition.location,
                hint=f"shrink the output's box, or read {source.name}.clamped() or another boundary condition",
            )


def _check_size(name: str, func: Func, domain: Box) -> None:
    if prod(high - low for low, high in domain) > _MAX_ELEMENTS:
        extents = " x ".join(str(high - low) for low, high in domain)
        raise BoundsError(
            f"{name!r} would have to be computed at {extents} points",
            location=func.location,
            hint="bound the data-dependent indices it is read at more tightly",
        )
