"""Scatter updates: histograms, weighted counts, grids of position and brightness."""

from __future__ import annotations

from autosched.lang.dtypes import int32
from autosched.lang.expr import Const, Expr, Var
from autosched.lang.func import Func
from autosched.lang.rdom import RDom
from autosched.random_pipelines import arithmetic as ar
from autosched.random_pipelines.accumulate import zero
from autosched.random_pipelines.graph import Graph
from autosched.random_pipelines.registry import kind
from autosched.random_pipelines.stages.gather import index_from
from autosched.random_pipelines.tensor import Tensor, Value

BINS = (256, 64, 128, 32, 100)


@kind("histogram", prefix_sum=0.5)
def histogram(g: Graph) -> Tensor | None:
    """A histogram of counts or weights: of each row and then summed, or in one update of a small tensor."""
    t = g.pick(
        lambda t: 1 < len(t.dims) < 4 and t.dtype.kind != "b" and t.points // t.shape[-1] <= g.settings.max_serial
    )
    if t is None:
        return None
    bins = g.draw.pick(BINS)
    r = RDom("r", **{t.dims[-1]: t.shape[-1]})
    kept = t.without(t.dims[-1]) if t.points > g.settings.max_serial or g.draw.chance(0.5) else {}
    if not kept:
        r = RDom("r", **t.extents)
    if not g.fits([*kept.values(), bins]):
        return None
    at = {d: getattr(r, d) for d in t.dims if d not in kept}
    counts = _counted(g, kept, bins, t.at(at), t.points)
    if kept and g.draw.chance(0.7):
        rows = RDom("rows", **kept)
        func, b = Func("histogram"), Var("b")
        func[b] = zero(counts.dtype)
        func[b] += counts.at({d: getattr(rows, d) for d in kept}).expr
        total = g.tensor(func, ("b",), (bins,), counts.low, counts.high)
        return g.add(total, terms=counts.points // bins)
    g.tensors.append(counts)
    return counts


@kind("grid_scatter", conv1d=0.3)
def grid_scatter(g: Graph) -> Tensor | None:
    """A histogram of each tile of an image, of counts or weights."""
    t = g.pick(lambda t: t.dims == ("y", "x") and t.dtype.kind != "b" and min(t.shape) >= 8)
    if t is None:
        return None
    tile, bins = g.draw.pick((4, 8, 8, 16)), g.draw.pick((8, 12, 16, 10))
    tile = min(tile, *t.shape)
    source = g.readable(t, ("y", "x"))
    r = RDom("r", y=tile, x=tile)
    at = {"y": Var("y") * tile + r.y, "x": Var("x") * tile + r.x}
    shape = {"y": -(-t["y"] // tile), "x": -(-t["x"] // tile)}
    if not g.fits([*shape.values(), bins], terms=tile):
        return None
    counts = _counted(g, shape, bins, source.at(at), tile * tile, name="z")
    g.tensors.append(counts)
    return counts


def _counted(g: Graph, kept: dict[str, int], bins: int, value: Value, terms: int, name: str = "b") -> Tensor:
    """Return the number of values in each bin, or the sum of their weights, for each point of the kept dimensions."""
    func = Func("counts")
    bin_ = index_from(value, bins)
    index: tuple[Expr, ...] = (*(Var(d) for d in kept), Var(name))
    written: tuple[Expr, ...] = (*(Var(d) for d in kept), bin_)
    low, high = 0.0, float(terms)
    term: Expr = Const(1, int32)
    if g.draw.chance(0.35):
        weight = ar.small_float32(value)
        low, high, term = min(weight.low * terms, 0.0), max(weight.high * terms, 0.0), weight.expr
    func[index] = zero(term.dtype)
    func[written] += term
    dims = (*kept, name)
    return g.add(g.tensor(func, dims, (*kept.values(), bins), low, high), visible=False)
