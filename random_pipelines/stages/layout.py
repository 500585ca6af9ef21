"""Stages that permute or copy values: transposes, slices, flips, tiles, pixel shuffles."""

from __future__ import annotations

from collections.abc import Mapping

from autosched.lang.expr import Expr, Var
from autosched.random_pipelines.graph import Graph
from autosched.random_pipelines.registry import kind
from autosched.random_pipelines.tensor import Tensor

TILES = (4, 8, 16, 32, 7)


def with_extent(shape: Mapping[str, int], dim: str, extent: int) -> dict[str, int]:
    """Return a shape with another extent in one dimension."""
    return {d: extent if d == dim else n for d, n in shape.items()}


@kind("transpose")
def transpose(g: Graph) -> Tensor | None:
    """Another storage order (channels first or last), or rows and columns exchanged."""
    t = g.pick(lambda t: len(t.dims) > 1 and max(t.shape) > 1 and g.fits(t.shape))
    if t is None:
        return None
    order = list(t.dims)
    while tuple(order) == t.dims:
        order = g.draw.shuffled(order)
    shape = {d: t[d] for d in order}
    if "y" in t.dims and "x" in t.dims and g.draw.chance(0.5):  # names stay where they are, values are exchanged
        at = {"y": Var("x"), "x": Var("y")}
        shape = t.extents | {"y": t["x"], "x": t["y"]}
        return g.add_stage("transposed", shape, t.at(at))
    return g.add_stage("permuted", shape, t.at())


@kind("slice")
def slice_(g: Graph) -> Tensor | None:
    """One channel or plane, a crop, or every n-th element."""
    t = g.pick(lambda t: len(t.dims) > 1 and max(t.shape) > 3)
    if t is None:
        return None
    d = g.draw.pick([d for d in t.dims if t[d] > 1])
    if g.draw.chance(0.4) and len(t.dims) > 2 and d not in t.spatial[-2:]:
        shape = t.without(d)
        return g.add_stage("plane", shape, t.at({d: g.draw.integer(0, t[d] - 1)}))
    step = g.draw.pick((1, 1, 2, 3)) if t[d] > 3 else 1
    start = g.draw.integer(0, t[d] // 4)
    count = max((t[d] - start) * g.draw.integer(8, 16) // 16 // step, 1)
    at = {d: Var(d) * step + start}
    return g.add_stage("crop", with_extent(t.extents, d, count), t.at(at))


@kind("flip")
def flip(g: Graph) -> Tensor | None:
    """A dimension reversed or rotated."""
    t = g.pick(lambda t: bool(t.dims) and max(t.shape) > 1 and g.fits(t.shape))
    if t is None:
        return None
    d = g.draw.pick([d for d in t.dims if t[d] > 1])
    if g.draw.chance(0.6):
        return g.add_stage("flipped", t.extents, t.at({d: t[d] - 1 - Var(d)}))
    at = {d: (Var(d) + g.draw.integer(1, t[d] - 1)) % t[d]}
    return g.add_stage("rolled", t.extents, t.at(at))


@kind("tile")
def tile(g: Graph) -> Tensor | None:
    """Blocks as separate dimensions, blocks merged into one dimension, or a repeated pattern."""
    t = g.pick(lambda t: "x" in t.dims and t["x"] >= 8 and g.fits(t.shape))
    if t is None:
        return None
    size = min(g.draw.pick(TILES), t["x"])
    rest = t.without("x")
    if len(rest) <= 2 and "c" not in rest and g.draw.chance(0.5):  # x = size * (block number) + c
        at: dict[str, Expr] = {"x": Var("x") * size + Var("c")}
        return g.add_stage("blocked", rest | {"x": t["x"] // size, "c": size}, t.at(at))
    times = g.draw.pick((2, 2, 3))
    shape = with_extent(t.extents, "x", t["x"] * times)
    if not g.fits(shape.values()):
        return None
    return g.add_stage("repeated", shape, t.at({"x": Var("x") % t["x"]}))


@kind("shuffle")
def shuffle(g: Graph) -> Tensor | None:
    """Space to depth, or depth to space (sub-pixel convolution, the planes of a raw image)."""
    t = g.pick(lambda t: {"c", "y", "x"} <= set(t.dims) and g.fits(t.shape))
    if t is None:
        return None
    c, y, x = Var("c"), Var("y"), Var("x")
    if t["c"] % 4 == 0 and g.draw.chance(0.6):
        at: dict[str, Expr] = {"c": c * 4 + (y % 2) * 2 + x % 2, "y": y // 2, "x": x // 2}
        shape = t.extents | {"c": t["c"] // 4, "y": t["y"] * 2, "x": t["x"] * 2}
        return g.add_stage("depth_to_space", shape, t.at(at))
    if min(t["y"], t["x"]) < 2:
        return None
    at = {"c": c // 4, "y": y * 2 + (c // 2) % 2, "x": x * 2 + c % 2}
    shape = t.extents | {"c": t["c"] * 4, "y": t["y"] // 2, "x": t["x"] // 2}
    return g.add_stage("space_to_depth", shape, t.at(at))
