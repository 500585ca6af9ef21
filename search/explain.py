"""Why a search chose what it chose: predicted times split into components, kernel by kernel."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from autosched.featurize.schema import NAMES
from autosched.search.analytical import AnalyticalModel
from autosched.search.analytical_cpu import CpuModel
from autosched.search.strategy import Found


@dataclass(frozen=True)
class KernelReport:
    """One kernel of the chosen schedule.

    Attributes:
        func: The Func computed at root.
        members: Funcs computed inside it, with their level.
        inlined: Funcs inlined into it.
        seconds: Predicted time.
        components: Seconds of each unit of the device, where the model tells them apart.
        features: By stage (and inlined Func), the features by name.
    """

    func: str
    members: tuple[tuple[str, str], ...]
    inlined: tuple[str, ...]
    seconds: float
    components: Mapping[str, float]
    features: Mapping[str, Mapping[str, float]]


def explain(found: Found) -> list[KernelReport]:
    """Return a report on each kernel of the best schedule; none where the strategy predicts no times."""
    state, evaluator = found.ranked[0].state, found.ranked[0].evaluator or found.evaluator
    if state is None or evaluator is None:
        return []
    reports = []
    for piece, seconds in zip(state.pieces, state.costs, strict=True):
        s = piece.structure
        model = evaluator.kernel_model(s)
        evaluation = model.f.evaluate([model], [np.array([piece.params], np.int64)])
        features = evaluation.features
        parts: dict[str, float] = {}
        if isinstance(evaluator.model, AnalyticalModel | CpuModel):
            parts = {name: float(seconds[0]) for name, seconds in evaluator.model.parts(evaluation).items()}
        names = [*map(str, model.rows), *model.inlined]
        rows = {n: dict(zip(NAMES, features[0, k].tolist(), strict=True)) for k, n in enumerate(names)}
        members = tuple((p.func, p.level.name) for p in s.spots)
        reports.append(KernelReport(s.func, members, tuple(model.inlined), seconds, parts, rows))
    order = {name: k for k, name in enumerate(evaluator.bound.funcs)}
    return sorted(reports, key=lambda r: order[r.func])
