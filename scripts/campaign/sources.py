"""Where the schedules come from that are compiled and measured."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import closing

from autosched.measure.problem import Problem
from autosched.search.datasets.candidate_mix import CandidateMix
from autosched.search.datasets.parallel_generation import CandidateWorker, GeneratedCandidates
from autosched.search.datasets.replay import ReplayedSchedules
from autosched.target import Target
from campaign.context import Context
from campaign.pipelines import problems_of
from campaign.precomputed_schedules import DRAWN_FILE, drawn_before
from campaign.worker_pool import Lost, do_parts

_DRAWING_SHARE = 0.5
"""Processes that draw schedules, over those that compile: 5 s a pipeline, 0.1 s a kernel."""
_DRAW_SECONDS = 45.0
"""A pipeline goes on with what was drawn until then."""
_DRAW_LIMIT_S = 120.0


def schedules_of(
    context: Context, target: Target, deadline: float
) -> Generator[tuple[Problem, GeneratedCandidates], None, None]:
    """Yield problems with their schedules, but those that the step has done.

    Those of other labels are first, then such as were drawn before (`campaign.precomputed_schedules`), then such as are
    drawn now.

    Args:
        context: The step; problems of which nothing can be drawn are recorded.
        target: What schedules are made for.
        deadline: When to draw no more, by `time.monotonic`.

    Raises:
        InputError: If labels hold no schedules.
        ValueError: If the file of schedules drawn before is damaged.
    """
    options, done = context.options, context.parts
    known: set[Problem] = set()
    if options.labels:
        schedules = ReplayedSchedules.read(options.labels)
        known |= set(schedules.problems)
        yield from schedules.draw(p for p in schedules.problems if p.text() not in done)
    for problem, drawn in drawn_before(options.out_path / DRAWN_FILE):
        if problem not in known:
            known.add(problem)
            if problem.text() not in done:
                yield problem, drawn
    todo = (p for p in problems_of(options) if p not in known and p.text() not in done)
    processes = max(1, round(_DRAWING_SHARE * options.processes))
    drawing = do_parts(
        CandidateWorker(target, CandidateMix(**options.schedules), most_seconds=_DRAW_SECONDS), "draw",
        ((p.text(), p) for p in todo), processes=processes, limit_s=_DRAW_LIMIT_S, deadline=deadline,
        ahead=2 * processes,
    )  # fmt: skip
    with closing(drawing):
        for text, drawn in drawing:
            if isinstance(drawn, Lost) or not drawn.schedules:
                note = drawn.message if isinstance(drawn, Lost) else drawn.note
                context.record(text, {"schedules": 0, "note": note[-500:]})
            else:
                yield Problem.parse(text), drawn
