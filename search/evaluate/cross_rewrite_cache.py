"""Cache of values by kernel, shared between the rewrites of one pipeline.

An rfactor changes the Func of the reduction and adds a few more. Most kernels contain none of these, so their verdicts
hold in every rewrite.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

from autosched.analysis.bound_pipeline import BoundFunc, BoundPipeline, BoundStage
from autosched.analysis.expressions.hash_consing import node_key
from autosched.featurize.sketch.sketch import KernelSketch
from autosched.lang.expr import children, postorder

Value = TypeVar("Value")


class CrossRewriteCache(Generic[Value]):
    """Maps each kernel to one object, shared by all pipelines in which the kernel computes the same."""

    def __init__(self) -> None:
        self._func_ids: dict[Hashable, int] = {}
        self._values: dict[Hashable, Value] = {}

    def func_ids(self, bound: BoundPipeline, *, consumers: bool = True) -> dict[str, int]:
        """Return the id of each Func of a pipeline; Funcs of two pipelines that compute the same have equal ids.

        Args:
            bound: The pipeline.
            consumers: Whether Funcs with other consumers have other ids.
        """
        return {
            name: self._func_ids.setdefault((_func_key(bound, func), consumers and func.consumers), len(self._func_ids))
            for name, func in bound.funcs.items()
        }

    def shared(self, sketch: KernelSketch, func_ids: dict[str, int], default: Value) -> Value:
        """Return the cached value of a kernel.

        Args:
            sketch: The kernel.
            func_ids: Ids of its pipeline's Funcs, from `func_ids`.
            default: Value to cache if there is none.
        """
        inside = {s.func for s in sketch.stages} | {s.func for s in sketch.locations} | sketch.inlined
        if not inside <= func_ids.keys():  # cache reads have no ids
            return default
        in_order = tuple(number for name, number in func_ids.items() if name in inside)
        return self._values.setdefault((sketch, in_order), default)


def _func_key(bound: BoundPipeline, func: BoundFunc) -> Hashable:
    """Return everything about a Func but its consumers that features and checks of its kernels depend on."""
    return (
        func.name, func.dims, func.dtypes, func.region, func.fixed, func.is_output, func.undefined,
        func.boundary, func.within, tuple(_stage_key(bound, s) for s in func.stages),
    )  # fmt: skip


def _stage_key(bound: BoundPipeline, stage: BoundStage) -> Hashable:
    """Return everything about a stage that features and checks depend on; expressions are numbered in postorder."""
    numbers: dict[int, int] = {}
    lines: list[Hashable] = []
    for node in postorder((*stage.values, *stage.indices), numbers):
        numbers[id(node)] = len(lines)
        operands = [numbers[id(c)] for c in children(node)]
        lines.append((node_key(node, lambda source: stage.names.get(id(source), source.name)), *operands))
    roots = tuple(numbers[id(e)] for e in (*stage.values, *stage.indices))
    sources = tuple(_layout_key(bound, name) for name in stage.sources)
    return stage.loops, stage.associative, stage.owns_point, stage.combine, roots, tuple(lines), sources


def _layout_key(bound: BoundPipeline, source: str) -> Hashable:
    """Return the memory layout of a source."""
    if source in bound.inputs:
        return bound.inputs[source]
    func = bound.funcs.get(source)
    if func is None:  # no point of it is read
        return (source,)
    return source, func.dims, func.dtypes, func.region
