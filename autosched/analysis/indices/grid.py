"""Grids of points that indices reach over some loops."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from autosched.analysis.access.coverage import Grid, Progression
from autosched.analysis.access.dependence import Iteration, combined
from autosched.analysis.access.omega import System
from autosched.analysis.access.regions import Range
from autosched.analysis.indices import index as ix


def index_grid(indices: Sequence[ix.Index], env: Mapping[str, Range]) -> Grid | None:
    """Return the points that indices reach if they form a grid; None if that cannot be proven.

    Dimensions whose indices share loops form a group. A single affine index has the values of a progression if the
    step of each loop is at most the extent covered by the loops of smaller coefficients. Other indices fill the box of
    their bounds if no two iterations have the same point, and the box has as many points as there are iterations.

    Args:
        indices: One for each dimension.
        env: Range of each of their loops, none empty.
    """
    result: dict[int, Progression] = {}
    for dims in _groups(indices):
        group = [indices[d] for d in dims]
        single = _progression(group[0], env) if len(group) == 1 else None
        progressions = [single] if single is not None else _filled_box(group, env)
        if progressions is None:
            return None
        result.update(zip(dims, progressions, strict=True))
    return tuple(result[d] for d in range(len(indices)))


def _groups(indices: Sequence[ix.Index]) -> list[list[int]]:
    """Return the dimensions grouped by shared loops of their indices, transitively."""
    groups: list[tuple[list[int], set[str]]] = []
    for d, i in enumerate(indices):
        dims, names = [d], set(ix.loop_vars(i))
        for group in [g for g in groups if not names.isdisjoint(g[1])]:
            groups.remove(group)
            dims, names = group[0] + dims, group[1] | names
        groups.append((sorted(dims), names))
    return [dims for dims, _ in groups]


def _progression(i: ix.Index, env: Mapping[str, Range]) -> Progression | None:
    """Return the values of an affine index if they are equidistant."""
    counts: list[tuple[int, int]] = []
    for t, c in ix.terms_of(i):
        if not isinstance(t, ix.LoopVar):
            return None
        lo, hi = env[t.name]
        if hi > lo:
            counts.append((abs(c), hi - lo + 1))
    first, last = ix.bounds(i, env)
    step = math.gcd(*(c for c, _ in counts)) or 1
    reached = step
    for c, n in sorted(counts):
        if c > reached:
            return None
        reached += c * (n - 1)
    return int(first), int(last), step


def _filled_box(indices: Sequence[ix.Index], env: Mapping[str, Range]) -> list[Progression] | None:
    """Return the box of some indices' bounds if they reach every point of it exactly once."""
    loops = sorted({name for i in indices for name in ix.loop_vars(i)})
    box = [ix.bounds(i, env) for i in indices]
    iterations = math.prod(env[name][1] - env[name][0] + 1 for name in loops)
    if iterations != math.prod(hi - lo + 1 for lo, hi in box):
        return None
    if any(isinstance(t, ix.Atom) and t.kind in ("data", "select") for i in indices for t in ix.atoms(i)):
        return None
    if any(_may_coincide(indices, loops, env, name) for name in loops):
        return None
    return [(int(lo), int(hi), 1) for lo, hi in box]


def _may_coincide(indices: Sequence[ix.Index], loops: Sequence[str], env: Mapping[str, Range], differing: str) -> bool:
    """Whether two iterations that differ in a loop may have the same point."""
    system = System()
    first, second = Iteration(system), Iteration(system)
    for iteration in (first, second):
        iteration.add_loops(loops, env)
    system.require_not_negative({second.variables[differing]: 1, first.variables[differing]: -1}, -1)
    for i in indices:
        (terms, constant), (minus, subtrahend) = first.linear(i), second.linear(i)
        system.require_zero(combined(terms, minus, -1), constant - subtrahend)
    return system.is_feasible() is not False
