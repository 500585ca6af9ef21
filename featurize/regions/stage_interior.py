"""The interior of a stage: the middle half of its domain, where no boundary condition acts."""

from __future__ import annotations

from autosched.analysis.bound_pipeline import BoundPipeline, BoundStage
from autosched.analysis.indices import index as ix


def same_loops(whole: ix.Index, inside: ix.Index) -> bool:
    """Whether an index depends on the same loops after their ranges are restricted."""
    return ix.loop_vars(whole).keys() <= ix.loop_vars(inside).keys()


def interior(bound: BoundPipeline, stage: BoundStage) -> dict[str, ix.Index]:
    """Return each loop of a stage restricted to the middle half of its range.

    Clamps of indices simplify away there, as in the interior code of a generated kernel.
    """
    func = bound.funcs[stage.func]
    box = dict(zip(func.dims, func.region, strict=True))
    env: dict[str, ix.Index] = {}
    for d in stage.loops:
        if d.reduction:
            env[d.name] = (
                ix.var(d.name, d.lo, d.hi) if d.hi > d.lo else ix.Affine(((ix.LoopVar(d.name, d.lo, d.lo), 1),), 0)
            )
            continue
        lo, hi = box[d.name]
        quarter = (hi - lo + 1) // 4
        # A loop variable even for one point: the thread loop may have more iterations.
        env[d.name] = ix.Affine(((ix.LoopVar(d.name, lo + quarter, max(hi - quarter, lo + quarter)), 1),), 0)
    return env
