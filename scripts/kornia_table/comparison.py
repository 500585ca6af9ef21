"""Compare functions of kornia, compiled by the backend ``autosched``, with eager PyTorch."""

from __future__ import annotations

import re
import time
from typing import Any

import torch
from torch.utils._pytree import tree_flatten

from autosched.torch.explanation import left_operators, recording
from kornia_table.functions import KorniaFunction


def checked(case: KorniaFunction, shape: tuple[int, ...], strategy: str | None) -> dict[str, Any]:
    """Return the row of a function."""
    torch.manual_seed(0)
    torch._dynamo.reset()
    inputs = case.draw(shape)
    doubles = tuple(t.double() if t.dtype.is_floating_point else t for t in inputs)
    options = {"fallback": "error", "strategy": strategy}
    start = time.perf_counter()
    row: dict[str, Any] = {}
    with recording() as record:
        fast = torch.compile(case.function, backend="autosched", dynamic=False, options=options)
        row["forward"] = compared(
            lambda: fast(*inputs), lambda: case.function(*inputs), lambda: case.function(*doubles)
        )
    forward = list(record)
    row["graphs"] = len(forward)
    row["regions"] = sum(len(regions) for _, regions in forward)
    row["left"] = sorted({left for graph, _ in forward for left in left_operators(graph)})
    if case.differentiable:
        torch._dynamo.reset()
        with recording() as record:
            row["backward"] = compared(
                lambda: gradients(
                    torch.compile(case.function, backend="autosched", dynamic=False, options=options), inputs
                ),
                lambda: gradients(case.function, inputs),
                lambda: gradients(case.function, doubles),
            )
        row["left of backward"] = sorted({left for graph, _ in record for left in left_operators(graph)})
    row["seconds"] = round(time.perf_counter() - start, 1)
    return row


def gradients(function: Any, inputs: tuple[torch.Tensor, ...]) -> list[torch.Tensor]:
    """Return the gradients of all floating-point inputs under random weights of the results."""
    given = [t.detach().clone().requires_grad_(t.dtype.is_floating_point) for t in inputs]
    results = [t for t in tree_flatten(function(*given))[0] if isinstance(t, torch.Tensor) and t.requires_grad]
    generator = torch.Generator().manual_seed(1)
    total = sum((t * torch.rand(t.shape, generator=generator)).sum() for t in results)
    asked = [t for t in given if t.requires_grad]
    return [g for g in torch.autograd.grad(total, asked, allow_unused=True) if g is not None]


def as_exact(found: list[torch.Tensor], expected: list[torch.Tensor], exact: list[torch.Tensor]) -> bool:
    """Whether results are as near to those in float64 as eager's: at most twice as far, in the largest error."""
    for own, eager, true in zip(found, expected, exact, strict=True):
        if own.shape != eager.shape or own.dtype != eager.dtype or not eager.dtype.is_floating_point:
            return False
        errors = [(t.double() - true).abs().max().item() for t in (own, eager)]
        if not errors[0] <= 2 * errors[1]:
            return False
    return True


def compared(ours: Any, theirs: Any, exactly: Any) -> str:
    """Return "right", or what is wrong.

    Args:
        ours: Computes results of the compiled function.
        theirs: Computes those of eager.
        exactly: Computes those of eager in float64.
    """
    try:
        found, _ = tree_flatten(ours())
        expected, _ = tree_flatten(theirs())
        try:
            torch.testing.assert_close(found, expected)
        except AssertionError:
            exact, _ = tree_flatten(exactly())
            if not as_exact(found, expected, exact):
                raise
    except Exception as error:  # any error of a function is its result here
        lines = [line for line in str(error).splitlines() if line.strip()]
        return re.sub(r"\s+", " ", f"{type(error).__name__}: {' '.join(lines[:4])}")[:300]
    return "right"
