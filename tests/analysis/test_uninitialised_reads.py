"""Funcs that start undefined: every point is written before it is read, or the Func is refused."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import autosched as a
from autosched import Func, Input, Pipeline, RDom, Var, float32, uint8, undef
from autosched.analysis.bind import bind
from autosched.errors import DSLError
from tests.regression.test_witnesses import agree

y, x = Var("y"), Var("x")
img, lut = Input("img", float32, 2), Input("lut", uint8, 1)
HEIGHT, WIDTH = 6, 8
rows, columns = RDom("rows", y=(1, HEIGHT)), RDom("columns", x=(0, WIDTH))
both = RDom("both", y=(0, HEIGHT), x=(0, WIDTH))
passes = RDom("passes", t=3)


def scan(f: Func) -> None:
    f[0, x] = img[0, x]
    f[rows.y, x] = f[rows.y - 1, x] + img[rows.y, x]


def backwards(f: Func) -> None:
    f[HEIGHT - 1, x] = 0.0
    f[HEIGHT - 1 - rows.y, x] = f[HEIGHT - rows.y, x] * 2


def halves(f: Func) -> None:
    top, bottom = RDom("top", y=(0, 3)), RDom("bottom", y=(3, HEIGHT))
    f[bottom.y, x] = 1.0
    f[top.y, x] = f[top.y + 3, x] + 1


def several_passes(f: Func) -> None:
    f[0, x] = img[0, x]
    f.update((rows.y, x), f[rows.y - 1, x] * 0.5, over=passes.vars)


def diagonal_neighbours(f: Func) -> None:
    grid = RDom("grid", y=(1, HEIGHT), x=(0, WIDTH))
    f[0, x] = img[0, x]
    f[grid.y, grid.x] = f[grid.y - 1, a.clamp(grid.x, 0, WIDTH - 1)] + 1


pairs, halves_of, flat = RDom("pairs", x=4), RDom("halves", y=2, x=4), RDom("flat", k=HEIGHT * WIDTH)
triples = RDom("triples", y=3, x=2)


def even_and_odd(f: Func) -> None:
    f[y, 2 * pairs.x] = img[y, 2 * pairs.x]
    f[y, 2 * pairs.x + 1] = f[y, 2 * pairs.x] + 1


def chess_board(f: Func) -> None:
    r = RDom("r", y=3, x=4)
    for dy in (0, 1):
        for dx in (1, 0):
            f[2 * r.y + dy, 2 * r.x + dx] = float(dy - dx)


def three_boxes(f: Func) -> None:
    """No two of them make a box."""
    f[RDom("top", y=2).y, RDom("left", x=5).x] = 1.0
    f[RDom("middle", y=(1, HEIGHT)).y, RDom("east", x=3).x] = 2.0
    f[RDom("below", y=(2, HEIGHT)).y, RDom("rest", x=(2, WIDTH)).x] = 3.0
    f[RDom("corner", y=2).y, RDom("far", x=(4, WIDTH)).x] = 4.0


def neighbours_in_mixed_radix(f: Func) -> None:
    """The loop that moves is in no other dimension."""
    r = RDom("r", y=(1, HEIGHT), x=4, c=2)
    f[0, x] = 0.5
    f[r.y, 2 * r.x + r.c] = f[r.y - 1, 2 * r.x + r.c] + 1


ACCEPTED: dict[str, Callable[[Func], None]] = {
    "pure": lambda f: f.update((y, x), img[y, x]),
    "pure, then more": lambda f: (f.update((y, x), img[y, x]), f.update((rows.y, x), f[rows.y - 1, x]))[0],
    "whole domain": lambda f: f.update((both.y, both.x), img[both.y, both.x]),
    "mirrored": lambda f: f.update((y, WIDTH - 1 - columns.x), img[y, columns.x]),
    "scan": scan,
    "backwards": backwards,
    "halves": halves,
    "several passes": several_passes,
    "diagonal": diagonal_neighbours,
    "remainder": lambda f: f.update((y, columns.x * 3 % WIDTH), 1.0),
    "transposed": lambda f: f.update((both.y, WIDTH - 1 - both.x), img[both.y, both.x]),
    "mixed radix": lambda f: f.update((y, halves_of.x * 2 + halves_of.y), img[y, halves_of.x]),
    "mixed radix, backwards": lambda f: f.update((y, 7 - halves_of.x * 2 - halves_of.y), img[y, halves_of.x]),
    "overlapping": lambda f: f.update((y, 2 * RDom("r", x=4).x + RDom("s", x=3).x - 1), 1.0),
    "flat": lambda f: f.update((flat.k // WIDTH, flat.k % WIDTH), img[flat.k // WIDTH, flat.k % WIDTH]),
    "flat, both turned": lambda f: f.update((flat.k % HEIGHT, WIDTH - 1 - flat.k // HEIGHT), 1.0),
    "sheared": lambda f: f.update((both.y, (both.x + 3 * both.y) % WIDTH), 1.0),
    "even and odd": even_and_odd,
    "squares of a chess board": chess_board,
    "three boxes": three_boxes,
    "each from the one before": neighbours_in_mixed_radix,
}


def diagonal(f: Func) -> None:
    f[columns.x, columns.x] = 1.0


def scatter(f: Func) -> None:
    f[y, a.clamp(lut[columns.x], 0, WIDTH - 1)] = 1.0


def gap(f: Func) -> None:
    f[0, x] = img[0, x]
    beyond = RDom("beyond", y=(2, HEIGHT))
    f[beyond.y, x] = 1.0


def wrong_way(f: Func) -> None:
    f[0, x] = img[0, x]
    f[rows.y, x] = f[rows.y + 1, x]


def row_before_the_first(f: Func) -> None:
    whole = RDom("whole", y=(0, HEIGHT))
    f[whole.y, x] = f[whole.y - 1, x]


def skipped(f: Func) -> None:
    empty = RDom("empty", y=(0, 0))
    f.update((y, x), img[y, x], over=empty.vars)


def l_shape(f: Func) -> None:
    f[RDom("top", y=3).y, x] = 1.0
    f[y, RDom("left", x=4).x] = 2.0


def mixed_radix_read_later(f: Func) -> None:
    f[y, 4 * halves_of.y + halves_of.x] = f[y, 4 * halves_of.y + halves_of.x + 1] + 1


def shared_loop(f: Func) -> None:
    """The read moves by a row, but the update writes its points in another order of rows."""
    r = RDom("r", y=HEIGHT, x=WIDTH)
    f[0, x] = 1.0
    f[r.y, (r.x + 3 * r.y) % WIDTH] = f[a.max(r.y - 1, 0), r.x] + 1


NOT_WRITTEN = "'f' starts undefined, and its updates do not write every point that is needed"
READ_BEFORE = "'f' starts undefined, and update {} may read points of it that are not written yet"
REFUSED: dict[str, tuple[Callable[[Func], None], str]] = {
    "no update": (lambda f: None, NOT_WRITTEN),
    "one row": (lambda f: f.update((0, x), 1.0), NOT_WRITTEN),
    "every second": (lambda f: f.update((y, 2 * columns.x), 1.0), NOT_WRITTEN),
    "rounded": (lambda f: f.update((y, columns.x // 2 * 2), 1.0), NOT_WRITTEN),
    "remainder": (lambda f: f.update((y, columns.x * 2 % WIDTH), 1.0), NOT_WRITTEN),
    "odd ones only": (lambda f: f.update((y, 2 * pairs.x + 1), 1.0), NOT_WRITTEN),
    "all but one": (lambda f: f.update((y, 3 * triples.y + triples.x), 1.0), NOT_WRITTEN),
    "permutation by data": (lambda f: f.update((y, lut[columns.x] % WIDTH), 1.0), NOT_WRITTEN),
    "l-shape": (l_shape, NOT_WRITTEN),
    "mixed radix read later": (mixed_radix_read_later, READ_BEFORE.format(1)),
    "shared loop": (shared_loop, READ_BEFORE.format(2)),
    "diagonal": (diagonal, NOT_WRITTEN),
    "scatter": (scatter, NOT_WRITTEN),
    "gap": (gap, NOT_WRITTEN),
    "skipped": (skipped, NOT_WRITTEN),
    "accumulated": (lambda f: f.update((y, x), f[y, x] + 1), READ_BEFORE.format(1)),
    "wrong way": (wrong_way, READ_BEFORE.format(2)),
    "before the first": (row_before_the_first, READ_BEFORE.format(1)),
}


def pipeline(write: Callable[[Func], None]) -> Pipeline:
    f = Func("f")
    f[y, x] = undef(float32)
    write(f)
    return Pipeline(f.over(y=(0, HEIGHT), x=(0, WIDTH)))


def shapes(p: Pipeline) -> dict[str, tuple[int, ...]]:
    return {i.name: (HEIGHT, WIDTH) if i is img else (WIDTH,) for i in p.inputs}


@pytest.mark.parametrize("write", ACCEPTED.values(), ids=ACCEPTED)
def test_accepted(write: Callable[[Func], None]) -> None:
    p = pipeline(write)
    assert bind(p, shapes(p)).funcs["f"].undefined


@pytest.mark.parametrize(("write", "message"), REFUSED.values(), ids=REFUSED)
def test_refused(write: Callable[[Func], None], message: str) -> None:
    p = pipeline(write)
    with pytest.raises(DSLError) as caught:
        bind(p, shapes(p))
    assert caught.value.message == message
    assert caught.value.hint == "start with a value: f[...] = 0"


def test_without_dimensions() -> None:
    f = Func("f")
    f[()] = undef(float32)
    f[()] = 3.0
    assert bind(Pipeline(f), {}).funcs["f"].undefined


@pytest.mark.parametrize("name", ACCEPTED)
def test_witnesses(name: str) -> None:
    f = Func("f")
    f[y, x] = undef(float32)
    ACCEPTED[name](f)
    numbers = np.random.default_rng(5).integers(-9, 9, (HEIGHT, WIDTH)).astype(np.float32)
    found = agree(f.over(y=(0, HEIGHT), x=(0, WIDTH)), {"img": numbers} if "img" in inputs_of(f) else {})["f"]
    assert found.shape == (HEIGHT, WIDTH)


def inputs_of(f: Func) -> list[str]:
    return [i.name for i in Pipeline(f.over(y=(0, HEIGHT), x=(0, WIDTH))).inputs]
