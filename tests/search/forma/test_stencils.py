"""Classification of Funcs as stencils, and their offsets."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from autosched import Func, Input, Pipeline, Var, cast, clamp, float32, int32
from autosched.analysis.bind import bind
from autosched.lang.rdom import RDom
from autosched.search.strategies.forma.stencils import AxisOffsets, Offsets, join_offsets, stencil_offsets

c, y, x = Var("c"), Var("y"), Var("x")
IMAGE = Input("image", float32, 3)
PLANE = Input("plane", float32, 2)
SHAPES = {"image": (3, 100, 100), "plane": (100, 100)}


def offsets_of(define: Callable[[Func], None]) -> object:
    """Return the offsets of a Func over 10 rows and columns."""
    f = Func("f")
    define(f)
    out = f.over(**{d: (0, 3) if d == "c" else (10, 20) for d in f.dims})
    pipeline = Pipeline([out])
    return stencil_offsets(bind(pipeline, {i.name: SHAPES[i.name] for i in pipeline.inputs}).funcs["f"])


def convolution(f: Func) -> None:
    r = RDom("r", x=(-2, 3))
    f[y, x] = 0.0
    f[y, x] += PLANE[y, x + r.x] * 0.2


def matrix_product(f: Func) -> None:
    r = RDom("r", x=100)
    f[y, x] = 0.0
    f[y, x] += PLANE[y, r.x] * PLANE[r.x, x]


def set_(value: Callable[[], object], *dims: Var) -> Callable[[Func], None]:
    def define(f: Func) -> None:
        f[dims] = value()

    return define


OWN = (AxisOffsets("y", 0, 0), AxisOffsets("x", 0, 0))


@pytest.mark.parametrize(
    ("define", "expected"),
    [
        (set_(lambda: PLANE[y, x] * 2, y, x), {"plane": OWN}),
        (
            set_(lambda: PLANE[y - 1, x + 3] + PLANE[y + 2, x], y, x),
            {"plane": (AxisOffsets("y", -1, 2), AxisOffsets("x", 0, 3))},
        ),
        (
            set_(lambda: IMAGE[0, y, x] + IMAGE[2, y, x + 1], y, x),  # channels: the same ones at all points
            {"image": (AxisOffsets(None, 0, 2), AxisOffsets("y", 0, 0), AxisOffsets("x", 0, 1))},
        ),
        (
            set_(lambda: PLANE[y, x] * IMAGE[c, y, x], c, y, x),
            {"plane": OWN, "image": (AxisOffsets("c", 0, 0), *OWN)},
        ),
        (convolution, {"plane": (AxisOffsets("y", 0, 0), AxisOffsets("x", -2, 2))}),
    ],
)
def test_offsets_of_stencils(define: Callable[[Func], None], expected: dict[str, Offsets]) -> None:
    assert offsets_of(define) == expected


@pytest.mark.parametrize(
    "define",
    [
        set_(lambda: PLANE[2 * y, x], y, x),  # interpolation and extrapolation (footnote 1)
        set_(lambda: PLANE[y // 2, x], y, x),
        set_(lambda: PLANE[x, y], y, x),  # a transpose
        set_(lambda: PLANE[y, x] + PLANE[x, y], y, x),
        set_(lambda: PLANE[y + x, x], y, x),  # two dimensions in one index
        set_(lambda: PLANE[y, clamp(cast(int32, PLANE[y, x]), 0, 99)], y, x),  # a gather
        set_(lambda: PLANE[y, y], y),
        matrix_product,
    ],
)
def test_other_funcs_are_none(define: Callable[[Func], None]) -> None:
    assert offsets_of(define) is None


def test_a_scan_is_no_stencil() -> None:
    f, r = Func("f"), RDom("r", x=(11, 20))
    f[y, x] = PLANE[y, x]
    f[y, r.x] += f[y, r.x - 1]
    bound = bind(Pipeline([f.over(y=(10, 20), x=(10, 20))]), {"plane": (100, 100)})
    assert stencil_offsets(bound.funcs["f"]) is None


def test_hull_of_offsets() -> None:
    a, b = (AxisOffsets("x", -1, 0),), (AxisOffsets("x", 2, 3),)
    assert join_offsets(None, a) == a
    assert join_offsets(a, b) == (AxisOffsets("x", -1, 3),)
    assert join_offsets(a, (AxisOffsets(None, 2, 3),)) is None
