"""Horizontal fusion: the same values under the same names, in all backends."""

from __future__ import annotations

import json

import numpy as np
import pytest
from numpy.typing import NDArray

from autosched import Func, Input, Pipeline, ScheduleError, Var, cast, float32, int32, interpret
from autosched.analysis.bind import bind
from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.analysis.pipeline_rewrites import HorizontalFusion, RFactor
from autosched.analysis.rewrites.horizontal_fusion import fuse_outputs, fusion_error
from autosched.analysis.rewrites.rfactor import apply_rfactors
from autosched.apps import get_app
from autosched.codegen.cuda import print_cuda
from autosched.lower.program import lower
from autosched.schedule.io.serialise import from_json, to_json
from autosched.schedule.rewrites import rewrite_error
from autosched.schedule.sampling.random_schedule import sample_schedule
from autosched.scheduled_pipeline import ScheduledPipeline
from autosched.search.strategies.compute_root import schedule_roots
from autosched.target import get_target
from tests.analysis.test_rfactor import bound_of

H200 = get_target("h200")
y, x, v, u = Var("y"), Var("x"), Var("v"), Var("u")
SHAPE = (37, 50)


def gradients() -> Pipeline:
    """Return an image's gradients, of other types and names of dimensions, and Funcs of both and of one."""
    image = Input("image", float32, 2)
    smooth, gx, gy = Func("smooth"), Func("gx"), Func("gy")
    smooth[y, x] = image[y, x] + image[y, x + 1] + image[y + 1, x] + image[y + 1, x + 1]
    gx[y, x] = smooth[y, x + 1] - smooth[y, x]
    gy[v, u] = cast(int32, smooth[v + 1, u] - smooth[v, u])
    size, twice = Func("size"), Func("twice")
    size[y, x] = gx[y, x] * gx[y, x] + cast(float32, gy[y, x])
    twice[y, x] = gx[y, x] * 2
    box = {"y": (0, image.shape[0] - 3), "x": (0, image.shape[1] - 3)}
    return Pipeline([gx.over(**box), gy.over(v=box["y"], u=box["x"]), size.over(**box), twice.over(**box)], "gradients")


def pair() -> Pipeline:
    """Return two intermediate Funcs that one output reads at several points, one of them a tuple."""
    image = Input("image", float32, 2)
    both, third, out = Func("both"), Func("third"), Func("out")
    both[y, x] = (image[y, x] + 1, image[y, x] * 2)
    third[y, x] = image[y, x] * both[y, x][1]
    out[y, x] = both[y, x][0] + both[y, x + 2][1] - third[y + 1, x] + third[y, x + 2] + both[y + 1, x][0]
    box = {"y": (0, image.shape[0] - 1), "x": (0, image.shape[1] - 2)}
    return Pipeline(out.over(**box), "pair")


PIPELINES = {"gradients": gradients(), "pair": pair()}
CASES = [
    ("gradients", (HorizontalFusion(("gx", "gy")),)),
    ("gradients", (HorizontalFusion(("gy", "gx", "size")),)),  # one reads the others
    ("gradients", (HorizontalFusion(("gx", "gy", "size", "twice")),)),
    ("gradients", (HorizontalFusion(("gx", "gy")), HorizontalFusion(("size", "twice")))),
    ("gradients", (HorizontalFusion(("gx", "twice")), HorizontalFusion(("gx_twice", "gy")))),
    ("pair", (HorizontalFusion(("both", "third")),)),
]


def bound_to_shape(name: str) -> BoundPipeline:
    return bind(PIPELINES[name], {"image": SHAPE})


@pytest.mark.parametrize(("name", "fusions"), CASES)
def test_all_witnesses(name: str, fusions: tuple[HorizontalFusion, ...]) -> None:
    bound = bound_to_shape(name)
    inputs = {"image": np.random.default_rng(5).random(SHAPE, np.float32) * 100}
    expected = interpret(PIPELINES[name], inputs)
    view = fuse_outputs(bound, fusions)
    assert len(view.funcs) == len(bound.funcs) - sum(len(j.funcs) - 1 for j in fusions)
    rng = np.random.default_rng(len(fusions))
    for schedule in (schedule_roots(view, H200), sample_schedule(view, H200, rng, varied=True)):
        assert schedule.fusions == fusions
        assert from_json(to_json(bound, schedule), bound) == schedule
        scheduled = ScheduledPipeline(bound, schedule, H200)
        assert [s.name for s in scheduled.signature.outputs] == list(expected)
        for backend in ("cpu", "emulator"):
            found = scheduled.compile(backend)(inputs)
            found = found if isinstance(found, tuple) else (found,)
            for got, (output, wanted) in zip(found, expected.items(), strict=True):
                np.testing.assert_array_equal(got, wanted, err_msg=f"{output} by {backend}")
    scheduled.compile("cuda")  # through NVRTC


