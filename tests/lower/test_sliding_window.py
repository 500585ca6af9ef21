"""Sliding windows: prologue, rolling buffers, double buffering, and all backends."""

from __future__ import annotations

import itertools
import re
from dataclasses import replace

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
from tests.lower.run_backends import assert_backends_agree
from tests.schedule.building import block, kernel, member, root, schedule, stage, thread

H200 = get_target("h200")
y, x = Var("y"), Var("x")
z = Var("z")
CONSUMER = "out"
IMAGE = cache_name("image")


def chain(height: int, width: int, *, clamped: bool = True) -> BoundPipeline:
    """Return three stages; each reads rows of its predecessor, from two before to one after its own."""
    image, first, second, out = Input("image", float32, 2), Func("first"), Func("second"), Func(CONSUMER)
    source = image.clamped() if clamped else image
    first[y, x] = source[y - 1, x] + 2 * source[y + 1, x + 1] if clamped else source[y, x] * 2 + source[y + 1, x]
    second[y, x] = first[y, x] * first[y + 2, x] - first[y + 1, x + 1]
    out[y, x] = second[y, x] + second[y + 1, x + 2] * second[y + 2, x]
    shape = (height, width) if clamped else (height + 5, width + 3)
    pipeline = Pipeline(out.over(y=(0, height - 1), x=(0, width - 1)), name="chain")
    return bind(pipeline, {"image": shape})


def at_mainloop(depth: int) -> ComputeAt:
    return ComputeAt(Level.MAINLOOP, stage(CONSUMER), depth)


def sliding(bound: BoundPipeline, tiles: str, rows: int, *names: str) -> Kernel:
    """Return a kernel with sliding windows of some Funcs along y; all other Funcs are inlined."""
    blocks = tiles.split().index(next(t for t in tiles.split() if t.startswith("s"))) + 1
    members = [member(at_mainloop(blocks), ("y", "x"), **{n: f"tx=16 sy={rows} sx=3"}) for n in names]
    inside = {CONSUMER, *names}
    return kernel(bound, [root(CONSUMER, tiles)], members, [f for f in bound.funcs if f not in inside])


def legal(bound: BoundPipeline, found: Schedule) -> Schedule:
    assert violations(bound, found, H200) == []
    assert from_json(to_json(bound, found), bound) == found
    return found


def checked(bound: BoundPipeline, one: Kernel) -> tuple[For, ...]:
    """Run a kernel on all backends, compile it, and return the prologue and the main loop of its first body."""
    program = lower(bound, legal(bound, schedule(bound, one)))
    assert_backends_agree(bound, program)
    (ir,) = program.kernels
    if have_nvrtc():
        assert compile_cubin(print_cuda(ir).source, H200.arch).code
    body = next((s.then for s in ir.body if isinstance(s, If)), ir.body)
    return tuple(s for s in body if isinstance(s, For) and s.role is LoopRole.MAINLOOP)


def has_lower_bound_guard(loop: For) -> bool:
    """Return whether a step has guards against rows before the first that is needed."""
    conditions = (s.condition for s in walk(loop.body) if isinstance(s, If) and not s.uniform)
    return any(isinstance(v, CompareIndex) and v.op == "ge" for c in conditions for v in walk_values(c))


def begins_later(loop: For) -> bool:
    """Return whether a step has a nest that the first steps lack."""
    return any(isinstance(s, If) and s.uniform and s.partition is None for s in walk(loop.body))


@pytest.mark.parametrize(("rows", "clamped"), list(itertools.product((1, 2, 4), (False, True))))
@pytest.mark.parametrize("height", [25, 38])
def test_chains_of_sliding_windows(height: int, rows: int, clamped: bool) -> None:
    bound = chain(height, 40, clamped=clamped)
    tiles = f"by={-(-(height - 1) // (4 * rows))} bx=2 sy=4 tx=16 sy={rows} sx=2"
    prologue, main = checked(bound, sliding(bound, tiles, rows, "first", "second"))
    assert begins_later(prologue) == (prologue.extent > 1)  # consumers begin after their producers
    assert not begins_later(main)
    for loop in (prologue, main):
        assert [isinstance(s, Barrier) for s in loop.body].count(True) == 2


def test_only_the_prologue_guards_rows_before_the_window() -> None:
    """Two of the 16 rows that the prologue loads are needed."""
    bound = chain(400, 140, clamped=False)
    prologue, main = checked(bound, sliding(bound, "by=7 bx=5 sy=4 tx=16 sy=16 sx=2", 16, "second"))
    assert prologue.extent == 1
    assert has_lower_bound_guard(prologue) and not has_lower_bound_guard(main)


