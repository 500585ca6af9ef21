"""Periodic extension: a Func that is read wrapped is computed beyond its range instead.

Rewrite:
    f[x] = (p[x - 1] + p[x + 1]) * c[x]         p = e.wrapped(x=(0, n))
    w[x] = f[x % n]                             over [-1, n + 1)
    ->  f[x] = (p[x - 1] + p[x + 1]) * c[x % n]
        w[x] = f[x]

A tile of ``w`` at an edge reads both ends of ``f[0, n)``, so the tile of ``f`` would be the whole dimension. A tile of
the extended ``f`` is as large as elsewhere. Each point beyond the range equals the one a period away: coordinates are
wrapped, and reads at a constant distance of sources that are periodic themselves need no remainder.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from autosched.analysis.access.regions import Range
from autosched.analysis.indices import index as ix
from autosched.lang.expr import Expr, Load, RVar, Source, Var, children, postorder, rebuild, walk
from autosched.lang.func import Definition

MOST_GROWTH = 8
"""A dimension of n points grows by at most n / 8: rows of other schedules are computed beyond the range as well."""


class WrappedRange(NamedTuple):
    """A range that repeats: ``length`` points from ``low`` on."""

    low: int
    length: int


class WrappedRead(NamedTuple):
    """The index of a read that wraps a loop variable.

    Attributes:
        loop: Name of the loop variable.
        period: The range that it is wrapped into.
    """

    loop: str
    period: WrappedRange


IsPeriodic = Callable[[Source, int, WrappedRange], bool]
"""Whether a source repeats with a period along a dimension, given by its position."""


def wrapped_read(index: ix.Index) -> WrappedRead | None:
    """Return the loop variable and period of an index ``low + (x - low) % length``, None for other indices."""
    match ix.terms_of(index):
        case ((ix.Atom(kind="mod") as atom, 1),):
            low, length = index.const if isinstance(index, ix.Affine) else 0, int(atom.payload)
            match atom.args[0]:
                case ix.Affine(terms=((ix.LoopVar(name=name), 1),), const=const) if const == -low % length:
                    return WrappedRead(name, WrappedRange(low, length))
    return None


def extension(reads: Sequence[tuple[ix.Index, Mapping[str, Range]]]) -> WrappedRange | None:
    """Return the period with which a Func may be extended along a dimension; None if it may not or need not.

    All its readers wrap their index into the same range or stay within it, and some read beyond it, but not far.

    Args:
        reads: For each read by other Funcs, the index in the dimension, and the ranges of the loops.
    """
    wrapped = [(w, env[w.loop]) for i, env in reads if (w := wrapped_read(i)) is not None]
    periods = {w.period for w, _ in wrapped}
    if len(periods) != 1:
        return None
    (period,) = periods
    first, last = period.low, period.low + period.length - 1
    ranges = [ix.bounds(i, env) for i, env in reads]
    if any(lo < first or hi > last for lo, hi in ranges):
        return None
    least, most = min(lo for _, (lo, _) in wrapped), max(hi for _, (_, hi) in wrapped)
    growth = max(first - least, 0) + max(most - last, 0)
    return period if 0 < growth * MOST_GROWTH <= period.length else None


def extend_periodically(
    definition: Definition, own: Source, axis: int, period: WrappedRange, is_periodic: IsPeriodic,
    index_of: Callable[[Expr], ix.Index],
) -> Definition | None:  # fmt: skip
    """Return a definition extended along a dimension; None where the point that it writes is not that of its Var.

    Args:
        definition: A definition of the Func, with shapes and parameters as constants.
        own: The Func.
        axis: Position of the dimension.
        period: The period.
        is_periodic: See `IsPeriodic`.
        index_of: Returns the symbolic index of an integer expression of the definition.
    """
    x = definition.indices[axis]
    if not isinstance(x, Var):
        return None
    done: dict[int, Expr] = {}
    wrapped = _wrapped(x, period)
    for node in postorder([*definition.values, *definition.indices], done):
        if node is x or (isinstance(node, Var) and node.name == x.name):
            done[id(node)] = wrapped
            continue
        new = [done[id(c)] for c in children(node)]
        if isinstance(node, Load):
            for k, e in enumerate(node.indices):
                at_point = node.source is own and k == axis
                if at_point and not (isinstance(e, Var) and e.name == x.name):
                    return None
                if at_point or (is_periodic(node.source, k, period) and _is_translation(index_of(e), x.name)):
                    new[k] = e
        done[id(node)] = rebuild(node, new)
    indices = tuple(e if k == axis else done[id(e)] for k, e in enumerate(definition.indices))
    return replace(definition, indices=indices, values=tuple(done[id(e)] for e in definition.values))


def without_wraps(
    definition: Definition, source: Source, axis: int, index_of: Callable[[Expr], ix.Index]
) -> Definition:
    """Return a definition whose wrapped reads of a source along a dimension are reads beyond the range."""
    done: dict[int, Expr] = {}
    for node in postorder([*definition.values, *definition.indices], done):
        new = [done[id(c)] for c in children(node)]
        if isinstance(node, Load) and node.source is source:
            e = node.indices[axis]
            if (w := wrapped_read(index_of(e))) is not None:
                new[axis] = next(n for n in walk(e) if isinstance(n, Var | RVar) and n.name == w.loop)
        done[id(node)] = rebuild(node, new)
    indices = tuple(done[id(e)] for e in definition.indices)
    return replace(definition, indices=indices, values=tuple(done[id(e)] for e in definition.values))


def _wrapped(x: Var, period: WrappedRange) -> Expr:
    if period.low == 0:
        return x % period.length
    return (x - period.low) % period.length + period.low


def _is_translation(index: ix.Index, name: str) -> bool:
    """Whether an index is a loop variable plus terms that do not depend on it."""
    coefficients = [c for t, c in ix.terms_of(index) if isinstance(t, ix.LoopVar) and t.name == name]
    return coefficients == [1] and all(isinstance(t, ix.LoopVar) for t, _ in ix.terms_of(index))
