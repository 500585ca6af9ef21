"""Features of sliding-window kernels, against counts of their code."""

from __future__ import annotations

import pytest

from autosched import Func, Input, Pipeline, Var, float32
from autosched.analysis.bind import bind
from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.analysis.rewrites.cache_read import cache_name, insert_cache_reads
from autosched.featurize.featurizer import Featurizer
from autosched.featurize.scaling.sliding_window_scaling import SlidingWindowScaling
from autosched.featurize.scaling.step_scaling import scaling_for
from autosched.featurize.schema import INDEX
from autosched.lower.program import lower
from autosched.measure.simulated.count import count_kernel
from autosched.measure.simulated.sampling import Limits
from autosched.schedule.legality.validate import kernel_violations
from autosched.schedule.types import ComputeAt, Kernel, Level
from autosched.search.refine.mainloop.step_cost import evaluated
from autosched.target import get_target
from tests.lower.sweeps import chain_of_windows, sweeps
from tests.schedule.building import kernel, member, root, schedule, stage, thread

H200 = get_target("h200")
z, y, x = Var("z"), Var("y"), Var("x")
BUFFERED = {"one": lambda k: k, "ahead": Kernel.with_double_buffering, "past registers": Kernel.with_async_copies}


def planes() -> BoundPipeline:
    """Return differences of neighbouring planes, without clamps or partial tiles."""
    volume, first, out = Input("volume", float32, 3), Func("first"), Func("out")
    first[z, y, x] = volume[z, y, x] * 2
    out[z, y, x] = first[z, y, x] + first[z + 1, y, x] * first[z + 2, y, x]
    return bind(Pipeline(out.over(z=(0, 64), y=(0, 16), x=(0, 64)), name="planes"), {"volume": (66, 16, 64)})


def walking(bound: BoundPipeline, rows: int = 1, steps: int = 16, *, staged: bool = False) -> Kernel:
    """Return a kernel with a mainloop over planes, and a rolling buffer of its producer or of a cache read."""
    at = ComputeAt(Level.MAINLOOP, stage("out"), 4)
    tiles = f"bz={64 // (rows * steps)} by=2 bx=2 sz={steps} tx=32 ty=8 sz={rows}"
    dims = ("z", "y", "x")
    if staged:
        dims = insert_cache_reads(bound, ["volume"]).funcs[cache_name("volume")].dims
    name = cache_name("volume") if staged else "first"
    window = member(at, dims, **{name: f"t{dims[2]}=32 t{dims[1]}=8 s{dims[0]}={rows}"})
    found = kernel(bound, [root("out", tiles)], [window], ["first"] if staged else [])
    assert not kernel_violations(bound, found, H200)
    return found


