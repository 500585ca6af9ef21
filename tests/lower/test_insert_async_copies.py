"""Async copies from global to shared memory."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from autosched import Func, Input, Pipeline, RDom, Var, float32, uint8
from autosched.analysis.bind import bind
from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.apps import get_app
from autosched.codegen.cuda import print_cuda
from autosched.lang.dtypes import DType, float64
from autosched.lower.ir import (
    Alloc,
    AsyncCopy,
    Barrier,
    For,
    If,
    KernelIR,
    LoopRole,
    Op,
    Stmt,
    Store,
    StoreVector,
    Value,
    walk,
)
from autosched.lower.passes.coalesce_accesses import coalesce_accesses
from autosched.lower.passes.insert_async_copies import insert_async_copies
from autosched.lower.program import lower
from autosched.measure.simulated.count import count_kernel, count_sites
from autosched.runtime.compile.nvrtc import compile_cubin, have_nvrtc
from autosched.schedule.io.serialise import from_json, to_json
from autosched.schedule.io.text import schedule_text
from autosched.schedule.legality.validate import violations
from autosched.schedule.sampling.random_schedule import sample_schedule
from autosched.schedule.types import Kernel, Schedule
from autosched.target import get_target
from tests.lower.run_backends import assert_backends_agree, traced
from tests.schedule.building import kernel, member, root, schedule
from tests.schedule.mainloop_cases import in_steps, product, stream

H200 = get_target("h200")
VECTORS = {"walked": "rr.k=6", "inner": "rr.k=8", "a": "tx=2 ty=16 sx=4", "b": "tx=6 ty=4 sy=2 sx=4"}
"""Steps of eight terms; threads load four neighbours of both matrices."""


def legal(bound: BoundPipeline, found: Kernel) -> Schedule:
    whole = schedule(bound, found)
    assert violations(bound, whole, H200) == []
    assert from_json(to_json(bound, whole), bound) == whole
    return whole


def copies(code: KernelIR) -> list[AsyncCopy]:
    return [s for s in walk(insert_async_copies(coalesce_accesses(code)).body) if isinstance(s, AsyncCopy)]


@pytest.mark.parametrize(("rows", "columns", "terms"), [(40, 72, 24), (48, 72, 24), (33, 70, 24), (41, 65, 24)])
def test_operand_tiles_of_products_are_copied(rows: int, columns: int, terms: int) -> None:
    bound = product(rows, columns, terms)
    program = lower(bound, legal(bound, in_steps(bound).with_async_copies()))
    assert_backends_agree(bound, program)
    (code,) = program.kernels
    for loop in (s for s in walk(code.body) if isinstance(s, For) and s.role is LoopRole.MAINLOOP):
        assert [s.waits_for_copies for s in loop.body if isinstance(s, Barrier)] == [True]
    assert {s.buffer.count for s in walk(code.body) if isinstance(s, Alloc)} == {12}  # the sums alone
    assert {c.source.name for c in copies(code)} == {"a", "b"}
    text = print_cuda(code)
    assert text.body.count("WAIT_FOR_COPIES();") == text.body.count("BARRIER();")
    assert not re.search(r"LOAD\w*\(\d+, (float, \d, )?[ab],", text.body)
    if have_nvrtc():
        assert compile_cubin(text.source, H200.arch).code
        assert compile_cubin(text.source, "sm_75").code  # older devices load and store


def test_whole_vectors_are_copied() -> None:
    bound = product(48, 72, 48)
    found = in_steps(bound, **VECTORS)
    program = lower(bound, legal(bound, found.with_async_copies()))
    assert_backends_agree(bound, program)
    lengths = {(c.source.name, c.length) for c in copies(program.kernels[0])}
    assert lengths == {("a", 1), ("b", 4)}  # a's rows are columns in shared memory
    if have_nvrtc():
        by_registers, past = (
            compile_cubin(print_cuda(lower(bound, legal(bound, k)).kernels[0]).source, H200.arch)
            for k in (found.with_double_buffering(), found.with_async_copies())
        )
        (before,), (after,) = by_registers.kernels.values(), past.kernels.values()
        assert after.registers < before.registers


def test_copies_need_no_registers() -> None:
    bound = product()
    found = in_steps(bound, walked="rr.k=1", inner="rr.k=24", a="tx=4 ty=4 sx=6 sy=4", b="tx=8 ty=4 sy=6 sx=3")
    assert_backends_agree(bound, lower(bound, legal(bound, found.with_async_copies())))


def test_one_operand_is_copied_and_one_loaded() -> None:
    bound = product()
    found = in_steps(bound).with_double_buffering()
    first, *others = found.fused
    mixed = replace(found, fused=(replace(first, asynchronous=True), *others))
    program = lower(bound, legal(bound, mixed))
    assert_backends_agree(bound, program)
    assert {c.source.name for c in copies(program.kernels[0])} == {"a"}


def sums(dtype: DType) -> tuple[BoundPipeline, Kernel]:
    """Return sums of windows of rows, which are staged four columns at a time."""
    y, x, r = Var("y"), Var("x"), RDom("r", k=16)
    a, out = Input("a", dtype, 2), Func("out")
    out[y, x] = 0.0 if dtype.is_float else 0
    out[y, x] += a[y, x + r.k]
    bound = bind(Pipeline(out.over(y=(0, 8), x=(0, 32)), name="sums"), {"a": (8, 48)})
    tile, points = "by=1 bx=1", "tx=32 ty=8"
    roots = [root("out", f"{tile} {points}"), root("out.1", f"{tile} rr.k=4 {points} rr.k=4")]
    staged = member(stream("out.1", 3), ("y", "x"), **{"a.staged": "ty=8 tx=7 sx=5"})
    return bound, kernel(bound, roots, [staged])


def test_elements_of_eight_bytes() -> None:
    bound, found = sums(float64)
    program = lower(bound, legal(bound, found.with_async_copies()))
    assert_backends_agree(bound, program)
    assert copies(program.kernels[0])


def changed(s: Stmt, values: Callable[[tuple[Value, ...]], tuple[Value, ...]]) -> Stmt:
    """Return a statement whose vectors store something else."""
    match s:
        case StoreVector(asynchronous=True):
            return replace(s, values=values(s.values))
        case Store(asynchronous=True):
            return replace(s, value=values((s.value,))[0])
        case For():
            return replace(s, body=tuple(changed(t, values) for t in s.body))
        case If():
            then, orelse = (tuple(changed(t, values) for t in part) for part in (s.then, s.orelse))
            return replace(s, then=then, orelse=orelse)
    return s


def test_stores_in_another_order_or_of_computed_values() -> None:
    bound = product(48, 72, 48)
    (code,) = lower(bound, legal(bound, in_steps(bound, **VECTORS).with_async_copies())).kernels
    whole = coalesce_accesses(code)

    def lengths(values: Callable[[tuple[Value, ...]], tuple[Value, ...]]) -> set[int]:
        found = insert_async_copies(replace(whole, body=tuple(changed(s, values) for s in whole.body)))
        return {s.length for s in walk(found.body) if isinstance(s, AsyncCopy)}

    assert lengths(lambda v: v) == {1, 4}
    assert lengths(lambda v: v[::-1]) == {1}
    assert lengths(lambda v: tuple(Op("neg", (part,), part.dtype) for part in v)) == set()


def test_the_simulated_device_counts_one_instruction_a_copy_and_no_registers() -> None:
    bound = product(48, 72, 48)
    vectors = in_steps(bound, **VECTORS)
    (first, second) = vectors.fused
    found = kernel(bound, vectors.roots, [replace(first, storage_order=("y", "x")), second])
    ahead, past = (
        count_kernel(lower(bound, legal(bound, k)).kernels[0])
        for k in (found.with_double_buffering(), found.with_async_copies())
    )
    assert past.total("load_registers") == 0 < ahead.total("load_registers")
    assert past.total("load_sectors") == ahead.total("load_sectors")
    assert past.total("wavefronts") == ahead.total("wavefronts")
    assert past.total("instructions") < ahead.total("instructions")


def test_counts_are_those_of_the_emulator() -> None:
    bound = product(48, 72, 48)
    program = lower(bound, legal(bound, in_steps(bound, **VECTORS).with_async_copies()))
    (code,) = program.kernels
    run, counts = traced(bound, program), count_sites(code, [(y, x) for y in range(3) for x in range(3)])
    for name in ("requests", "active_lanes", "sectors", "wavefronts"):
        np.testing.assert_array_equal(getattr(counts, name), getattr(run, name), err_msg=name)


def test_the_schedule_text_shows_async_copies() -> None:
    bound = product()
    text = schedule_text(bound, schedule(bound, in_steps(bound).with_async_copies()))
    assert "a.staged[x 4, y 16]: cache read of a in shared memory, 2 x 320 bytes, double-buffered, async copies" in text


def test_accesses_that_cannot_be_copied() -> None:
    bound, found = sums(float32)
    past = found.with_async_copies()
    assert violations(bound, schedule(bound, past), H200) == []
    one = replace(past, fused=tuple(replace(m, buffers=1) for m in past.fused))
    assert any("has 1 buffer: async copies need 2" in r for r in violations(bound, schedule(bound, one), H200))
    (reason,) = violations(bound, schedule(bound, past), get_target("t4"))
    assert "a.staged has elements of float32 on " in reason and "compute capability 8.0 or later" in reason
    bytes_, kernel_of_bytes = sums(uint8)
    (reason,) = violations(bytes_, schedule(bytes_, kernel_of_bytes.with_async_copies()), H200)
    assert "elements of uint8" in reason


def test_random_schedules_have_some() -> None:
    one = get_app("sgemm")
    bound = bind(one.build(), one.shapes(one.small_sizes))
    seen = 0
    for seed in range(40):
        found = sample_schedule(bound, H200, np.random.default_rng(seed), varied=True)
        if seen < 3 and any(m.asynchronous for k in found.kernels for m in k.fused):
            assert_backends_agree(bound, lower(bound, found))
            seen += 1
    assert seen == 3
