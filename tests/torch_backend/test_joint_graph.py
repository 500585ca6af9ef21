"""Forward graphs keep no tensor that depends on no input."""

from __future__ import annotations

import torch
from torch.nn import functional as f

from tests.torch_backend.differential import compare, random


def test_indices_of_interpolation_are_computed_in_both_graphs() -> None:
    record = compare(
        lambda a: f.interpolate(a, size=(7, 9), mode="bilinear"),
        random(1, 2, 4, 6),
        witness="interpreter",
        rtol=1e-4,
        atol=1e-5,
    )
    (forward, _), (backward, _) = record
    outputs = next(n for n in forward.graph.graph.nodes if n.op == "output").args[0]
    assert len(outputs) == 1
    assert [n.op for n in backward.graph.graph.nodes].count("placeholder") == 1


def test_sizes_are_no_inputs_of_indices() -> None:
    def function(a: torch.Tensor) -> torch.Tensor:
        return torch.unfold_copy(a, 0, 3, 1).square() * torch.arange(a.shape[0] - 2)[:, None]

    for n in (5, 6, 7):
        compare(function, random(n), witness="interpreter")
