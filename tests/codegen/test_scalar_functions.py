"""The scalar helper functions give in C and C++ the results of NumPy and Python, in every corner case."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.special
import torch
from numpy.typing import NDArray

from autosched.codegen.prelude import float_literal, int_literal, scalar_prelude, scalar_signatures
from autosched.codegen.prelude.templates import BINARY_FUNCTIONS, UNARY_FUNCTIONS
from autosched.lang.dtypes import ALL, DType, bfloat16, float16, float32, float64
from autosched.lang.random_bits import hash_u32_numpy
from autosched.runtime.compile.host_compiler import Language, compile_shared_library, have_compiler, kernel_flags

Array = NDArray[Any]

needs_compiler = pytest.mark.skipif(not (have_compiler("c") and have_compiler("c++")), reason="no compiler")

INTEGERS = [d for d in ALL if d.is_int]
SIGNED = [d for d in INTEGERS if d.kind == "i"]
FLOATS = [float32, float64]
EXACT_FUNCTIONS = {"sqrt": np.sqrt, "floor": np.floor, "ceil": np.ceil, "trunc": np.trunc, "round": np.rint}
NUMPY_NAMES = {
    "atan": "arctan", "asin": "arcsin", "acos": "arccos", "atan2": "arctan2", "pow": "power", "asinh": "arcsinh",
    "acosh": "arccosh", "atanh": "arctanh",
}  # fmt: skip
NUMPY_TYPES = {
    "bool": np.bool_, "signed char": np.int8, "unsigned char": np.uint8, "short": np.int16, "unsigned short": np.uint16,
    "int": np.int32, "unsigned int": np.uint32, "long long": np.int64, "unsigned long long": np.uint64,
    "float": np.float32, "double": np.float64,
}  # fmt: skip


class Library:
    """The helper functions, each applied to arrays."""

    def __init__(self, language: Language, flags: tuple[str, ...]) -> None:
        export = 'extern "C" ' if language == "c++" else ""
        loops = [scalar_prelude()]
        for name, (result, types) in scalar_signatures().items():
            parameters = "".join(f", const {t}* a{i}" for i, t in enumerate(types))
            call = f"{name}({', '.join(f'a{i}[i]' for i in range(len(types)))})"
            loops.append(f"{export}void loop_{name}(long long n, {result}* out{parameters}) {{")
            loops.append(f"    for (long long i = 0; i < n; i++) out[i] = {call};\n}}")
        source = "\n".join(loops)
        self._library = ctypes.CDLL(
            str(compile_shared_library(source, language, (*flags, "-Wall", "-Wextra", "-Werror")))
        )
        self._signatures = scalar_signatures()

    def __call__(self, name: str, *arguments: Array) -> Array:
        result, types = self._signatures[name]
        assert [NUMPY_TYPES[t] for t in types] == [a.dtype.type for a in arguments], name
        arrays = [np.ascontiguousarray(a) for a in arguments]
        out: Array = np.empty(arrays[0].size, NUMPY_TYPES[result])
        pointers = [ctypes.c_void_p(a.ctypes.data) for a in (out, *arrays)]
        getattr(self._library, f"loop_{name}")(ctypes.c_longlong(out.size), *pointers)
        return out


@pytest.fixture(scope="module", params=["c", "c-plain", "c++"])
def library(request: pytest.FixtureRequest) -> Library:
    """Give the functions as the C backend compiles them, as C without vectors, and as the emulator compiles them."""
    if not (have_compiler("c") and have_compiler("c++")):
        pytest.skip("no compiler")
    if request.param == "c":
        return Library("c", kernel_flags("c"))
    if request.param == "c-plain":
        return Library("c", ("-std=gnu11", "-O1", "-ffp-contract=off"))
    return Library("c++", ("-std=gnu++17", "-O1", "-ffp-contract=off", "-fno-exceptions", "-fno-rtti"))


def integer_samples(dtype: DType) -> list[int]:
    """Return the ends of a type, small numbers, powers of two and their neighbours."""
    powers = [s * (1 << k) + d for k in range(dtype.bits) for s in (1, -1) for d in (-1, 0, 1)]
    near = [dtype.min_value + i for i in range(4)] + [dtype.max_value - i for i in range(4)] + list(range(-11, 12))
    return sorted({v for v in powers + near if dtype.min_value <= v <= dtype.max_value})


def float_samples(dtype: DType) -> Array:
    """Return zeros, subnormals, halves, powers of two with neighbours, the largest, infinities and NaN."""
    to = dtype.numpy.type
    info = np.finfo(dtype.numpy)
    base = [0.0, 0.1, 0.3, 0.5, 0.99, 1.0, 1.5, 2.5, 3.0, 3.5, 7.0, 127.5, 128.5, 254.5, 255.5, 1e9, 3e9, 1e18, 1e30]
    base += [float(info.smallest_subnormal), float(info.tiny), float(info.max), math.inf]
    base += [math.ldexp(1.0, k) for k in (-20, -1, 7, 8, 15, 16, 23, 24, 31, 32, 52, 53, 62, 63, 64, 65)]
    values = np.array(base, dtype.numpy)
    with np.errstate(over="ignore"):
        values = np.concatenate([values, np.nextafter(values, to(0)), np.nextafter(values, to(math.inf))])
    return np.unique(np.concatenate([values, -values, np.array([math.nan], dtype.numpy)])).astype(dtype.numpy)


def with_both_zeros(values: Array) -> Array:
    return np.concatenate([values, np.array([0.0, -0.0], values.dtype)])


def all_pairs(values: Array) -> tuple[Array, Array]:
    a, b = np.meshgrid(values, values)
    return a.ravel(), b.ravel()


def wrapped(value: int, dtype: DType) -> int:
    return (value - dtype.min_value) % (1 << dtype.bits) + dtype.min_value


def assert_same(actual: Array, expected: Array, *arguments: Array) -> None:
    """Assert that results are equal to the bit, any two NaNs being equal."""
    assert actual.dtype == expected.dtype
    unsigned = np.dtype(f"u{actual.dtype.itemsize}")
    differs = actual.view(unsigned) != expected.view(unsigned)
    if actual.dtype.kind == "f":
        differs &= ~(np.isnan(actual) & np.isnan(expected))
    if differs.any():
        i = int(np.flatnonzero(differs)[0])
        raise AssertionError(f"of {[a[i] for a in arguments]}: {actual[i]!r} instead of {expected[i]!r}")


def mask(n: int, dtype: DType) -> int:
    return n & (dtype.bits - 1)


INTEGER_MEANINGS: dict[str, Callable[[int, int, DType], int]] = {
    "floordiv": lambda a, b, d: a // b if b else 0,
    "mod": lambda a, b, d: a % b if b else 0,
    "min": lambda a, b, d: min(a, b),
    "max": lambda a, b, d: max(a, b),
    "shl": lambda a, b, d: a << mask(b, d),
    "shr": lambda a, b, d: a >> mask(b, d),
}


@pytest.mark.parametrize("name", INTEGER_MEANINGS)
@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_integer_operations(library: Library, dtype: DType, name: str) -> None:
    a, b = all_pairs(np.array(integer_samples(dtype), dtype.numpy))
    meaning = INTEGER_MEANINGS[name]
    exact = [wrapped(meaning(int(x), int(y), dtype), dtype) for x, y in zip(a, b, strict=True)]
    assert_same(library(f"as_{name}_{dtype.short}", a, b), np.array(exact, dtype.numpy), a, b)


@pytest.mark.parametrize("dtype", SIGNED, ids=str)
def test_integer_abs_wraps(library: Library, dtype: DType) -> None:
    values = integer_samples(dtype)
    expected = np.array([wrapped(abs(v), dtype) for v in values], dtype.numpy)
    a = np.array(values, dtype.numpy)
    assert_same(library(f"as_abs_{dtype.short}", a), expected, a)
    assert expected[0] == dtype.min_value


@pytest.mark.parametrize("source", FLOATS, ids=str)
@pytest.mark.parametrize("target", INTEGERS, ids=str)
def test_float_to_integer(library: Library, source: DType, target: DType) -> None:
    def convert(x: float) -> int:
        if math.isnan(x):
            return 0
        if math.isinf(x):
            return target.max_value if x > 0 else target.min_value
        return min(max(int(x), target.min_value), target.max_value)

    values = np.tile(with_both_zeros(float_samples(source)), 3)  # longer than a vector whatever its alignment
    expected = np.array([convert(float(x)) for x in values], target.numpy)
    assert_same(library(f"as_cvt_{target.short}_{source.short}", values), expected, values)


@pytest.mark.parametrize("source", FLOATS, ids=str)
def test_float_to_bool(library: Library, source: DType) -> None:
    values = with_both_zeros(float_samples(source))
    result = library(f"as_cvt_b_{source.short}", values)
    assert_same(result, values != 0, values)
    assert result[np.isnan(values)].all()


@pytest.mark.parametrize("dtype", [float16, bfloat16, *FLOATS], ids=str)
def test_float_min_max_abs(library: Library, dtype: DType) -> None:
    a, b = all_pairs(with_both_zeros(float_samples(float32 if dtype.is_reduced_float else dtype)))
    least = np.where((a <= b) | (a != a), a, b)
    most = np.where((a >= b) | (a != a), a, b)
    assert_same(library(f"as_min_{dtype.short}", a, b), least, a, b)
    assert_same(library(f"as_max_{dtype.short}", a, b), most, a, b)
    assert_same(library(f"as_abs_{dtype.short}", a), np.abs(a), a)
    assert np.isnan(least[np.isnan(a) | np.isnan(b)]).all()


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_float_floor_division(library: Library, dtype: DType) -> None:
    a, b = all_pairs(with_both_zeros(float_samples(dtype)))
    with np.errstate(all="ignore"):
        assert_same(library(f"as_floordiv_{dtype.short}", a, b), np.floor_divide(a, b), a, b)
        assert_same(library(f"as_mod_{dtype.short}", a, b), np.remainder(a, b), a, b)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("name", EXACT_FUNCTIONS)
def test_exact_functions(library: Library, dtype: DType, name: str) -> None:
    a = with_both_zeros(float_samples(dtype))
    with np.errstate(all="ignore"):
        assert_same(library(f"as_{name}_{dtype.short}", a), EXACT_FUNCTIONS[name](a), a)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_fmod_is_exact(library: Library, dtype: DType) -> None:
    a, b = all_pairs(with_both_zeros(float_samples(dtype)))
    with np.errstate(all="ignore"):
        assert_same(library(f"as_fmod_{dtype.short}", a, b), np.fmod(a, b), a, b)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("name", [n for n in (*UNARY_FUNCTIONS, *BINARY_FUNCTIONS) if n not in EXACT_FUNCTIONS])
def test_other_functions(library: Library, dtype: DType, name: str) -> None:
    """Each name is bound to the right function: within a few units of NumPy's."""
    rng = np.random.default_rng(1)
    count = 2 if name in BINARY_FUNCTIONS else 1
    least = 1.05 if name == "acosh" else 0.05
    arguments = [rng.uniform(least, least + 0.9, 500).astype(dtype.numpy) for _ in range(count)]
    module = scipy.special if name in ("erf", "erfc") else np
    expected = getattr(module, NUMPY_NAMES.get(name, name))(*arguments)
    actual = library(f"as_{name}_{dtype.short}", *arguments)
    np.testing.assert_array_max_ulp(actual, expected, maxulp=8)


