"""Random updates against serial execution, one point after another."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import autosched as a
from autosched import Expr, Func, Input, Pipeline, RDom, Var, float32, int32, uint8
from autosched.lang.expr import Binary, Cast, Const, Load, RVar, Select
from autosched.reference import interpret, interpret_funcs

SIZE = 5
y, x = Var("y"), Var("x")
data = Input("data", float32, 1)
where = Input("where", uint8, 1)

SCALAR: dict[str, Any] = {
    "add": lambda p, q: p + q,
    "sub": lambda p, q: p - q,
    "mul": lambda p, q: p * q,
    "floordiv": lambda p, q: p // q,
    "mod": lambda p, q: p % q,
    "min": lambda p, q: p if p <= q or p != p else q,
    "max": lambda p, q: p if p >= q or p != p else q,
    "lt": lambda p, q: p < q,
    "gt": lambda p, q: p > q,
}


class Walk:
    """Evaluates expressions one point at a time; Funcs are dictionaries from points to tuples of scalars."""

    def __init__(self, inputs: dict[str, Any]) -> None:
        self.inputs = inputs
        self.funcs: dict[Func, dict[tuple[int, ...], tuple[Any, ...]]] = {}

    def value(self, e: Expr, at: dict[Any, int]) -> Any:
        match e:
            case Const():
                return int(e.value) if e.weak else e.dtype.numpy.type(e.value)
            case Var():
                return at[e.name]
            case RVar():
                return at[e.order]
            case Load(source=Func() as f):
                return self.funcs[f][tuple(int(self.value(i, at)) for i in e.indices)][e.component]
            case Load():
                return self.inputs[e.source.name][tuple(int(self.value(i, at)) for i in e.indices)]
            case Binary():
                return SCALAR[e.op](self.value(e.a, at), self.value(e.b, at))
            case Select():
                return self.value(e.t if self.value(e.cond, at) else e.f, at)
            case Cast():
                return e.dtype.numpy.type(self.value(e.a, at))
        raise TypeError(type(e).__name__)

    def bound(self, e: Expr) -> int:
        return int(self.value(e, {}))

    def run(self, f: Func, domain: list[range]) -> None:
        """Compute a Func: the pure definition, then each update with its reduction loops outermost."""
        points: dict[tuple[int, ...], tuple[Any, ...]] = {}
        self.funcs[f] = points
        for k, d in enumerate(f.definitions):
            loops: list[tuple[Any, range]] = [
                (r.order, range(self.bound(r.lower), self.bound(r.upper))) for r in d.rvars
            ]
            loops += [(i.name, r) for i, r in zip(d.indices, domain, strict=True) if isinstance(i, Var)]
            for place in itertools.product(*(r for _, r in loops)):
                at = dict(zip([key for key, _ in loops], place, strict=True))
                written = tuple(int(self.value(i, at)) for i in d.indices)
                if k and written not in points:
                    raise AssertionError(f"{written} lies outside the domain")
                points[written] = tuple(self.value(v, at) for v in d.values)


def walked(f: Func, domain: list[range], inputs: dict[str, Any]) -> list[np.ndarray[Any, Any]]:
    walk = Walk(inputs)
    with np.errstate(all="ignore"):
        walk.run(f, domain)
    shape = [len(r) for r in domain]
    points = list(itertools.product(*domain))
    return [np.array([walk.funcs[f][p][k] for p in points], d.numpy).reshape(shape) for k, d in enumerate(f.dtypes)]


@st.composite
def domains(draw: st.DrawFn) -> RDom:
    names = draw(st.permutations(["p", "q"]))[: draw(st.integers(1, 2))]
    lows = [draw(st.integers(0, 2)) for _ in names]
    return RDom("r", **{n: (low, low + draw(st.integers(1, 4))) for n, low in zip(names, lows, strict=True)})


def places(r: RDom) -> st.SearchStrategy[Expr]:
    """Index expressions over a reduction domain: shifted, reversed, scaled, folded, mixed, constant, from data."""
    v, w = r[0], r[len(r) - 1]
    return st.sampled_from(
        [v, v + 1, v - 1, w, w - 1, w + 2, 4 - v, 2 * v, v // 2, v % 2, v + w, v - w, Const(2, int32, weak=True),
         a.cast(int32, where[v]) % 3, a.cast(int32, where[v + w])]
    )  # fmt: skip


@st.composite
def updated(draw: st.DrawFn) -> Func:
    """A Func of one or two dimensions and one or two components with up to three random updates."""
    rank, components = draw(st.integers(1, 2)), draw(st.integers(1, 2))
    own = (y, x)[2 - rank :]
    f = Func("f")
    start = sum((k + 2) * v for k, v in enumerate(own))
    f[own] = tuple(a.cast(float32, (start + c) % 7) for c in range(components))
    for _ in range(draw(st.integers(1, 3))):
        r = draw(domains())
        pure = [draw(st.booleans()) for _ in own]
        at = tuple(v if p else draw(places(r)) for v, p in zip(own, pure, strict=True))

        def other(at: tuple[Expr, ...] = at, pure: list[bool] = pure, r: RDom = r) -> tuple[Expr, ...]:
            if draw(st.booleans()):
                return at
            return tuple(i if p else draw(places(r)) for i, p in zip(at, pure, strict=True))

        def term(other: Any = other, r: RDom = r) -> Expr:
            choice = draw(st.integers(0, 3))
            if choice == 0:
                return data[r[0]]
            if choice == 1:
                return a.cast(float32, r[0] * 3 - r[len(r) - 1])
            read = f[other()]
            chosen: Expr = read[draw(st.integers(0, 1))] if components == 2 else read
            return chosen

        here = f[at] if components == 2 else (f[at],)
        values = []
        for c in range(components):
            op = draw(st.sampled_from(["add", "sub", "mul", "min", "max", "first", "better"]))
            p, q = (here[c] if draw(st.booleans()) else term()), term()
            table = {
                "add": p + q, "sub": p - q, "mul": p * (q * 0.25), "min": a.min(p, q), "max": a.max(p, q), "first": q,
                "better": a.select(q > p, q, p),
            }  # fmt: skip
            values.append(table[op])
        f[at] = tuple(values)
    return f


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True)
@given(f=updated(), seed=st.integers(0, 99))
def test_updates_equal_serial_execution(f: Func, seed: int) -> None:
    rng = np.random.default_rng(seed)
    special = np.array([0.0, -0.0, np.nan, 1.0, -2.5, 3.0], np.float32)
    inputs = {"data": rng.choice(special, 40), "where": rng.integers(0, 6, 40, dtype=np.uint8)}
    box = {v.name: (0, SIZE) for v in f.vars}
    pipeline = Pipeline(f.over(**box))
    given_inputs = {i.name: inputs[i.name] for i in pipeline.inputs}
    buffer = interpret_funcs(pipeline, given_inputs)[f]
    domain = [range(o, o + n) for o, n in zip(buffer.origin, buffer.arrays[0].shape, strict=True)]
    for got, expected in zip(buffer.arrays, walked(f, domain, inputs), strict=True):
        np.testing.assert_array_equal(got, expected)
        numbers = ~np.isnan(expected)
        np.testing.assert_array_equal(np.signbit(got[numbers]), np.signbit(expected[numbers]))
    outputs = interpret(pipeline, given_inputs)
    window = tuple(slice(-o, SIZE - o) for o in buffer.origin)
    np.testing.assert_array_equal(next(iter(outputs.values())), buffer.arrays[0][window])
