"""Bytes of global memory that stages and fused producers read and write, counted by hand."""

from __future__ import annotations

import numpy as np
import pytest

from autosched.analysis.bind import bind
from autosched.featurize.featurizer import Featurizer
from autosched.featurize.schema import INDEX
from autosched.featurize.sketch.sketch import ComputeLocation, KernelSketch
from autosched.lang.dtypes import DType, float32, float64, uint8
from autosched.lang.expr import Var
from autosched.lang.func import Func, Input
from autosched.lang.pipeline import Pipeline
from autosched.lang.rdom import RDom
from autosched.schedule.types import Level, StageId
from autosched.target import get_target

H, W = 64, 1024
y, x = Var("y"), Var("x")


@pytest.mark.parametrize(
    ("placed", "params"),
    [
        ({"inlined": frozenset({"inner"})}, [2, 64, 1, 1]),
        ({"locations": (ComputeLocation("inner", Level.THREAD, StageId("outer"), 1),)}, [2, 64, 1, 1]),
        ({"locations": (ComputeLocation("inner", Level.BLOCK, StageId("outer"), 1),)}, [2, 64, 1, 1, 2, 64]),
    ],
)
def test_a_kernel_reads_its_input_at_every_compute_location(placed: dict[str, object], params: list[int]) -> None:
    image, inner, outer = Input("image", float32, 2), Func("inner"), Func("outer")
    inner[y, x] = image[y, x] * 2
    outer[y, x] = inner[y, x] + 1
    bound = bind(Pipeline([outer.over(y=(0, H), x=(0, W))]), {"image": (H, W)})
    sketch = KernelSketch((StageId("outer"),), **placed)  # type: ignore[arg-type]
    model = Featurizer(bound, get_target("h200")).model(sketch)
    features = model.evaluate(np.array([params], np.int64)).features[0]
    assert features[:, INDEX["unique_global_bytes_read_by_kernel"]].sum() == 4 * H * W


def test_an_update_of_some_dimensions_writes_rows_along_the_fastest_one() -> None:
    """The update's tile has dimensions c and x, of which x is the fastest."""
    image, f, c, r = Input("image", float32, 3), Func("f"), Var("c"), RDom("r", y=(1, H))
    f[c, y, x] = image[c, y, x]
    f[c, r.y, x] = f[c, r.y - 1, x] + image[c, r.y, x]
    bound = bind(Pipeline([f.over(c=(0, 3), y=(0, H), x=(0, W))]), {"image": (3, H, W)})
    model = Featurizer(bound, get_target("h200")).model(KernelSketch((StageId("f", 1),)))
    features = model.evaluate(np.array([[1, 64, 1, 1]], np.int64)).features[0]
    assert features[0, INDEX["global_innermost_bytes_at_task"]] == 4 * 64


@pytest.mark.parametrize(("dtype", "each"), [(uint8, 1), (float32, 4), (float64, 8)], ids=str)
def test_loads_fill_registers_of_four_bytes(dtype: DType, each: int) -> None:
    """A thread loads four neighbouring points as vectors, which fill registers by their bytes."""
    image, out = Input("image", dtype, 2), Func("out")
    out[y, x] = image[y, x] + image[y, x]
    bound = bind(Pipeline([out.over(y=(0, H), x=(0, W))]), {"image": (H, W)})
    model = Featurizer(bound, get_target("h200")).model(KernelSketch((StageId("out"),)))
    found = model.evaluate(np.array([[2, 64, 1, 4], [2, 64, 1, 1]], np.int64)).features[:, 0]
    warps = 2 * 64 / 32
    assert found[:, INDEX["global_registers_per_block"]].tolist() == [warps * each, warps * max(each / 4, 1)]
