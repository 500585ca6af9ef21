"""What a tuning run holds to be the fastest: after each batch the best of it must be really ahead to take the place."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

from autosched.measure.compare.interleaved_comparison import InterleavedComparison
from autosched.measure.compile.content_keys import digest
from autosched.measure.job import Job
from autosched.search.tune.autotune.batches import TOP
from autosched.search.tune.autotune.results import TuningResults, chained
from autosched.search.tune.autotune.state import Champion, DrawnBatch, TuningState
from autosched.search.tune.final_selection import select_fastest
from autosched.search.tune.top_k import ROOTS

LEAST_S = 1.0
"""Seconds that a comparison gets when the time budget is over."""


def new_incumbent(
    state: TuningState,
    results: TuningResults,
    job: Callable[[DrawnBatch], Job],
    comparer: InterleavedComparison,
    deadline: float | None = None,
) -> Champion | None:
    """Return the best so far, after the batch under way, or as much of it as is measured.

    After the first batch what one-shot mode would return holds the place, then the best of what top-5 mode would
    measure, then the best of all; the baseline is timed beside them. After a later one it is the champion before.

    Args:
        state: The run; candidates that were compared after this batch already are not compared again.
        results: What is measured.
        job: Returns the job of a candidate.
        comparer: Times candidates in turns.
        deadline: Time by `time.perf_counter` at which to end, or None.

    Returns:
        None if nothing has a time.
    """
    k, held = state.iteration, state.champion
    batch = results.timed(state.drawn[k], job)
    roots = results.timed([d for d in state.drawn[0] if d.origin == ROOTS], job)
    everything = [d for drawn in state.drawn for d in drawn]
    holders = results.timed([d for d in everything if held is not None and d.schedule == held.schedule], job)
    if held is None or not holders:
        if not batch:
            return None
        by_model = [t for t in batch if t.job.origin != ROOTS]
        holder, groups = (by_model or batch)[0], [by_model[:TOP], batch]
    else:
        holder = holders[0]
        compared = state.champions[k].again if len(state.champions) > k else {}
        groups = [[t for t in batch if digest(t.job.schedule) not in compared and t.job != holder.job]]
        if not groups[0]:
            return held
    left = None if deadline is None else max(deadline - time.perf_counter(), LEAST_S)
    verdict = select_fastest(holder, groups, comparer, roots, left)
    again = {digest(text): seconds for text, seconds in verdict.again.items()}
    found = Champion(verdict.chosen.job.schedule, verdict.seconds, again, verdict.note)
    if held is not None and not again and verdict.chosen == holder:
        found = replace(held, again={}, note="")
    return replace(found, again=chained([*state.champions[k : k + 1], found]))
