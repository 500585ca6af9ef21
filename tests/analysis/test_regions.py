"""Required regions: against enumeration, and their three forms against each other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import autosched as a
from autosched import Func, Input, Pipeline, RDom, Var, float32
from autosched.analysis.access.regions import required_extents, required_regions
from autosched.analysis.bind import bind
from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.analysis.indices import index as ix
from autosched.lang.expr import Expr
from tests.analysis.enumeration import regions

y, x = Var("y"), Var("x")
Draw = Callable[[st.SearchStrategy[Any]], Any]
SHAPES = {"img": (2000, 2000)}
SHIFT = 1000
"""Reads of the input are moved so far from its edges."""


def affine(draw: Draw, loops: list[Expr]) -> Expr:
    """Return an index whose region is the exact hull of the read points."""
    v, c = draw(st.sampled_from(loops)), draw(st.integers(-3, 3))
    form = draw(st.sampled_from([
        lambda: v + c, lambda: 2 * v + c, lambda: (v + c) // 2, lambda: -v + c, lambda: (c - v) // 3,
        lambda: (3 * v + c) // 2, lambda: a.clamp(v, c, c + 4), lambda: v // 2 * 2 + c, lambda: v,
    ]))  # fmt: skip
    return form()  # type: ignore[no-any-return]


def any_index(draw: Draw, loops: list[Expr]) -> Expr:
    """Return an index that may be bounded from outside only."""
    v, w, c = draw(st.sampled_from(loops)), draw(st.sampled_from(loops)), draw(st.integers(-3, 3))
    form = draw(st.sampled_from([
        lambda: affine(draw, loops), lambda: v + w + c, lambda: a.min(v, w + c), lambda: (v + c) % 5,
        lambda: a.clamp(v * w, c - 9, 9),
        lambda: a.select(v < c, v + 2, w), lambda: abs(v - 2), lambda: (2 * v + w) // 3,
    ]))  # fmt: skip
    return form()  # type: ignore[no-any-return]


def pipelines(index: Callable[[Draw, list[Expr]], Expr], with_updates: bool = True) -> st.SearchStrategy[Pipeline]:
    @st.composite
    def build(draw: Draw) -> Pipeline:
        img = Input("img", float32, 2)
        funcs: list[Func] = []
        for _ in range(draw(st.integers(1, 4))):
            f = Func("f")
            value: Expr = img[index(draw, [y, x]) + SHIFT, index(draw, [y, x]) + SHIFT]
            for source in draw(st.lists(st.sampled_from(funcs), max_size=2)) if funcs else []:
                value = value + source[index(draw, [y, x]), index(draw, [y, x])]
            f[y, x] = value
            if with_updates and draw(st.booleans()):
                low = draw(st.integers(-2, 2))
                r = RDom("r", k=(low, low + draw(st.integers(0, 4))), l=2)
                update(draw, index, f, funcs[-1] if funcs else None, img, r)
            funcs.append(f)
        return Pipeline([funcs[-1].over(y=(-1, 4), x=(0, 6))])

    return build()


def update(draw: Draw, index: Any, f: Func, source: Func | None, img: Input, r: RDom) -> None:
    """Add an update along rows, along columns, or to fixed places."""
    at = draw(st.sampled_from([(y, x), (y, r.k), (r.k, x), (3, x), (r.k + 1, 2 * r.l), (y, 2)]))
    loops: list[Expr] = [e for e in at if isinstance(e, Var)] + [r.k, r.l]
    value = f[at] + img[index(draw, loops) + SHIFT, index(draw, loops) + SHIFT]
    if source is not None:
        value = value + source[index(draw, loops), index(draw, loops)]
    f[at] = value


def box_of(pipeline: Pipeline) -> dict[Func, tuple[tuple[int, int], ...]]:
    return {o.func: ((-1, 3), (0, 5)) for o in pipeline.outputs}


def found_regions(pipeline: Pipeline, bound: BoundPipeline) -> dict[Any, Any]:
    found: dict[Any, Any] = {
        f: bound.funcs[pipeline.name_of(f)].region for f in pipeline.funcs if bound.funcs.get(pipeline.name_of(f))
    }
    return found


@settings(max_examples=150, deadline=None)
@given(pipelines(affine))
def test_regions_agree_with_enumeration(pipeline: Pipeline) -> None:
    bound = bind(pipeline, SHAPES)
    expected = regions(pipeline, box_of(pipeline), SHAPES)
    needed = required_regions(
        bound, {bound.outputs[n]: bound.funcs[bound.outputs[n]].region for n in bound.outputs}, bound.funcs
    )
    assert found_regions(pipeline, bound) == {f: r for f, r in expected.items() if isinstance(f, Func)}
    assert needed["img"] == next(r for f, r in expected.items() if isinstance(f, Input))


@settings(max_examples=150, deadline=None)
@given(pipelines(any_index))
def test_regions_hold_everything(pipeline: Pipeline) -> None:
    bound = bind(pipeline, SHAPES)
    for f, box in regions(pipeline, box_of(pipeline), SHAPES).items():
        if isinstance(f, Func):
            region = bound.funcs[pipeline.name_of(f)].region
            assert all(lo <= low and high <= hi for (lo, hi), (low, high) in zip(region, box, strict=True))


tiles = st.tuples(st.integers(-1, 2), st.integers(1, 2), st.integers(0, 3), st.integers(1, 3))


def concrete(bound: BoundPipeline, root: str, tile: tuple[int, int, int, int]) -> dict[str, Any]:
    v, h, u, w = tile
    return required_regions(bound, {root: ((v, v + h - 1), (u, u + w - 1))}, set(bound.funcs) - {root})


@settings(max_examples=100, deadline=None)
@given(pipelines(any_index), st.lists(tiles, min_size=1, max_size=5))
def test_many_tiles_at_once(pipeline: Pipeline, many: list[tuple[int, int, int, int]]) -> None:
    bound = bind(pipeline, SHAPES)
    root = list(bound.funcs)[-1]
    top, height, left, width = (np.array(column) for column in zip(*many, strict=True))
    region = ((top, top + height - 1), (left, left + width - 1))
    found = required_regions(bound, {root: region}, set(bound.funcs) - {root})
    for k, tile in enumerate(many):
        expected = concrete(bound, root, tile)
        assert found.keys() == expected.keys()
        for name, box in expected.items():
            ends = [tuple(int(np.broadcast_to(end, len(many))[k]) for end in pair) for pair in found[name]]
            assert ends == list(box), name


@settings(max_examples=100, deadline=None)
@given(pipelines(any_index), st.integers(1, 2), st.integers(1, 3))
def test_a_tile_that_follows_block_loops(pipeline: Pipeline, height: int, width: int) -> None:
    bound = bind(pipeline, SHAPES)
    root = list(bound.funcs)[-1]
    by, bx = ix.var("by", 0, 2), ix.var("bx", 0, 2)
    top, left = ix.add(ix.scale(by, height), -1), ix.scale(bx, width)
    region = ((top, ix.add(top, height - 1)), (left, ix.add(left, width - 1)))
    found = required_regions(bound, {root: region}, set(bound.funcs) - {root})
    for v in range(3):
        for u in range(3):
            expected = concrete(bound, root, (v * height - 1, height, u * width, width))
            for name, box in expected.items():
                for (lo, hi), (low, high) in zip(found[name], box, strict=True):
                    at = {"by": v, "bx": u}
                    assert ix.substitute(lo, at) <= low and high <= ix.substitute(hi, at), name


@settings(max_examples=60, deadline=None)
@given(pipelines(affine, with_updates=False), st.integers(1, 2), st.integers(1, 3))
def test_affine_tiles_are_exact_at_every_block(pipeline: Pipeline, height: int, width: int) -> None:
    bound = bind(pipeline, SHAPES)
    root = list(bound.funcs)[-1]
    bx = ix.var("bx", 0, 2)
    left = ix.scale(bx, width)
    found = required_regions(
        bound, {root: ((0, height - 1), (left, ix.add(left, width - 1)))}, set(bound.funcs) - {root}
    )
    for u in range(3):
        for name, box in concrete(bound, root, (0, height, u * width, width)).items():
            assert [tuple(ix.substitute(e, {"bx": u}) for e in pair) for pair in found[name]] == list(box), name


def blurred() -> BoundPipeline:
    img = Input("img", float32, 2)
    rows, out = Func("rows"), Func("out")
    rows[y, x] = img[y, x - 1] + img[y, x + 1]
    out[y, x] = rows[y - 1, x] + rows[2 * y, x]
    return bind(Pipeline(out.over(y=(1, 9), x=(1, 9))), {"img": (20, 20)})


def test_extents_of_many_tiles() -> None:
    tiles = np.array([[1, 1], [4, 8], [2, 3]])
    found = required_extents(blurred(), "out", tiles, ["rows"])
    assert found["out"].tolist() == tiles.tolist()
    assert found["rows"].tolist() == [[3, 1], [9, 8], [5, 3]]  # rows y0 - 1 to 2 * y1, with y0 = 1
    assert found["img"].tolist() == [[3, 3], [9, 10], [5, 5]]
    assert all(e.dtype == np.int64 for e in found.values())


def test_only_wanted_funcs_pass_on_their_demand() -> None:
    bound = blurred()
    found = required_regions(bound, {"out": ((1, 1), (1, 1))}, [])
    assert found == {"out": ((1, 1), (1, 1)), "rows": ((0, 2), (1, 1))}


def test_extents_of_a_func_without_dimensions() -> None:
    f, g = Func("f"), Func("g")
    f[()] = 3
    g[x] = f[()] + x
    found = required_extents(bind(Pipeline(g.over(x=(0, 9))), {}), "g", np.array([[1], [5]]), ["f"])
    assert found["f"].shape == (2, 0)


@pytest.mark.parametrize("name", ["img", "rows"])
def test_regions_of_the_whole_pipeline(name: str) -> None:
    bound = blurred()
    expected = {"img": ((0, 16), (0, 9)), "rows": ((0, 16), (1, 8))}
    assert required_regions(bound, {"out": bound.funcs["out"].region}, bound.funcs)[name] == expected[name]
