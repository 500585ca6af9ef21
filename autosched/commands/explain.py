"""Considered, pruned and predicted candidates of a search, as tables and as data."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import click

from autosched.commands.show import format_time, print_table
from autosched.plural import counted
from autosched.report.resources import compiled_resources
from autosched.scheduled_pipeline import ScheduledPipeline
from autosched.search.evaluate.counts import Counts
from autosched.search.explain import KernelReport, explain

LEAST_DIFFERENCE = 0.005
"""Least relative difference of predicted times that is explained."""


def as_dict(scheduled: ScheduledPipeline) -> dict[str, Any] | None:
    """Return the statistics of the search as plain data, or None for a schedule without a search."""
    result = scheduled.search_result
    if result is None:
        return None
    c = result.counts
    return {
        "seconds": result.seconds,
        "cut_short": result.cut_short,
        "note": result.note,
        "predicted_seconds": [None if r.seconds != r.seconds else r.seconds for r in result.ranked],
        "kernels_costed": c.kernels,
        "kernels_asked_for": c.requested,
        "cache_hit_rate": c.hit_rate,
        "mean_batch": c.mean_batch,
        "considered": dict(c.considered),
        "pruned": dict(c.pruned),
        "buckets": {str(size): n for size, n in sorted(c.buckets.items())},
        "seconds_by_activity": dict(c.seconds),
        "kernels": [asdict(k) for k in explain(result, _registers(scheduled))],
    }


def print_explanation(scheduled: ScheduledPipeline) -> None:
    """Print the statistics of a search and the predicted components of its best schedule."""
    result = scheduled.search_result
    if result is None:
        click.echo("nothing was searched for, so there is nothing to explain: --no-reuse searches again")
        return
    if result.note:
        click.echo(result.note)
    c = result.counts
    if c.kernels:
        click.echo(_costed(c))
        _print_rows(("candidates", "considered"), [(k, str(n)) for k, n in c.considered.most_common()])
        _print_rows(("pruned because of", "kernels"), [(k, str(n)) for k, n in c.pruned.most_common()])
        _print_rows(
            ("bucket size", "buckets"), [(f"{size} to {2 * size - 1}", str(n)) for size, n in sorted(c.buckets.items())]
        )
        spent = sorted(c.seconds.items(), key=lambda part: -part[1])
        _print_rows(("activity", "time"), [(k, format_time(t)) for k, t in spent])
    registers = _registers(scheduled)
    kernels = explain(result, registers)
    columns = ("kernel", "members", "inlined", "blocks resident", "predicted", "busiest units")
    _print_rows(columns, [_row(k) for k in kernels])
    if difference := _difference(scheduled, kernels, any(count is not None for count in registers)):
        click.echo(difference)


def _print_rows(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print a table that has rows."""
    if rows:
        print_table(columns, rows)


def _costed(c: Counts) -> str:
    text = f"{counted(c.kernels, 'kernel')} costed"
    if c.batches:
        text += f" in {counted(c.batches, 'batch')} ({c.mean_batch:.0f} each)"
    return text + (f", {c.hit_rate:.0%} of {c.requested} found in the cache" if c.requested else "")


def _difference(scheduled: ScheduledPipeline, kernels: Sequence[KernelReport], with_registers: bool) -> str:
    """Return why the times of the kernels are not together that of the schedule; empty where they are."""
    origin, total = scheduled.provenance, sum(k.seconds for k in kernels)
    if not kernels or origin is None or origin.predicted_s is None:
        return ""
    if math.isclose(total, origin.predicted_s, rel_tol=LEAST_DIFFERENCE):
        return ""
    if origin.scale.startswith("scaled"):
        reason = origin.scale
    elif with_registers:
        reason = "predicted before the kernels were compiled, whose registers limit the blocks in flight"
    else:
        reason = f"by the {origin.model}"
    together, whole = format_time(total), format_time(origin.predicted_s)
    return f"the kernels' times are those of the model, together {together}; the schedule's, {whole}, is {reason}"


def _registers(scheduled: ScheduledPipeline) -> list[int | None]:
    """Return the registers of a thread of each kernel of the search's best schedule; none if it is not the result."""
    result = scheduled.search_result
    if result is None or result.ranked[0].schedule != scheduled.schedule:
        return []
    return [info.registers for info in compiled_resources(scheduled).kernels]


def _resident(kernel: KernelReport) -> str:
    if kernel.resident_blocks is None:
        return ""
    return f"{kernel.resident_blocks}" + ("" if kernel.registers is None else f", {kernel.registers} registers")


def _row(kernel: KernelReport) -> tuple[str, ...]:
    busiest = sorted(kernel.components.items(), key=lambda part: -part[1])[:3]
    return (
        kernel.func,
        ", ".join(f"{name} ({level})" for name, level in kernel.members),
        ", ".join(kernel.inlined),
        _resident(kernel),
        format_time(kernel.seconds),
        ", ".join(f"{unit} {format_time(t)}" for unit, t in busiest),
    )
