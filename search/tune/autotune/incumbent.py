"""The incumbent of a tuning run: the best schedule so far, which a faster one replaces after an interleaved timing."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

from autosched.measure.compare.interleaved_comparison import InterleavedComparison
from autosched.measure.compile.content_keys import digest
from autosched.measure.job import Job
from autosched.search.tune.autotune.batches import TOP
from autosched.search.tune.autotune.results import TuningResults, rescaled_times
from autosched.search.tune.autotune.state import DrawnCandidate, Incumbent, TuningState
from autosched.search.tune.final_selection import select_fastest
from autosched.search.tune.top_k import ROOTS

LEAST_S = 1.0
"""Seconds of a comparison after the end of the time budget."""


def new_incumbent(
    state: TuningState,
    results: TuningResults,
    job: Callable[[DrawnCandidate], Job],
    comparison: InterleavedComparison,
    deadline: float | None = None,
) -> Incumbent | None:
    """Return the best schedule after the current batch, or after its measured part.

    After the first batch, the result of one-shot mode is challenged by the candidates of top-5 mode, then by the whole
    batch; the baseline is timed with them. After later batches, the incumbent is challenged by the batch.

    Args:
        state: The run; candidates that were compared after this batch before are not compared again.
        results: Measured candidates.
        job: Returns the job of a candidate.
        comparison: Times candidates interleaved.
        deadline: End of the time budget by `time.perf_counter`, or None.

    Returns:
        None if no candidate has a time.
    """
    k, before = state.iteration, state.incumbent
    batch = results.timed(state.drawn[k], job)
    roots = results.timed([d for d in state.drawn[0] if d.origin == ROOTS], job)
    candidates = [d for drawn in state.drawn for d in drawn]
    timed_before = results.timed([d for d in candidates if before is not None and d.schedule == before.schedule], job)
    if before is None or not timed_before:
        if not batch:
            return None
        by_model = [t for t in batch if t.job.origin != ROOTS]
        incumbent, groups = (by_model or batch)[0], [by_model[:TOP], batch]
    else:
        incumbent = timed_before[0]
        compared = state.champions[k].again if len(state.champions) > k else {}
        groups = [[t for t in batch if digest(t.job.schedule) not in compared and t.job != incumbent.job]]
        if not groups[0]:
            return before
    seconds = None if deadline is None else max(deadline - time.perf_counter(), LEAST_S)
    selection = select_fastest(incumbent, groups, comparison, roots, seconds)
    again = {digest(text): time_s for text, time_s in selection.again.items()}
    result = Incumbent(selection.chosen.job.schedule, selection.seconds, again, selection.note)
    if before is not None and not again and selection.chosen == incumbent:
        result = replace(before, again={}, note="")
    return replace(result, again=rescaled_times([*state.champions[k : k + 1], result]))
