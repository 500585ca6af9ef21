"""Functions compiled by ``torch.compile(backend="autosched")`` against eager PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch._dynamo.exc import BackendCompilerFailed

import autosched.torch
from autosched.errors import InputError
from autosched.torch import region_code

FAST = {"strategy": "roots", "fallback": "error"}


def compiled(function: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    torch._dynamo.reset()
    return torch.compile(function, backend="autosched", options={**FAST, **options})


def blur(image: torch.Tensor) -> torch.Tensor:
    padded = torch.nn.functional.pad(image, (1, 1, 1, 1), mode="reflect")
    kernel = torch.tensor([[1.0, 2, 1], [2, 4, 2], [1, 2, 1]]).expand(3, 1, 3, 3) / 16
    return torch.nn.functional.conv2d(padded, kernel, groups=3)


FUNCTIONS: dict[str, Callable[[torch.Tensor], Any]] = {
    "blur": blur,
    "normalised": lambda x: (x - x.mean((2, 3), keepdim=True)) / (x.std((2, 3), keepdim=True) + 1e-5),
    "softmax": lambda x: torch.softmax(x * 2, -1) + torch.log_softmax(x, 1),
    "norms": lambda x: (torch.nn.functional.normalize(x, dim=1), x.norm(1, 2), x.norm(float("inf"), (1, 3)), x.norm(3)),
    "views": lambda x: x.flip(-1).roll(3, 2).transpose(1, 2).reshape(2, -1, 4)[:, ::2].unfold(1, 3, 2) * 2,
    "differences": lambda x: torch.cat([x[..., 1:] - x[..., :-1], x[..., :1] * 2], -1),
    "extremes": lambda x: (x.amax((1, 2)), x.argmin(2), x.max(3), (x > 0.5).any(1), (x > 0.01).all(1)),
    "types": lambda x: ((x * 255).to(torch.uint8) // 16, (x.double() ** 2.5).float(), (x > 0.5) + 1),
    "pixels": lambda x: torch.pixel_shuffle(x.repeat(1, 4, 1, 1), 2) + 1,
    "products": lambda x: x[0] @ x[1].transpose(1, 2),
    "gathered": lambda x: torch.gather(x, 3, (x * 7).long()),
    "constants": lambda x: x * torch.linspace(0, 1, x.shape[-1]).outer(torch.ones(2)).sum(1),
    "transposed": lambda x: torch.nn.functional.conv_transpose2d(x, torch.ones(3, 2, 3, 3), stride=2, padding=1),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_results_are_those_of_eager(name: str) -> None:
    x = torch.rand(2, 3, 12, 16, generator=torch.Generator().manual_seed(7))
    torch.testing.assert_close(compiled(FUNCTIONS[name])(x), FUNCTIONS[name](x))


@pytest.mark.parametrize(
    "made",
    [
        lambda x: x.to(memory_format=torch.channels_last),
        lambda x: x[:, :, ::2, 1:],
        lambda x: x[:, :1].expand(2, 3, 12, 16),
        lambda x: x.permute(3, 1, 0, 2),
        lambda x: x[:, :, :0],
        lambda x: x[0, 0, 0, 0],
    ],
    ids=["channels last", "slice", "expanded", "permuted", "empty", "number"],
)
def test_strided_inputs_are_read_in_place(made: Callable[[torch.Tensor], torch.Tensor]) -> None:
    x = made(torch.rand(2, 3, 12, 16))

    def function(x: torch.Tensor) -> torch.Tensor:
        return x * 2 + 1

    result = compiled(function)(x)
    torch.testing.assert_close(result, function(x), check_stride=True)


def test_attention_has_the_strides_of_eager() -> None:
    def function(q: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.scaled_dot_product_attention(q * 2, q, q, is_causal=True)

    q = torch.rand(2, 2, 9, 8)
    torch.testing.assert_close(compiled(function)(q), function(q), check_stride=True)


def test_regions_are_compiled_outside_of_the_modes_of_a_call(monkeypatch: pytest.MonkeyPatch) -> None:
    """A search may train a model."""
    modes = []
    compile_region = region_code.compile_region

    def recorded(*arguments: Any) -> Any:
        modes.append((torch.is_grad_enabled(), torch.is_inference_mode_enabled()))
        return compile_region(*arguments)

    monkeypatch.setattr(region_code, "compile_region", recorded)
    with torch.inference_mode():
        compiled(lambda x: x * 7, reuse=False)(torch.rand(5))
    assert modes == [(True, False)]


def test_gradients_are_those_of_eager() -> None:
    def function(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return (torch.sigmoid(x * w).pow(2).sum(-1) * x[..., 0]).mean()

    x, w = torch.rand(4, 8, requires_grad=True), torch.rand(8, requires_grad=True)
    ours = torch.autograd.grad(compiled(function)(x, w), (x, w))
    torch.testing.assert_close(ours, torch.autograd.grad(function(x, w), (x, w)))


def test_one_region_serves_every_size() -> None:
    sizes = [4, 5, 7, 8, 9, 12, 15, 16]
    f = compiled(lambda x: torch.tanh(x) * 2)
    with autosched.torch.explanation.recording() as record:
        for n in sizes:
            x = torch.rand(n, n + 1)
            torch.testing.assert_close(f(x), torch.tanh(x) * 2)
    assert len(record) == 2  # Dynamo compiles once for the first size, and once for all others
    assert len(record[-1][1][0].versions) == len(sizes) - 1


def test_an_index_out_of_range_raises() -> None:
    f = compiled(lambda x, i: x[i] * 2)
    x = torch.rand(5)
    torch.testing.assert_close(f(x, torch.tensor([0, -1, 4, -5])), x[[0, -1, 4, -5]] * 2)
    for wrong in (5, -6):
        with pytest.raises(IndexError, match="5 elements"):
            f(x, torch.tensor([0, wrong, 1, 2]))


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"efort": "fast"}, "no option 'efort'; did you mean 'effort'"),
        ({"effort": "best"}, "expected one of 'fast'"),
        ({"seconds": -1}, "positive"),
        ({"seconds": float("nan")}, "positive"),
        ({"strategy": "beem"}, "expected one of 'roots', 'beam'"),
        ({"cost": "no such file"}, "or a file of weights"),
        ({"seconds": "4"}, "expected int or float or None"),
        ({"versions": 0}, "1 or more"),
    ],
)
def test_wrong_options_are_errors(options: dict[str, Any], text: str) -> None:
    with pytest.raises(BackendCompilerFailed, match=text) as caught:
        compiled(lambda x: x + 1, **options)(torch.rand(3))
    assert isinstance(caught.value.inner_exception, InputError)


def test_the_explanation_names_regions_and_the_rest() -> None:
    report = autosched.torch.explain(lambda x: torch.sort(x * 2)[0] + 1, torch.rand(9), options=FAST)
    assert [g.left for g in report.graphs] == [(("aten.sort", "aten.sort.default has no translation"),)]
    assert [r.operators for g in report.graphs for r in g.regions] == [("aten.mul.Tensor",), ("aten.add.Tensor",)]
    assert "aten.sort stays PyTorch's" in str(report)


def test_versions_are_limited() -> None:
    with autosched.torch.explanation.recording() as record:
        f = torch.compile(lambda x: x * 3, backend="autosched", options={**FAST, "versions": 2}, dynamic=True)
        for n in (3, 4, 5, 6, 4):
            torch.testing.assert_close(f(torch.ones(n)), torch.full((n,), 3.0))
    assert len(record[0][1][0].versions) == 2
