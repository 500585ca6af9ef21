"""Counts of whole kernels from few blocks and iterations."""

from __future__ import annotations

import itertools

import pytest

from autosched.analysis.indices import index as ix
from autosched.lang.dtypes import DType, bool_, float32, float64, int32, uint16
from autosched.lower.ir import (
    Barrier,
    BufferRead,
    CompareIndex,
    ConstValue,
    If,
    Let,
    LetVector,
    LoopRole,
    Memory,
    Op,
    Stmt,
    Store,
    StoreVector,
    Value,
    VectorElement,
    walk,
)
from autosched.measure.simulated.body import KERNEL_INSTRUCTIONS
from autosched.measure.simulated.compiled import compiled_form
from autosched.measure.simulated.count import as_printed, count_kernel, count_sites
from autosched.measure.simulated.plain import with_vectors, without_vectors
from autosched.measure.simulated.sampling import Limits, representative_rows
from autosched.measure.simulated.work import KernelWork
from tests.measure.simulated.handmade import buffer, kernel, loop, ref, var
from tests.measure.simulated.programs import bound_app, default_scalars, random_program

ALL_OF_IT = Limits(None, None)
IN, OUT = buffer("a"), buffer("c")
B, T = var("b", 1000), var("t", 32)
AT = ix.add(ix.scale(B, 32), T)


def mapped(value: Value, dtype: DType = float32) -> KernelWork:
    """Count a kernel that computes a value from ``x`` and ``y`` at each point."""
    source, target = buffer("a", dtype=dtype), buffer("c", dtype=value.dtype)
    body = loop(
        "t", 32, LoopRole.THREAD, Let("x", BufferRead(source, AT, 0)), Let("y", BufferRead(source, ix.add(AT, 32), 1)),
        Store(target, AT, value, 2),
    )  # fmt: skip
    return count_kernel(kernel(body, reads=(source,), writes=(target,)))


def op(name: str, *args: Value, dtype: DType = float32) -> Op:
    return Op(name, args, dtype)


X, Y = ref("x"), ref("y")


def test_a_product_goes_into_a_sum() -> None:
    assert mapped(op("add", op("mul", X, Y), X)).total("fp32") == 1.0
    assert mapped(op("add", op("add", X, Y), X)).total("fp32") == 2.0
    assert mapped(op("mul", op("add", X, Y), X)).total("fp32") == 2.0
    assert mapped(op("add", op("mul", X, Y), op("mul", X, X))).total("fp32") == 2.0  # it takes one of them


def test_operations_go_to_their_units() -> None:
    plain = mapped(X)
    double = mapped(op("add", ref("x", float64), ref("y", float64), dtype=float64), float64)
    assert (double.total("fp64"), double.total("fp32")) == (1.0, 0.0)
    assert mapped(op("exp", X)).total("special") == 1.0
    assert plain.total("special") == plain.total("fp32") == 0.0
    assert mapped(op("max", X, Y)).total("integer") > plain.total("integer")


def test_narrow_integers_are_cut_off_once() -> None:
    """Stores cut off by themselves, so a sum of products of 16-bit integers is multiply-adds and nothing else."""
    x, y = (op("cast", ref(n, uint16), dtype=int32) for n in "xy")
    total = op("cast", op("add", op("mul", x, ConstValue(3, int32), dtype=int32), y, dtype=int32), dtype=uint16)
    plain = mapped(ref("x", uint16), uint16).total("integer")
    assert mapped(total, uint16).total("integer") == plain + 1.0
    shifted = op("shr", op("cast", total, dtype=int32), ConstValue(1, int32), dtype=int32)
    assert mapped(op("cast", shifted, dtype=uint16), uint16).total("integer") == plain + 3.0


def test_memory_instructions_of_a_block() -> None:
    work = mapped(X)
    assert (work.total("load_requests"), work.total("load_sectors")) == (2.0, 8.0)
    assert (work.total("store_requests"), work.total("store_sectors")) == (1.0, 4.0)
    assert work.total("instructions") >= KERNEL_INSTRUCTIONS + 3


