"""Plans: regions of fused producers against enumeration of all points; order, names and grouping of nests."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autosched import Func, Input, Pipeline, RDom, Var, float32
from autosched.analysis.bind import bind
from autosched.analysis.indices import index as ix
from autosched.errors import ScheduleError
from autosched.schedule.plan import KernelPlan, Nest
from autosched.schedule.planner import plan_kernel
from autosched.schedule.types import Kernel, StageTiling
from tests.schedule.brute_force import DIMS, Access, Box, Chain, block_depth, iterations, limited, points
from tests.schedule.building import (
    block,
    blur,
    blur_with_shared,
    kernel,
    loops,
    member,
    product_pipeline,
    root,
    thread,
)

BOX = ((-3, 14), (2, 30))
OUT = "by=3 bx=2 tx=5 ty=2 sy=3 sx=3"


def nest_of(plan: KernelPlan, name: str) -> Nest:
    """Return the nest of a stage by its text."""
    return next(n for group in (*plan.steps, *plan.thread_nests) for n in group if str(n.id) == name)


def planned(nest: Nest, names: Sequence[str], values: Sequence[int]) -> Box:
    """Return the box of a nest for values of the loops around it."""
    env = dict(zip(names, values, strict=True))
    return tuple((int(ix.evaluate(nest.low[d], env)), int(ix.evaluate(nest.high[d], env))) for d in DIMS)


def check_members(chain: Chain, tiling: StageTiling, depth: int, plan: KernelPlan, funcs: Sequence[str]) -> None:
    """Compare planned boxes of fused producers inside the first ``depth`` loops of the output with the oracle's."""
    names = [loop.name for loop in plan.steps[-1][-1].loops[:depth]]
    largest: dict[str, list[int]] = {}
    for values in iterations(tiling, depth):
        tile = points(tiling, chain.box, values)
        if not tile:
            continue
        needed = chain.needed({"out": tile}, [*funcs, *plan.inlined])
        for f in funcs:
            assert planned(nest_of(plan, f), names, values) == needed[f], (f, values)
            sizes = [hi - lo + 1 for lo, hi in needed[f]]
            largest[f] = [max(pair) for pair in zip(sizes, largest.get(f, sizes), strict=True)]
    for f in funcs:
        assert [nest_of(plan, f).extents[d] for d in DIMS] == largest[f]
        allocation = plan.allocations[f]
        assert dict(zip(allocation.dims, allocation.extents, strict=True)) == dict(zip(DIMS, largest[f], strict=True))


