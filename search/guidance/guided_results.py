"""Results of a guided search: schedules that meet the guide, or the reason why none does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.errors import InputError
from autosched.schedule.types import Schedule
from autosched.search.guidance.conformance import NOT_AS_GUIDED, copies_given_up, deviations, meets_guide
from autosched.search.guidance.copy_assignment import UNMET
from autosched.search.guidance.guide import Guide
from autosched.search.guidance.register_limits import with_register_limits
from autosched.search.results import RankedSchedule, SearchResult
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
    unmet = [next(deviations(bound, r.schedule, guide, target), None) for r in result.ranked]
    kept = tuple(r for r, reason in zip(result.ranked, unmet, strict=True) if reason is None)
    if kept:
        return replace(result, ranked=kept)
    raise InputError(
        f"no schedule of {bound.pipeline.name!r} for {target.name} meets the guide: {unmet[0]}{_reason(result)}; "
        "leave out this choice, give it other sizes, or raise the effort of the search"
    )


def guided_only(
    bound: BoundPipeline, ranked: Sequence[RankedSchedule], guide: Guide, target: Target
) -> tuple[RankedSchedule, ...]:
    """Return the schedules that meet a guide with its limits on registers, in their order.

    Args:
        bound: The pipeline.
        ranked: Legal schedules, at least one of which meets the guide.
        guide: The guide.
        target: The device.
    """
    limited = (replace(r, schedule=with_register_limits(bound, r.schedule, guide, target)) for r in ranked)
    return tuple(r for r in limited if meets_guide(bound, r.schedule, guide, target))


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
