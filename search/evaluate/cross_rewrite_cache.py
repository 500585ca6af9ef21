"""Kernels that are the same in several ways of computing one pipeline, so that they are costed once for all.

A reduction in pieces changes its own Func and adds others. Most kernels have neither, and what the search of one way
has found out about them holds in the others.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

from autosched.analysis.bound_pipeline import BoundFunc, BoundPipeline, BoundStage
from autosched.analysis.expressions.hash_consing import node_key
from autosched.featurize.sketch.sketch import KernelSketch
from autosched.lang.expr import children, postorder

Known = TypeVar("Known")


class CrossRewriteCache(Generic[Known]):
    """Something known of each structure, one object for all pipelines in which the structure computes the same."""

    def __init__(self) -> None:
        self._numbers: dict[Hashable, int] = {}
        self._known: dict[Hashable, Known] = {}

    def functions(self, bound: BoundPipeline) -> dict[str, int]:
        """Return a number for each Func of a pipeline, equal for those of all pipelines that compute the same."""
        return {
            name: self._numbers.setdefault(_described(bound, func), len(self._numbers))
            for name, func in bound.funcs.items()
        }

    def shared(self, structure: KernelSketch, functions: dict[str, int], own: Known) -> Known:
        """Return what is known of a structure.

        Args:
            structure: The structure.
            functions: Numbers of its pipeline's Funcs, from `functions`.
            own: What is known from now on, if nothing was.
        """
        inside = {s.func for s in structure.stages} | {s.func for s in structure.spots} | structure.inlined
        if not inside <= functions.keys():  # copies of sources are no Funcs of the pipeline
            return own
        in_order = tuple(number for name, number in functions.items() if name in inside)
        return self._known.setdefault((structure, in_order), own)


def _described(bound: BoundPipeline, func: BoundFunc) -> Hashable:
    """Return everything about a Func that features and checks of a kernel with it go by."""
    return (
        func.name, func.dims, func.dtypes, func.region, func.fixed, func.is_output, func.undefined, func.consumers,
        func.boundary, func.within, tuple(_stage(bound, s) for s in func.stages),
    )  # fmt: skip


def _stage(bound: BoundPipeline, stage: BoundStage) -> Hashable:
    numbers: dict[int, int] = {}
    lines: list[Hashable] = []
    for node in postorder((*stage.values, *stage.indices), numbers):
        numbers[id(node)] = len(lines)
        operands = [numbers[id(c)] for c in children(node)]
        lines.append((node_key(node, lambda source: stage.names.get(id(source), source.name)), *operands))
    roots = tuple(numbers[id(e)] for e in (*stage.values, *stage.indices))
    sources = tuple(_layout(bound, name) for name in stage.sources)
    return stage.loops, stage.associative, stage.owns_point, stage.combine, roots, tuple(lines), sources


def _layout(bound: BoundPipeline, source: str) -> Hashable:
    """Return how an array that is read lies in memory."""
    if source in bound.inputs:
        return bound.inputs[source]
    func = bound.funcs[source]
    return source, func.dims, func.dtypes, func.region
