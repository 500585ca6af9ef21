"""Sliding windows in registers: rows, threads, legality, all backends and compiled code."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from autosched import Func, Input, Pipeline, Var, float32, float64
from autosched.analysis.bind import bind
from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.analysis.rewrites.cache_read import cache_name, insert_cache_reads
from autosched.codegen.cuda import print_cuda
from autosched.errors import ScheduleError
from autosched.lang.boundary import KINDS
from autosched.lower.ir import Barrier, For, If, LoopRole, Memory, Store, walk
from autosched.lower.program import lower
from autosched.runtime.compile.nvrtc import compile_cubin, have_nvrtc
from autosched.schedule.io.serialise import from_json, to_json
from autosched.schedule.io.text import canonical_text, schedule_text
from autosched.schedule.kernel.aligned_tilings import with_register_windows
from autosched.schedule.legality.validate import violations
from autosched.schedule.planner import plan_kernel
from autosched.schedule.types import ComputeAt, Kernel, Level, Schedule
from autosched.target import get_target
from tests.lower.run_backends import assert_backends_agree
from tests.lower.sweeps import chain_of_windows, random_sliding, sweeps
from tests.schedule.building import kernel, member, root, schedule, stage

H200 = get_target("h200")
z, y, x = Var("z"), Var("y"), Var("x")
OUT = "output"
IN = cache_name("in")


def legal(bound: BoundPipeline, one: Kernel) -> Schedule:
    found = schedule(bound, one)
    assert violations(bound, found, H200) == []
    assert from_json(to_json(bound, found), bound) == found
    return found


def checked(bound: BoundPipeline, one: Kernel) -> str:
    """Run a kernel on all backends, compile it, and return its text."""
    program = lower(bound, legal(bound, one))
    assert_backends_agree(bound, program)
    printed = print_cuda(program.kernels[0])
    if have_nvrtc():
        assert compile_cubin(printed.source, H200.arch, name=printed.name).kernels[printed.name].spill_bytes == 0
    return printed.source


def in_registers(bound: BoundPipeline, one: Kernel, names: Sequence[str] = ()) -> Kernel:
    """Return a kernel with some windows in registers, all by default."""
    windows = [m.func for m in one.fused if m.at.level is Level.MAINLOOP]
    return with_register_windows(bound, one, set(names or windows))


@pytest.mark.parametrize("times", [1, 2, 3])
def test_rows_read_at_moved_points_are_in_shared_memory(times: int) -> None:
    """Of the star's three planes, the centre is read at moved points."""
    bound = sweeps("clamped", (20, 24, 48), times)
    plan = plan_kernel(bound, in_registers(bound, chain_of_windows(bound, 10)))
    rows = {name: (w.count, w.delay, w.shared_rows) for name, w in plan.register_windows.items()}
    assert rows == dict.fromkeys([IN, *(f"sweep_{k}" for k in range(1, times))], (3, 1, 1))
    assert plan.block == (16 + 2 * times, 8 + 2 * times, 1)
    shared = {name: a.extents for name, a in plan.allocations.items()}
    assert shared[IN] == (1, 8 + 2 * times, 16 + 2 * times)


def test_prefetched_rows_are_in_registers_alone() -> None:
    bound = sweeps("clamped", (20, 12, 24), 2)
    one = in_registers(bound, chain_of_windows(bound, 10)).with_double_buffering()
    plan = plan_kernel(bound, one)
    w = plan.register_windows[IN]
    assert (w.count, w.delay, w.shared_rows) == (4, 2, 1)
    assert one.with_async_copies() == one  # registers are not filled by async copies
    checked(bound, one)


def test_steps_shift_registers_and_store_the_centre() -> None:
    bound = sweeps("clamped", (20, 24, 48), 2)
    found = legal(bound, in_registers(bound, chain_of_windows(bound, 10)))
    (ir,) = lower(bound, found).kernels
    loop = [s for s in walk(ir.body) if isinstance(s, For) and s.role is LoopRole.MAINLOOP][-1]
    assert loop.unroll == 3  # so that shifts are renamings
    assert [isinstance(s, Barrier) for s in loop.body].count(True) == 2
    stores = [s.buffer for s in walk(loop.body) if isinstance(s, Store)]
    assert {b.memory for b in stores} == {Memory.PRIVATE, Memory.SHARED, Memory.GLOBAL}
    shared = {s.buffer.name: s.buffer.count for s in ir.shared}
    assert sorted(shared.values()) == [10 * 18, 12 * 20]  # one plane each
    text = " ".join(schedule_text(bound, found).split())
    assert text.count("read at moved points, 3 rows in registers") == 2 and "rolling buffer" not in text


def test_windows_of_own_points_have_no_shared_memory() -> None:
    source, first, out = Input("source", float64, 3), Func("first"), Func(OUT)
    first[z, y, x] = source[z, y, x] * 2 + source[z, y, x + 1]
    out[z, y, x] = first[z, y, x] - first[z + 2, y, x] * first[z + 1, y, x]
    bound = bind(Pipeline(out.over(z=(0, 17), y=(0, 9), x=(0, 30)), name="own"), {"source": (19, 9, 31)})
    at = ComputeAt(Level.MAINLOOP, stage(OUT), 4)
    one = kernel(
        bound, [root(OUT, "bz=3 by=2 bx=2 sz=6 tx=16 ty=3 sy=2")], [member(at, ("z", "y", "x"), first="tx=16 ty=5")]
    )
    one = in_registers(bound, one)
    (ir,) = lower(bound, legal(bound, one)).kernels
    assert ir.shared_bytes == 0 and not any(isinstance(s, Barrier) for s in walk(ir.body))
    checked(bound, one)


