"""Operands of the families: inputs sized by their work, in the types of the family, often after a stage or two."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from autosched.lang.dtypes import as_dtype
from autosched.random_pipelines import arithmetic as ar
from autosched.random_pipelines.graph import Graph, value_range
from autosched.random_pipelines.portable_random import PortableRandom
from autosched.random_pipelines.settings import RandomPipelineSettings
from autosched.random_pipelines.stages import KINDS
from autosched.random_pipelines.tensor import Tensor, Value

WORK_BITS = (20, 26)
"""Binary logarithms of the operations of an idiom; the leading bits are uniform."""
ASPECTS = ((3, 4), (3, 4), (9, 16), (1, 1), (2, 3), (4, 3), (1, 4))
"""Ratios of rows to columns."""
PRELUDES = ("elementwise", "activation", "conv1d", "separable", "pad", "flip", "conv2d")
"""Kinds of stages before an idiom."""
PRELUDE = 0.35
"""Probability of a stage before an idiom."""
LAYOUTS: Mapping[tuple[str, ...], float] = {
    ("y", "x"): 0.5,
    ("y", "x", "c"): 0.2,
    ("c", "y", "x"): 0.15,
    ("n", "y", "x"): 0.1,
    ("n", "c", "y", "x"): 0.05,
}
"""Relative frequency of the dimensions of images."""
FEW = (1, 2, 3, 3, 3, 4, 4)
"""Extents of batches and colours."""
DEPTHS = (8, 12, 16, 24, 32, 48)
"""Planes of a volume."""


def work(g: Graph) -> int:
    """Return the operations that an idiom should take, within the limits."""
    operations = (1 << g.draw.integer(*WORK_BITS)) * g.draw.integer(16, 31) // 16
    return min(operations, g.settings.max_operations // 2)


def points_for(g: Graph, per_point: int) -> int:
    """Return a number of points that each take some operations."""
    return max(min(work(g) // per_point, g.settings.max_points // 4), 4)


def rows_and_columns(g: Graph, points: int) -> tuple[int, int]:
    """Return the extents of a plane with about so many points."""
    rows_share, columns_share = g.draw.pick(ASPECTS)
    rows = math.isqrt(points * rows_share // columns_share)
    return _usual(g, rows), _usual(g, points // max(rows, 1))


def image(
    g: Graph, per_point: int, dtypes: Mapping[str, float] | None = None, *,
    layouts: Mapping[tuple[str, ...], float] = LAYOUTS, least: int = 3, prelude: bool = True,
) -> Tensor:  # fmt: skip
    """Add an image, often with a stage after it, and return the last tensor.

    Args:
        g: The graph.
        per_point: Operations of the idiom at each point.
        dtypes: Weights of its element types; `real_types` by default.
        layouts: Weights of its dimensions.
        least: Least extent of a row or column.
        prelude: Whether a stage may follow.
    """
    dims = g.draw.weighted(layouts)
    few = {d: min(g.draw.pick(FEW), g.settings.channels[1]) for d in dims if d in "nc"}
    few |= {d: min(g.draw.pick(DEPTHS), g.settings.extents[1]) for d in dims if d == "z"}
    rows, columns = rows_and_columns(g, points_for(g, per_point * math.prod(few.values())))
    extents = {**few, "y": max(rows, least), "x": max(columns, least)}
    dtype = g.draw.weighted(real_types(g) if dtypes is None else dtypes)
    t = add_array(g, dtype, dims, [extents[d] for d in dims])
    g.tensors.append(t)
    return preluded(g, t, least) if prelude else t


def preluded(g: Graph, t: Tensor, least: int = 3) -> Tensor:
    """Return a tensor, or the result of a stage that reads it and has its dimensions."""
    if not g.draw.chance(PRELUDE):
        return t
    result = KINDS[g.draw.pick(PRELUDES)].build(g)
    suits = result is not None and result.dims == t.dims and min(result["y"], result["x"]) >= least
    return result if suits and result is not None else t


def add_array(g: Graph, dtype: str, dims: Sequence[str], shape: Sequence[int], name: str = "in") -> Tensor:
    """Return a new input of an element type's usual range, which stages do not read unless they are given it."""
    low, high = value_range(g.draw, as_dtype(dtype))
    return g.add_input(dtype, dims, shape, low, high, name)


def real_types(g: Graph) -> Mapping[str, float]:
    """Return weights of the element types of inputs whose values are computed with as real numbers."""
    if g.real == "float64":
        return {"float64": 0.85, "float32": 0.1, "uint8": 0.05}
    return {"float32": 0.65, "uint8": 0.2, **dict.fromkeys(g.settings.reduced_floats, 0.1), "uint16": 0.05}


def narrow_types(g: Graph) -> Mapping[str, float]:
    """Return weights of the element types of images of bytes and words."""
    if g.real == "float64":
        return {"float64": 1.0}
    return {"uint8": 0.6, "uint16": 0.2, "int16": 0.2}


def real(g: Graph, value: Value) -> Value:
    """Return a value of at most 16 in the family's floating-point type."""
    return ar.scaled_down(ar.converted(ar.numeric(value), g.real))


def limited(draw: PortableRandom, extent: int, settings: RandomPipelineSettings) -> int:
    """Return a channel or feature extent within the settings."""
    low, high = settings.channels
    return extent if low <= extent <= high else draw.integer(low, high)


def _usual(g: Graph, extent: int) -> int:
    """Return an extent near another one, within the settings: mostly a multiple of 8."""
    low, high = g.settings.extents
    extent = max(min(extent, high), low)
    if g.draw.chance(g.settings.odd):
        return max(extent - g.draw.integer(0, 3), 1)
    return max(extent // 8 * 8, low)