CHAINS: dict[str, Chain] = {
    "stencil": Chain(
        {"f": [], "out": [("f", lambda y, x: (y - 1, x)), ("f", lambda y, x: (y + 2, x + 1))]}, BOX,
    ),
    "a stencil of a stencil": Chain(
        {
            "g": [],
            "f": [("g", lambda y, x: (y, x - 1)), ("g", lambda y, x: (y + 1, x))],
            "out": [("f", lambda y, x: (y - 1, x - 1)), ("f", lambda y, x: (y, x + 1)), ("g", lambda y, x: (y, x + 4))],
        },
        BOX,
    ),
    "downsampling": Chain({"f": [], "out": [("f", lambda y, x: (2 * y + 1, 3 * x - y))]}, BOX),
    "upsampling": Chain(
        {"g": [], "f": [("g", lambda y, x: (2 * y, x))], "out": [("f", lambda y, x: (y // 2, (x + 1) // 3))]}, BOX,
    ),
    "clamped": Chain(
        {
            "f": [],
            "out": [("f", lambda y, x: (limited(y - 2, 0, 9), limited(x + 3, 5, 20))), ("f", lambda y, x: (y, 7))],
        },
        BOX,
    ),
    "turned": Chain({"f": [], "out": [("f", lambda y, x: (-x, 5 - 2 * y))]}, BOX),
}  # fmt: skip


@pytest.mark.parametrize("name", CHAINS)
@pytest.mark.parametrize("tiles", [OUT, "by=6 bx=29 sy=3", "bx=8 by=1 ty=9 sx=2 tx=2 sy=2", "by=18 bx=1 tx=29"])
def test_regions_in_a_block(name: str, tiles: str) -> None:
    chain = CHAINS[name]
    bound = chain.bound()
    funcs = [f for f in chain.reads if f != "out"]
    members = [member(block("out", 2), DIMS, **{f: "sy=1 sx=1"}) for f in funcs]
    out = root("out", tiles)
    check_members(chain, out.tiling, 2, plan_kernel(bound, kernel(bound, [out], members)), funcs)


@pytest.mark.parametrize("name", CHAINS)
@pytest.mark.parametrize("depth", [4, 5, 6])
def test_regions_in_a_thread(name: str, depth: int) -> None:
    chain = CHAINS[name]
    bound = chain.bound()
    funcs = [f for f in chain.reads if f != "out"]
    members = [member(thread("out", depth), DIMS, **{f: "sy=1 sx=1"}) for f in funcs]
    out = root("out", OUT)
    check_members(chain, out.tiling, depth, plan_kernel(bound, kernel(bound, [out], members)), funcs)


def test_regions_through_inlined_funcs_and_registers() -> None:
    """``f`` is in shared memory, ``g`` is inlined, ``h`` is at THREAD: the region of ``f`` is the hull of both."""
    chain = Chain(
        {
            "f": [],
            "g": [("f", lambda y, x: (y + 1, x)), ("f", lambda y, x: (y, 2 * x))],
            "h": [("g", lambda y, x: (y - 2, x)), ("f", lambda y, x: (y, x))],
            "out": [("h", lambda y, x: (y, x)), ("h", lambda y, x: (y, x + 1))],
        },
        BOX,
    )
    bound, out = chain.bound(), root("out", OUT)
    members = [member(block("out", 2), DIMS, f="sy=1 sx=1"), member(thread("out", 5), DIMS, h="sy=1 sx=4")]
    plan = plan_kernel(bound, kernel(bound, [out], members, ["g"]))
    names = [loop.name for loop in plan.grid]
    for values in iterations(out.tiling, block_depth(out.tiling)):
        tile = points(out.tiling, chain.box, values)
        needed = chain.needed({"out": tile}, ["f", "g", "h"])
        assert planned(nest_of(plan, "f"), names, values) == needed["f"]
    check_members(chain, out.tiling, 5, plan, ["h"])


offsets = st.integers(-3, 3)


@st.composite
def accesses(draw: st.DrawFn) -> Access:
    """An affine access with a stride, a floor division and offsets, the two dimensions possibly exchanged."""
    a, b, d, e = draw(st.integers(-2, 2)), draw(offsets), draw(st.integers(1, 3)), draw(offsets)
    if draw(st.booleans()):
        return lambda y, x: (a * y + b, (x + e) // d)
    return lambda y, x: ((x + e) // d, a * y + x + b)


@settings(deadline=None, max_examples=60)
@given(
    st.lists(accesses(), min_size=1, max_size=3), st.lists(accesses(), min_size=1, max_size=2),
    st.integers(1, 3), st.integers(1, 4), st.integers(1, 3), st.integers(1, 3),
)  # fmt: skip
def test_regions_of_random_accesses(
    to_f: list[Access], to_g: list[Access], thread_y: int, thread_x: int, serial_y: int, serial_x: int
) -> None:
    chain = Chain({"g": [], "f": [("g", at) for at in to_g], "out": [("f", at) for at in to_f]}, ((-2, 6), (1, 9)))
    bound = chain.bound()
    by, bx = -(-9 // (thread_y * serial_y)), -(-9 // (thread_x * serial_x))
    out = root("out", f"by={by} bx={bx} tx={thread_x} sy={serial_y} ty={thread_y} sx={serial_x}")
    members = [member(block("out", 2), DIMS, g="sy=1 sx=1"), member(block("out", 2), DIMS, f="sy=1 sx=1")]
    check_members(chain, out.tiling, 2, plan_kernel(bound, kernel(bound, [out], members)), ["f", "g"])


def test_a_remainder_gives_the_whole_region() -> None:
    chain = Chain({"f": [], "out": [("f", lambda y, x: (y % 5, (x + 1) % 7))]}, BOX)
    bound, out = chain.bound(), root("out", OUT)
    plan = plan_kernel(bound, kernel(bound, [out], [member(block("out", 2), DIMS, f="sy=1 sx=1")]))
    names = [loop.name for loop in plan.grid]
    for values in iterations(out.tiling, 2):
        (need,) = chain.needed({"out": points(out.tiling, BOX, values)}, ["f"]).values()
        for (lo, hi), (needed_lo, needed_hi), n in zip(
            planned(nest_of(plan, "f"), names, values), need, (5, 7), strict=True
        ):
            assert 0 <= lo <= needed_lo and needed_hi <= hi < n


def test_narrower_block_ranges_give_the_same_region() -> None:
    chain = CHAINS["clamped"]
    bound, out = chain.bound(), root("out", OUT)
    k = kernel(bound, [out], [member(block("out", 2), DIMS, f="sy=1 sx=1")])
    whole, narrow = plan_kernel(bound, k), plan_kernel(bound, k, {"y_b": (1, 1), "x_b": (0, 0)})
    names = [loop.name for loop in whole.grid]
    assert planned(nest_of(narrow, "f"), names, (1, 0)) == planned(nest_of(whole, "f"), names, (1, 0))


def test_producers_come_before_consumers_and_roots_last() -> None:
    bound = CHAINS["a stencil of a stencil"].bound()
    members = [member(block("out", 2), DIMS, f="sy=1 sx=1"), member(block("out", 2), DIMS, g="sy=1 sx=1")]
    plan = plan_kernel(bound, kernel(bound, [root("out", OUT)], members))
    assert [str(group[0].id) for group in plan.steps] == ["g", "f", "out"]


def test_every_loop_has_a_name_of_its_own() -> None:
    bound = blur()
    plan = plan_kernel(bound, blur_with_shared(bound).kernels[0])
    names = [loop.name for loop in plan.grid]
    names += [loop.name for group in plan.steps for n in group for loop in n.loops if loop not in plan.grid]
    assert len(set(names)) == len(names)
    assert names[:2] == ["y_b", "x_b"]


def test_stages_with_private_tiles_share_thread_loops() -> None:
    bound = bind(product_pipeline(), {"a": (40, 30), "b": (30, 50)})
    tile = "by=5 bx=2 tx=32 ty=4 sy=2"
    plan = plan_kernel(bound, kernel(bound, [root("dot", tile), root("dot.1", f"{tile} rr.k=30")]))
    ((first, second),) = plan.steps
    assert [loop.name for loop in first.thread_loops] == [loop.name for loop in second.thread_loops]
    assert first.inner[0].name != second.inner[0].name
    assert (second.serial_points, second.reduction_points) == (2, 30)


def test_stages_that_access_other_points_are_separate_steps() -> None:
    img, table, out = Input("img", float32, 2), Func("table"), Func("out")
    r = RDom("r", x=(1, 20))
    y, x = Var("y"), Var("x")
    table[y, x] = img[y, x]
    table[y, r.x] = table[y, r.x - 1] + table[y, r.x]
    out[y, x] = table[y, x] * 2
    bound = bind(Pipeline([out.over(y=(0, 16), x=(0, 20))], name="scan"), {"img": (16, 20)})
    held = member(block("out", 1), "yx", table="tx=20 ty=4", table__1="ty=4 rr.x=19")
    plan = plan_kernel(bound, kernel(bound, [root("out", "by=4 tx=20 ty=4")], [held]))
    assert [[str(n.id) for n in group] for group in plan.steps] == [["table"], ["table.1"], ["out"]]
    assert plan.block == (20, 4, 1)


def test_threads_of_a_block_are_the_most_of_any_nest() -> None:
    bound = blur()
    shared = member(block("out", 2), "yx", across="ty=10 tx=32")
    plan = plan_kernel(bound, kernel(bound, [root("out", "by=7 bx=3 tx=32 ty=8")], [shared], ["img_clamped"]))
    assert plan.block == (32, 32, 1)


def test_a_producer_without_readers_in_its_kernel() -> None:
    bound = CHAINS["a stencil of a stencil"].bound()
    no_host = [member(thread("elsewhere", 2), DIMS, g="sy=1 sx=1")]
    with pytest.raises(ScheduleError, match="'g': its host elsewhere is not computed in this kernel"):
        plan_kernel(bound, Kernel((root("out", OUT),), tuple(no_host)))
    with pytest.raises(
        ScheduleError, match="'g' is fused into a kernel that does not read it; remove it from the kernel"
    ):
        through_f = CHAINS["upsampling"].bound()
        plan_kernel(through_f, Kernel((root("out", OUT),), (member(block("out", 2), DIMS, g="sy=1 sx=1"),)))


def test_strides_of_loops() -> None:
    tiling = root("out", OUT).tiling
    assert [tiling.stride(k) for k in range(6)] == [6, 15, 3, 3, 1, 1]
    assert loops("by=3") == tiling.loops[:1]
