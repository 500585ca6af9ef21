"""Cache reads: kernels copy inputs and materialised Funcs to shared memory."""

from __future__ import annotations

from dataclasses import replace

import pytest

from autosched import Func, Input, Pipeline, RDom, float32, uint8
from autosched.analysis.bind import bind
from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.analysis.rewrites.cache_read import cache_name, cached_source, insert_cache_reads
from autosched.errors import ScheduleError
from autosched.lower.ir import BufferRead, Memory, values_of, walk, walk_values
from autosched.lower.program import lower
from autosched.runtime.compile.host_compiler import have_compiler
from autosched.schedule.io.serialise import from_json, to_json
from autosched.schedule.io.text import schedule_text
from autosched.schedule.legality.validate import validate, violations
from autosched.schedule.types import FusedProducer, Kernel, Schedule, TileAlignment
from tests.lower.inspect_ir import H200
from tests.lower.run_backends import assert_backends_agree, traced
from tests.schedule.building import block, kernel, member, root, schedule, thread, x, y

needs_compiler = pytest.mark.skipif(
    not (have_compiler("c") and have_compiler("c++")), reason="needs C and C++ compilers"
)
TILE = "by=4 bx=3 tx=32 ty=8"


def stencil() -> BoundPipeline:
    """``out`` reads a cross of ``rows``, which adds two rows of ``img``; no boundary conditions."""
    img, rows, out = Input("img", float32, 2), Func("rows"), Func("out")
    rows[y, x] = img[y, x] + img[y + 1, x]
    out[y, x] = rows[y, x] + rows[y + 1, x] + rows[y, x + 1] + rows[y, x + 2]
    return bind(Pipeline([out.over(y=(0, 30), x=(0, 90))], name="stencil"), {"img": (32, 92)})


def in_one_kernel(aligned: TileAlignment | None = None) -> Schedule:
    bound = stencil()
    copy = replace(member(block("out", 2), "yx", img__staged="tx=32 ty=8 sy=2 sx=2"), aligned=aligned)
    return schedule(bound, kernel(bound, [root("out", TILE)], [copy], ["rows"]))


def in_two_kernels(source: str = "rows") -> Schedule:
    """Return two kernels, with a cache read of ``rows`` in the second or of the input in the first."""
    bound = stencil()
    copies = {
        "rows": member(block("out", 2), "yx", rows__staged="tx=34 ty=9"),
        "img": member(block("rows", 2), "xy", img__staged="tx=16 ty=9 sx=2"),
    }
    first = kernel(bound, [root("rows", "by=4 bx=3 tx=32 ty=8")], [copies["img"]] if source == "img" else [])
    second = kernel(bound, [root("out", TILE)], [copies["rows"]] if source == "rows" else [])
    return schedule(bound, first, second)


SCHEDULES = {
    "input": in_one_kernel(),
    "input, aligned": in_one_kernel(TileAlignment(4)),
    "root": in_two_kernels("rows"),
    "input of the first kernel": in_two_kernels("img"),
}


@pytest.mark.parametrize("name", SCHEDULES)
@needs_compiler
def test_backends_agree(name: str) -> None:
    bound, found = stencil(), SCHEDULES[name]
    validate(bound, found, H200)
    assert_backends_agree(bound, lower(bound, found, vectors=True))


def test_only_copies_read_the_cached_source() -> None:
    (ir,) = lower(stencil(), SCHEDULES["input"]).kernels
    reads = [
        v for s in walk(ir.body) for value in values_of(s) for v in walk_values(value) if isinstance(v, BufferRead)
    ]
    from_global = {v.buffer.name for v in reads if v.buffer.memory is Memory.GLOBAL}
    from_shared = {v.buffer.name for v in reads if v.buffer.memory is Memory.SHARED}
    assert (from_global, from_shared) == ({"img"}, {"img_staged"})


@needs_compiler
def test_cache_reads_save_global_loads() -> None:
    bound = stencil()
    plain = schedule(bound, kernel(bound, [root("out", TILE)], [], ["rows"]))
    loads = [traced(bound, lower(bound, s, vectors=False)).global_load_sectors for s in (plain, SCHEDULES["input"])]
    assert loads[1] < loads[0] / 2


