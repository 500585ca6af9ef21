"""Windows that slide along a dimension while the block walks it: rows come in, stay while they are read, and go."""

from __future__ import annotations

import itertools
import re

import numpy as np
import pytest

from autosched import Func, Input, Pipeline, RDom, Var, float32
from autosched.analysis.bind import bind
from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.analysis.rewrites.cache_read import cache_name, insert_cache_reads
from autosched.apps import get_app
from autosched.codegen.cuda import print_cuda
from autosched.lower.ir import Barrier, CompareIndex, For, If, LoopRole, walk, walk_values
from autosched.lower.program import lower
from autosched.runtime.compile.nvrtc import compile_cubin, have_nvrtc
from autosched.schedule.io.serialise import from_json, to_json
from autosched.schedule.io.text import schedule_text
from autosched.schedule.legality.validate import violations
from autosched.schedule.planner import plan_kernel
from autosched.schedule.sampling.random_schedule import sample_schedule
from autosched.schedule.types import ComputeAt, Kernel, Level, Schedule
from autosched.target import get_target
from tests.lower.running import assert_backends_agree
from tests.schedule.building import block, kernel, member, root, schedule, stage, thread

H200 = get_target("h200")
y, x = Var("y"), Var("x")
z = Var("z")
CONSUMER = "out"
IMAGE = cache_name("image")


def chain(height: int, width: int, *, clamped: bool = True) -> BoundPipeline:
    """Return three stages of which each reads rows of the one before: up to two earlier, up to one later."""
    image, first, second, out = Input("image", float32, 2), Func("first"), Func("second"), Func(CONSUMER)
    source = image.clamped() if clamped else image
    first[y, x] = source[y - 1, x] + 2 * source[y + 1, x + 1] if clamped else source[y, x] * 2 + source[y + 1, x]
    second[y, x] = first[y, x] * first[y + 2, x] - first[y + 1, x + 1]
    out[y, x] = second[y, x] + second[y + 1, x + 2] * second[y + 2, x]
    shape = (height, width) if clamped else (height + 5, width + 3)
    pipeline = Pipeline(out.over(y=(0, height - 1), x=(0, width - 1)), name="chain")
    return bind(pipeline, {"image": shape})


def walked(depth: int) -> ComputeAt:
    return ComputeAt(Level.MAINLOOP, stage(CONSUMER), depth)


def sliding(bound: BoundPipeline, tiles: str, rows: int, *names: str) -> Kernel:
    """Return a kernel whose root walks y, with windows of some Funcs and of the image; the others are inlined."""
    blocks = tiles.split().index(next(t for t in tiles.split() if t.startswith("s"))) + 1
    members = [member(walked(blocks), ("y", "x"), **{n: f"tx=16 sy={rows} sx=3"}) for n in names]
    inside = {CONSUMER, *names}
    return kernel(bound, [root(CONSUMER, tiles)], members, [f for f in bound.funcs if f not in inside])


def legal(bound: BoundPipeline, found: Schedule) -> Schedule:
    assert violations(bound, found, H200) == []
    assert from_json(to_json(bound, found), bound) == found
    return found


def checked(bound: BoundPipeline, one: Kernel) -> tuple[For, ...]:
    """Run a kernel on all backends, compile it, and return its loops over steps: those that fill windows, all others.

    Of the first body, if there is one for the interior and one for the border.
    """
    program = lower(bound, legal(bound, schedule(bound, one)))
    assert_backends_agree(bound, program)
    (ir,) = program.kernels
    if have_nvrtc():
        assert compile_cubin(print_cuda(ir).source, H200.arch).code
    body = next((s.then for s in ir.body if isinstance(s, If)), ir.body)
    return tuple(s for s in body if isinstance(s, For) and s.role is LoopRole.MAINLOOP)


