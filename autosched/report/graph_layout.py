"""Layered drawing of acyclic graphs (Sugiyama): each node is in a row below its predecessors.

The steps: assign layers with short edges; insert a bend wherever an edge crosses a layer; order each layer by
barycenters, keeping the order with the fewest crossings; align neighbours vertically without overlaps.
"""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

import networkx as nx

ORDER_SWEEPS = 12
POSITION_SWEEPS = 24
BEND_WIDTH = 0.0
BEND_WEIGHT = 4.0
"""Weight of aligning a bend with its neighbour, relative to a node, which straightens long edges."""

Node = Hashable
Layers = list[list[Node]]


@dataclass(frozen=True)
class Bend:
    """Where the edge from ``start`` to ``end`` crosses a layer."""

    start: Node
    end: Node
    layer: int


@dataclass(frozen=True)
class GraphLayout:
    """Positions of nodes and points of edges as (x, layer), with layer 0 on top and x from 0 to ``width``."""

    positions: Mapping[Node, tuple[float, int]]
    routes: Mapping[tuple[Node, Node], Sequence[tuple[float, int]]]
    width: float
    layers: int


def layered_layout(graph: nx.DiGraph[Node], widths: Mapping[Node, float], gap: float) -> GraphLayout:
    """Return a drawing of an acyclic graph.

    Args:
        graph: The graph, whose edges point downward.
        widths: Width of each node.
        gap: Space between neighbours in a layer.
    """
    layer_of = assign_layers(graph)
    bent: nx.DiGraph[Node] = nx.DiGraph()
    bent.add_nodes_from(graph)
    chains: dict[tuple[Node, Node], list[Node]] = {}
    for a, b in graph.edges:
        bends: list[Node] = [Bend(a, b, layer) for layer in range(layer_of[a] + 1, layer_of[b])]
        layer_of |= {bend: bend.layer for bend in bends if isinstance(bend, Bend)}
        chains[a, b] = [a, *bends, b]
        nx.add_path(bent, chains[a, b])
    layers = ordered(bent, layer_of)
    x = positions(bent, layers, {n: widths.get(n, BEND_WIDTH) for n in bent}, gap)
    half = {n: widths.get(n, BEND_WIDTH) / 2 for n in bent}
    left = min((x[n] - half[n] for n in bent), default=0.0)
    return GraphLayout(
        {n: (x[n] - left, layer_of[n]) for n in graph},
        {edge: [(x[n] - left, layer_of[n]) for n in chain] for edge, chain in chains.items()},
        max((x[n] + half[n] for n in bent), default=0.0) - left,
        len(layers),
    )


def assign_layers(graph: nx.DiGraph[Node]) -> dict[Node, int]:
    """Return each node's layer, from 0: edges point downward, with the least total length.

    The total length of the edges is a linear program whose dual is a minimum-cost flow. Edges with a positive flow
    connect adjacent layers; the layers are the distances under these constraints.
    """
    network: nx.DiGraph[Node] = nx.DiGraph()
    network.add_nodes_from((n, {"demand": graph.in_degree(n) - graph.out_degree(n)}) for n in graph)
    network.add_edges_from(graph.edges, weight=-1)
    flow = nx.min_cost_flow(network) if graph.edges else {}
    top = object()
    above: nx.DiGraph[Node] = nx.DiGraph()  # edge u -> v of weight w: v is at most w below u
    above.add_weighted_edges_from((top, n, 0) for n in graph)
    above.add_weighted_edges_from((b, a, -1) for a, b in graph.edges)
    above.add_weighted_edges_from((a, b, 1) for a, ends in flow.items() for b, amount in ends.items() if amount > 0)
    depth = nx.single_source_bellman_ford_path_length(above, top)
    first = min(depth.values(), default=0)
    return {n: depth[n] - first for n in graph}


def ordered(graph: nx.DiGraph[Node], layer_of: Mapping[Node, int]) -> Layers:
    """Return the nodes of each layer in an order with few crossings; edges connect adjacent layers."""
    layers: Layers = [[] for _ in range(max(layer_of.values(), default=-1) + 1)]
    undirected = graph.to_undirected()  # a copy: neighbours of a view are in the order of a set
    for n in nx.dfs_preorder_nodes(undirected) if nx.is_weakly_connected(graph) else graph:
        layers[layer_of[n]].append(n)
    best, fewest = [list(row) for row in layers], crossings(graph, layers)
    for sweep in range(ORDER_SWEEPS):
        down = sweep % 2 == 0
        for k in range(1, len(layers)) if down else reversed(range(len(layers) - 1)):
            fixed = {n: i for i, n in enumerate(layers[k - 1 if down else k + 1])}
            position = {n: i for i, n in enumerate(layers[k])}
            neighbours = graph.predecessors if down else graph.successors
            centre = {n: _mean([fixed[m] for m in neighbours(n)], position[n]) for n in layers[k]}
            layers[k].sort(key=centre.__getitem__)
        count = crossings(graph, layers)
        if count < fewest:
            best, fewest = [list(row) for row in layers], count
    return best


def crossings(graph: nx.DiGraph[Node], layers: Layers) -> int:
    """Return the number of crossing pairs of edges."""
    total = 0
    for upper, lower in itertools.pairwise(layers):
        at = {n: i for i, n in enumerate(lower)}
        ends = [e for n in upper for e in sorted(at[s] for s in graph.successors(n))]
        total += sum(a > b for i, a in enumerate(ends) for b in ends[i + 1 :])
    return total


def positions(graph: nx.DiGraph[Node], layers: Layers, widths: Mapping[Node, float], gap: float) -> dict[Node, float]:
    """Return the centre of each node: near the neighbours' centres, in the layer's order, without overlaps."""
    x: dict[Node, float] = {}
    for row in layers:
        right = 0.0
        for n in row:
            x[n] = right + widths[n] / 2
            right += widths[n] + gap
    for sweep in range(POSITION_SWEEPS):
        for row in layers if sweep % 2 == 0 else reversed(layers):
            wanted = [_mean([x[m] for m in (*graph.predecessors(n), *graph.successors(n))], x[n]) for n in row]
            distances = [(widths[a] + widths[b]) / 2 + gap for a, b in itertools.pairwise(row)]
            weights = [BEND_WEIGHT if isinstance(n, Bend) else 1.0 for n in row]
            x |= zip(row, separated(wanted, distances, weights), strict=True)
    return x


def separated(wanted: Sequence[float], apart: Sequence[float], weights: Sequence[float]) -> list[float]:
    """Return the points nearest to the wanted ones, in weighted least squares, that keep order and distances.

    Pool adjacent violators: with the distances subtracted, the points must not decrease; decreasing points are
    replaced by their mean.
    """
    offsets = [0.0]
    for distance in apart:
        offsets.append(offsets[-1] + distance)
    blocks: list[tuple[float, float, int]] = []  # mean, weight, points
    for target, offset, weight in zip(wanted, offsets, weights, strict=False):
        block = (target - offset, weight, 1)
        while blocks and blocks[-1][0] > block[0]:
            mean, mass, count = blocks.pop()
            total = mass + block[1]
            block = ((mean * mass + block[0] * block[1]) / total, total, count + block[2])
        blocks.append(block)
    means = [mean for mean, _, count in blocks for _ in range(count)]
    return [mean + offset for mean, offset in zip(means, offsets, strict=False)]


def _mean(values: Sequence[float], default: float) -> float:
    return sum(values) / len(values) if values else default
