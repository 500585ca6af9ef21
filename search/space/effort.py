"""Limits on the effort of a search for pipelines of very many Funcs, where it grows faster than their number.

Hand-written pipelines have up to about a hundred Funcs. In longer ones, all Funcs that are cheaper to recompute than to
materialise are inlined without a decision, as in the baseline. A chain of thousands of pointwise Funcs then becomes one
kernel. With many kernels left, the search is greedy; with too many, the baseline is the result.
"""

from __future__ import annotations

from dataclasses import replace

from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.schedule.tilings import fusable_roots
from autosched.search.settings import SearchSettings
from autosched.search.strategies.compute_root import inlined_funcs

MANY_FUNCS = 128
"""Number of Funcs above which cheap ones are inlined without a decision."""
MANY_KERNELS = 128
"""Number of undecided kernels above which the search is greedy."""
TOO_MANY_KERNELS = 512
"""Number of undecided kernels above which the baseline schedule is the result."""
TOO_LONG = f"more than {TOO_MANY_KERNELS} kernels to place and tile are too many; this is the baseline schedule"


def inlined_before(bound: BoundPipeline) -> frozenset[str]:
    """Return the Funcs that are inlined without a decision; none except in long pipelines."""
    return frozenset(inlined_funcs(bound)) if len(bound.funcs) > MANY_FUNCS else frozenset()


def undecided(bound: BoundPipeline) -> int:
    """Return the number of kernels with compute locations and tilings to decide."""
    inlined = inlined_before(bound)
    return sum(max(len(fusable_roots(f)), 1) for name, f in bound.funcs.items() if name not in inlined)


def is_too_long(bound: BoundPipeline) -> bool:
    """Whether a pipeline has too many undecided kernels for any search."""
    return undecided(bound) > TOO_MANY_KERNELS


def affordable(settings: SearchSettings, bound: BoundPipeline) -> SearchSettings:
    """Return settings with which a search ends in seconds to minutes; unchanged except for long pipelines."""
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
        windows=False,
        scans=False,
        packing=False,
        deinterleaving=False,
        hoisting=False,
        unrolling=False,
        folding=False,
        horizontal_fusion=False,
        fission=False,
        retiming=False,
        mainloops=False,
        sliding_windows=False,
        linear_threads=False,
        partitions=False,
        cyclic_distribution=False,
    )


def fewer_samples(samples: int, bound: BoundPipeline) -> int:
    """Return the number of searches to run: the requested number, or one for long pipelines."""
    return samples if undecided(bound) <= MANY_KERNELS else 1
