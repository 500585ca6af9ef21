"""Computation folding: a value that a Func repeats at shifted points becomes a Func of its own.

    f[x] = a[x - 1] * b[x - 1] + a[x + 1] * b[x + 1]   ->   f_folded[x] = a[x] * b[x]
                                                            f[x] = f_folded[x - 1] + f_folded[x + 1]

The new Func is placed like any other: inlined as before, per block or in a sliding window, where each value is computed
once and one tile takes the place of several (Artemis, section III-B4, storage and computation folding). Operations keep
their order and types, so results do not change.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.analysis.expressions.hash_consing import node_key
from autosched.analysis.expressions.operation_count import CALL_OPERATIONS
from autosched.analysis.expressions.shifts import shift_of, shifted
from autosched.analysis.pipeline_memo import pipeline_memo
from autosched.analysis.pipeline_rewrites import ComputationFolding
from autosched.analysis.rewrites.rebuild import fresh_name, func_of_value
from autosched.analysis.rewrites.rewrite import apply, build
from autosched.analysis.rewrites.value_extraction import (
    is_operation,
    operands,
    pure_form_error,
    values_of,
    with_extracted,
)
from autosched.errors import BoundsError, ScheduleError
from autosched.lang.expr import Call, Expr, Load, RVar, children, postorder

_MEMO = "_repeated_values"

Offsets = tuple[tuple[str, int], ...]
"""Constants that are added to coordinates, by dimension in alphabetical order."""


class TranslatedForm(NamedTuple):
    """An expression up to a shift of its coordinates.

    Attributes:
        number: Number of the form: equal for expressions that differ by a shift alone.
        offsets: The shift.
    """

    number: int
    offsets: Offsets


@dataclass(frozen=True)
class RepeatedValue:
    """A value that occurs at several points.

    Attributes:
        nodes: Its occurrences in the expressions.
        offsets: The shift of each.
        operations: Operations of one occurrence.
    """

    nodes: tuple[Expr, ...]
    offsets: tuple[Offsets, ...]
    operations: int

    @property
    def saved(self) -> int:
        """Operations of a point that remain undone where each value is computed once."""
        return (len(set(self.offsets)) - 1) * self.operations


def folding_error(bound: BoundPipeline, folding: ComputationFolding) -> str:
    """Return the reason why a value cannot be folded; empty if it can."""
    problem = _form_error(bound, folding)
    if problem:
        return problem
    try:
        apply(bound, folding)
    except BoundsError as e:  # conditions guard reads at the point of each occurrence, but not those of the Func
        return f"the folded value of {folding.func} has no bounds: {str(e).splitlines()[0]}"
    return ""


def _form_error(bound: BoundPipeline, folding: ComputationFolding) -> str:
    problem = pure_form_error(bound, folding.func)
    if problem:
        return problem
    count = len(repeated_values_of(bound, folding.func))
    if not 0 <= folding.number < count:
        repeated = f"{count} value{'s' if count != 1 else ''} at shifted points"
        return f"{folding.func} repeats {repeated}, so there is no number {folding.number}"
    return ""


def repeated_values_of(bound: BoundPipeline, name: str) -> list[RepeatedValue]:
    """Return the `repeated_values` of a pure Func; they are kept as long as the pipeline."""
    memo = pipeline_memo(bound, _MEMO)
    if name not in memo:
        memo[name] = repeated_values(bound.pipeline.func(name).definitions[0].values)
    repeated: list[RepeatedValue] = memo[name]
    return repeated


def repeated_values(values: Sequence[Expr]) -> list[RepeatedValue]:
    """Return the values with operations that occur at two or more points, those that save most operations first."""
    nodes = values_of(values)
    forms = _translated_forms(nodes)
    occurrences: dict[int, list[Expr]] = {}
    for node in nodes:
        form = forms.get(id(node))
        if form is not None and form.offsets and is_operation(node):
            occurrences.setdefault(form.number, []).append(node)
    costs = _operation_costs(nodes, forms)
    repeated = [
        RepeatedValue(tuple(equal), tuple(forms[id(n)].offsets for n in equal), costs[id(equal[0])])
        for equal in occurrences.values()
        if len({forms[id(n)].offsets for n in equal}) > 1
    ]
    return sorted(repeated, key=lambda r: -r.saved)


def distinct_operations(values: Sequence[Expr]) -> int:
    """Return the operations of some values, of which equal ones count once; a function call counts as ten."""
    nodes = values_of(values)
    forms = _translated_forms(nodes)
    counted = {forms.get(id(n), id(n)): _cost(n) for n in nodes}
    return sum(counted.values())


def _cost(e: Expr) -> int:
    return CALL_OPERATIONS if isinstance(e, Call) else int(is_operation(e))


def _operation_costs(nodes: Sequence[Expr], forms: Mapping[int, TranslatedForm]) -> dict[int, int]:
    """Return the distinct operations of each node, by its ``id``."""
    masks: dict[int, int] = {}
    bits: dict[Hashable, int] = {}
    weights: list[int] = []
    for node in nodes:  # operands first
        mask = 0
        for operand in operands(node):
            mask |= masks[id(operand)]
        if _cost(node):
            key = forms.get(id(node), id(node))
            if key not in bits:
                bits[key] = len(weights)
                weights.append(_cost(node))
            mask |= 1 << bits[key]
        masks[id(node)] = mask
    ones = sum(1 << k for k, weight in enumerate(weights) if weight == 1)
    return {
        key: (mask & ones).bit_count() + CALL_OPERATIONS * (mask & ~ones).bit_count() for key, mask in masks.items()
    }


def _translated_forms(nodes: Sequence[Expr]) -> dict[int, TranslatedForm]:
    """Return the form of each node by its ``id``; reduction variables and what depends on them have none."""
    numbers: dict[Hashable, int] = {}
    forms: dict[int, TranslatedForm | None] = {}
    for node in postorder(nodes, forms):
        shift = shift_of(node)
        if shift is not None:
            key: Hashable = ("coordinate", shift[0])
            forms[id(node)] = TranslatedForm(numbers.setdefault(key, len(numbers)), (shift,))
            continue
        parts = [forms[id(c)] for c in children(node)]
        if isinstance(node, RVar) or any(p is None for p in parts):
            forms[id(node)] = None
            continue
        origin: dict[str, int] = {}
        relative: list[tuple[int, Offsets]] = []
        for part in parts:
            assert part is not None
            for dim, offset in part.offsets:
                origin.setdefault(dim, offset)
            relative.append((part.number, tuple((dim, offset - origin[dim]) for dim, offset in part.offsets)))
        key = (node_key(node), tuple(relative))
        forms[id(node)] = TranslatedForm(numbers.setdefault(key, len(numbers)), tuple(sorted(origin.items())))
    return {key: form for key, form in forms.items() if form is not None}


@build.register
def _build(folding: ComputationFolding, bound: BoundPipeline) -> BoundPipeline:
    problem = _form_error(bound, folding)
    if problem:
        raise ScheduleError(f"{problem}: remove this folding, or make a new schedule")
    old = bound.pipeline.func(folding.func)
    chosen = repeated_values_of(bound, folding.func)[folding.number]
    centre = min(range(len(chosen.nodes)), key=lambda k: sum(abs(n) for _, n in chosen.offsets[k]))
    name = fresh_name(f"{folding.func}_folded", {*bound.funcs, *bound.inputs})
    new = func_of_value(old, chosen.nodes[centre], name)
    origin = dict(chosen.offsets[centre])
    reads: dict[int, Expr] = {}
    for node, offsets in zip(chosen.nodes, chosen.offsets, strict=True):
        distance = {dim: offset - origin[dim] for dim, offset in offsets}
        index = tuple(shifted(v, distance.get(v.name, 0)) for v in new.vars)
        reads[id(node)] = Load(new, index, node.dtype)
    return with_extracted(bound, old, reads, folding)
