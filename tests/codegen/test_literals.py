"""Constants printed into generated code read back as the same numbers."""

from __future__ import annotations

import ctypes
import math

import numpy as np
import pytest

from autosched.codegen.prelude import float_literal, int_literal, scalar_prelude
from autosched.lang.dtypes import DType, float16, float32, float64, int32, int64, uint8, uint32, uint64
from autosched.runtime.compile.host_compiler import compile_shared_library, have_compiler


@pytest.mark.parametrize(
    ("value", "dtype", "text"),
    [
        (0.0, float32, "0.0f"),
        (-0.0, float32, "-0.0f"),
        (1 / 3, float32, "0.33333334f"),
        (1e30, float32, "1e+30f"),
        (3.4e39, float32, "AS_INF_F32"),
        (-math.inf, float64, "(-AS_INF_F64)"),
        (math.nan, float16, "AS_NAN_F32"),
        (1e-5, float16, "1.001358e-05f"),
        (1e5, float16, "AS_INF_F32"),
        (0.1, float64, "0.1"),
    ],
)
def test_float_literals(value: float, dtype: DType, text: str) -> None:
    assert float_literal(value, dtype) == text


@pytest.mark.parametrize(
    ("value", "dtype", "text"),
    [
        (-1, int32, "-1"),
        (-(1 << 31), int32, "(-2147483647 - 1)"),
        (-(1 << 63), int64, "(-9223372036854775807ll - 1ll)"),
        (255, uint8, "255"),
        (3, uint32, "3u"),
        ((1 << 64) - 1, uint64, "18446744073709551615ull"),
    ],
)
def test_int_literals(value: int, dtype: DType, text: str) -> None:
    assert int_literal(value, dtype) == text


@pytest.mark.skipif(not have_compiler("c"), reason="no C compiler")
def test_literals_read_back_the_same() -> None:
    rng = np.random.default_rng(4)
    values = rng.integers(0, 1 << 32, 4000, dtype=np.uint32).view(np.float32)
    values[:8] = 0.0, -0.0, 1e-45, -1e-45, 2.0**-126, 3.4028235e38, math.inf, -math.inf
    text = ", ".join(float_literal(float(v), float32) for v in values)
    source = f"{scalar_prelude([])}\nconst float values[] = {{{text}}};\n"
    library = ctypes.CDLL(str(compile_shared_library(source, "c", ("-O0",))))
    read = np.array((ctypes.c_float * values.size).in_dll(library, "values"), np.float32)
    numbers = ~np.isnan(values)
    assert (read.view(np.uint32) == values.view(np.uint32))[numbers].all()
    assert np.isnan(read[~numbers]).all()
