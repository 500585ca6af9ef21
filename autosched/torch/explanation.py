"""What a compiled function leaves to PyTorch, and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import Node

from autosched.plural import counted
from autosched.torch.partition import PartitionedGraph, computes
from autosched.torch.region import Region


@dataclass(frozen=True)
class RegionReport:
    """A region of a graph.

    Attributes:
        name: Its name.
        operators: Its ATen operators, in order.
        notes: Why PyTorch's kernels were in use, for each size of a call.
    """

    name: str
    operators: tuple[str, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True)
class GraphReport:
    """An ATen graph, forward or backward.

    Attributes:
        regions: The regions that became pipelines.
        left: Operators that stay PyTorch's, each with the reason.
    """

    regions: tuple[RegionReport, ...]
    left: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Explanation:
    """Graphs of a function, in the order of their compilation.

    Attributes:
        graphs: Forward and backward graphs.
        breaks: Reasons of graph breaks.
    """

    graphs: tuple[GraphReport, ...]
    breaks: tuple[str, ...]

    def __str__(self) -> str:
        lines = [f"{counted(len(self.graphs), 'graph')}, {counted(len(self.breaks), 'graph break')}"]
        lines += [f"break: {reason}" for reason in self.breaks]
        for k, graph in enumerate(self.graphs):
            lines.append(f"graph {k}:")
            for region in graph.regions:
                lines.append(f"  {region.name}: {', '.join(region.operators)}")
                lines += [f"    by PyTorch: {note}" for note in region.notes]
            lines += [f"  {name} stays PyTorch's: {reason}" for name, reason in graph.left]
        return "\n".join(lines)


Record = list[tuple[PartitionedGraph, tuple[Region, ...]]]
"""Compiled graphs with their regions."""

_record: ContextVar[Record | None] = ContextVar("graphs of an explanation", default=None)


def current_record() -> Record | None:
    """Return the record of the explanation in progress; None if there is none.

    The backend takes it when a graph is compiled: a backward graph may be compiled later, in another thread.
    """
    return _record.get()


@contextmanager
def recording() -> Iterator[Record]:
    """Collect the graphs that are compiled inside the context, with their regions."""
    record: Record = []
    token = _record.set(record)
    try:
        yield record
    finally:
        _record.reset(token)


def explain(
    function: Callable[..., Any], /, *args: Any, options: Mapping[str, Any] | None = None, **kwargs: Any
) -> Explanation:
    """Compile and call a function, and return where each of its operators was computed.

    A backward graph is part of it if an argument requires grad and the result is a tensor: its sum is differentiated.

    Args:
        function: A function or an `torch.nn.Module`.
        *args: Its arguments.
        options: Options of the backend.
        **kwargs: Its keyword arguments.

    Raises:
        InputError: For an unknown option, or a value that does not fit.
    """
    torch._dynamo.reset()
    breaks_before = Counter(_graph_breaks())
    with recording() as record:
        result = torch.compile(function, backend="autosched", options=dict(options or {}))(*args, **kwargs)
        if isinstance(result, torch.Tensor) and result.requires_grad:
            torch.autograd.backward(result.sum())
    breaks = tuple(sorted(Counter(_graph_breaks()) - breaks_before))
    return Explanation(tuple(_report(*graph) for graph in record), breaks)


def _graph_breaks() -> dict[str, int]:
    """Return the number of graph breaks in this process so far, by reason."""
    return {str(reason): count for reason, count in torch._dynamo.utils.counters["graph_break"].items()}


def _report(partition: PartitionedGraph, regions: tuple[Region, ...]) -> GraphReport:
    of_regions = tuple(
        RegionReport(region.name, tuple(_operator(n) for n in region.graph.graph.nodes if computes(n)),
                     tuple(dict.fromkeys(region.notes.values())))
        for region in regions
    )  # fmt: skip
    return GraphReport(of_regions, left_operators(partition))


def left_operators(partition: PartitionedGraph) -> tuple[tuple[str, str], ...]:
    """Return the operators that stay PyTorch's, each with the reason."""
    return tuple(
        (_operator(n), partition.reasons.get(n.name, "views and copies alone"))
        for n in partition.graph.graph.nodes
        if n.op == "call_function" and computes(n)
    )


def _operator(node: Node) -> str:
    return str(node.target).removesuffix(".default")
