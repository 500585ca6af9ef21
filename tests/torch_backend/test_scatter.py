"""Updates at indices from tensors, and gradients of gathers, against eager PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from autosched.torch.lowerings import LOWERINGS
from tests.torch_backend.differential import FAST, compare, left_to_torch, random

ROWS = torch.tensor([2, 0, 2, 1, 2])
PLACES = torch.tensor([[0, 2, 2, 1], [1, 1, 0, 3], [4, 4, 4, 0]])
MASK = torch.tensor([True, False, True, True, False, False])

Form = tuple[Callable[..., Any], tuple[int, ...], tuple[int, ...]]

FORMS: dict[str, Form] = {
    "scatter": (lambda a, b: torch.scatter(a, 1, PLACES.unique(dim=1)[:, :1], b[:3, :1]), (3, 6), (3, 4)),
    "scatter of a number": (lambda a, b: torch.scatter(a, 1, PLACES, 2.5) * b, (3, 6), (3, 6)),
    "scatter by add": (lambda a, b: torch.scatter(a.detach(), 1, PLACES, 2.0, reduce="add") * b, (3, 6), (1,)),
    "scatter_add": (lambda a, b: torch.scatter_add(a, 1, PLACES, b), (3, 6), (3, 4)),
    "scatter_add of rows": (lambda a, b: torch.scatter_add(a, 0, PLACES, b), (5, 6), (3, 4)),
    "scatter_add of fewer rows": (lambda a, b: torch.scatter_add(a, 1, PLACES[:2], b), (3, 6), (2, 4)),
    "scatter_add of nothing in more dimensions": (
        lambda a, b: torch.scatter_add(a, 0, PLACES[:, :0], b), (6,), (3, 0),
    ),
    "scatter_add of nothing": (lambda a, b: torch.scatter_add(a, 1, PLACES[:, :0], b), (3, 6), (3, 0)),
    "scatter_add to a number": (lambda a, b: torch.scatter_add(a, 0, torch.tensor(0), b), (), ()),
    "gather": (lambda a, b: torch.gather(a, -1, PLACES) * b, (3, 6), (3, 4)),
    "gather of a number": (lambda a, b: torch.gather(a, 0, PLACES[0, :1] * 0) * b, (), (1,)),
    "gather of nothing from a number": (lambda a, b: torch.gather(a, 0, PLACES[0, :0]) * b, (), (1,)),
    "index": (lambda a, b: a[ROWS] * b, (3, 6), (6,)),
    "index of negative numbers": (lambda a, b: a[ROWS - 3] * b, (3, 6), (6,)),
    "index of two dimensions": (lambda a, b: a[:, ROWS, ROWS] * b, (2, 3, 4), (5,)),
    "index of separate dimensions": (lambda a, b: a[ROWS, :, ROWS] * b, (3, 2, 4), (2,)),
    "index of a matrix": (lambda a, b: a[:, PLACES] * b, (2, 6), (4,)),
    "index of int32": (lambda a, b: a[:, ROWS.int()] * b, (2, 6), (5,)),
    "index of nothing": (lambda a, b: a[:, ROWS[:0]] * b, (2, 6), (1,)),
    "index of a number": (lambda a, b: a[torch.tensor(1)] * b, (2, 6), (6,)),
    "index_put": (lambda a, b: torch.index_put(a, (torch.tensor([1, 0]),), b), (3, 6), (2, 6)),
    "index_put of a row": (lambda a, b: torch.index_put(a, (torch.tensor([1, 0]),), b), (3, 6), (6,)),
    "index_put that accumulates": (lambda a, b: torch.index_put(a, (ROWS, ROWS), b, accumulate=True), (3, 6), (5,)),
    "index_put by a mask": (lambda a, b: torch.index_put(a, (MASK,), b[0, 0]), (6, 2), (2, 2)),
    "index_put of rows by a mask": (lambda a, b: torch.index_put(a, (MASK,), b, accumulate=True), (6, 2), (1, 2)),
    "index_add": (lambda a, b: torch.index_add(a, 1, ROWS, b, alpha=0.5), (2, 3), (2, 5)),
    "index_copy": (lambda a, b: torch.index_copy(a, 0, torch.tensor([2, 0]), b), (3, 4), (2, 4)),
    "index_fill": (lambda a, b: torch.index_fill(a, 1, ROWS, 3.0) * b, (2, 5), (2, 1)),
    "index_select": (lambda a, b: torch.index_select(a, 1, ROWS) * b, (2, 5), (2, 1)),
    "embedding": (lambda a, b: torch.nn.functional.embedding(PLACES, a) * b, (5, 3), (3,)),
    "embedding with padding": (lambda a, b: torch.nn.functional.embedding(PLACES, a, 1) * b, (5, 3), (3,)),
    "slice_scatter": (lambda a, b: torch.slice_scatter(a, b, 1, 1, 6, 2), (2, 7), (2, 3)),
    "slice_scatter of all": (lambda a, b: torch.slice_scatter(a, b, 1), (2, 3), (2, 3)),
    "select_scatter": (lambda a, b: torch.select_scatter(a, b, 0, -1), (4, 3), (3,)),
    "diagonal_scatter": (lambda a, b: torch.diagonal_scatter(a, b, 1), (4, 5), (4,)),
    "diagonal_scatter below": (lambda a, b: torch.diagonal_scatter(a, b, -2), (5, 5), (3,)),
    "slices": (lambda a, b: a[:, 1::2] * b, (2, 7), (3,)),
    "diagonal": (lambda a, b: torch.diagonal(a, -1) * b, (4, 5), (3,)),
    "maximum": (lambda a, b: a.max(1)[0] * b, (3, 5), (3,)),
    "unfold": (lambda a, b: a.unfold(1, 3, 2) * b, (2, 7), (3,)),
    "windows": (lambda a, b: torch.nn.functional.unfold(a, (3, 2), padding=1, stride=2) * b, (1, 2, 5, 6), (1,)),
    "sum of windows": (lambda a, b: torch.nn.functional.fold(a * b, (5, 6), 3, padding=1), (1, 18, 30), (30,)),
    "triangles": (lambda a, b: torch.triu(a, 1) + torch.tril(b, -1), (4, 5), (4, 5)),
    "flip": (lambda a, b: a.flip(0, 1) * b, (4, 5), (5,)),
    "repeated": (lambda a, b: a.repeat_interleave(3, 1) * b, (2, 3), (9,)),
    "classes": (lambda a, b: torch.nn.functional.cross_entropy(a * b, ROWS[:3]), (3, 4), (4,)),
}  # fmt: skip
REDUCTIONS = ("sum", "prod", "mean", "amax", "amin")
COMPILED = ("scatter_add", "scatter_add of fewer rows", "index of separate dimensions", "index_put that accumulates",
            "embedding with padding", "slice_scatter", "windows")  # fmt: skip


@pytest.mark.parametrize("name", FORMS)
def test_the_interpreter_gives_eager_results(name: str) -> None:
    function, *shapes = FORMS[name]
    a, b = (random(*shape, seed=k) for k, shape in enumerate(shapes))
    record = compare(function, a, b, witness="interpreter")
    assert not left_to_torch(record)


@pytest.mark.parametrize("witness", ["cpu", "emulator"])
@pytest.mark.parametrize("name", COMPILED)
def test_compiled_updates_give_eager_results(name: str, witness: Any) -> None:
    function, *shapes = FORMS[name]
    a, b = (random(*shape, seed=k) for k, shape in enumerate(shapes))
    compare(function, a, b, witness=witness)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16])
def test_updates_of_other_types(dtype: torch.dtype) -> None:
    for name in ("scatter_add", "index", "index_add"):
        function, *shapes = FORMS[name]
        compare(function, *(random(*shape, dtype=dtype) for shape in shapes), witness="interpreter")


@pytest.mark.parametrize("includes", [True, False])
@pytest.mark.parametrize("reduce", REDUCTIONS)
def test_scatter_reduce(reduce: str, includes: bool) -> None:
    def function(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return torch.scatter_reduce(a, 1, PLACES, b, reduce, include_self=includes)

    record = compare(function, random(3, 6), random(3, 4, seed=1), witness="interpreter")
    assert not left_to_torch(record)
    integers = torch.arange(18).reshape(3, 6) - 7, torch.arange(12).reshape(3, 4) * 5 - 20
    compare(function, *integers, witness="interpreter")


def test_a_mask_of_several_values_stays_torchs() -> None:
    unsupported = LOWERINGS[torch.ops.aten.index_put.default].unsupported
    assert unsupported is not None
    reason = unsupported(torch.zeros(6), [MASK], torch.zeros(3))
    assert reason == "an index by a mask: its size depends on data"
    assert unsupported(torch.zeros(6), [MASK], torch.zeros(1)) is None


def test_an_index_out_of_range_raises() -> None:
    function = torch.compile(
        lambda a, i, b: torch.scatter_add(a, 0, i, b),
        backend="autosched",
        options={"strategy": "roots", "fallback": "error"},
    )
    a, b = torch.zeros(4), torch.ones(3)
    torch.testing.assert_close(function(a, torch.tensor([3, 3, 0]), b), torch.tensor([1.0, 0, 0, 2]))
    for wrong in (4, -1):
        with pytest.raises(IndexError, match="4 elements"):
            function(a, torch.tensor([0, wrong, 1]), b)


@pytest.mark.parametrize("operator", [torch.index_add, torch.index_copy])
def test_negative_indices_of_slices_are_errors(operator: Callable[..., torch.Tensor]) -> None:
    torch._dynamo.reset()
    fast = torch.compile(lambda a, i, b: operator(a, 0, i, b), backend="autosched", options=FAST)
    a, b = torch.zeros(4, 2), torch.ones(2, 2)
    torch.testing.assert_close(fast(a, torch.tensor([3, 0]), b), operator(a, 0, torch.tensor([3, 0]), b))
    for wrong in (-1, 4):
        with pytest.raises(IndexError, match="4 elements"):
            fast(a, torch.tensor([1, wrong]), b)


def test_slices_of_numbers() -> None:
    compare(
        lambda a, b: torch.index_add(a, 0, torch.tensor(0), b, alpha=2), random(), random(seed=1), witness="interpreter"
    )
    compare(
        lambda a, b: torch.index_copy(a, 0, torch.tensor([0]), b), random(1), random(1, seed=1), witness="interpreter"
    )


def test_sums_have_one_order_under_deterministic_algorithms() -> None:
    generator = torch.Generator().manual_seed(0)
    index = torch.randint(0, 7, (20_000,), generator=generator)
    values = torch.randn(20_000, generator=generator)

    def function(i: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return torch.zeros(7).index_add(0, i, v)

    torch.use_deterministic_algorithms(True)
    try:
        torch._dynamo.reset()
        fast = torch.compile(function, backend="autosched", options={"fallback": "error"})
        results = [fast(index, values) for _ in range(5)]
    finally:
        torch.use_deterministic_algorithms(False)
    torch.testing.assert_close(results[0], function(index, values), rtol=1e-4, atol=1e-3)
    assert all(torch.equal(results[0], result) for result in results)
