"""Updates at constant indices as gathers: for each element, the updates that have its index.

    f[i // 2] += v[i]    ->    f[x] = v[2 * x] + v[2 * x + 1]

Gathers run in parallel and in vectors, where updates at computed places run one after another.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from autosched.lang import functions as fn
from autosched.lang.expr import Expr, ExprLike
from autosched.lang.operators import binary
from autosched.torch.lowerings.affine_fit import AffineFit, Integers, affine_fit, lower_line
from autosched.torch.tensors import TensorValue

MOST_WORK = 4
"""Most terms of the gather for each update."""


@dataclass(frozen=True)
class IndexRuns:
    """Updates along one axis, whose indices do not decrease: those of element x are among `most` ones from a start.

    Attributes:
        axis: The axis of the updates.
        extent: Number of updates.
        start: First update that is tried for each element.
        most: Number of updates that are tried.
        index: Index of an update; None where all that are tried are the element's.
        exceeds: Whether updates before the first and beyond the last one are tried.
    """

    axis: int
    extent: int
    start: AffineFit
    most: int
    index: Callable[[ExprLike], Expr] | None
    exceeds: tuple[bool, bool]

    @property
    def loops(self) -> tuple[int, ...]:
        """Extents of the loops over the updates of an element."""
        return (self.most,)

    def places(self, x: Expr, loops: Sequence[ExprLike]) -> tuple[dict[int, ExprLike], list[Expr]]:
        """Return the coordinate of an update by axis, and the conditions under which it has the element's index."""
        place = self.start.at(x) + loops[0]
        if self.index is None:
            return {self.axis: place}, []
        before, beyond = self.exceeds
        conditions = ([place >= 0] if before else []) + ([place < self.extent] if beyond else [])
        place = fn.max(place, 0) if before else place
        place = fn.min(place, self.extent - 1) if beyond else place
        return {self.axis: place}, [*conditions, binary("eq", self.index(place), x)]


@dataclass(frozen=True)
class LinearIndex:
    """Updates whose index is ``step * i + offset(j...)`` for one axis i, the others being few.

    Attributes:
        axis: The axis i.
        extent: Its extent.
        step: At least 1.
        others: The axes j, with their extents.
        offsets: Offset for each axis j, which are added.
    """

    axis: int
    extent: int
    step: int
    others: tuple[tuple[int, int], ...]
    offsets: tuple[AffineFit, ...]

    @property
    def loops(self) -> tuple[int, ...]:
        """Extents of the loops over the updates of an element."""
        return tuple(n for _, n in self.others)

    def places(self, x: Expr, loops: Sequence[ExprLike]) -> tuple[dict[int, ExprLike], list[Expr]]:
        """Return the coordinate of an update by axis, and the conditions under which it has the element's index."""
        moved = x
        for offset, j in zip(self.offsets, loops, strict=True):
            moved = moved - offset.at(j)
        place = moved if self.step == 1 else moved // self.step
        conditions = [place >= 0, place < self.extent]
        place = fn.clamp(place, 0, self.extent - 1)
        if self.step > 1:
            conditions.append(binary("eq", moved % self.step, 0))
        return {self.axis: place, **{axis: j for (axis, _), j in zip(self.others, loops, strict=True)}}, conditions


InverseIndex = IndexRuns | LinearIndex


def inverse_indices(
    given: Mapping[int, TensorValue],
    indices: Mapping[int, TensorValue],
    extents: Mapping[int, int],
    common: Sequence[int],
) -> dict[int, InverseIndex] | None:
    """Return, for each indexed dimension, the updates of an element; None unless a gather takes little more work.

    Args:
        given: Index tensors by dimension.
        indices: The same, in range.
        extents: Extents of these dimensions.
        common: Shape of the index tensors after broadcasting.
    """
    used: set[int] = set()
    found: dict[int, InverseIndex] = {}
    for dim, index in given.items():
        if index.constant is None or not index.constant.numel():
            return None
        values: Integers = index.constant.cpu().numpy().astype(np.int64)
        values = np.where(values < 0, values + extents[dim], values)
        own = [axis + len(common) - values.ndim for axis, n in enumerate(values.shape) if n > 1]
        inverse = _inverse(values, own, indices[dim], extents[dim])
        if inverse is None or used & set(own):
            return None
        used |= set(own)
        found[dim] = inverse
    if used != {axis for axis, n in enumerate(common) if n > 1}:
        return None
    terms = math.prod(n for inverse in found.values() for n in inverse.loops) * math.prod(extents.values())
    return found if terms <= MOST_WORK * math.prod(common) else None


def _inverse(values: Integers, axes: Sequence[int], index: TensorValue, extent: int) -> InverseIndex | None:
    if not axes or values.min() < 0 or values.max() >= extent:
        return None
    if len(axes) == 1:
        shape = values.shape

        def at(i: ExprLike) -> Expr:
            return index.at(tuple(i if n > 1 else 0 for n in shape))

        return _runs(values.reshape(-1), axes[0], at, extent)
    values = values.squeeze()
    flat = values.reshape(-1)[0]
    largest = int(np.argmax(values.shape))
    steps = [np.take(values - flat, range(n), axis=k)[_line(values.ndim, k)] for k, n in enumerate(values.shape)]
    if (sum(s.reshape([-1 if j == k else 1 for j in range(values.ndim)]) for k, s in enumerate(steps)) + flat
            != values).any():  # fmt: skip
        return None
    step = int(steps[largest][1])
    others = [k for k in range(values.ndim) if k != largest]
    fits = [affine_fit(steps[k] + (flat if k == others[0] else 0)) for k in others]
    if step < 1 or (np.diff(steps[largest]) != step).any() or any(fit is None for fit in fits):
        return None
    return LinearIndex(
        axes[largest],
        values.shape[largest],
        step,
        tuple((axes[k], values.shape[k]) for k in others),
        tuple(fit for fit in fits if fit is not None),
    )


def _line(rank: int, axis: int) -> tuple[slice | int, ...]:
    return tuple(slice(None) if k == axis else 0 for k in range(rank))


def _runs(values: Integers, axis: int, index: Callable[[ExprLike], Expr], extent: int) -> IndexRuns | None:
    if (np.diff(values) < 0).any():
        return None
    starts = np.searchsorted(values, np.arange(extent), "left")
    sizes = np.searchsorted(values, np.arange(extent), "right") - starts
    exact = affine_fit(starts)
    most = int(sizes.max())
    if exact is not None and (sizes == most).all():
        return IndexRuns(axis, len(values), exact, most, None, (False, False))
    line, most = lower_line(starts, sizes)
    tried = (np.arange(extent) * line.factor + line.offset) // line.divisor
    exceeds = bool(tried.min() < 0), bool(tried.max() + most > len(values))
    return IndexRuns(axis, len(values), line, most, index, exceeds)
