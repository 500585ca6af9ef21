"""Values that depend on those before: cumulative operations, recursive filters, dynamic programming, carries."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import autosched.lang.functions as fn
from autosched.lang.expr import Expr, Var
from autosched.lang.func import Func
from autosched.lang.rdom import RDom
from autosched.random_pipelines import arithmetic as ar
from autosched.random_pipelines.accumulate import accumulate, prepared
from autosched.random_pipelines.family import family
from autosched.random_pipelines.graph import Graph
from autosched.random_pipelines.operands import add_array, image, points_for, real, real_types
from autosched.random_pipelines.stages.scan import along, prefix_sum
from autosched.random_pipelines.tensor import Tensor, Value

Recurrence = Callable[[Graph], Tensor | None]

PER_POINT = 8
"""Operations of a scan at each point."""
SERIAL_ROWS = 4
"""Loops that carry a dependence in two dimensions may have so many times the iterations of `max_serial`."""
STATES = (4, 8, 16, 24, 32)


@family("recurrences")
def recurrences(g: Graph) -> Tensor | None:
    """One or two recurrences of a kind."""
    build = RECURRENCES[g.draw.weighted(RECURRENCE_WEIGHTS)]
    t = build(g)
    return prefix_sum(g) or t if t is not None and g.draw.chance(0.15) else t


def _axis(g: Graph, t: Tensor) -> str | None:
    """Return a dimension to scan: rows or columns, within the limit of serial iterations."""
    dims = [d for d in ("y", "x") if d in t.dims and 2 < t[d] <= g.settings.max_serial]
    return g.draw.pick(dims) if dims else None


def _cumulative(g: Graph) -> Tensor | None:
    """Cumulative sum, maximum, minimum or product along one dimension or two; often differences of it: a box."""
    t = image(g, PER_POINT)
    d = _axis(g, t)
    if d is None:
        return None
    how = g.draw.pick(("sum", "sum", "max", "min", "product"))
    if how == "product":
        first = real(g, t.at())
        factor = 1.0
        while factor * first.bound * t[d] > 1.0:
            factor /= 2
        first = Value(first.expr * factor + 1.0, 0.0, 2.0)
        low, high = 0.0, 4.0
    else:
        dims = [d, *(e for e in ("y", "x") if e != d and e in t.dims and g.draw.chance(0.4))]
        first = prepared(g, ar.numeric(t.at()), t["y"] * t["x"], "sum")
        low, high = ar.summed_range(first, t["y"] * t["x"]) if how == "sum" else (first.low, first.high)
        if len(dims) > 1:
            return _integral(g, t, dims, first, how, (low, high))
    func = Func(f"cumulative_{how}")
    func[_point(t)] = first.expr
    backwards = g.draw.chance(0.25)
    r = RDom("r", **{d: (1, t[d])})
    i, before = (t[d] - 1 - r[0], t[d] - r[0]) if backwards else (r[0], r[0] - 1)
    func[along(t, d, i)] = COMBINE[how](func[along(t, d, before)], func[along(t, d, i)])
    return g.add(g.tensor(func, t.dims, t.shape, low, high), terms=2)


def _integral(g: Graph, t: Tensor, dims: list[str], first: Value, how: str, limits: tuple[float, float]) -> Tensor:
    """Cumulative values along two dimensions, a Func each or updates of one; of sums, mostly means of boxes."""
    low, high = limits
    separate = g.draw.chance(0.5)
    func = Func("integral")
    func[_point(t)] = first.expr
    for k, d in enumerate(dims):
        if k and separate:
            g.add(g.tensor(func, t.dims, t.shape, low, high), visible=False, terms=2)
            inner, func = func, Func("integral_2")
            func[_point(t)] = inner[_point(t)]
        r = RDom("r", **{d: (1, t[d])})
        func[along(t, d, r[0])] = COMBINE[how](func[along(t, d, r[0] - 1)], func[along(t, d, r[0])])
    s = g.add(g.tensor(func, t.dims, t.shape, low, high), terms=3)
    if how != "sum" or g.draw.chance(0.4):
        return s
    radius = g.draw.integer(1, 15)
    ends = {d: tuple(fn.clamp(Var(d) + k, 0, t[d] - 1) for k in (-radius, radius)) for d in ("y", "x")}
    (y0, y1), (x0, x1) = ends["y"], ends["x"]
    total = (
        s.at({"y": y1, "x": x1}).expr - s.at({"y": y0, "x": x1}).expr
        - s.at({"y": y1, "x": x0}).expr + s.at({"y": y0, "x": x0}).expr
    )  # fmt: skip
    area = fn.cast(g.real, fn.max((y1 - y0) * (x1 - x0), 1))
    value = fn.cast(g.real, total) / area
    return g.add_stage("box", t.extents, Value(value, -high + low, high - low))


def _filter(g: Graph) -> Tensor | None:
    """A recursive filter of order one to three in one direction or both, along rows, columns or both."""
    t = image(g, 2 * PER_POINT)
    alpha = g.draw.integer(2, 14) / 16
    order = g.draw.pick((1, 1, 1, 2, 2, 3))
    passes = g.draw.pick((1, 2, 2))
    dims = [d for d in g.draw.shuffled([d for d in ("y", "x") if t[d] > 4])][: g.draw.pick((1, 2))]
    for d in dims:
        if t[d] > g.settings.max_serial:
            return None
        first = real(g, t.at())
        func = Func(f"filtered_{d}")
        func[_point(t)] = first.expr
        for k in range(passes):
            r = RDom("r", **{d: (order, t[d])})
            i, step = (r[0], -1) if k == 0 else (t[d] - 1 - r[0], 1)
            past = [
                func[along(t, d, i + step * (k + 1))] * ((1 - alpha) * share) for k, share in enumerate(TAPS[order])
            ]
            value = func[along(t, d, i)] * alpha
            for p in past:
                value = value + p
            func[along(t, d, i)] = value
        t = g.add(g.tensor(func, t.dims, t.shape, first.low, first.high), terms=1 + 2 * passes)
    return t


def _paths(g: Graph) -> Tensor | None:
    """The cheapest path to each point from the row before (seam carving), with columns pure or in the loop."""
    t = image(g, 2 * PER_POINT, layouts={("y", "x"): 1.0})
    if t["y"] > g.settings.max_serial or t["x"] < 3:
        return None
    cost = prepared(g, ar.numeric(t.at()), t["y"], "sum")
    if cost.dtype.bits < 32:
        cost = ar.converted(cost, "int32")
    e = g.add_stage("cost", t.extents, cost, visible=False)
    low, high = ar.summed_range(cost, t["y"])
    best = fn.min if g.draw.chance(0.7) else fn.max
    func, w = Func("paths"), t["x"]
    func[_point(t)] = e.at().expr
    in_loop = t.points <= SERIAL_ROWS * g.settings.max_serial and g.draw.chance(0.3)
    r = RDom("r", y=(1, t["y"]), x=w) if in_loop else RDom("r", y=(1, t["y"]))
    x: Expr = r[1] if in_loop else Var("x")
    reach = g.draw.pick((1, 1, 2))
    before = [func[r[0] - 1, fn.clamp(x + k, 0, w - 1)] for k in range(-reach, reach + 1)]
    value = before[0]
    for b in before[1:]:
        value = best(value, b)
    func[r[0], x] = e.at({"y": r[0], "x": x}).expr + value
    return g.add(g.tensor(func, t.dims, t.shape, low, high), terms=2 + 2 * reach)


def _alignment(g: Graph) -> Tensor | None:
    """Dynamic programming over a table whose points depend on three neighbours: edit distance, time warping."""
    most = SERIAL_ROWS * g.settings.max_serial
    points = min(points_for(g, PER_POINT), most)
    rows = max(int(points**0.5), 3)
    columns = max(points // rows, 3)
    rows, columns = (min(n, g.settings.extents[1]) for n in (rows, columns))
    dtype = g.draw.pick((g.real, g.real, "int32", "uint8"))
    a, b = (add_array(g, dtype, (d,), (n,), "signal") for d, n in (("y", rows), ("x", columns)))
    p, q = (prepared(g, v.at(), rows + columns, "sum") for v in (a, b))
    dtype = p.dtype.name if p.dtype == q.dtype else g.real
    p, q = (ar.converted(v, dtype) for v in (p, q))
    cost = fn.absd(p.expr, q.expr) if g.draw.chance(0.6) else fn.cast(dtype, p.expr > q.expr)
    bound = p.bound + q.bound + 1.0
    e = g.add_stage("cost", {"y": rows, "x": columns}, Value(cost, 0.0, bound), visible=False)
    func, r = Func("table"), RDom("r", y=(1, rows), x=(1, columns))
    func[Var("y"), Var("x")] = e.at().expr
    i, j = r[0], r[1]
    nearest = fn.min(fn.min(func[i - 1, j], func[i, j - 1]), func[i - 1, j - 1])
    func[i, j] = e.at({"y": i, "x": j}).expr + nearest
    table = g.tensor(func, ("y", "x"), (rows, columns), 0.0, bound * (rows + columns))
    return g.add(table, terms=4)


def _states(g: Graph) -> Tensor | None:
    """Scores of states over time (Viterbi): the best of the states before plus the cost of the transition."""
    states = min(g.draw.pick(STATES), g.settings.channels[1] * 2)
    steps = min(max(points_for(g, 2 * states * states), 4), g.settings.max_serial, 2048)
    batch = g.draw.pick((1, 1, 4, 16))
    dims, shape = ("n", "y", "c"), (batch, max(steps // batch, 4), states)
    scores = add_array(g, g.real, dims, shape, "scores")
    trans = g.add_input(g.real, ("k", "c"), (states, states), -1.0, 1.0, "transitions")
    func, r = Func("best"), RDom("r", y=(1, shape[1]))
    n, c = Var("n"), Var("c")
    func[n, Var("y"), c] = real(g, scores.at()).expr
    values = [func[n, r[0] - 1, k] + trans.at({"k": k}).expr for k in range(states)]
    best = values[0]
    for v in values[1:]:
        best = fn.max(best, v)
    func[n, r[0], c] = func[n, r[0], c] + best
    bound = 17.0 * shape[1]
    return g.add(g.tensor(func, dims, shape, -bound, bound), terms=2 * states)


def _carry(g: Graph) -> Tensor | None:
    """A state carried along rows or columns: gated averages, counts that restart, linear recurrences of two inputs."""
    t = image(g, PER_POINT)
    d = _axis(g, t)
    if d is None:
        return None
    form = g.draw.pick(("gated", "restarted", "counted", "leaky"))
    x = real(g, t.at())
    func = Func(form)
    r = RDom("r", **{d: (1, t[d])})
    here, before = along(t, d, r[0]), along(t, d, r[0] - 1)
    low, high = x.low, x.high
    middle = x.low + (x.high - x.low) * g.draw.integer(4, 12) / 16
    now = real(g, t.at({d: r[0]})).expr
    if form == "counted":
        func[_point(t)] = fn.cast("int32", x.expr > middle)
        func[here] = fn.select(now > middle, func[before] + 1, 0)
        low, high = 0.0, float(t[d])
    elif form == "gated":
        gate = add_array(g, g.draw.weighted(real_types(g)), t.dims, t.shape, "gate")
        weight = 0.5 + 0.5 * fn.tanh(real(g, gate.at({d: r[0]})).expr)
        func[_point(t)] = x.expr
        func[here] = weight * func[before] + (1.0 - weight) * now
    elif form == "leaky":
        func[_point(t)] = x.expr
        func[here] = fn.max(func[before] * g.draw.pick((0.5, 0.875, 0.9375)), now)
        low, high = min(low, 0.0), max(high, 0.0)
    else:
        func[_point(t)] = x.expr * (1.0 / 64)
        func[here] = fn.select(now > middle, 0.0, func[before] + func[here])
        low, high = -x.bound * t[d] / 64, x.bound * t[d] / 64
    return g.add(g.tensor(func, t.dims, t.shape, low, high), terms=3)


def _row_extremes(g: Graph) -> Tensor | None:
    """A cumulative operation, then the largest or least value of each row."""
    t = _cumulative(g)
    if t is None or len(t.dims) < 2:
        return t
    d = t.dims[-1]
    r = RDom("r", **{d: t[d]})
    return accumulate(g, "extreme", t.without(d), t.at({d: r[0]}), r, kind=g.draw.pick(("max", "min")))


def _point(t: Tensor) -> tuple[Expr, ...]:
    return tuple(Var(d) for d in t.dims)


TAPS = {1: (1.0,), 2: (0.75, 0.25), 3: (0.5, 0.25, 0.25)}
"""Shares of the values before in a filter, by its order."""
COMBINE: Mapping[str, Callable[[Expr, Expr], Expr]] = {
    "sum": lambda a, b: a + b,
    "product": lambda a, b: a * b,
    "max": lambda a, b: fn.max(a, b),
    "min": lambda a, b: fn.min(a, b),
}
RECURRENCES: Mapping[str, Recurrence] = {
    "cumulative": _cumulative,
    "filter": _filter,
    "paths": _paths,
    "alignment": _alignment,
    "states": _states,
    "carry": _carry,
    "row_extremes": _row_extremes,
}
RECURRENCE_WEIGHTS: Mapping[str, float] = {
    "cumulative": 3.0, "filter": 2.0, "paths": 2.0, "alignment": 0.7, "states": 1.0, "carry": 2.0, "row_extremes": 0.5,
}  # fmt: skip
