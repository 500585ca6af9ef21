"""Results of a guided search: schedules that meet the guide, or the reason why none does."""

from __future__ import annotations

from dataclasses import replace

from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.errors import InputError
from autosched.schedule.types import Schedule
from autosched.search.guidance.conformance import NOT_AS_GUIDED, copies_given_up, deviations
from autosched.search.guidance.copy_assignment import UNMET
from autosched.search.guidance.guide import Guide
from autosched.search.results import SearchResult
from autosched.target import Target


def conforming(bound: BoundPipeline, result: SearchResult, guide: Guide, target: Target) -> SearchResult:
    """Return the result of a search with the schedules that meet a guide.

    Args:
        bound: The pipeline.
        result: The result of the search.
        guide: The guide.
        target: The device.

    Raises:
        InputError: If no schedule meets the guide, with the choice, the reason and a remedy.
    """
    if not guide:
        return result
    unmet = [deviations(bound, r.schedule, guide, target) for r in result.ranked]
    kept = tuple(r for r, reasons in zip(result.ranked, unmet, strict=True) if not reasons)
    if kept:
        return replace(result, ranked=kept)
    raise InputError(
        f"no schedule of {bound.pipeline.name!r} for {target.name} meets the guide: {unmet[0][0]}{_reason(result)}; "
        "leave out this choice, give it other sizes, or raise the effort of the search"
    )


def _reason(result: SearchResult) -> str:
    """Return why candidates were left out, as a clause: a kernel that cannot stream, else the most frequent reason."""
    if result.cut_short:
        return ", as the time budget ended before the search"
    pruned = result.counts.pruned
    unmet = [reason for reason, _ in pruned.most_common() if reason.startswith(UNMET)]
    if unmet:
        return f", as {unmet[0].removeprefix(UNMET)}"
    others = [(reason, count) for reason, count in pruned.most_common() if not reason.startswith(NOT_AS_GUIDED)]
    if not others:
        return ""
    reason, count = others[0]
    return f"; of the candidates {count} were left out because of: {reason}"


def given_up_notes(bound: BoundPipeline, schedule: Schedule, guide: Guide) -> list[str]:
    """Return a note for users on the copies that a schedule gives up for its occupancy; empty if there are none."""
    given_up = copies_given_up(bound, schedule, guide) if guide else []
    return [f"for the occupancy, {source} is not copied in the kernel of {func}" for source, func in given_up]
