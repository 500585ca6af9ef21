"""Error messages of the API on wrong pipelines, arguments and schedules."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import autosched
from autosched import (
    BoundsError,
    CompileError,
    DSLError,
    Func,
    Input,
    InputError,
    LaunchError,
    Param,
    Pipeline,
    ScheduleError,
    Var,
    float32,
    int32,
)

SHAPE = (8, 12)


def pointwise(name: str = "twice", factor: int = 2) -> Pipeline:
    y, x = Var("y"), Var("x")
    img, gain, radius = Input("img", float32, 2), Param("gain", float32), Param("radius", int32, 1)
    f = Func("f")
    f[y, x] = img.clamped()[y, x + radius] * gain * factor
    height, width = img.shape
    return Pipeline(f.over(y=(0, height), x=(0, width)), name=name)


@pytest.fixture(scope="module")
def kernel() -> autosched.CompiledPipeline:
    return autosched.schedule(pointwise(), {"img": SHAPE}, "cpu", strategy="roots").compile("cpu")


@pytest.fixture
def img() -> np.ndarray[Any, Any]:
    return np.ones(SHAPE, np.float32)


Call = Callable[[autosched.CompiledPipeline, np.ndarray[Any, Any]], Any]

CALLS: dict[str, tuple[Call, str]] = {
    "missing input": (lambda k, a: k(gain=1), r"input 'img' is missing; pass img=<array of float32, shape \(8, 12\)>"),
    "missing parameter": (lambda k, a: k(img=a), r"parameter 'gain' is missing.*gain=<number of float32>"),
    "unknown name": (lambda k, a: k(img=a, gian=1, gain=2), r"no input or parameter 'gian'; did you mean 'gain'\?"),
    "by position": (lambda k, a: k(a, gain=1), r"passed by keyword \(img=array\)"),
    "twice": (lambda k, a: k({"img": a}, img=a, gain=1), r"img is given both in the dict and by keyword"),
    "dtype": (lambda k, a: k(img=a.astype(np.float64), gain=1), r"got dtype float64, expected dtype float32"),
    "shape": (lambda k, a: k(img=a[1:], gain=1), r"got shape \(7, 12\), expected shape \(8, 12\)"),
    "layout": (lambda k, a: k(img=np.asfortranarray(a), gain=1), r"not C-contiguous.*np.ascontiguousarray\(img\)"),
    "no array": (lambda k, a: k(img=3.5, gain=1), r"input 'img': got a value of type float"),
    "no number": (lambda k, a: k(img=a, gain="1"), r"parameter 'gain': got a value of type str"),
    "built in": (lambda k, a: k(img=a, gain=1, radius=2), r"'radius' is built into .* as 1.*params=\{'radius': 2\}"),
    "out dtype": (lambda k, a: k(img=a, gain=1, out=np.empty(SHAPE)), r"output 'f': got dtype float64"),
    "out is input": (lambda k, a: k(img=a, gain=1, out=a), r"output 'f' shares memory with input 'img'"),
    "out count": (lambda k, a: k(img=a, gain=1, out=[a, a]), r"out has 2 arrays; it needs 1: f"),
    "out names": (lambda k, a: k(img=a, gain=1, out={"g": a}), r"out has the names g; it needs f"),
}


@pytest.mark.parametrize("case", CALLS)
def test_call(case: str, kernel: autosched.CompiledPipeline, img: np.ndarray[Any, Any]) -> None:
    call, message = CALLS[case]
    with pytest.raises(InputError, match=message):
        call(kernel, img)


def test_overlapping_outputs() -> None:
    x = Var("x")
    source, f, g = Input("a", float32, 1), Func("f"), Func("g")
    f[x], g[x] = source[x] + 1, source[x] + 2
    two = autosched.schedule(Pipeline([f, g]), {"a": (4,)}, "cpu", strategy="roots").compile("cpu")
    memory = np.empty(6, np.float32)
    with pytest.raises(InputError, match="output 'g' shares memory with output 'f'"):
        two(a=np.ones(4, np.float32), out=(memory[:4], memory[2:]))
    with pytest.raises(InputError, match="out is one value; it needs 2 arrays: f, g"):
        two(a=np.ones(4, np.float32), out=memory)


SCHEDULINGS: dict[str, tuple[Callable[[], Any], str]] = {
    "no shapes": (lambda: autosched.schedule(pointwise(), strategy="roots"), r"pass shapes=\{'img': \(y, x\)\}"),
    "both": (
        lambda: autosched.schedule(pointwise(), {"img": SHAPE}, inputs={}, strategy="roots"),
        "either shapes or inputs",
    ),
    "not an array": (
        lambda: autosched.schedule(pointwise(), inputs={"img": 3}, strategy="roots"),
        "value of type int",
    ),
    "missing shape": (lambda: autosched.schedule(pointwise(), {}, strategy="roots"), "missing 'img'"),
    "unknown shape": (
        lambda: autosched.schedule(pointwise(), {"img": SHAPE, "b": (1,)}, strategy="roots"),
        "unknown 'b'",
    ),
    "rank": (lambda: autosched.schedule(pointwise(), {"img": (3, 4, 5)}, strategy="roots"), "needs 2 dimensions"),
    "target": (
        lambda: autosched.schedule(pointwise(), {"img": SHAPE}, "h20", strategy="roots"),
        "unknown target 'h20'; did you mean",
    ),
    "strategy": (lambda: autosched.schedule(pointwise(), {"img": SHAPE}, strategy="beem"), "unknown strategy 'beem'"),
    "parameter": (
        lambda: autosched.schedule(pointwise(), {"img": SHAPE}, "cpu", {"sigma": 1}, strategy="roots"),
        "no parameter 'sigma'",
    ),
    "value": (
        lambda: autosched.schedule(pointwise(), {"img": SHAPE}, "cpu", {"gain": "x"}, strategy="roots"),
        "parameter 'gain'",
    ),
    "a Func": (
        lambda: autosched.schedule(Func("f"), {"img": SHAPE}, strategy="roots"),
        "a Func cannot be scheduled; pass a Pipeline",
    ),
    "backend": (
        lambda: autosched.schedule(pointwise(), {"img": SHAPE}, strategy="roots").compile("gpu"),
        "unknown backend 'gpu'",
    ),
    "cpu on cuda": (
        lambda: autosched.schedule(pointwise(), {"img": SHAPE}, "cpu", strategy="roots").compile("cuda"),
        "no CUDA arch",
    ),
    "no source": (
        lambda: autosched.schedule(pointwise(), {"img": SHAPE}, strategy="roots").source("interpreter"),
        "generates no code",
    ),
}


@pytest.mark.parametrize("case", SCHEDULINGS)
def test_scheduling(case: str) -> None:
    attempt, message = SCHEDULINGS[case]
    with pytest.raises(InputError, match=message):
        attempt()


def test_out_of_range_read_names_stage_and_index() -> None:
    x = Var("x")
    img, edge = Input("img", float32, 1), Func("edge")
    edge[x] = img[x + 1] - img[x]
    pipeline = Pipeline(edge.over(x=(0, img.shape[0])))
    with pytest.raises(BoundsError, match=r"stage 'edge' reads input 'img' out of range: index x \+ 1.*\[1, 8\]"):
        autosched.schedule(pipeline, {"img": (8,)}, "cpu", strategy="roots")


def test_undefined_func_and_cycle() -> None:
    x = Var("x")
    f, g = Func("f"), Func("g")
    with pytest.raises(DSLError, match="Func 'f' is undefined"):
        g[x] = f[x]
    with pytest.raises(DSLError, match="Func 'g' is undefined"):
        Pipeline(g)
    f[x] = autosched.cast(float32, x)
    g[x] = f[x]
    f[x] = g[x]
    with pytest.raises(DSLError, match=r"cyclic definition: (f reads g, g reads f|g reads f, f reads g)"):
        Pipeline(g)


def test_named_compiler_that_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AUTOSCHED_CC", "/nonexistent")
    monkeypatch.setattr("autosched.runtime.backends.factory.gpu_problem", lambda: "there is none")
    scheduled = autosched.schedule(pointwise(), {"img": SHAPE}, "cpu", strategy="roots")
    for backend in ("cpu", None):
        with pytest.raises(CompileError, match="CC names '/nonexistent', which does not exist: install gcc"):
            scheduled.compile(backend)


def test_graph_needs_the_gpu(kernel: autosched.CompiledPipeline, img: np.ndarray[Any, Any]) -> None:
    with pytest.raises(LaunchError, match=r"CUDA graphs need the backend 'cuda'.*'cpu'"):
        kernel.graph(img=img, gain=1)


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    path = tmp_path / "s.json"
    autosched.schedule(pointwise(), {"img": SHAPE}, "h200", strategy="roots").save(path)
    return path


def test_schedule_of_another_pipeline(saved: Path) -> None:
    with pytest.raises(ScheduleError, match="not for 'thrice'"):
        autosched.load_schedule(saved, pointwise("thrice", 3), {"img": SHAPE})


def test_schedule_for_other_shapes_that_does_not_fit(saved: Path) -> None:
    with pytest.raises(ScheduleError, match=r"illegal schedule for 'twice' on H200.*cover 8 of 800 points"):
        autosched.load_schedule(saved, pointwise(), {"img": (800, 12)})


def test_schedule_beyond_the_device(saved: Path) -> None:
    document = json.loads(saved.read_text())
    for loop in document["kernels"][0]["roots"][0]["loops"]:
        loop["extent"] = {"block": 1, "thread": 64}[loop["kind"]]
    saved.write_text(json.dumps(document))
    with pytest.raises(ScheduleError, match=r"64 x 64 x 1 threads per block exceed the limit of 1024 on H200"):
        autosched.load_schedule(saved, pointwise(), {"img": SHAPE})


def test_unwritable_schedule() -> None:
    with pytest.raises(InputError, match=r"cannot write the schedule to /nonexistent/s\.json"):
        autosched.schedule(pointwise(), {"img": SHAPE}, strategy="roots").save("/nonexistent/s.json")
