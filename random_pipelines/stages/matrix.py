"""Matrix products: dense layers, products of two tensors, attention."""

from __future__ import annotations

import autosched.lang.functions as fn
from autosched.lang.expr import Var
from autosched.lang.rdom import RDom
from autosched.random_pipelines import arithmetic as ar
from autosched.random_pipelines.accumulate import accumulate
from autosched.random_pipelines.graph import Graph
from autosched.random_pipelines.registry import kind
from autosched.random_pipelines.sizes import channel_count
from autosched.random_pipelines.tensor import Tensor, Value
from autosched.random_pipelines.weights import bias_for, weighted, weights_for

MOST_ROWS = 4096


@kind("dense", activation=0.6)
def dense(g: Graph) -> Tensor | None:
    """A product with a matrix of weights over the last dimension, often with a bias."""
    t = g.pick(lambda t: len(t.dims) > 1 and 2 < t.shape[-1] <= MOST_ROWS and g.fits(t.shape))
    if t is None:
        return None
    d, depth = t.dims[-1], t.shape[-1]
    out = channel_count(g.draw, g.settings)
    while out > 1 and not g.fits((*t.shape[:-1], out), terms=depth):
        out //= 2
    if not g.fits((*t.shape[:-1], out), terms=depth):
        return None
    by_rows = g.draw.chance(0.5)  # whether neighbouring outputs have their weights side by side
    order, extents = (("k", d), (depth, out)) if by_rows else ((d, "k"), (out, depth))
    weights = weights_for(g, t, order, extents, depth)
    r = RDom("r", k=depth)
    value = weighted(t.at({d: r.k}), weights.at({"k": r.k}))
    start = bias_for(g, weights, (d,), (out,)) if g.draw.chance(0.5) else None
    shape = {**t.without(d), d: out}
    return accumulate(g, "dense", shape, value, r, start=start)


@kind("matmul", softmax=0.1)
def matmul(g: Graph) -> Tensor | None:
    """A product of two tensors' planes, of a plane with its transpose, or with an input matrix."""
    t = g.pick(lambda t: len(t.dims) >= 2 and 2 < t.shape[-1] <= MOST_ROWS and 1 < t.shape[-2] <= MOST_ROWS)
    if t is None:
        return None
    rows, depth = t.shape[-2:]
    row, column = t.dims[-2:]
    leading = t.without(row, column)
    other = g.pick(lambda o: o.dims == t.dims and o.shape[:-2] == t.shape[:-2] and o.shape[-2] == depth)
    r = RDom("r", k=depth)
    left = t.at({column: r.k})
    if other is not None:
        columns, right = other.shape[-1], other.at({row: r.k})
    elif g.draw.chance(0.4):  # with its transpose
        columns, right = rows, t.at({row: Var(column), column: r.k})
    else:
        columns = g.draw.pick((rows, depth, 64))
        matrix = g.add_input("float32", (row, column), (depth, columns), -1.0, 1.0, "matrix")
        right = matrix.at({row: r.k})
    shape = {**leading, row: rows, column: columns}
    if not g.fits(shape.values(), terms=depth):
        return None
    left, right = (ar.converted(ar.as_float(v), "float32") for v in (left, right))
    return accumulate(g, "product", shape, ar.multiply(left, right), r)


@kind("attention")
def attention(g: Graph) -> Tensor | None:
    """Self-attention with rows as queries, keys and values: scores, their softmax, weighted sums of rows."""
    t = g.pick(lambda t: len(t.dims) >= 2 and min(t.shape[-2:]) > 1 and t.shape[-2] <= 1024)
    if t is None:
        return None
    row, column = t.dims[-2:]
    tokens, width = t.shape[-2:]
    leading = t.without(row, column)
    square = {**leading, row: tokens, "k": tokens}
    if not (g.fits(square.values(), terms=2 * width) and g.fits(t.shape, terms=2 * tokens)):
        return None
    r = RDom("r", k=width)
    a, b = (ar.small_float32(v) for v in (t.at({column: r.k}), t.at({row: Var("k"), column: r.k})))
    scores = accumulate(g, "scores", square, ar.multiply(a, b), r, visible=False)
    score = scores.at()
    power = Value(fn.exp(ar.times(score, ar.scaled_to_range(score.bound, ar.SCALED_TO)).expr), 0.0, 1 << 24)
    weights = g.add_stage("weights", square, power, visible=False)
    s = RDom("s", k=tokens)
    total = accumulate(g, "total", {**leading, row: tokens}, weights.at({"k": s.k}), s, visible=False)
    v = ar.small_float32(t.at({row: s.k}))
    mixed = accumulate(g, "mixed", t.extents, ar.multiply(weights.at({"k": s.k}), v), s, visible=False)
    share = Value(mixed.at().expr / total.at().expr, v.low, v.high)
    return g.add_stage("attention", t.extents, share)
