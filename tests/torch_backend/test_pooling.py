"""Pooling and its gradients against eager PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn import functional as f

from tests.torch_backend.differential import compare, left_to_torch, random

Form = tuple[Callable[[torch.Tensor], Any], tuple[int, ...]]

FORMS: dict[str, Form] = {
    "average 1d": (lambda a: f.avg_pool1d(a, 3, 2, 1), (2, 2, 9)),
    "average 2d": (lambda a: f.avg_pool2d(a, (3, 2)), (2, 2, 9, 7)),
    "average of an image": (lambda a: f.avg_pool2d(a, 2, 1), (2, 5, 7)),
    "average without padding": (lambda a: f.avg_pool2d(a, 3, 2, 1, count_include_pad=False), (1, 2, 9, 8)),
    "average of ceil mode": (lambda a: f.avg_pool2d(a, 3, 2, 1, ceil_mode=True), (1, 2, 10, 8)),
    "average of ceil mode without padding":
        (lambda a: f.avg_pool2d(a, 4, 3, (1, 2), ceil_mode=True, count_include_pad=False), (1, 1, 10, 9)),
    "average by a divisor": (lambda a: f.avg_pool2d(a, 3, 1, 1, divisor_override=5), (1, 2, 6, 5)),
    "average 3d": (lambda a: f.avg_pool3d(a, (2, 3, 2), (1, 2, 2), (1, 1, 0)), (1, 2, 4, 7, 6)),
    "maximum 1d": (lambda a: f.max_pool1d(a, 3, 2, 1), (2, 2, 9)),
    "maximum 2d": (lambda a: f.max_pool2d(a, 2), (2, 2, 8, 6)),
    "maximum with places": (lambda a: f.max_pool2d(a, 3, 2, 1, return_indices=True), (1, 2, 9, 8)),
    "maximum of every point": (lambda a: f.max_pool2d(a, 3, 1, 1), (1, 1, 6, 7)),
    "maximum with dilation": (lambda a: f.max_pool2d(a, 3, 2, 1, dilation=2, return_indices=True), (1, 2, 9, 10)),
    "maximum of one window": (lambda a: f.max_pool2d(a, 3, 1, 1, dilation=2), (1, 2, 3, 6)),  # with taps outside
    "maximum of ceil mode": (lambda a: f.max_pool2d(a, 3, 2, 1, ceil_mode=True, return_indices=True), (1, 2, 10, 8)),
    "maximum 3d": (lambda a: f.max_pool3d(a, 2, (1, 2, 2), 1, return_indices=True), (1, 2, 3, 5, 4)),
    "adaptive average": (lambda a: f.adaptive_avg_pool2d(a, (4, 3)), (1, 2, 8, 10)),
    "adaptive average of one": (lambda a: f.adaptive_avg_pool2d(a, 1), (2, 3, 5, 4)),
    "adaptive average upwards": (lambda a: f.adaptive_avg_pool2d(a, (7, 5)), (1, 2, 3, 4)),
    "adaptive average 1d": (lambda a: f.adaptive_avg_pool1d(a, 4), (1, 2, 9)),
    "adaptive average 3d": (lambda a: f.adaptive_avg_pool3d(a, (2, 3, 4)), (1, 2, 5, 6, 7)),
    "adaptive maximum": (lambda a: f.adaptive_max_pool2d(a, (4, 3), return_indices=True), (1, 2, 8, 10)),
    "adaptive maximum 3d": (lambda a: f.adaptive_max_pool3d(a, (2, 3, 2)), (1, 1, 5, 6, 3)),
    "area": (lambda a: f.interpolate(a, size=(3, 5), mode="area"), (1, 2, 7, 8)),
}  # fmt: skip
COMPILED = ("average of ceil mode without padding", "maximum with dilation", "maximum of ceil mode",
            "adaptive average", "adaptive maximum")  # fmt: skip


@pytest.mark.parametrize("name", FORMS)
def test_the_interpreter_gives_eager_results(name: str) -> None:
    function, shape = FORMS[name]
    assert not left_to_torch(compare(function, random(*shape), witness="interpreter"))


@pytest.mark.parametrize("witness", ["cpu", "emulator"])
@pytest.mark.parametrize("name", COMPILED)
def test_compiled_pooling_gives_eager_results(name: str, witness: Any) -> None:
    function, shape = FORMS[name]
    compare(function, random(*shape), witness=witness)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16])
def test_pooling_of_other_types(dtype: torch.dtype) -> None:
    for name in ("average without padding", "maximum with places", "adaptive average"):
        function, shape = FORMS[name]
        compare(function, random(*shape, dtype=dtype), witness="interpreter")


def test_places_of_equal_elements_and_of_nan() -> None:
    a = torch.tensor([[1, 3, 3, 1], [3, 2, float("nan"), 0], [0, float("nan"), 1, 1]])[None, None]
    low = torch.full((1, 1, 4, 4), -torch.inf)

    def function(x: torch.Tensor) -> Any:
        return f.max_pool2d(x, 2, 1, 1, return_indices=True)

    for x in (a, low, torch.zeros(1, 1, 4, 5)):
        compare(function, x, witness="interpreter")


def test_pooling_of_slices() -> None:
    for function in (
        lambda x: f.max_pool2d(x[:, :, ::2, 1:], 3, 2, 1, return_indices=True),
        lambda x: f.avg_pool2d(x.flatten(2).unflatten(2, (9, 8)), 3, 2, 1),
        lambda x: f.adaptive_avg_pool2d(x[:, :, ::2, 1:], (2, 3)),
    ):
        compare(function, random(1, 2, 8, 9), witness="interpreter")


def test_maxima_of_integers() -> None:
    a = torch.arange(48).reshape(1, 2, 4, 6) * 7 % 11
    compare(lambda x: f.max_pool2d(x, 2, return_indices=True), a, witness="interpreter")
