"""How much a search does for pipelines of very many Funcs: its work grows faster than their number.

Pipelines that people write have up to some hundred Funcs. In longer ones, what costs less to compute again than to
store is inlined before anything is decided, as the baseline does it, so that a chain of thousands of pointwise Funcs is
a kernel with hardly a choice. Where many kernels are left to decide, one state is followed, and in the end none.
"""

from __future__ import annotations

from dataclasses import replace

from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.schedule.tilings import fusable_roots
from autosched.search.settings import SearchSettings
from autosched.search.strategies.compute_root import inlined_funcs

MANY_FUNCS = 128
"""In pipelines of more Funcs, cheap ones are inlined without a choice."""
MANY_KERNELS = 128
"""With more kernels to decide, a search follows one state."""
TOO_MANY_KERNELS = 512
"""With more, there is no search but the baseline's schedule."""
TOO_LONG = f"more than {TOO_MANY_KERNELS} kernels to place and tile are too many; this is the baseline schedule"


def inlined_before(bound: BoundPipeline) -> frozenset[str]:
    """Return the Funcs that are inlined before a search begins; none but in long pipelines."""
    return frozenset(inlined_funcs(bound)) if len(bound.funcs) > MANY_FUNCS else frozenset()


def undecided(bound: BoundPipeline) -> int:
    """Return the number of kernels whose places and tiles a search decides."""
    before = inlined_before(bound)
    return sum(max(len(fusable_roots(f)), 1) for name, f in bound.funcs.items() if name not in before)


def is_too_long(bound: BoundPipeline) -> bool:
    """Whether a pipeline has more kernels to decide than any search is made for."""
    return undecided(bound) > TOO_MANY_KERNELS


def affordable(settings: SearchSettings, bound: BoundPipeline) -> SearchSettings:
    """Return settings with which a search of a pipeline ends in seconds to minutes; the same but for long ones."""
    if undecided(bound) <= MANY_KERNELS:
        return settings
    return replace(
        settings,
        beam_size=1,
        passes=1,
        freeze=False,
        refine=0,
        cache_read_tolerance=0.0,
        materialise=False,
        rfactor=False,
        atomics="none",
        warp_reductions=False,
        horizontal_fusion=False,
        mainloops=False,
        sliding_windows=False,
    )


def fewer_samples(samples: int, bound: BoundPipeline) -> int:
    """Return how many searches of a pipeline are affordable: all that are asked for, of long ones a single one."""
    return samples if undecided(bound) <= MANY_KERNELS else 1
