"""Coalesced accesses in kernel IR, and that the CUDA text with them computes the same."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from autosched import (
    Func,
    Input,
    Pipeline,
    RDom,
    Var,
    bfloat16,
    float16,
    float32,
    float64,
    int8,
    int16,
    int64,
    select,
    uint8,
    uint32,
)
from autosched.analysis.bind import bind
from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.analysis.indices import index as ix
from autosched.apps import get_app
from autosched.codegen.c import print_c
from autosched.codegen.cuda import print_cuda
from autosched.errors import CompileError
from autosched.lang.dtypes import DType
from autosched.lower.divisibility import known_divisor
from autosched.lower.ir import If, LetVector, Memory, Stmt, StoreVector, walk
from autosched.lower.ir_visitor import map_statements
from autosched.lower.passes.coalesce_accesses import coalesce_accesses, has_vectors
from autosched.lower.program import Program, lower
from autosched.lower.verify import verify
from autosched.runtime.compile.host_compiler import have_compiler
from autosched.schedule.legality.validate import violations
from autosched.schedule.sampling.random_schedule import sample_schedule
from autosched.schedule.types import Schedule
from tests.lower.inspect_ir import H200, app, border, interior
from tests.lower.run_backends import assert_backends_agree, traced
from tests.schedule.building import block, kernel, member, root, schedule

needs_compiler = pytest.mark.skipif(
    not (have_compiler("c") and have_compiler("c++")), reason="needs C and C++ compilers"
)
y, x = Var("y"), Var("x")


def pair(width: int = 512, *, clamped: bool = False, dtype: DType = float32) -> BoundPipeline:
    """Return ``wide``, three taps along x, and ``out``, two of it along y."""
    image = Input("image", dtype, 2)
    source, first = (image.clamped(), -1) if clamped else (image, 0)
    wide, out = Func("wide"), Func("out")
    wide[y, x] = source[y, x + first] + source[y, x + first + 1] + source[y, x + first + 2]
    out[y, x] = wide[y, x] + wide[y + 1, x]
    pipeline = Pipeline(out.over(y=(0, 32), x=(0, width)), name="pair")
    return bind(pipeline, {"image": (33, width + (0 if clamped else 4))})


def both(bound: BoundPipeline, found: Schedule) -> tuple[Program, Program]:
    """Return a legal schedule lowered without and with vectors."""
    assert violations(bound, found, H200) == []
    return lower(bound, found, vectors=False), lower(bound, found, vectors=True)


def counted(body: tuple[Stmt, ...]) -> Counter[str]:
    """Return the vectors of statements, as ``load global 16`` with the bytes of one."""
    found: Counter[str] = Counter()
    for s in walk(body):
        if isinstance(s, LetVector):
            found[f"load {s.buffer.memory.value} {s.length * s.buffer.dtype.bytes_}"] += 1
        elif isinstance(s, StoreVector):
            found[f"store {s.buffer.memory.value} {len(s.values) * s.buffer.dtype.bytes_}"] += 1
    return found


def staged(bound: BoundPipeline, threads: str = "tx=32 sx=4") -> Schedule:
    """Return one kernel with ``wide`` in shared memory, tiles of 128 columns."""
    tile = kernel(
        bound,
        [root("out", f"by=8 bx=4 {threads} ty=4")],
        [member(block("out", 2), ("y", "x"), wide=f"{threads} ty=5")],
        [f for f in bound.funcs if f not in ("wide", "out")],
    )
    return schedule(bound, tile)


def test_four_points_of_a_thread_are_coalesced() -> None:
    _, program = both(pair(), staged(pair()))
    body = coalesce_accesses(program.kernels[0]).body
    # x .. x + 5 make a vector of four and one of two
    assert counted(body) == {
        "load global 16": 1, "load global 8": 1, "store shared 16": 1, "load shared 16": 2, "store global 16": 1,
    }  # fmt: skip
    text = print_cuda(program.kernels[0]).body
    assert "LOAD_VECTOR(0, float, 4, image, image_at" in text
    assert "UNROLL" not in text


@pytest.mark.parametrize(("width", "bytes_"), [(512, 16), (510, 8), (511, 4)])
def test_the_pitch_of_arrays_must_be_aligned(width: int, bytes_: int) -> None:
    bound = pair(width)
    found = schedule(bound, kernel(bound, [root("out", "by=32 bx=4 tx=32 sx=4")], (), ["wide"]))
    kinds = counted(coalesce_accesses(both(bound, found)[1].kernels[0]).body)
    assert max((int(k.split()[-1]) for k in kinds), default=4) == bytes_


def test_intermediates_are_pitched() -> None:
    bound = pair(511)
    one = kernel(bound, [root("wide", "by=33 bx=4 tx=32 sx=4")])
    two = kernel(bound, [root("out", "by=32 bx=4 tx=32 sx=4")])
    _, program = both(bound, schedule(bound, one, two))
    wide, out = (counted(coalesce_accesses(k).body) for k in program.kernels)
    assert wide["store global 16"] == 1
    assert out["load global 16"] == 2 and not any(k.startswith("store") for k in out)


def test_strides_of_threads_must_be_aligned() -> None:
    """Neighbouring threads with distant points: no two elements of a thread are neighbours."""
    bound = pair()
    found = schedule(bound, kernel(bound, [root("out", "by=32 bx=4 sx=4 tx=32")], (), ["wide"]))
    (ir,) = both(bound, found)[1].kernels
    assert not has_vectors(coalesce_accesses(ir).body)
    assert print_cuda(ir).body == print_cuda(replace(ir, vectors=False)).body


def test_points_of_a_pyramid_are_coalesced_without_a_loop() -> None:
    image, out = Input("image", float32, 2), Func("out")
    out[y, x] = image[y, 2 * x] + image[y, 2 * x + 1]
    bound = bind(Pipeline(out.over(y=(0, 8), x=(0, 128)), name="halved"), {"image": (8, 256)})
    _, program = both(bound, schedule(bound, kernel(bound, [root("out", "by=8 bx=4 tx=32")])))
    assert counted(coalesce_accesses(program.kernels[0]).body) == {"load global 8": 1}


def test_a_shared_guard_is_tested_once() -> None:
    _, program = both(pair(), staged(pair()))
    statements = list(walk(coalesce_accesses(program.kernels[0]).body))
    assert not any(s.orelse for s in statements if isinstance(s, If))


def test_stricter_guards_are_nested() -> None:
    """A tile of 128 columns in 22 threads of 6 points: the last has only two."""
    bound = pair(128)
    tile = kernel(
        bound,
        [root("out", "by=8 bx=1 tx=32 sx=4 ty=4")],
        [member(block("out", 2), ("y", "x"), wide="tx=22 sx=6 ty=5")],
    )
    _, program = both(bound, schedule(bound, tile))
    outer, inner = (s for s in walk(coalesce_accesses(program.kernels[0]).body) if isinstance(s, If))
    assert outer.then[-1] is inner and not outer.orelse and not inner.orelse
    assert counted(outer.then)["store shared 8"] == 3 and counted(inner.then)["store shared 8"] == 2
    if have_compiler("c") and have_compiler("c++"):
        assert_backends_agree(bound, program)


def test_points_with_separate_guards_stay_in_a_loop() -> None:
    bound = pair(127)
    tile = kernel(bound, [root("out", "by=32 bx=1 tx=32 sx=4")], (), ["wide"])
    ir = coalesce_accesses(both(bound, schedule(bound, tile))[1].kernels[0])
    assert not has_vectors(ir.body) and "UNROLL" in print_cuda(ir).body


def test_boundary_code_does_not_change() -> None:
    bound = pair(clamped=True)
    scalar, program = both(bound, staged(bound))
    ir = coalesce_accesses(program.kernels[0])
    inside = interior(ir)
    assert inside is not None and has_vectors(inside) and not has_vectors(border(ir))
    assert len(border(ir)) == len(border(scalar.kernels[0]))


@needs_compiler
def test_arrays_read_and_written_in_one_nest_are_not_coalesced() -> None:
    image, out = Input("image", float32, 2), Func("out")
    r = RDom("r", y=(1, 32))
    out[y, x] = image[y, x]
    out[r.y, x] = out[r.y - 1, x] + out[r.y, x] + image[r.y, x]
    bound = bind(Pipeline(out.over(y=(0, 32), x=(0, 128)), name="scan"), {"image": (32, 128)})
    first = kernel(bound, [root("out", "by=32 bx=1 tx=32 sx=4")])
    second = kernel(bound, [root("out.1", "bx=1 tx=32 rr.y=31 sx=4")])
    _, program = both(bound, schedule(bound, first, second))
    filled, scan = (counted(coalesce_accesses(k).body) for k in program.kernels)
    assert filled == {"load global 16": 1, "store global 16": 1}
    assert scan == {"load global 16": 1}, "only those of image"
    assert_backends_agree(bound, program)


def test_c_keeps_single_elements() -> None:
    scalar, program = both(pair(), staged(pair()))
    assert print_c(program).text == print_c(scalar).text
    assert program.without_vectors() == scalar


@needs_compiler
def test_fewer_requests_for_the_same_bytes() -> None:
    bound = pair()
    one, joined = (traced(bound, p) for p in both(bound, staged(bound)))
    assert joined.requests.sum() < 0.4 * one.requests.sum()
    assert joined.global_load_sectors < 0.5 * one.global_load_sectors
    assert joined.global_store_sectors == bound.funcs["out"].extents[0] * 512 * 4 // 32
    assert joined.parameter_footprint.total.tolist() == one.parameter_footprint.total.tolist()


@needs_compiler
@pytest.mark.parametrize("name", ["blur", "unsharp", "harris", "interpolate", "hist", "max_filter"])
def test_apps_agree(name: str) -> None:
    bound = app(name, dict(get_app(name).small_sizes))
    for seed in range(2):
        found = sample_schedule(bound, H200, np.random.default_rng(seed))
        assert_backends_agree(bound, lower(bound, found, vectors=True))


@needs_compiler
@pytest.mark.parametrize("threads", ["tx=16 sx=8", "tx=32 sx=4", "tx=64 sx=2"])
def test_bytes_agree(threads: str) -> None:
    bound = pair(dtype=uint8)
    _, program = both(bound, staged(bound, threads))
    assert has_vectors(coalesce_accesses(program.kernels[0]).body)
    assert_backends_agree(bound, program)


@needs_compiler
@pytest.mark.parametrize("dtype", [float16, bfloat16, float64, int8, int16, uint32, int64], ids=str)
def test_types_agree(dtype: DType) -> None:
    bound = pair(dtype=dtype)
    _, program = both(bound, staged(bound))
    kinds = counted(coalesce_accesses(program.kernels[0]).body)
    assert kinds[f"store global {min(4 * dtype.bytes_, 16)}"] == max(dtype.bytes_ // 4, 1)
    assert_backends_agree(bound, program)


@needs_compiler
def test_addresses_from_data() -> None:
    """Indices are loaded as a vector of four, gathered elements one by one; 0.0 and -0.0 are different constants."""
    where, table, out = Input("where", uint8, 2), Input("table", float32, 1), Func("out")
    found = table[where[y, x]]
    out[y, x] = select(found < 0, found * 0.0, found * -0.0) + select(where[y, x] < 7, -0.0, 0.0)
    bound = bind(Pipeline(out.over(y=(0, 4), x=(0, 128)), name="lookup"), {"where": (4, 128), "table": (256,)})
    _, program = both(bound, schedule(bound, kernel(bound, [root("out", "by=4 bx=1 tx=32 sx=4")])))
    assert counted(coalesce_accesses(program.kernels[0]).body) == {"load global 4": 1, "store global 16": 1}
    assert_backends_agree(bound, program)


@needs_compiler
def test_accumulators_in_registers() -> None:
    """A matrix product: four columns a thread, whose loop lies inside a reduction that is no straight code."""
    a, b, dot = Input("a", float32, 2), Input("b", float32, 2), Func("dot")
    r = RDom("r", k=100)
    dot[y, x] = 0.0
    dot[y, x] += a[y, r.k] * b[r.k, x]
    bound = bind(Pipeline(dot.over(y=(0, 8), x=(0, 128)), name="dot"), {"a": (8, 100), "b": (100, 128)})
    tile = "by=4 bx=1 tx=32 sy=2"
    roots = [root("dot", f"{tile} sx=4"), root("dot.1", f"{tile.replace('sy=2', 'rr.k=100 sy=2')} sx=4")]
    _, program = both(bound, schedule(bound, kernel(bound, roots)))
    kinds = counted(coalesce_accesses(program.kernels[0]).body)
    assert kinds["load global 16"] == 1 and kinds["store global 16"] == 1
    assert_backends_agree(bound, program)


def test_multiples_are_proved_through_definitions() -> None:
    t, at = ix.var("t", 0, 31), ix.var("at", 0, 4096)
    definitions = {"at": ix.add(ix.scale(t, 12), 8)}
    assert known_divisor(ix.scale(t, 6), {}) == 6
    assert known_divisor(ix.add(ix.scale(at, 2), 16), definitions) == 8
    assert known_divisor(ix.minimum(ix.scale(t, 8), ix.add(ix.scale(ix.var("u", 0, 31), 4), 12)), {}) == 4
    assert known_divisor(ix.floordiv(ix.scale(t, 6), 4), {}) == 1
    assert known_divisor(0, {}) == 0


def test_vectors_are_verified() -> None:
    ir = coalesce_accesses(both(pair(), staged(pair()))[1].kernels[0])
    verify(ir)
    wrong = {
        "3 elements": lambda s: replace(s, length=3),
        "32 elements|more than 16 bytes": lambda s: replace(s, length=8),
        "in register memory is accessed": lambda s: replace(s, buffer=replace(s.buffer, memory=Memory.REGISTER)),
    }
    (first, *_) = (s for s in walk(ir.body) if isinstance(s, LetVector))
    for message, change in wrong.items():
        body = _replaced(ir.body, first, change(first))
        with pytest.raises(CompileError, match=message):
            verify(replace(ir, body=body))
    with pytest.raises(CompileError, match="but that is bound to"):
        verify(replace(ir, body=_replaced(ir.body, first, replace(first, name="other"))))


def _replaced(body: tuple[Stmt, ...], old: Stmt, new: Stmt) -> tuple[Stmt, ...]:
    return map_statements(body, lambda s: new if s is old else s)
