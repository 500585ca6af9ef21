"""Zeros have the sign of IEEE 754 in all witnesses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from autosched import Func, Input, Pipeline, Var, cast, clamp, interpret, select
from autosched import abs as magnitude
from autosched.analysis.bind import bind
from autosched.codegen.c import print_c
from autosched.lang.dtypes import DType, float16, float32, float64
from autosched.lang.expr import Expr
from autosched.lower.program import lower
from autosched.runtime.backends.cpu import CpuExecutable
from autosched.runtime.backends.emulator import EmulatedExecutable
from autosched.scheduled_pipeline import ScheduledPipeline
from autosched.search.strategies.compute_root import schedule_roots
from autosched.target import get_target

CPU = get_target("cpu")
x = Var("x")
BYTES = np.array([0, 1, 0, 2], np.uint8)
SIGNED = np.array([0, 0, -1, 1], np.int32)
FLOATS = np.array([0.0, -0.0, -0.0, 1.0], np.float32)


def outputs(dtype: DType) -> dict[str, Any]:
    """Return expressions that add a zero to a converted integer, which gcc folds, and NumPy's results."""
    a, b, c = Input("a", "uint8", 1), Input("b", "int32", 1), Input("c", "float32", 1)
    u, i, f = cast(dtype, a[x]), cast(dtype, b[x]), cast(dtype, c[x])
    t = dtype.numpy.type
    v, w, g = BYTES.astype(t), SIGNED.astype(t), FLOATS.astype(t)
    zero, one = t(0), t(1)
    found: dict[str, tuple[Expr, Any]] = {
        "difference": (0.0 - u, zero - v),
        "signed": (0.0 - i, zero - w),
        "negative": (-u + 0.0, -v + zero),
        "swapped": (0.0 + -i, zero + -w),
        "product": (0.0 + i * -1.0, zero + w * -one),
        "minus": ((-0.0 - i) - (-0.0), (-zero - w) - -zero),
        "itself": ((u - u) - u, (v - v) - v),
        "chosen": (0.0 - select(a[x] > 0, i, u), zero - np.where(BYTES > 0, w, v)),
        "magnitude": (0.0 - magnitude(i), zero - np.abs(w)),
        "times": (u * 0.0 - i, v * zero - w),
        "coordinate": (0.0 - cast(dtype, x), zero - np.arange(4).astype(t)),
        "float": (0.0 - f, zero - g),
        "nothing": (f - 0.0, g - zero),
        "added": (f + 0.0, g + zero),
    }
    return found


@pytest.mark.parametrize("dtype", [float16, float32, float64])
def test_sums_and_differences_have_the_sign_of_ieee_zeros(dtype: DType) -> None:
    wanted = outputs(dtype)
    funcs = []
    for name, (expression, _) in wanted.items():
        func = Func(name)
        func[x] = expression
        funcs.append(func.over(x=(0, 4)))
    pipeline = Pipeline(funcs)
    arrays = {"a": BYTES, "b": SIGNED, "c": FLOATS}
    bound = bind(pipeline, {name: array.shape for name, array in arrays.items()})
    program = lower(bound, schedule_roots(bound, CPU))
    witnesses = {"interpreter": interpret(pipeline, arrays)}
    for executable in (CpuExecutable(program), EmulatedExecutable(program)):
        written = {name: np.full(4, 7, dtype.numpy) for name in wanted}
        executable.run(arrays, written, {})
        witnesses[type(executable).__name__] = written
    for witness, found in witnesses.items():
        for name, (_, expected) in wanted.items():
            np.testing.assert_array_equal(np.signbit(found[name]), np.signbit(expected), f"{name}, {witness}")
            np.testing.assert_array_equal(found[name], expected, f"{name}, {witness}")


def test_other_sums_are_written_as_operators() -> None:
    a, b, f = Input("a", "uint8", 1), Input("b", "float32", 1), Func("f")
    f[x] = (cast(float32, a[x]) + 1.0) + (0.0 - b[x]) + b[x] * cast(float32, a[x])
    bound = bind(Pipeline(f.over(x=(0, 4))), {"a": (4,), "b": (4,)})
    text = print_c(lower(bound, schedule_roots(bound, CPU))).text
    assert "as_sub_f32" not in text
    assert "as_add_f32" not in text


@pytest.mark.parametrize("integer", ["int8", "int16", "int32", "int64"])
@pytest.mark.parametrize("source", ["float16", "float32", "float64"])
def test_fractions_that_are_converted_to_integers_and_back_are_plain_zeros(source: str, integer: str) -> None:
    """With -fno-trapping-math gcc 12 turns the two conversions into trunc, which keeps the sign, in scalar code."""
    a, results = Input("a", source, 1), []
    for result in ("float32", "float64"):
        for name, element in (
            ("wrapped", a.wrapped()[x - 1]),
            ("first", a[1]),
            ("clamped", clamp(a[x % 3], -0.9, 9.0)),
        ):
            f = Func(f"{name}_{result}")
            f[x] = cast(result, cast(integer, element))
            results.append(f.over(x=(-3, 9)))
    pipeline = Pipeline(results, name="conversions")
    inputs = {"a": np.array([4.9140625, -0.74365234375, 4.7421875], source)}
    bound = bind(pipeline, {"a": (3,)})
    kernel = ScheduledPipeline(bound, schedule_roots(bound, CPU), CPU).compile("cpu")
    for got, expected in zip(kernel(inputs), interpret(pipeline, inputs).values(), strict=True):
        np.testing.assert_array_equal(got, expected)
        np.testing.assert_array_equal(np.signbit(got), np.signbit(expected))
