"""Comparison of compiled functions, forward and backward, with eager PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Literal
from unittest import mock

import torch

import autosched.torch
from autosched.runtime.compile.nvrtc import have_nvrtc
from autosched.torch import region_code

Witness = Literal["cpu", "interpreter", "emulator"]
FAST = {"strategy": "roots", "fallback": "error", "reuse": False}


@contextmanager
def _compiled_for(witness: Witness) -> Iterator[None]:
    """Compile regions for a backend: the emulator runs the code of a GPU on tensors of the host, after NVRTC."""
    if witness == "cpu":
        yield
        return
    schedule = region_code.scheduled_pipeline

    def scheduled(translation: Any, shapes: Any, target: str, options: Any) -> Any:
        pipeline = schedule(translation, shapes, "h200" if witness == "emulator" else target, options)
        if witness == "emulator" and have_nvrtc():
            pipeline.compile("cuda")
        return mock.Mock(compile=lambda: pipeline.compile(witness))

    with mock.patch.object(region_code, "scheduled_pipeline", scheduled):
        yield


def compare(function: Callable[..., Any], *arguments: Any, witness: Witness = "cpu", **tolerance: Any) -> Any:
    """Compare results and gradients of a compiled function with those of eager PyTorch.

    Args:
        function: Returns a tensor, or a tuple of them.
        *arguments: Tensors are differentiated where they require it.
        witness: Backend of the pipelines.
        **tolerance: ``rtol`` and ``atol``.

    Returns:
        The explanation's graphs: partitions with their regions.
    """
    torch._dynamo.reset()
    with _compiled_for(witness), autosched.torch.explanation.recording() as record:
        ours = _values_and_gradients(torch.compile(function, backend="autosched", options=FAST), arguments)
    theirs = _values_and_gradients(function, arguments)
    torch.testing.assert_close(ours, theirs, equal_nan=True, **tolerance)
    return record


def _values_and_gradients(function: Callable[..., Any], arguments: Any) -> list[Any]:
    copies = [a.detach().clone().requires_grad_(a.requires_grad) if _is_tensor(a) else a for a in arguments]
    results = function(*copies)
    results = list(results) if isinstance(results, tuple) else [results]
    roots = [r for r in results if r.requires_grad]
    if roots:
        generator = torch.Generator().manual_seed(3)
        torch.autograd.backward(roots, [torch.rand(r.shape, generator=generator).to(r.dtype) for r in roots])
    return [r.detach() for r in results] + [c.grad for c in copies if _is_tensor(c) and c.grad is not None]


def _is_tensor(value: Any) -> bool:
    return isinstance(value, torch.Tensor)


def left_to_torch(record: Any) -> list[str]:
    """Return the operators that no region has, forward and backward."""
    return [name for graph, _ in record for name, _ in autosched.torch.explanation.left_operators(graph)]


def random(*shape: int, dtype: torch.dtype = torch.float32, seed: int = 5, gradient: bool = True) -> torch.Tensor:
    """Return uniform numbers of [0, 1) that are differentiated."""
    numbers = torch.rand(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return numbers.to(dtype).requires_grad_(gradient)
