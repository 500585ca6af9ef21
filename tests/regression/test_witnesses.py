"""Small pipelines on which the witnesses once differed, or on which one of them failed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import autosched as a
from autosched.analysis.bind import bind
from autosched.lang.expr import Scalar
from autosched.lang.func import Func, Output
from autosched.schedule.legality.validate import validate
from autosched.schedule.types import (
    ComputeAt,
    FusedProducer,
    Kernel,
    Level,
    Loop,
    LoopKind,
    Root,
    Schedule,
    StageId,
    StageTiling,
)
from autosched.search.strategies.compute_root import schedule_roots
from autosched.target import get_target
from tests.fuzz.pipelines import Case
from tests.fuzz.witnesses import check_schedule, reference_outputs

H200 = get_target("h200")
x, y = a.Var("x"), a.Var("y")
ROW = np.arange(-3, 7, dtype=np.float32)


def agree(
    outputs: Output | Func | list[Output | Func],
    inputs: dict[str, np.ndarray[Any, Any]],
    params: dict[str, Scalar] | None = None,
    kernels: tuple[Kernel, ...] | None = None,
) -> dict[str, np.ndarray[Any, Any]]:
    """Run a pipeline through all witnesses, under the baseline schedule unless kernels are given."""
    case = Case(a.Pipeline(outputs, name="p"), inputs, params or {})
    bound = bind(case.pipeline, case.shapes, case.params)
    schedule = schedule_roots(bound, H200) if kernels is None else Schedule(case.pipeline.hash, kernels)
    validate(bound, schedule, H200)
    expected = reference_outputs(case)
    check_schedule(case, bound, schedule, expected)
    return expected


def row(name: str = "row") -> a.Input:
    """Return an input for `ROW`."""
    return a.Input(name, a.float32, 1)


def test_an_extent_that_does_not_fit_a_narrow_type_wraps() -> None:
    f, img = Func("f"), row()
    f[x] = a.cast(a.uint8, img.shape[0] - 300) + a.cast(a.uint8, img[x])
    found = agree(f.over(x=(0, 2)), {"row": ROW})
    assert found["f"].tolist() == [(10 - 300) % 256, (10 - 300) % 256]


def test_a_constant_boundary_on_a_tuple() -> None:
    pair, img = Func("pair"), row()
    pair[x] = img[x], a.cast(a.int32, img[x])
    out = Func("out")
    out[x] = pair.constant(5, x=(0, 10))[x]
    found = agree(out.over(x=(-1, 11)), {"row": ROW})
    assert found["out_1"].tolist() == [5, *ROW.astype(int), 5]


@pytest.mark.parametrize("returned", [False, True])
def test_components_of_a_tuple_beside_a_func_of_such_a_name(returned: bool) -> None:
    pair, single, out, img = Func("h"), Func("h_1"), Func("out"), row()
    pair[x] = img[x] + 1, img[x] * 2
    single[x] = pair[x][1] - pair[x][0]
    single[x] += 1
    out[x] = single[x] + single[9 - x] + pair[9 - x][0]
    box = {"x": (0, 10)}
    names = set(
        agree([pair.over(**box), single.over(**box), out.over(**box)] if returned else out.over(**box), {"row": ROW})
    )
    assert len(names) == (4 if returned else 1)


@pytest.mark.parametrize(
    "name", ["int", "block", "main", "x_t", "x_b", "r_x", "x_s", "AS_FN", "as_run", "Größe", "linux"]
)
def test_names_that_generated_code_uses_itself(name: str) -> None:
    f, out, img = Func(name), Func("out"), row("i" + name if name.isupper() else "row")
    r = a.RDom("r", x=3)
    f[x] = 0.0
    f[x] += img[r.x + x]
    out[x] = a.select(f[x] > 2, f[x + 1], f[x])
    agree(out.over(x=(0, 6)), {img.name: ROW})


def test_threads_only_along_an_outer_dimension() -> None:
    """A thread loop of one iteration takes no axis of the block."""
    f, img = Func("f"), a.Input("img", a.float32, 2)
    f[y, x] = img[y, x] + 1
    loops = (
        Loop("y", LoopKind.BLOCK, 2),
        Loop("x", LoopKind.BLOCK, 1),
        Loop("x", LoopKind.THREAD, 1),
        Loop("y", LoopKind.THREAD, 4),
    )
    kernel = Kernel((Root(StageTiling(StageId("f"), loops)),))
    agree(f.over(y=(0, 7), x=(0, 1)), {"img": np.arange(7, dtype=np.float32)[:, None]}, kernels=(kernel,))


def test_an_accumulator_read_several_times() -> None:
    best, img, r = Func("best"), row(), a.RDom("r", x=10)
    best[()] = a.argmax(a.abs(img[r.x]), over=r)
    found = agree(best.over(), {"row": ROW})
    assert found["best_0"] == 9


def test_an_undefined_start_is_not_read() -> None:
    f, out, img = Func("f"), Func("out"), row()
    f[x] = a.undef(a.bool_)
    f[x] = img[x] > 1
    f[x] = f[x] ^ (img[x] > 3)
    out[x] = f[x]
    stages = tuple(StageTiling(StageId("f", k), (Loop("x", LoopKind.THREAD, 10),)) for k in (1, 2))
    root = StageTiling(StageId("out"), (Loop("x", LoopKind.BLOCK, 1), Loop("x", LoopKind.THREAD, 10)))
    member = FusedProducer(stages, ComputeAt(Level.BLOCK, StageId("out"), 1), ("x",))
    agree(out.over(x=(0, 10)), {"row": ROW}, kernels=(Kernel((Root(root),), (member,)),))


def test_a_negated_negative_constant() -> None:
    f, img = Func("f"), row()
    f[x] = -a.cast(a.float32, -2.0) * img[x] - -a.cast(a.float32, -3.0)
    agree(f.over(x=(0, 10)), {"row": ROW})


def test_data_read_by_an_index_that_can_have_but_one_value() -> None:
    """Funcs read by an index of constant value are inlined like all others."""
    f, img = Func("f"), a.Input("row", a.int8, 1)
    r = a.RDom("r", x=3)
    f[x] = 0
    f[a.clamp(img.wrapped()[r.x], 0, 0)] = 7
    agree(f.over(x=(0, 4)), {"row": np.arange(5, dtype=np.int8)})


def test_floor_division_of_floats_is_pythons() -> None:
    f, img = Func("f"), row()
    f[x] = img[x] // float("inf"), img[x] % float("inf"), img[x] // 0.1, img[x] % -0.1
    found = agree(f.over(x=(0, 10)), {"row": ROW})
    assert found["f_0"].tolist() == [v // float("inf") for v in ROW.tolist()]


def test_stores_are_not_lost_to_the_c_compiler() -> None:
    """gcc 12 rewrites these addresses and then treats the stores as dead (its PR 110702)."""
    g, out, img = Func("g"), Func("out"), a.Input("scalar", a.int8, 0)
    g[x] = a.cast(a.float64, img[()]), a.cast(a.bool_, img[()]), a.cast(a.uint32, img[()])
    near, far = g[x], g[x + 2]
    out[x] = near[0] + 2 * a.cast(a.float64, far[1]) + a.cast(a.float64, near[2])
    shared = StageTiling(StageId("g"), (Loop("x", LoopKind.THREAD, 14), Loop("x", LoopKind.SERIAL, 6)))
    root = StageTiling(
        StageId("out"), (Loop("x", LoopKind.BLOCK, 1), Loop("x", LoopKind.THREAD, 14), Loop("x", LoopKind.SERIAL, 5))
    )
    member = FusedProducer((shared,), ComputeAt(Level.BLOCK, StageId("out"), 1), ("x",))
    agree(out.over(x=(1, 68)), {"scalar": np.array(3, np.int8)}, kernels=(Kernel((Root(root),), (member,)),))


def test_a_long_sum_does_not_exhaust_the_stack() -> None:
    f, img = Func("f"), row()
    f[x] = sum((img[x + k] * k for k in range(1, 700)), start=img[x])
    agree(f.over(x=(0, 3)), {"row": np.arange(702, dtype=np.float32)})


def test_shared_subexpressions_are_written_once() -> None:
    f, img = Func("f"), row()
    e = img[x]
    for _ in range(40):
        e = e * 0.5 + e * 0.25
    f[x] = e
    agree(f.over(x=(0, 10)), {"row": ROW})


def test_an_unsigned_index_beyond_the_signed_integers() -> None:
    f, img = Func("f"), row()
    wrapped = a.cast(a.uint64, x)
    f[x] = img[a.clamp(wrapped, 0, 5)] + img[wrapped % 10]
    found = agree(f.over(x=(-3, 4)), {"row": ROW})
    assert found["f"][0] == ROW[5] + ROW[(2**64 - 3) % 10]


def test_indices_that_data_choose_at_the_ends_of_their_type() -> None:
    """Clamped without 64-bit arithmetic: the least 32-bit number has no positive counterpart, and needs none."""
    img, at, out = row(), a.Input("at", a.int32, 1), Func("out")
    up, down = a.clamp(at[x], 2, 9), a.min(a.max(at[x] // 3, 0), 5)
    out[x] = img[up - 1] - img[a.clamp(9 - down, 0, 8)]
    ends = np.array([-(2**31), 2**31 - 1, -(2**31) + 1, 0, 4, -1], np.int32)
    found = agree(out.over(x=(0, 6)), {"row": ROW, "at": ends})
    first, second = ROW[np.clip(ends, 2, 9) - 1], ROW[np.clip(9 - np.clip(ends // 3, 0, 5), 0, 8)]
    assert found["out"].tolist() == (first - second).tolist()