def nearest_float16(values: Array) -> Array:
    """Return the bits of the nearest float16, ties to even, by searching all of them in float64."""
    with np.errstate(invalid="ignore"):  # signalling NaNs
        exact = values.astype(np.float64)
        magnitude = np.where(np.isnan(exact), 0.0, np.minimum(np.abs(exact), 65536.0))
    halves = np.arange(0x7C00, dtype=np.uint16).view(np.float16).astype(np.float64)
    steps = np.append(halves, 65536.0)  # the number after the largest; values from the midpoint up round to infinity
    above = np.searchsorted(steps, magnitude, side="right")
    down, up = magnitude - steps[above - 1], steps[np.minimum(above, 0x7C00)] - magnitude  # exact where nearly equal
    odd = (above - 1) % 2 == 1
    bits = np.where((up < down) | ((up == down) & odd), above, above - 1)
    bits = np.where(np.isnan(exact), 0x7E00, bits)
    return (bits | np.where(np.signbit(exact), 0x8000, 0)).astype(np.uint16)


def near_float16(dtype: DType) -> Array:
    """Return every finite float16, every midpoint of two neighbours, and the adjacent numbers of the type."""
    to = dtype.numpy.type
    halves = np.arange(0x7C00, dtype=np.uint16).view(np.float16).astype(np.float64)
    steps = np.append(halves, 65536.0)
    exact = np.concatenate([steps, (steps[:-1] + steps[1:]) / 2]).astype(dtype.numpy)
    values = np.concatenate([exact, np.nextafter(exact, to(0)), np.nextafter(exact, to(math.inf))])
    rng = np.random.default_rng(2)
    random_bits = rng.integers(0, 1 << dtype.bits, 100_000, dtype=f"u{dtype.bytes_}").view(dtype.numpy)
    return np.concatenate([values, -values, float_samples(dtype), random_bits]).astype(dtype.numpy)


