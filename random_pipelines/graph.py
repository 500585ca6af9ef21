"""The pipeline under construction: tensors that stages may read, inputs, and usage of the limits."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod

from autosched.lang.dtypes import DType, as_dtype
from autosched.lang.expr import Expr, Param, Scalar, Var
from autosched.lang.func import Func, Input
from autosched.random_pipelines.arithmetic import rescaled_if_large
from autosched.random_pipelines.bounded_dims import BoundedDims
from autosched.random_pipelines.portable_random import PortableRandom
from autosched.random_pipelines.settings import RandomPipelineSettings
from autosched.random_pipelines.sizes import first_shape
from autosched.random_pipelines.tensor import Tensor, Value

BOUNDARIES = ("clamped", "constant", "mirrored", "mirrored_without_edge", "wrapped")
PAD_AGAIN = 0.15
"""Probability that an unbounded tensor gets a boundary condition as well."""
MIN_LANES = 256
"""Parallel iterations below which the serial loop of a reduction must be short."""


@dataclass(frozen=True, slots=True)
class InputRange:
    """Shape and half-open value range of an input."""

    shape: tuple[int, ...]
    low: float
    high: float


@dataclass
class Graph:
    """A pipeline under construction.

    Attributes:
        draw: Random decisions.
        settings: Distribution and limits.
        tensors: Tensors that stages may read, newest last.
        inputs: Shapes and ranges of the inputs, by name.
        params: Values of run-time parameters, by name.
        stages: Definitions and updates so far, without boundary conditions.
        operations: Operations of all stages, estimated before shapes are bound.
        bytes_: Bytes of all inputs and Funcs.
        closed: Bounded dimensions of the Funcs.
        real: Floating-point type of the idioms of families.
    """

    draw: PortableRandom
    settings: RandomPipelineSettings
    tensors: list[Tensor] = field(default_factory=list)
    inputs: dict[str, InputRange] = field(default_factory=dict)
    params: dict[str, Scalar] = field(default_factory=dict)
    stages: int = 0
    operations: int = 0
    bytes_: int = 0
    closed: BoundedDims = field(default_factory=BoundedDims)
    real: str = "float32"

    def pick(self, suits: Callable[[Tensor], bool] = lambda t: True) -> Tensor | None:
        """Return a tensor with a property, most often a recent one, or None if there is none."""
        suitable = [t for t in reversed(self.tensors) if suits(t)]
        for t in suitable:
            if self.draw.chance(self.settings.recency):
                return t
        return self.draw.pick(suitable) if suitable else None

    def fits(self, shape: Iterable[int], *, terms: int = 1, bytes_: int = 4) -> bool:
        """Return whether a stage is within the limits.

        Args:
            shape: Its extents.
            terms: Iterations of its reduction loops at each point.
            bytes_: Size of an element.
        """
        points, s = prod(shape), self.settings
        return (
            0 < points <= s.max_points
            and (points >= MIN_LANES or terms <= s.max_serial)
            and self.operations + 2 * points * terms <= s.max_operations
            and self.bytes_ + points * bytes_ <= s.max_bytes
        )

    def add_input(
        self, dtype: DType | str, dims: Sequence[str], shape: Sequence[int], low: float, high: float, name: str = "in"
    ) -> Tensor:
        """Return a new input with values in a range; stages read it only if it is appended to ``tensors``."""
        unique = f"{name}{len(self.inputs)}"
        source = Input(unique, as_dtype(dtype), len(dims), dims=dims)
        self.inputs[unique] = InputRange(tuple(shape), low, high)
        tensor = self.tensor(source, dims, shape, low, high)
        self.bytes_ += tensor.points * tensor.dtype.bytes_
        return tensor

    def add_image(self, dims: Sequence[str] | None = None, shape: Sequence[int] | None = None) -> Tensor:
        """Add an input of the usual kinds, of a random shape if none is given, for stages to read."""
        if dims is None or shape is None:
            dims, shape = first_shape(self.draw, self.settings)
        dtype = as_dtype(self.draw.weighted(self.settings.dtypes))
        low, high = value_range(self.draw, dtype)
        self.tensors.append(self.add_input(dtype, dims, shape, low, high))
        return self.tensors[-1]

    def add_param(self, value: float, dtype: str = "float32", name: str = "gain") -> Value:
        """Return a run-time parameter with its value."""
        unique = f"{name}{len(self.params)}"
        self.params[unique] = value
        return Value(Param(unique, as_dtype(dtype)), value, value)

    def tensor(
        self, source: Func | Input, dims: Sequence[str], shape: Sequence[int], low: float, high: float
    ) -> Tensor:
        """Return a Func or Input as a tensor, without accounting for it."""
        return Tensor(source, tuple(dims), tuple(shape), low, high, self.closed.of(source))

    def add_stage(self, name: str, shape: Mapping[str, int], value: Value, *, visible: bool = True) -> Tensor:
        """Return a Func with a pure definition alone.

        Args:
            name: The Func's name.
            shape: Extents by dimension, outermost first.
            value: Its value at the Vars of these names.
            visible: Whether other stages may read it.
        """
        value = rescaled_if_large(value)
        func = Func(name)
        func[tuple(Var(d) for d in shape)] = value.expr
        return self.add(self.tensor(func, list(shape), list(shape.values()), value.low, value.high), visible)

    def add(self, tensor: Tensor, visible: bool = True, *, terms: int = 1) -> Tensor:
        """Account for a tensor with ``terms`` iterations of reduction loops per point, and return it."""
        self.stages += len(tensor.source.definitions) if isinstance(tensor.source, Func) else 0
        self.operations += 2 * tensor.points * terms
        self.bytes_ += tensor.points * tensor.dtype.bytes_
        if visible:
            self.tensors.append(tensor)
        return tensor

    def readable(self, t: Tensor, dims: Sequence[str]) -> Tensor:
        """Return a tensor that may be read outside its shape in some dimensions, padded if necessary."""
        if not t.closed.intersection(dims) and not self.draw.chance(PAD_AGAIN):
            return t
        return self.bounded(t, self.draw.pick(BOUNDARIES), dims)

    def bounded(self, t: Tensor, kind: str, dims: Sequence[str]) -> Tensor:
        """Return a tensor with a boundary condition in some dimensions."""
        ranges = {d: (0, t[d]) for d in dims}
        low, high = t.low, t.high
        if kind == "constant":
            outside: Scalar = False if t.dtype.kind == "b" else 0
            func = t.source.constant(outside, **ranges)
            low, high = min(low, 0.0), max(high, 0.0)
        else:
            func = getattr(t.source, kind)(**ranges)
        return replace(t, source=func, low=low, high=high, closed=self.closed.of(func))


def value_range(draw: PortableRandom, dtype: DType) -> tuple[float, float]:
    """Return a usual range of an input's values, half open."""
    if dtype.kind == "b":
        return 0.0, 1.0
    if dtype.is_float:
        return draw.pick(((0.0, 1.0), (0.0, 1.0), (-1.0, 1.0), (-4.0, 4.0)))
    if dtype.bits == 8:
        return float(dtype.min_value), float(dtype.max_value)
    if dtype.kind == "i":
        return draw.pick(((-512.0, 511.0), (-2048.0, 2047.0), (0.0, 99.0)))
    return 0.0, draw.pick((1023.0, 4095.0, 999.0))


def shifted_coordinate(name: str, by: int | Expr) -> dict[str, Expr]:
    """Return a shifted coordinate."""
    return {name: Var(name) + by}
