"""A region of a graph: compiled for the sizes and strides of each call."""

from __future__ import annotations

import threading
import time
import warnings
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.fx import GraphModule

from autosched.errors import AutoschedError
from autosched.torch.options import Options
from autosched.torch.region_code import RegionCode, compile_region
from autosched.torch.tensors import UnsupportedError

TIMING_SECONDS = 0.5
"""Most seconds of comparing a region with PyTorch's kernels."""


class Region(torch.nn.Module):
    """A callable that computes a region by a pipeline, or by PyTorch's kernels where these are faster.

    Args:
        graph: The region's nodes.
        name: Its name in messages.
        options: The backend's options.

    Attributes:
        versions: Code by sizes and strides, the last used one last; a function where PyTorch's kernels are in use.
        notes: Why PyTorch's kernels are in use, by sizes and strides.
    """

    def __init__(self, graph: GraphModule, name: str, options: Options) -> None:
        super().__init__()
        self._graph = (graph,)  # in a tuple, so that it is no submodule
        self.name = name
        self.options = options
        self.versions: OrderedDict[Any, Callable[..., Any]] = OrderedDict()
        self.notes: dict[Any, str] = {}
        self._lock = threading.RLock()

    @property
    def graph(self) -> GraphModule:
        """The region's nodes."""
        return self._graph[0]

    def forward(self, *arguments: Any) -> Any:
        """Compute the region.

        Args:
            *arguments: Tensors and numbers, as the graph's placeholders.

        Returns:
            The graph's results.

        Raises:
            IndexError: If an index is out of range.
        """
        key = tuple((a.shape, a.stride(), a.dtype, a.device) if isinstance(a, torch.Tensor) else a for a in arguments)
        version = self.versions.get(key)
        if version is None:
            with self._lock:
                version = self.versions.get(key) or self._make(key, arguments)
        return version(*arguments)

    def _make(self, key: Any, arguments: Sequence[Any]) -> Callable[..., Any]:
        version = self._compiled(key, arguments)
        self.versions[key] = version
        while len(self.versions) > self.options.versions:
            oldest, _ = self.versions.popitem(last=False)
            self.notes.pop(oldest, None)
        return version

    def _compiled(self, key: Any, arguments: Sequence[Any]) -> Callable[..., Any]:
        try:
            code = compile_region(self.graph, arguments, self.options)
        except (UnsupportedError, AutoschedError) as error:
            if self.options.fallback == "error":
                raise
            self.notes[key] = f"{type(error).__name__}: {error}"
            warnings.warn(f"backend 'autosched' leaves {self.name} to PyTorch: {error}", RuntimeWarning, stacklevel=2)
            return self.graph.forward
        if self.options.fallback != "measure" or any(
            isinstance(a, torch.Tensor) and a.device.type != "cpu" for a in arguments
        ):
            return code
        ours, theirs = compared_seconds(code, self.graph.forward, arguments)
        if theirs < ours:
            self.notes[key] = f"PyTorch's kernels take {theirs * 1e6:.0f} us, ours {ours * 1e6:.0f} us"
            return self.graph.forward
        return code


def compared_seconds(
    code: RegionCode, eager: Callable[..., Any], arguments: Sequence[Any], seconds: float = TIMING_SECONDS
) -> tuple[float, float]:
    """Return the least seconds of a call of both, in turns, after one call of each.

    Args:
        code: The compiled region.
        eager: PyTorch's kernels.
        arguments: The arguments of a call.
        seconds: Time budget; one turn is always taken.
    """
    end = time.perf_counter() + seconds
    with torch.no_grad():
        sides: tuple[Callable[..., Any], ...] = (code, eager)
        least = [float("inf"), float("inf")]
        for turn in range(20):
            for side, function in enumerate(sides):
                start = time.perf_counter()
                function(*arguments)
                taken = time.perf_counter() - start
                if turn or time.perf_counter() > end:
                    least[side] = min(least[side], taken)
            if time.perf_counter() > end and least[1] < float("inf"):
                break
    return least[0], least[1]