def nan_as_one(bits: Array) -> Array:
    """Return float16 bits with one NaN for all."""
    return np.where((bits & 0x7FFF) > 0x7C00, np.uint16(0x7E00), bits)


def test_every_float16_is_read_exactly(library: Library) -> None:
    bits = np.arange(1 << 16, dtype=np.uint16)
    assert_same(library("as_f16_to_f32", bits), bits.view(np.float16).astype(np.float32), bits)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_rounding_to_float16(library: Library, dtype: DType) -> None:
    values = near_float16(dtype)
    expected = nearest_float16(values)
    assert_same(nan_as_one(library(f"as_{dtype.short}_to_f16", values)), nan_as_one(expected), values)
    rounding = "as_round_f16" if dtype == float32 else "as_round_f16_f64"
    assert_same(library(rounding, values), expected.view(np.float16).astype(np.float32), values)


def test_every_bfloat16_is_read_exactly(library: Library) -> None:
    bits = np.arange(1 << 16, dtype=np.uint16)
    assert_same(library("as_bf16_to_f32", bits), bits.view(bfloat16.numpy).astype(np.float32), bits)
    assert_same(library("as_bf16_to_f32", bits).view(np.uint32), bits.astype(np.uint32) << np.uint32(16), bits)


def test_rounding_to_bfloat16(library: Library) -> None:
    """Of every bfloat16, the midpoints of neighbours and the float32 next to these, and random bits."""
    upper = np.arange(1 << 16, dtype=np.uint32) << np.uint32(16)
    lower = np.array([0, 1, 0x7FFF, 0x8000, 0x8001, 0xFFFF], np.uint32)
    rng = np.random.default_rng(3)
    bits = np.concatenate([(upper[:, None] | lower).reshape(-1), rng.integers(0, 1 << 32, 100_000, np.uint32)])
    values = bits.view(np.float32)
    rounded = library("as_round_bf16", values)
    found = library("as_bf16_bits", rounded)
    with np.errstate(invalid="ignore"):  # of signalling NaNs
        expected = values.astype(bfloat16.numpy)
        of_pytorch = torch.from_numpy(values.copy()).to(torch.bfloat16).float().numpy()
    assert_same(found.view(bfloat16.numpy).astype(np.float32), expected.astype(np.float32), values)
    assert_same(found.view(bfloat16.numpy).astype(np.float32), of_pytorch, values)
    assert_same(library("as_bf16_to_f32", found).view(np.uint32), rounded.view(np.uint32), values)
    numbers = ~np.isnan(values)
    assert_same((found >> np.uint16(15))[numbers], (bits >> np.uint32(31)).astype(np.uint16)[numbers], bits[numbers])


