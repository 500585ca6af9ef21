"""Costs of comparisons and logical operations in vectors: masks as wide as the values compared."""

from __future__ import annotations

import pytest

from autosched import Func, Input, Pipeline, Var, all_of, bfloat16, cast, float16, float32, int16, int32, uint8
from autosched.analysis.bind import bind
from autosched.lang.dtypes import DType
from autosched.search.cost.cpu.stage_costs import stage_work

Y, X = Var("y"), Var("x")


def arithmetic(value: object, image: Input) -> float:
    out = Func("out")
    out[Y, X] = value
    bound = bind(Pipeline(out.over(y=(0, 64), x=(0, 64))), {image.name: (64, 64)}, {})
    return stage_work(bound.stage("out", 0), frozenset(("y", "x"))).work.arithmetic


@pytest.mark.parametrize(("dtype", "width"), [(uint8, 0.25), (int16, 0.5), (int32, 1.0), (float32, 1.0)])
def test_a_comparison_has_the_width_of_its_operands(dtype: DType, width: float) -> None:
    image = Input("image", dtype, 2)
    compared = all_of(image[Y, X] > 3, image[Y, X] < 100, image[Y, X] != 50)
    three_comparisons_and_two_conjunctions = 5 * width
    assert arithmetic(compared, image) == pytest.approx(three_comparisons_and_two_conjunctions)
    if dtype.is_int:  # a mask becomes an integer of its own width
        assert arithmetic(cast(dtype, compared), image) == pytest.approx(6 * width)


def test_other_widths_cost_whole_vectors() -> None:
    bytes_ = Input("image", uint8, 2)
    assert arithmetic(cast(int32, bytes_[Y, X] > 3), bytes_) == pytest.approx(0.25 + 1)
    for dtype in (float16, bfloat16):
        halves = Input("image", dtype, 2)
        assert arithmetic(halves[Y, X] > 3, halves) >= 1


def test_conjunctions_have_the_width_of_the_widest_comparison() -> None:
    image = Input("image", uint8, 2)
    wide = cast(int32, image[Y, X]) * 3 > 70
    narrow = image[Y, X] < 100
    alone = arithmetic(wide, image), arithmetic(narrow, image)
    assert arithmetic(all_of(wide, narrow), image) == pytest.approx(sum(alone) + 1)
