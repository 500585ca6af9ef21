"""Partition joint graphs into forward and backward graphs."""

from __future__ import annotations

from typing import Any

import torch
from torch._functorch.partitioners import min_cut_rematerialization_partition
from torch.fx import GraphModule
from torch.utils.checkpoint import CheckpointPolicy


def partition_joint_graph(joint: GraphModule, joint_inputs: Any, **keywords: Any) -> tuple[GraphModule, GraphModule]:
    """Divide a joint graph by minimum cut; tensors that depend on no input are computed in both graphs.

    So backward graphs have their indices as expressions, too, and nothing is kept for them.

    Args:
        joint: The joint graph of AOTAutograd. Its nodes are marked.
        joint_inputs: Its inputs, primals and tangents.
        **keywords: As for PyTorch's min-cut partitioner.
    """
    mark_constants(joint)
    forward, backward = min_cut_rematerialization_partition(joint, joint_inputs, **keywords)
    return forward, backward


def mark_constants(graph: GraphModule) -> None:
    """Mark the nodes of pure operators that depend on no input but sizes for recomputation."""
    constant: set[torch.fx.Node] = set()
    for node in graph.graph.nodes:
        if isinstance(node.meta.get("val"), torch.SymInt):
            constant.add(node)
            continue
        target = node.target
        if node.op != "call_function" or not isinstance(target, torch._ops.OpOverload):
            continue
        if target._schema.is_mutable or torch.Tag.nondeterministic_seeded in target.tags:
            continue
        if all(n in constant for n in node.all_input_nodes):
            constant.add(node)
            node.meta["recompute"] = CheckpointPolicy.MUST_RECOMPUTE
            node.meta.setdefault("ac_graph_id", 0)
