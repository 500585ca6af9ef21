"""Blocks at the border of steps: all points of a tile are added up, those beyond the domain are thrown away."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from autosched import Expr, Func, Input, Pipeline, RDom, Var, cast, clamp, float32, int32
from autosched.analysis.bind import bind
from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.lower.edge_padding import padded_producers
from autosched.lower.ir import For, If, KernelIR, LoopRole, walk
from autosched.lower.program import lower
from autosched.schedule.legality.validate import violations
from autosched.schedule.planner import plan_kernel
from autosched.schedule.sampling.random_schedule import sample_schedule
from autosched.schedule.types import Kernel
from autosched.target import get_target
from tests.lower.running import assert_backends_agree
from tests.schedule.building import kernel, member, root, schedule
from tests.schedule.mainloop_cases import in_steps, product, stream

H200 = get_target("h200")
y, x, r = Var("y"), Var("x"), RDom("r", k=16)
A, B = Input("a", float32, 2), Input("b", float32, 1)
FILLINGS = {"one": lambda k: k, "ahead": Kernel.with_double_buffering, "past registers": Kernel.with_async_copies}


def guards_of_reductions(code: KernelIR) -> int:
    """Return how many conditions there are in the loops of reductions that threads run in steps."""
    steps = [s for s in walk(code.body) if isinstance(s, For) and s.role is LoopRole.MAINLOOP]
    inner = [s for step in steps for s in walk(step.body) if isinstance(s, For) and s.name.startswith("r_k")]
    return sum(isinstance(s, If) for loop in inner for s in walk(loop.body))


@pytest.mark.parametrize(
    ("rows", "columns", "filling"),
    [(41, 65, "one"), (33, 72, "ahead"), (48, 70, "past registers"), (41, 65, "past registers")],
)
def test_no_guard_stands_where_a_product_is_added_up(rows: int, columns: int, filling: str) -> None:
    bound = product(rows, columns, 24)
    found = FILLINGS[filling](in_steps(bound))
    assert padded_producers(plan_kernel(bound, found)) == {"a.staged", "b.staged"}
    program = lower(bound, schedule(bound, found))
    assert guards_of_reductions(program.kernels[0]) == 0
    assert_backends_agree(bound, program)


def sums(index: Callable[[Expr, Expr], Expr]) -> tuple[BoundPipeline, Kernel]:
    """Return sums over a row read at some columns, in tiles of 8 x 32 points of 10 x 40."""
    out = Func("out")
    out[y, x] = 0.0
    out[y, x] += A[y, index(x, r.k)]
    pipeline = Pipeline(out.over(y=(0, 10), x=(0, 40)), name="sums")
    shapes = {"a": (10, 56), "b": (40,)}
    bound = bind(pipeline, {i.name: shapes[i.name] for i in pipeline.inputs})
    tile, points = "by=2 bx=2", "tx=32 ty=8"
    roots = [root("out", f"{tile} {points}"), root("out.1", f"{tile} rr.k=4 {points} rr.k=4")]
    staged = member(stream("out.1", 3), ("y", "x"), **{"a.staged": "ty=8 tx=28 sx=2"})
    return bound, kernel(bound, roots, [staged])


@pytest.mark.parametrize(
    ("index", "filled"),
    [
        (lambda x, k: x + k, True),
        (lambda x, k: 55 - x - k, False),
        (lambda x, k: clamp(x + k, 3, 50), None),
        (lambda x, k: (x + k + 7) % 56, None),
        (lambda x, k: clamp(cast(int32, B[x]) + k, 0, 55), False),
    ],
)
def test_what_lies_beyond_the_buffer_is_guarded(index: Callable[[Expr, Expr], Expr], filled: bool | None) -> None:
    """``None``: results are right, filled or not."""
    bound, found = sums(index)
    found = found.with_async_copies()
    assert violations(bound, schedule(bound, found), H200) == []
    if filled is not None:
        assert bool(padded_producers(plan_kernel(bound, found))) is filled
    assert_backends_agree(bound, lower(bound, schedule(bound, found)))


def test_random_schedules_at_borders() -> None:
    """Sizes that no tile divides, whatever is staged in steps."""
    bound, seen = product(37, 53, 48), 0
    for seed in range(60):
        found = sample_schedule(bound, H200, np.random.default_rng(seed), varied=True)
        streamed = [k for k in found.kernels if k.mainloop_at is not None]
        if streamed and seen < 2:
            seen += bool(padded_producers(plan_kernel(bound, streamed[0])))
            assert_backends_agree(bound, lower(bound, found))
    assert seen == 2
