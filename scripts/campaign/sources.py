"""Sources of the schedules to compile and measure."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import closing

from autosched.measure.problem import Problem
from autosched.search.datasets.candidate_mix import CandidateMix
from autosched.search.datasets.parallel_generation import CandidateWorker, GeneratedCandidates
from autosched.search.datasets.replay import ReplayedSchedules
from autosched.target import Target
from campaign.context import Context
from campaign.files import DRAWN_FILE
from campaign.pipelines import problems_of
from campaign.precomputed_schedules import drawn_before
from campaign.worker_pool import Lost, do_parts

_DRAWING_SHARE = 0.5
"""Ratio of generating to compiling processes; a pipeline takes 5 s to generate, a kernel 0.1 s to compile."""
_DRAW_SECONDS = 45.0
"""Time limit for a pipeline's candidates; later ones are dropped."""
_DRAW_LIMIT_S = 120.0


def schedules_of(
    context: Context, target: Target, deadline: float
) -> Generator[tuple[Problem, GeneratedCandidates], None, None]:
    """Yield problems with their schedules, except those that the step has finished.

    Schedules of other labels come first, then precomputed ones (`campaign.precomputed_schedules`), then new ones.

    Args:
        context: The step; problems without any candidate are recorded.
        target: Target of the schedules.
        deadline: End of candidate generation, by `time.monotonic`.

    Raises:
        InputError: If labels hold no schedules.
        ValueError: If the file of precomputed schedules is damaged.
    """
    options, done = context.options, context.parts
    yielded: set[Problem] = set()
    if options.labels:
        schedules = ReplayedSchedules.read(options.labels)
        yielded |= set(schedules.problems)
        yield from schedules.draw(p for p in schedules.problems if p.text() not in done)
    for problem, drawn in drawn_before(options.out_path / DRAWN_FILE):
        if problem not in yielded:
            yielded.add(problem)
            if problem.text() not in done:
                yield problem, drawn
    todo = (p for p in problems_of(options) if p not in yielded and p.text() not in done)
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