def test_rolling_buffers_have_the_rows_that_a_step_reads() -> None:
    bound = chain(64, 40)
    plan = plan_kernel(bound, sliding(bound, "by=2 bx=2 sy=32 tx=16 sx=2", 1, "first", "second"))
    windows = {name: a.extents[0] for name, a in plan.allocations.items()}
    assert windows == {"first": 3, "second": 3}
    assert plan.prologue_steps == 4  # first reads four rows beyond those of out; each step computes one
    whole = plan_kernel(bound, sliding(bound, "by=2 bx=2 sy=4 tx=16 sy=8 sx=2", 8, "second"))
    assert whole.allocations["second"].extents[0] == 16 and whole.prologue_steps == 1


@pytest.mark.parametrize("asynchronous", [False, True])
@pytest.mark.parametrize(("height", "rows"), [(33, 1), (38, 4)])
def test_double_buffering_and_async_copies_of_rows(height: int, rows: int, asynchronous: bool) -> None:
    bound = chain(height, 40, clamped=False)
    tiles = f"by={-(-(height - 1) // (8 * rows))} bx=2 sy=8 tx=16 sy={rows} sx=2"
    names = insert_cache_reads(bound, ["image"]).funcs[IMAGE].dims
    copy = member(at_mainloop(3), names, **{IMAGE: f"t{names[1]}=16 s{names[0]}={rows} s{names[1]}=3"})
    one = kernel(bound, [root(CONSUMER, tiles)], [copy], ["first", "second"])
    two = one.with_async_copies() if asynchronous else one.with_double_buffering()
    windows = [plan_kernel(bound, k).allocations[IMAGE].extents[0] for k in (one, two)]
    assert windows[1] == windows[0] + rows  # rows of the next step
    for loop in checked(bound, two):
        assert [s.waits_for_copies for s in loop.body if isinstance(s, Barrier)] == [asynchronous]


@pytest.mark.parametrize(("height", "rows", "clamped", "asynchronous"), [(33, 1, False, True), (38, 4, True, False)])
def test_copies_are_loaded_ahead_of_windows_computed_from_them(
    height: int, rows: int, clamped: bool, asynchronous: bool
) -> None:
    """One barrier for the next step's copies, one before the root reads the window."""
    bound = chain(height, 40, clamped=clamped)
    tiles = f"by={-(-(height - 1) // (8 * rows))} bx=2 sy=8 tx=16 sy={rows} sx=2"
    names = insert_cache_reads(bound, ["image"]).funcs[IMAGE].dims
    copy = member(at_mainloop(3), names, **{IMAGE: f"t{names[1]}=16 s{names[0]}={rows} s{names[1]}=3"})
    window = member(at_mainloop(3), ("y", "x"), second=f"tx=16 sy={rows} sx=3")
    inlined = [f for f in bound.funcs if f not in (CONSUMER, "second")]
    one = kernel(bound, [root(CONSUMER, tiles)], [copy, window], inlined)
    two = one.with_async_copies() if asynchronous else one.with_double_buffering()
    assert {m.func: (m.buffers, m.asynchronous) for m in two.fused} == {IMAGE: (2, asynchronous), "second": (1, False)}
    images, seconds = ([plan_kernel(bound, k).allocations[f].extents[0] for k in (one, two)] for f in (IMAGE, "second"))
    assert images[1] == images[0] + rows and seconds[1] == seconds[0]
    _, main = checked(bound, two)
    assert [s.waits_for_copies for s in main.body if isinstance(s, Barrier)] == [asynchronous, False]


def test_windows_computed_from_windows_cannot_be_loaded_ahead() -> None:
    bound = chain(64, 40)
    one = sliding(bound, "by=2 bx=2 sy=32 tx=16 sx=2", 1, "first", "second")
    both = replace(one, fused=tuple(replace(m, buffers=2) for m in one.fused))
    reasons = violations(bound, schedule(bound, both), H200)
    assert reasons == [
        "kernel 0: second cannot be double-buffered: it must be pure, host no producer and read no MAINLOOP producer; "
        "give it 1 buffer"
    ]
    first = replace(one, fused=tuple(replace(m, buffers=2 if m.func == "first" else 1) for m in one.fused))
    checked(bound, first)


def test_planes_slide_along_the_slowest_dimension() -> None:
    """The kernel also has a cache read before the steps and a producer at THREAD."""
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
            member(at_mainloop(4), ("z", "y", "x"), plane="tx=16 ty=8 sz=1 sx=2"),
            member(thread(CONSUMER, 6), ("z", "y", "x"), across="sz=1"),
        ],
        ["volume_clamped"],
    )
    plan = plan_kernel(bound, found)
    assert plan.allocations["plane"].extents == (3, 5, 16) and plan.prologue_steps == 2
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
def test_illegal_sliding_windows(broken: str, reason: str) -> None:
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
    window = member(at_mainloop(2 + len(walks.split())), ("y", "x"), **stages)
    found = schedule(bound, kernel(bound, roots if broken == "update" else roots[:1], [window]))
    assert any(reason in r for r in violations(bound, found, H200)), violations(bound, found, H200)


def test_text_has_the_sliding_window() -> None:
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
