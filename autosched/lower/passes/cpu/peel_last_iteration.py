"""Peel the last iteration of a loop around lane loops that have fewer lanes in it (loop peeling).

The terms of a row that lanes share are seldom a multiple of the lanes. With a bound that depends on the loop around
them, compilers keep partial results in memory and vectorise no whole row of lanes.

Rewrite:
    for r < 25: for lane < min(32, 771 - 32*r): S(r)
    ->  for r < 24: for lane < 32: S(r);  for lane < 3: S(24)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from autosched.analysis.indices import index as ix
from autosched.lower.ir import Body, For, Stmt, walk
from autosched.lower.ir_visitor import map_indices, map_statements


def peel_last_iteration(loop: For) -> tuple[For, Body] | None:
    """Return a loop over all iterations but the last one, without its bounds of lanes, and the last iteration.

    Returns:
        None if the bounds of no lane loop depend on the loop, or if more iterations than the last one have fewer lanes.
    """
    whole = [_whole_iterations(s, bound, loop.name) for s, bound in _bounds_of(loop)]
    if loop.extent < 2 or not whole or any(n is None or n < loop.extent - 1 for n in whole):
        return None
    first = replace(loop, extent=loop.extent - 1, body=map_statements(loop.body, lambda s: _unbounded(s, loop.name)))
    env = {loop.name: loop.extent - 1}

    def at_end(s: Stmt) -> Stmt:
        return map_indices(s, lambda e: ix.substitute(e, env))

    return first, map_statements(loop.body, at_end)


def _bounds_of(loop: For) -> Sequence[tuple[For, ix.Index]]:
    """Return the upper bounds of inner loops that depend on a loop, each with its loop."""
    inner = (s for s in walk(loop.body) if isinstance(s, For))
    return [(s, e) for s in inner for e in s.upper_bounds if loop.name in ix.loop_vars(e)]


def _whole_iterations(inner: For, bound: ix.Index, name: str) -> int | None:
    """Return the number of first iterations with all lanes; None unless the bound falls with the loop alone."""
    terms = ix.terms_of(bound)
    if len(terms) != 1 or not isinstance(terms[0][0], ix.LoopVar) or terms[0][1] >= 0:
        return None
    constant = ix.substitute(bound, {name: 0})
    return (constant - inner.extent) // -terms[0][1] + 1 if isinstance(constant, int) else None


def _unbounded(s: Stmt, name: str) -> Stmt:
    if not isinstance(s, For) or not any(name in ix.loop_vars(e) for e in s.upper_bounds):
        return s
    return replace(s, upper_bounds=tuple(e for e in s.upper_bounds if name not in ix.loop_vars(e)))
