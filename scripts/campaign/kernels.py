"""Step: results of schedules with kernels of every kind on the device, compared with the interpreter."""

from __future__ import annotations

import time
from collections.abc import Iterable

from campaign.context import Context, Outcome
from campaign.kernel_samples import samples_for
from campaign.schedule_coverage import Sample
from campaign.suite import Case, judge_cases, verdicts

_DRAW_SHARE = 0.5


def cases_by_problem(samples: Iterable[Sample]) -> dict[str, Case]:
    """Return the samples of each problem as one case, whose results are interpreted once."""
    found: dict[str, tuple[str, dict[str, str]]] = {}
    for s in samples:
        found.setdefault(s.name.rpartition("/")[0], (s.problem, {}))[1][s.name] = s.schedule
    return {name: Case(problem, schedules, is_large=False) for name, (problem, schedules) in found.items()}


def run(context: Context) -> Outcome:
    """Check the samples of every kind that are not checked yet."""
    samples = samples_for(context, time.monotonic() + _DRAW_SHARE * context.remaining)
    cases = cases_by_problem(samples)
    judged = {name: set(part.get("wrong", ())) for name, part in context.parts.items()}
    judge_cases(context, {name: c for name, c in cases.items() if not set(c.schedules) <= judged.get(name, set())})
    parts = [context.parts[name] for name in cases if name in context.parts]
    count, wrong = verdicts(parts)
    kinds = {kind for s in samples for kind in s.kinds}
    message = f"{count} of {len(samples)} schedules of {len(kinds)} kinds of kernels, {wrong} wrong"
    return Outcome(bool(cases) and len(parts) == len(cases), message, wrong)
