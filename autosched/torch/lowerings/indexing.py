"""Lowerings of reads at indices from tensors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from autosched.lang import functions as fn
from autosched.lang.expr import Expr, ExprLike, Load, walk
from autosched.torch.lowerings.affine_fit import affine_fit
from autosched.torch.lowerings.pointwise import broadcast, constant
from autosched.torch.lowerings.registry import LoweringContext, register
from autosched.torch.lowerings.value_range import is_bounded, value_range
from autosched.torch.tensors import InvalidOperandError, Point, TensorValue, coordinates

aten = torch.ops.aten


def index_at(
    context: LoweringContext, index: TensorValue, extent: int, what: str, *, wraps: bool = True
) -> TensorValue:
    """Return an index tensor whose elements are in range, and check that those of every call are.

    Args:
        context: The context of the lowering.
        index: Indices; negative ones count from the end.
        extent: Number of elements of the dimension.
        what: The operator, for the error's text.
        wraps: Whether negative indices are allowed.
    """
    low = -extent if wraps else 0
    span = value_range(index)
    if span is not None and low <= span[0] and span[1] < extent:
        return _in_range(index, span, extent)
    if extent == 0:
        raise InvalidOperandError(f"{what} of a dimension without elements")
    held = index.stored(f"{context.name}_index")
    bad = TensorValue(
        index.fake.new_empty(index.shape, dtype=torch.bool), lambda p: (held.at(p) < low) | (held.at(p) >= extent)
    )
    context.add_check(bad, IndexError, f"{what}: an index is out of range for a dimension of {extent} elements")
    return unchecked_index(held, extent, wraps=wraps)


def unchecked_index(index: TensorValue, extent: int, *, wraps: bool = True) -> TensorValue:
    """Return an index tensor whose elements are in range, clamped where that does not follow from its expression."""
    low = -extent if wraps else 0
    span = value_range(index) or (low, extent - 1)
    return _in_range(index, (max(span[0], low), min(span[1], extent - 1)), extent)


def _in_range(index: TensorValue, span: tuple[int, int], extent: int) -> TensorValue:
    """Return an index tensor in whose range negative elements count from the end."""
    fitted = _fitted(index, extent)
    if fitted is not None:
        return fitted

    def at(p: Point) -> Expr:
        e = index.at(p)
        if span[1] < 0:
            return e + extent
        return _wrapped(e, extent) if span[0] < 0 else e

    found = TensorValue(index.fake, at)
    if is_bounded(found, extent) and not _is_rounded_constant(index):
        return found
    return TensorValue(index.fake, lambda p: fn.clamp(at(p), 0, extent - 1))


def _fitted(index: TensorValue, extent: int) -> TensorValue | None:
    """Return a constant index that varies along one dimension as an expression of its coordinate; None for others."""
    if index.constant is None or not index.constant.numel() or not _is_rounded_constant(index):
        return None
    axes = [k for k, n in enumerate(index.shape) if n > 1]
    values = index.constant.cpu().numpy().astype(np.int64).reshape(-1)
    fit = affine_fit(np.where(values < 0, values + extent, values)) if len(axes) < 2 else None
    if fit is None:
        return None
    return TensorValue(index.fake, lambda p: fn.cast(index.dtype, fit.at(p[axes[0]] if axes else 0)))


def _is_rounded_constant(index: TensorValue) -> bool:
    """Whether a constant index comes from an array or from floating-point numbers, and so has no exact range."""
    if index.constant is None:
        return False
    return any(isinstance(e, Load) or e.dtype.is_float for e in walk(index.at(coordinates(len(index.shape)))))


def _wrapped(e: Expr, extent: int) -> Expr:
    return fn.select(e < 0, e + extent, e)


def masks(_: Any, indices: Sequence[Any], *__: Any) -> str | None:
    """Return why an index that contains a mask is not translated; None without one."""
    if any(i is not None and i.dtype in (torch.bool, torch.uint8) for i in indices):
        return "an index by a mask: its size depends on data"
    return None


@dataclass(frozen=True)
class IndexedPlaces:
    """Points of a tensor that an index by tensors selects.

    The dimensions of the index tensors, broadcast with each other, replace those that are indexed: in place where
    these are adjacent, else in front.

    Attributes:
        given: Index tensors by dimension.
        indices: The same, in range.
        rank: Number of dimensions of the indexed tensor.
        common: Shape of the index tensors after broadcasting.
        first: Where the dimensions of `common` begin in the result.
    """

    given: Mapping[int, TensorValue]
    indices: Mapping[int, TensorValue]
    rank: int
    common: tuple[int, ...]
    first: int

    @property
    def free_dimensions(self) -> list[int]:
        """Dimensions without an index tensor."""
        return [k for k in range(self.rank) if k not in self.indices]

    def at(self, p: Point) -> tuple[ExprLike, ...]:
        """Return the point of the indexed tensor for a point of the result."""
        end = self.first + len(self.common)
        of_index = p[self.first : end]
        rest = iter((*p[: self.first], *p[end:]))
        return tuple(
            broadcast(self.indices[k], of_index) if k in self.indices else next(rest) for k in range(self.rank)
        )


def indexed_places(
    context: LoweringContext, a: TensorValue, indices: Sequence[TensorValue | None], what: str, *, checks: bool = True
) -> IndexedPlaces:
    """Return the points that index tensors select.

    Args:
        context: The context of the lowering.
        a: The indexed tensor.
        indices: An index tensor or None for each of its first dimensions.
        what: The operator, for the error's text.
        checks: Whether indices are checked; else those out of range are clamped.
    """
    given = {k: i for k, i in enumerate(indices) if i is not None}
    common = tuple(np.broadcast_shapes(*(i.shape for i in given.values())))
    inside = {
        k: i if 0 in common else index_at(context, i, a.shape[k], what) if checks else unchecked_index(i, a.shape[k])
        for k, i in given.items()
    }
    places = sorted(given)
    adjacent = places == list(range(places[0], places[-1] + 1)) if places else False
    return IndexedPlaces(given, inside, len(a.shape), common, places[0] if adjacent else 0)


@register(aten.index.Tensor, unsupported=masks)
def lower_index(context: LoweringContext, a: TensorValue, indices: Sequence[TensorValue | None]) -> TensorValue:
    """Read at points given by tensors, which are broadcast with each other."""
    places = indexed_places(context, a, indices, "index")
    source = a.stored(f"{context.name}_of")
    return TensorValue(context.fake, lambda p: source.at(places.at(p)))


@register(aten._unsafe_index.Tensor, unsupported=masks)
def lower_unsafe_index(context: LoweringContext, a: TensorValue, indices: Sequence[TensorValue | None]) -> TensorValue:
    """Read at points that are in range by construction."""
    places = indexed_places(context, a, indices, "index", checks=False)
    source = a.stored(f"{context.name}_of")
    return TensorValue(context.fake, lambda p: source.at(places.at(p)))


@register(aten._unsafe_masked_index.default, unsupported=lambda a, mask, indices, fill: masks(a, indices))
def lower_unsafe_masked_index(
    context: LoweringContext, a: TensorValue, mask: TensorValue, indices: Sequence[TensorValue | None], fill: float
) -> TensorValue:
    """Read where a mask holds, at points that are in range there; elsewhere take a number."""
    places = indexed_places(context, a, indices, "index", checks=False)
    source = a.stored(f"{context.name}_of")
    filled = constant(fill, a.dtype)
    return TensorValue(context.fake, lambda p: fn.select(broadcast(mask, p), source.at(places.at(p)), filled))


@register(aten.gather.default)
def lower_gather(context: LoweringContext, a: TensorValue, dim: int, index: TensorValue, **_: Any) -> TensorValue:
    """Read along one dimension at indices for every point; those of a number are 0."""
    if not a.shape:
        index_at(context, index, 1, "gather", wraps=False)
        return TensorValue(context.fake, lambda _: a.at(()))
    axis = dim % len(a.shape)
    source = a.stored(f"{context.name}_of")
    inside = index_at(context, index, a.shape[axis], "gather", wraps=False)
    return TensorValue(context.fake, lambda p: source.at((*p[:axis], inside.at(p), *p[axis + 1 :])))


@register(aten.index_select.default)
def lower_index_select(context: LoweringContext, a: TensorValue, dim: int, index: TensorValue) -> TensorValue:
    """Read slices of one dimension."""
    if not a.shape:
        return a
    axis = dim % len(a.shape)
    source = a.stored(f"{context.name}_of")
    inside = index_at(context, index, a.shape[axis], "index_select", wraps=False)

    def at(p: Point) -> Expr:
        place = inside.at((p[axis],) if index.shape else ())
        return source.at((*p[:axis], place, *p[axis + 1 :]))

    return TensorValue(context.fake, at)


@register(aten.embedding.default)
def lower_embedding(context: LoweringContext, weight: TensorValue, index: TensorValue, *_: Any) -> TensorValue:
    """Read rows of a table."""
    source = weight.stored(f"{context.name}_of")
    inside = index_at(context, index, weight.shape[0], "embedding", wraps=False)
    return TensorValue(context.fake, lambda p: source.at((inside.at(p[:-1]), p[-1])))