def asks_for_a_beginning(loop: For) -> bool:
    """Return whether threads ask in a step which rows lie before the first that is needed."""
    conditions = (s.condition for s in walk(loop.body) if isinstance(s, If) and not s.uniform)
    return any(isinstance(v, CompareIndex) and v.op == "ge" for c in conditions for v in walk_values(c))


@pytest.mark.parametrize(("rows", "clamped"), list(itertools.product((1, 2, 4), (False, True))))
@pytest.mark.parametrize("height", [25, 38])
def test_chains_of_windows(height: int, rows: int, clamped: bool) -> None:
    bound = chain(height, 40, clamped=clamped)
    tiles = f"by={-(-(height - 1) // (4 * rows))} bx=2 sy=4 tx=16 sy={rows} sx=2"
    filling, walking = checked(bound, sliding(bound, tiles, rows, "first", "second"))
    begins_later = [isinstance(s, If) and s.uniform for s in filling.body]
    assert any(begins_later) == (filling.extent > 1)  # what reads begins after what it reads
    assert not any(isinstance(s, If) and s.uniform for s in walking.body)
    for loop in (filling, walking):
        assert [isinstance(s, Barrier) for s in loop.body].count(True) == 2


def test_rows_before_a_window_are_asked_for_only_while_it_is_filled() -> None:
    """Of 16 rows that come in before the first step two are needed."""
    bound = chain(400, 140, clamped=False)
    filling, walking = checked(bound, sliding(bound, "by=7 bx=5 sy=4 tx=16 sy=16 sx=2", 16, "second"))
    assert filling.extent == 1
    assert asks_for_a_beginning(filling) and not asks_for_a_beginning(walking)


def test_a_window_has_the_rows_that_are_read_in_a_step() -> None:
    bound = chain(64, 40)
    plan = plan_kernel(bound, sliding(bound, "by=2 bx=2 sy=32 tx=16 sx=2", 1, "first", "second"))
    windows = {name: a.extents[0] for name, a in plan.allocations.items()}
    assert windows == {"first": 3, "second": 3}
    assert plan.warm_up == 4  # first reaches four rows beyond out's, of which it computes one a step
    whole = plan_kernel(bound, sliding(bound, "by=2 bx=2 sy=4 tx=16 sy=8 sx=2", 8, "second"))
    assert whole.allocations["second"].extents[0] == 16 and whole.warm_up == 1


@pytest.mark.parametrize("past", [False, True])
@pytest.mark.parametrize(("height", "rows"), [(33, 1), (38, 4)])
def test_rows_come_in_while_others_are_read(height: int, rows: int, past: bool) -> None:
    bound = chain(height, 40, clamped=False)
    tiles = f"by={-(-(height - 1) // (8 * rows))} bx=2 sy=8 tx=16 sy={rows} sx=2"
    names = insert_cache_reads(bound, ["image"]).funcs[IMAGE].dims
    copy = member(walked(3), names, **{IMAGE: f"t{names[1]}=16 s{names[0]}={rows} s{names[1]}=3"})
    one = kernel(bound, [root(CONSUMER, tiles)], [copy], ["first", "second"])
    two = one.with_async_copies() if past else one.with_double_buffering()
    windows = [plan_kernel(bound, k).allocations[IMAGE].extents[0] for k in (one, two)]
    assert windows[1] == windows[0] + rows  # those of the next step, meanwhile
    for loop in checked(bound, two):
        assert [s.waits_for_copies for s in loop.body if isinstance(s, Barrier)] == [past]


