"""Points taken from elsewhere: warps by flow fields and maps, resampling, permutations, space to depth, rolls."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import autosched.lang.functions as fn
from autosched.lang.expr import Expr, ExprLike, Var
from autosched.random_pipelines.family import family
from autosched.random_pipelines.graph import BOUNDARIES, Graph
from autosched.random_pipelines.operands import image, real
from autosched.random_pipelines.stages.gather import gather
from autosched.random_pipelines.stages.layout import flip, shuffle, slice_, tile, transpose
from autosched.random_pipelines.tensor import Tensor, Value

Place = dict[str, Expr]

REACH = (1.0, 4.0, 16.0)
"""Largest displacement of a flow field, in points."""
REARRANGEMENTS: tuple[Callable[[Graph], Tensor | None], ...] = (transpose, flip, shuffle, tile, slice_, gather)


@family("warps")
def warps(g: Graph) -> Tensor | None:
    """A warp or a resampling, rearrangements, or both; one to three in turn."""
    t: Tensor | None = image(g, 24)
    count = g.draw.pick((1, 2, 2, 3))
    result: Tensor | None = None
    for _ in range(count):
        if t is None or not {"y", "x"} <= set(t.dims) or min(t["y"], t["x"]) < 4 or not g.fits(t.shape, terms=8):
            break
        t = _warped(g, t) if g.draw.chance(0.6) else g.draw.pick(REARRANGEMENTS)(g)
        result = t or result
    return result


def _warped(g: Graph, t: Tensor) -> Tensor:
    """Return a tensor at other places, by the nearest point or by interpolation."""
    shape = t.extents
    if g.draw.chance(0.35):
        shape |= {d: max(t[d] * g.draw.integer(8, 28) // 16, 2) for d in ("y", "x")}
        if not g.fits(shape.values(), terms=8):
            shape = t.extents
    place = PLACES[g.draw.weighted(PLACE_WEIGHTS)](g, t, shape)
    name = "warped"
    how = g.draw.pick(("nearest", "linear", "linear", "linear", "cubic"))
    if how == "nearest":
        at: dict[str, ExprLike] = {d: fn.clamp(fn.cast("int32", fn.round(p)), 0, t[d] - 1) for d, p in place.items()}
        return g.add_stage(name, shape, t.at(at))
    source = t
    if g.draw.chance(0.4):
        source = g.bounded(t, g.draw.pick(BOUNDARIES), ["y", "x"])
    if how == "cubic":
        return _separable(g, source, t, shape)
    value = _linear(g, source, t, place, {})
    return g.add_stage(name, shape, value)


def _linear(g: Graph, source: Tensor, t: Tensor, place: Place, fixed: dict[str, ExprLike]) -> Value:
    """Return bilinear interpolation at a place; reads stay within the tensor, or one point beyond with a boundary."""
    if not place:
        return real(g, source.at(fixed))
    (d, p), *rest = place.items()
    closed = d in source.closed
    low = fn.cast("int32", fn.floor(p))
    low = fn.clamp(low, 0, max(t[d] - 2, 0)) if closed else fn.clamp(low, -1, t[d] - 1)
    weight = fn.clamp(p - fn.cast(g.real, low), 0.0, 1.0)
    near, far = (_linear(g, source, t, dict(rest), {**fixed, d: low + k}) for k in (0, 1))
    return Value(fn.lerp(near.expr, far.expr, weight), near.low, near.high)


def _separable(g: Graph, source: Tensor, t: Tensor, shape: Mapping[str, int]) -> Tensor:
    """Resize along columns and then rows with four taps of a cubic or a line."""
    extents = t.extents
    curve = g.draw.pick((-0.75, -0.5))
    for d in ("x", "y"):
        extents |= {d: shape[d]}
        p = _scaled(g, d, t[d], shape[d])
        first = fn.cast("int32", fn.floor(p))
        weight = fn.clamp(p - fn.cast(g.real, first), 0.0, 1.0)
        taps = _cubic(weight, curve)
        values = [real(g, source.at({d: fn.clamp(first + k - 1, 0, t[d] - 1)})) for k in range(4)]
        total = values[0].expr * taps[0]
        for v, w in zip(values[1:], taps[1:], strict=True):
            total = total + v.expr * w
        bound = 2 * values[0].bound
        source = g.add_stage(f"resized_{d}", extents, Value(total, -bound, bound), visible=d == "y")
    return source


def _cubic(s: Expr, a: float) -> list[Expr]:
    """Return the four weights of cubic convolution at a fraction (Keys 1981)."""
    near = ((a + 2) * s - (a + 3)) * s * s + 1.0
    t = 1.0 - s
    far = ((a + 2) * t - (a + 3)) * t * t + 1.0

    def outer(u: Expr) -> Expr:
        return ((a * u - 5 * a) * u + 8 * a) * u - 4 * a

    return [outer(s + 1.0), near, far, outer(t + 1.0)]


def _scaled(g: Graph, d: str, extent: int, new: int) -> Expr:
    """Return the place of a point of a resized dimension, by centres or by corners."""
    v = fn.cast(g.real, Var(d))
    if g.draw.chance(0.6):
        return (v + 0.5) * (extent / new) - 0.5
    return v * ((extent - 1) / max(new - 1, 1))


def _flow(g: Graph, t: Tensor, shape: Mapping[str, int]) -> Place:
    """Displacements of each point, from two inputs or the last dimension of one."""
    reach = g.draw.pick(REACH)
    plane = {d: shape[d] for d in ("y", "x")}
    per_image = "n" in t.dims and g.draw.chance(0.5)
    dims = [*(["n"] if per_image else []), "y", "x"]
    extents = [*([t["n"]] if per_image else []), *plane.values()]
    if g.draw.chance(0.5):
        field = g.add_input(g.real, (*dims, "k"), (*extents, 2), -reach, reach, "flow")
        parts = {d: field.at({"k": k}).expr for k, d in enumerate(("y", "x"))}
    else:
        parts = {d: g.add_input(g.real, dims, extents, -reach, reach, f"flow_{d}").at().expr for d in ("y", "x")}
    return {d: fn.cast(g.real, Var(d)) + parts[d] for d in ("y", "x")}


def _map(g: Graph, t: Tensor, shape: Mapping[str, int]) -> Place:
    """Places of each point, as points or as numbers from -1 to 1 (grid sampling)."""
    plane = [shape[d] for d in ("y", "x")]
    normalised = g.draw.chance(0.5)
    place: Place = {}
    for d in ("y", "x"):
        low, high = (-1.0, 1.0) if normalised else (0.0, float(t[d]))
        e = g.add_input(g.real, ("y", "x"), plane, low, high, f"map_{d}").at().expr
        place[d] = ((e + 1.0) * t[d] - 1.0) * 0.5 if normalised else e
    return place


def _affine(g: Graph, t: Tensor, shape: Mapping[str, int]) -> Place:
    """Places by a matrix of numbers or run-time parameters: rotation, shear, perspective."""
    y, x = (fn.cast(g.real, Var(d)) for d in ("y", "x"))
    place: Place = {}
    params = g.draw.chance(0.5)

    def number(value: float) -> ExprLike:
        return g.add_param(value, g.real, "entry").expr if params else value

    for d, along, across in (("y", y, x), ("x", x, y)):
        place[d] = along * number(g.draw.integer(12, 18) / 16) + across * number(g.draw.integer(-6, 6) / 16)
        place[d] = place[d] + number(float(g.draw.integer(-8, 8)))
    if g.draw.chance(0.25):
        depth = 1.0 + x * (0.25 / shape["x"]) + y * (0.125 / shape["y"])
        place = {d: p / depth for d, p in place.items()}
    return place


def _resize(g: Graph, t: Tensor, shape: Mapping[str, int]) -> Place:
    return {d: _scaled(g, d, t[d], shape[d]) for d in ("y", "x")}


def _lens(g: Graph, t: Tensor, shape: Mapping[str, int]) -> Place:
    """Radial distortion about the middle."""
    away = {d: (fn.cast(g.real, Var(d)) - shape[d] / 2) * (2.0 / shape[d]) for d in ("y", "x")}
    radius = away["y"] * away["y"] + away["x"] * away["x"]
    factor = 1.0 + radius * (g.draw.integer(-3, 3) / 16)
    return {d: (e * factor + 1.0) * (t[d] / 2) for d, e in away.items()}


PLACES: Mapping[str, Callable[[Graph, Tensor, Mapping[str, int]], Place]] = {
    "flow": _flow,
    "map": _map,
    "affine": _affine,
    "resize": _resize,
    "lens": _lens,
}
PLACE_WEIGHTS: Mapping[str, float] = {"flow": 2.0, "map": 1.5, "affine": 1.0, "resize": 2.0, "lens": 0.5}
