"""Funcs without a pure definition: every point must be written before it is read."""

from __future__ import annotations

from collections.abc import Mapping

from autosched.analysis import index as ix
from autosched.analysis.bound import BoundFunc, BoundStage, Box
from autosched.analysis.regions import Range, loop_ranges
from autosched.errors import DSLError
from autosched.lang.location import SourceLocation


def check_undefined(func: BoundFunc, location: SourceLocation | None) -> None:
    """Refuse a Func with an undefined pure definition whose updates leave a needed point unwritten, or read it before.

    Updates that write a box, and boxes that join to one, are recognised; of what they read of the Func itself, points
    of earlier boxes and points that earlier iterations of the same update have written.

    Args:
        func: The Func with its region.
        location: Where the user made it.

    Raises:
        DSLError: If the points are not known to be written first.
    """
    covered: Box | None = None
    for stage in func.stages[1:]:
        if stage.is_empty:
            continue
        env = loop_ranges(stage, func, func.region)
        written = _written(stage, env)
        if not _reads_known(stage, env, covered, written):
            raise DSLError(
                f"{func.name!r} starts undefined, and update {stage.number} may read points of it that are not "
                "written yet",
                location=stage.location,
                hint=f"start with a value: {func.name}[...] = 0",
            )
        covered = _joined(covered, written)
    if covered is None or not _contains(covered, func.region):
        raise DSLError(
            f"{func.name!r} starts undefined, and its updates do not write every point that is needed",
            location=location,
            hint=f"start with a value: {func.name}[...] = 0",
        )


def _written(stage: BoundStage, env: Mapping[str, Range]) -> Box | None:
    """Return the box that an update fills, or None if it may leave gaps."""
    walked = [t.name for i in stage.store for t, _ in ix.terms_of(i) if isinstance(t, ix.LoopVar)]
    simple = all(isinstance(i, int) or (_step(i) is not None) for i in stage.store)
    if not simple or len(set(walked)) < len(walked):
        return None
    return tuple(ix.bounds(i, env) for i in stage.store)


def _step(i: ix.Index) -> tuple[str, int] | None:
    """Return loop and sign of an index that walks point by point."""
    if len(ix.terms_of(i)) != 1:
        return None
    t, c = ix.terms_of(i)[0]
    return (t.name, c) if isinstance(t, ix.LoopVar) and abs(c) == 1 else None


def _reads_known(stage: BoundStage, env: Mapping[str, Range], covered: Box | None, written: Box | None) -> bool:
    for load in (load for load, source in stage.loads if source == stage.func):
        at = [stage.index_of(i) for i in load.indices]
        box: Box = tuple(ix.bounds(i, env) for i in at)
        if covered is not None and _contains(covered, box):
            continue
        known = _joined(covered, written)
        if known is None or not _contains(known, box) or not _is_earlier(stage, at):
            return False
    return True


def _is_earlier(stage: BoundStage, at: list[ix.Index]) -> bool:
    """Whether an earlier iteration writes the point that is read, if any does."""
    moved: dict[str, int] = {}
    for read, store in zip(at, stage.store, strict=True):
        distance, step = ix.sub(store, read), _step(store)
        if not isinstance(distance, int) or (step is None and distance):
            return False
        if step is not None:
            moved[step[0]] = distance * step[1]
    first = next((moved[d.name] for d in stage.loops if moved.get(d.name)), 0)
    return first > 0


def _contains(outer: Box, inner: Box) -> bool:
    return all(a <= lo and hi <= b for (a, b), (lo, hi) in zip(outer, inner, strict=True))


def _joined(a: Box | None, b: Box | None) -> Box | None:
    """Return the union of two boxes where it is one, else the first."""
    if a is None or b is None:
        return b if a is None else a
    if _contains(b, a):
        return b
    differing = [k for k, (p, q) in enumerate(zip(a, b, strict=True)) if p != q]
    if len(differing) != 1:
        return a
    k = differing[0]
    (p, q), (r, s) = a[k], b[k]
    if r > q + 1 or p > s + 1:
        return a
    return (*a[:k], (min(p, r), max(q, s)), *a[k + 1 :])
