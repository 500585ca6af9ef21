"""Atomic updates by many threads, in all backends."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from autosched import Func, Input, Pipeline, RDom, ScheduleError, Var, cast, interpret
from autosched.analysis.bind import bind
from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.analysis.pipeline_rewrites import RFactor
from autosched.analysis.rewrites.rfactor import apply_rfactors, rfactor_error
from autosched.lang.dtypes import DType, as_dtype, int32, uint8
from autosched.lang.expr import Expr
from autosched.lang.functions import max as larger
from autosched.lang.functions import min as smaller
from autosched.schedule.io.serialise import from_json, to_json
from autosched.schedule.sampling.random_schedule import sample_schedule
from autosched.schedule.types import FusedProducer, Schedule
from autosched.scheduled_pipeline import ScheduledPipeline
from autosched.search.strategies.compute_root import schedule_roots
from autosched.target import get_target
from tests.analysis.test_rfactor import bound_of, histogram, inputs_of
from tests.schedule.building import block, kernel, root, tiling

H200 = get_target("h200")
OPERATORS = {
    "add": lambda a, b: a + b, "min": smaller, "max": larger, "and": lambda a, b: a & b, "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
}  # fmt: skip
TYPED = [
    *((op, d) for op in OPERATORS for d in ("int32", "uint32")),
    ("add", "float32"), ("add", "float64"),
]  # fmt: skip
i, x, y = Var("i"), Var("x"), Var("y")


def binned(op: str, dtype: DType) -> Pipeline:
    """Return the values of each of eleven bins, combined by an operator."""
    values, bins = Input("values", dtype, 2), Input("bins", uint8, 2)
    r, f = RDom("r", y=values.shape[0], x=values.shape[1]), Func("f")
    f[i] = cast(dtype, 7)
    at = cast(int32, bins[r.y, r.x]) % 11
    combine: Any = OPERATORS[op]
    value: Expr = combine(f[at], values[r.y, r.x])
    f[at] = cast(dtype, value)
    return Pipeline([f.over(i=(0, 11))], name="binned")


def binned_inputs(dtype: DType) -> dict[str, NDArray[Any]]:
    rng = np.random.default_rng(5)
    high = np.iinfo(dtype.numpy).max if dtype.is_int else 1000
    values = rng.integers(0, high, (9, 37)).astype(dtype.numpy)
    return {"values": values, "bins": rng.integers(0, 256, (9, 37)).astype(np.uint8)}


def in_shared_memory(view: BoundPipeline, name: str, pieces: int, extents: tuple[int, int], bins: int) -> Schedule:
    """Return a schedule in which a block accumulates each piece in shared memory, with 32 x 2 threads."""
    own, part = f"{name}_shared", f"{name}_part"
    by_bin = f"ti=32 si={-(-bins // 32)}"
    j, across = (d.name for d in view.stage(own, 1).reductions)
    rows, columns = extents
    shares = f"t{across}=32 t{j}=2 s{j}={-(-rows // 2)} s{across}={-(-columns // 32)}"
    place = block(part, 2)
    bins_of_block = FusedProducer((tiling(own, by_bin), tiling(f"{own}.1", shares)), place, ("k0", "i"))
    first = kernel(view, [root(part, f"bk0={pieces} bi=1 {by_bin}")], [bins_of_block])
    others = [
        replace(k, inlined=tuple(f for f in k.inlined if f.func not in (own, part)))
        for k in schedule_roots(view, H200).kernels
        if not {own, part} & set(k.root_funcs)
    ]
    return Schedule.for_pipeline(view, (first, *others))


@pytest.mark.parametrize(("op", "name"), TYPED)
def test_all_operators_in_shared_and_in_global_memory(op: str, name: str) -> None:
    dtype = as_dtype(name)
    pipeline, inputs = binned(op, dtype), binned_inputs(dtype)
    bound = bind(pipeline, {n: a.shape for n, a in inputs.items()})
    view = apply_rfactors(bound, (RFactor("f", 1, (("r.y", 3),), atomic=True),))
    expected = interpret(pipeline, inputs)["f"]
    for schedule in (in_shared_memory(view, "f", 3, (3, 37), 11), schedule_roots(view, H200)):
        assert from_json(to_json(bound, schedule), bound) == schedule
        scheduled = ScheduledPipeline(bound, schedule, H200)
        for backend in ("cpu", "emulator"):
            found = scheduled.compile(backend)(inputs)
            if dtype.is_float:
                np.testing.assert_allclose(found, expected, rtol=1e-5)
            else:
                np.testing.assert_array_equal(found, expected)
        scheduled.compile("cuda")  # through NVRTC


WAYS = {
    "pieces": (RFactor("hist", 1, (("r.y", 5), ("r.x", 2)), atomic=True),),
    "whole": (RFactor("hist", 1, (), atomic=True),),
    "twice": (RFactor("hist", 1, (("r.y", 7),)), RFactor("hist_part", 1, (("r.x", 2),), atomic=True)),
    "joined in pieces": (RFactor("hist", 1, (("r.y", 14),), atomic=True), RFactor("hist", 1, (("part.k0", 4),))),
    "joined atomically": (RFactor("hist", 1, (("r.y", 14),)), RFactor("hist", 1, (), atomic=True)),
}


@pytest.mark.parametrize("way", WAYS)
def test_random_schedules(way: str) -> None:
    bound, inputs = bound_of("histogram"), inputs_of("histogram")
    (expected,) = interpret(histogram(), inputs).values()
    view = apply_rfactors(bound, WAYS[way])
    (got,) = interpret(view.pipeline, inputs).values()
    np.testing.assert_array_equal(got, expected)
    rng = np.random.default_rng(len(way))
    for _ in range(3):
        schedule = sample_schedule(view, H200, rng)
        assert from_json(to_json(bound, schedule), bound) == schedule
        scheduled = ScheduledPipeline(bound, schedule, H200)
        for backend in ("cpu", "emulator"):
            np.testing.assert_array_equal(scheduled.compile(backend)(inputs), expected)
    scheduled.compile("cuda")


def test_text_of_atomic_updates() -> None:
    view = apply_rfactors(bound_of("histogram"), WAYS["pieces"])
    stage = view.stage("hist_shared", 1)
    assert stage.combine == ("add",)
    assert all(d.parallel for d in stage.loops)
    assert "hist_shared" not in stage.sources
    scheduled = ScheduledPipeline(bound_of("histogram"), schedule_roots(view, H200), H200)
    assert "atomic +=" in scheduled.text()


@pytest.mark.parametrize(
    ("dtype", "op", "message"),
    [("float32", "max", "no atomic max of float32"), ("uint16", "add", "no atomic add of uint16")],
)
def test_operators_without_an_atomic_operation(dtype: str, op: str, message: str) -> None:
    bound = bind(binned(op, as_dtype(dtype)), {"values": (9, 37), "bins": (9, 37)})
    rfactor = RFactor("f", 1, (), atomic=True)
    assert message in rfactor_error(bound, rfactor)
    with pytest.raises(ScheduleError, match=message):
        apply_rfactors(bound, (rfactor,))


def test_atomic_updates_cannot_be_factored_again() -> None:
    view = apply_rfactors(bound_of("histogram"), WAYS["pieces"])
    assert "atomic already" in rfactor_error(view, RFactor("hist_shared", 1, (("r.x", 2),)))
