"""Half vectors: kernels that stream a caller's array into running sums along vectors, and no others."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from autosched import Expr, Func, Input, Pipeline, RDom, Var, cast, exp, float32, int32, uint8
from autosched.analysis.bind import bind
from autosched.codegen.c import print_c
from autosched.lang.dtypes import DType
from autosched.lower.program import lower
from autosched.schedule import cpu_policy
from tests.lower.run_backends import assert_backends_agree
from tests.schedule.building import kernel, root, schedule

ROWS, TERMS = 4, 32 * 264 + 3
ALONG_TERMS, ALONG_ROWS = "by=2 rr.i={rounds} tr.i=32 ty=2", "by=1 ty=4 rr.i={terms}"
y = Var("y")


@pytest.fixture(autouse=True)
def _streamed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small arrays count as streamed ones."""
    monkeypatch.setattr(cpu_policy, "MIN_STREAM_BYTES", 0)


def text_of(
    term: Callable[[Expr], Expr], source: DType, total: DType, update: str = ALONG_TERMS, terms: int = TERMS
) -> str:  # fmt: skip
    """Return the C text of sums of the rows of an image, compared with the interpreter where they are exact."""
    image, out, r = Input("image", source, 2), Func("out"), RDom("r", i=terms)
    out[y] = cast(total, 0)
    out[y] += term(image[y, r.i])
    bound = bind(Pipeline(out.over(y=(0, ROWS)), name="rows"), {"image": (ROWS, terms)})
    roots = [root("out", update.partition(" rr")[0]), root("out.1", update.format(rounds=-(-terms // 32), terms=terms))]
    if update is ALONG_TERMS:
        roots[0] = root("out", "by=2 ty=2")
    program = lower(bound, schedule(bound, kernel(bound, roots)))
    if total.is_int:
        assert_backends_agree(bound, program)
    return print_c(program).text


@pytest.mark.parametrize(
    ("source", "total", "term"),
    [
        (float32, float32, lambda v: v),
        (float32, float32, lambda v: v * v),
        (int32, int32, lambda v: v),
        (uint8, int32, lambda v: cast(int32, v)),
    ],
)
def test_streams_of_an_input_use_half_vectors(
    source: DType, total: DType, term: Callable[[Expr], Expr]
) -> None:  # fmt: skip
    text = text_of(term, source, total)
    assert text.count("static __attribute__((noinline)) HALF_VECTORS\n") == 1
    assert text.count('target("prefer-vector-width=256")') == 1


def test_longer_computations_use_whole_vectors() -> None:
    assert "HALF_VECTORS" not in text_of(lambda v: exp(v * 0.5) - v, float32, float32)


def test_lanes_along_the_points_use_whole_vectors() -> None:
    assert "HALF_VECTORS" not in text_of(lambda v: v, int32, int32, ALONG_ROWS)


def test_arrays_that_may_lie_in_caches_use_whole_vectors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu_policy, "MIN_STREAM_BYTES", ROWS * TERMS * 4)
    assert "HALF_VECTORS" not in text_of(lambda v: v, int32, int32)


def test_short_rows_use_whole_vectors() -> None:
    assert "HALF_VECTORS" not in text_of(lambda v: v, int32, int32, terms=64)


def test_arrays_between_kernels_use_whole_vectors() -> None:
    """They are aligned."""
    image, middle, out, r, x = Input("image", int32, 2), Func("middle"), Func("out"), RDom("r", i=TERMS), Var("x")
    middle[y, x] = image[y, x] + 1
    out[y] = cast(int32, 0)
    out[y] += middle[y, r.i]
    bound = bind(Pipeline(out.over(y=(0, ROWS)), name="rows"), {"image": (ROWS, TERMS)})
    update = ALONG_TERMS.format(rounds=-(-TERMS // 32))
    found = schedule(
        bound,
        kernel(bound, [root("middle", f"by=4 bx={-(-TERMS // 32)} tx=32")]),
        kernel(bound, [root("out", "by=2 ty=2"), root("out.1", update)]),
    )
    program = lower(bound, found)
    assert "HALF_VECTORS" not in print_c(program).text
    assert_backends_agree(bound, program)
