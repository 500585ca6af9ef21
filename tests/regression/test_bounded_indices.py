"""Indices that operations on bits, types and coordinates bound: accepted, and the same for all witnesses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import autosched as a
from autosched.lang.expr import Expr
from tests.regression.test_witnesses import agree

x = a.Var("x")
table = a.Input("table", a.float32, 1)
i, b, c = a.Input("i", a.int32, 1), a.Input("b", a.uint8, 1), a.Input("c", a.int8, 1)
p32, p64, n = a.Param("p", a.uint32), a.Param("q", a.uint64), a.Param("n", a.int32)
X = np.arange(20)
TABLE = np.arange(300, dtype=np.float32)[::-1].copy()
I = (X * 7919 - 60000).astype(np.int32)  # noqa: E741
B, C = (X * 37 % 256).astype(np.uint8), (X * 91 % 256).astype(np.uint8).view(np.int8)
WIDE = B.astype(np.int32)

CASES: dict[str, tuple[Expr, np.ndarray[Any, Any]]] = {
    "neighbours that change places": (x ^ 1, X ^ 1),
    "odd coordinates": (x | 1, X | 1),
    "unsigned parameter": (x + p32, X + 5),
    "unsigned parameter of 64 bits": (x + p64, X + 6),
    "unsigned constant": (x + a.cast(a.uint32, 5), X + 5),
    "unsigned data": (x + a.cast(a.uint32, b[x]), X + WIDE),
    "unsigned coordinate": (a.cast(a.uint32, x), X),
    "16-bit coordinate": (a.cast(a.uint16, x) * 2, X * 2),
    "8-bit coordinate": (a.cast(a.int8, x) + 3, X + 3),
    "coordinate as a float": (a.cast(a.int32, a.cast(a.float32, x) * 0.5), X // 2),
    "complement": (7 + ~(i[x] % 7), 7 + ~(I % 7)),
    "complement of a byte": (~b[x], 255 - WIDE),
    "bytes": (a.cast(a.int32, c[x]) + 128, C.astype(int) + 128),
    "or": (b[x] | a.cast(a.uint8, c[x]), B | C.view(np.uint8)),
    "or of negative numbers": (100 + (i[x] % 16 - 8 | i[x] % 4 - 4), 100 + (I % 16 - 8 | I % 4 - 4)),
    "exclusive or": (a.cast(a.int32, b[x]) ^ (i[x] % 16), WIDE ^ (I % 16)),
    "mask of negative numbers": (16 + (i[x] % 16 - 16 & -4), 16 + (I % 16 - 16 & -4)),
    "shift by data": ((i[x] & 255) >> (b[x] & 3), (I & 255) >> (WIDE & 3)),
    "left shift by data": (a.cast(a.int32, b[x] & 7) << (b[x] & 3), (WIDE & 7) << (WIDE & 3)),
    "shift beyond the width": ((i[x] & 0xFFFF) >> n, (I & 0xFFFF) >> 8),
    "division by data": (i[x] % 256 // a.max(b[x], 1), I % 256 // np.maximum(WIDE, 1)),
    "mean of floats": (
        a.cast(a.int32, (a.cast(a.float32, b[x]) + a.cast(a.float32, c[x] & 63)) / 2),
        (WIDE + (C & 63)) // 2,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_bounded(name: str) -> None:
    index, wanted = CASES[name]
    f = a.Func("f")
    f[x] = table[index]
    inputs: dict[str, np.ndarray[Any, Any]] = {"table": TABLE, "i": I, "b": B, "c": C}
    params = {"p": 5, "q": 6, "n": 40}
    pipeline = a.Pipeline(f.over(x=(0, 20)))
    given = {s.name: inputs[s.name] for s in pipeline.inputs}
    found = agree(f.over(x=(0, 20)), given, {p.name: params[p.name] for p in pipeline.params})
    assert (found["f"] == TABLE[wanted]).all()


def test_ranges_of_coordinates_go_through_producers() -> None:
    f, g = a.Func("f"), a.Func("g")
    g[x] = table[a.cast(a.uint32, x)] + x
    f[x] = g[x ^ 3] * 2
    found = agree(f.over(x=(0, 20)), {"table": TABLE})
    assert (found["f"] == (TABLE[X ^ 3] + (X ^ 3)) * 2).all()


def test_coordinates_that_wrap_are_refused() -> None:
    f = a.Func("f")
    f[x] = table[a.cast(a.uint8, x)]
    assert agree(f.over(x=(0, 280)), {"table": TABLE})["f"][260] == TABLE[4]
    g = a.Func("g")
    g[x] = table[a.cast(a.uint32, x)]
    with pytest.raises(a.BoundsError, match=r"index uint32\(x\) in dimension 0 \(x\) reaches \[0, 4294967295\]"):
        agree(g.over(x=(-1, 20)), {"table": TABLE})


@pytest.mark.parametrize("start", [0, 1 << 31, 1 << 33, 1 << 39])
def test_flat_indices_of_large_images(start: int) -> None:
    """A window of a flat index into rows of 37, where 32 bits do not hold it."""
    image, k, first = a.Input("image", a.float32, 2), a.Var("k"), start // 37
    values = np.arange(20 * 37, dtype=np.float32).reshape(20, 37)
    f = a.Func("f")
    f[k] = image[k // 37 - first, k % 37]
    found = agree(f.over(k=(37 * first, 37 * first + 700)), {"image": values})
    assert (found["f"] == values.ravel()[:700]).all()


def test_an_image_of_more_than_32_bits_of_points() -> None:
    image, k, f = a.Input("image", a.uint8, 2), a.Var("k"), a.Func("f")
    f[k] = image[k // 65537, k % 65537]
    found = a.schedule(
        a.Pipeline(f.over(k=(0, 65536 * 65537))), {"image": (65536, 65537)}, "h200", strategy="roots", reuse=False
    )
    assert "(long long)k_b" in found.source()


@pytest.mark.parametrize("target", ["h200", "cpu"])
def test_a_flat_index_of_more_than_32_bits_is_bounded_by_the_shape(target: str) -> None:
    k = a.Var("k")
    image, f = a.Input("image", a.uint8, 2), a.Func("f")
    f[k] = image[k // image.shape[1], k % image.shape[1]]
    pipeline = a.Pipeline(f.over(k=(65536 * 65537 - 8, 65536 * 65537)))
    found = a.schedule(pipeline, {"image": (65536, 65537)}, target, strategy="roots", reuse=False)
    assert "4295032832" in found.source("cuda" if target == "h200" else "cpu").replace("LL", "")
