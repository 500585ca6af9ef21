"""Reduction factoring: the same values for all loops and numbers of factorings, in all backends."""

from __future__ import annotations

import json

import numpy as np
import pytest
from numpy.typing import NDArray

import autosched
from autosched import Func, Input, Param, Pipeline, RDom, ScheduleError, Var, cast, float32, int32, interpret, uint8
from autosched.analysis.bind import bind
from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.analysis.pipeline_rewrites import RFactor
from autosched.analysis.rewrites.rfactor import apply_rfactors, rfactor_error
from autosched.lang.rdom import maximum
from autosched.schedule.io.serialise import from_json, to_json
from autosched.schedule.sampling.random_schedule import sample_schedule
from autosched.schedule.types import Schedule
from autosched.scheduled_pipeline import ScheduledPipeline
from autosched.search.strategies.compute_root import schedule_roots
from autosched.target import get_target

H200 = get_target("h200")
Arrays = dict[str, NDArray[np.generic]]
x, y, b = Var("x"), Var("y"), Var("b")


def total(dtype: autosched.lang.dtypes.DType = float32) -> Pipeline:
    """Return the sum of an image, subtracted from it."""
    image = Input("image", dtype, 2)
    r = RDom("r", y=image.shape[0], x=image.shape[1])
    sum_, out = Func("sum"), Func("out")
    sum_[()] = cast(dtype, 0)
    sum_[()] += image[r.y, r.x]
    out[y, x] = image[y, x] - sum_[()]
    return Pipeline([out], name="total")


def histogram() -> Pipeline:
    """Return a histogram of bytes."""
    image = Input("image", uint8, 2)
    r, hist = RDom("r", y=image.shape[0], x=image.shape[1]), Func("hist")
    hist[b] = cast(int32, 0)
    hist[cast(int32, image[r.y, r.x])] += 1
    return Pipeline([hist.over(b=(0, 256))], name="histogram")


def extremes() -> Pipeline:
    """Return the largest value of each row, and the smallest index and value of all in one tuple."""
    image = Input("image", float32, 2)
    r = RDom("r", x=(1, image.shape[1]))
    out = Func("out")
    out[y] = maximum(image[y, r.x], over=r, name="largest")
    return Pipeline([out.over(y=(0, image.shape[0]))], name="extremes")


PIPELINES = {"total": total(), "integers": total(int32), "histogram": histogram(), "extremes": extremes()}
RFACTORS: dict[str, tuple[RFactor, ...]] = {
    "rows": (RFactor("sum", 1, (("r.y", 7),)),),
    "both": (RFactor("sum", 1, (("r.y", 3), ("r.x", 5))),),
    "twice": (RFactor("sum", 1, (("r.y", 7), ("r.x", 4))), RFactor("sum", 1, (("part.k0", 3),))),
    "pieces": (RFactor("sum", 1, (("r.x", 6),)), RFactor("sum_part", 1, (("r.y", 2),))),
    "blocks": (RFactor("sum", 1, (("r.y", 2),), contiguous=True),),
    "guarded": (RFactor("sum", 1, (("r.y", 4), ("r.x", 5)), contiguous=True),),
    "lines": (RFactor("sum", 1, (("r.y", 14),), contiguous=True), RFactor("sum_part", 1, (("r.x", 3),))),
    "shares": (RFactor("sum", 1, (("r.y", 3), ("r.x", 4))), RFactor("sum_part", 1, (("share.j1", 3),))),
}


def inputs_of(name: str, shape: tuple[int, ...] = (14, 22)) -> Arrays:
    rng = np.random.default_rng(3)
    if name in ("total", "extremes"):
        return {"image": rng.random(shape, np.float32)}
    high, dtype = (256, np.uint8) if name == "histogram" else (1 << 31, np.int32)
    return {"image": rng.integers(0, high, shape).astype(dtype)}


def bound_of(name: str) -> BoundPipeline:
    return bind(PIPELINES[name], {n: a.shape for n, a in inputs_of(name).items()})


def assert_same(name: str, got: NDArray[np.generic], expected: NDArray[np.generic]) -> None:
    if name == "total":  # sums round in another order
        np.testing.assert_allclose(got, expected, rtol=1e-5)
    else:
        np.testing.assert_array_equal(got, expected)


