"""Tile alignment: tiles in shared memory begin and end at aligned columns."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest

from autosched import Func, Input, Pipeline, float32
from autosched.analysis.access.regions import AlignedGroups, with_whole_groups
from autosched.analysis.bind import bind
from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.analysis.indices import index as ix
from autosched.errors import ScheduleError
from autosched.lower.ir import LetVector, Memory, walk
from autosched.lower.passes.coalesce_accesses import coalesce_accesses
from autosched.lower.program import lower
from autosched.runtime.compile.host_compiler import have_compiler
from autosched.schedule.io.serialise import from_json, to_json
from autosched.schedule.io.structural_hash import structural_hash
from autosched.schedule.io.text import canonical_text, schedule_text
from autosched.schedule.legality.validate import validate, violations
from autosched.schedule.planner import plan_kernel
from autosched.schedule.types import FusedProducer, Kernel, Schedule, TileAlignment
from tests.lower.inspect_ir import H200, interior
from tests.lower.run_backends import assert_backends_agree
from tests.schedule.building import block, kernel, member, root, schedule, thread, x, y

BLOCKS, COLUMNS = 4, 32
needs_compiler = pytest.mark.skipif(
    not (have_compiler("c") and have_compiler("c++")), reason="needs C and C++ compilers"
)


def pair() -> BoundPipeline:
    """``out`` reads two columns of ``twice``, which needs columns 1 to 121 of an image of 128."""
    img, twice, out = Input("img", float32, 2), Func("twice"), Func("out")
    twice[y, x] = img[y, x] * 2
    out[y, x] = twice[y, x + 1] + twice[y, x + 2]
    return bind(Pipeline([out.over(y=(0, 16), x=(0, 120))], name="pair"), {"img": (16, 128)})


def staged(bound: BoundPipeline, aligned: TileAlignment | None, threads: str = "tx=9 ty=8 sx=4") -> Schedule:
    producer = replace(member(block("out", 2), "yx", twice=threads), aligned=aligned)
    return schedule(bound, kernel(bound, [root("out", f"by=2 bx={BLOCKS} tx=8 ty=8 sx=4")], [producer]))


@pytest.mark.parametrize("multiple", [1, 2, 4, 8])
@pytest.mark.parametrize("remainder", [0, 1, 3])
def test_tiles_are_the_smallest_aligned_ones(multiple: int, remainder: int) -> None:
    bound = pair()
    remainder %= multiple
    found = staged(bound, TileAlignment(multiple, remainder), "ty=8 sx=48")
    plan = plan_kernel(bound, found.kernels[0])
    nest = next(n for group in plan.steps for n in group if n.stage.func == "twice")
    for b in range(BLOCKS):
        first, last = COLUMNS * b + 1, min(COLUMNS * b + COLUMNS - 1, 119) + 2
        while first > 1 and first % multiple != remainder:
            first -= 1
        while last < 121 and (last + 1) % multiple != remainder:
            last += 1
        here = {v: b if v.startswith("x") else 0 for e in (nest.low["x"], nest.high["x"]) for v in ix.loop_vars(e)}
        assert ix.evaluate(nest.low["x"], here) == first
        assert ix.evaluate(nest.high["x"], here) == last
        assert last - first + 1 <= nest.extents["x"]


def test_aligned_groups_of_scalars_and_of_arrays_are_equal() -> None:
    func = pair().funcs["twice"]
    lo = np.arange(1, 60)
    hi = lo + 17
    for multiple, remainder in itertools.product((2, 4, 6), (0, 1)):
        groups = AlignedGroups(1, multiple, remainder)
        _, (low, high) = with_whole_groups(func, ((0, 3), (lo, hi)), groups)
        for k in range(len(lo)):
            box = with_whole_groups(func, ((0, 3), (int(lo[k]), int(hi[k]))), groups)
            assert box == ((0, 3), (int(low[k]), int(high[k])))


@needs_compiler
@pytest.mark.parametrize("aligned", [None, TileAlignment(4), TileAlignment(4, 3), TileAlignment(8, 2)])
def test_backends_agree(aligned: TileAlignment | None) -> None:
    bound = pair()
    found = staged(bound, aligned, "tx=16 ty=8 sx=4")
    validate(bound, found, H200)
    assert_backends_agree(bound, lower(bound, found, vectors=True))


@pytest.mark.parametrize(
    ("aligned", "lengths"),
    [(None, [2]), (TileAlignment(2), [2, 2]), (TileAlignment(4), [4]), (TileAlignment(4, 1), [2])],
)
def test_aligned_tiles_are_loaded_by_vectors(aligned: TileAlignment | None, lengths: list[int]) -> None:
    """Of four columns that begin at an odd one, only the middle two form a vector."""
    (ir,) = lower(pair(), staged(pair(), aligned), vectors=True).kernels
    body = interior(coalesce_accesses(ir))
    assert body is not None
    loads = [s for s in walk(body) if isinstance(s, LetVector) and s.buffer.memory is Memory.GLOBAL]
    assert [s.length for s in loads] == lengths


def test_text_json_and_hash_have_the_alignment() -> None:
    bound = pair()
    plain, even, odd = (staged(bound, a) for a in (None, TileAlignment(4), TileAlignment(4, 1)))
    for found in (plain, even, odd):
        assert from_json(to_json(bound, found), bound) == found
    assert "in shared memory, 1152 bytes, x aligned to multiples of 4\n" in schedule_text(bound, even)
    assert "x aligned to multiples of 4 plus 1\n" in schedule_text(bound, odd)
    assert len({canonical_text(s) for s in (plain, even, odd)}) == 3
    assert len({structural_hash(s, 9) for s in (plain, even, odd)}) == 3
    assert len({structural_hash(s, 2) for s in (plain, even, odd)}) == 1
    wrong = to_json(bound, odd).replace('"remainder": 1', '"remainder": 4')
    with pytest.raises(ScheduleError, match=r"aligned\.remainder"):
        from_json(wrong, bound)


def test_illegal_alignments() -> None:
    bound = pair()
    (found,) = violations(bound, staged(bound, TileAlignment(4, 4)), H200)
    assert found == "kernel 0: twice: alignment remainder 4 modulo 4 must be in 0..3"
    in_thread: FusedProducer = replace(member(thread("out", 4), "yx", twice="sx=5"), aligned=TileAlignment(4))
    loops: Kernel = kernel(bound, [root("out", f"by=2 bx={BLOCKS} tx=8 ty=8 sx=4")], [in_thread])
    (found,) = violations(bound, schedule(bound, loops), H200)
    wanted = "kernel 0: twice: only a tile at BLOCK or WARP that has dimensions can be aligned; remove its alignment"
    assert found == wanted
