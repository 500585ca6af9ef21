"""Indices at the points of a nest's region, which its guard leaves."""

from __future__ import annotations

from collections.abc import Sequence

from autosched.analysis.indices import index as ix
from autosched.analysis.indices.conditional_range import range_where
from autosched.schedule.kernel.register_window import is_linear
from autosched.schedule.plan import Nest


def range_inside(e: ix.Index, n: Nest, dim: str) -> tuple[int, int]:
    """Return the least and greatest value of an index over the points of a nest's region, by a dimension's bounds."""
    point = n.point()
    at = point[dim]
    # Steps of a producer begin before those of its readers, and their variable has the same name.
    own = {name: ix.var(name, v.lo, v.hi) for i in point.values() for name, v in ix.loop_vars(i).items()}
    e = ix.substitute(e, own)
    bounds = [ix.sub(n.high[dim], at), *(ix.sub(at, low) for low in (n.low[dim], n.lower_bound.get(dim, n.low[dim])))]
    return range_where(e, bounds)


def without_clamps(i: ix.Index, n: Nest) -> ix.Index:
    """Return an index without the clamps and remainders that change no point of a nest's region.

    Args:
        i: An index in the nest's loops.
        n: The nest, whose guard has the bounds of its region.
    """
    if is_linear(i):
        return i
    point = n.point()
    spans = {d: (ix.interval(n.lower_bound.get(d, n.low[d]))[0], ix.interval(n.high[d])[1]) for d in point}

    def range_of(a: ix.Index) -> tuple[int, int]:
        lo, hi = ix.interval(a)
        for d, at in point.items():
            distance = ix.sub(a, at)
            if isinstance(distance, int):
                return max(lo, spans[d][0] + distance), min(hi, spans[d][1] + distance)
            mirrored = ix.add(a, at)
            if isinstance(mirrored, int):  # a reflection at an edge
                return max(lo, mirrored - spans[d][1]), min(hi, mirrored - spans[d][0])
        return lo, hi

    def choose(t: ix.Atom, args: Sequence[ix.Index]) -> ix.Index | None:
        if t.kind in ("min", "max"):
            (a, b), (first, second) = args, map(range_of, args)
            lower = a if first[1] <= second[0] else b if second[1] <= first[0] else None
            if lower is None or t.kind == "min":
                return lower
            return b if lower is a else a
        if t.kind == "mod":
            lo, hi = range_of(args[0])
            return args[0] if lo >= 0 and hi < t.payload else None
        return None

    rewritten: ix.Index = ix.rewritten(i, choose)
    return rewritten