CASES = [
    *((name, rfactors) for name in ("total", "integers") for rfactors in RFACTORS.values()),
    ("histogram", (RFactor("hist", 1, (("r.y", 5), ("r.x", 2))),)),
    ("histogram", (RFactor("hist", 1, (("r.y", 14),)), RFactor("hist", 1, (("part.k0", 4),)))),
    ("extremes", (RFactor("largest", 1, (("r.x", 4),)),)),
    ("histogram", (RFactor("hist", 1, (("r.y", 3),), contiguous=True),)),
    ("extremes", (RFactor("largest", 1, (("r.x", 2),), contiguous=True),)),
]


@pytest.mark.parametrize(("name", "rfactors"), CASES)
def test_all_witnesses(name: str, rfactors: tuple[RFactor, ...]) -> None:
    bound, inputs = bound_of(name), inputs_of(name)
    (expected,) = interpret(PIPELINES[name], inputs).values()
    view = apply_rfactors(bound, rfactors)
    (got,) = interpret(view.pipeline, inputs).values()
    assert_same(name, got, expected)
    for schedule in (schedule_roots(view, H200), *_random(view, 1)):
        assert schedule.rfactors == rfactors
        assert from_json(to_json(bound, schedule), bound) == schedule
        scheduled = ScheduledPipeline(bound, schedule, H200)
        in_c, emulated = scheduled.compile("cpu")(inputs), scheduled.compile("emulator")(inputs)
        np.testing.assert_array_equal(in_c, emulated)
        assert_same(name, in_c, expected)
    scheduled.compile("cuda")  # through NVRTC


def _random(view: BoundPipeline, count: int) -> list[Schedule]:
    rng = np.random.default_rng(len(view.rfactors))
    return [sample_schedule(view, H200, rng) for _ in range(count)]


def test_the_same_rfactors_give_the_same_object() -> None:
    bound = bound_of("total")
    view = apply_rfactors(bound, RFACTORS["twice"])
    assert apply_rfactors(bound, RFACTORS["twice"]) is view
    assert apply_rfactors(view, RFACTORS["twice"]) is view
    assert apply_rfactors(view, ()) is bound
    assert view.root_pipeline is bound
    assert view.pipeline.hash != bound.pipeline.hash


def test_names_in_use_get_numbers() -> None:
    image, r = Input("sum_part", float32, 1), RDom("r", x=12)
    sum_ = Func("sum")
    sum_[()] = 0.0
    sum_[()] += image[r.x]
    view = apply_rfactors(bind(Pipeline([sum_]), {"sum_part": (12,)}), (RFactor("sum", 1, (("r.x", 3),)),))
    assert set(view.funcs) == {"sum_part2", "sum"}


@pytest.mark.parametrize(
    ("rfactor", "message"),
    [
        (RFactor("sun", 1, (("r.y", 2),)), "no update 1 of 'sun'"),
        (RFactor("sum", 2, (("r.y", 2),)), "no update 2 of 'sum'"),
        (RFactor("out", 1, (("r.y", 2),)), "no update 1 of 'out'"),
        (RFactor("sum", 1, (("r.z", 2),)), r"has no loop 'r.z'; it has r.y, r.x"),
        (RFactor("sum", 1, (("r.y", 1),)), "14 iterations and cannot be factored into 1 parts"),
        (RFactor("sum", 1, (("r.y", 15),)), "14 iterations and cannot be factored into 15 parts"),
        (RFactor("sum", 1, ()), "names no loop"),
        (RFactor("sum", 1, (("r.y", 2), ("r.y", 3))), "or one twice"),
    ],
)
def test_rfactors_refused(rfactor: RFactor, message: str) -> None:
    bound = bound_of("total")
    with pytest.raises(ScheduleError, match=message):
        apply_rfactors(bound, (rfactor,))
    roots = schedule_roots(bound, H200)
    wrong = Schedule(roots.pipeline_hash, roots.kernels, (rfactor,))
    with pytest.raises(ScheduleError, match=f"rfactor 0: .*{message}"):
        ScheduledPipeline(bound, wrong, H200)


