"""Deduction of the box of an output that declares none."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from math import prod

from autosched.analysis.binder import Binder, loads_of
from autosched.analysis.bound_pipeline import Box
from autosched.analysis.indices import index as ix
from autosched.analysis.indices.to_index import to_index
from autosched.analysis.output_extents import aligned_boxes
from autosched.errors import BoundsError, DSLError, InputError
from autosched.lang.expr import Expr
from autosched.lang.func import Func, Input

FURTHEST = 1 << 31
"""Distance from a valid point beyond which a side counts as unlimited."""


def deduce_boxes(binder: Binder, missing: Sequence[Func]) -> dict[Func, Box]:
    """Return a box for every output without one.

    An output has the shape of an input of its rank that it reads pointwise, if a boundary condition covers every other
    read.

    Raises:
        DSLError: If no such box is valid; the hint has the largest valid box where there is one.
    """
    return {f: _deduce(binder, f) for f in missing}


def _deduce(binder: Binder, func: Func) -> Box:
    shapes = {binder.shapes[i.name]: None for i in pointwise_inputs(binder, func)}
    candidates: list[Box] = [tuple((0, n - 1) for n in shape) for shape in shapes]
    for box in candidates:
        if _is_valid(binder, func, box):
            return box
    shapes_of_rank = sorted((s for s in binder.shapes.values() if len(s) == func.ndim), key=prod, reverse=True)
    same_rank: list[Box] = [tuple((0, n - 1) for n in s) for s in shapes_of_rank]
    longest = max((n for s in binder.shapes.values() for n in s), default=1)
    for start in (*aligned_boxes(binder, func), *candidates, *same_rank, ((0, longest - 1),) * func.ndim):
        largest = _largest_valid(binder, func, start)
        if largest is not None:
            text = ", ".join(f"{d}=({lo}, {hi + 1})" for d, (lo, hi) in zip(func.dims, largest, strict=True))
            hint = f"the largest valid box for these shapes is {func.name}.over({text}); or give the input a boundary"
            break
    else:
        if candidates:  # no box is valid: report the read that fails
            binder.check_reads(binder.regions({func: candidates[0]}))
        hint = "declare the box: " + f"Pipeline([{func.name}.over({', '.join(f'{d}=(low, high)' for d in func.dims)})])"
    raise DSLError(
        f"output {func.name!r} has no box, and none follows from the inputs", location=func.location, hint=hint
    )


def pointwise_inputs(binder: Binder, func: Func) -> list[Input]:
    """Return inputs of the Func's rank that it reads pointwise, directly or through other Funcs."""
    inputs: dict[Input, None] = {}
    seen, queue = {func}, [func]
    while queue:
        f = queue.pop(0)
        for definition in binder.unguarded(f):
            for load in loads_of((*definition.values, *definition.indices)):
                source = load.source
                if source.ndim != func.ndim or not (f.boundary or _at_own_point(f, load.indices)):
                    continue
                if isinstance(source, Input):
                    inputs.setdefault(source)
                elif isinstance(source, Func) and source not in seen:
                    seen.add(source)
                    queue.append(source)
    return list(inputs)


def _at_own_point(f: Func, indices: Sequence[Expr]) -> bool:
    return all(ix.key(to_index(e)) == f"({d})" for e, d in zip(indices, f.dims, strict=True))


def _is_valid(binder: Binder, func: Func, box: Box) -> bool:
    try:
        binder.check_reads(binder.regions({func: box}))
    except (BoundsError, InputError):  # a read outside, or a boundary condition without a range
        return False
    return True


def _largest_valid(binder: Binder, func: Func, start: Box) -> Box | None:
    """Return a valid box that no side can extend; an unlimited side ends at that of ``start``."""
    seeds = (tuple((p, p) for p in point) for point in _points(start))
    box: Box | None = next((seed for seed in seeds if _is_valid(binder, func, seed)), None)
    if box is None:
        return None
    for axis, side in itertools.product(range(func.ndim), (0, 1)):
        box = _extended(binder, func, box, axis, side, start[axis][side])
    return box


def _points(start: Box) -> Iterator[tuple[int, ...]]:
    """Yield points of a box, beginning in the middle."""
    fractions = ((1, 2), (0, 1), (1, 1), (1, 4), (3, 4), (1, 8))
    along = [[lo + (hi - lo) * p // q for p, q in fractions] for lo, hi in start]
    yield from zip(*along, strict=True)
    if len(start) <= 3:
        yield from itertools.product(*along)


def _extended(binder: Binder, func: Func, box: Box, axis: int, side: int, end: int) -> Box:
    """Return the box with one side at its furthest valid coordinate: by doubling steps, then by bisection."""
    sign = 1 if side else -1
    at, step = box[axis][side], 1
    while step <= FURTHEST and _is_valid(binder, func, _moved(box, axis, side, at + sign * step)):
        step *= 2
    if step > FURTHEST:
        return _moved(box, axis, side, end if sign * (end - at) > 0 else at)
    good, bad = step // 2, step
    while bad - good > 1:
        half = (good + bad) // 2
        if _is_valid(binder, func, _moved(box, axis, side, at + sign * half)):
            good = half
        else:
            bad = half
    return _moved(box, axis, side, at + sign * good)


def _moved(box: Box, axis: int, side: int, value: int) -> Box:
    """Return a box with one side at another coordinate."""
    pair = (value, box[axis][1]) if side == 0 else (box[axis][0], value)
    return (*box[:axis], pair, *box[axis + 1 :])
