"""Range of an index where conditions hold."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from autosched.analysis.indices import index as ix


def range_where(e: ix.Index, nonnegative: Sequence[ix.Index]) -> tuple[int, int]:
    """Return the least and greatest value of an index where other indices are not negative.

    Exact up to `autosched.analysis.indices.index.ENUMERATED` values of the loop variables, and without data; otherwise
    the conditions are ignored.

    Args:
        e: The index.
        nonnegative: The other indices.

    Returns:
        The inclusive range, (0, 0) if the conditions hold nowhere.
    """
    conditions = [c for c in nonnegative if ix.interval(c)[0] < 0]
    variables = {name: v for i in (e, *conditions) for name, v in ix.loop_vars(i).items()}
    by_data = any(
        isinstance(t, ix.Atom) and t.kind in ("data", "select") for i in (e, *conditions) for t in ix.atoms(i)
    )
    if not variables or by_data or prod(v.hi - v.lo + 1 for v in variables.values()) > ix.ENUMERATED:
        lo, hi = ix.interval(e)
        return lo, hi
    axes = np.meshgrid(*(np.arange(v.lo, v.hi + 1) for v in variables.values()), indexing="ij", sparse=True)
    point = dict(zip(variables, axes, strict=True))
    shape = np.broadcast_shapes(*(axis.shape for axis in axes))
    holds = np.ones(shape, bool)
    for c in conditions:
        holds &= np.asarray(ix.evaluate(c, point)) >= 0
    values = np.broadcast_to(np.asarray(ix.evaluate(e, point)), shape)[holds]
    return (int(values.min()), int(values.max())) if values.size else (0, 0)
