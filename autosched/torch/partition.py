"""Partition ATen graphs into regions that become pipelines and nodes that stay PyTorch's."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import GraphModule, Node
from torch.fx.node import map_arg
from torch.fx.passes.infra.partitioner import CapabilityBasedPartitioner
from torch.fx.passes.operator_support import OperatorSupportBase

from autosched.torch.lowerings import LOWERINGS
from autosched.torch.tensors import UnsupportedError, element_type

aten = torch.ops.aten

_COPIES = frozenset({
    aten.clone.default, aten.alias.default, aten.detach.default, aten.lift_fresh_copy.default, aten.full.default,
    aten.full_like.default, aten.scalar_tensor.default, aten.arange.start_step, aten._to_copy.default,
    aten.view.default, aten._unsafe_view.default, aten.reshape.default, torch.ops.prims.iota.default,
})  # fmt: skip
"""Operators that compute nothing: a region of these and views alone stays PyTorch's."""


@dataclass(frozen=True)
class PartitionedGraph:
    """A graph whose regions are submodules.

    Attributes:
        graph: The graph.
        regions: Names of the submodules.
        reasons: Why a node stays PyTorch's, by its name.
    """

    graph: GraphModule
    regions: tuple[str, ...]
    reasons: Mapping[str, str]


def partition_graph(graph: GraphModule) -> PartitionedGraph:
    """Make a submodule of each largest set of nodes that become one pipeline.

    Args:
        graph: A functional ATen graph whose nodes have their fake results in ``meta["val"]``. It is changed.
    """
    support = _Support()
    partitioner = CapabilityBasedPartitioner(graph, support, allows_single_node_partition=True)
    found = [p for p in partitioner.propose_partitions() if any(computes(n) for n in p.nodes)]
    fused = partitioner.fuse_partitions(found, prefix="region")
    names = tuple(n.target for n in fused.graph.nodes if n.op == "call_module" and str(n.target).startswith("region"))
    return PartitionedGraph(fused, tuple(map(str, names)), support.reasons)


def computes(node: Node) -> bool:
    """Whether a node does more than make a view, a copy or a constant."""
    if node.op != "call_function" or not isinstance(node.target, torch._ops.OpOverload):
        return False
    return node.target not in _COPIES and not node.target.is_view


class _Support(OperatorSupportBase):
    def __init__(self) -> None:
        self.reasons: dict[str, str] = {}

    def is_node_supported(self, submodules: Mapping[str, torch.nn.Module], node: Node) -> bool:
        if node.op != "call_function":
            return False
        reason = unsupported_reason(node)
        if reason is not None:
            self.reasons[node.name] = reason
        return reason is None


def unsupported_reason(node: Node) -> str | None:
    """Return why a node of an ATen graph has no translation; None if it has one."""
    if node.target is operator.getitem:
        of = node.args[0]
        return unsupported_reason(of) if isinstance(of, Node) else "an element of a container"
    if not isinstance(node.target, torch._ops.OpOverload):
        return "arithmetic of sizes"
    entry = LOWERINGS.get(node.target)
    if entry is None:
        return f"{node.target} has no translation"
    args, kwargs = map_arg((node.args, node.kwargs), lambda n: n.meta.get("val"))
    try:
        for tensor in _tensors((args, kwargs, node.meta.get("val"))):
            element_type(tensor.dtype)
            if tensor.device.type not in ("cpu", "cuda"):
                return f"a tensor on {tensor.device}"
            if tensor.layout is not torch.strided:
                return f"a tensor of layout {tensor.layout}"
            if tensor.ndim > 8:
                return "a tensor of more than 8 dimensions"
    except UnsupportedError as error:
        return str(error)
    return entry.unsupported(*args, **kwargs) if entry.unsupported is not None else None


def _tensors(value: Any) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, tuple | list):
        return [t for v in value for t in _tensors(v)]
    return []