def test_common_loads_are_shared() -> None:
    """Five outputs of one stencil code: the fused kernel reads each point of an input once."""
    app = get_app("hypterm")
    bound = bind(app.build(), app.shapes(app.small_sizes))
    view = fuse_outputs(bound, (HorizontalFusion(tuple(bound.outputs)),))
    apart, (together,) = (lower(b, schedule_roots(b, H200)).kernels for b in (bound, view))
    loads = [print_cuda(k).source.count("LOAD(") for k in (*apart, together)]
    assert loads[-1] < 0.7 * sum(loads[:-1])
    assert [array for array, _, _ in view.output_components] == list(bound.outputs)


def test_the_same_fusions_give_the_same_object() -> None:
    bound = bound_to_shape("gradients")
    fusions = (HorizontalFusion(("gx", "gy")), HorizontalFusion(("size", "twice")))
    view = fuse_outputs(bound, fusions)
    assert fuse_outputs(bound, fusions) is view and fuse_outputs(view, fusions) is view
    assert fuse_outputs(view, ()) is bound and view.root_pipeline is bound
    assert view.rewrites == fusions and view.pipeline.hash != bound.pipeline.hash


def test_factored_reductions_are_not_fused() -> None:
    bound = bound_of("total")
    rfactor = RFactor("sum", 1, (("r.y", 7),))
    schedule = schedule_roots(apply_rfactors(bound, (rfactor,)), H200)
    assert schedule.rfactors == (rfactor,) and not schedule.fusions
    assert "updates" in fusion_error(apply_rfactors(bound, (rfactor,)), HorizontalFusion(("sum_part", "sum")))


@pytest.mark.parametrize(
    ("funcs", "message"),
    [
        (("gx",), "at least two"),
        (("gx", "gx"), "each once"),
        (("gx", "gz"), "no Func 'gz'"),
        (("gx", "smooth"), "smooth is computed over"),
        (("both", "out"), "out is computed over"),
        (("a", "b"), "b reads a at other points than its own"),
        (("a", "c"), "c depends on b, which depends on a Func of the same fusion"),
        (("image_clamped", "a"), "boundary condition"),
        (("a", "inner"), "only one of a and inner is an output"),
    ],
)
def test_fusions_refused(funcs: tuple[str, ...], message: str) -> None:
    name = "pair" if "out" in funcs else "chain" if "a" in funcs or "b" in funcs else "gradients"
    bound = chain() if name == "chain" else bound_to_shape(name)
    with pytest.raises(ScheduleError, match=message):
        fuse_outputs(bound, (HorizontalFusion(funcs),))


def chain() -> BoundPipeline:
    """Return Funcs over one region of which b reads a beside its own point, and c reads both."""
    image = Input("image", float32, 2)
    edge = image.clamped()
    a, b, c, inner = Func("a"), Func("b"), Func("c"), Func("inner")
    a[y, x] = edge[y, x] + 1
    b[y, x] = a[y, 49 - x] * 2
    inner[y, x] = edge[y, x] - 1
    c[y, x] = a[y, x] + b[y, x] + inner[y, x]
    box = {"y": (0, 37), "x": (0, 50)}
    return bind(Pipeline([a.over(**box), b.over(**box), c.over(**box)], "chain"), {"image": SHAPE})


@pytest.mark.parametrize(
    ("fusions", "message"),
    [
        ([["gx", "go"]], r"joins\[0\]\[1\] is 'go', which is no Func"),
        ([["gx", "smooth"]], r"joins\[0\] cannot be made: smooth is computed over"),
        ([["gx", "gy"], ["gx", "size"]], r"joins\[1\]\[0\] is 'gx', which is no Func"),
        ("gx", "a list"),
    ],
)
def test_files_with_wrong_fusions(fusions: object, message: str) -> None:
    bound = bound_to_shape("gradients")
    view = fuse_outputs(bound, (HorizontalFusion(("gx", "gy")),))
    schedule = schedule_roots(view, H200)
    assert not rewrite_error(bound, schedule)
    document = json.loads(to_json(bound, schedule))
    document["joins"] = fusions
    with pytest.raises(ScheduleError, match=message):
        from_json(json.dumps(document), bound)


def test_results_are_arrays_of_their_own() -> None:
    bound = bound_to_shape("gradients")
    schedule = schedule_roots(fuse_outputs(bound, (HorizontalFusion(("gx", "gy", "size", "twice")),)), H200)
    found: tuple[NDArray[np.generic], ...] = ScheduledPipeline(bound, schedule, H200).compile("cpu")(
        {"image": np.ones(SHAPE, np.float32)}
    )
    assert [a.dtype for a in found] == [np.float32, np.int32, np.float32, np.float32]
