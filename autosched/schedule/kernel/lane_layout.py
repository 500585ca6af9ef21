"""Distribution of the points of a hybrid tile over the lanes, steps and registers of a warp."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod

from autosched.analysis.indices import index as ix


@dataclass(frozen=True, slots=True)
class LaneOrder:
    """Order of the threads of a warp.

    Attributes:
        block: Threads in x, y and z.
        linear: Whether each nest numbers its threads by a linear index, x fastest.
    """

    block: tuple[int, int, int]
    linear: bool

    def strides(self, threads: Sequence[int]) -> tuple[int, int, int]:
        """Return the distance in lanes between neighbouring threads along x, y and z of a nest with these threads."""
        x, y, *_ = [*threads, 1, 1] if self.linear else self.block
        return 1, x, x * y

    def mask(self, threads: Sequence[int]) -> int:
        """Return the lanes that execute a nest with these threads, as a mask."""
        strides = self.strides(threads)
        points = product(*(range(n) for n in threads))
        return sum(1 << sum(at * s for at, s in zip(p, strides, strict=False)) for p in points)


@dataclass(frozen=True)
class LaneLayout:
    """Distribution of the points of one dimension over lanes and steps.

    Attributes:
        dim: The dimension.
        base: The first point of lane 0 in step 0; along the split dimension, of the steps in registers.
        points: Neighbouring points of a lane in a step.
        lanes: Lanes along the dimension.
        steps: Number of steps; along the split dimension, of those in registers.
        axis: Axis of threadIdx of the lanes, None without a thread loop.
    """

    dim: str
    base: ix.Index
    points: int
    lanes: int
    steps: int
    axis: int | None

    @property
    def step_points(self) -> int:
        """Points of all lanes in a step."""
        return self.points * self.lanes


@dataclass(frozen=True)
class HybridStorage:
    """Storage of a hybrid tile.

    Attributes:
        func: The producer.
        split: The dimension along which the tile is divided.
        layouts: Distribution of each dimension, in the order of the Func's dimensions.
        threads: Lanes in x, y and z.
        shared_extent: Points along the split dimension in shared memory.
    """

    func: str
    split: str
    layouts: tuple[LaneLayout, ...]
    threads: tuple[int, ...]
    shared_extent: int

    @property
    def elements(self) -> int:
        """Registers of a lane, in elements."""
        return prod(a.points * a.steps for a in self.layouts)

    @property
    def split_layout(self) -> LaneLayout:
        """The distribution of the split dimension."""
        return self.layout(self.split)

    def layout(self, dim: str) -> LaneLayout:
        """Return the distribution of a dimension."""
        return next(a for a in self.layouts if a.dim == dim)

    def register(self, places: Mapping[str, tuple[int, int]]) -> int:
        """Return the register of a step and a point of the lane in each dimension."""
        number = 0
        for a in self.layouts:
            step, point = places[a.dim]
            number = (number * a.steps + step) * a.points + point
        return number
