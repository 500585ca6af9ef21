"""Shared lane loops, and scalar loops of lanes beside clamped indices, in the CPU timing model."""

from __future__ import annotations

import pytest

from autosched.analysis.bind import bind
from autosched.featurize.featurizer import Featurizer
from autosched.featurize.sketch.sketch import ComputeLocation, KernelSketch
from autosched.lang.dtypes import int32
from autosched.lang.expr import Expr
from autosched.lang.func import Func
from autosched.lang.functions import cast, select
from autosched.lang.pipeline import Pipeline
from autosched.schedule.types import Level, StageId
from autosched.search.cost.cpu.analytical import WHOLE_ROWS
from autosched.search.cost.cpu.lane_costs import LaneCosts, LaneWorks
from tests.search.cpu_cases import CPU, IMAGE, H, W, counts_of, x, y


def clamped(*offsets: int, step: int = 1, first: int = 0) -> tuple[Featurizer, KernelSketch]:
    """Return the kernel of a sum of loads at ``step * x`` and offsets, from an image that is clamped in x."""
    around, f = IMAGE.clamped(x=(0, W)), Func("f")
    value = around[y, step * x + offsets[0]]
    for offset in offsets[1:]:
        value += around[y, step * x + offset]
    f[y, x] = value
    bound = bind(Pipeline([f.over(y=(0, H), x=(first, W))]), {"image": (H, W)})
    return Featurizer(bound, CPU), KernelSketch((StageId("f"),), inlined=frozenset(set(bound.funcs) - {"f"}))


def work_of(kernel: tuple[Featurizer, KernelSketch]) -> LaneCosts:
    featurizer, sketch = kernel
    return LaneWorks(featurizer.model(sketch), {}).of(StageId("f"), "x")


@pytest.mark.parametrize(
    ("kernel", "low", "high", "whole"),
    [
        (clamped(0), 0, 0, W),
        (clamped(-3, 2), 3, 2, W),
        (clamped(0, first=-5), 5, 0, W + 5),
        (clamped(-3, step=2), 2, W // 2 - 2, W),  # 2x - 3 is in the image for x = 2 ... W/2 + 1
    ],
)
def test_lanes_with_clamped_indices(kernel: tuple[Featurizer, KernelSketch], low: int, high: int, whole: int) -> None:
    work = work_of(kernel)
    assert (work.ends.low, work.ends.high, work.ends.whole) == (low, high, whole)


def test_rest_beside_clamped_lanes_is_scalar() -> None:
    kernel = clamped(-3, 3)
    whole, halves = counts_of(*kernel, 1, W, 1, 1), counts_of(*kernel, 1, W // 2, 1, 1)
    assert counts_of(*clamped(0), 1, W, 1, 1)["ends"] == 0
    work = work_of(kernel)
    accesses = work.accesses
    singly = work.values.scalar + 0.5 * (accesses.unit + accesses.near + accesses.fixed + accesses.private)
    of_row = (W - 6) % 4 + 6  # beside vectors of 16, eight and four lanes
    of_halves = 2 * ((W // 2 - 3) % 4) + 6
    assert whole["ends"] == pytest.approx(WHOLE_ROWS * singly * H * of_row)
    assert halves["ends"] == pytest.approx(singly * H * of_halves)


@pytest.mark.parametrize(
    ("condition", "low", "high"),
    [
        ((x >= 3) & (x < W - 5), 3, 5),
        ((x > 2) & (x + 0 <= W - 6), 3, 5),
        ((x - 1 > 1) & (y > 3), 3, 0),
        (x < W // 2, 0, 0),  # vectors of their own
        (y > 3, 0, 0),
    ],
)
def test_point_conditions_separate_lanes_at_ends(condition: Expr, low: int, high: int) -> None:
    f = Func("f")
    f[y, x] = select(condition, IMAGE[y, x] + 1, 0.0)
    bound = bind(Pipeline([f.over(y=(0, H), x=(0, W))]), {"image": (H, W)})
    work = work_of((Featurizer(bound, CPU), KernelSketch((StageId("f"),))))
    assert (work.ends.low, work.ends.high) == (low, high)


def test_producer_per_evaluation_shares_the_lane_loop() -> None:
    g, h, f = Func("g"), Func("h"), Func("f")
    g[y, x] = IMAGE[y, x] + IMAGE[y, x + 1]
    whole = cast(int32, g[y, x])
    h[y, x] = whole // (whole + 1)  # for which there is no vector instruction
    f[y, x] = h[y, x] * 2
    bound = bind(Pipeline([f.over(y=(0, H), x=(0, W))]), {"image": (H, W + 1)})
    inside = KernelSketch((StageId("h"),), (ComputeLocation("g", Level.THREAD, StageId("h")),))
    apart = KernelSketch((StageId("h"),), (ComputeLocation("g", Level.BLOCK, StageId("h")),))
    featurizer = Featurizer(bound, CPU)
    joined, divided = counts_of(featurizer, inside, 1, 256, 1, 1), counts_of(featurizer, apart, 1, 256, 1, 1, 1, 256)
    assert joined["vector_arithmetic"] == 0 < joined["scalar"]
    assert divided["vector_arithmetic"] > 0


def test_producer_before_loops_has_its_own_lane_loop() -> None:
    g, h, f = Func("g"), Func("h"), Func("f")
    g[y, x] = IMAGE[y, x] + IMAGE[y, x + 1]
    whole = cast(int32, g[y, x] + g[y + 1, x])
    h[y, x] = whole // (whole + 1)
    f[y, x] = h[y, x] * 2
    bound = bind(Pipeline([f.over(y=(0, H), x=(0, W))]), {"image": (H + 1, W + 1)})
    inside = KernelSketch((StageId("h"),), (ComputeLocation("g", Level.THREAD, StageId("h")),))
    assert counts_of(Featurizer(bound, CPU), inside, 1, 256, 1, 1)["vector_arithmetic"] > 0


def test_lanes_follow_consumers_through_fused_producers() -> None:
    deep, low, high, f = Func("deep"), Func("low"), Func("high"), Func("f")
    deep[y, x] = IMAGE[y, 2 * x] * 3
    low[y, x] = deep[y, x] - 1
    high[y, x] = deep[y, x] + 1
    f[y, x] = low[y, x] * high[y, x]
    bound = bind(Pipeline([f.over(y=(0, H), x=(0, W))]), {"image": (H, 2 * W)})
    locations = tuple(ComputeLocation(name, Level.THREAD, StageId("f")) for name in ("deep", "low", "high"))
    featurizer, sketch = Featurizer(bound, CPU), KernelSketch((StageId("f"),), locations)
    work = LaneWorks(featurizer.model(sketch), {}).of(StageId("deep"), "x")
    assert (work.accesses.near, work.accesses.stride, work.accesses.fixed, work.values.arithmetic) == (1, 2, 0, 1)
    assert counts_of(featurizer, sketch, 1, 256, 1, 1)["strided_accesses"] > 0.9 * H * W
