"""Thread nests: accumulators in registers, unrolling, guards, reuse of values, 64-bit indices."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from autosched import Func, Input, Pipeline, RDom, Var, argmax, cast, clamp, float32, int32, uint8
from autosched.analysis.bind import bind
from autosched.analysis.indices import index as ix
from autosched.codegen.c import print_c
from autosched.codegen.cuda import print_cuda
from autosched.codegen.expressions import is_wide
from autosched.lower.ir import Alloc, BufferRead, For, If, KernelIR, Let, LetIndex, LoopRole, Memory, Stmt, Store, walk
from autosched.lower.program import lower
from autosched.schedule.legality.validate import violations
from autosched.schedule.sampling.random_schedule import sample_schedule
from autosched.search.strategies.compute_root import schedule_roots
from autosched.target import get_target
from tests.lower.inspect_ir import all_indices, all_values, app, stores
from tests.lower.run_backends import assert_backends_agree
from tests.schedule.building import block, blur, kernel, member, product_pipeline, root, schedule, thread

H200 = get_target("h200")
y, x = Var("y"), Var("x")
PRODUCT = bind(product_pipeline(), {"a": (41, 30), "b": (30, 50)})


def product(tile: str, inner: str) -> KernelIR:
    """Return the sum's kernel of a matrix product; ``inner`` is the order of its loops inside a thread."""
    serial = " ".join(p for p in inner.split() if p[0] == "s")
    sums = kernel(PRODUCT, [root("dot", f"{tile} {serial}"), root("dot.1", f"{tile} {inner}")])
    found = schedule(PRODUCT, sums, kernel(PRODUCT, [root("out", "by=41 bx=2 tx=32")]))
    assert violations(PRODUCT, found, H200) == []
    program = lower(PRODUCT, found)
    assert_backends_agree(PRODUCT, program)
    return program.kernels[0]


def loops_over(body: Sequence[Stmt], name: str) -> list[For]:
    return [s for s in walk(tuple(body)) if isinstance(s, For) and s.name.startswith(name)]


@pytest.mark.parametrize("inner", ["sy=2 sx=2 rr.k=30", "rr.k=30 sy=2 sx=2", "sx=2 rr.k=30 sy=2", "rr.k=30 sx=2 sy=2"])
def test_sums_stay_in_registers(inner: str) -> None:
    ir = product("by=6 bx=4 tx=8 ty=4", inner)
    for body in bodies(ir):
        (acc,) = (s.buffer for s in walk(body) if isinstance(s, Alloc))
        assert (acc.count, acc.memory) == (4, Memory.REGISTER)
        ks = loops_over(body, "r_k")
        assert ks and not any(stores(k.body, "dot") for k in ks)
        assert not any(isinstance(v, BufferRead) and v.buffer.name == "dot" for v in all_values(body))
        (out,) = stores(body, "dot")
        assert all(s.buffer == acc for s in walk(body) if isinstance(s, Store) and s is not out)


def bodies(ir: KernelIR) -> list[tuple[Stmt, ...]]:
    """Return the interior and the boundary body, or the one body."""
    for s in ir.body:
        if isinstance(s, If) and s.uniform:
            return [s.then, s.orelse]
    return [ir.body]


def test_points_of_loops_that_are_not_unrolled_stay_in_memory() -> None:
    ir = product("by=2 bx=4 tx=8 ty=4", "sy=6 sx=2 rr.k=30")
    assert any(isinstance(s, Alloc) for s in walk(ir.body))
    ir = product("by=2 bx=2 tx=8 ty=4", "sy=6 sx=4 rr.k=30")
    assert not any(isinstance(s, Alloc) for s in walk(ir.body))


def test_an_update_in_its_own_kernel_loads_its_points_once() -> None:
    tile = "by=6 bx=2 tx=32 ty=8"
    found = schedule(
        PRODUCT, kernel(PRODUCT, [root("dot", tile)]), kernel(PRODUCT, [root("dot.1", f"{tile} rr.k=30")]),
        kernel(PRODUCT, [root("out", tile)]),
    )  # fmt: skip
    assert violations(PRODUCT, found, H200) == []
    program = lower(PRODUCT, found)
    update = bodies(program.kernels[1])[0]
    (k,) = loops_over(update, "r_k")
    reads = [v for v in all_values(update) if isinstance(v, BufferRead) and v.buffer.name == "dot"]
    assert len(reads) == 1 and not any(v in reads for v in all_values(k.body))
    assert_backends_agree(PRODUCT, program)


