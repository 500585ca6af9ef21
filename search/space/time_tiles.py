"""Chains of stages that compute the same, such as sweeps of a smoother, of which time tiles are made."""

from __future__ import annotations

from collections.abc import Hashable

from autosched.analysis.bound_pipeline import BoundFunc, BoundPipeline
from autosched.analysis.expressions.hash_consing import node_key
from autosched.lang.expr import children, postorder


def readers_of(bound: BoundPipeline, name: str) -> tuple[set[str], set[str]]:
    """Return the Funcs that read a Func, directly or through boundary conditions, and these conditions."""
    readers, between = set[str](), set[str]()
    stack = list(bound.funcs[name].consumers)
    while stack:
        reader = stack.pop()
        if is_boundary(bound.funcs[reader]) and reader not in between:
            between.add(reader)
            stack += bound.funcs[reader].consumers
        elif reader not in between:
            readers.add(reader)
    return readers, between


def is_boundary(func: BoundFunc) -> bool:
    """Whether a Func is a boundary condition that readers can inline."""
    return func.boundary is not None and func.is_pure and not func.is_output


def repeated_funcs(bound: BoundPipeline, inlined: frozenset[str]) -> list[str]:
    """Return the Funcs that compute the same as another one from other sources, producers first."""
    by_form: dict[Hashable, list[str]] = {}
    for name, func in bound.funcs.items():
        if name not in inlined and not is_boundary(func) and func.is_pure:
            by_form.setdefault(form_of(func), []).append(name)
    repeated = {name for names in by_form.values() if len(names) > 1 for name in names}
    return [name for name in bound.funcs if name in repeated]


def form_of(func: BoundFunc) -> Hashable:
    """Return what a Func computes, without the names of its sources."""
    stages = []
    for stage in func.stages:
        numbers: dict[int, int] = {}
        nodes: list[Hashable] = []
        for node in postorder((*stage.values, *stage.indices), numbers):
            numbers[id(node)] = len(nodes)
            nodes.append((node_key(node, lambda source: ""), *(numbers[id(c)] for c in children(node))))
        stages.append((stage.loops, tuple(nodes), tuple(numbers[id(e)] for e in (*stage.values, *stage.indices))))
    return func.dtypes, func.region, tuple(stages)
