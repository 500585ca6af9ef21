"""Sizes and numbers that change from call to call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch._dynamo.testing import CompileCounterWithBackend

import autosched.torch
from autosched.torch.lowerings import LOWERINGS
from autosched.torch.lowerings.registry import Entry
from tests.torch_backend.compiled import FAST, compiled

Tensor = torch.Tensor


def stencil(x: Tensor) -> Tensor:
    padded = torch.nn.functional.pad(x, (1, 1), mode="circular") if x.ndim > 1 else x
    return (padded[..., 1:] - padded[..., :-1]) * x.shape[-1]


def test_eight_sizes_need_two_graphs_and_a_version_each() -> None:
    f = compiled(lambda x: torch.tanh(x) * 2)
    with autosched.torch.explanation.recording() as record:
        for n in (4, 5, 7, 8, 9, 12, 15, 16):
            x = torch.rand(n, n + 1)
            for _ in range(2):
                torch.testing.assert_close(f(x), torch.tanh(x) * 2)
    assert [regions[0].compilations for _, regions in record] == [1, 7]


@pytest.mark.parametrize("size", [0, 1, 2])
@pytest.mark.parametrize("dynamic", [True, False, None])
def test_sizes_of_zero_and_one(size: int, dynamic: bool | None) -> None:
    f = compiled(stencil, dynamic=dynamic)
    for n in (5, size, 6):
        x = torch.rand(3, n)
        torch.testing.assert_close(f(x[:, :, None].expand(3, n, 2)), stencil(x[:, :, None].expand(3, n, 2)))


def test_marked_dimensions_and_symbolic_backward_graphs() -> None:
    def function(x: Tensor, w: Tensor) -> Tensor:
        return (torch.sin(x * w) / x.shape[0]).sum()

    f = compiled(function)
    with autosched.torch.explanation.recording() as record:
        for n in (3, 5, 8):
            x, w = torch.rand(n, 4, requires_grad=True), torch.rand(4, requires_grad=True)
            torch._dynamo.mark_dynamic(x, 0)
            torch.testing.assert_close(
                torch.autograd.grad(f(x, w), (x, w)), torch.autograd.grad(function(x, w), (x, w))
            )
    assert len(record) == 2  # forward and backward, once
    assert [len(r.versions) for _, regions in record for r in regions] == [3] * sum(len(r) for _, r in record)


def guards_of(function: Callable[..., Any], backend: Any, *args: Any) -> list[str]:
    """Return the guards of sizes that a compilation adds."""
    torch._dynamo.reset()
    guards: list[str] = []
    torch.compile(function, backend=backend, dynamic=True)(*args)
    for entry in torch._dynamo.eval_frame._debug_get_cache_entry_list(function.__code__):  # type: ignore[attr-defined]
        guards += [str(g) for g in entry.guard_manager.code_parts if "size" in str(g) or "stride" in str(g)]
    return sorted(guards)


def test_no_guard_is_added(monkeypatch: pytest.MonkeyPatch) -> None:
    def function(x: Tensor, w: Tensor) -> Tensor:
        return (stencil(x) @ w).amax(0) + x.shape[0]

    asked: list[bool] = []

    def depends_on_sizes(a: Tensor, *_: Any) -> None:
        asked.append(int(a.shape[0]) > 3)

    operator = torch.ops.aten.amax.default
    monkeypatch.setitem(LOWERINGS, operator, Entry(LOWERINGS[operator].lower, depends_on_sizes))
    x, w = torch.rand(6, 7), torch.rand(8, 2)
    expected = guards_of(function, "aot_eager", x, w)
    assert guards_of(function, "autosched", x, w) == expected
    assert expected
    assert asked


def test_integers_and_floats_as_arguments() -> None:
    def function(x: Tensor, n: int, a: float) -> Tensor:
        return x * a + n

    f = compiled(function)
    x = torch.rand(4)
    for n, a in ((2, 0.5), (3, 0.25), (5, 0.75), (7, 1.5)):
        torch.testing.assert_close(f(x, n, a), function(x, n, a))


def test_a_float_of_each_call_needs_no_new_code() -> None:
    f = compiled(lambda x, a: torch.sin(x) * a)
    x = torch.rand(4)
    with autosched.torch.explanation.recording() as record:
        for a in (0.1, 0.2, 0.3, 0.4, 0.5, 0.6):
            torch.testing.assert_close(f(x, a), torch.sin(x) * a)
    assert len(record) <= 2
    assert sum(r.compilations for _, regions in record for r in regions) <= 3


def test_numbers_of_data() -> None:
    def function(x: Tensor) -> Tensor:
        n = x.sum().item()
        return torch.sin(x) * n

    x = torch.tensor([1.0, 2.0, 3.0])
    with torch._dynamo.config.patch(capture_scalar_outputs=True):
        torch.testing.assert_close(compiled(function)(x), function(x))
    torch.testing.assert_close(compiled(function)(x), function(x))


def test_sizes_of_data_stay_pytorch_s() -> None:
    def function(x: Tensor) -> Tensor:
        return torch.sin(x[x > 0.5]) + 1

    x = torch.rand(20)
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        torch.testing.assert_close(compiled(function)(x), function(x))
        report = autosched.torch.explain(function, x, options=FAST)
    assert "depends on data" in str(report)


def test_compilations_of_dynamo_are_counted() -> None:
    counter = CompileCounterWithBackend("autosched")
    torch._dynamo.reset()
    f = torch.compile(lambda x: x * 3, backend=counter, dynamic=True)
    for n in (2, 3, 4, 5):
        torch.testing.assert_close(f(torch.ones(n)), torch.full((n,), 3.0))
    assert counter.frame_count == 1
