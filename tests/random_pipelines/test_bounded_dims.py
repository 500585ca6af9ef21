"""Bounded dimensions: they index an input without a boundary condition."""

from __future__ import annotations

from autosched import Func, Input, RDom, Var, clamp, float32, sum
from autosched.random_pipelines.bounded_dims import BoundedDims

Y, X = Var("y"), Var("x")


def closed(f: Func) -> set[str]:
    return set(BoundedDims().of(f))


def test_inputs_are_closed_until_they_are_padded() -> None:
    image = Input("image", float32, 2)
    direct, padded, half = Func("direct"), image.clamped(), image.wrapped(x=(0, 8))
    direct[Y, X] = image[X, Y] + 1
    assert closed(direct) == {"y", "x"}
    assert closed(padded) == set()
    assert closed(half) == {"y"}


def test_indices_decide() -> None:
    image, table = Input("image", float32, 2), Input("table", float32, 1)
    padded = image.mirrored()
    f, g = Func("f"), Func("g")
    f[Y, X] = table[clamp(X - 2, 0, 9)] + table[Y // 2] + padded[Y - 5, X]
    g[Y, X] = f[X % 4, Y * 2 + 1]
    assert closed(f) == {"y"}
    assert closed(g) == set()


def test_sums_and_updates_count() -> None:
    image = Input("image", float32, 2)
    r = RDom("r", x=8)
    rows, scan = Func("rows"), Func("scan")
    rows[Y] = sum(image[Y, r.x], over=r)
    padded = image.clamped()
    scan[Y, X] = padded[Y, X]
    scan[Y, r.x + 1] = scan[Y, r.x] + image[r.x, Y]
    assert closed(rows) == {"y"}
    assert closed(scan) == {"y"}
