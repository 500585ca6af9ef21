"""Check for reads of uninitialised points of Funcs without a pure definition."""

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
    """Raise for a Func with an undefined pure definition whose updates may read or return an unwritten point.

    The check covers updates that write a grid (`index_grid`); grids of several updates are united. A self-read is
    initialised if an earlier update, or an earlier iteration of the same update, writes its point.

    Args:
        func: The Func with its region.
        location: Source line of the Func.

    Raises:
        DSLError: If a point cannot be proven written.
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
        if not _reads_are_written(stage, env, covered, here):
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


def _reads_are_written(
    stage: BoundStage, env: Mapping[str, Range], covered: Sequence[Grid], here: Sequence[Grid]
) -> bool:
    """Whether all self-reads of an update are in ``covered``, or in ``here`` and written by an earlier iteration."""
    for load in (load for load, source in stage.loads if source == stage.func):
        at = [stage.index_of(i) for i in load.indices]
        read = index_grid(at, env) or box_grid(tuple(ix.bounds(i, env) for i in at))
        if not covers(covered, read) and not (_is_earlier(stage, at) and covers(here, read)):
            return False
    return True


def _is_earlier(stage: BoundStage, at: Sequence[ix.Index]) -> bool:
    """Whether only an earlier iteration can write the point ``at``."""
    loops = [name for i in stage.store for name in ix.loop_vars(i)]
    if len(set(loops)) < len(loops):
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
    """Return loop and sign of an index with step 1 or -1; None for other indices."""
    if len(ix.terms_of(i)) != 1:
        return None
    t, c = ix.terms_of(i)[0]
    return (t.name, c) if isinstance(t, ix.LoopVar) and abs(c) == 1 else None
