"""A pipeline's Funcs and inputs as a graph, with the compute location of each Func."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import networkx as nx

from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.analysis.stage_graph import stage_graph
from autosched.schedule.types import Kernel, Level, Schedule

NodeKind = Literal["input", "kernel", "output", "inlined"]


@dataclass(frozen=True, slots=True)
class NodeBox:
    """Compute location of a Func in a schedule.

    Attributes:
        kernels: Numbers of the kernels that compute it, or that it is inlined into.
        level: Its level in the first of them.
    """

    kernels: tuple[int, ...]
    level: Level


def func_graph(bound: BoundPipeline) -> nx.DiGraph[str]:
    """Return the graph of inputs and Funcs: the stages of a Func as one node."""
    graph: nx.DiGraph[str] = nx.DiGraph()
    stages = stage_graph(bound)
    name = {node: node if isinstance(node, str) else node[0] for node in stages}
    graph.add_nodes_from(name.values())
    graph.add_edges_from((name[a], name[b]) for a, b in stages.edges if name[a] != name[b])
    return graph


def labels(bound: BoundPipeline) -> dict[str, str]:
    """Return the suffix of every node's label: the number of updates after the pure definition."""
    updates = {name: len(func.stages) - 1 for name, func in bound.funcs.items()}
    return dict.fromkeys(bound.inputs, "") | {n: f" +{k}" if k else "" for n, k in updates.items()}


def kinds(bound: BoundPipeline, schedule: Schedule) -> dict[str, NodeKind]:
    """Return the kind of each node: input, output, inlined, or computed by a kernel."""
    levels = schedule.levels
    outputs = set(bound.outputs.values())
    kind_of: dict[str, NodeKind] = dict.fromkeys(bound.inputs, "input")
    for name in bound.funcs:
        kind_of[name] = "output" if name in outputs else "inlined" if levels.get(name) is Level.INLINE else "kernel"
    return kind_of


def places(schedule: Schedule) -> Mapping[str, NodeBox]:
    """Return the compute location of every Func of a schedule; for inlined Funcs, that of their consumers.

    A Func that is computed in one kernel and inlined into others belongs only to the former.
    """
    levels = schedule.levels
    boxes: dict[str, NodeBox] = {}
    for func, level in levels.items():
        computed = tuple(k for k, kernel in enumerate(schedule.kernels) if func in _funcs_at(kernel, level))
        boxes[func] = NodeBox(computed, level)
    return boxes


def _funcs_at(kernel: Kernel, level: Level) -> set[str]:
    if level is Level.INLINE:
        return {i.func for i in kernel.inlined}
    return set(kernel.root_funcs) if level is Level.ROOT else {m.func for m in kernel.fused}
