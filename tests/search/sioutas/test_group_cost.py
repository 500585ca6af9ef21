"""Listing 1 on an example computed by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from autosched import Func, Input, Pipeline, Var, float32
from autosched.analysis.bind import bind
from autosched.featurize.sketch.sketch import ComputeLocation, KernelSketch
from autosched.schedule.types import Level, StageId
from autosched.search.strategies.sioutas.group_cost import GroupPricer, PricedGroup, Rules
from autosched.search.strategies.sioutas.group_work import GroupRead
from autosched.target import get_target
from tests.schedule.building import blur_pipeline
from tests.search.sioutas.pipelines import pair

OUT = StageId("out")
GROUP = KernelSketch((OUT,), (ComputeLocation("mid", Level.BLOCK, OUT),))
TURING = get_target("rtx-2080-ti")


def cost_of(priced: PricedGroup, tile: int) -> float:
    """Return the cost of the candidate with a given tile size."""
    return float(priced.costs[np.flatnonzero(priced.params[:, 0] == tile)[0]])


def test_cost_while_grouping() -> None:
    """A tile of 32 points of ``out`` and the 34 points of ``mid`` that it reads; 4096 / 32 = 128 blocks.

    Memory: out loads 2 x 32 values from shared memory at 1 = 64; mid loads 2 x 34 from global memory at 40, of which
    64 bytes hold 16 = 170. Together 234.
    Arithmetic: out has 32 threads, 1 warp: 16 blocks, occupancy 16 / 32, 512 threads: 32 / (0.5 x 512) = 0.125;
    mid has 34 threads, 2 warps: 16 blocks, occupancy 1, 544 threads: 34 / 544 = 0.0625.
    """
    assert cost_of(GroupPricer(pair(), TURING).price(GROUP), 32) == 128 * (234 + 0.1875)


def test_cost_in_the_final_pass() -> None:
    """A tile of 30: 137 blocks; both stages have 1 warp, so occupancy 0.5; 480 and 512 threads.

    Memory: (2 x 30 + 2 x 32 x 2.5) / (0.5 x 480); arithmetic: 30 / 240 + 32 / 256. Rounded to five digits.
    """
    priced = GroupPricer(pair(), TURING).price(GROUP, final=True)
    assert cost_of(priced, 30) == pytest.approx(137 * (220 / 240 + 0.25), rel=1e-4)
    assert (priced.threads % 32 == 0).all()
    assert 32 not in priced.params[:, 0]  # mid would have 34 threads


def test_members_have_a_thread_for_every_point_and_their_buffers_add_up() -> None:
    priced = GroupPricer(pair(), TURING).price(GROUP)
    tile, serial, mid_threads = priced.params.T
    assert (serial == 1).all()
    assert (mid_threads == tile + 2).all()
    assert (priced.threads == tile + 2).all()
    assert (priced.shared_bytes == 4 * (tile + 2)).all()


def test_costs_ascend_and_grids_with_idle_multiprocessors_are_pruned() -> None:
    priced = GroupPricer(pair(), TURING).price(GROUP)
    assert (np.diff(priced.costs) >= 0).all()
    assert sorted(priced.params[:, 0].tolist()) == [16, 32]  # 4096 / 64 = 64 blocks for 68 multiprocessors
    assert priced.considered == 8  # 8 to 1024; mid needs 1026 threads for the last one
    assert dict(priced.pruned) == {
        "more threads than a block can have": 1,
        "fewer threads of a stage than half a warp": 1,
        "fewer active multiprocessors than there are": 4,
    }
    assert priced.rules.multiprocessors == 68


def test_of_equally_cheap_tilings_the_last_is_first() -> None:
    """Copies of whole tiles cost the same with every tile whose rows fill 64 bytes."""
    img, out = Input("img", float32, 2), Func("out")
    y, x = Var("y"), Var("x")
    out[y, x] = img[y, x]
    bound = bind(Pipeline([out.over(y=(0, 2048), x=(0, 2048))]), {"img": (2048, 2048)})
    priced = GroupPricer(bound, get_target("h200")).price(KernelSketch((OUT,)))
    assert priced.costs[0] == priced.costs[1] == pytest.approx(2048 * 2048 * 40 / 16, rel=1e-4)
    assert priced.params[:2, :2].tolist() == [[32, 32], [32, 16]]


def test_registers_halve_the_occupancy_of_full_multiprocessors() -> None:
    """64 registers a thread leave room for 1024 of the 2048 threads of an H200's multiprocessor."""
    priced = GroupPricer(pair(), get_target("h200")).price(KernelSketch((OUT,)), rules=Rules(1, 1, 0.1, False))
    chosen = priced.params[:, 0] == 64
    assert priced.active_threads[chosen].tolist() == [1024]
    assert priced.occupancy[chosen].tolist() == [0.5]


def test_rules_are_lowered_until_a_tiling_satisfies_them() -> None:
    bound = bind(blur_pipeline(), {"img": (9, 7)})
    priced = GroupPricer(bound, TURING).price(KernelSketch((OUT,), (), frozenset({"img_clamped"})), final=True)
    assert priced.rules.stage_threads == 4  # of 9 rows at most half
    assert priced.rules.multiprocessors == 3 * 7  # the columns are not tiled, so every one has blocks
    assert not priced.rules.whole_warps
    assert len(priced.params) == 1


def test_merged_group_satisfies_the_rules_of_its_output() -> None:
    pricer = GroupPricer(pair(), TURING)
    alone = pricer.price(KernelSketch((OUT,))).rules
    assert alone == Rules(16, 68, 0.1, False)
    strict = Rules(16, 300, 0.1, False)  # more than the 68 multiprocessors can be active
    assert pricer.price(GROUP, rules=alone).cost < math.inf
    assert pricer.price(GROUP, rules=strict).cost == math.inf


@pytest.mark.parametrize(
    ("itemsize", "stride", "lanes", "expected"),
    [
        (4, 1.0, 64, 16),  # 64 bytes
        (1, 1.0, 128, 64),
        (4, 1.0, 2, 2),  # no more than there are threads
        (4, 2.0, 64, 8),  # every second element
        (4, 0.5, 64, 16),  # two threads each
        (4, 0.0, 64, 16),  # all the same element
        (4, float("inf"), 64, 1),
        (8, 16.0, 64, 1),
    ],
)
def test_consecutive_loads(itemsize: int, stride: float, lanes: int, expected: float) -> None:
    assert GroupRead("img", 1, itemsize, stride).consecutive(np.array([lanes])).tolist() == [expected]