def test_planes_slide_along_the_slowest_dimension_beside_other_members() -> None:
    """Planes of a volume, a table that is there from the start, and what a thread computes for itself."""
    volume, table = Input("volume", float32, 3), Input("table", float32, 1)
    edge, plane, across, out = volume.clamped(), Func("plane"), Func("across"), Func(CONSUMER)
    plane[z, y, x] = edge[z, y, x - 1] + edge[z, y, x + 1] * table[x % 5]
    across[z, y, x] = plane[z - 1, y, x] + plane[z + 1, y, x] - plane[z, y - 1, x]
    out[z, y, x] = across[z, y, x] * across[z, y, x]
    bound = bind(
        Pipeline(out.over(z=(0, 13), y=(0, 9), x=(0, 20)), name="planes"), {"volume": (14, 10, 21), "table": (5,)}
    )
    name = cache_name("table")
    (dim,) = insert_cache_reads(bound, ["table"]).funcs[name].dims
    found = kernel(
        bound,
        [root(CONSUMER, "bz=2 by=3 bx=2 sz=7 tx=16 ty=4 sx=1")],
        [
            member(block(CONSUMER, 3), (dim,), **{name: f"t{dim}=16"}),
            member(walked(4), ("z", "y", "x"), plane="tx=16 ty=8 sz=1 sx=2"),
            member(thread(CONSUMER, 6), ("z", "y", "x"), across="sz=1"),
        ],
        ["volume_clamped"],
    )
    plan = plan_kernel(bound, found)
    assert plan.allocations["plane"].extents == (3, 5, 16) and plan.warm_up == 2
    checked(bound, found)


@pytest.mark.parametrize(
    ("broken", "reason"),
    [
        ("transposed", "first cannot slide along y: the rows that a step needs move along y and x"),
        ("fixed", "first cannot slide along y: the rows that a step needs move along no dimension"),
        ("scan", "first cannot be a sliding window: its stages access points of other threads"),
        ("update", "a sliding window needs a host that is pure and the kernel's only root, which out is not"),
        ("two loops", "must all be reduction loops, or be one serial loop"),
    ],
)
def test_what_cannot_slide(broken: str, reason: str) -> None:
    image, first, out = Input("image", float32, 2), Func("first"), Func(CONSUMER)
    first[y, x] = image[y, x] * 2
    if broken == "scan":
        r = RDom("r", k=(1, 32))
        first[y, r.k] = first[y, r.k - 1] + image[y, r.k]
    at = {"transposed": first[x, y] + first[y, x], "fixed": first[3, x]}.get(broken, first[y, x])
    out[y, x] = at
    if broken == "update":
        out[y, x] += 1
    bound = bind(Pipeline(out.over(y=(0, 32), x=(0, 32)), name="broken"), {"image": (32, 32)})
    walks = "sy=4 sx=2" if broken == "two loops" else "sy=4"
    roots = [root(s, f"by=1 bx=1 {walks} tx=16 sy=8 sx=2") for s in (CONSUMER, f"{CONSUMER}.1")]
    stages = {"first": "tx=16 sy=32 sx=2"} | ({"first__1": "ty=16 sy=2 rr.k=31"} if broken == "scan" else {})
    window = member(walked(2 + len(walks.split())), ("y", "x"), **stages)
    found = schedule(bound, kernel(bound, roots if broken == "update" else roots[:1], [window]))
    assert any(reason in r for r in violations(bound, found, H200)), violations(bound, found, H200)


def test_text_shows_the_window() -> None:
    bound = chain(64, 40)
    text = schedule_text(bound, schedule(bound, sliding(bound, "by=2 bx=2 sy=32 tx=16 sx=2", 1, "first", "second")))
    assert "serial y 32  (sliding window, 4 prologue steps)" in text
    assert re.search(r"second\[y 3, x 34\]: in shared memory, \d+ bytes, rolling buffer along y", text)


@pytest.mark.parametrize(("app", "least"), [("unsharp", 2), ("harris", 2)])
def test_random_schedules(app: str, least: int) -> None:
    one = get_app(app)
    bound = bind(one.build(), {name: a.shape for name, a in one.generate(one.small_sizes, 0).items()})
    seen = 0
    for seed in range(40):
        found = sample_schedule(bound, H200, np.random.default_rng(seed), varied=True)
        if seen < least and any(k.is_sliding_window for k in found.kernels):
            seen += 1
            assert_backends_agree(bound, lower(bound, legal(bound, found)))
    assert seen == least
