"""Coordinates beyond 32 bits over small arrays: interpreter, C backend and emulator agree on every value."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

import autosched
from autosched import Func, Input, Pipeline, RDom, Var, cast, clamp, select

x, y, i = Var("x"), Var("y"), Var("i")
Arrays = Mapping[str, np.ndarray[Any, Any]]
Case = tuple[Pipeline, Arrays]

FAR = (2**31 - 40, 2**33, -(2**33) - 1, 2**39)
"""The first one lies across the end of 32 bits."""


def numbers(*shape: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(0).integers(0, 100, shape).astype(np.int32)


def of_coordinates(o: int) -> Case:
    f = Func("f")
    f[y, x] = cast("int32", (x + 3 * y) % 251) + cast("int32", x // 3 % 100)
    return Pipeline(f.over(y=(o, o + 21), x=(o, o + 100))), {}


def stencils(o: int) -> Case:
    a, f, g = Input("a", "int32", 1), Func("f"), Func("g")
    f[x] = a.clamped()[x - o - 1] + a.clamped()[x - o + 1]
    g[x] = f[x - 1] + f[x + 2] * 3
    return Pipeline(g.over(x=(o, o + 100))), {"a": numbers(100)}


def boundary(kind: str) -> Callable[[int], Case]:
    def case(o: int) -> Case:
        a, f, g = Input("a", "int32", 2), Func("f"), Func("g")
        f[y, x] = a[y - o, x - o]
        around = getattr(f, kind)(y=(o, o + 20), x=(o, o + 70))
        g[y, x] = around[y - 2, x] + around[y, x + 3] * 2 + around[y + 1, x - 4]
        return Pipeline(g.over(y=(o - 3, o + 24), x=(o - 5, o + 80))), {"a": numbers(20, 70)}

    return case


def selects(o: int) -> Case:
    f = Func("f")
    f[y, x] = select(x > o + 50, cast("int32", x % 7), cast("int32", (y - x) % 11)) + select(y == o + 2, 1, 2)
    return Pipeline(f.over(y=(o, o + 9), x=(o, o + 100))), {}


def upsampled(o: int) -> Case:
    a, f, g = Input("a", "int32", 1), Func("f"), Func("g")
    f[x] = a[x - o]
    g[x] = f[x // 2] + f[x // 2 + 1]
    return Pipeline(g.over(x=(2 * o, 2 * o + 100))), {"a": numbers(60)}


def downsampled(o: int) -> Case:
    a, f, g = Input("a", "int32", 1), Func("f"), Func("g")
    f[x] = a[x - 2 * o]
    g[x] = f[2 * x] + f[2 * x + 1]
    return Pipeline(g.over(x=(o, o + 100))), {"a": numbers(300)}


def reductions(o: int) -> Case:
    a, s = Input("a", "int32", 2), Func("s")
    r = RDom("r", i=(o, o + 90))
    s[x] = 0
    s[x] += a[x - o, r.i - o] * cast("int32", r.i % 5)
    return Pipeline(s.over(x=(o, o + 40))), {"a": numbers(40, 90)}


def scans(o: int) -> Case:
    a, f = Input("a", "int32", 2), Func("f")
    r = RDom("r", i=(o + 1, o + 90))
    f[y, x] = a[y, x - o]
    f[y, r.i] = f[y, r.i] + f[y, r.i - 1]
    return Pipeline(f.over(y=(0, 9), x=(o, o + 90))), {"a": numbers(9, 90)}


def histograms(o: int) -> Case:
    a, h = Input("a", "uint8", 1), Func("h")
    r = RDom("r", i=(0, 500))
    h[x] = 0
    h[cast("int64", a[r.i]) + o] += 1
    return Pipeline(h.over(x=(o, o + 256))), {"a": numbers(500).astype(np.uint8)}


def flat_indices(o: int) -> Case:
    a, f = Input("a", "int32", 3), Func("f")
    f[i] = a[(i - o) // 35, (i - o) // 7 % 5, (i - o) % 7] + cast("int32", i // 5 % 97)
    return Pipeline(f.over(i=(o, o + 140))), {"a": numbers(4, 5, 7)}


def gathers(o: int) -> Case:
    a, at, f, g = Input("a", "int32", 1), Input("at", "int64", 1), Func("f"), Func("g")
    f[x] = a[x - o]
    g[x] = f[clamp(at[x] + o, o, o + 99)]
    return Pipeline(g.over(x=(0, 200))), {"a": numbers(100), "at": numbers(200).astype(np.int64) * 2 - 40}


CASES: dict[str, Callable[[int], Case]] = {
    "coordinates": of_coordinates, "stencils": stencils, "selects": selects, "upsampled": upsampled,
    "downsampled": downsampled, "reductions": reductions, "scans": scans, "histograms": histograms,
    "flat indices": flat_indices, "gathers": gathers,
    **{kind: boundary(kind) for kind in ("clamped", "mirrored", "mirrored_without_edge", "wrapped")},
}  # fmt: skip


def assert_witnesses_agree(name: str, origin: int, strategy: str) -> None:
    pipeline, inputs = CASES[name](origin)
    (wanted,) = autosched.interpret(pipeline, inputs).values()
    for target, backend in (("cpu", "cpu"), ("h200", "emulator")):
        scheduled = autosched.schedule(
            pipeline, inputs=inputs, target=target, strategy=strategy, samples=2, reuse=False
        )
        np.testing.assert_array_equal(scheduled.compile(backend)(inputs), wanted, err_msg=f"{target} {origin}")


@pytest.mark.parametrize("name", CASES)
def test_witnesses_agree_beyond_32_bits(name: str) -> None:
    assert_witnesses_agree(name, 2**33, "roots")


@pytest.mark.fuzz
@pytest.mark.parametrize("strategy", ["roots", "beam", "sioutas"])
@pytest.mark.parametrize("origin", FAR)
@pytest.mark.parametrize("name", CASES)
def test_witnesses_agree_far_from_zero(name: str, origin: int, strategy: str) -> None:
    assert_witnesses_agree(name, origin, strategy)


def test_values_follow_from_exact_coordinates() -> None:
    """The interpreter itself, against Python's integers."""
    origin = 2**33
    pipeline, inputs = of_coordinates(origin)
    (found,) = autosched.interpret(pipeline, inputs).values()
    wanted = [
        [(u + 3 * v) % 251 + u // 3 % 100 for u in range(origin, origin + 100)] for v in range(origin, origin + 21)
    ]
    np.testing.assert_array_equal(found, wanted)
