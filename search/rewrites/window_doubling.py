"""Windows by recursive doubling, for reductions over several neighbouring elements.

A window of n elements takes about 4 log4(n) operands instead of n, by Funcs for shorter windows. The search then
decides which of them are stored and which are inlined: all inlined, they are the reduction itself.
"""

from __future__ import annotations

from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.analysis.pipeline_rewrites import WindowDoubling
from autosched.analysis.rewrites.window_doubling import double_windows, window_error

SHORTEST = 3
"""Least elements of a window. Those of 3 have no shorter windows, but become pure Funcs without a loop."""
MOST_WINDOWS = 16
"""Most windows of one rewrite."""


def window_rewrites(bound: BoundPipeline) -> list[BoundPipeline]:
    """Return the pipeline with all long windows by doubling; empty if there are none.

    Args:
        bound: The pipeline, without rewrites.
    """
    windowed = bound
    while len(windowed.windows) < MOST_WINDOWS and (window := _next_window(windowed)) is not None:
        windowed = double_windows(bound, (*windowed.windows, window))
    return [windowed] if windowed.windows else []


def _next_window(bound: BoundPipeline) -> WindowDoubling | None:
    """Return the first long window of a pipeline, the innermost loop first; None if there is none."""
    for func in bound.funcs.values():
        for stage in func.stages[1:]:
            for loop in reversed(stage.reductions):
                window = WindowDoubling(func.name, stage.number, loop.name)
                if loop.extent >= SHORTEST and not window_error(bound, window):
                    return window
    return None
