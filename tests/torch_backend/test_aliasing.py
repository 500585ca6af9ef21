"""Writes to inputs, views of inputs and outputs, and memory that is read in place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import autosched.torch
from autosched.torch.host_code import HostCode
from tests.torch_backend.compiled import FAST, compiled

Tensor = torch.Tensor


def add_in_place(x: Tensor) -> Tensor:
    x.add_(1)
    return x * 2


def copy_in_place(x: Tensor) -> Tensor:
    old = x * 3
    x.copy_(torch.flip(x, (0,)))
    return old + x


def write_to_view(x: Tensor) -> Tensor:
    x[1:].mul_(2)
    x.view(-1)[0] = 7
    return x.sum()


def write_after_late_read(x: Tensor) -> Tensor:
    """Read the input behind an operator of PyTorch's, after a write in the program's order of memory."""
    old = torch.erfinv(x * 0.1)
    result = old * x
    x.mul_(2)
    return result


def views_of_input(x: Tensor) -> Any:
    return x[1:], x.t(), x * 2


def views_of_each_other(x: Tensor) -> Any:
    y = x * 2
    return y, y[0], y.reshape(-1), y


def same_output_twice(x: Tensor) -> Any:
    y = x + 1
    return y, y, x


FUNCTIONS: list[Callable[[Tensor], Any]] = [
    add_in_place, copy_in_place, write_to_view, write_after_late_read, views_of_input, views_of_each_other,
    same_output_twice,
]  # fmt: skip


def storages(*tensors: Any) -> list[int]:
    """Return numbers that are equal for tensors of one storage."""
    flat = torch.utils._pytree.tree_leaves(tensors)
    at = [t.untyped_storage().data_ptr() for t in flat]
    return [at.index(a) for a in at]


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_writes_and_views_are_those_of_eager(function: Callable[[Tensor], Any]) -> None:
    x = torch.rand(4, 5)
    given = [x.clone(), x.clone()]
    expected, result = function(given[0]), compiled(function)(given[1])
    torch.testing.assert_close(result, expected, check_stride=True)
    torch.testing.assert_close(given[1], given[0])
    assert storages(given[1], result) == storages(given[0], expected)


def test_set_replaces_the_memory_of_an_input() -> None:
    def function(x: Tensor, y: Tensor) -> Tensor:
        with torch.no_grad():
            x.set_(y)
        return x * 2

    x, y = torch.zeros(3), torch.rand(3)
    torch.testing.assert_close(compiled(function)(x, y), y * 2)
    assert x.data_ptr() == y.data_ptr()


def test_one_tensor_may_be_two_arguments() -> None:
    def function(x: Tensor, y: Tensor) -> Tensor:
        x.add_(1)
        return x * y

    x, other = torch.rand(5), torch.rand(5)
    expected = (x + 1) * (x + 1)
    f = compiled(function)
    torch.testing.assert_close(f(other, torch.ones(5)), other)
    torch.testing.assert_close(f(x, x), expected)
    base = torch.rand(6)
    expected = base.clone()
    result = function(expected[1:], expected[:-1])
    torch.testing.assert_close(compiled(function)(base[1:], base[:-1]), result)  # PyTorch has no guard on overlap
    torch.testing.assert_close(base, expected)


def read_addresses(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list that gets the addresses of all arguments that are read in memory."""
    read: list[int] = []
    compute = HostCode._compute

    def spy(self: HostCode, pointers: Any) -> None:
        read.extend(pointers[at] for at, _, _ in self._arguments)
        compute(self, pointers)

    monkeypatch.setattr(HostCode, "_compute", spy)
    return read


@pytest.mark.parametrize(
    "made",
    [
        lambda x: x,
        lambda x: x.to(memory_format=torch.channels_last),
        lambda x: x[:, :, ::2, 1:],
        lambda x: x[:, :1].expand(2, 3, 12, 16),
        lambda x: x.transpose(1, 3),
        lambda x: x.flatten()[1:],
    ],
    ids=["contiguous", "channels last", "slice", "expanded", "transposed", "odd start"],
)
def test_inputs_are_not_copied(made: Callable[[Tensor], Tensor], monkeypatch: pytest.MonkeyPatch) -> None:
    read = read_addresses(monkeypatch)
    x = made(torch.rand(2, 3, 12, 16))
    torch.testing.assert_close(compiled(lambda x: x * 2 + 1)(x), x * 2 + 1, check_stride=True)
    assert read == [x.data_ptr()]


def test_elements_at_odd_addresses_are_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    read = read_addresses(monkeypatch)
    x = torch.frombuffer(bytearray(4 * 100 + 1), dtype=torch.float32, offset=1)
    x.copy_(torch.rand(100))
    assert x.data_ptr() % 4
    torch.testing.assert_close(compiled(lambda x: x * 2 + 1)(x), x * 2 + 1)
    assert read[-1] % 4 == 0


def test_negated_views_are_read_with_their_sign() -> None:
    x = torch.complex(torch.rand(4), torch.rand(4)).conj().imag
    assert x.is_neg()
    torch.testing.assert_close(compiled(lambda x: x * 2)(x), (x * 2).resolve_neg())


def test_views_at_the_end_of_a_region_are_views() -> None:
    """A transposition between a region and an operator of PyTorch's needs no memory of its own."""

    def function(x: Tensor) -> Tensor:
        return torch.sort((x * 2).t())[0]

    x = torch.rand(4, 6)
    torch.testing.assert_close(compiled(function)(x), function(x))
    with autosched.torch.explanation.recording() as record:
        torch._dynamo.reset()
        torch.compile(function, backend="autosched", options=FAST)(x)
    regions = record[0][1]
    assert [str(n.target) for r in regions for n in r.graph.graph.nodes if n.op == "call_function"] == [
        "aten.mul.Tensor"
    ]
