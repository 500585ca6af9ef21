"""Settings and rewrites of a guided search."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace

from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.analysis.rewrites.cache_read import cached_source
from autosched.search.guidance.guide import Guide
from autosched.search.settings import SearchSettings


def guided_settings(settings: SearchSettings, guide: Guide) -> SearchSettings:
    """Return settings with a guide, in which no heuristic rule prunes what the guide chooses.

    Args:
        settings: Settings of an unguided search.
        guide: The guide.
    """
    if not guide:
        return settings
    kernels = [guide.every, *guide.kernels.values()]
    if any(k.threads for k in kernels):
        settings = replace(settings, max_idle_lanes=1.0)
    if guide.memory or guide.fuse or any(k.threads or k.points or k.unroll for k in kernels):
        settings = replace(settings, max_recompute=math.inf)
    return replace(settings, guide=guide, baseline_tolerance=0.0)  # simpler strategies meet no guide


def guided_rewrites(rewrites: Iterable[BoundPipeline], guide: Guide) -> list[BoundPipeline]:
    """Return the rewrites of a pipeline that keep all Funcs which a guide names; the pipeline itself comes first.

    Args:
        rewrites: The pipeline and its rewrites.
        guide: The guide.
    """
    names = {cached_source(n) or n for n in (*guide.kernels, *guide.memory, *(f for g in guide.fuse for f in g))}
    return [r for k, r in enumerate(rewrites) if k == 0 or all(n in r.funcs or n in r.inputs for n in names)]
