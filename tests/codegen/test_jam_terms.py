"""Terms of reductions in one lane loop: which are jammed, and that results do not change."""

from __future__ import annotations

import re

import numpy as np
import pytest

from autosched import Func, Input, Pipeline, RDom, Var, cast, float32, float64, int32, maximum, sum, uint8
from autosched.analysis.bind import bind
from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.codegen.c import print_c
from autosched.lang.dtypes import DType
from autosched.lower.program import Program, lower
from autosched.schedule.cpu_policy import JAMMED_TERMS, MIN_JAM_TERMS
from autosched.schedule.legality.validate import violations
from autosched.search.beam.random_states import RandomStates
from autosched.search.cost.gpu_analytical import analytical_model
from autosched.search.evaluate.evaluator import KernelEvaluator
from autosched.search.settings import SearchSettings
from autosched.target import get_target
from tests.lower.run_backends import assert_backends_agree
from tests.schedule.building import kernel, root, schedule

H200, CPU = get_target("h200"), get_target("cpu")
x = Var("x")


def columns(terms: int, width: int, dtype: DType = float32) -> BoundPipeline:
    """Return sums of the columns of an image."""
    image, out = Input("image", dtype, 2), Func("out")
    r = RDom("r", i=terms)
    out[x] = cast(dtype, 0)
    out[x] += image[r.i, x]
    pipeline = Pipeline(out.over(x=(0, width)), name="columns")
    return bind(pipeline, {"image": (terms, width)})


def in_rows(bound: BoundPipeline, threads: int) -> Program:
    """Return a program whose threads go along the rows."""
    (size,) = bound.funcs["out"].extents
    terms = bound.shapes["image"][0]
    tiles = f"bx={-(-size // threads)} tx={threads}"
    found = schedule(bound, kernel(bound, [root("out", tiles), root("out.1", f"{tiles} rr.i={terms}")]))
    assert violations(bound, found, H200) == []
    return lower(bound, found)


def versions(program: Program) -> list[str]:
    """Return the text for 32 vector registers of 64 bytes and that for others, or the only one."""
    text = print_c(program).text
    text = text[text.rindex("// computes") :]
    before, found, after = text.partition("#ifdef __AVX512F__")
    if not found:
        return [text]
    many, _, few = after.partition("#else")
    return [before + many, before + few]


def loads(text: str) -> list[int]:
    """Return the number of loads of the image in each lane loop that has some."""
    loops = re.findall(r"for \(int x_t\w* = [^\n]*\n([^}]*)\}", text)
    return [n for n in (len(re.findall(r"LOAD\(\d+, image,", loop)) for loop in loops) if n]


def strips(text: str) -> list[str]:
    return re.findall(r"\d+ strips? of \d+", text)


@pytest.mark.parametrize("terms", [MIN_JAM_TERMS, 257, 258, 303])
@pytest.mark.parametrize(("width", "threads"), [(128, 64), (700, 256), (100, 100), (77, 32)])
def test_several_terms_share_a_lane_loop(terms: int, width: int, threads: int) -> None:
    bound = columns(terms, width)
    program = in_rows(bound, threads)
    left = [terms % JAMMED_TERMS] if terms % JAMMED_TERMS else []
    for text in versions(program):
        assert loads(text)[: 1 + len(left)] == [JAMMED_TERMS, *left]
    assert_backends_agree(bound, program)


@pytest.mark.parametrize(
    ("dtype", "threads", "many", "few"),
    [
        (float32, 512, ["2 strips of 256"], ["4 strips of 128"]),
        (float32, 300, ["1 strips of 256"], ["2 strips of 128"]),
        (float32, 200, [], ["1 strips of 128"]),
        (uint8, 512, [], ["4 strips of 128"]),
    ],
)
def test_strips_are_wider_with_more_registers(dtype: DType, threads: int, many: list[str], few: list[str]) -> None:
    bound = columns(MIN_JAM_TERMS, 2 * threads, dtype)
    program = in_rows(bound, threads)
    assert [strips(text) for text in versions(program)] == [many, few]
    assert all(set(loads(text)) == {JAMMED_TERMS} for text in versions(program))
    assert_backends_agree(bound, program)


