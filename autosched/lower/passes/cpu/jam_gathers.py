"""Jam the iterations of a loop whose lanes gather at the same positions, for the C backend.

    for c < 3: for y < 8: for lane: { i = load at[y, lane]; v = load in[c, i]; store out[c, y, lane] = v }
    ->  for c3 < 1: for y < 8: for lane: { i = load at[y, lane]; v = load in[0, i]; store out[0, y, lane] = v;
                                           v1 = load in[1, i]; store out[1, y, lane] = v1; ... }

Loops in between are interchanged with it. Channels of a resampled image share addresses, conditions and weights.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from autosched.analysis.identifiers import Namer
from autosched.analysis.indices import index as ix
from autosched.lower.ir import For, Let, LetIndex, LoopRole, Op, Stmt, Store, values_of, walk_values
from autosched.lower.ir_queries import names_in_indices, names_used, reads_in, value_key
from autosched.lower.passes.cpu.loop_dependence import carries_dependence
from autosched.lower.passes.cpu.unroll_and_jam import is_straight, jam
from autosched.schedule import cpu_policy


def jam_gathers(loop: For, namer: Namer, bound: Mapping[str, ix.Index]) -> For | None:
    """Return a loop over groups of iterations, with the other loops in it and all iterations of a group in the lanes.

    None unless lanes are straight-line code whose addresses depend on values, such as loaded positions, none of them on
    the loop, and few operations do (`cpu_policy.gathers_share`); or if two iterations may store to the same element.

    Args:
        loop: A loop around a lane loop (a thread loop of axis 0), with loops and bindings in between. Bindings move
            into the lane loop.
        namer: Returns names that are new in the kernel.
        bound: Indices that are bound outside of the loop, by name.
    """
    nest = _perfect_nest(loop)
    if nest is None:
        return None
    between, lanes = nest
    if not is_straight(lanes.body) or not _moves_stores_alone(loop.name, lanes.body):
        return None
    operations = _distinct_operations(lanes.body)
    for factor in cpu_policy.JAM_FACTORS:
        if loop.extent % factor:
            continue
        jammed = jam(loop, lanes, factor, namer)
        if jammed is None:
            return None
        groups, inner = jammed
        if cpu_policy.gathers_share(factor, operations=operations, operations_left=_distinct_operations(inner.body)):
            if carries_dependence(loop, bound):
                return None
            for middle in reversed(between):
                inner = replace(middle, body=(inner,))
            return replace(groups, body=(inner,))
    return None


def _perfect_nest(loop: For) -> tuple[list[For], For] | None:
    """Return the loops between a loop and a lane loop, and the lane loop with all bindings in between.

    None if there are other statements, or if bounds depend on the loop or on a binding.
    """
    between: list[For] = []
    bindings: list[Stmt] = []
    inner = loop
    while inner is loop or inner.role is not LoopRole.THREAD or inner.axis:
        *before, last = inner.body
        if not isinstance(last, For) or not all(isinstance(s, Let | LetIndex) for s in before):
            return None
        bindings += before
        between.append(last)
        inner = last
    bound = {loop.name, *(s.name for s in bindings if isinstance(s, Let | LetIndex))}
    if any(bound & set(ix.loop_vars(e)) for s in between for e in (*s.upper_bounds, *s.lower_bounds)):
        return None
    return between[:-1], replace(inner, body=(*bindings, *inner.body))


def _moves_stores_alone(loop: str, body: Sequence[Stmt]) -> bool:
    """Whether the element of each store depends on a loop, and of the values in indices, which there are, none does."""
    dependent, values, in_indices = {loop}, set[str](), set[str]()
    for s in body:
        indices = [read.index for read in reads_in((s,))]
        if isinstance(s, Let | LetIndex) and names_used((s,)) & dependent:
            dependent.add(s.name)
        if isinstance(s, Let):
            values.add(s.name)
        if isinstance(s, Store | LetIndex):
            indices.append(s.index)
        in_indices |= names_in_indices(indices) & values
        if isinstance(s, Store) and not names_in_indices([s.index]) & dependent:
            return False
    return bool(in_indices) and not in_indices & dependent


def _distinct_operations(body: Sequence[Stmt]) -> int:
    """Return the number of operations of straight-line code that a compiler leaves."""
    return len({value_key(v) for s in body for value in values_of(s) for v in walk_values(value) if isinstance(v, Op)})
