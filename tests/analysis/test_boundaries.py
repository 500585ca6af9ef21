"""Boundary conditions over known regions: folded mirrors and periodic extensions, by their definitions."""

from __future__ import annotations

import pytest

from autosched import Func, Input, Pipeline, Var, int32
from autosched.analysis.bind import bind
from autosched.analysis.bound_pipeline import BoundPipeline

N = 64
x = Var("x")


def read(kind: str, *offsets: int, low: int = 0) -> BoundPipeline:
    """Return ``out[x] = sum of b[x + offset]`` over [0, N), ``b`` a boundary condition around [low, low + N)."""
    f, out = Func("f"), Func("out")
    f[x] = x * 3
    b = getattr(f, kind)(x=(low, low + N))
    b.name = "b"
    out[x] = sum((b[x + o] for o in offsets[1:]), b[x + offsets[0]])
    return bind(Pipeline(out.over(x=(0, N))), {})


def value(bound: BoundPipeline, name: str) -> str:
    return repr(bound.funcs[name].stages[0].values[0])


@pytest.mark.parametrize(
    ("kind", "offsets", "low", "expected"),
    [
        ("mirrored", (-2, 3), 0, "f[min(max(x, -1 - x), 127 - x)]"),
        ("mirrored", (0, 3), 0, "f[min(x, 127 - x)]"),
        ("mirrored", (-3, 0), 0, "f[max(x, -1 - x)]"),
        ("mirrored", (0,), 0, "f[x]"),
        ("mirrored_without_edge", (-2, 3), 0, "f[min(max(x, 0 - x), 126 - x)]"),
        ("mirrored", (2, 6), 4, "f[min(max(x - 4, -1 - (x - 4)), 127 - (x - 4)) + 4]"),
        ("mirrored", (-N, N), 0, "f[min(max(x, -1 - x), 127 - x)]"),
        ("mirrored_without_edge", (1 - N, N - 1), 0, "f[min(max(x, 0 - x), 126 - x)]"),
    ],
)
def test_mirrors_within_one_reflection(kind: str, offsets: tuple[int, ...], low: int, expected: str) -> None:
    assert value(read(kind, *offsets, low=low), "b") == expected


@pytest.mark.parametrize(
    ("kind", "offset"), [("mirrored", N + 1), ("mirrored", -N - 1), ("mirrored_without_edge", N), ("wrapped", N)]
)
def test_several_reflections_and_long_repeats_keep_remainders(kind: str, offset: int) -> None:
    bound = read(kind, 0, offset)
    assert " % " in value(bound, "b")
    assert bound.funcs["f"].region == ((0, N - 1),)


@pytest.mark.parametrize(("low", "expected"), [(0, "x % 64"), (-2, "((x - -2) % 64 - 2)"), (3, "((x - 3) % 64 + 3)")])
def test_coordinates_of_an_extension_are_wrapped(low: int, expected: str) -> None:
    bound = read("wrapped", low - 1, low + 4, low=low)
    assert value(bound, "b") == "f[x]"
    assert value(bound, "f") == f"int32({expected} * 3)"
    assert bound.funcs["f"].region == ((low - 1, low + N + 3),)


@pytest.mark.parametrize(("offsets", "is_extended"), [((-4, 4), True), ((-4, 5), False), ((8,), True), ((9,), False)])
def test_an_extension_is_limited_to_an_eighth(offsets: tuple[int, ...], is_extended: bool) -> None:
    bound = read("wrapped", *offsets)
    assert (bound.funcs["f"].region == ((min(offsets[0], offsets[-1]), N - 1 + offsets[-1]),)) == is_extended
    assert (value(bound, "b") == "f[x]") == is_extended


def test_other_periods_keep_remainders() -> None:
    f, out, image = Func("f"), Func("out"), Input("img", int32, 1)
    f[x] = image.wrapped(x=(0, 32))[x + 1]  # repeats after 32, not after 64
    out[x] = f.wrapped(x=(0, N))[x - 2]
    bound = bind(Pipeline(out.over(x=(0, N))), {"img": (32,)})
    assert bound.funcs["f"].region == ((-2, N - 3),)
    assert value(bound, "f") == "img_wrapped[x % 64 + 1]"
