"""The resource of the device that a schedule is bound by, after the classes of its kernels."""

from __future__ import annotations

from collections import Counter

from autosched.report.prediction import predict
from autosched.runtime.backends.factory import launch_info
from autosched.scheduled_pipeline import ScheduledPipeline
from autosched.search.bottleneck.classification import Bottleneck, BottleneckKind
from autosched.search.bottleneck.diagnosis import diagnose_schedule

LATENCY = "latency"
"""Name of latency as a bound, as on small grids."""
COMPUTATION = "computation"


def bounding_unit(scheduled: ScheduledPipeline) -> tuple[str, bool | None]:
    """Return the bottleneck with the most predicted time over all kernels, and whether it is memory or a cache.

    Classes are those of `autosched.search.bottleneck`, from features and the analytical model's times (Artemis, section
    IV): fused steps relieve every level of memory (section VI-A).

    Args:
        scheduled: A pipeline with its schedule.

    Returns:
        The level of memory, ``computation`` or ``latency``; empty, with None, if the model has no time of a kernel.
    """
    prediction = predict(scheduled.bound, scheduled.schedule, scheduled.target)
    times = [kernel.seconds for kernel in prediction.kernels]
    found = diagnose_schedule(
        scheduled.bound, scheduled.schedule, scheduled.target, times, launch_info(scheduled.program)
    )
    seconds: Counter[tuple[str, bool]] = Counter()
    for time, diagnosis in zip(times, found, strict=True):
        if diagnosis is None:
            return "", None
        bottleneck = diagnosis.bottleneck
        seconds[_name(bottleneck, scheduled.target.kind), bottleneck.is_bound_by_memory] += time  # type: ignore[assignment]
    return max(seconds, key=lambda unit: seconds[unit], default=("", None))


def _name(bottleneck: Bottleneck, kind: str) -> str:
    if bottleneck.level is not None:
        return bottleneck.level.title(kind)
    return LATENCY if bottleneck.kind is BottleneckKind.LATENCY else COMPUTATION