@pytest.mark.parametrize("buffers", BUFFERED)
@pytest.mark.parametrize("rows", [1, 2, 4])
def test_counts_match_the_code(rows: int, buffers: str) -> None:
    bound = planes()
    one = BUFFERED[buffers](walking(bound, rows, 64 // (4 * rows), staged=buffers == "past registers"))
    found = evaluated(Featurizer(bound, H200), one).batch_evaluation
    (code,) = lower(bound, schedule(bound, one)).kernels
    work = count_kernel(code, limits=Limits(None, None))

    def summed(*names: str) -> float:
        return float(sum(found.features[0, :, INDEX[name]].sum() for name in names))

    spare = rows * -(-2 // rows) - 2  # rows of the first steps that lie before the first that is needed
    steps, _ = scaling_for(bound, one) or pytest.fail("no steps")
    extra = spare + (rows if one.double_buffered else 0)  # the last step prefetches unused rows
    coming = 16 + 2 + extra
    assert steps.count * rows == 16
    reads = summed("num_global_mem_loads_per_block") / coming
    assert reads == 8 * 4 and work.total("load_sectors") == reads * 18
    assert summed("num_global_mem_stores_per_block") == work.total("store_sectors")
    assert found.shared_bytes.tolist() == [code.shared_bytes]
    assert found.features[0, :, INDEX["streaming_steps"]].max() == coming / rows


def test_windows_of_different_reach_have_different_prologues() -> None:
    image, first, second, out = Input("image", float32, 2), Func("first"), Func("second"), Func("out")
    first[y, x] = image[y, x] + 1
    second[y, x] = first[y, x] * first[y + 2, x]
    out[y, x] = second[y, x] - second[y + 1, x]
    bound = bind(Pipeline(out.over(y=(0, 64), x=(0, 64))), {"image": (67, 64)})
    at = ComputeAt(Level.MAINLOOP, stage("out"), 3)
    members = [member(at, ("y", "x"), **{f: "tx=64"}) for f in ("first", "second")]
    found = kernel(bound, [root("out", "by=8 bx=1 sy=8 tx=64")], members)
    assert not kernel_violations(bound, found, H200)
    steps, _ = scaling_for(bound, found) or pytest.fail("no steps")
    assert isinstance(steps, SlidingWindowScaling) and steps.count == 8
    assert dict(steps.prologue_steps) == {"first": 3, "second": 1}
    again, _ = scaling_for(bound, found) or pytest.fail("no steps")
    assert again.bound is steps.bound


def test_a_prologue_counts_in_the_simulated_device() -> None:
    """Stages with a shorter prologue run in fewer steps, wherever iterations are sampled."""
    bound = planes()
    (code,) = lower(bound, schedule(bound, walking(bound, 1, 32))).kernels
    every, some = count_kernel(code, limits=Limits(None, None)), count_kernel(code, limits=Limits(lanes=1 << 10))
    for name in ("store_sectors", "load_sectors", "shared_requests"):
        assert some.total(name) == pytest.approx(every.total(name), rel=0.02)
    assert every.total("store_sectors") == 32 * 8 * 4


def test_barriers_match_the_windows() -> None:
    """A thread-level producer needs no barrier."""
    volume, first, own, out = Input("volume", float32, 3), Func("first"), Func("own"), Func("out")
    first[z, y, x] = volume[z, y, x] * 2
    own[z, y, x] = first[z, y, x] + first[z + 2, y, x]
    out[z, y, x] = own[z, y, x] * own[z, y, x]
    bound = bind(Pipeline(out.over(z=(0, 64), y=(0, 16), x=(0, 64))), {"volume": (66, 16, 64)})
    window = member(ComputeAt(Level.MAINLOOP, stage("out"), 4), ("z", "y", "x"), first="tx=32 ty=8 sz=1")
    single = member(thread("out", 6), ("z", "y", "x"), own="sz=1")
    tiles = [root("out", "bz=4 by=2 bx=2 sz=16 tx=32 ty=8")]
    found = kernel(bound, tiles, [window, single])
    without = kernel(bound, tiles, [window], ["own"])
    assert not kernel_violations(bound, found, H200) and not kernel_violations(bound, without, H200)
    barriers = [
        evaluated(Featurizer(bound, H200), k).batch_evaluation.features[0, :, INDEX["steps_per_block"]].max()
        for k in (found, without)
    ]
    assert barriers[0] == barriers[1]


@pytest.mark.parametrize("blocks", [1, 2, 4])
def test_steps_of_serial_streaming_are_those_of_the_middle(blocks: int) -> None:
    """In blocks of many steps, the rows of the first step lack those beyond the end; other steps do not."""
    bound = sweeps("clamped", (64, 32, 48), 2)
    at, dims = ComputeAt(Level.MAINLOOP, stage("output"), 4), ("z", "y", "x")
    steps = 16 // blocks
    loops = f"bz={blocks} by=4 bx=3 sz={steps} tx=8 ty=4 sz=4 sy=2 sx=2"
    inlined = [f for f in bound.funcs if f not in ("output", "sweep_1")]
    one = kernel(bound, [root("output", loops)], [member(at, dims, sweep_1="tx=9 ty=5 sz=4 sy=2 sx=2")], inlined)
    assert not kernel_violations(bound, one, H200)
    features = evaluated(Featurizer(bound, H200), one).batch_evaluation.features[0]
    assert features[:, INDEX["shared_bytes_at_task"]].max() == 4 * 10 * 18 * 8  # the rows of a step, and the halo


@pytest.mark.parametrize("buffers", ["one", "double-buffered"])
@pytest.mark.parametrize("times", [2, 4])
def test_shared_memory_is_that_of_the_code(times: int, buffers: str) -> None:
    """Windows of different lengths, all in use in every step; the input's is longer by a step if loaded ahead."""
    bound = sweeps("clamped", (64, 32, 48), times)
    one = chain_of_windows(bound, 16)
    one = one.with_double_buffering() if buffers == "double-buffered" else one
    assert not kernel_violations(bound, one, H200)
    (code,) = lower(bound, schedule(bound, one)).kernels
    found = evaluated(Featurizer(bound, H200), one).batch_evaluation
    assert found.shared_bytes.tolist() == [code.shared_bytes]
