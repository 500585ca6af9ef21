"""Bottlenecks of a schedule's kernels, as a table and as data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from autosched.commands.show import format_time, print_table
from autosched.report.prediction import predict
from autosched.report.resources import compiled_resources
from autosched.scheduled_pipeline import ScheduledPipeline
from autosched.search.bottleneck.diagnosis import Diagnosis, diagnose_schedule
from autosched.search.bottleneck.kernel_profile import KernelProfile

if TYPE_CHECKING:
    from autosched.measure.compare.code_differencing import KernelDifference


def diagnoses_of(
    scheduled: ScheduledPipeline,
    counters: Mapping[str, KernelProfile] | None = None,
    confined_ratios: Mapping[str, float] | None = None,
    seconds: Mapping[str, float] | None = None,
) -> list[Diagnosis]:
    """Return the diagnoses of a schedule's kernels, by measured times if there are any, else by predicted ones.

    Args:
        scheduled: The pipeline.
        counters: Profiles from hardware counters, by kernel.
        confined_ratios: Results of code differencing, by kernel.
        seconds: Measured times by kernel; those of the schedule's provenance when left out.
    """
    kernels = compiled_resources(scheduled).kernels
    origin = scheduled.provenance
    prediction = predict(
        scheduled.bound, scheduled.schedule, scheduled.target, scheduled.search_result,
        "" if origin is None else origin.model, [info.registers for info in kernels],
    )  # fmt: skip
    measured = scheduled.measured
    times = [k.seconds for k in prediction.kernels]
    if seconds is not None:
        times = [seconds[info.name] for info in kernels]
    elif measured is not None and measured.kernel_seconds is not None:
        times = list(measured.kernel_seconds)
    found = diagnose_schedule(
        scheduled.bound, scheduled.schedule, scheduled.target, times, kernels, counters=counters,
        confined_ratios=confined_ratios,
    )  # fmt: skip
    return [d for d in found if d is not None]


def print_bottlenecks(diagnoses: Sequence[Diagnosis]) -> None:
    """Print the class and the intensities of each kernel, and then what to try."""
    rows = [(d.profile.name, d.text, _intensities(d)) for d in diagnoses]
    print_table(("kernel", "bottleneck", "flop a byte (balance)"), rows)
    tried: dict[str, list[str]] = {}
    for d in diagnoses:
        for hint in d.hints:
            tried.setdefault(hint, []).append(d.profile.name)
    for hint, names in tried.items():
        others = f" and {len(names) - 3} more" if len(names) > 3 else ""
        click.echo(f"try for {', '.join(names[:3])}{others}: {hint}")


def print_differences(differences: Sequence[KernelDifference]) -> None:
    """Print the time of each kernel and of its confined form."""
    rows = [
        (d.name, format_time(d.seconds), d.problem.partition(": ")[2] or format_time(d.confined_seconds), _ratio(d))
        for d in differences
    ]
    print_table(("kernel", "time", "confined to a tile", "ratio (95 %)"), rows)


def _ratio(d: KernelDifference) -> str:
    return "" if d.problem else f"{d.ratio:.2f} ({d.interval[0]:.2f} to {d.interval[1]:.2f})"


def bottlenecks_data(diagnoses: Sequence[Diagnosis]) -> list[dict[str, Any]]:
    """Return the diagnoses as plain data."""
    return [d.to_data() for d in diagnoses]


def _intensities(d: Diagnosis) -> str:
    if not d.profile.flops:
        return "no floating-point add or multiply"
    return ", ".join(f"{level} {intensity:.3g} ({balance:.3g})" for level, intensity, balance in d.intensities)
