"""Normalisation, scans and interpolation, with their gradients, against eager PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn import functional as f

import autosched.torch
from tests.torch_backend.differential import FAST, compare, left_to_torch, random

Form = tuple[Callable[..., Any], tuple[int, ...]]
W = torch.linspace(0.5, 1.5, 4)


def resized(mode: str, **keywords: Any) -> Callable[[torch.Tensor], torch.Tensor]:
    return lambda a: f.interpolate(a, mode=mode, **keywords)


FORMS: dict[str, Form] = {
    "layer norm": (lambda a: f.layer_norm(a, (3, 4), W.expand(3, 4), W.expand(3, 4)), (2, 3, 4)),
    "group norm": (lambda a: f.group_norm(a, 2, W, W), (2, 4, 3, 2)),
    "batch norm": (lambda a: f.batch_norm(a, torch.zeros(4), torch.ones(4), W, W, True), (3, 4, 2, 3)),
    "batch norm of inference": (lambda a: f.batch_norm(a, W, W, W, W), (3, 4, 2, 3)),
    "instance norm": (f.instance_norm, (2, 3, 4, 2)),
    "local response": (lambda a: f.local_response_norm(a, 3), (2, 5, 3, 2)),
    "cumulative sum": (lambda a: a.cumsum(1), (3, 7, 2)),
    "cumulative product": (lambda a: a.cumprod(-1), (3, 5)),
    "cumulative logsumexp": (lambda a: (a * 3).logcumsumexp(0), (5, 3)),
    "cumulative maximum": (lambda a: a.cummax(1), (3, 7)),
    "cumulative minimum": (lambda a: a.cummin(0)[0], (6, 3)),
    "scan of a number": (lambda a: a.cumsum(0), ()),
    "nearest 1d": (resized("nearest", scale_factor=2.0), (1, 2, 5)),
    "nearest 2d": (resized("nearest", size=(7, 4)), (1, 2, 4, 6)),
    "nearest by factor": (resized("nearest", scale_factor=1.7), (1, 2, 4, 6)),
    "nearest 3d": (resized("nearest", scale_factor=2.0), (1, 1, 2, 3, 4)),
    "nearest-exact": (resized("nearest-exact", size=(7, 4)), (1, 2, 4, 6)),
    "linear": (resized("linear", size=7), (1, 2, 5)),
    "bilinear": (resized("bilinear", size=(7, 9)), (1, 2, 4, 6)),
    "bilinear by factor": (resized("bilinear", scale_factor=0.6), (1, 2, 7, 6)),
    "bilinear with aligned corners": (resized("bilinear", size=(7, 9), align_corners=True), (1, 2, 4, 6)),
    "bicubic": (resized("bicubic", size=(7, 5)), (1, 2, 4, 6)),
    "bicubic with aligned corners": (resized("bicubic", size=(3, 5), align_corners=True), (1, 1, 4, 6)),
    "edge padding": (lambda a: f.pad(a, (2, 1, 0, 3), mode="replicate"), (1, 2, 4, 6)),
    "edge padding 1d": (lambda a: f.pad(a, (2, 0), mode="replicate"), (2, 1, 1)),
    "edge padding 3d": (lambda a: f.pad(a, (1, 1, 2, 0, 0, 1), mode="replicate"), (1, 1, 2, 3, 4)),
    "bins": (lambda a: torch.bucketize(a, torch.tensor([0.1, 0.3, 0.3, 0.8])), (3, 5)),
    "bins with NaN": (lambda a: torch.bucketize(torch.where(a > 0.5, torch.nan, a), W, right=True), (3, 5)),
    "bins of rows": (lambda a: torch.searchsorted(torch.cumsum(a, 1), a * 2, side="right"), (3, 5)),
    "trilinear": (resized("trilinear", size=(3, 4, 5)), (1, 1, 2, 3, 4)),
}  # fmt: skip


@pytest.mark.parametrize("name", FORMS)
def test_the_interpreter_gives_eager_results(name: str) -> None:
    function, shape = FORMS[name]
    record = compare(function, random(*shape), witness="interpreter", rtol=1e-4, atol=1e-5)
    assert not left_to_torch(record)


@pytest.mark.parametrize("witness", ["cpu", "emulator"])
@pytest.mark.parametrize("name", ["group norm", "batch norm", "cumulative product", "cumulative maximum", "bilinear"])
def test_compiled_functions_give_eager_results(name: str, witness: Any) -> None:
    function, shape = FORMS[name]
    compare(function, random(*shape), witness=witness, rtol=1e-4, atol=1e-5)


def test_running_statistics_are_updated() -> None:
    modules = [torch.nn.BatchNorm2d(3) for _ in range(2)]
    torch._dynamo.reset()
    fast = torch.compile(modules[0], backend="autosched", options=FAST)
    for seed in range(2):
        a = random(2, 3, 4, 4, seed=seed, gradient=False)
        torch.testing.assert_close(fast(a), modules[1](a))
    torch.testing.assert_close(dict(modules[0].named_buffers()), dict(modules[1].named_buffers()))


@pytest.mark.parametrize(
    "function",
    [
        lambda a: f.interpolate(a, scale_factor=2.0),
        lambda a: f.interpolate(a, size=(5, 9), mode="bilinear"),
        lambda a: f.interpolate(a, size=(5, 9), mode="bicubic"),
        lambda a: f.pad(a, (2, 1, 1, 2), mode="reflect"),
        lambda a: a[:, :, torch.arange(3).clamp(max=2), torch.arange(3) * 2],
        lambda a: a[:, :, (a[0, 0, 0] * 9).long().clamp(0, 3)],
        lambda a: a[:, :, (a[0, 0, 0] * 9).long().clamp(-4, -1)],
        lambda a: torch.gather(a, 3, (a * 9).long().clamp(0, 5)),
    ],
)
def test_indices_in_range_by_definition_have_no_check(function: Callable[[torch.Tensor], torch.Tensor]) -> None:
    record = compare(function, random(1, 2, 4, 6, gradient=False), witness="interpreter", rtol=1e-4, atol=1e-5)
    assert _checks(record) == 0


def of_rank(a: torch.Tensor) -> torch.Tensor:
    """Read at the floor and the ceiling of a stored number, as quantiles do."""
    rank = (a[0, 0] > 0).sum(dim=1) * 0.5
    return a[0, 0, rank.floor().long(), rank.ceil().long()] + rank


def at_multiples(a: torch.Tensor) -> torch.Tensor:
    """Read at stored integers that depend on their coordinates."""
    place = torch.arange(4) * torch.arange(1, 5) % 4 + (a[0, 0, 0, :4] > 0).long()
    return torch.stack([a[0, 1, 0, place], place.float(), a[0, 1, 3, place + 1]])


@pytest.mark.parametrize("function", [of_rank, at_multiples, lambda a: torch.nanquantile(a.flatten(), 0.5, dim=0)])
def test_reads_at_stored_numbers(function: Callable[[torch.Tensor], torch.Tensor]) -> None:
    compare(function, random(1, 2, 4, 6, gradient=False), witness="interpreter", rtol=1e-6, atol=1e-6)


def test_other_indices_have_a_check() -> None:
    index = torch.tensor([0, 3, 1])

    def function(a: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
        return a[:, i] * a[:, i.clamp(-1, 2)]

    record = compare(function, random(4, 4, gradient=False), index, witness="interpreter")
    assert _checks(record) == 1


def _checks(record: Any) -> int:
    regions = [region for _, of_graph in record for region in of_graph]
    codes: list[autosched.torch.region_code.RegionCode] = [v for region in regions for v in region.versions.values()]  # type: ignore[misc]
    return sum(len(code.translation.checks) for code in codes)


@pytest.mark.parametrize("scan", [torch.cumsum, torch.logcumsumexp], ids=["sum", "logarithm of sums"])
def test_long_scans_are_as_exact_as_eager(scan: Callable[..., torch.Tensor]) -> None:
    x = random(20_000, gradient=False)
    torch._dynamo.reset()
    found = torch.compile(scan, backend="autosched", options={"strategy": "roots", "fallback": "error"})(x, 0)
    exact = scan(x.double(), 0)
    assert (found - exact).abs().max() <= 2 * (scan(x, 0) - exact).abs().max()
