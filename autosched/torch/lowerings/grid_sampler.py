"""Lowerings of sampling at positions of a grid, and of its gradients."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Literal

import torch

from autosched.lang import functions as fn
from autosched.lang.expr import Expr
from autosched.lang.func import Func
from autosched.lang.operators import as_expr
from autosched.lang.rdom import RDom
from autosched.torch.lowerings.grid_axis import GridAxis, Interpolation, PaddingMode, chosen
from autosched.torch.lowerings.pointwise import constant, converted
from autosched.torch.lowerings.reductions import accumulator
from autosched.torch.lowerings.registry import LoweringContext, register
from autosched.torch.lowerings.scatter import scattered
from autosched.torch.tensors import InvalidOperandError, Point, TensorValue, coordinates, element_type

aten = torch.ops.aten

_INTERPOLATIONS: tuple[Interpolation, ...] = ("bilinear", "nearest", "bicubic")
_PADDINGS: tuple[PaddingMode, ...] = ("zeros", "border", "reflection")


class _Sampler:
    """Positions of a grid in an input, as a Func for each of its spatial dimensions, outermost first.

    Args:
        context: The context of the lowering.
        a: The input, [images, channels, *spatial].
        grid: Positions from -1 to 1, [images, *results, axes], the innermost axis first.
        interpolation: PyTorch's number of the interpolation.
        padding: PyTorch's number of the padding.
        aligned: As in `GridAxis`.
        is_gradient: Whether gradients are computed, not samples.
    """

    def __init__(
        self,
        context: LoweringContext,
        a: TensorValue,
        grid: TensorValue,
        interpolation: int,
        padding: int,
        aligned: bool,
        is_gradient: bool = False,
    ) -> None:
        if 0 in a.shape[2:]:
            raise InvalidOperandError("a grid sampler of no element")
        self.name = context.name
        self.rank = len(a.shape) - 2
        self.inner = accumulator(a.dtype)
        self.source = a.stored(f"{context.name}_of")
        self.grid = grid.stored(f"{context.name}_grid")
        of_axes = _INTERPOLATIONS[interpolation], _PADDINGS[padding], aligned
        # PyTorch's kernels differ where a position is huge or no number. That for images on CPUs has vectors: it rounds
        # the quotient of a reflection and adds zeros, times NaN, outside. At a NaN, that for volumes on CPUs reads the
        # last element and has no gradient, others read the first one. Linear gradients leave such positions out; those
        # of images on CPUs are not defined.
        on_host = a.fake.device.type == "cpu"
        is_host_volume = self.rank == 3 and on_host
        at_nan: Literal["first", "last", "none"] = "last" if is_host_volume else "first"
        if is_gradient and (is_host_volume or of_axes[0] != "nearest"):
            at_nan = "none"
        is_scalar = self.rank == 3 or not on_host
        self.skips_outside = is_scalar or (at_nan == "none" and of_axes[1] != "zeros")
        self.axes = [GridAxis(n, *of_axes, at_nan, is_scalar) for n in a.shape[2:]]
        self.positions = [
            self._func(f"position{k}", lambda p, k=k, axis=axis: axis.position(self.value(p, k)))  # type: ignore[misc]
            for k, axis in enumerate(self.axes)
        ]

    def _func(self, suffix: str, value: Callable[[Point], Expr]) -> Func:
        func = Func(f"{self.name}_{suffix}")
        point = coordinates(1 + self.rank)
        func[point] = value(point)
        return func

    def value(self, p: Point, k: int) -> Expr:
        """Return the grid's value for a spatial dimension at [image, *result]."""
        return converted(self.grid.at((*p, self.rank - 1 - k)), self.inner)

    def at(self, p: Point) -> list[Expr]:
        """Return the positions of a result [image, *result]."""
        return [position[tuple(p)] for position in self.positions]

    def element(self, positions: Sequence[Expr], taps: Sequence[Expr | int]) -> tuple[list[Expr], list[Expr]]:
        """Return the index of a combination of taps, with the conditions under which it is not zero by padding."""
        index: list[Expr] = []
        conditions: list[Expr] = []
        for axis, position, tap in zip(self.axes, positions, taps, strict=True):
            i, inside = axis.element(position, tap)
            index.append(i)
            conditions += inside
        return index, conditions

    def sample(self, p: Point, factors: Sequence[Sequence[Expr]]) -> Expr:
        """Return the sum over all taps at [image, channel, *result], with factors by dimension and tap."""
        positions = self.at((p[0], *p[2:]))
        zero = constant(0, self.inner)
        total: Expr | None = None
        for taps in itertools.product(*(enumerate(axis.taps) for axis in self.axes)):
            index, conditions = self.element(positions, [tap for _, tap in taps])
            value = converted(self.source.at((p[0], p[1], *index)), self.inner)
            factor = _product([factors[k][number] for k, (number, _) in enumerate(taps)])
            if not conditions:
                term = value * factor
            elif self.skips_outside:
                term = fn.select(fn.all_of(*conditions), value * factor, zero)
            else:
                term = fn.select(fn.all_of(*conditions), value, zero) * factor
            total = term if total is None else total + term
        assert total is not None
        return total

    def weights(self, positions: Sequence[Expr]) -> list[list[Expr]]:
        """Return the factors by dimension and tap."""
        return [axis.weights(position) for axis, position in zip(self.axes, positions, strict=True)]


