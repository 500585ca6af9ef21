"""Random rfactors and windows by doubling."""

from __future__ import annotations

import numpy as np

from autosched.analysis.bound_pipeline import BoundPipeline, BoundStage
from autosched.analysis.pipeline_rewrites import RFactor, WindowDoubling
from autosched.analysis.rewrites.rfactor import apply_rfactors, rfactor_error
from autosched.analysis.rewrites.window_doubling import double_windows, window_error
from autosched.schedule.kernel.warp_reduction import accumulation_of
from autosched.schedule.reassociation import SELECTIONS, shows_zero_signs
from autosched.schedule.types import StageId

MOST = 2
ATOMIC_SHARE = 0.5
"""Share of the splits of integers that are atomic, where devices can do so."""
WHOLE_SHARE = 0.3
"""Share of these in which all iterations are of one piece."""
WINDOW_SHARE = 0.7
"""Share of the windows that are computed by doubling."""
CONTIGUOUS_SHARE = 0.3
"""Share of the factored reductions whose parts have consecutive iterations."""


def random_splits(bound: BoundPipeline, rng: np.random.Generator) -> BoundPipeline:
    """Return a pipeline with some windows by doubling, then one or two reductions factored; itself if none can be."""
    bound = _random_windows(bound, rng)
    for _ in range(int(rng.integers(1, MOST + 1))):
        stages = [s for f in bound.funcs.values() for s in f.stages[1:] if s.associative and _loops(s)]
        stages = [s for s in stages if not s.is_empty and s.func in _declared(bound)]
        if not stages:
            break
        stage = stages[int(rng.integers(len(stages)))]
        loops = _loops(stage)
        chosen = rng.permutation(len(loops))[: int(rng.integers(1, len(loops) + 1))]
        pieces = tuple((loops[k][0], int(rng.integers(2, loops[k][1] + 1))) for k in sorted(chosen))
        whole = bool(rng.random() < WHOLE_SHARE)
        atomic = RFactor(stage.func, stage.number, () if whole else pieces, atomic=True)
        exact = all(d.is_int for d in bound.funcs[stage.func].dtypes)  # any order gives the same
        usable = exact and rng.random() < ATOMIC_SHARE and not rfactor_error(bound, atomic)
        plain = RFactor(stage.func, stage.number, pieces, contiguous=bool(rng.random() < CONTIGUOUS_SHARE))
        split = atomic if usable else plain
        if not rfactor_error(bound, split):
            bound = apply_rfactors(bound, (*bound.rfactors, split))
    return bound


def _random_windows(bound: BoundPipeline, rng: np.random.Generator) -> BoundPipeline:
    declared = _declared(bound)
    stages = [s for name in bound.funcs if name in declared for s in bound.funcs[name].stages[1:]]
    for window in [WindowDoubling(s.func, s.number, d.name) for s in stages for d in s.reductions]:
        if not window_error(bound, window) and rng.random() < WINDOW_SHARE:
            bound = double_windows(bound, (*bound.windows, window))
    return bound


def is_exact(bound: BoundPipeline, view: BoundPipeline) -> bool:
    """Return whether rewritten reductions give the same values in any order: integers, minima and maxima.

    Args:
        bound: The pipeline without rfactor.
        view: The pipeline with windows by doubling and rfactor.
    """
    changed = (*view.windows, *view.rfactors)
    return all(_rounds_nothing(bound, StageId(s.func, s.stage)) for s in changed) and not (
        shows_zero_signs(bound.pipeline) and any(_has_floats(bound, s.func) for s in changed)
    )


def _rounds_nothing(bound: BoundPipeline, stage: StageId) -> bool:
    if not _has_floats(bound, stage.func):
        return True
    found = accumulation_of(bound, stage)
    return found is not None and SELECTIONS.issuperset(found.operators)


def _has_floats(bound: BoundPipeline, func: str) -> bool:
    return func in bound.funcs and any(not d.is_int for d in bound.funcs[func].dtypes)  # of the same kind


def _loops(stage: BoundStage) -> list[tuple[str, int]]:
    return [(d.name, d.extent) for d in stage.reductions if d.extent > 1]


def _declared(bound: BoundPipeline) -> set[str]:
    """Return the Funcs of the pipeline itself; binding adds copies of outputs."""
    return {bound.pipeline.name_of(f) for f in bound.pipeline.funcs}
