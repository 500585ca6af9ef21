"""Grid sampling and its gradients against eager PyTorch."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch
from torch.nn import functional as f

from tests.torch_backend.compiled import compiled
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


SPECIAL = (torch.nan, torch.inf, -torch.inf, 1e30, -1e30, 2.2e10, -3e9, 0.3, -1.0, 3.7)


def special_positions(axes: int) -> torch.Tensor:
    """Return all combinations of positions that are no numbers, infinite, huge, or ordinary."""
    return torch.cartesian_prod(*[torch.tensor(SPECIAL)] * axes).reshape(1, *[len(SPECIAL)] * axes, axes)


def all_samples(a: torch.Tensor, g: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Return the samples of each interpolation and padding, with both meanings of -1 and 1."""
    modes = MODES if a.ndim == 4 else MODES[:2]
    return tuple(sampled(*case)(a, g) for case in itertools.product(modes, PADDINGS, (False, True)))


@pytest.mark.parametrize("witness", ["cpu", "interpreter"])
@pytest.mark.parametrize("extents", [(5, 7), (5, 7, 3)], ids=["images", "volumes"])
def test_special_positions_in_a_function_of_many_outputs(extents: tuple[int, ...], witness: Any) -> None:
    a = random(1, 2, *extents, gradient=False)
    compare(all_samples, a, special_positions(len(extents)), witness=witness)


def test_special_positions_on_the_emulator() -> None:
    g = special_positions(2)[:, :, ::3].clone()
    compare(sampled("bilinear", "reflection", False), random(1, 1, 5, 7, gradient=False), g, witness="emulator")


@pytest.mark.parametrize("aligned", [False, True])
@pytest.mark.parametrize(
    ("extents", "mode", "padding"),
    [((5, 7), *case) for case in itertools.product(MODES, PADDINGS) if case[0] != "bilinear" or case[1] == "zeros"]
    + [((5, 7, 3), *case) for case in itertools.product(MODES[:2], PADDINGS)],
)
def test_gradients_at_special_positions(extents: tuple[int, ...], mode: str, padding: str, aligned: bool) -> None:
    g = special_positions(len(extents)).requires_grad_()
    compare(sampled(mode, padding, aligned), random(1, 2, *extents), g, rtol=1e-4, atol=2e-5)


@pytest.mark.parametrize("padding", ["border", "reflection"])
def test_positions_that_are_no_numbers_have_no_linear_gradient(padding: str) -> None:
    """PyTorch's kernel for images on CPUs writes to any place there."""
    a, g = random(1, 1, 5, 7), torch.full((1, 2, 3, 2), torch.nan).requires_grad_()
    compiled(sampled("bilinear", padding, False))(a, g).sum().backward()
    assert not a.grad.any()
    assert not g.grad.any()
