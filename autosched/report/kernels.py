"""Collected facts of each kernel for a report."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from autosched.errors import InputError
from autosched.report.bars_svg import LIMIT, MEASURED, PREDICTED, Bar, bars_svg
from autosched.report.colours import kernel_colour
from autosched.report.graph_svg import WHERE
from autosched.report.limits import Limit, kernel_limit
from autosched.report.measured import Measured
from autosched.report.prediction import KernelPrediction, Prediction
from autosched.report.resources import OccupancyRow, Resources, occupancy
from autosched.report.sources import UserLines, kernel_sources, user_lines
from autosched.report.svg import markup
from autosched.runtime.backends.kernel_info import KernelInfo
from autosched.schedule.io.text import kernel_text
from autosched.schedule.types import Kernel
from autosched.scheduled_protocol import Scheduled
from autosched.search.bottleneck.diagnosis import Diagnosis, diagnose_schedule


@dataclass(frozen=True, slots=True)
class KernelFacts:
    """Facts of one kernel.

    Attributes:
        number: Its number in launch order.
        name: Funcs computed over its grid.
        members: Fused producers, by compute location.
        inlined: Funcs inlined into it.
        info: Launch configuration and registers.
        occupancy: Occupancy of a multiprocessor; None on a CPU.
        limit: Lower bounds of its work and time.
        predicted: Prediction of the cost model.
        measured_seconds: Its measured time; NaN if unknown.
        verb: ``measured`` or ``simulated``.
        nest: Its loops as text.
        source: Its generated text.
        user_lines: The user's definitions.
        diagnosis: Its bottleneck, and what to try; None if the featurizer refuses it.
    """

    number: int
    name: str
    members: Mapping[str, Sequence[str]]
    inlined: tuple[str, ...]
    info: KernelInfo
    occupancy: OccupancyRow | None
    limit: Limit
    predicted: KernelPrediction
    measured_seconds: float
    verb: str
    nest: str
    source: str
    user_lines: Sequence[UserLines]
    diagnosis: Diagnosis | None

    @property
    def colour(self) -> str:
        """Its colour in every drawing."""
        return kernel_colour(self.number)

    @property
    def best_seconds(self) -> float:
        """Its measured time, else its predicted one."""
        return self.predicted.seconds if math.isnan(self.measured_seconds) else self.measured_seconds

    @property
    def bars(self) -> str:
        """Bar chart of its times and limits."""
        bars = [
            Bar("memory limit", self.limit.memory_seconds, LIMIT),
            Bar("arithmetic limit", self.limit.arithmetic_seconds, LIMIT),
            Bar("predicted", self.predicted.seconds, PREDICTED),
        ]
        if not math.isnan(self.measured_seconds):
            bars.append(Bar(self.verb, self.measured_seconds, MEASURED))
        return markup(bars_svg(bars, f"Times of kernel {self.number}"))


def kernel_facts(
    scheduled: Scheduled, prediction: Prediction, resources: Resources, measured: Measured | None
) -> list[KernelFacts]:
    """Return the facts of every kernel, in launch order.

    Raises:
        InputError: If the number of given times is not the number of kernels.
    """
    bound, kernels = scheduled.bound, scheduled.schedule.kernels
    seconds = (math.nan,) * len(kernels)
    if measured is not None and measured.kernel_seconds is not None:
        seconds = measured.kernel_seconds
    if len(seconds) != len(kernels):
        raise InputError(
            f"times of {len(seconds)} kernels are given for a schedule of {len(kernels)}: give all or none"
        )
    sources = kernel_sources(scheduled.program, scheduled.target)
    times = [p.seconds if math.isnan(t) else t for p, t in zip(prediction.kernels, seconds, strict=True)]
    diagnoses = diagnose_schedule(bound, scheduled.schedule, scheduled.target, times, resources.kernels)
    return [
        KernelFacts(
            number=k,
            name=", ".join(kernel.root_funcs),
            members=_producers_by_level(kernel),
            inlined=tuple(i.func for i in kernel.inlined),
            info=info,
            occupancy=occupancy(scheduled.target, info),
            limit=kernel_limit(bound, kernel, predicted, scheduled.target),
            predicted=predicted,
            measured_seconds=time,
            verb="measured" if measured is None else measured.verb,
            nest=kernel_text(bound, kernel, f"kernel {k}"),
            source=source,
            user_lines=user_lines(bound, kernel),
            diagnosis=diagnosis,
        )
        for k, (kernel, info, predicted, time, source, diagnosis) in enumerate(
            zip(kernels, resources.kernels, prediction.kernels, seconds, sources, diagnoses, strict=True)
        )
    ]


def _producers_by_level(kernel: Kernel) -> dict[str, list[str]]:
    producers: dict[str, list[str]] = {}
    for m in sorted(kernel.fused, key=lambda m: m.at.level):
        producers.setdefault(WHERE.get(m.at.level, m.at.level.name), []).append(m.func)
    return producers
