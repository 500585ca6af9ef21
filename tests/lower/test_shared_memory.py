"""Shared memory: barriers only where needed, reuse of bytes, bank-conflict padding, more than 48 KiB."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from autosched import Func, Input, Pipeline, Var, float32, float64, uint8
from autosched.analysis.bind import bind
from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.codegen.cuda import print_cuda
from autosched.lang.dtypes import DType
from autosched.lower.ir import Barrier, For, KernelIR
from autosched.lower.program import Program, lower
from autosched.schedule.kernel.memory_layout import BufferSlot, first_fit, shared_layout
from autosched.schedule.legality.validate import violations
from autosched.schedule.planner import plan_kernel
from autosched.schedule.types import Schedule
from autosched.target import get_target
from tests.lower.run_backends import assert_backends_agree, traced
from tests.schedule.building import block, chain_pipeline, kernel, member, root, schedule, thread

y, x = Var("y"), Var("x")
TILE = "by=5 bx=2 tx=32 ty=8"  # of 40 x 64 points
HALO = "tx=32 ty=8 sy=2 sx=2"


def one_kernel(bound: BoundPipeline, members: Sequence[str], tile: str = TILE) -> Program:
    """Return a pipeline in one kernel with some Funcs in shared memory and all others inlined."""
    held = [member(block("out", 2), "yx", **{name: HALO}) for name in members]
    inlined = [n for n in bound.funcs if n not in (*members, "out")]
    found = schedule(bound, kernel(bound, [root("out", tile)], held, inlined))
    assert violations(bound, found, get_target("h200")) == []
    return lower(bound, found, split_interior=False)


def steps(ir: KernelIR) -> list[str]:
    """Return the steps of a block: the comment of each thread nest, ``|`` for a barrier."""
    found = []
    for s in ir.body:
        if isinstance(s, Barrier):
            found.append("|")
        elif not isinstance(s, For):
            found.append(getattr(s, "text", "?").split(":")[0])
    return found


def chain(n: int) -> BoundPipeline:
    return bind(chain_pipeline(n), {"img": (40, 64)})


def test_a_barrier_between_a_producer_and_its_consumer() -> None:
    program = one_kernel(chain(3), ["f1", "f2"])
    assert steps(program.kernels[0]) == ["f1", "|", "f2", "|", "out"]
    assert_backends_agree(program.bound, program)


def diamond() -> BoundPipeline:
    """``f`` and ``g`` do not depend on each other; ``h`` reads ``f``; the output reads ``g`` and ``h``."""
    img, f, g, h, out = Input("img", float32, 2), Func("f"), Func("g"), Func("h"), Func("out")
    edge = img.clamped()
    f[y, x] = edge[y, x] + edge[y, x + 1]
    h[y, x] = f[y, x] + f[y + 1, x]
    g[y, x] = edge[y, x] - edge[y + 1, x]
    out[y, x] = h[y, x + 1] - g[y, x] + g[y, x + 1]
    return bind(Pipeline([out.over(y=(0, 40), x=(0, 64))], name="diamond"), {"img": (40, 64)})


def test_no_barrier_between_independent_nests() -> None:
    program = one_kernel(diamond(), ["f", "g"])
    assert sorted(steps(program.kernels[0])[:2]) == ["f", "g"]
    assert steps(program.kernels[0])[2:] == ["|", "out"]
    assert_backends_agree(program.bound, program)


def test_a_barrier_before_bytes_are_reused() -> None:
    """``g`` reuses the bytes of ``f`` and reads no shared memory, but its stores must follow the reads of ``f``."""
    program = one_kernel(diamond(), ["f", "h", "g"])
    ir = program.kernels[0]
    assert steps(ir) == ["f", "|", "h", "|", "g", "|", "out"]
    offsets = {s.buffer.name: s.offset for s in ir.shared}
    assert offsets["f"] == offsets["g"] != offsets["h"]
    assert_backends_agree(program.bound, program)


def test_no_barrier_without_shared_memory() -> None:
    assert steps(one_kernel(chain(1), []).kernels[0]) == ["out"]


def test_the_first_and_the_third_stage_of_a_chain_share_bytes() -> None:
    program = one_kernel(chain(4), ["f1", "f2", "f3"])
    ir = program.kernels[0]
    slots = {s.buffer.name: (s.offset, s.offset + s.buffer.count * s.buffer.dtype.bytes_) for s in ir.shared}
    assert slots["f1"][0] == slots["f3"][0] == 0
    assert slots["f2"][0] >= slots["f1"][1]
    assert ir.shared_bytes < sum(end - start for start, end in slots.values())
    assert steps(ir) == ["f1", "|", "f2", "|", "f3", "|", "out"]
    assert_backends_agree(program.bound, program)


def test_placement_by_lifetime() -> None:
    requests = [
        BufferSlot("a", 100, 0, 1),
        BufferSlot("b", 50, 1, 2),
        BufferSlot("c", 90, 2, 3),
        BufferSlot("d", 10, 3, 3),
    ]
    placed, total = first_fit(requests, 16)
    at = {p.name: p.offset for p in placed}
    assert at == {"a": 0, "b": 112, "c": 0, "d": 96} and total == 176
    for p in placed:
        assert p.offset % 16 == 0
        assert not any(p.overlaps(q) for q in placed if p is not q and p.first <= q.last and q.first <= p.last)


def transposed(dtype: DType) -> BoundPipeline:
    """A transposition through ``tile``."""
    img, tile, out = Input("img", dtype, 2), Func("tile"), Func("out")
    tile[y, x] = img[y, x] * 2
    out[y, x] = tile[x, y]
    return bind(Pipeline([out.over(y=(0, 64), x=(0, 64))], name="transposed"), {"img": (64, 64)})


def transposition(bound: BoundPipeline, write: str = "tx=32 ty=8 sy=4", order: str = "yx") -> Schedule:
    held = member(block("out", 2), order, tile=write)
    return schedule(bound, kernel(bound, [root("out", "by=2 bx=2 tx=32 ty=8 sy=4")], [held]))


@pytest.mark.parametrize("dtype", [uint8, float32, float64])
@pytest.mark.parametrize("write", ["tx=32 ty=8 sy=4", "ty=32 tx=8 sx=4"])
@pytest.mark.parametrize("order", ["yx", "xy"])
def test_columns_accessed_by_threads_are_padded(dtype: DType, write: str, order: str) -> None:
    """The output reads ``tile`` along y: a column access in one storage order; the writes may be another."""
    bound = transposed(dtype)
    program = lower(bound, transposition(bound, write, order))
    across = order == "yx" or write.startswith("tx")
    assert (program.kernels[0].shared[0].buffer.count > 32 * 32) == across
    assert traced(bound, program).total_bank_conflicts == 0
    assert_backends_agree(bound, program)


def test_rows_accessed_along_x_have_whole_vectors() -> None:
    """Rows of 33 elements of 2 bytes take 80 bytes, not 68, which is an odd number of banks."""
    bound = chain(2)
    for ir in one_kernel(bound, ["f1"]).kernels:
        assert ir.shared[0].buffer.count == 9 * 40


def test_padding_considers_reads_through_inlined_funcs_and_registers() -> None:
    """The threads of ``out`` move along x; ``turn`` (inlined or in registers) makes that y of ``tile``."""
    img, tile, turn, out = Input("img", float32, 2), Func("tile"), Func("turn"), Func("out")
    tile[y, x] = img[y, x] * 2
    turn[y, x] = tile[x, y] + 1
    out[y, x] = turn[y, x] * turn[y, x]
    bound = bind(Pipeline([out.over(y=(0, 64), x=(0, 64))], name="turned"), {"img": (64, 64)})
    held = member(block("out", 2), "yx", tile="tx=32 ty=8 sy=4")
    in_thread = member(thread("out", 5), "yx", turn="sy=1 sx=1")
    for members, inlined in (([held], ["turn"]), ([held, in_thread], [])):
        found = schedule(bound, kernel(bound, [root("out", "by=2 bx=2 tx=32 ty=8 sy=4")], members, inlined))
        program = lower(bound, found)
        assert program.kernels[0].shared[0].buffer.count == 32 * 33
        assert traced(bound, program).total_bank_conflicts == 0


def test_more_than_48_kib_of_dynamic_shared_memory() -> None:
    bound = bind(chain_pipeline(2), {"img": (200, 256)})
    held = member(block("out", 2), "yx", f1="tx=32 ty=16 sy=9 sx=9")
    found = schedule(bound, kernel(bound, [root("out", "by=2 bx=1 tx=32 ty=16 sy=8 sx=8")], [held], ["img_clamped"]))
    h200 = get_target("h200")
    assert violations(bound, found, h200) == []
    program = lower(bound, found)
    planned = shared_layout(plan_kernel(bound, found.kernels[0])).total_bytes
    assert h200.shared_per_block < print_cuda(program.kernels[0]).shared_bytes == planned
    assert_backends_agree(bound, program)
