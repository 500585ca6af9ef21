"""One step of a reduction that a block walks in steps: a view of the pipeline in which it has the terms of a step only.

What a block does in each step is what it does in a kernel of that pipeline, so features are worked out for one step.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from autosched.analysis.bound import BoundPipeline


def with_step(
    bound: BoundPipeline, func: str, stage: int, terms: Mapping[str, int], buffers: int = 1
) -> BoundPipeline:  # fmt: skip
    """Return the pipeline with fewer terms in one update, of which threads hold all points in registers.

    The same step gives the same object.

    Args:
        bound: The pipeline.
        func: The Func.
        stage: Number of its update.
        terms: Iterations of each reduction loop in one step; the first ones stand for all.
        buffers: Of what is staged in a step.
    """
    key = func, stage, buffers, tuple(sorted(terms.items()))
    found = bound.step_views.get(key)
    if found is None:
        owner = bound.funcs[func]
        update = owner.stages[stage]
        loops = tuple(replace(d, hi=d.lo + terms[d.name] - 1) if d.name in terms else d for d in update.loops)
        stages = (*owner.stages[:stage], replace(update, loops=loops), *owner.stages[stage + 1 :])
        funcs = {**bound.funcs, func: replace(owner, stages=stages)}
        found = replace(
            bound,
            funcs=funcs,
            held=func,
            buffers=buffers,
            views={},
            split_views={},
            join_views={},
            step_views={},
            lane_views={},
            lanes=(),
            unshared=None,
        )
        bound.step_views[key] = found
    return found
