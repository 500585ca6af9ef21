"""Ranges of integer tensors."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from autosched.lang import functions as fn
from autosched.lang.expr import Expr
from autosched.lang.func import Input
from autosched.lang.operators import as_expr
from autosched.torch.lowerings.value_range import is_bounded, value_range
from autosched.torch.tensors import TensorValue

DATA, BYTES, REAL = Input("data", "int64", 1), Input("bytes", "uint8", 1), Input("real", "float32", 1)
N = 6


def tensor(element: Callable[[Expr], Expr], dtype: torch.dtype = torch.int64) -> TensorValue:
    return TensorValue(torch.empty(N, dtype=dtype), lambda p: fn.cast(str(dtype)[6:], element(as_expr(p[0]))))


@pytest.mark.parametrize(
    ("element", "expected"),
    [
        (lambda i: i * 2 + 1, (1, 11)),
        (lambda i: (i * 3 - 1) // 2, (-1, 7)),
        (lambda i: DATA[i] % 5, (0, 4)),
        (lambda i: fn.clamp(DATA[i], -2, 7), (-2, 7)),
        (lambda i: fn.cast("int64", BYTES[i]) - 10, (-10, 245)),
        (lambda i: fn.cast("int64", fn.clamp(fn.floor(REAL[i]), 0, 8)), (0, 8)),
        (lambda i: fn.select(fn.clamp(DATA[i], -4, 3) < 0, fn.clamp(DATA[i], -4, 3) + 4, fn.clamp(DATA[i], -4, 3)),
         (0, 3)),
        (lambda i: DATA[i], None),
        (lambda i: DATA[i] + 1, None),
    ],
)  # fmt: skip
def test_ranges_follow_from_expressions(element: Callable[[Expr], Expr], expected: tuple[int, int] | None) -> None:
    assert value_range(tensor(element)) == expected


def test_funcs_are_followed() -> None:
    first = tensor(lambda i: fn.clamp(DATA[i], 0, 9)).stored("first")
    second = TensorValue(first.fake, lambda p: first.at((as_expr(p[0]),)) + 2).stored("second")
    assert value_range(second) == (2, 11)


def test_loads_alone_do_not_save_a_clamp() -> None:
    stored = tensor(lambda i: fn.clamp(REAL[i], 0, 9)).stored("stored")
    assert not is_bounded(stored, 10)
    assert is_bounded(tensor(lambda i: i + 2), N + 2)
    assert not is_bounded(tensor(lambda i: i + 2), N + 1)


def test_conditions_alone_do_not_save_a_clamp() -> None:
    element = DATA[as_expr(0)] % 7 - 3
    wrapped = tensor(lambda _: fn.select(element < 0, element + 4, element))
    assert value_range(wrapped) == (0, 3)
    assert not is_bounded(wrapped, 4)


def test_tensors_without_elements_have_no_range() -> None:
    assert value_range(TensorValue(torch.empty(0, dtype=torch.int64), lambda p: as_expr(0))) is None
    assert value_range(tensor(lambda i: REAL[i], torch.float32)) is None
