"""Orders of groups of nodes that keep data, random numbers and writes to memory."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping, Sequence

import torch
from torch.fx import Graph, Node

Group = tuple[Node, ...]
"""Nodes that are computed together."""

_WRITES = ("with_effects", "mutation")
"""Parts of the names of higher-order operators that have effects; the others are functions."""


def is_random(node: Node) -> bool:
    """Whether a node draws random numbers."""
    if isinstance(node.target, torch._ops.HigherOrderOperator):
        return "rng" in str(node.target)
    return isinstance(node.target, torch._ops.OpOverload) and torch.Tag.nondeterministic_seeded in node.target.tags


def is_write(node: Node) -> bool:
    """Whether a node writes to the memory of an operand."""
    if isinstance(node.target, torch._ops.HigherOrderOperator):
        return any(part in str(node.target) for part in _WRITES)
    return isinstance(node.target, torch._ops.OpOverload) and node.target._schema.is_mutable


def order_groups(graph: Graph, groups: Sequence[Group]) -> list[Group] | None:
    """Return the nodes of a graph as groups in order; None if there is no order that keeps data and effects.

    Random nodes draw from one stream, so they keep their order. A node that writes to memory comes after all earlier
    nodes, which may read that memory, and before all later ones.

    Args:
        graph: A graph.
        groups: Nodes that are computed together; every other node is a group of its own.
    """
    position = {node: k for k, node in enumerate(graph.nodes)}
    group_of: dict[Node, int] = {node: k for k, group in enumerate(groups) for node in group}
    units: list[Group] = list(groups)
    for node in position:
        if node not in group_of:
            group_of[node] = len(units)
            units.append((node,))
    after: list[set[int]] = [set() for _ in units]
    for before, node in (*_data_edges(position), *_effect_edges(position)):
        if group_of[before] != group_of[node]:
            after[group_of[before]].add(group_of[node])
    waits = [0] * len(units)
    for users in after:
        for user in users:
            waits[user] += 1
    last = [max(position[node] for node in unit) for unit in units]
    ready = [(last[k], k) for k, count in enumerate(waits) if not count]
    heapq.heapify(ready)
    order: list[Group] = []
    while ready:
        _, k = heapq.heappop(ready)
        order.append(units[k])
        for user in after[k]:
            waits[user] -= 1
            if not waits[user]:
                heapq.heappush(ready, (last[user], user))
    return order if len(order) == len(units) else None


def _data_edges(position: Mapping[Node, int]) -> Iterator[tuple[Node, Node]]:
    for node in position:
        for operand in node.all_input_nodes:
            yield operand, node


def _effect_edges(position: Mapping[Node, int]) -> Iterator[tuple[Node, Node]]:
    random: Node | None = None
    write: Node | None = None
    since: list[Node] = []  # nodes after the last write; earlier ones come before it
    for node in position:
        if write is not None:
            yield write, node
        if is_random(node):
            if random is not None:
                yield random, node
            random = node
        if is_write(node):
            yield from ((other, node) for other in since)
            write, since = node, []
        else:
            since.append(node)


def effect_ranks(graph: Graph) -> dict[Node, tuple[int, int]]:
    """Return the number of writes before each node, and the place of the last random node that it depends on.

    Groups of nodes of one rank always have an order: a node that depends on a group comes after the random nodes that
    the group depends on, too.
    """
    ranks: dict[Node, tuple[int, int]] = {}
    writes = 0
    for place, node in enumerate(graph.nodes):
        last = max((ranks[n][1] for n in node.all_input_nodes), default=0)
        ranks[node] = writes, place if is_random(node) else last
        writes += is_write(node)
    return ranks
