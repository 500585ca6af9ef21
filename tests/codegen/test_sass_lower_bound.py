"""Lower bounds of instructions of kernels with mainloops and sliding windows, where the counts are known."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from sass.lower_bound import lower_bound

from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.lower.program import lower
from autosched.schedule.legality.validate import violations
from autosched.schedule.types import LoopKind, Schedule
from autosched.search.refine.mainloop.mainloop_search import MainloopSearch
from autosched.search.refine.mainloop.step_search import TransferMode
from autosched.search.refine.sliding_window.sliding_search import SlidingWindowSearch
from tests.schedule.mainloop_cases import product
from tests.search.test_sliding_search import H200, sweeps
from tests.search.test_step_mutations import with_steps


def in_mode(bound: BoundPipeline, found: Schedule, mode: TransferMode) -> Schedule:
    """Return a schedule of one kernel whose steps load in a transfer mode."""
    (kernel,) = found.kernels
    schedule = replace(found, kernels=(mode.applied(kernel),))
    assert not violations(bound, schedule, H200)
    return schedule


@pytest.mark.parametrize("mode", [TransferMode.SINGLE_BUFFER, TransferMode.DOUBLE_BUFFER])
def test_sliding_window(mode: TransferMode) -> None:
    """Prologue and main loop name the sliding index alike; each point of both stages counts once."""
    bound = sweeps()
    schedule = in_mode(bound, with_steps(bound, SlidingWindowSearch), mode)
    (kernel,), (ir,) = schedule.kernels, lower(bound, schedule).kernels
    loops = [p for p in kernel.roots[0].tiling.loops if p.kind is not LoopKind.BLOCK]
    tile = {d: math.prod(p.extent for p in loops if p.dim == d) for d in ("z", "y", "x")}
    points = math.prod(tile.values())
    window = math.prod(n + 2 for n in tile.values())  # with a halo of one point on each side
    counted = lower_bound(ir, [n // 2 for _, n in ir.grid_loops], lambda *_: 1)
    assert counted.operations == {"mul": 2 * (points + window), "add": 6 * (points + window)}
    assert counted.stores == {"global": points, "shared": window}


@pytest.mark.parametrize("mode", list(TransferMode))
def test_mainloop(mode: TransferMode) -> None:
    terms = 32
    bound = product(128, 192, terms)
    schedule = in_mode(bound, with_steps(bound, MainloopSearch), mode)
    (kernel,), (ir,) = schedule.kernels, lower(bound, schedule).kernels
    points = math.prod(p.extent for p in kernel.roots[0].tiling.loops if p.kind is not LoopKind.BLOCK)
    counted = lower_bound(ir, [n // 2 for _, n in ir.grid_loops], lambda *_: 1)
    assert counted.operations == {"mul": points * terms + points, "add": points * terms, "max": points}
    assert counted.stores["global"] == points
