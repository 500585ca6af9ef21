"""The backend together with other parts of PyTorch."""

from __future__ import annotations

import threading
import tomllib
from pathlib import Path
from typing import Any

import pytest
import torch

import autosched.torch
from autosched.errors import InputError
from autosched.torch.backend import TORCH, check_version
from tests.torch_backend.compiled import FAST, compiled

Tensor = torch.Tensor


def smooth(x: Tensor) -> Tensor:
    return torch.sigmoid(x) * 2 + x.mean(-1, keepdim=True)


def test_fullgraph() -> None:
    x = torch.rand(3, 4)
    torch.testing.assert_close(compiled(smooth, fullgraph=True)(x), smooth(x))


def test_vmap_and_grad_inside() -> None:
    def function(x: Tensor, y: Tensor) -> Any:
        products = torch.func.vmap(lambda a, b: (a * b).sum(), in_dims=(0, None))(x, y)
        return products, torch.func.vmap(torch.func.grad(lambda a: torch.sin(a).sum()))(x)

    x, y = torch.rand(3, 4), torch.rand(4)
    torch.testing.assert_close(compiled(function)(x, y), function(x, y))


def test_vmap_outside() -> None:
    x = torch.rand(3, 4)
    torch.testing.assert_close(torch.func.vmap(compiled(torch.sin))(x), torch.sin(x))


def test_nested_compilation() -> None:
    inner = torch.compile(smooth, backend="autosched", options=FAST)
    x = torch.rand(3, 4)
    torch.testing.assert_close(compiled(lambda x: inner(x) + 1)(x), smooth(x) + 1)
    torch.testing.assert_close(inner(x), smooth(x))


def test_two_threads_compile_once() -> None:
    f = compiled(smooth)
    f(torch.rand(2, 3))  # Dynamo's own compilation
    x = torch.rand(5, 4)
    f(torch.rand(3, 5))
    results: list[Tensor] = []
    barrier = threading.Barrier(2)

    def call() -> None:
        barrier.wait()
        results.append(f(x))

    with autosched.torch.explanation.recording() as record:
        torch._dynamo.reset()
        f(x[:2])
        f(x[:3])
    region = record[-1][1][0]
    before = region.compilations
    threads = [threading.Thread(target=call) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for result in results:
        torch.testing.assert_close(result, smooth(x))
    assert len(results) == 2
    assert region.compilations == before + 1


def test_exported_programs() -> None:
    class Module(torch.nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return smooth(x)

    x = torch.rand(3, 4)
    program = torch.export.export(Module(), (x,))
    torch.testing.assert_close(compiled(program.module())(x), smooth(x))


def test_autocast() -> None:
    def function(x: Tensor, w: Tensor) -> Tensor:
        return torch.sin(x @ w) * 2

    x, w = torch.rand(4, 5), torch.rand(5, 3)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        expected = function(x, w)
        torch.testing.assert_close(compiled(function)(x, w), expected)
    assert expected.dtype == torch.bfloat16


def test_meta_tensors_and_fake_tensors_reach_no_code() -> None:
    f = compiled(smooth)
    f(torch.rand(3, 4))
    with autosched.torch.explanation.recording() as record:
        torch._dynamo.reset()
        f(torch.rand(3, 4))
    region = record[0][1][0]
    with torch._subclasses.FakeTensorMode() as mode:
        fake = torch.empty(3, 4)
    result = region(fake)
    assert isinstance(result[0] if isinstance(result, tuple) else result, torch._subclasses.FakeTensor)
    with mode:
        region(fake)


def test_deterministic_algorithms_leave_accumulations() -> None:
    def function(x: Tensor, i: Tensor) -> Tensor:
        return torch.zeros(5).index_put((i,), x * 2, accumulate=True) + 1

    x, i = torch.rand(6), torch.tensor([0, 1, 1, 4, 4, 4])
    torch.use_deterministic_algorithms(True)
    try:
        report = autosched.torch.explain(function, x, i, options=FAST)
        torch.testing.assert_close(compiled(function)(x, i), function(x, i))
    finally:
        torch.use_deterministic_algorithms(False)
    (reason,) = [reason for g in report.graphs for name, reason in g.left if "index_put" in name]
    assert "fixed order" in reason or "no translation" in reason


def test_graph_breaks_are_those_of_the_call() -> None:
    def broken(x: Tensor) -> Tensor:
        y = x * 2
        torch._dynamo.graph_break()
        return y + 1

    x = torch.rand(3)
    assert len(autosched.torch.explain(broken, x, options=FAST).breaks) == 1
    assert autosched.torch.explain(smooth, x, options=FAST).breaks == ()
    assert len(autosched.torch.explain(broken, x, options=FAST).breaks) == 1


def test_an_error_ends_the_record() -> None:
    def failing(x: Tensor) -> Tensor:
        raise ValueError("of the function")

    with pytest.raises(ValueError, match="of the function"):
        autosched.torch.explain(failing, torch.rand(3), options=FAST)
    assert autosched.torch.explanation.current_record() is None


def test_another_version_of_pytorch_is_refused() -> None:
    check_version(torch.__version__)
    with pytest.raises(InputError, match=r"needs PyTorch 2\.11 or 2\.13, this is 2\.4\.1: install torch==2\.13\.\*"):
        check_version("2.4.1")
    check_version("2.11.0+cu130")
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())
    (requirement,) = project["project"]["optional-dependencies"]["torch-compile"]
    assert requirement == f"torch>={TORCH[0]},!=2.12.*,<2.14" and TORCH[-1] == "2.13"
