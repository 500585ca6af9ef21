"""Grid sampling and its gradients against eager PyTorch."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch
from torch.nn import functional as f

from tests.torch_backend.differential import compare, left_to_torch, random

MODES = ("bilinear", "nearest", "bicubic")
PADDINGS = ("zeros", "border", "reflection")


def positions(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Return positions inside and outside of the input, none on a border of elements."""
    return (random(*shape, dtype=dtype, seed=9) * 3.1 - 1.53).detach().requires_grad_()


def sampled(mode: str, padding: str, aligned: bool) -> Any:
    return lambda a, g: f.grid_sample(a, g, mode=mode, padding_mode=padding, align_corners=aligned)


@pytest.mark.parametrize("aligned", [False, True])
@pytest.mark.parametrize(("mode", "padding"), itertools.product(MODES, PADDINGS))
def test_the_interpreter_samples_images(mode: str, padding: str, aligned: bool) -> None:
    a, g = random(2, 3, 5, 6), positions(2, 4, 7, 2)
    record = compare(sampled(mode, padding, aligned), a, g, witness="interpreter", rtol=1e-4, atol=2e-5)
    assert not left_to_torch(record)


@pytest.mark.parametrize("padding", PADDINGS)
@pytest.mark.parametrize("mode", ["bilinear", "nearest"])
def test_the_interpreter_samples_volumes(mode: str, padding: str) -> None:
    a, g = random(1, 2, 3, 4, 5), positions(1, 2, 3, 4, 3)
    record = compare(sampled(mode, padding, False), a, g, witness="interpreter", rtol=1e-4, atol=2e-5)
    assert not left_to_torch(record)


@pytest.mark.parametrize("witness", ["cpu", "emulator"])
@pytest.mark.parametrize(
    ("mode", "padding"), [("bilinear", "zeros"), ("bilinear", "reflection"), ("bicubic", "border")]
)
def test_compiled_samplers_give_eager_results(mode: str, padding: str, witness: Any) -> None:
    a, g = random(2, 3, 5, 6), positions(2, 4, 7, 2)
    compare(sampled(mode, padding, False), a, g, witness=witness, rtol=1e-4, atol=2e-5)


def test_double_precision() -> None:
    a, g = random(1, 2, 5, 6, dtype=torch.float64), positions(1, 4, 7, 2, dtype=torch.float64)
    compare(sampled("bicubic", "reflection", True), a, g, witness="interpreter")


def test_an_input_of_one_element() -> None:
    for aligned in (False, True):
        compare(
            sampled("bilinear", "reflection", aligned), random(1, 1, 1, 3), positions(1, 2, 2, 2), witness="interpreter"
        )


def test_positions_that_are_no_numbers_read_nothing_outside() -> None:
    g = torch.full((1, 1, 3, 2), torch.nan)
    g[0, 0, 1] = torch.inf
    g[0, 0, 2] = -torch.inf
    compare(sampled("bilinear", "zeros", False), random(1, 1, 4, 4, gradient=False), g, witness="interpreter")
