"""Functions of kornia, compiled without fallback, against eager PyTorch."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("kornia")

from kornia_table.comparison import checked
from kornia_table.functions import KorniaFunction, kornia_functions

IN_ONE_REGION = (
    "filters.bilateral_blur", "filters.gaussian_blur2d", "filters.median_blur", "color.hsv_to_rgb", "color.rgb_to_lab",
    "enhance.adjust_hue", "morphology.dilation", "geometry.pyrdown", "feature.harris_response", "losses.ssim_loss",
)  # fmt: skip
"""A sample of the functions that are one region of one graph; `scripts/check_kornia.py` checks all."""

CASES = {case.name: case for case in kornia_functions()}


def row(case: KorniaFunction) -> dict[str, Any]:
    return checked(case, (1, 3, 20, 24), "roots")


@pytest.mark.parametrize("name", IN_ONE_REGION)
def test_results_and_gradients_are_those_of_eager(name: str) -> None:
    found = row(CASES[name])
    assert found["forward"] == "right"
    assert found.get("backward", "right") == "right"
    assert (found["graphs"], found["regions"], found["left"]) == (1, 1, [])


@pytest.mark.fuzz
@pytest.mark.parametrize("name", CASES)
def test_every_function_is_that_of_eager(name: str) -> None:
    found = row(CASES[name])
    assert found["forward"] == "right"
    assert found.get("backward", "right") == "right"


@pytest.mark.parametrize("name", ["geometry.resize", "geometry.warp_affine", "geometry.warp_perspective"])
def test_timed_results_follow_the_size_of_the_picture(name: str) -> None:
    case = CASES[name]
    sizes = []
    for shape in ((1, 3, 64, 64), (1, 3, 48, 80)):
        inputs = case.draw(shape)
        sizes.append(tuple((case.timed or case.function)(*inputs).shape[-2:]))
    assert sizes == ([(40, 56), (30, 70)] if name == "geometry.resize" else [(64, 64), (48, 80)])
