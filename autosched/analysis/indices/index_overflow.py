"""Overflow of typed integer arithmetic in indices, which conversion assumes exact near the origin."""

from __future__ import annotations

from collections.abc import Mapping

from autosched.analysis.access.regions import Range
from autosched.analysis.bound_pipeline import BoundStage
from autosched.analysis.indices import index as ix
from autosched.analysis.indices.exact_integers import is_exact_integer
from autosched.errors import BoundsError
from autosched.lang.expr import Binary, Cast, Unary, walk


def check_index_overflow(stage: BoundStage, env: Mapping[str, Range]) -> None:
    """Raise for index arithmetic that overflows its type for the coordinates of a region.

    Args:
        stage: The stage.
        env: Range of each of its loops.

    Raises:
        BoundsError: If arithmetic that indices treat as exact may wrap.
    """
    for e in walk(*stage.indices, *(i for load, _ in stage.loads for i in load.indices)):
        if e.weak or not isinstance(e, Binary | Unary | Cast) or id(e) not in stage.memo:
            continue
        index = stage.memo[id(e)]
        if _fits(ix.interval(index), e.dtype.min_value, e.dtype.max_value):
            continue
        lo, hi = ix.bounds(index, env)
        if not _fits((lo, hi), e.dtype.min_value, e.dtype.max_value) and not is_exact_integer(e):
            raise BoundsError(
                f"stage {stage.func!r}: {e!r} in an index reaches [{lo}, {hi}], more than {e.dtype} holds",
                location=stage.location,
                hint="compute it in int64, or in uint32 where it is meant to wrap",
            )


def _fits(interval: ix.Interval, least: int, most: int) -> bool:
    return least <= interval[0] and interval[1] <= most