def test_scattered_lanes_touch_more_sectors() -> None:
    body = loop("t", 32, LoopRole.THREAD, Let("x", BufferRead(IN, ix.scale(T, 8), 0)), Store(OUT, AT, X, 1))
    work = count_kernel(kernel(body, reads=(IN,), writes=(OUT,)))
    assert work.total("load_sectors") == 32.0
    assert work.total("passes") == 32 / 4 + 1


def test_unrolled_points_share_their_loads() -> None:
    """Three taps at four neighbouring points are six loads; under guards of their own they are twelve."""
    s = var("s", 4)
    at = ix.add(ix.scale(AT, 4), s)
    taps = [Let(f"v{k}", BufferRead(IN, ix.add(at, k), k)) for k in range(3)]
    point = (*taps, Store(OUT, at, op("add", op("add", ref("v0"), ref("v1")), ref("v2")), 3))
    free = loop("t", 32, LoopRole.THREAD, loop("s", 4, LoopRole.UNROLLED, *point))
    assert count_kernel(kernel(free, reads=(IN,), writes=(OUT,))).total("load_requests") == 6.0
    guard = If(CompareIndex("le", at, 1_000_000, bool_), point)
    guarded = loop("t", 32, LoopRole.THREAD, loop("s", 4, LoopRole.UNROLLED, guard))
    assert count_kernel(kernel(guarded, reads=(IN,), writes=(OUT,))).total("load_requests") == 12.0


def test_unrolled_rows_share_their_vectors() -> None:
    """Four points in a column read six rows, each by one vector, though every point names three."""
    s = var("s", 4)
    at = ix.add(ix.scale(AT, 2), ix.scale(s, 4096))
    rows = [LetVector(f"r{k}", IN, ix.add(at, 4096 * k), 2, k) for k in range(3)]
    taps = [Let(f"v{k}{n}", VectorElement(f"r{k}", n, float32)) for k in range(3) for n in range(2)]
    sums = [op("add", op("add", ref(f"v0{n}"), ref(f"v1{n}")), ref(f"v2{n}")) for n in range(2)]
    point = (*rows, *taps, StoreVector(OUT, at, tuple(sums), 3))
    body = loop("t", 32, LoopRole.THREAD, loop("s", 4, LoopRole.UNROLLED, *point))
    work = count_kernel(kernel(body, reads=(IN,), writes=(OUT,)))
    assert (work.total("load_requests"), work.total("store_requests")) == (6.0, 4.0)
    assert work.total("load_registers") == 12.0
    assert work.total("load_sectors") == 6 * 8.0
    assert work.total("fp32") == 16.0


def test_vectors_are_taken_away_and_put_back() -> None:
    for name in ("unsharp", "harris"):
        for ir in random_program(bound_app(name), 2, vectors=True).kernels:
            body = as_printed(ir).body
            plain = without_vectors(body)
            assert with_vectors(plain) == body
            assert not any(isinstance(s, LetVector | StoreVector) for s in walk(plain))


def test_index_arithmetic_is_computed_once() -> None:
    """Loads at a constant distance share one address; an unrolled loop adds constants to it."""

    def integers(*loads: Let) -> float:
        guard = If(CompareIndex("le", T, 30, bool_), loads)  # under a guard, the loop is not unrolled
        body = loop("t", 32, LoopRole.THREAD, loop("s", 8, LoopRole.UNROLLED, guard))
        return count_kernel(kernel(body, reads=(IN,))).total("integer")

    scattered = ix.add(ix.scale(AT, 3), ix.scale(var("s", 8), 7))
    one = integers(Let("v", BufferRead(IN, scattered, 0)))
    assert integers(Let("v", BufferRead(IN, scattered, 0)), Let("w", BufferRead(IN, ix.add(scattered, 5), 1))) == one
    other = ix.add(ix.scale(AT, 11), var("s", 8))
    more = integers(Let("v", BufferRead(IN, scattered, 0)), Let("w", BufferRead(IN, other, 1)))
    assert 0 < more - one <= 4  # once for all iterations
    clamped = ix.minimum(other, 9000)
    each = integers(Let("v", BufferRead(IN, scattered, 0)), Let("w", BufferRead(IN, clamped, 1)))
    assert each - one >= 8  # a clamp is another one in each