def _product(factors: Sequence[Expr]) -> Expr:
    result = factors[-1]
    for factor in reversed(factors[:-1]):
        result = result * factor
    return result


@register(aten.grid_sampler_2d.default, aten.grid_sampler_3d.default)
def lower_grid_sampler(
    context: LoweringContext, a: TensorValue, grid: TensorValue, interpolation: int, padding: int, aligned: bool
) -> TensorValue:
    """Read at positions between elements."""
    sampler = _Sampler(context, a, grid, interpolation, padding, aligned)
    result = element_type(context.fake.dtype)

    def at(p: Point) -> Expr:
        return converted(sampler.sample(p, sampler.weights(sampler.at((p[0], *p[2:])))), result)

    return TensorValue(context.fake, at)


@register(aten.grid_sampler_2d_backward.default, aten.grid_sampler_3d_backward.default)
def lower_grid_sampler_backward(
    context: LoweringContext,
    gradient: TensorValue,
    a: TensorValue,
    grid: TensorValue,
    interpolation: int,
    padding: int,
    aligned: bool,
    output_mask: Sequence[bool] = (True, True),
) -> tuple[TensorValue | None, TensorValue | None]:
    """Return the gradients of the input, a scatter in a fixed order, and of the grid."""
    sampler = _Sampler(context, a, grid, interpolation, padding, aligned, is_gradient=True)
    of_input, of_grid = context.fake
    held = gradient.stored(f"{context.name}_gradient")
    return (
        _input_gradient(sampler, held, of_input) if output_mask[0] else None,
        _grid_gradient(sampler, held, of_grid) if output_mask[1] else None,
    )


def _input_gradient(sampler: _Sampler, gradient: TensorValue, fake: torch.Tensor) -> TensorValue:
    rank, inner = sampler.rank, sampler.inner
    zero = constant(0, inner)
    domain = (*gradient.shape, *(len(axis.taps) for axis in sampler.axes))

    def place(p: Point) -> list[Expr]:
        positions, taps = _split(p)
        return [as_expr(p[0]), as_expr(p[1]), *sampler.element(positions, taps)[0]]

    def value(p: Point) -> Expr:
        positions, taps = _split(p)
        factors = [
            chosen(as_expr(number), weights)
            for number, weights in zip(p[-rank:], sampler.weights(positions), strict=True)
        ]
        term = converted(gradient.at(p[:-rank]), inner) * _product(factors)
        conditions = sampler.element(positions, taps)[1]
        return fn.select(fn.all_of(*conditions), term, zero) if conditions else term

    def _split(p: Point) -> tuple[list[Expr], list[Expr | int]]:
        taps: list[Expr | int] = [
            as_expr(number) + axis.taps[0] for number, axis in zip(p[-rank:], sampler.axes, strict=True)
        ]
        return sampler.at((p[0], *p[2:-rank])), taps

    base = TensorValue(fake, lambda _: zero)
    func = scattered(f"{sampler.name}_input", base, domain, {0: 0, 1: 1}, place, value, "sum")
    return TensorValue(fake, lambda p: converted(func[tuple(p)], element_type(fake.dtype)))


def _grid_gradient(sampler: _Sampler, gradient: TensorValue, fake: torch.Tensor) -> TensorValue:
    rank, inner = sampler.rank, sampler.inner
    func = Func(f"{sampler.name}_slopes")
    point = coordinates(1 + rank)
    zero = constant(0, inner)
    func[point] = (zero,) * rank
    channel = RDom("r", c=gradient.shape[1])[0]
    p = (point[0], channel, *point[1:])
    positions = sampler.at(point)
    weights = sampler.weights(positions)
    slopes = [axis.weight_slopes(position) for axis, position in zip(sampler.axes, positions, strict=True)]
    own = converted(gradient.at(p), inner)
    kept = [func[point]] if rank == 1 else list(func[point])
    func.update(
        point,
        tuple(
            kept[k] + own * sampler.sample(p, [slopes[j] if j == k else weights[j] for j in range(rank)])
            for k in range(rank)
        ),
        over=(channel,),
    )

    def at(q: Point) -> Expr:
        values = list(func[tuple(q[:-1])])
        parts = [values[k] * axis.slope(sampler.value(q[:-1], k)) for k, axis in enumerate(sampler.axes)][::-1]
        return converted(chosen(as_expr(q[-1]), parts), element_type(fake.dtype))

    return TensorValue(fake, at)