@pytest.mark.parametrize(
    "points", ["sz=2", *(pytest.param(p, marks=pytest.mark.fuzz) for p in ("sy=2", "sx=2", "sy=2 sx=2", "sz=2 sy=2"))]
)
def test_threads_have_several_points(points: str) -> None:
    bound = sweeps("clamped", (19, 21, 38), 2)
    at, dims = ComputeAt(Level.MAINLOOP, stage(OUT), 4), ("z", "y", "x")
    sizes = dict(p.split("=") for p in points.split())
    rows, high, wide = (int(sizes.get(f"s{d}", 1)) for d in dims)
    tiles = f"bz={-(-19 // (5 * rows))} by={-(-21 // (4 * high))} bx={-(-38 // (8 * wide))} sz=5 tx=8 ty=4 {points}"
    staged = insert_cache_reads(bound, ["in"]).funcs[IN].dims
    windows = [member(at, dims, sweep_1=""), member(at, staged, **{IN: ""})]
    one = kernel(bound, [root(OUT, tiles)], windows, [f for f in bound.funcs if f not in (OUT, "sweep_1")])
    checked(bound, in_registers(bound, one))


@pytest.mark.parametrize(
    ("kind", "extents", "times"),
    [(kind, (26, 40), 3) for kind in KINDS[::2]] + [(kind, (14, 17, 30), 2) for kind in KINDS[1::2]],
)
def test_random_windows_in_registers(kind: str, extents: tuple[int, ...], times: int) -> None:
    assert check(kind, extents, times, 1)


@pytest.mark.fuzz
@pytest.mark.parametrize("seed", range(30))
@pytest.mark.parametrize("kind", KINDS)
def test_many_windows_in_registers(kind: str, seed: int) -> None:
    rng = np.random.default_rng((seed, KINDS.index(kind)))
    extents = (int(rng.integers(9, 24)), *(int(n) for n in rng.integers(9, 40, rng.integers(1, 3))))
    check(kind, extents, int(rng.integers(1, 5)), seed)


def check(kind: str, extents: tuple[int, ...], times: int, seed: int) -> bool:
    """Check one random kernel in which some windows are in registers, on all backends; return whether one is legal."""
    bound = sweeps(kind, extents, times)
    rng = np.random.default_rng(seed)
    for k in range(100):
        found = random_sliding(bound, rng, cached=times == 1 or k % 2 == 0)
        if found is None:
            continue
        (one,) = found.kernels
        windows = [m.func for m in one.fused]
        names = [w for w in windows if rng.random() < 0.7] or windows[:1]
        try:
            one = with_register_windows(bound, one, names)
        except ScheduleError:
            continue
        if not violations(bound, schedule(bound, one), H200):
            checked(bound, one)
            return True
    return False


def pair(expression: str) -> BoundPipeline:
    """Return two stages, of which the second reads the first as an expression has it."""
    source, first, out = Input("source", float32, 2), Func("first"), Func(OUT)
    first[y, x] = source[y, x] * 2
    if expression == "all rows moved":
        out[y, x] = first[y, x] + first[y, x + 1] + first[y + 1, x + 1]
    elif expression == "update":
        first[y, x] += 1
        out[y, x] = first[y, x] + first[y + 1, x]
    else:
        out[y, x] = first[y, x] + first[y + 1, x]
    return bind(Pipeline(out.over(y=(0, 32), x=(0, 32)), name="pair"), {"source": (40, 40)})


@pytest.mark.parametrize(
    ("case", "tiles", "window", "reason"),
    [
        ("all rows moved", "by=4 bx=1 sy=8 tx=32", "tx=33", "all rows that threads read at their own points are read"),
        ("update", "by=4 bx=1 sy=8 tx=32", "tx=32", "only a Func with one pure definition can be"),
        ("own", "by=4 bx=1 sy=8 tx=16 sx=2", "tx=32", "a thread has 1 points of first along x and 2 of output"),
        ("own", "by=4 bx=1 sy=8 sx=2 tx=16", "tx=16 sx=2", "output has a serial loop outside its thread loop over x"),
        ("own", "by=4 bx=1 sy=8 tx=32", "ty=1 tx=16 sx=2", "a thread has 2 points of first along x and 1 of output"),
    ],
)
def test_illegal_windows_in_registers(case: str, tiles: str, window: str, reason: str) -> None:
    bound = pair(case)
    at = ComputeAt(Level.MAINLOOP, stage(OUT), 3)
    stages = {"first": window} | ({"first__1": window} if case == "update" else {})
    one = kernel(bound, [root(OUT, tiles)], [member(at, ("y", "x"), **stages)])
    one = replace(one, fused=tuple(replace(m, private=True) for m in one.fused))
    found = violations(bound, schedule(bound, one), H200)
    assert any(reason in r for r in found), found


def test_async_copies_and_thread_producers_are_refused() -> None:
    bound = sweeps("clamped", (20, 12, 24), 1)
    one = in_registers(bound, chain_of_windows(bound, 10)).with_double_buffering()
    copied = replace(one, fused=tuple(replace(m, asynchronous=True) for m in one.fused))
    (reason,) = violations(bound, schedule(bound, copied), H200)
    assert "async copies go to shared memory" in reason


def test_canonical_text_and_hash_differ() -> None:
    bound = sweeps("clamped", (20, 12, 24), 1)
    shared = chain_of_windows(bound, 10)
    private = replace(shared, fused=tuple(replace(m, private=True) for m in shared.fused))
    texts = {canonical_text(schedule(bound, k)) for k in (shared, private)}
    assert len(texts) == 2
    assert any(isinstance(s, If) for s in walk(lower(bound, legal(bound, in_registers(bound, shared))).kernels[0].body))
