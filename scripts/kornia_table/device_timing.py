"""Time functions of kornia on a GPU: by events over queued calls, and by replayed graphs."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch
from torch.utils._pytree import tree_flatten

from kornia_table.functions import Inputs, KorniaFunction
from kornia_table.timing import compiled_sides

Function = Callable[..., Any]
Call = Callable[[], object]

GRAPH = " graph"
"""Ending of the name of a side whose calls are replayed as a CUDA graph."""
CALLS = 20
"""Calls between two events: the queue hides the time of launches as far as the GPU is the slower one."""
MOST_TURNS = 50
RTOL, ATOL = 1e-3, 1e-4


class DeviceClock(Protocol):
    """Times calls on a device."""

    def seconds(self, call: Call, calls: int) -> float:
        """Return the mean seconds of one call over several."""

    def replay(self, function: Function, inputs: Inputs) -> Call:
        """Return a call that replays a function's kernels without launching them one by one."""


@dataclass
class EventDeviceClock:
    """Events and graphs of the current GPU."""

    _events: tuple[Any, Any] = field(init=False)

    def __post_init__(self) -> None:
        self._events = tuple(torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[assignment]

    def seconds(self, call: Call, calls: int) -> float:
        """Return the time of one call; see `DeviceClock.seconds`."""
        start, end = self._events
        start.record()
        for _ in range(calls):
            call()
        end.record()
        end.synchronize()
        return float(start.elapsed_time(end)) * 1e-3 / calls

    def replay(self, function: Function, inputs: Inputs) -> Call:
        """Return the replay of a captured call; see `DeviceClock.replay`."""
        graph, stream = torch.cuda.CUDAGraph(), torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(3):
                function(*inputs)
        torch.cuda.current_stream().wait_stream(stream)
        with torch.cuda.graph(graph):
            function(*inputs)
        return graph.replay


def timed_on_device(
    case: KorniaFunction, shape: tuple[int, ...], seconds: float, inductor: bool, clock: DeviceClock
) -> dict[str, Any]:
    """Return the least seconds of each side, of its first call, and how a result differs from eager's.

    All sides run in turns. Tensors are made on PyTorch's default device. A side whose calls cannot be captured has no
    time as a graph; one that fails has a message ``error SIDE`` and no times.

    Args:
        case: The function.
        shape: Shape of its pictures.
        seconds: Time of the turns of calls, and of those of graphs.
        inductor: Whether inductor is one of the sides.
        clock: The clock.
    """
    torch.manual_seed(0)
    torch._dynamo.reset()
    inputs = case.draw(shape)
    row: dict[str, Any] = {}
    with torch.no_grad():
        calls: dict[str, Call] = {}
        expected = (case.timed or case.function)(*inputs)
        sides = compiled_sides(case, inductor)
        for side, function in sides.items():
            started = time.perf_counter()
            try:
                got = function(*inputs)
                clock.seconds(lambda: None, 1)  # waits for the device
            except Exception as error:  # any error of a compiler is a row of the table
                row[f"error {side}"] = _text(error)
                continue
            row[f"first {side}"] = time.perf_counter() - started
            row[f"right {side}"] = agree(got, expected)
            calls[side] = _call_of(function, inputs)
        row |= _least(calls, seconds, clock)
        replays: dict[str, Call] = {}
        for side in calls:  # after all calls are timed: a failed capture may disturb what follows
            try:
                replays[side + GRAPH] = clock.replay(sides[side], inputs)
            except Exception as error:
                row[f"error {side}{GRAPH}"] = _text(error)
        row |= _least(replays, seconds, clock)
    return row


def _text(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"[:500]


def agree(got: Any, expected: Any) -> bool:
    """Return whether all tensors of two results are equal up to rounding."""
    pairs = zip(tree_flatten(got)[0], tree_flatten(expected)[0], strict=True)
    return all(
        torch.allclose(a.double(), b.double(), RTOL, ATOL, equal_nan=True)
        for a, b in pairs
        if isinstance(a, torch.Tensor)
    )


def _call_of(function: Function, inputs: Inputs) -> Call:
    return lambda: function(*inputs)


def _least(calls: Mapping[str, Call], seconds: float, clock: DeviceClock) -> dict[str, float]:
    least = dict.fromkeys(calls, math.inf)
    end = time.perf_counter() + seconds
    turns = 0
    while calls and (turns < 3 or (time.perf_counter() < end and turns < MOST_TURNS)):
        for side, call in calls.items():
            least[side] = min(least[side], clock.seconds(call, CALLS))
        turns += 1
    return least