def test_short_loops_are_unrolled_without_being_told() -> None:
    s = var("s", 4)
    body = loop(
        "s", 4, LoopRole.SERIAL, Let("v", BufferRead(IN, T, 0)), Store(OUT, ix.add(T, ix.scale(s, 32)), ref("v"), 1)
    )
    ir = kernel(loop("t", 32, LoopRole.THREAD, body), reads=(IN,), writes=(OUT,))
    assert count_kernel(ir).total("load_requests") == 1.0


def test_addresses_and_guards_count_towards_the_length_of_a_loop() -> None:
    """Ninety-six copies are few operations; with an address of several terms, each under a guard, they are many."""

    def waits(at: ix.Index, *, guarded: bool) -> float:
        copy: Stmt = Let("v", BufferRead(IN, at, 0))
        if guarded:
            copy = If(CompareIndex("le", at, 1_000_000, bool_), (copy,))
        body = loop("r", 12, LoopRole.SERIAL, loop("s", 8, LoopRole.SERIAL, copy))
        return count_kernel(kernel(loop("t", 32, LoopRole.THREAD, body), reads=(IN,))).total("chain_global")

    row, column = var("r", 12), var("s", 8)
    assert waits(ix.add(AT, column), guarded=False) == 1.0
    assert waits(ix.add(AT, ix.add(ix.scale(row, 4096), ix.scale(column, 64))), guarded=True) == 12 / 4


def test_the_busiest_warp_is_counted() -> None:
    """Two nests, the second of one warp in four: its instructions are a quarter of those of four warps."""
    two = var("u", 32)
    wide = loop("t", 128, LoopRole.THREAD, Let("x", BufferRead(IN, var("t", 128), 0)))
    narrow = loop("u", 32, LoopRole.THREAD, *(Let(f"v{k}", BufferRead(IN, ix.add(two, 4096 * k), k)) for k in range(9)))
    work = count_kernel(kernel(wide, Barrier(), narrow, reads=(IN,), block=(128, 1, 1)))
    first, second = work.phases
    assert (first.load_registers, first.warp_load_registers) == (4.0, 1.0)
    assert (second.load_registers, second.warp_load_registers) == (9.0, 9.0)
    assert first.warp_instructions == pytest.approx(first.instructions / 4)
    assert second.warp_instructions > second.instructions / 2


def test_barriers_begin_phases() -> None:
    tile = buffer("tile", 32, memory=Memory.SHARED)
    first = loop("t", 32, LoopRole.THREAD, Let("v", BufferRead(IN, AT, 0)), Store(tile, T, ref("v"), 1))
    second = loop("t", 32, LoopRole.THREAD, Let("w", BufferRead(tile, ix.scale(T, 2), 2)), Store(OUT, AT, ref("w"), 3))
    work = count_kernel(kernel(first, Barrier(), second, reads=(IN,), writes=(OUT,)))
    assert [p.load_requests for p in work.phases] == [1.0, 0.0]
    assert work.phases[0].integer >= KERNEL_INSTRUCTIONS + 2.0  # with the address of the load
    assert work.phases[1].integer >= 2.0
    assert [p.wavefronts for p in work.phases] == [1.0, 2.0]
    assert [p.chain_shared for p in work.phases] == [0.0, 1.0]


def test_idle_lanes_issue_nothing_but_lone_ones_do() -> None:
    def work(lanes: int) -> KernelWork:
        held = If(CompareIndex("lt", T, lanes, bool_), (Store(OUT, AT, op("add", X, X), 1),))
        body = loop("t", 64, LoopRole.THREAD, Let("x", BufferRead(IN, AT, 0)), held)
        return count_kernel(kernel(body, reads=(IN,), writes=(OUT,), block=(64, 1, 1)))

    assert work(64).total("fp32") == 2.0
    assert work(32).total("fp32") == work(1).total("fp32") == 1.0
    assert work(1).total("store_sectors") == 1.0


