"""The last vector of rows of narrow elements shifts inwards: the same stores, whole vectors, and the same results."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from autosched import Expr, Func, Input, Pipeline, Var, cast, select
from autosched import max as larger
from autosched import min as smaller
from autosched.analysis.bind import bind
from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.analysis.identifiers import Namer
from autosched.analysis.indices import index as ix
from autosched.lang.dtypes import DType, as_dtype, bool_, float32, int16, uint8
from autosched.lang.median import median
from autosched.lower.ir import Body, Buffer, BufferRead, CompareIndex, For, If, LoopRole, Memory, Op, Store, walk
from autosched.lower.passes.cpu.shift_tail import shift_tail
from autosched.lower.program import lower
from autosched.runtime.compile.nvrtc import have_nvrtc
from autosched.schedule.sampling.random_schedule import sample_schedule
from autosched.scheduled_pipeline import ScheduledPipeline
from autosched.target import get_target
from tests.codegen.ir_machine import Machine
from tests.lower.run_backends import assert_backends_agree

T, B = ix.var("t", 0, 299), ix.var("b", 0, 4)


def loop_of(extent: int, kind: DType = uint8, step: int = 1, lows: Body = (), highs: Body = ()) -> For:
    source, target = (Buffer(name, kind, 2000, Memory.GLOBAL) for name in ("in", "out"))
    value = BufferRead(source, ix.add(ix.scale(T, step), ix.scale(B, 300)), 0)
    body = (Store(target, ix.add(T, ix.scale(B, 300)), value, 1),)
    return For("t", extent, LoopRole.VECTOR, body, comment="x", lower_bounds=lows, upper_bounds=highs)  # type: ignore[arg-type]


def shifted(loop: For) -> Body:
    return shift_tail(loop, Namer({"t", "b", "in", "out"}))


def stored(body: Body, block: int) -> dict[tuple[str, int], int]:
    machine = Machine({"b": block})
    machine.run(body)
    return machine.stored()


@pytest.mark.parametrize("extent", [64, 65, 100, 127, 128, 129, 300])
def test_rows_of_constant_length(extent: int) -> None:
    loop = loop_of(extent)
    result = shifted(loop)
    assert (result == (loop,)) == (extent % 64 == 0)
    assert stored(result, 1) == stored((loop,), 1)
    assert result == (loop,) or all(
        s.extent == 64 for s in walk(result) if isinstance(s, For) and s.role is LoopRole.VECTOR
    )


@pytest.mark.parametrize("first", [0, 3, 40])
@pytest.mark.parametrize("last", [1, 50, 63, 64, 70, 128, 200])
def test_bounds_that_depend_on_the_block(first: int, last: int) -> None:
    low = ix.sub(first, ix.scale(B, 7))
    high = ix.sub(last, ix.scale(B, 20))
    loop = loop_of(300, lows=(0, low), highs=(high,))  # type: ignore[arg-type]
    result = shifted(loop)
    for block in range(5):
        assert stored(result, block) == stored((loop,), block)


def test_vectors_of_16_bit_elements_are_half_as_long() -> None:
    vectors = [s.extent for s in walk(shifted(loop_of(100, int16))) if isinstance(s, For)]
    assert vectors == [4, 32]


@pytest.mark.parametrize("loop", [
    loop_of(100, float32), loop_of(63), loop_of(100, step=2), replace(loop_of(100), role=LoopRole.LANES),
])  # fmt: skip
def test_other_loops_stay(loop: For) -> None:
    """Wide elements, short rows, lanes far apart, and lanes without vectors."""
    assert shifted(loop) == (loop,)


def test_lanes_that_cannot_run_twice_stay() -> None:
    store = loop_of(100).body[0]
    assert isinstance(store, Store)
    update = replace(store, value=Op("add", (BufferRead(store.buffer, store.index, 2), store.value), uint8))
    for body in ((update,), (replace(store, combine="add"),)):
        loop = replace(loop_of(100), body=body)
        assert shifted(loop) == (loop,)


def test_guarded_lanes_shift() -> None:
    loop = loop_of(100)
    guarded = replace(loop, body=(If(CompareIndex("le", ix.scale(T, 3), 200, bool_), loop.body),))
    assert stored(shifted(guarded), 0) == stored((guarded,), 0)
    assert shifted(guarded) != (guarded,)


KINDS = ("uint8", "int8", "uint16", "int16")


def narrow_pipeline(rng: np.random.Generator) -> BoundPipeline:
    """Return a stencil of narrow elements with boundary conditions, saturating sums or a median, of a random size."""
    kind = as_dtype(str(rng.choice(KINDS)))
    a, y, x = Input("a", kind, 2), Var("y"), Var("x")
    height, width = int(rng.integers(1, 20)), int(rng.choice([1, 31, 63, 64, 65, 100, 129, 200]))
    box = {"y": (0, height), "x": (0, width)}
    source = (a.clamped, a.mirrored, lambda: a.constant(1))[int(rng.integers(3))]()
    match int(rng.integers(4)):
        case 0:
            out = median(source, y=3, x=3)
        case 1:
            out = Func("out")
            wide = [cast("int32", source[y + j, x + i]) for j in (-1, 0, 1) for i in (-1, 0, 1)]
            out[y, x] = cast(kind, smaller(sum(wide[1:], wide[0]), kind.max_value))
        case 2:
            rows, out = Func("rows"), Func("out")
            rows[y, x] = larger(larger(source[y, x - 1], source[y, x]), source[y, x + 1])
            out[y, x] = smaller(smaller(rows[y - 1, x], rows[y, x]), rows[y + 1, x])
        case _:
            out = Func("out")
            value: Expr = select((x + y) % 2 == 0, source[y, x - 1], source[y + 1, x + 2])
            out[y, x] = select(x < 7, value, larger(value, source[y, x]))
    return bind(Pipeline(out.over(**box)), {"a": (height, width)})


def check_narrow(seed: int) -> None:
    """Check random schedules of a narrow stencil in all backends."""
    rng = np.random.default_rng(seed)
    bound = narrow_pipeline(rng)
    for name in ("cpu", "h200"):
        target = get_target(name)
        schedule = sample_schedule(bound, target, rng, varied=True)
        assert_backends_agree(bound, lower(bound, schedule), emulate=True)
        if target.kind == "cuda" and have_nvrtc():
            ScheduledPipeline(bound, schedule, target).compile("cuda")


@pytest.mark.parametrize("seed", range(24))
def test_narrow_stencils_agree(seed: int) -> None:
    check_narrow(seed)


@pytest.mark.fuzz
@pytest.mark.parametrize("shard", range(20))
def test_many_narrow_stencils_agree(shard: int) -> None:
    for seed in range(100 + 50 * shard, 150 + 50 * shard):
        check_narrow(seed)
