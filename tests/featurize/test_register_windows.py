"""Features of sliding windows in registers, against counts of their code."""

from __future__ import annotations

import pytest

from autosched import Func, Input, Pipeline, Var, float64
from autosched.analysis.bind import bind
from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.featurize.featurizer import Featurizer
from autosched.featurize.schema import INDEX
from autosched.lower.program import lower
from autosched.schedule.kernel.aligned_tilings import with_register_windows
from autosched.schedule.legality.validate import kernel_violations
from autosched.schedule.types import ComputeAt, Kernel, Level
from autosched.search.cost.gpu_analytical import AnalyticalModel
from autosched.search.refine.mainloop.step_cost import evaluated
from autosched.target import get_target
from tests.lower.run_backends import traced
from tests.schedule.building import kernel, member, root, schedule, stage

H200 = get_target("h200")
z, y, x = Var("z"), Var("y"), Var("x")
BLOCKS = 2 * 2


def star() -> BoundPipeline:
    """Return a star of a copy, without clamps or partial tiles: 16 x 16 x 30 points."""
    volume, first, out = Input("volume", float64, 3), Func("first"), Func("out")
    first[z, y, x] = volume[z, y, x] * 2
    across = first[z, y - 1, x] + first[z, y + 1, x] + first[z, y, x - 1] + first[z, y, x + 1]
    out[z, y, x] = across + first[z - 1, y, x] + first[z + 1, y, x]
    return bind(Pipeline(out.over(z=(1, 17), y=(1, 17), x=(1, 31)), name="star"), {"volume": (18, 18, 32)})


def of_star(bound: BoundPipeline, points: str = "") -> Kernel:
    """Return a kernel with the copy in registers: blocks of 32 threads along x, two blocks along z and y."""
    at = ComputeAt(Level.MAINLOOP, stage("out"), 4)
    threads = 4 if points else 8
    tiles = f"bz=2 by=2 bx=1 sz=8 tx=30 ty={threads} {points}"
    one = kernel(bound, [root("out", tiles)], [member(at, ("z", "y", "x"), first="")])
    one = with_register_windows(bound, one, {"first"})
    assert not kernel_violations(bound, one, H200)
    return one


@pytest.mark.parametrize("ahead", [False, True])
@pytest.mark.parametrize("points", ["", "sy=2"])
def test_counts_are_those_of_the_emulator(points: str, ahead: bool) -> None:
    bound = star()
    one = of_star(bound, points)
    one = one.with_double_buffering() if ahead else one
    program = lower(bound, schedule(bound, one))
    found = evaluated(Featurizer(bound, H200, every_warp=True), one).batch_evaluation
    trace = traced(bound, program)

    def summed(*names: str) -> float:
        return float(sum(found.features[0, :, INDEX[name]].sum() for name in names)) * BLOCKS

    def counted(space: str, *, store: bool, wavefronts: bool = False) -> int:
        of = trace.wavefronts if wavefronts else trace.sectors
        return sum(
            int(of[k]) for k in range(len(trace.buffer)) if trace.space[k] == space and bool(trace.is_store[k]) == store
        )

    assert found.shared_bytes.tolist() == [program.kernels[0].shared_bytes]
    assert found.thread_bytes.tolist() == [(4 if ahead else 3) * (2 if points else 1) * 8]
    steps = found.features[0, 1, INDEX["streaming_steps"]]
    assert steps == 8 + 2 + ahead  # the last step prefetches no row, but counts as one
    assert summed("num_global_mem_loads_per_block") * 10 == counted("global", store=False) * steps
    assert summed("num_global_mem_stores_per_block") == counted("global", store=True)
    assert summed("num_shared_mem_loads_per_block") == counted("shared", store=False, wavefronts=True)
    assert summed("num_shared_mem_stores_per_block") == counted("shared", store=True, wavefronts=True)


def test_the_analytical_model_gains_from_prefetching() -> None:
    bound = star()
    one, model = of_star(bound), AnalyticalModel(H200)
    latency = [
        float(model.parts(evaluated(Featurizer(bound, H200), k).batch_evaluation)["latency"][0])
        for k in (one, one.with_double_buffering())
    ]
    assert latency[1] < 0.7 * latency[0]
