"""Boxes of outputs that declare none: deduced from an input, or refused with the largest valid box."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import autosched as a
from autosched import Func, Input, Pipeline, RDom, Var, float32, int32, uint8
from autosched.analysis.bind import bind, output_boxes
from autosched.errors import BoundsError, DSLError

y, x, c = Var("y"), Var("x"), Var("c")
img, other = Input("img", float32, 2), Input("other", float32, 2)
row, lut = Input("row", float32, 1), Input("lut", uint8, 1)
SHAPES = {"img": (30, 40), "other": (12, 50), "row": (20,), "lut": (256,)}


def func(value: Any, *dims: Var, name: str = "f") -> Func:
    f = Func(name)
    f[dims or (y, x)] = value
    return f


def deduced(f: Func) -> Any:
    pipeline = Pipeline(f)
    return output_boxes(pipeline, {i.name: SHAPES[i.name] for i in pipeline.inputs})[f]


def total(index: Any) -> Any:
    return a.sum(row.clamped()[index + (r := RDom("r", k=(-2, 3))).k], over=r)


@pytest.mark.parametrize(
    "value",
    [
        lambda: img[y, x] * 2,
        lambda: img.clamped()[y - 1, x] + img[y, x],
        lambda: func(img.mirrored()[y, x + 3] + img.mirrored()[y, x], name="g")[y, x],
        lambda: img[y, x] * total(x),
        lambda: img[y, x] + lut[a.cast(uint8, img[y, x])],
        lambda: img[y, x] + other.constant(0)[y + 100, x - 100],
        lambda: img[y, x] + func(row.clamped()[x], x, name="g")[x * 3],
        lambda: img[y % 30, x] + img[y, x],
    ],
)
def test_shape_of_the_input_at_the_same_point(value: Callable[[], Any]) -> None:
    assert deduced(func(value())) == ((0, 30), (0, 40))


def test_the_input_whose_shape_is_valid_is_chosen() -> None:
    assert deduced(func(other[y, x] * img.clamped()[y, x])) == ((0, 12), (0, 50))
    assert deduced(func(img.clamped()[y, x] * other[y, x])) == ((0, 12), (0, 50))


def test_several_outputs() -> None:
    f, g, h = func(img[y, x] + 1), func(row[x] * 2, x, name="g"), func(img[y, x + 1], name="h")
    boxes = output_boxes(Pipeline([f, g, h.over(y=(0, 3), x=(0, 39))]), {"img": (30, 40), "row": (20,)})
    assert boxes == {f: ((0, 30), (0, 40)), g: ((0, 20),), h: ((0, 3), (0, 39))}


@pytest.mark.parametrize(
    ("value", "dims", "box"),
    [
        (lambda: img[y, x + 1] + img[y, x - 1], (y, x), "y=(0, 30), x=(1, 39)"),
        (lambda: img[y + 2, x], (y, x), "y=(-2, 28), x=(0, 40)"),
        (lambda: img[y // 2, x // 3], (y, x), "y=(0, 60), x=(0, 120)"),
        (lambda: img[2 * y, 3 * x + 1], (y, x), "y=(0, 15), x=(0, 13)"),
        (lambda: img[4 * y + 3, 8 * x], (y, x), "y=(0, 7), x=(0, 5)"),
        (lambda: img[29 - y, x], (y, x), "y=(0, 30), x=(0, 40)"),
        (lambda: img[x, y], (y, x), "y=(0, 40), x=(0, 30)"),
        (lambda: img[3, x], (x,), "x=(0, 40)"),
        (lambda: img[y, x] + img[y, x + c], (c, y, x), "c=(-19, 21), y=(0, 30), x=(19, 20)"),
        (lambda: img[y, x] + other[y, x], (y, x), "y=(0, 12), x=(0, 40)"),
        (lambda: func(img[y, x - 1] * 2, name="g")[y, x + 3], (y, x), "y=(0, 30), x=(-2, 38)"),
        (lambda: img.clamped()[y - 1, x], (y, x), "y=(0, 30), x=(0, 40)"),  # nowhere at its own point
        (lambda: func(img.wrapped()[y, x], name="g")[y - 5, x + 7], (y, x), "y=(0, 30), x=(0, 40)"),
        (lambda: img[y, x - 35], (y, x), "y=(0, 30), x=(35, 75)"),
        (lambda: img.clamped(y=(0, 30))[2 * y, x + 1], (y, x), "y=(0, 30), x=(-1, 39)"),
        (lambda: a.sum(img[y, x + (r := RDom("r", k=5)).k], over=r), (y, x), "y=(0, 30), x=(0, 36)"),
    ],
)
def test_largest_valid_box_is_printed(value: Callable[[], Any], dims: tuple[Var, ...], box: str) -> None:
    f = func(value(), *dims)
    with pytest.raises(DSLError) as caught:
        deduced(f)
    error = caught.value
    assert error.message == "output 'f' has no box, and none follows from the inputs"
    assert error.hint == f"the largest valid box for these shapes is f.over({box}); or give the input a boundary"
    assert error.location is not None and error.location.text == "f = Func(name)"


kernel, volume = Input("kernel", float32, 2), Input("volume", float32, 3, dims=("y", "x", "c"))
SMALL_FIRST = {"kernel": (3, 3), "row": (5,), "lut": (256,), "img": (30, 40), "volume": (30, 40, 4)}


def convolved(image: Any, *more: Any) -> Any:
    r = RDom("r", y=3, x=3)
    return a.sum(kernel[r.y, r.x] * image[(y + r.y - 1, x + r.x - 1, *more)], over=r)


def histogram() -> Func:
    f, r = Func("f"), RDom("r", y=img.shape[0], x=img.shape[1])
    f[c] = 0
    f[a.cast(uint8, img[r.y, r.x])] += 1
    return f


@pytest.mark.parametrize(
    ("f", "box"),
    [
        (lambda: func(convolved(img.clamped())), "y=(0, 30), x=(0, 40)"),
        (lambda: func(convolved(volume.clamped(), 0)), "y=(0, 30), x=(0, 40)"),
        (lambda: func(convolved(volume.clamped(), c) + row.clamped()[c + 1], c, y, x),
         "c=(0, 4), y=(0, 30), x=(0, 40)"),
        (lambda: func(kernel.clamped()[0, 0] * img.clamped()[y, x + 1]), "y=(0, 30), x=(0, 40)"),
        (lambda: func(kernel.clamped()[y // 10, x // 10] * img.clamped()[y, x - 1]), "y=(0, 30), x=(0, 40)"),
        (lambda: func(lut[a.cast(uint8, img.clamped()[0, x])], x), "x=(0, 40)"),
        (lambda: func(func(convolved(img.clamped()), name="g")[y + 5, x] * row[2]), "y=(0, 30), x=(0, 40)"),
        (lambda: func(a.sum(kernel.clamped()[y, (r := RDom("q", k=3)).k] * img.clamped()[r.k, x], over=r)),
         "y=(0, 3), x=(0, 40)"),
        (lambda: func(img[a.clamp(y + 1, 0, 29), a.clamp(x - 1, 0, 39)] * kernel.clamped()[0, 0]),
         "y=(0, 30), x=(0, 40)"),
        (histogram, "c=(0, 256)"),
    ],
)  # fmt: skip
def test_the_box_is_that_of_the_inputs_along_its_dimensions(f: Callable[[], Func], box: str) -> None:
    pipeline = Pipeline(f())
    shapes = {name: shape for name, shape in SMALL_FIRST.items() if name in {i.name for i in pipeline.inputs}}
    for order in (shapes, dict(reversed(shapes.items()))):
        with pytest.raises(DSLError) as caught:
            output_boxes(pipeline, order)
        assert caught.value.hint is not None
        assert f".over({box})" in caught.value.hint


def test_no_box_at_all() -> None:
    with pytest.raises(DSLError) as caught:
        output_boxes(Pipeline(func(img[0 * y + 99, x])), {"img": (30, 40)})
    assert caught.value.hint == "declare the box: Pipeline([f.over(y=(low, high), x=(low, high))])"
    with pytest.raises(DSLError) as caught:
        output_boxes(Pipeline(func(x + y)), {})
    assert caught.value.hint is not None and "f.over(y=" in caught.value.hint


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (lambda: img[y, x] + row[a.cast(uint8, img[y, x])],
         r"index uint8\(img\[y, x\]\) in dimension 0 \(x\) reaches \[0, 255\]"),
        (lambda: img[y, x] + func(x, x, name="g")[a.cast(int32, img[y, x])], "depends on data and has no useful range"),
    ],
)  # fmt: skip
def test_reads_that_no_box_can_mend_are_reported_themselves(value: Callable[[], Any], message: str) -> None:
    with pytest.raises(BoundsError, match=message):
        deduced(func(value()))


offsets = st.integers(-4, 4)


@settings(max_examples=80, deadline=None)
@given(
    st.lists(
        st.tuples(offsets, offsets, st.sampled_from([1, 1, 2, 3]), st.sampled_from([1, 1, 2])), min_size=1, max_size=3
    )
)
def test_largest_box_is_valid_and_cannot_grow(reads: list[tuple[int, int, int, int]]) -> None:
    value = img[(reads[0][2] * y + reads[0][0]) // reads[0][3], x + reads[0][1]]
    for dy, dx, factor, divisor in reads[1:]:
        value = value + img[y + dy, (factor * x + dx) // divisor]
    f = func(value)
    try:
        deduced(f)
    except DSLError as e:
        found = re.search(r"f\.over\(y=\((-?\d+), (-?\d+)\), x=\((-?\d+), (-?\d+)\)\)", e.hint or "")
        assert found is not None, e
    else:
        assume(False)
    low, high, left, right = map(int, found.groups())

    def is_valid(low: int, high: int, left: int, right: int) -> bool:
        try:
            bind(Pipeline(f.over(y=(low, high), x=(left, right))), {"img": SHAPES["img"]})
        except BoundsError:
            return False
        return True

    assert is_valid(low, high, left, right)
    for grown in (
        (low - 1, high, left, right),
        (low, high + 1, left, right),
        (low, high, left - 1, right),
        (low, high, left, right + 1),
    ):
        assert not is_valid(*grown)


def test_output_without_dimensions_needs_no_box() -> None:
    f = Func("f")
    f[()] = a.cast(int32, 3)
    assert output_boxes(Pipeline(f), {}) == {f: ()}