def test_sums_fused_at_thread() -> None:
    producer = member(thread("out", 4), "yx", dot="sy=2 sx=2", dot__1="rr.k=30 sy=2 sx=2")
    found = schedule(PRODUCT, kernel(PRODUCT, [root("out", "by=6 bx=4 tx=8 ty=4 sy=2 sx=2")], [producer]))
    assert violations(PRODUCT, found, H200) == []
    program = lower(PRODUCT, found)
    for body in bodies(program.kernels[0]):
        (acc,) = (s.buffer for s in walk(body) if isinstance(s, Alloc))
        assert acc.count == 4
    assert_backends_agree(PRODUCT, program)


def test_sums_in_shared_memory_are_promoted_to_registers() -> None:
    producer = member(block("out", 2), "yx", dot="tx=8 ty=4 sy=2", dot__1="tx=8 ty=4 rr.k=30 sy=2")
    found = schedule(PRODUCT, kernel(PRODUCT, [root("out", "by=6 bx=7 tx=8 ty=8")], [producer]))
    assert violations(PRODUCT, found, H200) == []
    program = lower(PRODUCT, found)
    for body in bodies(program.kernels[0]):
        assert len(stores(body, "dot")) == 1
    assert_backends_agree(PRODUCT, program)


def test_tuples_are_promoted_component_by_component() -> None:
    img, best = Input("img", float32, 2), Func("best")
    found = argmax(img[y, (r := RDom("r", i=img.shape[1])).i], over=r, name="found")
    best[y] = cast(float32, found[0]) + found[1]
    bound = bind(Pipeline([best.over(y=(0, 70))], name="best"), {"img": (70, 9)})
    program = lower(bound, schedule_roots(bound, H200))
    (ir, *_) = program.kernels
    for body in bodies(ir):
        assert len({s.buffer.name for s in walk(body) if isinstance(s, Alloc)}) == 2
    assert_backends_agree(bound, program)


@pytest.mark.parametrize(("serial", "unrolled"), [("sy=4 sx=4", True), ("sy=1 sx=16", True), ("sy=4 sx=5", False)])
def test_serial_loops_of_up_to_sixteen_points_are_unrolled(serial: str, unrolled: bool) -> None:
    bound = blur()
    rows, columns = (int(p.split("=")[1]) for p in serial.split())
    tile = f"by={-(-53 // (4 * rows))} bx={-(-77 // (8 * columns))} tx=8 ty=4 {serial}"
    found = schedule(bound, kernel(bound, [root("out", tile)], (), ["across", "img_clamped"]))
    assert violations(bound, found, H200) == []
    program = lower(bound, found)
    roles = {s.role for s in walk(program.kernels[0].body) if isinstance(s, For)} - {LoopRole.THREAD}
    assert roles == {LoopRole.UNROLLED if unrolled else LoopRole.SERIAL}
    text = print_cuda(program.kernels[0]).body
    assert ("UNROLL" in text) == unrolled
    assert_backends_agree(bound, program)


@pytest.mark.parametrize(("terms", "unrolled"), [(30, True), (33, False)])
def test_short_reductions_are_unrolled(terms: int, unrolled: bool) -> None:
    bound = bind(product_pipeline(), {"a": (8, terms), "b": (terms, 32)})
    ir = lower(bound, schedule_roots(bound, H200)).kernels[0]
    assert {s.role for s in loops_over(ir.body, "r_k")} == {LoopRole.UNROLLED if unrolled else LoopRole.SERIAL}


def test_loop_invariant_values_are_hoisted() -> None:
    """A row's factor is loaded once per row, not at each of its points."""
    img, gain, out = Input("img", float32, 2), Input("gain", float32, 1), Func("out")
    out[y, x] = img[y, x] * gain[y] + gain[y]
    bound = bind(Pipeline([out.over(y=(0, 8), x=(0, 128))], name="rows"), {"img": (8, 128), "gain": (8,)})
    found = schedule(bound, kernel(bound, [root("out", "by=1 bx=1 tx=32 ty=8 sx=4")]))
    program = lower(bound, found)
    (serial,) = loops_over(program.kernels[0].body, "x_s")
    assert [v.buffer.name for v in all_values(serial.body) if isinstance(v, BufferRead)] == ["img"]
    assert_backends_agree(bound, program)


def test_equal_loads_and_inlined_values_are_computed_once() -> None:
    img, f, out = Input("img", float32, 1), Func("f"), Func("out")
    f[x] = img[x] * img[x] + img[x + 1]
    out[x] = f[x] * f[x] + f[x + 1] - f[x]
    bound = bind(Pipeline([out.over(x=(0, 60))], name="once"), {"img": (62,)})
    ir = lower(bound, schedule(bound, kernel(bound, [root("out", "bx=2 tx=30")], (), ["f"]))).kernels[0]
    assert sum(isinstance(v, BufferRead) for v in all_values(ir.body)) == 3
    assert sum(isinstance(s, Let) and s.name.startswith("f") for s in walk(ir.body)) == 2


