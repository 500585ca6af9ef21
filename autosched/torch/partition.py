"""Partition ATen graphs into regions that become pipelines and nodes that stay PyTorch's."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.fx import Graph, GraphModule, Node
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols
from torch.fx.node import map_arg
from torch.fx.passes.infra.partitioner import CapabilityBasedPartitioner
from torch.fx.passes.operator_support import OperatorSupportBase
from torch.fx.passes.utils.fuser_utils import fuse_by_partitions

from autosched.torch.lowerings import LOWERINGS
from autosched.torch.node_order import Group, effect_ranks, order_groups
from autosched.torch.tensors import UnsupportedError, element_type

aten = torch.ops.aten

_COPIES = frozenset({
    aten.clone.default, aten.alias.default, aten.detach.default, aten.lift_fresh_copy.default, aten.full.default,
    aten.full_like.default, aten.scalar_tensor.default, aten.arange.start_step, aten._to_copy.default,
    aten.view.default, aten._unsafe_view.default, aten.reshape.default, torch.ops.prims.iota.default,
})  # fmt: skip
"""Operators that compute nothing: a region of these and views alone stays PyTorch's."""


_ACCUMULATIONS = frozenset({
    "embedding_dense_backward", "index_add", "index_put", "_index_put_impl", "_unsafe_index_put",
    "_unsafe_masked_index_put_accumulate", "index_reduce",
    "put", "scatter_add", "scatter_reduce", "grid_sampler_2d_backward", "grid_sampler_3d_backward",
    "upsample_bicubic2d_backward", "upsample_bilinear2d_backward", "histc", "bincount",
})  # fmt: skip
"""Operators that add to elements in an order that may differ from run to run."""


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

    Sizes that are symbols stay symbols: a decision takes their values in the example, and adds no guard.

    Args:
        graph: A functional ATen graph whose nodes have their fake results in ``meta["val"]``. It is changed.
    """
    support = _Support()
    with _without_guards(graph.graph):
        partitioner = CapabilityBasedPartitioner(graph, support, allows_single_node_partition=True)
        places = {node: place for place, node in enumerate(graph.graph.nodes)}
        proposed = [sorted(p.nodes, key=places.__getitem__) for p in partitioner.propose_partitions()]
        groups = [_without_last_views(group) for nodes in proposed for group in _split_by_device(nodes)]
    groups = [group for group in groups if any(map(computes, group))]
    order = order_groups(graph.graph, groups)
    if order is None:
        groups = _split_by_rank(graph.graph, groups)
        order = order_groups(graph.graph, groups)
        assert order is not None
    names = {group[0].name: f"{_PREFIX}{k}" for k, group in enumerate(groups)}
    order_names = [names.get(group[0].name, group[0].name) for group in order]
    fused = fuse_by_partitions(graph, [dict.fromkeys(group) for group in groups], prefix=_PREFIX)
    _reorder(fused.graph, order_names)
    return PartitionedGraph(fused, tuple(name for name in order_names if name in names.values()), support.reasons)


_PREFIX = "region"


@contextmanager
def _without_guards(graph: Graph) -> Iterator[None]:
    environments = {
        id(env): env
        for node in graph.nodes
        for tensor in _tensors(node.meta.get("val"))
        if isinstance(tensor, FakeTensor) and (env := tensor.fake_mode.shape_env) is not None
    }
    with ExitStack() as stack:
        for env in environments.values():
            stack.enter_context(env.suppress_guards())
        yield


def _without_last_views(group: Group) -> Group:
    """Return a group without the views that only other nodes read: as results of the group they would be copies.

    ``mul -> t -> sort`` has the group ``mul``. A view of a view that stays in the group stays, too: the strides of that
    result may differ from PyTorch's, where these have gaps.
    """
    members = set(group)
    last: set[Node] = set()
    for node in reversed(group):
        if _is_view(node) and not any(user in members and user not in last for user in node.users):
            last.add(node)
    for node in group:
        source = node.args[0] if node.args else None
        if node in last and isinstance(source, Node) and source in members - last and _is_view(source):
            last.discard(node)
    return tuple(node for node in group if node not in last)


def _split_by_device(nodes: Sequence[Node]) -> list[Group]:
    """Divide nodes in the order of the graph into runs whose results lie on one device.

    Edges go forward in that order, so no run depends on a later one.
    """
    runs: list[list[Node]] = []
    last: torch.device | None = None
    for node in nodes:
        device = next((t.device for t in _tensors(node.meta.get("val"))), last)
        if not runs or device != last:
            runs.append([])
        last = device
        runs[-1].append(node)
    return [tuple(run) for run in runs]


def _is_view(node: Node) -> bool:
    target = node.target
    return isinstance(target, torch._ops.OpOverload) and target.is_view and target is not aten.as_strided.default


def _split_by_rank(graph: Graph, groups: Sequence[Group]) -> list[Group]:
    ranks = effect_ranks(graph)
    split: dict[tuple[int, tuple[int, int]], list[Node]] = {}
    for k, group in enumerate(groups):
        for node in group:
            split.setdefault((k, ranks[node]), []).append(node)
    return [tuple(group) for group in split.values() if any(map(computes, group))]


def _reorder(graph: Graph, names: Sequence[str]) -> None:
    """Put nodes in an order of names; elements of a region's results follow it."""
    nodes = {n.name: n for n in graph.nodes}
    output = graph.output_node()
    for name in names:
        node = nodes[name]
        if node is output:
            continue
        output.prepend(node)
        if node.op == "call_module":
            for element in tuple(node.users):
                if element.target is operator.getitem:
                    output.prepend(element)
    graph.lint()


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
    if isinstance(node.target, torch._ops.HigherOrderOperator):
        return f"the higher-order operator {node.target}"
    if not isinstance(node.target, torch._ops.OpOverload):
        return "arithmetic of sizes"
    entry = LOWERINGS.get(node.target)
    if entry is None:
        return f"{node.target} has no translation"
    if torch.are_deterministic_algorithms_enabled() and node.target._schema.name.split("::")[1] in _ACCUMULATIONS:
        return "torch.use_deterministic_algorithms: PyTorch adds in a fixed order"
    args, kwargs = map_arg((node.args, node.kwargs), lambda n: n.meta.get("val"))
    values = (args, kwargs, node.meta.get("val"))
    if (reason := _reason_of_numbers(values)) is not None:
        return reason
    try:
        for tensor in _tensors(values):
            element_type(tensor.dtype)
            if tensor.device.type not in ("cpu", "cuda"):
                return f"a tensor on {tensor.device}"
            if tensor.layout is not torch.strided:
                return f"a tensor of layout {tensor.layout}"
            if tensor.ndim > 8:
                return "a tensor of more than 8 dimensions"
    except UnsupportedError as error:
        return str(error)
    numbers = [t for t in _tensors((args, kwargs)) if not t.ndim and t.device.type == "cpu"]
    if len({t.device for t in _tensors(values) if not any(t is number for number in numbers)}) > 1:
        return "tensors on several devices"
    return entry.unsupported(*args, **kwargs) if entry.unsupported is not None else None


def _reason_of_numbers(values: Any) -> str | None:
    """Return why numbers have no translation: they would need code of their own at each call."""
    for value in _leaves(values):
        if isinstance(value, torch.SymFloat):
            return "a float of each call"
        if isinstance(value, torch.Tensor | torch.SymInt) and free_unbacked_symbols(value):
            return "a size or number that depends on data"
    return None


def _tensors(value: Any) -> list[torch.Tensor]:
    return [leaf for leaf in _leaves(value) if isinstance(leaf, torch.Tensor)]


def _leaves(value: Any) -> list[Any]:
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, tuple | list):
        return [leaf for v in value for leaf in _leaves(v)]
    return [value]
