"""Divisions by constants are exact, and the proof's script notices when they are not."""

from __future__ import annotations

import ctypes
import math
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from checks import prove_division

from autosched.codegen.constant_division import (
    ConstantDivision,
    DivisionMethod,
    constant_division,
    floordiv_text,
    mod_text,
)
from autosched.codegen.prelude import called_scalar_functions, scalar_prelude
from autosched.codegen.prelude.templates import C_NAMES
from autosched.lang.dtypes import ALL, DType, float16, float32, float64, int32, int64, uint8
from autosched.runtime.compile.host_compiler import compile_shared_library, have_compiler

SCRIPT = Path(__file__).parents[2] / "scripts" / "prove_division.py"
MULTIPLY, RECIPROCAL, DIVIDE = DivisionMethod.MULTIPLY, DivisionMethod.RECIPROCAL, DivisionMethod.DIVIDE

needs_compiler = pytest.mark.skipif(not have_compiler("c"), reason="no C compiler")


@pytest.mark.parametrize(
    ("divisor", "dtype", "method"),
    [
        (1.0, float32, MULTIPLY),
        (-0.25, float32, MULTIPLY),
        (2.0**126, float32, MULTIPLY),
        (2.0**-126, float32, MULTIPLY),
        (2.0**127, float32, DIVIDE),  # the reciprocal is subnormal
        (2.0**-127, float32, DIVIDE),
        (3.0, float32, RECIPROCAL),
        (-0.1, float32, RECIPROCAL),
        (2.0**100 * (1 - 2.0**-24), float32, RECIPROCAL),
        (2.0**100 * (1 + 2.0**-23), float32, DIVIDE),
        (2.0**-100 * (1 + 2.0**-23), float32, RECIPROCAL),
        (2.0**-100 * (1 - 2.0**-24), float32, DIVIDE),
        (0.0, float32, DIVIDE),
        (-0.0, float32, DIVIDE),
        (math.inf, float32, DIVIDE),
        (math.nan, float32, DIVIDE),
        (1e39, float32, DIVIDE),  # infinity in float32
        (1e-40, float32, DIVIDE),
        (8.0, float64, MULTIPLY),
        (2.0**1022, float64, MULTIPLY),
        (2.0**1023, float64, DIVIDE),
        (3.0, float64, DIVIDE),
        (0.5, float16, MULTIPLY),
        (3.0, float16, RECIPROCAL),
    ],
)
def test_method(divisor: float, dtype: DType, method: DivisionMethod) -> None:
    assert constant_division(divisor, dtype).method is method


def test_constants_are_rounded_to_the_type() -> None:
    assert constant_division(0.1, float32).divisor == float(np.float32(0.1))
    division = constant_division(0.1, float16)
    assert division.divisor == float(np.float16(0.1))
    assert division.reciprocal == float(np.float32(1) / np.float32(np.float16(0.1)))
    assert division.dtype == float32


@pytest.mark.parametrize(
    ("divisor", "dtype", "text"),
    [
        (-4.0, float32, "(x * -0.25f)"),
        (225.0, float32, "as_div_const_f32(x, 225.0f, 0.0044444446f)"),
        (0.0, float32, "(x / 0.0f)"),
        (-math.inf, float32, "(x / (-AS_INF_F32))"),
        (4.0, float64, "(x * 0.25)"),
        (0.1, float64, "(x / 0.1)"),
        (3.0, float16, "as_div_const_f32(x, 3.0f, 0.33333334f)"),
    ],
)
def test_text(divisor: float, dtype: DType, text: str) -> None:
    assert constant_division(divisor, dtype).text("x") == text


@pytest.mark.parametrize(
    ("divisor", "dtype", "quotient", "remainder"),
    [
        (1, int32, "(x >> 0)", "(x & 0)"),
        (8, int64, "(x >> 3)", "(x & 7ll)"),
        (128, uint8, "(x >> 7)", "(x & 127)"),
        (-8, int32, "as_floordiv_i32(x, -8)", "as_mod_i32(x, -8)"),
        (0, int32, "as_floordiv_i32(x, 0)", "as_mod_i32(x, 0)"),
        (-(1 << 31), int32, "as_floordiv_i32(x, (-2147483647 - 1))", "as_mod_i32(x, (-2147483647 - 1))"),
    ],
)
def test_integer_text(divisor: int, dtype: DType, quotient: str, remainder: str) -> None:
    assert floordiv_text("x", divisor, dtype) == quotient
    assert mod_text("x", divisor, dtype) == remainder


