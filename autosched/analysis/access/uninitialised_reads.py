"""Funcs without a pure definition: every point must be written before it is read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from autosched.analysis.access.coverage import Grid, box_grid, covers
from autosched.analysis.access.regions import Range, loop_ranges
from autosched.analysis.bound_pipeline import BoundFunc, BoundStage
from autosched.analysis.indices import index as ix
from autosched.analysis.indices.grid import index_grid
from autosched.errors import DSLError
from autosched.lang.source_location import SourceLocation


def check_uninitialised_reads(func: BoundFunc, location: SourceLocation | None) -> None:
    """Refuse a Func with an undefined pure definition whose updates leave a needed point unwritten, or read it before.

    What an update writes is known where it is a grid: see `index_grid`. Grids of several updates count together.
    Of what updates read of the Func itself, points of earlier updates are known to be written, and points that earlier
    iterations of the same update have written.

    Args:
        func: The Func with its region.
        location: Where the user made it.

    Raises:
        DSLError: If the points are not known to be written first.
    """
    if 0 in func.extents:
        return
    covered: list[Grid] = []
    for stage in func.stages[1:]:
        if stage.is_empty:
            continue
        env = loop_ranges(stage, func, func.region)
        written = index_grid(stage.store, env)
        here = covered if written is None else [*covered, written]
        if not _reads_known(stage, env, covered, here):
            raise DSLError(
                f"{func.name!r} starts undefined, and update {stage.number} may read points of it that are not "
                "written yet",
                location=stage.location,
                hint=f"start with a value: {func.name}[...] = 0",
            )
        covered = here
    if not covers(covered, box_grid(func.region)):
        raise DSLError(
            f"{func.name!r} starts undefined, and its updates do not write every point that is needed",
            location=location,
            hint=f"start with a value: {func.name}[...] = 0",
        )


def _reads_known(stage: BoundStage, env: Mapping[str, Range], covered: Sequence[Grid], here: Sequence[Grid]) -> bool:
    """Whether all points of the Func that an update reads are in ``covered``, or in ``here`` and written before."""
    for load in (load for load, source in stage.loads if source == stage.func):
        at = [stage.index_of(i) for i in load.indices]
        read = index_grid(at, env) or box_grid(tuple(ix.bounds(i, env) for i in at))
        if not covers(covered, read) and not (_is_earlier(stage, at) and covers(here, read)):
            return False
    return True


def _is_earlier(stage: BoundStage, at: Sequence[ix.Index]) -> bool:
    """Whether an earlier iteration writes the point that is read, if any does."""
    walked = [name for i in stage.store for name in ix.loop_vars(i)]
    if len(set(walked)) < len(walked):
        return False
    moved: dict[str, int] = {}
    for read, store in zip(at, stage.store, strict=True):
        distance, step = ix.sub(store, read), _step(store)
        if not isinstance(distance, int) or (step is None and distance):
            return False
        if step is not None:
            moved[step[0]] = distance * step[1]
    first = next((moved[d.name] for d in stage.loops if moved.get(d.name)), 0)
    return first > 0


def _step(i: ix.Index) -> tuple[str, int] | None:
    """Return loop and sign of an index that walks point by point."""
    if len(ix.terms_of(i)) != 1:
        return None
    t, c = ix.terms_of(i)[0]
    return (t.name, c) if isinstance(t, ix.LoopVar) and abs(c) == 1 else None
