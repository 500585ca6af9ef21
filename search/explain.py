"""Explanation of a search result: predicted times by kernel and by component."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite

from autosched.featurize.schema import INDEX, NAMES
from autosched.runtime.timing.durations import format_time
from autosched.search.cost.cpu.analytical import CpuModel
from autosched.search.cost.gpu_analytical import AnalyticalModel
from autosched.search.refine.mainloop.step_cost import evaluated
from autosched.search.results import SearchResult


@dataclass(frozen=True)
class KernelReport:
    """One kernel of the chosen schedule.

    Attributes:
        func: The Func computed at root.
        members: Fused producers with their levels.
        inlined: Inlined Funcs.
        seconds: Predicted time.
        components: Seconds by unit of the device, where the model separates them.
        features: Features by name, for each stage and inlined Func.
        registers: Registers of a thread by the compiler; None if they are unknown.
        resident_blocks: Resident blocks of a multiprocessor by shared memory, warps and known registers; None on a CPU.
    """

    func: str
    members: tuple[tuple[str, str], ...]
    inlined: tuple[str, ...]
    seconds: float
    components: Mapping[str, float]
    features: Mapping[str, Mapping[str, float]]
    registers: int | None = None
    resident_blocks: int | None = None

    def __repr__(self) -> str:
        inside = [f"{name} at {level}" for name, level in self.members] + [f"{name} inlined" for name in self.inlined]
        fused = f" with {', '.join(inside)}" if inside else ""
        return f"<KernelReport {self.func}{fused}: predicted {format_time(self.seconds)}>"


def explain(result: SearchResult, registers: Sequence[int | None] = ()) -> list[KernelReport]:
    """Return a report on each kernel of the best schedule; none if the strategy predicts no times.

    Args:
        result: The search.
        registers: Registers of a thread of each kernel, if the schedule has been compiled. They limit the residency
            that the analytical model predicts with (`with_compiled_registers`); features are those without.
    """
    best = result.ranked[0]
    evaluator = best.evaluator or result.evaluator
    if evaluator is None or not isfinite(best.seconds):
        return []
    reports = []
    known = registers or [None] * len(best.schedule.kernels)
    for kernel, count in zip(best.schedule.kernels, known, strict=True):
        plain = evaluated(evaluator.featurizer, kernel)
        evaluation = plain.with_registers(evaluator.model, count)
        model, batch = evaluation.model, evaluation.batch_evaluation
        parts: dict[str, float] = {}
        if isinstance(evaluator.model, AnalyticalModel | CpuModel):
            parts = {name: float(seconds[0]) for name, seconds in evaluator.model.parts(batch).items()}
        seconds = evaluation.seconds(evaluator.model)
        names = [*map(str, model.rows), *model.inlined]
        rows = {
            n: dict(zip(NAMES, plain.batch_evaluation.features[0, k].tolist(), strict=True))
            for k, n in enumerate(names)
        }
        resident = int(batch.features[0, 0, INDEX["resident_blocks"]]) if evaluator.target.kind == "cuda" else None
        members = tuple((m.func, m.at.level.name) for m in kernel.fused)
        names_inlined = tuple(model.inlined)
        reports.append(
            KernelReport(kernel.root_funcs[-1], members, names_inlined, seconds, parts, rows, count, resident)
        )
    return reports
