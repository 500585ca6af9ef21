"""bfloat16 in the interpreter, the C backend and the emulator, against PyTorch and against every bit pattern."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import autosched as a
from autosched import Expr, Func, Input, Param, Pipeline, RDom, Var, bfloat16
from autosched.analysis.bind import bind
from autosched.lang.dtypes import ALL
from autosched.runtime.compile.host_compiler import have_compiler
from autosched.runtime.compile.nvrtc import have_nvrtc
from autosched.schedule.sampling.random_schedule import sample_schedule
from autosched.scheduled_pipeline import ScheduledPipeline
from autosched.target import get_target
from tests.comparable import assert_same_numbers

Array = np.ndarray[Any, Any]
WITNESSES = ("interpreter", "cpu", "emulator")
x = Var("x")
pytestmark = pytest.mark.skipif(not (have_compiler("c") and have_compiler("c++")), reason="no compiler")


def every_bfloat16() -> Array:
    return np.arange(1 << 16, dtype=np.uint16).view(bfloat16.numpy)


def as_tensor(array: Array) -> torch.Tensor:
    is_bfloat16 = array.dtype == bfloat16.numpy
    return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16) if is_bfloat16 else torch.from_numpy(array)


def as_array(tensor: torch.Tensor) -> Array:
    is_bfloat16 = tensor.dtype == torch.bfloat16
    return tensor.view(torch.int16).numpy().view(bfloat16.numpy) if is_bfloat16 else tensor.numpy()


def computed(witness: str, build: Callable[..., Expr], *columns: Array) -> Array:
    """Return a function of the elements of some arrays, computed by one witness."""
    inputs = [Input(f"in{k}", c.dtype, 1) for k, c in enumerate(columns)]
    f = Func("f")
    f[x] = build(*(i[x] for i in inputs))
    pipeline = Pipeline(f)
    arrays = {i.name: c for i, c in zip(inputs, columns, strict=True)}
    if witness == "interpreter":
        return a.interpret(pipeline, arrays)["f"]
    target = get_target("cpu" if witness == "cpu" else "h200")
    bound = bind(pipeline, {name: c.shape for name, c in arrays.items()})
    schedule = sample_schedule(bound, target, np.random.default_rng(1))
    result: Array = ScheduledPipeline(bound, schedule, target).compile(witness)(arrays)
    return result


@pytest.mark.parametrize("witness", WITNESSES)
def test_every_pattern_is_read_and_written(witness: str) -> None:
    bits = every_bfloat16()
    exact = (np.arange(1 << 16, dtype=np.uint32) << np.uint32(16)).view(np.float32)
    assert_same_numbers(computed(witness, lambda e: a.cast("float32", e), bits), exact)
    assert_same_numbers(computed(witness, lambda e: a.cast(bfloat16, e), exact), bits)
    assert_same_numbers(computed(witness, lambda e: e, bits), bits)


@pytest.mark.parametrize("witness", WITNESSES)
def test_ties_are_rounded_to_even(witness: str) -> None:
    """Between each pair of neighbours: the midpoint, and the float32 on both sides of it."""
    upper = np.arange(1 << 16, dtype=np.uint32) << np.uint32(16)
    values = (upper[:, None] | np.array([0x7FFF, 0x8000, 0x8001], np.uint32)).reshape(-1).view(np.float32)
    expected = as_array(as_tensor(values).to(torch.bfloat16))
    assert_same_numbers(computed(witness, lambda e: a.cast(bfloat16, e), values), expected)
    even = computed(witness, lambda e: a.cast(bfloat16, e), np.array([257, 259, 3.397e38], np.float32))
    assert even.tolist() == [256, 260, np.inf]


@pytest.mark.parametrize("witness", WITNESSES)
@pytest.mark.parametrize("other", [d for d in ALL if d != bfloat16], ids=str)
def test_conversions_from_and_to_other_types(witness: str, other: a.lang.dtypes.DType) -> None:
    """From other types as in PyTorch, by way of float32; to integers as from float32."""
    rng = np.random.default_rng(4)
    if other.kind == "b":
        values = np.array([True, False] * 50)
    elif other.is_int:
        values = rng.integers(other.min_value, other.max_value, 1000, other.numpy.type, endpoint=True)
        values >>= rng.integers(0, other.bits, 1000).astype(other.numpy)
    else:
        values = rng.standard_normal(1000) * 10.0 ** rng.integers(-40, 38, 1000)
        values[:4] = 0.0, -0.0, np.inf, np.nan
        with np.errstate(over="ignore"):
            values = values.astype(other.numpy)
    expected = as_array(as_tensor(values.astype(np.float32)).to(torch.bfloat16))
    assert_same_numbers(computed(witness, lambda e: a.cast(bfloat16, e), values), expected)
    numbers = every_bfloat16()
    with np.errstate(all="ignore"):
        wide = numbers.astype(np.float32)
        to_other = a.interpret(_cast_of(a.float32, other), {"v": wide})["f"]
    assert_same_numbers(computed(witness, lambda e: a.cast(other, e), numbers), to_other)


def _cast_of(source: a.lang.dtypes.DType, target: a.lang.dtypes.DType) -> Pipeline:
    v, f = Input("v", source, 1), Func("f")
    f[x] = a.cast(target, v[x])
    return Pipeline(f)


def _of_bfloat16(value: float) -> torch.Tensor:
    return torch.tensor(value, dtype=torch.bfloat16)


CHAINS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "product plus": (lambda p, q: p * q + p, lambda p, q: p * q + p),
    "difference of quotients": (lambda p, q: p / q - q / p, lambda p, q: p / q - q / p),
    "literals": (lambda p, q: (p * 0.1 + q) / 3, lambda p, q: (p * _of_bfloat16(0.1) + q) / _of_bfloat16(3)),
    "minimum and maximum": (
        lambda p, q: a.max(a.min(p, q), p - q), lambda p, q: torch.maximum(torch.minimum(p, q), p - q)
    ),
    "selection": (
        lambda p, q: a.select(p > q, p - q, -a.abs(p)), lambda p, q: torch.where(p > q, p - q, -torch.abs(p))
    ),
    "rounding": (
        lambda p, q: a.floor(p) + a.ceil(q) * a.trunc(p) - a.round(q),
        lambda p, q: torch.floor(p) + torch.ceil(q) * torch.trunc(p) - torch.round(q),
    ),
    "square root": (lambda p, q: a.sqrt(p * p + q * q), lambda p, q: torch.sqrt(p * p + q * q)),
    "float32 inside": (
        lambda p, q: a.cast(bfloat16, a.cast("float32", p) * a.cast("float32", q) + a.cast("float32", p)),
        lambda p, q: (p.float() * q.float() + p.float()).to(torch.bfloat16),
    ),
    "promotion": (
        lambda p, q: p * a.cast("float32", q) + a.cast("float16", q),
        lambda p, q: p * q.float() + q.to(torch.float16),
    ),
    "comparison": (lambda p, q: (p <= q) | (p == -q), lambda p, q: (p <= q) | (p == -q)),
}  # fmt: skip


@pytest.mark.parametrize("witness", WITNESSES)
@pytest.mark.parametrize("name", CHAINS)
def test_chains_are_those_of_pytorch(name: str, witness: str) -> None:
    """Every operation is rounded, in eager PyTorch and here, for pairs of all patterns and of usual numbers."""
    ours, theirs = CHAINS[name]
    rng = np.random.default_rng(2)
    usual = rng.standard_normal((2, 1 << 14)).astype(bfloat16.numpy)
    p, q = (np.concatenate([rng.permutation(every_bfloat16()), column]) for column in usual)
    if name == "promotion":  # PyTorch's result for subnormal float16 depends on the processor's vectors
        p, q = usual
    assert_same_numbers(computed(witness, ours, p, q), as_array(theirs(as_tensor(p), as_tensor(q))))


@pytest.mark.parametrize("witness", WITNESSES)
@pytest.mark.parametrize("function", ["exp", "log", "sin", "cos", "tanh", "atan"])
def test_functions_are_computed_in_float32(function: str, witness: str) -> None:
    """The rounding to 8 bits hides nearly every difference between libraries."""
    values = np.random.default_rng(5).uniform(0.01, 30, 4096).astype(bfloat16.numpy)
    found = computed(witness, getattr(a, function), values).astype(np.float64)
    exact = getattr(np, {"atan": "arctan"}.get(function, function))(values.astype(np.float64))
    nearest = exact.astype(np.float32).astype(bfloat16.numpy)
    assert np.count_nonzero(found != nearest.astype(np.float64)) <= 4
    np.testing.assert_allclose(found, exact, rtol=2**-7)


def test_sums_accumulate_in_bfloat16_unless_cast() -> None:
    ones = np.ones(1000, bfloat16.numpy)
    v, narrow, wide, r = Input("v", bfloat16, 1), Func("narrow"), Func("wide"), RDom("r", k=1000)
    narrow[()] = a.sum(v[r.k], over=r)
    wide[()] = a.cast(bfloat16, a.sum(a.cast("float32", v[r.k]), over=r))
    for f, total in ((narrow, 256), (wide, 1000)):  # 256 + 1 is halfway between two, and rounds to even
        bound = bind(Pipeline(f), {"v": (1000,)})
        assert a.interpret(Pipeline(f), {"v": ones})[f.name] == total
        for target, backend in ((get_target("cpu"), "cpu"), (get_target("h200"), "emulator")):
            schedule = sample_schedule(bound, target, np.random.default_rng(1))
            assert ScheduledPipeline(bound, schedule, target).compile(backend)({"v": ones}) == total


UNARY = (a.sqrt, a.exp, a.log, a.sin, a.cos, a.tan, a.tanh, a.atan, a.asin, a.acos, a.floor, a.ceil, a.trunc, a.round)
BINARY = (a.min, a.max, a.pow, a.atan2, a.fmod, a.hypot, a.absd)


def every_operation() -> Pipeline:
    """Return a pipeline with all operations of bfloat16, and conversions from and to all types."""
    p, q, gain, y = Input("p", bfloat16, 2), Input("q", bfloat16, 2), Param("gain", bfloat16, default=0.5), Var("y")
    u, v, out = p[y, x], q[y, x], Func("out")
    total = u + v - u * v / 3
    for value in (*(g(u) for g in UNARY), *(h(u, v) for h in BINARY)):
        total = total + value
    value = a.select(u <= v, total // 3 + u % v, -a.abs(total)) * gain + x
    for d in ALL:
        value = value + a.cast(bfloat16, a.cast(d, u))
    out[y, x] = value
    return Pipeline(out.over(y=(0, 16), x=(0, 64)))


@pytest.mark.skipif(not have_nvrtc(), reason="NVRTC is not installed")
def test_nvrtc_compiles_every_operation() -> None:
    target = get_target("h200")
    scheduled = a.schedule(every_operation(), {"p": (16, 64), "q": (16, 64)}, target, strategy="roots")
    assert "cvt.rn.bf16x2.f32" in scheduled.source()
    scheduled.compile("cuda")


@pytest.mark.skipif(not have_nvrtc(), reason="NVRTC is not installed")
def test_nvrtc_compiles_vectors_reductions_and_shared_memory() -> None:
    """The types of loads, stores and copies of 2, 4 and 8 elements, shared tiles and shuffles."""
    p, y, r = Input("p", bfloat16, 2), Var("y"), RDom("r", k=32)
    f, out = Func("f"), Func("out")
    f[y, x] = p[y, x] * 0.5 + 1
    out[y, x] = a.sum(f[y, x + r.k], over=r)
    target, texts = get_target("h200"), []
    bound = bind(Pipeline(out.over(y=(0, 16), x=(0, 256))), {"p": (16, 288)})
    for seed in range(12):
        schedule = sample_schedule(bound, target, np.random.default_rng(seed), varied=True, lanes="all")
        scheduled = ScheduledPipeline(bound, schedule, target)
        texts.append(scheduled.source())
        if seed < 4:
            scheduled.compile("cuda")
    for word in ("LOAD_VECTOR(", "SHARED("):
        assert any(word in text for text in texts), word


def test_witnesses_agree_on_every_operation() -> None:
    """With the functions that libraries round differently left out."""
    p, y, r = Input("p", bfloat16, 2), Var("y"), RDom("r", k=5)
    f, out = Func("f"), Func("out")
    f[y, x] = a.select(p[y, x] > 0.5, a.sqrt(p[y, x]) // 0.25, p[y, x] % 0.3 - a.round(p[y, x] * 7)) / 7
    best = a.argmax(f[y, x + r.k], over=r)[0]
    out[y, x] = (a.sum(f[y, x + r.k], over=r), a.minimum(f[y, x + r.k], over=r), best)
    bound = bind(Pipeline(out.over(y=(0, 13), x=(0, 70))), {"p": (13, 74)})
    inputs = {"p": np.random.default_rng(3).standard_normal((13, 74)).astype(bfloat16.numpy)}
    expected = a.interpret(bound.pipeline, inputs)
    for target, backend in ((get_target("cpu"), "cpu"), (get_target("h200"), "emulator")):
        for seed in range(6):
            schedule = sample_schedule(bound, target, np.random.default_rng(seed), varied=True)
            if schedule.reassociates:
                continue
            found = ScheduledPipeline(bound, schedule, target).compile(backend)(inputs)
            for name, array in zip(expected, found, strict=True):
                assert_same_numbers(array, expected[name], f"{backend} {seed} {name}")
