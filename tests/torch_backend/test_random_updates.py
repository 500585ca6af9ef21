"""Random updates and reads at constant and at computed places, through all three witnesses."""

from __future__ import annotations

import math
import random as numbers
from collections.abc import Callable
from typing import Any

import pytest
import torch

from tests.torch_backend.differential import compare, random

EXTENT = 9
Update = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


def vector(generator: numbers.Random) -> list[int]:
    """Return indices of a dimension of `EXTENT` elements: resampled, sorted, or in any order."""
    count = generator.randint(1, 12)
    kind = generator.choice(["resampled", "sorted", "any"])
    if kind == "resampled":
        scale, offset = generator.choice([0.5, 0.6, 1.0, 1.5, 2.0, 2.7]), generator.uniform(-2, 2)
        return [min(max(math.floor((i + 0.5) * scale + offset), 0), EXTENT - 1) for i in range(count)]
    indices = [generator.randrange(-EXTENT, EXTENT) for _ in range(count)]
    return sorted(i % EXTENT for i in indices) if kind == "sorted" else indices


def update(generator: numbers.Random) -> Update:
    """Return an update of a tensor [EXTENT, EXTENT] by elements of another one."""
    rows, columns = vector(generator), vector(generator)
    kind = generator.choice(["rows", "columns", "both", "windows", "data", "scatter"])
    accumulate = generator.random() < 0.7

    def apply(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        i, j = torch.tensor(rows), torch.tensor(columns)
        if kind == "rows":
            return torch.index_put(a, (i,), b[: len(rows), :EXTENT], accumulate)
        if kind == "columns":
            return torch.index_add(a, 1, torch.tensor([k % EXTENT for k in columns]), b[:EXTENT, : len(columns)])
        if kind == "both":
            return torch.index_put(a, (i[:, None], j), b[: len(rows), : len(columns)], accumulate)
        if kind == "windows":
            window = torch.arange(3)[:, None] * 2 + torch.arange(5)
            return torch.index_put(a, (window,), b[:3, :5, None] * b[0, :EXTENT], accumulate=True)
        places = (b[: len(rows)] * 40).long() % EXTENT
        if kind == "data":
            return torch.index_put(a, (places[:, 0], places[:, 1]), b[: len(rows), 2], accumulate=True)
        return torch.scatter_add(a, 0, places[:, : EXTENT - 1], b[: len(rows), : EXTENT - 1])

    return apply


def program(seed: int, updates: int) -> Update:
    generator = numbers.Random(seed)
    applied = [update(generator) for _ in range(updates)]

    def run(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return torch.stack([apply(a, b) for apply in applied])

    return run


@pytest.mark.parametrize("seed", range(6))
def test_random_updates_in_the_interpreter(seed: int) -> None:
    compare(program(seed, 6), random(EXTENT, EXTENT), random(12, 12, seed=seed), witness="interpreter")


@pytest.mark.parametrize(("seed", "witness"), [(7, "cpu"), (8, "cpu"), (7, "emulator")])
def test_random_updates_in_generated_code(seed: int, witness: Any) -> None:
    compare(program(seed, 6), random(EXTENT, EXTENT), random(12, 12, seed=seed), witness=witness)
