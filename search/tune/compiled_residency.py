"""Predicted times of compiled schedules: their registers limit the resident blocks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import isnan

from autosched.search.cost.gpu_analytical import AnalyticalModel
from autosched.search.cost.protocol import rounded_cost
from autosched.search.refine.mainloop.step_cost import evaluated
from autosched.search.results import RankedSchedule
from autosched.search.tune.spill_filter import SpillTable


def with_compiled_residency(ranked: Sequence[RankedSchedule], table: SpillTable) -> tuple[RankedSchedule, ...]:
    """Return schedules with the times that follow from their registers, the fastest first.

    Only times of the analytical model change (`autosched.search.cost.compiled_registers`), and only of kernels that the
    table has compiled.

    Args:
        ranked: Schedules of one pipeline.
        table: Registers of compiled kernels.
    """
    return tuple(
        sorted((_predicted_again(r, table) for r in ranked), key=lambda r: (isnan(r.seconds), rounded_cost(r.seconds)))
    )


def _predicted_again(ranked: RankedSchedule, table: SpillTable) -> RankedSchedule:
    evaluator = ranked.evaluator
    if evaluator is None or not isinstance(evaluator.model, AnalyticalModel):
        return ranked
    seconds = ranked.seconds
    for kernel, registers in zip(ranked.schedule.kernels, table.registers(ranked.schedule), strict=True):
        if registers is not None:
            free = evaluated(evaluator.featurizer, kernel)
            limited = free.with_registers(evaluator.model, registers)
            seconds += limited.seconds(evaluator.model) - free.seconds(evaluator.model)
    return ranked if seconds == ranked.seconds else replace(ranked, seconds=seconds)
