"""Mirrored boundary conditions without remainders, where the region lies within one reflection.

Rewrite:
    m[x] = f[min(x % 2n, 2n - 1 - x % 2n)]          over [-h, n + h)
    ->  m[x] = f[min(max(x, -1 - x), 2n - 1 - x)]

A minimum and a maximum cost less than a remainder, and lane loops are split where they have an effect
(`autosched.lower.passes.cpu.split_index_set`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from autosched.analysis.access.regions import Region
from autosched.analysis.indices import index as ix
from autosched.analysis.indices.reflection import reflection_of
from autosched.analysis.indices.to_index import Memo, to_index
from autosched.lang.expr import Expr, Load, Var, rebuild
from autosched.lang.func import Definition, Func
from autosched.lang.functions import max, min

MIRRORED = ("mirrored", "mirrored_without_edge")


def fold_mirrors(
    func: Func, definition: Definition, region: Region, within: Sequence[tuple[int, int] | None]
) -> Definition | None:
    """Return a definition without remainders in the dimensions that a region mirrors at most once at either end.

    Args:
        func: The Func.
        definition: Its definition, with shapes and parameters as constants.
        region: The region in which it is computed.
        within: The range that a boundary condition reads in each dimension; None for unbounded dimensions.

    Returns:
        The definition; None where nothing changes.
    """
    loads = [v for v in definition.values if isinstance(v, Load)]
    if func.boundary not in MIRRORED or len(loads) != len(definition.values):
        return None
    indices = list(loads[0].indices)
    memo: Memo = {}
    for axis, bounded in enumerate(within):
        e = indices[axis]
        if bounded is not None and _is_wave(to_index(e, memo)):
            folded = _folded(func.vars[axis], region[axis], bounded, repeats_edge=func.boundary == "mirrored")
            indices[axis] = e if folded is None else folded
    if all(a is b for a, b in zip(indices, loads[0].indices, strict=True)):
        return None
    return replace(definition, values=tuple(rebuild(load, indices) for load in loads))


def _is_wave(index: ix.Index) -> bool:
    return any(reflection_of(t) is not None for t, _ in ix.terms_of(index) if isinstance(t, ix.Atom))


def _folded(x: Var, region: tuple[int, int], within: tuple[int, int], *, repeats_edge: bool) -> Expr | None:
    """Return the index over a region; None where it is mirrored more than once."""
    low, high = within
    last = high - low
    below, crest = (-1, 2 * last + 1) if repeats_edge else (0, 2 * last)
    if region[0] - low < below - last or region[1] - low > crest:
        return None
    i: Expr = x - low if low else x
    folded = i
    if region[0] < low:
        folded = max(folded, below - i)
    if region[1] > high:
        folded = min(folded, crest - i)
    return folded + low if low else folded