def test_scans_are_not_factored() -> None:
    image, r, scan = Input("image", float32, 1), RDom("r", x=(1, 12)), Func("scan")
    scan[x] = image[x]
    scan[r.x] += scan[r.x - 1]
    bound = bind(Pipeline([scan.over(x=(0, 12))]), {"image": (12,)})
    assert "not of the form" in rfactor_error(bound, RFactor("scan", 1, (("r.x", 3),)))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"func": "sun", "stage": 1, "loops": {"r.y": 2}}, r"splits\[0\].func is 'sun', which is no Func"),
        ({"func": "sum", "stage": 0, "loops": {"r.y": 2}}, r"splits\[0\].stage is 0"),
        ({"func": "sum", "stage": 1, "loops": {"r.y": 99}}, r"splits\[0\] cannot be made: loop r.y"),
        ({"func": "sum", "stage": 1, "loops": {"r.y": 1.5}}, r"loops.r.y is 1.5"),
        ({"func": "sum", "stage": 1}, "lacks the key 'loops'"),
    ],
)
def test_files_with_wrong_rfactors(change: dict[str, object], message: str) -> None:
    bound = bound_of("total")
    view = apply_rfactors(bound, RFACTORS["rows"])
    document = json.loads(to_json(bound, schedule_roots(view, H200)))
    document["splits"] = [change]
    with pytest.raises(ScheduleError, match=message):
        from_json(json.dumps(document), bound)


def test_inputs_and_parameters_that_only_determine_extents() -> None:
    """They vanish from the expressions, but callers still pass them."""
    length, image, count = Input("length", float32, 1), Input("image", float32, 1), Param("count", int32)
    r, sum_ = RDom("r", j=length.shape[0], x=count), Func("sum")
    sum_[()] = 0.0
    sum_[()] += image[r.x] + cast(float32, r.j)
    pipeline = Pipeline([sum_])
    inputs = {"length": np.zeros(6, np.float32), "image": np.arange(20, dtype=np.float32)}
    bound = bind(pipeline, {"length": (6,), "image": (20,)}, {"count": 20})
    view = apply_rfactors(bound, (RFactor("sum", 1, (("r.j", 3), ("r.x", 7))),))
    assert list(view.inputs) == list(bound.inputs)
    kernel = ScheduledPipeline(bound, schedule_roots(view, H200), H200).compile("cpu")
    np.testing.assert_array_equal(kernel(inputs, count=20), interpret(pipeline, inputs, {"count": 20})["sum"])


def test_loops_of_the_written_point_are_not_factored() -> None:
    image, r, f = Input("image", float32, 2), RDom("r", y=6, x=8), Func("f")
    f[y] = 0.0
    f[5 - r.y] += image[r.y, r.x]
    bound = bind(Pipeline([f.over(y=(0, 6))]), {"image": (6, 8)})
    assert "determines the written point" in rfactor_error(bound, RFactor("f", 1, (("r.y", 2),)))
    assert not rfactor_error(bound, RFactor("f", 1, (("r.x", 2),)))


@pytest.mark.parametrize("from_end", [False, True])
def test_updates_at_places_of_a_domain_as_large_as_an_input(from_end: bool) -> None:
    image = Input("image", int32, 2)
    r, rows = RDom("r", y=(0, image.shape[0]), x=(0, image.shape[1])), Func("rows")
    place = image.shape[0] - 1 - r.y if from_end else r.y
    rows[y] = 0
    rows[place] += image[r.y, r.x]
    pipeline = Pipeline([rows.over(y=(0, 6))])
    inputs = {"image": np.arange(6 * 40, dtype=np.int32).reshape(6, 40)}
    bound = bind(pipeline, {"image": (6, 40)})
    rfactor = RFactor("rows", 1, (("r.x", 8),))
    assert rfactor_error(bound, rfactor) == ""
    view = apply_rfactors(bound, (rfactor,))
    found = ScheduledPipeline(view, schedule_roots(view, H200), H200).compile("cpu")(inputs)
    assert np.array_equal(found, interpret(pipeline, inputs)["rows"])
