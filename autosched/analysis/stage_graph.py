"""The stage graph of a bound pipeline as a networkx graph."""

from __future__ import annotations

import networkx as nx

from autosched.analysis.bound_pipeline import BoundPipeline

StageNode = tuple[str, int]


def stage_graph(bound: BoundPipeline) -> nx.DiGraph[StageNode | str]:
    """Return the graph of stages ``(func, number)`` and inputs (by name).

    An edge runs from the last stage of a producer, or an input, to each stage that reads it, with the number of
    distinct loads as ``loads``; the stages of one Func form a chain.
    """
    graph: nx.DiGraph[StageNode | str] = nx.DiGraph()
    graph.add_nodes_from(bound.inputs, kind="input")
    for func in bound.funcs.values():
        for stage in func.stages:
            node = (func.name, stage.number)
            graph.add_node(node, kind="stage", extents=func.extents)
            if stage.is_update:
                graph.add_edge((func.name, stage.number - 1), node, loads=stage.load_counts.get(func.name, 0))
            for source, loads in stage.load_counts.items():
                if source in bound.inputs:
                    graph.add_edge(source, node, loads=loads)
                elif source != func.name and source in bound.funcs:
                    graph.add_edge((source, len(bound.funcs[source].stages) - 1), node, loads=loads)
    return graph
