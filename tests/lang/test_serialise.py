"""Pipelines as data: everything that is computed survives, and damage is found."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from autosched import (
    Func,
    Input,
    Param,
    Pipeline,
    RDom,
    Var,
    bfloat16,
    cast,
    float32,
    int32,
    interpret,
    maximum,
    select,
)
from autosched.apps.registry import NAMES, get_app
from autosched.errors import InputError
from autosched.lang.serialise import from_data, to_data
from autosched.random_pipelines import RandomPipelineSettings, random_pipeline


def again(pipeline: Pipeline) -> Pipeline:
    """Return the pipeline written as text and read back."""
    return from_data(json.loads(json.dumps(to_data(pipeline), allow_nan=False)))


def small() -> Pipeline:
    """Return a pipeline with a parameter, a reduction, infinities and a boundary condition."""
    y, x = Var("y"), Var("x")
    image, gain, r = Input("image", float32, 2), Param("gain", float32, 1.5), RDom("r", dx=(-1, 2))
    padded = image.mirrored()
    peak, out = Func("peak"), Func("out")
    peak[y, x] = maximum(padded[y, x + r.dx], over=r)
    out[y, x] = select(peak[y, x] > 0.5, gain * peak[y, x], float("-inf"))
    return Pipeline([out.over(y=(0, image.shape[0]), x=(0, image.shape[1]))], name="small")


@pytest.mark.parametrize("name", NAMES)
def test_every_app(name: str) -> None:
    pipeline, _ = get_app(name).configure({})
    read = again(pipeline)
    assert read.hash == pipeline.hash
    assert [f.name for f in read.funcs] == [f.name for f in pipeline.funcs]
    assert to_data(read) == to_data(pipeline)


@pytest.mark.parametrize("seed", range(12))
def test_random_pipelines(seed: int) -> None:
    found = random_pipeline(seed, RandomPipelineSettings(stages=(2, 12)))
    assert again(found.pipeline).hash == found.pipeline.hash


def test_same_results() -> None:
    image = np.random.default_rng(0).random((7, 9), dtype=np.float32)
    pipeline = small()
    np.testing.assert_array_equal(
        interpret(again(pipeline), {"image": image})["out"], interpret(pipeline, {"image": image})["out"]
    )


def test_bfloat16() -> None:
    x = Var("x")
    image, gain, out = Input("image", bfloat16, 1), Param("gain", bfloat16, 0.1), Func("out")
    out[x] = cast(bfloat16, cast("float16", image[x] * gain)) + 0.3
    pipeline = Pipeline(out)
    read = again(pipeline)
    assert read.hash == pipeline.hash and [str(d) for d in read.outputs[0].func.dtypes] == ["bfloat16"]
    arrays = {"image": np.arange(200).astype(bfloat16.numpy)}
    assert interpret(read, arrays)["out"].tobytes() == interpret(pipeline, arrays)["out"].tobytes()


def test_the_same_pipeline_made_twice_gives_the_same_text() -> None:
    assert json.dumps(to_data(small())) == json.dumps(to_data(small()))


def test_order_of_loops_survives() -> None:
    y, x = Var("y"), Var("x")
    image = Input("image", int32, 2)
    outer, inner = RDom("outer", k=3), RDom("inner", k=3)
    f = Func("f")
    f[y, x] = 0
    f[y, x] = f[y, x] * 7 + image[inner.k, outer.k]
    pipeline = Pipeline([f.over(y=(0, 1), x=(0, 1))])
    array = np.arange(9, dtype=np.int32).reshape(3, 3)
    expected = interpret(pipeline, {"image": array})["f"]
    np.testing.assert_array_equal(interpret(again(pipeline), {"image": array})["f"], expected)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: d.update(version=99), "version 99"),
        (lambda d: d.pop("funcs"), "describe no pipeline"),
        (lambda d: d["nodes"].insert(0, ["nonsense"]), "describe no pipeline"),
        (lambda d: next(n for n in d["nodes"] if n[0] == "load").__setitem__(-1, -1), "describe no pipeline"),
        (lambda d: d["params"][0].__setitem__(1, "float64"), "changed"),
        (lambda d: d.update(nodes=7), "describe no pipeline"),
    ],
)
def test_damaged_data(change: Any, message: str) -> None:
    document = to_data(small())
    change(document)
    with pytest.raises(InputError, match=message):
        from_data(document)
