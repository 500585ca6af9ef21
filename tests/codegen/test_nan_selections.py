"""The first NaN is the largest and the smallest in all witnesses, under random schedules, as in NumPy."""

from __future__ import annotations

import math

import numpy as np
import pytest

from autosched import Func, Input, Pipeline, RDom, Var, argmax, argmin, interpret
from autosched.analysis.bind import bind
from autosched.lang.dtypes import DType, float16, float32, float64, int32
from autosched.lower.program import lower
from autosched.runtime.backends.cpu import CpuExecutable
from autosched.runtime.backends.emulator import EmulatedExecutable
from autosched.schedule.sampling.random_schedule import sample_schedule
from autosched.search.strategies.compute_root import schedule_roots
from autosched.target import get_target

H200 = get_target("h200")
y = Var("y")
ROWS = np.array(
    [
        [3, 1, math.nan, 9, math.nan, -9, 0],
        [math.nan, 1, 2, 3, 4, 5, 6],
        [1, 2, 3, 4, 5, 6, math.nan],
        [math.nan] * 7,
        [-math.inf, math.inf, -math.inf, math.inf, 0, 0, 0],
        [5, 7, 7, 1, 1, 3, 2],
    ]
)


@pytest.mark.parametrize("dtype", [float16, float32, float64])
def test_the_first_nan_is_found(dtype: DType) -> None:
    rows = ROWS.astype(dtype.numpy)
    image, largest, smallest = Input("image", dtype, 2), Func("largest"), Func("smallest")
    r, s = RDom("r", x=image.shape[1]), RDom("s", x=image.shape[1])
    largest[y] = argmax(image[y, r.x], over=r, name="high")[0]
    smallest[y] = argmin(image[y, s.x], over=s, name="low")[0]
    pipeline = Pipeline([largest.over(y=(0, 6)), smallest.over(y=(0, 6))])
    wanted = {"largest": rows.argmax(axis=1), "smallest": rows.argmin(axis=1)}
    for name, found in interpret(pipeline, {"image": rows}).items():
        np.testing.assert_array_equal(found, wanted[name])
    bound = bind(pipeline, {"image": rows.shape})
    for seed in range(3):
        schedule = sample_schedule(bound, H200, np.random.default_rng(seed)) if seed else schedule_roots(bound, H200)
        program = lower(bound, schedule)
        for executable in (CpuExecutable(program), EmulatedExecutable(program)):
            outputs = {name: np.full(6, 77, np.int32) for name in wanted}
            executable.run({"image": rows}, outputs, {})
            for name, found in outputs.items():
                np.testing.assert_array_equal(found, wanted[name], f"{name}, {type(executable).__name__}, {seed}")


@pytest.mark.parametrize(
    ("dtype", "wanted"),
    [
        (float32, "fc4aee4bad43f2d986ef67016b63b69bfa226bcf0ba4a232bfb1abf142415d56"),
        (int32, "0205c6d6b4610f508eb4bb34555e8b10bb0faeb038c3e3a0a2c42fa093b83001"),
    ],
)
def test_the_hash_is_that_of_a_selection_that_takes_no_nan(dtype: DType, wanted: str) -> None:
    image, found = Input("a", dtype, 2), Func("f")
    r = RDom("r", i=image.shape[1])
    found[y] = argmax(image[y, r.i], over=r)[0]
    assert Pipeline(found.over(y=(0, 4))).hash == wanted, "schedules and times that are stored stay readable"
