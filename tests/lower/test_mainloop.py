"""Mainloops: operand tiles in shared memory, barriers, register-blocked sums."""

from __future__ import annotations

import re
from collections import Counter

import numpy as np
import pytest

from autosched import Func, Input, Pipeline, RDom, Var, float32
from autosched.analysis.bind import bind
from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.analysis.rewrites.cache_read import cache_name, insert_cache_reads
from autosched.apps import get_app
from autosched.codegen.cuda import print_cuda
from autosched.lower.ir import Alloc, Barrier, For, LoopRole, Memory, walk
from autosched.lower.program import lower
from autosched.runtime.compile.nvrtc import compile_cubin, have_nvrtc
from autosched.schedule.io.serialise import from_json, to_json
from autosched.schedule.io.text import schedule_text
from autosched.schedule.legality.validate import violations
from autosched.schedule.sampling.random_schedule import sample_schedule
from autosched.schedule.types import ComputeAt, FusedProducer, Schedule
from autosched.target import get_target
from tests.lower.run_backends import assert_backends_agree
from tests.schedule.building import block, kernel, member, root, schedule
from tests.schedule.mainloop_cases import in_steps, product, stream

H200 = get_target("h200")
y, x = Var("y"), Var("x")


def legal(bound: BoundPipeline, found: Schedule) -> Schedule:
    assert violations(bound, found, H200) == []
    assert from_json(to_json(bound, found), bound) == found
    return found


@pytest.mark.parametrize("double_buffered", [False, True])
@pytest.mark.parametrize(("rows", "columns", "terms"), [(40, 72, 24), (48, 72, 24), (33, 70, 24), (41, 65, 24)])
def test_products(rows: int, columns: int, terms: int, double_buffered: bool) -> None:
    bound = product(rows, columns, terms)
    kernel = in_steps(bound)
    found = legal(bound, schedule(bound, kernel.with_double_buffering() if double_buffered else kernel))
    program = lower(bound, found)
    assert_backends_agree(bound, program)
    (ir,) = program.kernels
    loops = [s for s in walk(ir.body) if isinstance(s, For) and s.role is LoopRole.MAINLOOP]
    assert {(p.name, p.extent) for p in loops} == {("r_k", 6)}
    for loop in loops:  # of the interior and of the boundary body
        assert [isinstance(s, Barrier) for s in loop.body].count(True) == (1 if double_buffered else 2)
    registers = [s.buffer for s in walk(ir.body) if isinstance(s, Alloc)]
    assert registers and all(b.memory is Memory.PRIVATE for b in registers)
    assert {b.count for b in registers} == ({12, 2, 3} if double_buffered else {12})
    assert all(slot.buffer.buffers == (2 if double_buffered else 1) for slot in ir.shared)
    assert [b.name for b in ir.writes] == ["out"]  # sums stay in registers
    if have_nvrtc():
        assert compile_cubin(print_cuda(ir).source, H200.arch).code


def test_text_has_the_mainloop() -> None:
    bound = product()
    text = schedule_text(bound, schedule(bound, in_steps(bound)))
    assert "reduction r.k 6  (mainloop, step 4)" in text
    assert "dot.1[y 16, x 24]: in registers" in text
    assert (
        text.index("(mainloop") < text.index("barrier") < text.index("a.staged[x 4, y 16]: cache read of a in shared")
    )
    text = schedule_text(bound, schedule(bound, in_steps(bound).with_double_buffering()))
    assert "a.staged[x 4, y 16]: cache read of a in shared memory, 2 x 320 bytes, double-buffered" in text
    assert text.count("barrier") == 1


@pytest.mark.parametrize("double_buffered", [False, True])
def test_blocks_of_one_thread(double_buffered: bool) -> None:
    bound = product(3, 4, 6)
    found = in_steps(bound, "by=3 bx=4", "", "", "rr.k=3", "rr.k=2", "sy=1 sx=2")
    whole = [m if m.func != "b.staged" else member(m.at, ("y", "x"), **{"b.staged": "sy=2"}) for m in found.fused]
    found = kernel(bound, found.roots, whole)
    found = found.with_double_buffering() if double_buffered else found
    assert_backends_agree(bound, lower(bound, legal(bound, schedule(bound, found))))


@pytest.mark.parametrize("double_buffered", [False, True])
def test_mainloops_of_several_loops(double_buffered: bool) -> None:
    """The mainloop iterates over rows and columns of taps; the weights of all are loaded before it."""
    image, weights, out = Input("image", float32, 3), Input("weights", float32, 3), Func("out")
    r = RDom("r", y=3, x=3, c=4)
    out[y, x] = 0.5
    out[y, x] += weights[r.y, r.x, r.c] * image[y + r.y, x + r.x, r.c]
    bound = bind(Pipeline(out.over(y=(0, 19), x=(0, 30)), name="taps"), {"image": (21, 32, 4), "weights": (3, 3, 4)})
    tile, points = "by=3 bx=2 ", "tx=8 ty=4 {} sy=2 sx=2"
    found = kernel(
        bound,
        [
            root("out", tile + points.format("")),
            root("out.1", tile + "rr.y=3 rr.x=3 " + points.format("rr.c=4")),
        ],
        [
            cache_read(bound, stream("out.1", 4), "image", "t2=4 t1=16 s0=8"),
            cache_read(bound, block("out", 2), "weights", "t2=4 t1=3 s0=3"),
        ],
    )
    found = found.with_double_buffering() if double_buffered else found
    assert_backends_agree(bound, lower(bound, legal(bound, schedule(bound, found))))


def cache_read(bound: BoundPipeline, at: ComputeAt, source: str, text: str) -> FusedProducer:
    """Return a cache read of an input; ``text`` gives dimensions by number."""
    dims = insert_cache_reads(bound, [source]).funcs[cache_name(source)].dims
    named = re.sub(r"([ts])(\d)=", lambda found: f"{found[1]}{dims[int(found[2])]}=", text)
    return member(at, dims, **{cache_name(source): named})


@pytest.mark.parametrize(("app", "least"), [("sgemm", 4), ("conv_layer", 3)])
def test_random_schedules(app: str, least: int) -> None:
    """Mainloops, with and without an epilogue Func, agree with the interpreter bit for bit."""
    one = get_app(app)
    bound = bind(one.build(), {name: a.shape for name, a in one.generate(one.small_sizes, 0).items()})
    seen: Counter[bool] = Counter()
    for seed in range(24):
        found = sample_schedule(bound, H200, np.random.default_rng(seed), varied=True)
        mainloops = [k for k in found.kernels if k.mainloop_at is not None]
        if mainloops and sum(seen.values()) < least:
            seen[any(len(k.root_funcs) > 1 for k in mainloops)] += 1
            assert_backends_agree(bound, lower(bound, legal(bound, found)))
    assert sum(seen.values()) == least
