"""Tile ownership of materialised producers: which points no block writes."""

from __future__ import annotations

import itertools
from collections.abc import Mapping

import pytest

from autosched import Func, Input, Pipeline, Var, float32
from autosched.analysis.bind import bind
from autosched.analysis.bound_pipeline import BoundFunc
from autosched.analysis.indices import index as ix
from autosched.errors import ScheduleError
from autosched.schedule.kernel.tile_ownership import owned_box, unowned_points
from autosched.schedule.plan import NestLoop
from autosched.schedule.types import LoopKind

y, x = Var("y"), Var("x")
BLOCK = ix.var("x_b", 0, 4)
ROWS = ix.var("y_b", 0, 2)
GRID = (NestLoop("y_b", "y", LoopKind.BLOCK, 3, 2), NestLoop("x_b", "x", LoopKind.BLOCK, 5, 2))
Box = Mapping[str, ix.Index]


def func(points: int = 9) -> BoundFunc:
    image, out = Input("image", float32, 1), Func("out")
    out[x] = image[x]
    return bind(Pipeline(out.over(x=(0, points))), {"image": (points,)}).funcs["out"]


def plane(rows: int, columns: int) -> BoundFunc:
    image, out = Input("image", float32, 2), Func("out")
    out[y, x] = image[y, x]
    return bind(Pipeline(out.over(y=(0, rows), x=(0, columns))), {"image": (rows, columns)}).funcs["out"]


def problem(f: BoundFunc, base: Box, limit: Box, grid: tuple[NestLoop, ...] = GRID[1:]) -> str:
    return unowned_points(f, base, limit, owned_box(base, grid, f.name))


def test_adjacent_tiles_cover_all_points() -> None:
    first = ix.scale(BLOCK, 2)
    assert problem(func(), {"x": first}, {"x": ix.add(first, 1)}) == ""
    assert "may leave out points of x in 0..8" in problem(func(), {"x": first}, {"x": first})


def test_tiles_with_a_common_end() -> None:
    """Behind a remainder every block needs the whole range: the end of its tile does not move with the block."""
    first = ix.scale(BLOCK, 2)
    assert problem(func(), {"x": first}, {"x": 8}) == ""
    assert "leave out points" in problem(func(), {"x": first}, {"x": 7})
    assert "leave out points" in problem(func(), {"x": ix.add(first, 1)}, {"x": 8})


def test_the_first_block_owns_tiles_with_a_common_origin() -> None:
    """The tile origin decides ownership; later tiles are larger, but write nothing."""
    last = ix.add(ix.scale(BLOCK, 2), 1)
    assert "leave out points" in problem(func(), {"x": 0}, {"x": last})
    assert problem(func(2), {"x": 0}, {"x": last}) == ""
    assert problem(func(), {"x": 0}, {"x": 8}) == ""


def test_tiles_whose_size_depends_on_another_dimension() -> None:
    """Neighbouring blocks in x cover all rows only if each tile does."""
    base = {"y": 0, "x": ix.scale(BLOCK, 2)}
    end = ix.add(base["x"], 1)
    growing = ix.add(ix.scale(BLOCK, 2), 1)
    assert problem(plane(4, 9), base, {"y": 3, "x": end}, GRID[1:]) == ""
    assert "points of y in 0..3" in problem(plane(4, 9), base, {"y": ix.minimum(growing, 3), "x": end}, GRID[1:])
    assert problem(plane(2, 9), base, {"y": ix.minimum(growing, 3), "x": end}, GRID[1:]) == ""


def test_the_first_of_blocks_with_equal_tiles_must_cover_all_points() -> None:
    base, limit = {"x": ix.scale(BLOCK, 2)}, {"x": ix.add(ix.scale(BLOCK, 2), ix.add(ROWS, 1))}
    assert problem(func(), base, limit, GRID) == ""
    shrinking = {"x": ix.add(ix.scale(BLOCK, 2), ix.sub(1, ROWS))}
    assert problem(func(), base, shrinking, GRID) == ""
    late = {"x": ix.add(ix.scale(BLOCK, 2), ROWS)}
    assert "leave out points" in problem(func(), base, late, GRID)


@pytest.mark.parametrize("step", [1, 2, 3, 5])
@pytest.mark.parametrize("divisor", [1, 2, 3])
@pytest.mark.parametrize("factor", [1, 2, 3])
@pytest.mark.parametrize("halo", [0, 1, 2])
def test_strided_clamped_tiles_as_enumerated(step: int, divisor: int, factor: int, halo: int) -> None:
    """Tiles of ``f[clamp(factor * x // divisor - halo ... + halo)]``: proven exactly if no point is left out."""
    for edge, points in itertools.product((6, 11), (5, 7, 12)):

        def bound(end: int, edge: int = edge) -> ix.Index:
            at = ix.scale(ix.add(ix.scale(BLOCK, step), (step - 1) * end), factor)
            moved = ix.add(ix.floordiv(at, divisor), halo * (2 * end - 1))
            clamped: ix.Index = ix.minimum(ix.maximum(moved, 0), edge)
            return clamped

        first, last = bound(0), bound(1)
        wanted = set(range(points))
        tiles = [(ix.evaluate(first, {"x_b": b}), ix.evaluate(last, {"x_b": b})) for b in range(5)]
        moving = bool(ix.loop_vars(first))  # otherwise the first block writes alone
        written = {
            p
            for b, (lo, hi) in enumerate(tiles[: None if moving else 1])
            for p in range(lo, hi + 1)
            if not moving or b == 4 or p < tiles[b + 1][0]
        }
        assert (problem(func(points), {"x": first}, {"x": last}) == "") == (wanted <= written)


@pytest.mark.parametrize("points", [10**3, 10**9, 2**40])
def test_cost_is_independent_of_the_number_of_blocks(points: int) -> None:
    """The proof is symbolic, so its cost does not depend on the number of tiles."""
    count = points // 5
    block = ix.var("x_b", 0, count - 1)
    first = ix.floordiv(ix.scale(block, 15), 3)
    last = ix.minimum(ix.floordiv(ix.add(ix.scale(block, 15), 14), 3), points - 1)
    grid = (NestLoop("x_b", "x", LoopKind.BLOCK, count, 5),)
    f = func(5 * count)
    assert problem(f, {"x": first}, {"x": last}, grid) == ""
    assert "leave out" in problem(f, {"x": first}, {"x": ix.sub(last, 1)}, grid)


def test_one_dimension_moved_by_two_block_loops_has_no_owner() -> None:
    with pytest.raises(ScheduleError, match="its tile origin in x must depend on at most one block loop"):
        owned_box({"x": ix.add(ix.scale(BLOCK, 2), ROWS)}, GRID, "f")
