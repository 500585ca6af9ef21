"""Points that indices reach, and whether grids cover each other, against all points."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest

from autosched.analysis.access.coverage import Grid, covers
from autosched.analysis.indices import index as ix
from autosched.analysis.indices.grid import index_grid

Env = dict[str, tuple[int, int]]


def points(grid: Grid) -> set[tuple[int, ...]]:
    return set(itertools.product(*(range(lo, hi + 1, step) for lo, hi, step in grid)))


def reached(indices: list[ix.Index], env: Env) -> set[tuple[int, ...]]:
    names = list(env)
    ranges = [range(lo, hi + 1) for lo, hi in env.values()]
    return {
        tuple(int(ix.evaluate(i, dict(zip(names, map(np.int64, at), strict=True)))) for i in indices)
        for at in itertools.product(*ranges)
    }


def loops(**ranges: int) -> tuple[Env, list[ix.Index]]:
    """Return loops from 0 to below each extent, as an environment and as indices."""
    return {name: (0, n - 1) for name, n in ranges.items()}, [ix.var(name, 0, n - 1) for name, n in ranges.items()]


def test_grids() -> None:
    env, (p, q) = loops(p=3, q=4)
    assert index_grid([ix.add(p, ix.scale(q, 3))], env) == ((0, 11, 1),)
    assert index_grid([ix.add(ix.scale(p, 4), q)], env) == ((0, 11, 1),)
    assert index_grid([ix.add(ix.scale(p, -8), ix.scale(q, 2))], env) == ((-16, 6, 2),)
    assert index_grid([ix.add(ix.scale(p, 5), q)], env) is None
    assert index_grid([ix.scale(q, 7), p], env) == ((0, 21, 7), (0, 2, 1))
    assert index_grid([q, ix.add(p, q)], env) is None
    env, (k,) = loops(k=12)
    assert index_grid([ix.floordiv(k, 4), ix.mod(k, 4)], env) == ((0, 2, 1), (0, 3, 1))
    assert index_grid([ix.mod(k, 4), ix.mod(k, 3)], env) == ((0, 3, 1), (0, 2, 1))
    assert index_grid([ix.mod(k, 4), ix.mod(k, 6)], env) is None
    assert index_grid([ix.mod(ix.scale(k, 5), 12)], env) == ((0, 11, 1),)
    assert index_grid([ix.mod(ix.scale(k, 4), 12)], env) is None


def test_extents_do_not_matter() -> None:
    env, (p, q) = loops(p=1 << 30, q=1 << 29)
    assert index_grid([ix.add(ix.scale(p, 1 << 29), q)], env) == ((0, (1 << 59) - 1, 1),)
    env, (k,) = loops(k=(1 << 20) * 12345)
    assert index_grid([ix.floordiv(k, 12345), ix.mod(k, 12345)], env) == ((0, (1 << 20) - 1, 1), (0, 12344, 1))
    big = 1 << 40
    assert covers([((0, big, 2), (0, big, 1)), ((1, big, 2), (0, big, 1))], ((0, big, 1), (5, big, 3)))
    assert not covers([((0, big, 2), (0, big, 1)), ((3, big, 2), (0, big, 1))], ((0, big, 1), (5, big, 3)))


def drawn_index(draw: random.Random, variables: list[ix.Index]) -> ix.Index:
    found: ix.Index = draw.randrange(-2, 3)
    for v in variables:
        if draw.random() < 0.7:
            found = ix.add(found, ix.scale(v, draw.choice((-6, -3, -2, -1, 1, 1, 2, 3, 4, 6))))
    kind = draw.random()
    if kind < 0.25:
        found = ix.mod(found, draw.randrange(2, 8))
    elif kind < 0.4:
        found = ix.floordiv(found, draw.randrange(2, 5))
    return found


@pytest.mark.parametrize("seed", range(4))
def test_random_indices_reach_the_grid(seed: int) -> None:
    draw, known = random.Random(seed), 0
    for _ in range(150):
        env, variables = loops(**{name: draw.randrange(1, 5) for name in "pqr"[: draw.randrange(1, 4)]})
        indices = [drawn_index(draw, variables) for _ in range(draw.randrange(1, 3))]
        grid = index_grid(indices, env)
        if grid is not None:
            known += 1
            assert points(grid) == reached(indices, env), indices
    assert known > 30


@pytest.mark.parametrize("seed", range(4))
def test_random_grids_cover_the_same_as_their_points(seed: int) -> None:
    draw, covered = random.Random(seed), 0

    def grid(rank: int, steps: tuple[int, ...]) -> Grid:
        firsts = [draw.randrange(-2, 3) for _ in range(rank)]
        return tuple((f, f + n * s, s) for f, n, s in ((f, draw.randrange(1, 6), draw.choice(steps)) for f in firsts))

    for _ in range(300):
        rank = draw.randrange(1, 3)
        grids, wanted = [grid(rank, (1, 1, 2, 3)) for _ in range(draw.randrange(1, 6))], grid(rank, (1, 1, 2))
        expected = points(wanted) <= set().union(*map(points, grids))
        assert covers(grids, wanted) == expected, (grids, wanted)
        covered += expected
    assert covered > 20
