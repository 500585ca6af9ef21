"""Lighter variants of spilling kernels with steps: mainloops and sliding windows with smaller tiles of one step."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from autosched.errors import AutoschedError
from autosched.schedule.legality.validate import kernel_violations
from autosched.schedule.types import Kernel
from autosched.search.evaluate.evaluator import KernelEvaluator
from autosched.search.refine.mainloop.mainloop_sites import site_of_mainloop, terms_of_step
from autosched.search.refine.mainloop.step_cost import evaluated
from autosched.search.refine.mainloop.step_search import StepTilingSearch, TransferMode
from autosched.search.refine.sliding_window.sliding_search import ROWS_OF_STEP
from autosched.search.refine.sliding_window.sliding_sites import site_of_window
from autosched.search.refine.sliding_window.walk_search import (
    WalkTilingSearch,
    direction_of,
    sliding_window_kernel,
    step_counts,
)

LIMITS = ((256, 64), (128, 64), (512, 32), (256, 32), (128, 32), (256, 16), (128, 16), (128, 8), (128, 4), (128, 1))
"""Limits of threads per block and points per thread, in the order of trial."""
MOST_TRIED = 4
"""Tilings within the limits, the fastest ones, that are checked for a legal kernel."""


def lighter_steps(evaluator: KernelEvaluator, kernel: Kernel) -> Iterator[tuple[Kernel, float]]:
    """Yield variants of a kernel with steps within tighter and tighter limits, with their extra predicted seconds.

    For each limit the fastest legal tiling is taken, first with the kernel's transfer mode, then with a single buffer,
    whose loads wait in no registers.

    Args:
        evaluator: Evaluator of the pipeline's kernels.
        kernel: A kernel with a mainloop or a sliding window.
    """
    variants = _window_variants if kernel.is_sliding_window else _mainloop_variants
    try:
        before = evaluated(evaluator.featurizer, kernel).seconds(evaluator.model)
        seen = {kernel}
        for variant, seconds in variants(evaluator, kernel):
            if variant not in seen:
                seen.add(variant)
                yield variant, seconds - before
    except AutoschedError:  # a kernel outside of the search space
        return


def _distance(rows: int, points: int, steps: int) -> tuple[int, int]:
    """Return the order of a step count by the distance of its points from those of a block."""
    return abs(steps * rows - points), steps


def _transfers(kernel: Kernel) -> tuple[TransferMode, ...]:
    return tuple(dict.fromkeys((TransferMode.of(kernel), TransferMode.SINGLE_BUFFER)))


def _mainloop_variants(evaluator: KernelEvaluator, kernel: Kernel) -> Iterator[tuple[Kernel, float]]:
    bound, target = evaluator.bound.rewritten, evaluator.target
    site = site_of_mainloop(bound, kernel, 0)
    if site is None:
        return
    terms = terms_of_step(kernel)
    searches = [
        StepTilingSearch(bound, target, evaluator.model, evaluator.settings, site, terms, t) for t in _transfers(kernel)
    ]
    for search in searches:
        search.tile()
    for threads, points in LIMITS:
        for search in searches:
            for params in search.within(threads, points)[:MOST_TRIED]:
                variant = search.kernel(search.sketch, params)
                if not kernel_violations(bound, variant, target):
                    yield variant, search.seconds(params)
                    break


def _window_variants(evaluator: KernelEvaluator, kernel: Kernel) -> Iterator[tuple[Kernel, float]]:
    bound, target = evaluator.bound.rewritten, evaluator.target
    site, present = site_of_window(kernel, 0), direction_of(kernel)
    if site is None:
        return
    covered = kernel.mainloops[0].extent * present.rows
    searches = []
    for rows in dict.fromkeys((present.rows, *sorted((n for n in ROWS_OF_STEP if n < present.rows), reverse=True))):
        direction = replace(present, rows=rows)
        search = WalkTilingSearch(
            bound, target, evaluator.model, evaluator.settings, site, direction, lambda: False
        )  # fmt: skip
        counts = step_counts(bound, site, direction)
        if counts and search.tiled:
            searches.append((search, min(counts, key=partial(_distance, rows, covered))))
    for threads, points in LIMITS:
        for search, steps in searches:
            for params in search.within(threads, points)[:MOST_TRIED]:
                for transfer in _transfers(kernel):
                    variant = sliding_window_kernel(bound, site, search.walk(params), steps, transfer)
                    if not kernel_violations(bound, variant, target):
                        yield variant, evaluated(evaluator.featurizer, variant).seconds(evaluator.model)
