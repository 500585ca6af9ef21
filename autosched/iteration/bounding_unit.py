"""The unit of the device that a schedule is bound by, after the analytical model."""

from __future__ import annotations

from collections import Counter

from autosched.report.prediction import predict
from autosched.scheduled_pipeline import ScheduledPipeline
from autosched.search.cost.cpu.analytical import OF_MEMORY

_MEMORY_OF_GPU = frozenset({"dram", "l2", "memory_requests", "shared"})
"""Units of a GPU that fused steps relieve (Artemis, section VI-A)."""
LATENCY = "latency"
"""Unit of a GPU whose threads wait, as on small grids."""
COMPUTATION, MEMORY = "computation", "memory and caches"
"""Units of a CPU: memory and caches overlap with computation."""


def bounding_unit(scheduled: ScheduledPipeline) -> tuple[str, bool | None]:
    """Return the unit with the most predicted time over all kernels, and whether it is memory or a cache.

    Args:
        scheduled: A pipeline with its schedule.

    Returns:
        The name of the unit; empty, with None, if the model has no time of a kernel.
    """
    prediction = predict(scheduled.bound, scheduled.schedule, scheduled.target)
    seconds: Counter[str] = Counter()
    for kernel in prediction.kernels:
        for name, part in kernel.components.items():
            if scheduled.target.kind == "cpu":
                name = MEMORY if name in OF_MEMORY else COMPUTATION
            seconds[name] += part  # type: ignore[assignment]
    seconds.pop("launch", None)
    if not seconds:
        return "", None
    unit = max(seconds, key=lambda name: seconds[name])
    return unit, unit == MEMORY or unit in _MEMORY_OF_GPU
