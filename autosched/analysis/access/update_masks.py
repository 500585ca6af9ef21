"""Indices of masked accumulations, clamped instead of selected.

    f[select(p, i, 0)] += select(p, v, 0)    ->    f[min(max(i, lo), hi)] += select(p, v, 0)

``[lo, hi]`` is the range of ``i`` that follows from ``p``. Where ``p`` fails, the update changes no point, so that the
point is free. Counts of random labels take 2.8 times as long with the selection (docs/decisions/0064).
"""

from __future__ import annotations

from collections.abc import Sequence

from autosched.analysis.access.accumulation import accumulation
from autosched.analysis.indices import index as ix
from autosched.analysis.indices.condition_facts import compared_integers, implied_facts, range_given_facts
from autosched.analysis.indices.float_facts import implied_conversions
from autosched.analysis.indices.to_index import Memo, to_index
from autosched.lang import functions
from autosched.lang.expr import Cast, Const, Expr, Load, Select, children, postorder, rebuild, walk
from autosched.lang.func import Definition, Func
from autosched.lang.predicates import neutral_element

WIDEST = 1 << 30
"""Length of the range of an index that counts as unbounded."""


def clamp_masked_indices(func: Func, definition: Definition, memo: Memo) -> Definition:
    """Return an update with clamped indices if it is a masked accumulation, else the definition.

    Args:
        func: The updated Func.
        definition: One of its definitions with constant shapes and parameters, whose equal expressions are the same
            object.
        memo: The indices of reads with known ranges by ``id``, as in `to_index`.
    """
    masks = [e.cond for e in definition.indices if isinstance(e, Select) and isinstance(e.f, Const)]
    if not masks or any(c is not masks[0] for c in masks) or not _is_masked(func, definition, masks[0]):
        return definition
    indices = tuple(_clamped(e, dict(memo)) if isinstance(e, Select) else e for e in definition.indices)
    done: dict[int, Expr] = {}
    for node in postorder(definition.values, done):
        new: Sequence[Expr] = [done[id(c)] for c in children(node)]
        if isinstance(node, Load) and node.source is func and _is_point(node.indices, definition.indices):
            new = indices
        done[id(node)] = rebuild(node, new)
    return Definition(indices, tuple(done[id(e)] for e in definition.values), definition.rvars, definition.location)


def _is_masked(func: Func, definition: Definition, mask: Expr) -> bool:
    """Whether an update accumulates neutral elements where a mask fails."""
    sums = accumulation(func, definition)
    if sums is None:
        return False
    for op, term in zip(sums.operators, sums.values, strict=True):
        value = term.a if isinstance(term, Cast) else term
        if not isinstance(value, Select) or value.cond is not mask or not isinstance(value.f, Const):
            return False
        if repr(value.f.value) != repr(neutral_element(op, value.dtype).value):
            return False
    return True


def _is_point(a: Sequence[Expr], b: Sequence[Expr]) -> bool:
    return all(p is q for p, q in zip(a, b, strict=True))


def _clamped(e: Select, memo: Memo) -> Expr:
    """Return the first arm of a selection, clamped to its range where it is selected, if the condition narrows it."""
    index = to_index(e.t, memo)
    for c in compared_integers(e.cond):
        to_index(c, memo)
    conversions = [n for n in walk(e.t) if isinstance(n, Cast) and n.dtype.is_int and n.a.dtype.is_float]
    facts = implied_facts(e.cond, True, memo)
    facts += [(to_index(c, memo), r) for c, r in implied_conversions(e.cond, True, conversions)]
    (low, high), (lo, hi) = ix.interval(index), range_given_facts(index, facts)
    if isinstance(index, int) or (lo, hi) == (low, high) or hi - lo >= WIDEST:
        return e
    t = functions.max(e.t, lo) if lo > low else e.t
    return functions.min(t, hi) if hi < high else t