@needs_compiler
@pytest.mark.parametrize("dtype", [d for d in ALL if d.is_int], ids=str)
def test_integer_division_by_literals(dtype: DType) -> None:
    ends = [dtype.min_value, dtype.min_value + 1, dtype.max_value - 1, dtype.max_value]
    divisors = [d for d in (*range(-9, 18), 100, *ends) if dtype.min_value <= d <= dtype.max_value]
    powers = [s * (1 << k) + i for k in range(dtype.bits) for s in (1, -1) for i in (-1, 0, 1)]
    dividends = sorted({v for v in powers + ends if dtype.min_value <= v <= dtype.max_value})
    expressions = [f("x", d, dtype) for d in divisors for f in (floordiv_text, mod_text)]
    stores = "\n".join(f"out[{k}] = (unsigned long long){text};" for k, text in enumerate(expressions))
    source = (
        f"{scalar_prelude(called_scalar_functions(stores))}\n"
        f"void evaluate(long long number, unsigned long long* out) {{\n"
        f"const {C_NAMES[dtype.name]} x = ({C_NAMES[dtype.name]})number;\n{stores}\n}}\n"
    )
    library = ctypes.CDLL(str(compile_shared_library(source, "c", ("-std=gnu11", "-O2"))))
    out = np.zeros(len(expressions), np.uint64)
    for x in dividends:
        library.evaluate(ctypes.c_longlong(x), ctypes.c_void_p(out.ctypes.data))
        exact = [v for d in divisors for v in ((x // d, x % d) if d else (0, 0))]
        wrapped = [(v - dtype.min_value) % (1 << dtype.bits) + dtype.min_value for v in exact]
        assert [int(v) for v in out] == [v % (1 << 64) for v in wrapped], x


@needs_compiler
@pytest.mark.parametrize(
    "divisor", [3.0, -7.0, 98.0, 273.0, 1 / 3, 12.92, 1 - 2.0**-24, 2 - 2.0**-23, 3 * 2.0**-40, 3 * 2.0**40, 1e-30]
)
def test_sampled_quotients_are_exact(divisor: float) -> None:
    division = constant_division(divisor, float32)
    assert division.method is RECIPROCAL
    outcome = prove_division.check_dividends(division, quick=True)
    assert outcome.checked > 1 << 24
    assert outcome.wrong == 0, f"for example {outcome.example!r}"


@needs_compiler
@pytest.mark.parametrize("divisor", [8.0, -(2.0**-126), 2.0**126])
def test_sampled_products_are_exact(divisor: float) -> None:
    division = constant_division(divisor, float32)
    assert division.method is MULTIPLY
    assert prove_division.check_dividends(division, quick=True).wrong == 0


@needs_compiler
def test_a_wrong_division_is_found() -> None:
    product = ConstantDivision(MULTIPLY, 3.0, float(np.float32(1 / 3)), float32)
    outcome = prove_division.check_dividends(product, quick=True)
    assert outcome.wrong > 1 << 20
    x = np.float32(outcome.example)
    assert x * np.float32(1 / 3) != x / np.float32(3)


@needs_compiler
def test_the_range_of_the_correction_matters() -> None:
    quotient = "__builtin_fmaf(__builtin_fmaf(3.0f, {0} * 0.33333334f, -{0}), -0.33333334f, {0} * 0.33333334f)"
    corrected = SimpleNamespace(divisor=3.0, text=quotient.format)
    outcome = prove_division.check_dividends(corrected, quick=True)
    assert 0 < outcome.wrong < outcome.checked // 8
    assert not 2.0**-100 <= abs(outcome.example) <= 2.0**101


@needs_compiler
def test_hardest_dividends() -> None:
    """The dividends nearest to midpoints are exact, and hard: without the correction a large part is wrong."""
    outcome = prove_division.check_hardest(quick=True)
    assert outcome.wrong == 0
    assert outcome.checked > 1 << 19
    uncorrected = prove_division.check_hardest(quick=True, quotient="(x) * (1.0f / divisor)")
    assert uncorrected.checked == outcome.checked
    assert uncorrected.wrong > outcome.checked // 10


@needs_compiler
@pytest.mark.parametrize(
    "divisor", [3.0, -7.0, 1.0, -0.5, 2.0**25, 2.0**26, 2.0**-25, 12.92, 2 - 2.0**-23, 1e-30, 1e30, 0.0]
)
def test_sampled_quotients_by_a_variable_are_exact(divisor: float) -> None:
    """With a reciprocal that the program computes: `as_div_by_f32`, for powers of two and divisors of any size."""
    c = f"((float){divisor!r})"
    quotient = SimpleNamespace(divisor=divisor, text=f"as_div_by_f32({{0}}, {c}, 1.0f / {c})".format)
    outcome = prove_division.check_dividends(quotient, quick=True)
    assert outcome.checked > 1 << 24
    assert outcome.wrong == 0, f"for example {outcome.example!r}"


@needs_compiler
def test_hardest_dividends_of_a_variable() -> None:
    outcome = prove_division.check_hardest(quick=True, quotient="as_div_by_f32(x, divisor, 1.0f / divisor)")
    assert outcome.wrong == 0
    assert outcome.checked > 1 << 19


@needs_compiler
def test_script(tmp_path: Path) -> None:
    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        environment = {"PATH": "/usr/local/bin:/usr/bin:/bin", "AUTOSCHED_CACHE_DIR": str(tmp_path)}
        command = [sys.executable, str(SCRIPT), *arguments]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)

    done = run("--quick", "--constants", "3,-0.1,4")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert [line.split()[1:3] for line in lines[1:4]] == [
        ["3", "reciprocal"], ["-0.100000001", "reciprocal"], ["4", "multiply"],
    ]  # fmt: skip
    assert lines[-1] == "all quotients are exact"
    refused = run("--quick", "--constants", "3,x")
    assert refused.returncode == 2
    assert "could not convert string to float: 'x'" in refused.stderr