def test_long_loops_are_sampled() -> None:
    """Counts of a long loop cover all iterations; footprints are extrapolated from the sampled ones."""
    k = var("k", 3000)
    at = ix.add(ix.add(ix.scale(B, 3000), ix.scale(T, 100_000)), k)
    row = buffer("a", 1 << 23)
    body = loop("k", 3000, LoopRole.SERIAL, *(Let(f"v{j}", BufferRead(row, ix.add(at, j), j)) for j in range(20)),
                *(Store(OUT, T, op("mul", ref(f"v{j}"), X), 20 + j) for j in range(20)))  # fmt: skip
    ir = kernel(loop("t", 32, LoopRole.THREAD, body), reads=(row,), writes=(OUT,), sites=40)
    sampled, exact = count_kernel(ir), count_kernel(ir, limits=ALL_OF_IT)
    assert exact.total("load_requests") == sampled.total("load_requests") == 60_000.0
    assert sampled.total("load_sectors") == pytest.approx(exact.total("load_sectors"), rel=0.02)
    (mine,), (true,) = ([b for b in w.buffers if b.name == "a"] for w in (sampled, exact))
    assert mine.load_bytes == pytest.approx(true.load_bytes, rel=0.05)
    assert mine.window_bytes < 0.1 * true.window_bytes


def test_neighbouring_blocks_share_their_borders() -> None:
    """A tile of 32 x 8 points with a row and a column around it, on a grid of 20 x 30 tiles."""
    by, bx, ty, tx = var("by", 30), var("bx", 20), var("ty", 8), var("tx", 32)
    centre = ix.add(ix.scale(ix.add(ix.scale(by, 8), ty), 1024), ix.add(ix.scale(bx, 32), tx))
    taps = [
        Let(f"v{k}", BufferRead(IN, ix.add(centre, 1024 * dy + dx), k))
        for k, (dy, dx) in enumerate(itertools.product(range(3), range(3)))
    ]
    rows = loop(
        "ty", 8, LoopRole.THREAD, loop("tx", 32, LoopRole.THREAD, *taps, Store(OUT, centre, ref("v4"), 9)), axis=1
    )
    ir = kernel(rows, reads=(IN,), writes=(OUT,), block=(32, 8, 1), grid=(("by", 30), ("bx", 20)))
    work = count_kernel(ir)
    (read,) = (b for b in work.buffers if b.name == "a")
    assert work.grid == (20, 30)
    assert read.load_bytes == 10 * 5 * 32  # ten rows of five sectors
    assert read.fresh == (pytest.approx(4 / 5), pytest.approx(8 / 10))
    (written,) = (b for b in work.buffers if b.name == "c")
    assert written.store_bytes == 32 * 8 * 4


@pytest.mark.parametrize("name", ["harris", "stencil_chain", "unsharp"])
def test_few_blocks_stand_for_all(name: str) -> None:
    sizes = {"H": 131, "W": 197}
    program = random_program(bound_app(name, **sizes), 1)
    scalars = default_scalars(program)
    for ir in program.kernels:
        work = count_kernel(ir, scalars)
        everywhere = list(itertools.product(*(range(n) for _, n in ir.grid_loops)))
        true = count_sites(compiled_form(ir), everywhere, scalars)
        assert work.total("load_requests") + work.total("store_requests") + work.total(
            "shared_requests"
        ) == pytest.approx(true.requests.sum() / ir.blocks, rel=0.1)
        sectors = work.total("load_sectors") + work.total("store_sectors")
        assert sectors == pytest.approx(true.sectors.sum() / ir.blocks, rel=0.1)


@pytest.mark.parametrize("name", ["harris", "interpolate", "sgemm"])
def test_rows_stand_for_all_warps(name: str) -> None:
    for ir in random_program(bound_app(name), 0).kernels:
        rows = representative_rows(ir, Limits())
        assert rows.weight.sum() == pytest.approx(ir.blocks * -(-ir.threads // 32))


def test_counts_are_text_and_back() -> None:
    work = mapped(op("add", op("mul", X, Y), X))
    assert KernelWork.from_json(work.to_json()) == work
