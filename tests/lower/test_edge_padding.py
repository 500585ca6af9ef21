"""Edge padding: boundary blocks accumulate full tiles and do not store points outside the domain."""

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
from tests.lower.run_backends import assert_backends_agree
from tests.schedule.building import kernel, member, root, schedule
from tests.schedule.mainloop_cases import in_steps, product, stream

H200 = get_target("h200")
y, x, r = Var("y"), Var("x"), RDom("r", k=16)
A, B = Input("a", float32, 2), Input("b", float32, 1)
TRANSFERS = {
    "single buffer": lambda k: k,
    "double buffer": Kernel.with_double_buffering,
    "async copy": Kernel.with_async_copies,
}


def reduction_guards(code: KernelIR) -> int:
    """Return the number of guards in the reduction loops of mainloops."""
    steps = [s for s in walk(code.body) if isinstance(s, For) and s.role is LoopRole.MAINLOOP]
    inner = [s for step in steps for s in walk(step.body) if isinstance(s, For) and s.name.startswith("r_k")]
    return sum(isinstance(s, If) for loop in inner for s in walk(loop.body))


@pytest.mark.parametrize(
    ("rows", "columns", "transfer"),
    [(41, 65, "single buffer"), (33, 72, "double buffer"), (48, 70, "async copy"), (41, 65, "async copy")],
)
def test_reduction_loops_of_products_have_no_guard(rows: int, columns: int, transfer: str) -> None:
    bound = product(rows, columns, 24)
    found = TRANSFERS[transfer](in_steps(bound))
    assert padded_producers(plan_kernel(bound, found)) == {"a.staged", "b.staged"}
    program = lower(bound, schedule(bound, found))
    assert reduction_guards(program.kernels[0]) == 0
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
    ("index", "padded"),
    [
        (lambda x, k: x + k, True),
        (lambda x, k: 55 - x - k, False),
        (lambda x, k: clamp(x + k, 3, 50), None),
        (lambda x, k: (x + k + 7) % 56, None),
        (lambda x, k: clamp(cast(int32, B[x]) + k, 0, 55), False),
    ],
)
def test_reads_outside_the_buffer_are_guarded(index: Callable[[Expr, Expr], Expr], padded: bool | None) -> None:
    """``padded`` is None where only results are checked."""
    bound, found = sums(index)
    found = found.with_async_copies()
    assert violations(bound, schedule(bound, found), H200) == []
    if padded is not None:
        assert bool(padded_producers(plan_kernel(bound, found))) is padded
    assert_backends_agree(bound, lower(bound, schedule(bound, found)))


def test_random_schedules_with_boundary_blocks() -> None:
    """No tile divides the sizes."""
    bound, seen = product(37, 53, 48), 0
    for seed in range(60):
        found = sample_schedule(bound, H200, np.random.default_rng(seed), varied=True)
        mainloops = [k for k in found.kernels if k.mainloop_at is not None]
        if mainloops and seen < 2:
            seen += bool(padded_producers(plan_kernel(bound, mainloops[0])))
            assert_backends_agree(bound, lower(bound, found))
    assert seen == 2
