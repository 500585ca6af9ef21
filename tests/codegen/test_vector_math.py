"""Loops over lanes call the C library's functions of vectors, which are as exact as its own of one number, nearly."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest
import scipy.special
from numpy.typing import NDArray

from autosched.codegen.prelude import scalar_prelude, vector_math
from autosched.host import has_vector_math
from autosched.lang.dtypes import DType, float32, float64
from autosched.runtime.compile.host_compiler import compile_shared_library, find_compiler, gnu_version, have_compiler

Array = NDArray[Any]

pytestmark = [
    pytest.mark.skipif(not have_compiler("c"), reason="no compiler"),
    pytest.mark.skipif(not has_vector_math(), reason="a C library without functions of vectors"),
]
COUNT = 4099  # not a multiple of a vector: the last ones are of one number
MOST_ULP = 10
"""Units in the last place: 4 of glibc's function, twice that where it is squared, and rounding."""
NAMES = {
    "atan": "arctan", "asin": "arcsin", "acos": "arccos", "atan2": "arctan2", "pow": "power", "asinh": "arcsinh",
    "acosh": "arccosh", "atanh": "arctanh",
}  # fmt: skip
RANGES = {
    "exp": (-1.0, 1.0), "log": (0.01, 50.0), "sin": (-9.0, 9.0), "cos": (-9.0, 9.0), "tan": (-1.5, 1.5),
    "tanh": (-4.0, 4.0), "asin": (-0.99, 0.99), "acos": (-0.99, 0.99), "atan": (-9.0, 9.0), "pow": (0.1, 9.0),
    "atan2": (-9.0, 9.0), "hypot": (-9.0, 9.0), "exp2": (-1.0, 1.0), "expm1": (-1.0, 1.0), "log2": (0.01, 50.0),
    "log10": (0.01, 50.0), "log1p": (-0.5, 50.0), "sinh": (-4.0, 4.0), "cosh": (-4.0, 4.0), "asinh": (-9.0, 9.0),
    "acosh": (1.01, 9.0), "atanh": (-0.99, 0.99), "erf": (-3.0, 3.0), "erfc": (-3.0, 3.0),
}  # fmt: skip
TWO = ("pow", "atan2", "hypot")


def in_lanes(name: str, dtype: DType, *arguments: Array) -> tuple[Array, bytes]:
    """Return a function's results in a loop over lanes, and the library that computed them."""
    function, ctype = f"as_{name}_{dtype.short}", "float" if dtype == float32 else "double"
    parameters = "".join(f", const {ctype}* restrict a{k}" for k in range(len(arguments)))
    call = f"{function}({', '.join(f'a{k}[i]' for k in range(len(arguments)))})"
    source = f"""#define AS_FN static inline
{vector_math({function})}{scalar_prelude({function})}
void lanes({ctype}* restrict out{parameters}) {{
    #pragma omp simd
    for (int i = 0; i < {COUNT}; i++) out[i] = {call};
}}
"""
    path = compile_shared_library(source)
    out = np.empty(COUNT, dtype.numpy)
    ctypes.CDLL(str(path)).lanes(*(ctypes.c_void_p(a.ctypes.data) for a in (out, *arguments)))
    return out, path.read_bytes()


@pytest.mark.parametrize("dtype", [float32, float64], ids=str)
@pytest.mark.parametrize("name", RANGES)
def test_functions_of_vectors(name: str, dtype: DType) -> None:
    rng = np.random.default_rng(0)
    arguments = [rng.uniform(*RANGES[name], COUNT).astype(dtype.numpy) for _ in range(2 if name in TWO else 1)]
    found, library = in_lanes(name, dtype, *arguments)
    if name in ("erf", "erfc"):
        expected = getattr(scipy.special, name)(arguments[0].astype(np.float64))
    else:
        expected = getattr(np, NAMES.get(name, name))(*(a.astype(np.longdouble) for a in arguments))
    np.testing.assert_array_max_ulp(found, expected.astype(dtype.numpy), maxulp=MOST_ULP)
    if name in ("exp", "log", "sin", "cos", "pow") or gnu_version(find_compiler()) is not None:  # clang has no others
        assert b"_ZGV" in library  # how functions of vectors are called


@pytest.mark.parametrize(("dtype", "least", "most"), [(float32, -110, 90), (float64, -760, 720)], ids=str)
def test_exponentials_that_are_not_normal_numbers(dtype: DType, least: float, most: float) -> None:
    values = np.linspace(least, most, COUNT).astype(dtype.numpy)
    values[:4] = np.inf, -np.inf, np.nan, -1e30
    found, _ = in_lanes("exp", dtype, values)
    with np.errstate(all="ignore"):
        expected = np.exp(values.astype(np.longdouble)).astype(dtype.numpy)
    assert np.isnan(found[2]) and list(found[[0, 1, 3]]) == [np.inf, 0, 0]
    np.testing.assert_array_max_ulp(np.delete(found, 2), np.delete(expected, 2), maxulp=MOST_ULP)


def hard_operands(dtype: DType) -> tuple[Array, Array]:
    """Return dividends and divisors: any bits, near multiples, halves of whole numbers, zeros, infinities and NaN."""
    rng = np.random.default_rng(0)
    bits = np.dtype(f"u{dtype.bits // 8}")
    a, b = (rng.integers(0, np.iinfo(bits).max, COUNT, bits, endpoint=True).view(dtype.numpy) for _ in range(2))
    near = slice(0, COUNT, 4)
    b[near] = rng.uniform(-9, 9, len(b[near]))
    a[near] = b[near] * rng.integers(-(2**20), 2**20, len(b[near]))
    a[near] = np.nextafter(a[near], rng.choice([-np.inf, np.inf], len(a[near])).astype(dtype.numpy))
    halves = slice(1, COUNT, 4)
    a[halves], b[halves] = rng.integers(-99, 99, (2, len(a[halves]))) / 2
    special = [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.5, np.finfo(dtype.numpy).smallest_subnormal]
    pairs = np.array([(p, q) for p in special for q in special], dtype.numpy)
    a[: len(pairs)], b[: len(pairs)] = pairs[:, 0], pairs[:, 1]
    return a, b


@pytest.mark.parametrize("dtype", [float32, float64], ids=str)
@pytest.mark.parametrize("name", ["fmod", "mod", "floordiv"])
def test_remainders_are_exact(name: str, dtype: DType) -> None:
    operands = hard_operands(dtype)
    for a, b in (operands, (operands[0], np.full(COUNT, 6, dtype.numpy))):
        found, library = in_lanes(name, dtype, a, b)
        with np.errstate(all="ignore"):
            expected = {"fmod": np.fmod, "mod": np.remainder, "floordiv": np.floor_divide}[name](a, b)
        np.testing.assert_array_equal(found, expected)
        np.testing.assert_array_equal(np.signbit(found)[found == found], np.signbit(expected)[found == found])
        if gnu_version(find_compiler()) is not None:
            assert f"vv_fmod{'f' if dtype == float32 else ''}".encode() in library


def test_kernels_that_call_none_do_not_declare_them() -> None:
    assert vector_math({"as_sqrt_f32", "as_floordiv_i32"}) == ""
    assert "AS_OF_ONE(exp)" in vector_math({"as_exp_f64"})
