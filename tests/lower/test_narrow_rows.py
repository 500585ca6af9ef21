"""Intermediate arrays with narrow rows, such as images with channels last."""

from __future__ import annotations

import numpy as np
import pytest

from autosched import Func, Input, Pipeline, Var, bfloat16, cast, float16, float32, uint8
from autosched.analysis.bind import bind
from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.lang.dtypes import DType
from autosched.lower.program import lower
from autosched.runtime.compile.host_compiler import have_compiler
from autosched.schedule.sampling.random_schedule import sample_schedule
from autosched.search.strategies.compute_root import schedule_roots
from autosched.target import get_target
from tests.fuzz.witnesses import compile_for_gpu
from tests.lower.run_backends import assert_backends_agree

needs_compiler = pytest.mark.skipif(
    not (have_compiler("c") and have_compiler("c++")), reason="needs C and C++ compilers"
)
H, W = 21, 70
y, x, c = Var("y"), Var("x"), Var("c")
WIDTHS = [
    (uint8, 3),
    (float32, 1),
    (float32, 3),
    (float32, 16),
    (float16, 5),
    (bfloat16, 5),
    (uint8, 64),
    (float32, 17),
]


def blurred(dtype: DType, channels: int) -> BoundPipeline:
    """Return a separable blur of an image with channels last; its first stage begins at row -1 of the image."""
    image = Input("image", dtype, 3)
    source, rows, columns, out = image.clamped(), Func("rows"), Func("columns"), Func("out")
    rows[y, x, c] = cast(dtype, source[y, x - 1, c] / 2 + source[y, x + 1, c] / 2)
    columns[y, x, c] = cast(dtype, rows[y - 1, x, c] / 2 + rows[y + 1, x, c] / 2)
    out[y, x, c] = columns[y, x, c] + rows[y, x, channels - 1 - c]
    box = {"y": (0, H), "x": (0, W), "c": (0, channels)}
    return bind(Pipeline([out.over(**box)], name="blurred"), {"image": (H, W, channels)})


@needs_compiler
@pytest.mark.parametrize(("dtype", "channels"), WIDTHS, ids=lambda v: str(v))
def test_backends_agree(dtype: DType, channels: int) -> None:
    bound = blurred(dtype, channels)
    h200, cpu = get_target("h200"), get_target("cpu")
    assert_backends_agree(bound, lower(bound, schedule_roots(bound, cpu)), emulate=False)
    program = lower(bound, sample_schedule(bound, h200, np.random.default_rng(channels), varied=True))
    assert_backends_agree(bound, program)
    compile_for_gpu(program, h200.arch)


@pytest.mark.parametrize(("dtype", "channels"), WIDTHS, ids=lambda v: str(v))
def test_narrow_rows_are_not_padded_in_the_workspace(dtype: DType, channels: int) -> None:
    bound = blurred(dtype, channels)
    program = lower(bound, schedule_roots(bound, get_target("cpu")))
    assert "rows" in {slot.buffer.name for slot in program.workspace}
    for slot in program.workspace:
        lines, points = bound.funcs[slot.buffer.name].extents[0], np.prod(bound.funcs[slot.buffer.name].extents)
        most = 2 if channels * dtype.bytes_ > 64 else 1
        assert slot.buffer.count * dtype.bytes_ <= most * points * dtype.bytes_ + 128 * lines
