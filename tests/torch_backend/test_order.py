"""Order of random numbers and of writes to memory among regions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.fx import Graph, GraphModule, Node

from autosched.torch.node_order import effect_ranks, order_groups
from autosched.torch.partition import partition_graph

aten = torch.ops.aten


def graph_of(function: Callable[..., Any], *names: str) -> GraphModule:
    """Return a graph that a function builds from placeholders of four float32 elements."""
    graph = Graph()
    nodes = [graph.placeholder(name) for name in names]
    graph.output(function(graph, *nodes))
    fake = torch._subclasses.FakeTensorMode()
    with fake:
        for node in graph.nodes:
            if node.op != "output":
                node.meta["val"] = torch.empty(4)
    return GraphModule(torch.nn.Module(), graph)


def names_of(graph: GraphModule) -> list[str]:
    return [n.name for n in graph.graph.nodes if n.op in ("call_function", "call_module")]


def test_a_write_comes_after_earlier_reads() -> None:
    def build(g: Graph, x: Node) -> Any:
        late = g.call_function(aten.mul.Tensor, (g.call_function(aten.erfinv.default, (x,)), x))
        early = g.call_function(aten.add.Tensor, (x, 1))
        return late, g.call_function(aten.copy_.default, (x, early))

    partition = partition_graph(graph_of(build, "x"))
    x = torch.tensor([0.1, 0.2, 0.3, 0.4])
    want = torch.erfinv(x) * x
    torch.testing.assert_close(partition.graph(x)[0], want)
    assert names_of(partition.graph)[-1] == "copy__default"


def test_nodes_stay_on_their_side_of_each_write() -> None:
    def build(g: Graph, x: Node, y: Node) -> Any:
        results = []
        for k in range(3):
            results.append(g.call_function(aten.mul.Tensor, (x, k + 2)))
            g.call_function(aten.copy_.default, (x, y))
            g.call_function(aten.copy_.default, (y, results[-1]))
        return tuple(results)

    module = graph_of(build, "x", "y")
    x, y = torch.rand(4), torch.rand(4)
    expected = module(x.clone(), y.clone())
    partition = partition_graph(module)
    assert len(partition.regions) == 3  # one region of all three products has no place between the writes
    torch.testing.assert_close(partition.graph(x, y), expected)


def test_random_nodes_keep_their_order() -> None:
    """The second random node could come first by its data, as both operands of the region are then complete."""

    def build(g: Graph, x: Node) -> Any:
        first = g.call_function(aten.rand_like.default, (g.call_function(aten.mul.Tensor, (x, 2)),))
        doubled = g.call_function(aten.mul.Tensor, (x, 3))
        second = g.call_function(aten.rand_like.default, (doubled,))
        return g.call_function(aten.add.Tensor, (first, doubled)), second

    module = graph_of(build, "x")
    mul, mul_1, add = (n for n in module.graph.nodes if n.target in (aten.mul.Tensor, aten.add.Tensor))
    assert order_groups(module.graph, [(mul, mul_1)]) is not None
    # add waits for the first random node, the second one for add's group
    order = order_groups(module.graph, [(mul_1, add)])
    assert order is not None
    names = [n.name for group in order for n in group]
    assert names.index("rand_like_default") < names.index("rand_like_default_1")


def test_groups_without_an_order_are_divided() -> None:
    """The region needs the second random node, and the first random node needs the region."""

    def build(g: Graph, x: Node, y: Node) -> Any:
        of_first = g.call_function(aten.mul.Tensor, (x, 2))
        first = g.call_function(aten.rand_like.default, (of_first,))
        second = g.call_function(aten.rand_like.default, (y,))
        return first, g.call_function(aten.add.Tensor, (second, 1))

    module = graph_of(build, "x", "y")
    mul, add = (n for n in module.graph.nodes if n.target in (aten.mul.Tensor, aten.add.Tensor))
    assert order_groups(module.graph, [(mul, add)]) is None
    ranks = effect_ranks(module.graph)
    assert ranks[mul] != ranks[add]
    partition = partition_graph(module)
    assert len(partition.regions) == 2
    x, y = torch.rand(4), torch.rand(4)
    torch.manual_seed(5)
    first, added = partition.graph(x, y)
    torch.manual_seed(5)
    torch.testing.assert_close(first, torch.rand(4))
    torch.testing.assert_close(added, torch.rand(4) + 1)


RANDOM: dict[str, Callable[[torch.Tensor], Any]] = {
    "uniform": lambda x: x * 2 + torch.rand(5) + torch.rand_like(x) * torch.randn_like(x),
    "two dropouts": lambda x: torch.nn.functional.dropout(torch.nn.functional.dropout(x * 2, 0.4) + 1, 0.2),
    "beside a sort": lambda x: (torch.rand_like(x * 2) + torch.sort(x)[0]) * torch.rand(5) + torch.randn(5),
    "bernoulli": lambda x: torch.bernoulli(x * 0.5) + torch.bernoulli(x, 0.3),
    "normal": lambda x: torch.normal(x, 1.0) + torch.empty(5).normal_(1, 2),
    "integers": lambda x: torch.randint(0, 9, (5,)) * x + torch.randperm(5),
}


@pytest.mark.parametrize("name", RANDOM)
def test_random_streams_are_those_of_eager(name: str) -> None:
    x = torch.rand(5, generator=torch.Generator().manual_seed(3))
    torch.manual_seed(1)
    expected = RANDOM[name](x)
    torch._dynamo.reset()
    f = torch.compile(RANDOM[name], backend="autosched", options={"strategy": "roots", "fallback": "error"})
    torch.manual_seed(1)
    torch.testing.assert_close(f(x), expected)