def test_float64_to_float16_rounds_once() -> None:
    """The oracle itself: by way of float32 this number would become a midpoint and go down to the even neighbour."""
    value = np.array([1 + 2.0**-11 + 2.0**-40])
    assert nearest_float16(value)[0] == 0x3C01
    assert nearest_float16(value.astype(np.float32))[0] == 0x3C00


def test_hash_is_that_of_numpy(library: Library) -> None:
    values = np.random.default_rng(3).integers(0, 1 << 32, 10_000, dtype=np.uint32)
    values[:3] = 0, 1, 0xFFFFFFFF
    assert_same(library("as_hash_u32", values), hash_u32_numpy(values), values)


def test_hash_mixes() -> None:
    """A flipped input bit flips each output bit in half of the cases; no two inputs collide."""
    values = np.arange(1 << 16, dtype=np.uint32)
    hashed = hash_u32_numpy(values)
    assert np.unique(hashed).size == values.size
    for bit in range(32):
        flipped = hashed ^ hash_u32_numpy(values ^ np.uint32(1 << bit))
        shares = [float(((flipped >> np.uint32(k)) & 1).mean()) for k in range(32)]
        assert max(abs(share - 0.5) for share in shares) < 0.06


def test_division_by_constants(library: Library) -> None:
    x = with_both_zeros(float_samples(float32))
    for divisor in np.array([3.0, -7.0, 0.1, 12.92, 225.0, 1e20, 1e-20], np.float32):
        c = np.full_like(x, divisor)
        with np.errstate(all="ignore"):
            assert_same(library("as_div_const_f32", x, c, 1 / c), x / c, x, c)
            assert_same(library("as_div_by_f32", x, c, 1 / c), x / c, x, c)


