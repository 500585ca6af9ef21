"""Elementary functions, division, shifts and powers of ATen graphs: corner cases against eager, CUDA text by NVRTC."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch._decomp import core_aten_decompositions
from torch.fx.experimental.proxy_tensor import make_fx

import autosched
from autosched.runtime.compile.nvrtc import have_nvrtc
from autosched.torch.options import Options
from autosched.torch.region_code import compile_region
from autosched.torch.tensors import UnsupportedError
from autosched.torch.translation import translate

aten = torch.ops.aten
OPTIONS = Options(strategy="roots", fallback="error")
NAN, INFINITY = float("nan"), float("inf")
SPECIAL = torch.tensor([NAN, INFINITY, -INFINITY, 0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 3.5, 1e-30, 1e30])
INTEGERS = (torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8)


def corners(dtype: torch.dtype) -> torch.Tensor:
    info = torch.iinfo(dtype)
    numbers = {info.min, info.min + 1, info.max, info.max - 1, 0, 1, 2, 3, 7}
    return torch.tensor(sorted(numbers | ({-1, -2, -7} if info.min else set())), dtype=dtype)


def compared(function: Callable[..., Any], *tensors: torch.Tensor) -> None:
    graph = make_fx(function, core_aten_decompositions())(*tensors)
    ours = compile_region(graph, tensors, OPTIONS)(*tensors)
    torch.testing.assert_close(ours, function(*tensors), equal_nan=True)


@pytest.mark.parametrize(
    "name",
    ["acosh", "asinh", "atanh", "cosh", "erf", "erfc", "exp2", "expm1", "log10", "log1p", "log2", "sinh", "angle",
     "signbit", "elu", "leaky_relu", "hardtanh"],
)  # fmt: skip
def test_functions_of_special_numbers(name: str) -> None:
    compared(getattr(aten, name).default, SPECIAL)


@pytest.mark.parametrize("dtype", [*INTEGERS, torch.float16, torch.bfloat16, torch.float32])
def test_counting_by_steps_that_are_no_integers(dtype: torch.dtype) -> None:
    a = corners(dtype)[:1] if dtype in INTEGERS else torch.zeros(1, dtype=dtype)
    for bounds in ((-0.9, 2.1, 2.0), (2.1, -2.9, -1.0), (0.1, 12.0, 1.5), (0.0, 9000.0, 3.25)):
        compared(functools.partial(lambda bounds, a: aten.arange.start_step(*bounds, dtype=dtype) + a, bounds), a)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_sums_with_a_multiple_are_rounded_once(dtype: torch.dtype) -> None:
    a, b = (torch.rand(1000, generator=torch.Generator().manual_seed(k), dtype=torch.float64).to(dtype) for k in (1, 2))
    for operator in (aten.add.Tensor, aten.sub.Tensor):
        graph = make_fx(functools.partial(operator, alpha=3))(a, b)
        expected = operator(a.float(), b.float(), alpha=3).to(dtype)  # eager PyTorch, but for its remainders of vectors
        assert torch.equal(compile_region(graph, (a, b), OPTIONS)(a, b), expected)


@pytest.mark.parametrize("dtype", [torch.bool, torch.int16, torch.float32])
def test_sums_and_products_of_bools(dtype: torch.dtype) -> None:
    a = torch.tensor([[0, 3, 0], [1, 2, 5], [0, 0, 0]]).to(dtype)
    compared(lambda a: (aten.sum.default(a, dtype=torch.bool), aten.prod.default(a, dtype=torch.bool)), a)
    compared(lambda a: aten.sum.dim_IntList(a, [1], dtype=torch.bool), a)
    compared(lambda a: aten.prod.dim_int(a, 1, dtype=torch.bool), a)


@pytest.mark.parametrize("approximate", ["none", "tanh"])
def test_gaussian_error_linear_unit(approximate: str) -> None:
    # PyTorch's vectors give NaN for infinity, and its scalar function infinity.
    compared(lambda a: torch.nn.functional.gelu(a, approximate=approximate), SPECIAL[~SPECIAL.isinf()])


@pytest.mark.parametrize("name", ["copysign", "fmod", "remainder", "fmin", "fmax"])
def test_two_special_numbers(name: str) -> None:
    operator = getattr(aten, name)
    compared(operator.Tensor if "Tensor" in operator.overloads() else operator.default, SPECIAL[:, None], SPECIAL)


@pytest.mark.parametrize("mode", ["floor", "trunc"])
def test_rounded_quotients_of_special_numbers(mode: str) -> None:
    compared(lambda a, b: torch.div(a, b, rounding_mode=mode), SPECIAL[:, None], SPECIAL)


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_division_of_integers(dtype: torch.dtype) -> None:
    a, b = corners(dtype)[:, None], corners(dtype)
    b = b[(b != 0) & (b != -1)]  # the smallest integer divided by -1 traps
    for function in (
        lambda a, b: torch.div(a, b, rounding_mode="floor"), lambda a, b: torch.div(a, b, rounding_mode="trunc"),
        torch.remainder, torch.fmod,
    ):  # fmt: skip
        compared(function, a, b)


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_powers_and_shifts_of_integers(dtype: torch.dtype) -> None:
    a, b = corners(dtype)[:, None], corners(dtype)
    compared(torch.pow, a, b)
    compared(lambda a: a**11, a)
    count = torch.tensor([0, 1, 3, 7], dtype=dtype)
    compared(torch.bitwise_left_shift, a, count)
    compared(torch.bitwise_right_shift, a, torch.cat([count, torch.tensor([100], dtype=dtype)]))


@pytest.mark.parametrize("function", [torch.remainder, torch.fmod, torch.floor_divide], ids=lambda f: f.__name__)
def test_a_zero_divisor_of_integers_raises(function: Callable[..., Any]) -> None:
    a, b = torch.tensor([7, 8]), torch.tensor([2, 3])
    graph = make_fx(function, core_aten_decompositions())(a, b)
    code = compile_region(graph, (a, b), OPTIONS)
    assert torch.equal(code(a, b), function(a, b))
    for divide in (code, function):
        with pytest.raises(RuntimeError, match="ZeroDivisionError"):
            divide(a, torch.tensor([2, 0]))


def test_a_divisor_that_is_the_number_zero_is_left_to_pytorch() -> None:
    graph = make_fx(lambda a: torch.remainder(a, 3))(torch.ones(2, dtype=torch.int64))
    for node in graph.graph.nodes:
        if node.op == "call_function":
            node.args = (node.args[0], 0)
    with pytest.raises(UnsupportedError, match="by zero"):
        translate(graph, (torch.ones(2, dtype=torch.int64),))


def test_extreme_places_of_whole_tensors_and_numbers() -> None:
    a = torch.tensor([[3.0, 7.0, NAN], [9.0, NAN, 1.0]])
    for function in (torch.argmax, torch.argmin):
        compared(function, a)
        compared(function, a[:, :2].contiguous().nan_to_num(2.0))
        compared(function, torch.tensor(4.0))
        compared(functools.partial(function, keepdim=True), a)
    compared(lambda a: torch.softmax(a, 0), torch.tensor(4.0))


def test_slices_are_joined_and_padded() -> None:
    a = torch.arange(120.0).reshape(4, 5, 6)
    compared(lambda a, b, c: torch.cat([a, b, c], 2), a[:, :, :1], a[:, :, 1:4], a[:, :, 5:])
    compared(lambda a: torch.constant_pad_nd(a, [1, 2, 0, 1], 3.0), a[:, ::2, 1:4])
    image = a[None, :3, :, 1:5]
    compared(lambda a: torch.nn.functional.conv2d(a, torch.ones(2, 3, 3, 3), padding=1), image)


@pytest.mark.skipif(not have_nvrtc(), reason="NVRTC is missing")
def test_nvrtc_compiles_the_kernels() -> None:
    def function(a: torch.Tensor, b: torch.Tensor, i: torch.Tensor, j: torch.Tensor) -> Any:
        sums = torch.erf(a) + torch.expm1(b) * torch.log1p(a.abs()) - torch.sinh(a) + torch.copysign(a, b)
        sums = sums + torch.acosh(a.abs() + 1) + torch.asinh(b) + torch.atanh(b) + torch.erfc(a) + torch.cosh(b)
        return sums + torch.exp2(a) + torch.log2(b.abs()) + torch.log10(b.abs()), (i // j) ** j + torch.fmod(i, j)

    floats, integers = torch.rand(8, 32), torch.ones(8, 32, dtype=torch.int64)
    tensors = (floats, floats * 0.5, integers, integers[0])
    translation = translate(make_fx(function, core_aten_decompositions())(*tensors), tensors)
    assert translation.pipeline is not None
    shapes = {slot.name: slot.layout.shape for slot in translation.inputs if slot is not None and slot.name is not None}
    compiled = autosched.schedule(translation.pipeline, shapes, "h200", strategy="roots").compile("cuda")
    assert compiled.resources and all(kernel.registers > 0 for kernel in compiled.resources)
