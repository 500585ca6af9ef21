"""Reductions of a few terms, such as those over the channels of an image, are expressions without loops."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx

from autosched.torch.decompositions import decompositions
from autosched.torch.translation import Translation, translate
from tests.torch_backend.differential import Witness, compare, random

Function = Callable[[torch.Tensor], Any]
ANY_TYPE: dict[str, Function] = {
    "amax": lambda a: a.amax(1),
    "amin of two dimensions": lambda a: a.amin((0, 1), keepdim=True),
    "argmax": lambda a: a.argmax(1),
    "argmin": lambda a: a.argmin(0, keepdim=True),
    "max with places": lambda a: tuple(a.max(1)),
    "min with places": lambda a: tuple(a.min(-2, keepdim=True)),
    "sum": lambda a: a.sum(1),
    "prod": lambda a: a.prod(1),
    "any": lambda a: a.any(1),
    "all": lambda a: a.all(0),
}
OF_FLOATS: dict[str, Function] = {
    "mean": lambda a: a.mean((0, 1)),
    "variance": lambda a: a.var(1),
    "norm": lambda a: torch.linalg.vector_norm(a, dim=1),
    "softmax": lambda a: a.softmax(1),
    "logsumexp": lambda a: a.logsumexp(1),
}


def drawn(dtype: torch.dtype) -> torch.Tensor:
    """Return numbers with equal ones and, of floating-point ones, zeros of both signs, infinities and NaN."""
    a = torch.randint(0, 4, (2, 3, 37), generator=torch.Generator().manual_seed(1)).to(dtype)
    if dtype.is_floating_point:
        a = torch.where(a == 3, -a, a)
        for k, special in enumerate((torch.nan, torch.inf, -torch.inf, -0.0)):
            a.view(-1)[torch.arange(k, a.numel(), 11 + 2 * k)] = special
    return a


@pytest.mark.parametrize("witness", ["interpreter", "cpu", "emulator"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int32, torch.uint8], ids=str)
def test_reductions_of_any_type(dtype: torch.dtype, witness: Witness) -> None:
    a = drawn(dtype)

    def together(a: torch.Tensor) -> tuple[torch.Tensor, ...]:
        results = [function(a) for function in ANY_TYPE.values()]
        return tuple(r for result in results for r in (result if isinstance(result, tuple) else (result,)))

    compare(together, a, witness=witness)


@pytest.mark.parametrize("name", OF_FLOATS)
def test_gradients(name: str) -> None:
    compare(OF_FLOATS[name], random(2, 3, 37))


@pytest.mark.parametrize("dtype", [torch.float16, torch.float64], ids=str)
def test_extremes_with_gradients(dtype: torch.dtype) -> None:
    compare(lambda a: (a.amax(1), *a.max(0)), random(2, 3, 5, dtype=dtype))


def translated(function: Function, *shape: int) -> Translation:
    a = torch.rand(shape)
    return translate(make_fx(function, decompositions())(a), (a,))


@pytest.mark.parametrize(("channels", "is_expression"), [(3, True), (8, True), (9, False)])
@pytest.mark.parametrize("name", ["amax", "max with places", "sum", "any"])
def test_loops_begin_at_nine_terms(name: str, channels: int, is_expression: bool) -> None:
    pipeline = translated(ANY_TYPE[name], 2, channels, 5).pipeline
    assert pipeline is not None
    assert all(len(f.definitions) == 1 for f in pipeline.funcs) == is_expression


def test_nested_reductions_stay_small() -> None:
    def nested(a: torch.Tensor) -> torch.Tensor:
        for _ in range(6):
            a = (a * 2).sum(0)
        return a

    pipeline = translated(nested, *[4] * 6, 3).pipeline
    assert pipeline is not None
    assert any(len(f.definitions) > 1 for f in pipeline.funcs)
    compare(nested, random(*[4] * 6, 3, gradient=False))


def test_stacked_tensors_keep_their_dimension() -> None:
    def swapped(a: torch.Tensor) -> torch.Tensor:
        return torch.stack([a[:, 2], a[:, 1] * 2, a[:, 0]], 1)

    pipeline = translated(swapped, 2, 3, 4, 5).pipeline
    assert pipeline is not None
    assert len(pipeline.func("out0").dims) == 4
    for axis in range(-4, 4):
        compare(lambda a, axis=axis: torch.stack([a.sin(), a + 1], axis), random(2, 3, 4))