def test_text_and_json_have_the_cache_read() -> None:
    bound = stencil()
    for found in SCHEDULES.values():
        assert from_json(to_json(bound, found), bound) == found
    text = schedule_text(bound, SCHEDULES["root"])
    assert "rows.staged[y, x] = rows[y, x]\n" in text
    assert "out[y, x] = rows.staged[y, x] + rows.staged[y + 1, x] + rows.staged[y, x + 1]" in text
    wrong = to_json(bound, SCHEDULES["root"]).replace('"rows.staged"', '"raws.staged"')
    with pytest.raises(ScheduleError, match=r"'raws\.staged'"):
        from_json(wrong, bound)


def test_user_names_take_precedence_over_cache_names() -> None:
    """A Func has the identifier that the cache read would have in generated code."""
    img, same_name, out = Input("img", uint8, 2), Func("img_staged"), Func("out")
    same_name[y, x] = img[y, x] + img[y + 1, x]
    out[y, x] = same_name[y, x] * 2 + img[y, x]
    bound = bind(Pipeline([out.over(y=(0, 8), x=(0, 32))], name="names"), {"img": (9, 32)})
    copy = member(block("out", 1), "yx", img__staged="tx=32 sy=9")
    found = schedule(bound, kernel(bound, [root("out", "by=1 tx=32 ty=8")], [copy], ["img_staged"]))
    validate(bound, found, H200)
    program = lower(bound, found)
    assert program.names["img_staged"] == "img_staged"
    assert [s.buffer.name for s in program.kernels[0].shared] == ["img_staged1"]
    assert_backends_agree(bound, program)


def test_rewrites_are_memoised() -> None:
    bound = stencil()
    rewritten = insert_cache_reads(bound, ["img"])
    assert insert_cache_reads(bound, ["img", "nothing"]) is rewritten
    assert insert_cache_reads(rewritten, ["img"]) is rewritten
    assert insert_cache_reads(bound, []) is bound
    assert (cached_source(cache_name("img")), cached_source("img")) == ("img", None)
    assert list(rewritten.funcs) == ["img.staged", "rows", "out"]
    assert rewritten.funcs["img.staged"].region == ((0, 31), (0, 91))
    assert bound.funcs["rows"].stages[0].sources == ("img",)


def test_updates_do_not_read_their_own_cache() -> None:
    img, total, out = Input("img", float32, 2), Func("total"), Func("out")
    r = RDom("r", k=(0, 3))
    total[y, x] = 0.0
    total[y, x] += img[y, x + r.k]
    out[y, x] = total[y, x] + total[y + 1, x]
    bound = bind(Pipeline([out.over(y=(0, 15), x=(0, 62))], name="updates"), {"img": (16, 64)})
    rewritten = insert_cache_reads(bound, ["total"])
    assert "total" in rewritten.funcs["total"].stages[1].sources
    assert rewritten.funcs["out"].stages[0].sources == ("total.staged",)
    roots = [root("total", "by=2 bx=2 tx=32 ty=8"), root("total.1", "by=2 bx=2 tx=32 ty=8 rr.k=3")]
    copy = member(block("out", 2), "yx", total__staged="tx=32 ty=8 sy=2")
    found = schedule(bound, kernel(bound, roots), kernel(bound, [root("out", "by=2 bx=2 tx=32 ty=8")], [copy]))
    validate(bound, found, H200)
    assert_backends_agree(bound, lower(bound, found))


def violation(members: list[FusedProducer], inlined: list[str]) -> str:
    bound = stencil()
    built: Kernel = kernel(bound, [root("out", TILE)], members, inlined)
    (found,) = violations(bound, schedule(bound, built), H200)
    return found


def test_illegal_cache_reads() -> None:
    copy = member(block("out", 2), "yx", rows__staged="tx=34 ty=9")
    assert violation([copy], ["rows"]) == (
        "kernel 0: it caches rows, but computes rows itself; only sources outside the kernel can be cached"
    )
    in_thread = member(thread("out", 4), "yx", img__staged="sy=3 sx=3")
    wanted = "kernel 0: img.staged is at THREAD; a cache read must be at BLOCK, MAINLOOP or WARP"
    assert violation([in_thread], ["rows"]) == wanted
    unknown = replace(
        copy, tilings=(replace(copy.tilings[0], stage=copy.tilings[0].stage._replace(func="raws.staged")),)
    )
    bound = stencil()
    built = replace(SCHEDULES["input"].kernels[0], fused=(unknown,))
    (found,) = violations(bound, schedule(bound, built), H200)
    assert found == "kernel 0: it computes raws.staged, which is no stage of the pipeline"