def guards(height: int, width: int, tile: str) -> list[If]:
    """Return the guards of a blur with all stages inlined and one body."""
    bound = blur(height, width)
    found = schedule(bound, kernel(bound, [root("out", tile)], (), ["across", "img_clamped"]))
    assert violations(bound, found, H200) == []
    (ir,) = lower(bound, found, split_interior=False).kernels
    return [s for s in walk(ir.body) if isinstance(s, If)]


def test_only_partial_tiles_have_guards() -> None:
    assert guards(56, 96, "by=7 bx=3 tx=32 ty=8") == []
    assert guards(56, 96, "by=8 bx=3 tx=32 ty=7") == []
    (guard,) = guards(53, 96, "by=7 bx=3 tx=32 ty=8")
    assert {name for i in all_indices([guard]) for name in ix.loop_vars(i)} >= {"y_b", "y_t"}


def test_indices_of_large_buffers_have_64_bits() -> None:
    """The buffer has more than 2^31 elements. The kernel is lowered and printed, and not run."""
    img, out = Input("img", uint8, 2), Func("out")
    out[y, x] = img[y, x] + img[y + 1, x]
    bound = bind(Pipeline([out.over(y=(0, 70_000), x=(0, 40_000))], name="large"), {"img": (70_001, 40_000)})
    program = lower(bound, schedule_roots(bound, H200))
    ir = program.kernels[0]
    wide = [s.name for s in walk(ir.body) if isinstance(s, LetIndex) and is_wide(s.index)]
    assert wide
    for text in (print_cuda(ir).body, print_c(program).text):
        for name in wide:
            assert f"const long long {name} = " in text
        assert "40000*(long long)" in text
    assert any(b.count > 1 << 31 for b in ir.reads)


def test_indices_have_32_bits_up_to_the_limit() -> None:
    img, out = Input("img", uint8, 2), Func("out")
    out[y, x] = img[y, x]
    shape = (46_336, 46_336)  # just below 2^31 elements, in whole tiles
    bound = bind(Pipeline([out.over(y=(0, shape[0]), x=(0, shape[1]))], name="medium"), {"img": shape})
    assert "long long" not in print_cuda(lower(bound, schedule_roots(bound, H200)).kernels[0]).body


def test_clamped_data_as_indices_have_32_bits() -> None:
    """The data may be any 32-bit number; the lowest is farther from zero than the highest."""
    img, at, out = Input("img", float32, 1), Input("at", int32, 2), Func("out")
    out[y, x] = img[clamp(at[y, x], 0, 49)] + img[3 * clamp(cast(int32, img[x]) // 2, 0, 9) + y]
    bound = bind(Pipeline([out.over(y=(0, 8), x=(0, 40))], name="data"), {"img": (50,), "at": (8, 40)})
    program = lower(bound, schedule_roots(bound, H200))
    (ir,) = program.kernels
    assert not [s.name for s in walk(ir.body) if isinstance(s, LetIndex) and is_wide(s.index)]
    assert "long long" not in print_cuda(ir).body
    assert_backends_agree(bound, program)


def test_wide_products_of_index_and_data() -> None:
    """Intermediate values of an index may need more than 32 bits though the result does not."""
    img, at, out = Input("img", int32, 1), Input("at", int32, 1), Func("out")
    out[x] = img[(at[x] * 100_003) % 50]
    bound = bind(Pipeline([out.over(x=(0, 40))], name="data"), {"img": (50,), "at": (40,)})
    assert_backends_agree(bound, lower(bound, schedule_roots(bound, H200)))


@pytest.mark.parametrize("name", ["unsharp", "harris", "sgemm"])
def test_emitted_text_is_deterministic(name: str) -> None:
    bound, again = app(name, {}), app(name, {})
    for seed in range(3):
        found = sample_schedule(bound, H200, np.random.default_rng(seed))
        first, second = lower(bound, found), lower(again, found)
        assert [print_cuda(k).body for k in first.kernels] == [print_cuda(k).body for k in second.kernels]
        assert print_c(first).text == print_c(second).text


def test_an_index_and_a_stored_value_share_a_common_subexpression() -> None:
    bound = app("bilateral_grid")
    texts = [print_cuda(k).body for k in lower(bound, schedule_roots(bound, H200)).kernels]
    (scatter,) = (t for t in texts if "computes grid.1" in t or "computes grid, grid.1" in t)
    code = scatter.partition("} else {")[0]  # the interior body, if there is one
    assert code.count("as_min_f32(as_max_f32(input_v, 0.0f), 1.0f)") == 1
