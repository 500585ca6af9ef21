"""Which points of a stored Member no block computes."""

from __future__ import annotations

from autosched import Func, Input, Pipeline, Var, float32
from autosched.analysis import index as ix
from autosched.analysis.bind import bind
from autosched.analysis.bound import BoundFunc
from autosched.schedule.owned import left_out
from autosched.schedule.plan import NestLoop
from autosched.schedule.types import LoopKind

x = Var("x")
BLOCK = ix.var("x_b", 0, 4)
GRID = (NestLoop("x_b", "x", LoopKind.BLOCK, 5, 2),)


def func(points: int = 9) -> BoundFunc:
    image, out = Input("image", float32, 1), Func("out")
    out[x] = image[x]
    return bind(Pipeline(out.over(x=(0, points))), {"image": (points,)}).funcs["out"]


def test_tiles_beside_each_other_leave_out_nothing() -> None:
    first = ix.scale(BLOCK, 2)
    assert left_out(func(), {"x": first}, {"x": ix.add(first, 1)}, GRID) == ""
    assert "leave out points of x 0 to 8" in left_out(func(), {"x": first}, {"x": first}, GRID)


def test_tiles_that_all_end_at_one_point() -> None:
    """Of what lies beyond a remainder, every block needs all: where its tile ends does not move with the block."""
    first = ix.scale(BLOCK, 2)
    assert left_out(func(), {"x": first}, {"x": 8}, GRID) == ""
    assert "leave out points" in left_out(func(), {"x": first}, {"x": 7}, GRID)
    assert "leave out points" in left_out(func(), {"x": ix.add(first, 1)}, {"x": 8}, GRID)


def test_tiles_that_all_begin_at_one_point() -> None:
    last = ix.add(ix.scale(BLOCK, 2), 1)
    assert left_out(func(), {"x": 0}, {"x": last}, GRID) == ""
    assert "leave out points" in left_out(func(11), {"x": 0}, {"x": last}, GRID)