FOLDED_INTEGERS = [
    (name, a, b, d)
    for name in ("floordiv", "mod", "shl", "shr")
    for d in INTEGERS
    for a in (d.min_value, d.max_value, 7 + d.min_value // 2)
    for b in (d.min_value, d.max_value, 0, 1, -1, 3, 8, d.bits)
    if b >= d.min_value
]


@needs_compiler
def test_compile_time_results_are_those_of_run_time() -> None:
    """Compilers evaluate calls with literal arguments, by rules that differ from the processor's where C has none."""
    calls, expected = [], []
    for name, a, b, d in FOLDED_INTEGERS:
        calls.append(f"as_{name}_{d.short}({int_literal(a, d)}, {int_literal(b, d)})")
        expected.append(wrapped(INTEGER_MEANINGS[name](a, b, d), d))
    for source in FLOATS:
        for target in INTEGERS:
            for x, result in (
                (math.nan, 0), (1e300, target.max_value), (-math.inf, target.min_value), (-0.9, 0), (99.9, 99),
            ):  # fmt: skip
                calls.append(f"as_cvt_{target.short}_{source.short}({float_literal(x, source)})")
                expected.append(result)
    # unsigned results are compared modulo 2**64
    stores = "\n".join(f"    out[{i}] = (unsigned long long){call};" for i, call in enumerate(calls))
    source_text = f"{scalar_prelude()}\nvoid evaluate(unsigned long long* out) {{\n{stores}\n}}\n"
    library = ctypes.CDLL(str(compile_shared_library(source_text, "c")))
    out = np.zeros(len(calls), np.uint64)
    library.evaluate(ctypes.c_void_p(out.ctypes.data))
    wrong = [
        (call, int(got), want)
        for call, got, want in zip(calls, out, expected, strict=True)
        if int(got) != want % (1 << 64)
    ]
    assert wrong == []