def test_strips_of_two_vectors_need_no_more_registers() -> None:
    bound = columns(MIN_JAM_TERMS, 512, float64)
    program = in_rows(bound, 512)
    assert [strips(text) for text in versions(program)] == [["4 strips of 128"]]
    assert_backends_agree(bound, program)


@pytest.mark.parametrize("dtype", [float32, float64, int32, uint8])
def test_elements_of_all_widths_are_added(dtype: DType) -> None:
    bound = columns(257, 600, dtype)
    program = in_rows(bound, 300)
    for text in versions(program):
        assert sorted(set(loads(text))) == [257 % JAMMED_TERMS, JAMMED_TERMS]
    assert_backends_agree(bound, program)


def test_short_reductions_stay_as_they_are() -> None:
    program = in_rows(columns(MIN_JAM_TERMS - 1, 512), 256)
    (text,) = versions(program)
    assert set(loads(text)) == {1}
    assert strips(text) == ["2 strips of 128"]


def test_terms_that_share_elements_stay_as_they_are() -> None:
    """Neighbouring terms of a window are in the same cache lines, so running sums are best in registers."""
    terms = MIN_JAM_TERMS
    image, out, r = Input("image", float32, 1), Func("out"), RDom("r", i=terms)
    out[x] = cast(float32, 0)
    out[x] += image[x + r.i]
    bound = bind(Pipeline(out.over(x=(0, 512)), name="window"), {"image": (512 + terms,)})
    tiles = "bx=2 tx=256"
    found = schedule(bound, kernel(bound, [root("out", tiles), root("out.1", f"{tiles} rr.i={terms}")]))
    program = lower(bound, found)
    (text,) = versions(program)
    assert set(loads(text)) == {1}
    assert strips(text) == ["2 strips of 128"]
    assert_backends_agree(bound, program)


def test_lanes_along_the_terms_are_jammed() -> None:
    """Partial results of 32 lanes, over whole iterations; the last one has fewer lanes. Integers have no order."""
    y, image, out = Var("y"), Input("image", int32, 2), Func("out")
    r = RDom("r", i=32 * 257 + 5)
    out[y] = cast(int32, 0)
    out[y] += image[y, r.i]
    bound = bind(Pipeline(out.over(y=(0, 8)), name="rows"), {"image": (8, 32 * 257 + 5)})
    found = schedule(bound, kernel(bound, [root("out", "by=4 ty=2"), root("out.1", "by=4 rr.i=258 tr.i=32 ty=2")]))
    assert violations(bound, found, H200) == []
    program = lower(bound, found)
    text = print_c(program).text
    assert "258 terms, 4 together" in text and "258 terms\n" not in text
    assert_backends_agree(bound, program)


def test_random_schedules_of_column_reductions_are_right() -> None:
    y, image, out = Var("y"), Input("image", float32, 3), Func("out")
    r, s = RDom("r", i=259), RDom("s", i=3, j=19)
    out[y, x] = sum(image[r.i, y, x], over=r) + maximum(image[s.i * 7 + s.j % 7, y, x] * 2, over=s)
    bound = bind(Pipeline(out.over(y=(0, 5), x=(0, 150)), name="both"), {"image": (259, 5, 150)})
    states = RandomStates(KernelEvaluator(bound, CPU, analytical_model(CPU), SearchSettings()))
    rng, jammed = np.random.default_rng(0), 0
    for _ in range(16):
        drawn = states.draw_legal(rng)
        assert drawn is not None
        program = lower(bound, drawn[1])
        jammed += ", 4 together" in print_c(program).text
        assert_backends_agree(bound, program)
    assert jammed > 3
