"""Training with the backend against eager PyTorch."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

import autosched.torch
from tests.torch_backend.compiled import compiled


class Network(nn.Module):
    """A small network with buffers, parameters and dropout between two regions."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm2d(2)
        self.gain = nn.Parameter(torch.tensor([1.0, 2.0]).reshape(2, 1, 1))
        self.offset = nn.Parameter(torch.zeros(2, 6, 5))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.tanh(self.norm(x) * self.gain)
        y = nn.functional.dropout(y, 0.3, self.training)
        return (torch.sigmoid(y + self.offset) * y).mean((1, 2, 3))


def test_three_steps_of_training_are_those_of_eager() -> None:
    torch.manual_seed(0)
    modules = [Network(), Network()]
    modules[1].load_state_dict(modules[0].state_dict())
    batches, targets = torch.rand(3, 4, 2, 6, 5), torch.rand(3, 4)
    losses: list[list[float]] = []
    for module, network in ((modules[0], modules[0]), (modules[1], compiled(modules[1]))):
        optimizer = torch.optim.SGD(module.parameters(), lr=0.5, momentum=0.9)
        torch.manual_seed(4)
        losses.append([])
        for batch, target in zip(batches, targets, strict=True):
            optimizer.zero_grad()
            loss = (network(batch) - target).pow(2).sum()
            loss.backward()
            optimizer.step()
            losses[-1].append(loss.item())
    assert losses[1] == pytest.approx(losses[0], rel=1e-5)
    for name, value in modules[0].state_dict().items():
        torch.testing.assert_close(modules[1].state_dict()[name], value, msg=lambda text, n=name: f"{n}: {text}")


def test_evaluation_uses_the_buffers_of_training() -> None:
    module = Network()
    module.norm.running_mean.add_(0.5)  # type: ignore[union-attr, operator]
    module.eval()
    x = torch.rand(4, 2, 6, 5)
    for mode in (torch.no_grad, torch.inference_mode):
        with mode():
            result = compiled(module)(x)
            torch.testing.assert_close(result, module(x))
            assert not result.requires_grad
            assert result.is_inference() == (mode is torch.inference_mode)


def test_random_nodes_are_not_computed_again_backward() -> None:
    """The backward of a product with random factors uses the factors of the forward pass."""

    def function(x: torch.Tensor) -> torch.Tensor:
        return torch.exp(x) * torch.rand_like(x) + torch.sin(x) * torch.randn(x.shape)

    x = torch.rand(6, requires_grad=True)
    gradients = []
    for f in (function, compiled(function)):
        torch.manual_seed(8)
        gradients.append(torch.autograd.grad(f(x).sum(), x)[0])
        gradients.append(torch.rand(3))  # the stream after it
    torch.testing.assert_close(gradients[2:], gradients[:2])
    graphs = autosched.torch.explain(function, x, options={"strategy": "roots"}).graphs
    assert [any("rand" in name for name, _ in g.left) for g in graphs] == [True, False]


def saved_bytes(function: Callable[..., Any], backend: Any, *args: torch.Tensor) -> int:
    """Return the bytes that a compiled function keeps for its backward pass, without its arguments."""
    torch._dynamo.reset()
    saved: dict[int, int] = {}

    def pack(t: torch.Tensor) -> torch.Tensor:
        saved[t.untyped_storage().data_ptr()] = t.untyped_storage().nbytes()
        return t

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
        torch.compile(function, backend=backend)(*args)
    given = {a.untyped_storage().data_ptr() for a in args}
    return sum(n for at, n in saved.items() if at not in given)


def test_saved_tensors_are_those_of_inductor() -> None:
    def function(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        y = torch.softmax(torch.tanh(x * w) + torch.sigmoid(x), -1)
        return (nn.functional.gelu(y).pow(2) / (1 + y.abs())).cumsum(0).sum()

    x, w = torch.rand(64, 32, requires_grad=True), torch.rand(32, requires_grad=True)
    ours, theirs = (saved_bytes(function, backend, x, w) for backend in ("autosched", "inductor"))
    assert ours <= 1.1 * theirs


def test_a_second_derivative_is_refused_by_pytorch() -> None:
    x = torch.rand(4, requires_grad=True)
    (gradient,) = torch.autograd.grad(compiled(lambda x: torch.sin(x).sum())(x), x, create_graph=True)
    with pytest.raises(RuntimeError, match="does not currently support double backward"):
        torch.autograd.grad(gradient.sum(), x)


def test_hooks_are_called() -> None:
    module = nn.Sequential(nn.Tanh(), nn.Sigmoid())
    calls: list[str] = []
    module[0].register_forward_hook(lambda *_: calls.append("forward"))
    x = torch.rand(4, requires_grad=True)
    result = compiled(module)(x)
    result.register_hook(lambda g: g * 3)
    result.sum().backward()
    expected = torch.autograd.grad(nn.Sequential(nn.Tanh(), nn.Sigmoid())(x).sum(), x)[0] * 3
    torch.testing.assert_close(x.grad, expected)
    assert "forward" in calls


@pytest.mark.parametrize("reentrant", [False, True])
def test_checkpoints_compute_again(reentrant: bool) -> None:
    def body(x: torch.Tensor) -> torch.Tensor:
        return nn.functional.dropout(torch.sin(torch.exp(x)), 0.5)

    def function(x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = checkpoint(body, x, use_reentrant=reentrant)
        return result * 2

    values = torch.rand(8)
    gradients = []
    for f in (function, compiled(function)):
        x = values.clone().requires_grad_()
        torch.manual_seed(2)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            f(x).sum().backward()
        gradients.append(x.grad)
    torch.testing.assert_close(gradients[1], gradients[0])


def test_gradients_of_gradients_inside_a_function() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return torch.func.grad(lambda y: torch.sin(y).pow(2).sum())(x) * 2

    x = torch.rand(5)
    torch.testing.assert_close(compiled(function)(x), function(x))


def test_parameters_are_arguments_and_not_constants() -> None:
    module = nn.Linear(3, 2)
    with torch.no_grad():
        f = compiled(module)
        x = torch.rand(4, 3)
        torch.testing.assert_close(f(x), module(x))
        module.weight.mul_(2)
        torch.testing.assert_close(f(x), module(x))
        other = copy.deepcopy(module)
        other.weight.add_(1)
        torch.testing.assert_close(compiled(other)(x), other(x))
