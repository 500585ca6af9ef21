"""Gradients of convolutions against eager PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn import functional as f

from tests.torch_backend.differential import compare, left_to_torch, random

Form = tuple[Callable[..., Any], tuple[int, ...], tuple[int, ...], int]

FORMS: dict[str, Form] = {
    "1d": (lambda a, w, b: f.conv1d(a, w, b, 2, 1), (2, 3, 9), (4, 3, 3), 4),
    "2d": (lambda a, w, b: f.conv2d(a, w, b), (2, 3, 6, 7), (4, 3, 3, 2), 4),
    "strided": (lambda a, w, b: f.conv2d(a, w, b, (2, 3), (1, 2)), (1, 2, 8, 9), (3, 2, 3, 4), 3),
    "dilated": (lambda a, w, b: f.conv2d(a, w, b, 1, 2, (2, 1)), (1, 2, 8, 7), (3, 2, 3, 3), 3),
    "grouped": (lambda a, w, b: f.conv2d(a, w, b, 2, 1, 1, 2), (2, 4, 7, 6), (6, 2, 3, 3), 6),
    "depthwise": (lambda a, w, b: f.conv2d(a, w, b, groups=3), (2, 3, 6, 6), (3, 1, 3, 3), 3),
    "3d": (lambda a, w, b: f.conv3d(a, w, b, 1, (1, 0, 1)), (1, 2, 3, 4, 4), (2, 2, 2, 2, 3), 2),
    "transposed": (lambda a, w, b: f.conv_transpose2d(a, w, b, 2, 1, 1), (1, 3, 4, 5), (3, 2, 3, 3), 2),
    "transposed and grouped":
        (lambda a, w, b: f.conv_transpose2d(a, w, b, (2, 1), 1, 0, 2, 2), (2, 4, 4, 3), (4, 3, 3, 3), 6),
    "of a slice": (lambda a, w, b: f.conv2d(a[:, :, ::2, 1:], w, b, padding=1), (1, 2, 9, 7), (3, 2, 3, 3), 3),
    "without bias": (lambda a, w, b: f.conv2d(a, w) * b[:, None, None], (1, 2, 5, 5), (2, 2, 3, 3), 2),
}  # fmt: skip


def arguments(name: str, dtype: torch.dtype = torch.float32) -> tuple[torch.Tensor, ...]:
    _, of_input, of_weight, channels = FORMS[name]
    return tuple(random(*shape, dtype=dtype, seed=k) for k, shape in enumerate((of_input, of_weight, (channels,))))


@pytest.mark.parametrize("name", FORMS)
def test_the_interpreter_gives_eager_gradients(name: str) -> None:
    assert not left_to_torch(compare(FORMS[name][0], *arguments(name), witness="interpreter", rtol=1e-4, atol=1e-5))


@pytest.mark.parametrize("witness", ["cpu", "emulator"])
@pytest.mark.parametrize("name", ["strided", "grouped", "transposed and grouped"])
def test_compiled_gradients_are_those_of_eager(name: str, witness: Any) -> None:
    compare(FORMS[name][0], *arguments(name), witness=witness, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16])
def test_gradients_of_other_types(dtype: torch.dtype) -> None:
    compare(FORMS["strided"][0], *arguments("strided", dtype), witness="interpreter")


def test_a_weight_without_gradient_has_none() -> None:
    a, w, b = arguments("2d")
    compare(FORMS["2d"][0], a, w.detach(), b.detach(), witness="interpreter", rtol=1e-4, atol=1e-5)
    compare(FORMS["2d"][0], a.detach(), w, b.detach(), witness="interpreter", rtol=1e-4, atol=1e-5)
