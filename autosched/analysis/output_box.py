"""Deduce the box of an output that declares none, or say which boxes would be valid."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from autosched.analysis import index as ix
from autosched.analysis.bound import Box
from autosched.errors import BoundsError, DSLError
from autosched.lang.func import Func, Input

if TYPE_CHECKING:
    from autosched.analysis.bind import Binder


def deduce_boxes(binder: Binder, missing: Sequence[Func], declared: Mapping[Func, Box]) -> dict[Func, Box]:
    """Return a box for every output without one.

    An output that reads an input of its own rank at its own point, every other read being covered by a boundary
    condition, gets that input's shape.

    Raises:
        DSLError: If that does not hold; the message prints the largest valid box where there is one.
    """
    return {f: _deduce(binder, f) for f in missing}


def _deduce(binder: Binder, func: Func) -> Box:
    shapes = {binder.shapes[i.name]: None for i in own_point_inputs(binder, func)}
    candidates: list[Box] = [tuple((0, n - 1) for n in shape) for shape in shapes]
    for box in candidates:
        if _is_valid(binder, func, box):
            return box
    hint = "declare the box: " + f"Pipeline([{func.name}.over({', '.join(f'{d}=(low, high)' for d in func.dims)})])"
    starts = candidates or [
        tuple((0, n - 1) for n in shape) for shape in binder.shapes.values() if len(shape) == func.ndim
    ]
    for start in starts:
        largest = _largest_valid(binder, func, start)
        if largest is not None:
            text = ", ".join(f"{d}=({lo}, {hi + 1})" for d, (lo, hi) in zip(func.dims, largest, strict=True))
            hint = f"the largest valid box for these shapes is {func.name}.over({text}); or give the input a boundary"
            break
    raise DSLError(
        f"output {func.name!r} has no box, and none follows from the inputs", location=func.location, hint=hint
    )


def own_point_inputs(binder: Binder, func: Func) -> list[Input]:
    """Return inputs of the Func's rank that it reads at its own point, directly or through other Funcs."""
    found: dict[Input, None] = {}
    seen, queue = {func}, [func]
    while queue:
        f = queue.pop(0)
        for s in binder.stages[f]:
            for load in s.loads:
                source = load.source
                if source.ndim != func.ndim or not (f.boundary or _at_own_point(binder, f, s.stage.memo, load.indices)):
                    continue
                if isinstance(source, Input):
                    found.setdefault(source)
                elif source not in seen:
                    seen.add(source)
                    queue.append(source)
    return list(found)


def _at_own_point(binder: Binder, f: Func, memo: dict[int, ix.Index], indices: Sequence[object]) -> bool:
    return all(ix.key(memo[id(e)]) == f"({d})" for e, d in zip(indices, f.dims, strict=True) if id(e) in memo)


def _is_valid(binder: Binder, func: Func, box: Box) -> bool:
    try:
        binder.check_reads(binder.regions({func: box}))
    except BoundsError:
        return False
    return True


def _largest_valid(binder: Binder, func: Func, start: Box) -> Box | None:
    """Shrink a box side by side; validity is monotone, so each side is found by bisection."""
    middle = [((lo + hi) // 2, (lo + hi) // 2) for lo, hi in start]
    if not _is_valid(binder, func, tuple(middle)):
        return None
    box: Box = tuple(middle)
    for axis, ends in enumerate(start):
        for side in (0, 1):
            good, bad = box[axis][side], ends[side]
            if _is_valid(binder, func, _moved(box, axis, side, bad)):
                good = bad
            while abs(good - bad) > 1:
                half = (good + bad) // 2
                if _is_valid(binder, func, _moved(box, axis, side, half)):
                    good = half
                else:
                    bad = half
            box = _moved(box, axis, side, good)
    return box


def _moved(box: Box, axis: int, side: int, value: int) -> Box:
    """Return a box with one side at another place."""
    pair = (value, box[axis][1]) if side == 0 else (box[axis][0], value)
    return (*box[:axis], pair, *box[axis + 1 :])
