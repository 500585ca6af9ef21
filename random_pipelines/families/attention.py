"""Attention of queries to keys, in the forms of models: heads, groups, masks, biases, orders of storage."""

from __future__ import annotations

from dataclasses import dataclass
from math import isqrt

import autosched.lang.functions as fn
from autosched.lang.expr import Expr, ExprLike, Var
from autosched.lang.rdom import RDom
from autosched.random_pipelines import arithmetic as ar
from autosched.random_pipelines.accumulate import accumulate
from autosched.random_pipelines.family import family
from autosched.random_pipelines.graph import Graph
from autosched.random_pipelines.operands import work
from autosched.random_pipelines.tensor import Tensor, Value

WIDTHS = (8, 16, 32, 32, 48, 64, 64, 80, 128)
HEADS = (1, 2, 4, 4, 6, 8)
HIDDEN = -1e9
"""Score of a masked key."""
MASKS = ("none", "none", "causal", "causal", "added", "keys", "band", "distance")
QUERY, KEY, WIDTH, HEAD, BATCH = "y", "k", "x", "c", "n"


@dataclass(frozen=True, slots=True)
class Projections:
    """Queries, keys and values of attention.

    Attributes:
        q: Queries by batch, head, query and width, in any order.
        k: Keys, whose rows have the dimension of queries.
        v: Values, likewise.
        group: Heads of queries for each head of keys and values.
    """

    q: Tensor
    k: Tensor
    v: Tensor
    group: int

    @property
    def leading(self) -> dict[str, int]:
        """Extents of batch and heads."""
        return {d: self.q[d] for d in (BATCH, HEAD) if d in self.q.dims}

    def key(self, row: ExprLike, column: ExprLike) -> Value:
        """Return an element of a key."""
        return self.k.at({QUERY: row, WIDTH: column, **self._head()})

    def value(self, row: ExprLike) -> Value:
        """Return an element of a value's row."""
        return self.v.at({QUERY: row, **self._head()})

    def _head(self) -> dict[str, ExprLike]:
        return {HEAD: Var(HEAD) // self.group} if self.group > 1 else {}


@family("attention")
def attention(g: Graph) -> Tensor | None:
    """Scores of queries and keys, their softmax, and weighted sums of values; or attention without a softmax."""
    p = _projections(g)
    square = {**p.leading, QUERY: p.q[QUERY], KEY: p.k[QUERY]}
    if not g.fits(square.values(), terms=2 * p.q[WIDTH]):
        return None
    if g.draw.chance(0.12):
        return _linear(g, p)
    r = RDom("r", x=p.q[WIDTH])
    scale = 1.0
    while scale * scale * p.q[WIDTH] > 1.0:
        scale /= 2
    finish = (lambda total: ar.times(total, scale)) if g.draw.chance(0.8) else None
    q, k = (_small(g, v) for v in (p.q.at({WIDTH: r.x}), p.key(Var(KEY), r.x)))
    scores = accumulate(g, "scores", square, ar.multiply(q, k), r, finish=finish, visible=False)
    score = _small(g, scores.at()).expr
    if g.draw.chance(0.15):  # soft capping
        score = fn.tanh(score * 0.125) * 8.0
    score = _masked(g, p, square, score)
    return _weighted_values(g, p, square, Value(score, -32.0, 32.0))


def _weighted_values(g: Graph, p: Projections, square: dict[str, int], score: Value) -> Tensor:
    """Add the softmax of scores and the weighted sums of values."""
    rows = {**p.leading, QUERY: p.q[QUERY]}
    masked = g.add_stage("masked", square, score, visible=False)
    n, s, m = (RDom(name, k=p.k[QUERY]) for name in ("n", "s", "m"))
    largest = accumulate(g, "largest", rows, masked.at({KEY: n.k}), n, kind="max", visible=False)
    power = Value(fn.exp(masked.at().expr - largest.at().expr), 0.0, 1.0)
    weights = g.add_stage("weights", square, power, visible=False)
    total = accumulate(g, "total", rows, weights.at({KEY: s.k}), s, visible=False)
    out = {**rows, WIDTH: p.v[WIDTH]}
    divided_first = g.draw.chance(0.4)
    if divided_first:
        share = Value(weights.at().expr / total.at().expr, 0.0, 1.0)
        weights = g.add_stage("shares", square, share, visible=False)
    product = ar.multiply(weights.at({KEY: m.k}), _small(g, p.value(m.k)))
    mixed = accumulate(g, "mixed", out, product, m, visible=False).at().expr
    value = Value(mixed if divided_first else mixed / total.at().expr, -16.0, 16.0)
    tokens_first = sorted(out, key=(BATCH, QUERY, HEAD, WIDTH).index)
    order = g.draw.pick((list(out), list(out), tokens_first))
    return g.add_stage("attention", {d: out[d] for d in order}, value)


def _linear(g: Graph, p: Projections) -> Tensor:
    """Attention without a softmax: products of keys and values first, then of queries with them."""
    state = {**p.leading, KEY: p.k[WIDTH], WIDTH: p.v[WIDTH]}
    m, r = RDom("m", y=p.k[QUERY]), RDom("r", x=p.q[WIDTH])

    def feature(v: Value) -> Value:
        return Value(fn.max(_small(g, v).expr, 0.0) + 1.0 / 64, 0.0, 17.0)

    outer = ar.multiply(feature(p.key(m.y, Var(KEY))), _small(g, p.value(m.y)))
    sums = accumulate(g, "state", state, outer, m, visible=False)
    features = {d: state[d] for d in (*p.leading, KEY)}
    norm = accumulate(g, "norm", features, feature(p.key(m.y, Var(KEY))), m, visible=False)
    q = feature(p.q.at({WIDTH: r.x}))
    above = accumulate(
        g, "above", {**p.leading, QUERY: p.q[QUERY], WIDTH: p.v[WIDTH]}, ar.multiply(q, sums.at({KEY: r.x})), r,
        visible=False,
    )  # fmt: skip
    s = RDom("s", x=p.q[WIDTH])
    q = feature(p.q.at({WIDTH: s.x}))
    rows = {**p.leading, QUERY: p.q[QUERY]}
    below = accumulate(g, "below", rows, ar.multiply(q, norm.at({KEY: s.x})), s, visible=False)
    value = above.at().expr / (fn.abs(below.at().expr) + 1.0 / 64)
    return g.add_stage("linear_attention", above.extents, Value(value, -1024.0, 1024.0))


def _projections(g: Graph) -> Projections:
    """Return new inputs whose product takes the drawn work."""
    width = min(g.draw.pick(WIDTHS), g.settings.channels[1] * 2)
    heads = min(g.draw.pick(HEADS), g.settings.channels[1])
    batch = g.draw.pick((1, 1, 2, 4))
    tokens = min(max(isqrt(work(g) // (4 * width * heads * batch)), 2), 1024)
    keys = tokens if g.draw.chance(0.75) else max(tokens * g.draw.pick((4, 8, 24)) // 16, 2)
    if g.draw.chance(g.settings.odd):
        tokens, keys = tokens + 1, keys + 1
    group = g.draw.pick((1, 1, 1, 2, heads))
    group = group if heads % group == 0 else 1
    dims = g.draw.pick(((BATCH, HEAD), (BATCH, HEAD), (HEAD,), (BATCH,), ()))
    if HEAD not in dims:
        group = 1
    rows_first = g.draw.chance(0.7)
    extents = {BATCH: batch, HEAD: heads, QUERY: tokens, WIDTH: width}
    order = [*dims, QUERY, WIDTH]
    if not rows_first:  # heads inside of tokens, as a projection leaves them
        order.sort(key=(BATCH, QUERY, HEAD, WIDTH).index)
    few = {**extents, HEAD: max(heads // group, 1), QUERY: keys}
    q = g.add_input(g.real, order, [extents[d] for d in order], -2.0, 2.0, "q")
    transposed = g.draw.chance(0.15)
    k_order = [*order[:-2], order[-1], order[-2]] if transposed else order
    k = g.add_input(g.real, k_order, [few[d] for d in k_order], -2.0, 2.0, "k")
    v = g.add_input(g.real, order, [few[d] for d in order], -1.0, 1.0, "v")
    return Projections(q, k, v, group)


def _masked(g: Graph, p: Projections, square: dict[str, int], score: Expr) -> Expr:
    """Return a score with a mask or a bias by positions."""
    how = g.draw.pick(MASKS)
    row, column = Var(QUERY), Var(KEY)
    late = square[KEY] - square[QUERY]
    if how == "causal":
        return fn.select(column <= row + max(late, 0), score, fn.cast(g.real, HIDDEN))
    if how == "band":
        reach = max(square[KEY] // g.draw.pick((2, 4, 8)), 1)
        near = fn.all_of(column - row <= reach, row - column <= reach)
        return fn.select(near, score, fn.cast(g.real, HIDDEN))
    if how == "keys":
        dims = [d for d in (BATCH,) if d in square]
        shape = [square[d] for d in (*dims, KEY)]
        allowed = g.add_input("bool", (*dims, KEY), shape, 0.0, 1.0, "allowed")
        return fn.select(allowed.at().expr, score, fn.cast(g.real, HIDDEN))
    if how == "added":
        bias = g.add_input(g.real, (QUERY, KEY), (square[QUERY], square[KEY]), -4.0, 4.0, "bias")
        return score + bias.at().expr
    if how == "distance":
        return score - fn.cast(g.real, fn.abs(row - column)) * (1.0 / 64)
    return score


def _small(g: Graph, v: Value) -> Value:
    return ar.scaled_down(ar.converted(v, g.real))
