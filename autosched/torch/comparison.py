"""Times of a region's code and of PyTorch's kernels for the same call."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import torch

TIMING_SECONDS = 0.5
"""Most seconds of comparing a region with PyTorch's kernels."""
MOST_TURNS = 20


def compared_seconds(
    code: Callable[..., Any], eager: Callable[..., Any], arguments: Sequence[Any], seconds: float = TIMING_SECONDS
) -> tuple[float, float]:
    """Return the least seconds of a call of both, in turns, after one call of each.

    The first calls touch fresh memory and start threads; they count only where no time is left for others.

    Args:
        code: The compiled region.
        eager: PyTorch's kernels.
        arguments: The arguments of a call.
        seconds: Time budget; one turn is always taken.

    Raises:
        Exception: Of the call, such as IndexError.
    """
    end = time.perf_counter() + seconds
    with torch.no_grad():
        least = _turn(code, eager, arguments)
        turns = 0
        turn_seconds = sum(least)
        while turns < MOST_TURNS and time.perf_counter() + turn_seconds < end:
            times = _turn(code, eager, arguments)
            turn_seconds = sum(times)
            least = times if not turns else (min(least[0], times[0]), min(least[1], times[1]))
            turns += 1
    return least


def _turn(code: Callable[..., Any], eager: Callable[..., Any], arguments: Sequence[Any]) -> tuple[float, float]:
    start = time.perf_counter()
    code(*arguments)
    middle = time.perf_counter()
    eager(*arguments)
    return middle - start, time.perf_counter() - middle
