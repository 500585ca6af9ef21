"""Regions on a GPU: everything up to the launch, on tensors whose memory is the host's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from unittest import mock

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx import GraphModule
from torch.fx.experimental.proxy_tensor import make_fx

from autosched.errors import InputError
from autosched.runtime.compile.nvrtc import have_nvrtc
from autosched.torch.options import Options
from autosched.torch.partition import partition_graph
from autosched.torch.region_cache import region_key
from autosched.torch.region_code import RegionCode, compile_region
from autosched.torch.translation import translate
from tests.torch_backend.host_backed import GPU, STREAM, HostBackedTensor, RecordingDevice, emulated_gpu

OPTIONS = Options(strategy="roots", fallback="error")
needs_nvrtc = pytest.mark.skipif(not have_nvrtc(), reason="NVRTC is not installed")


def called(function: Callable[..., Any], *hosts: torch.Tensor) -> tuple[Any, RecordingDevice]:
    """Return the results of a compiled function for tensors of a GPU, numbers of the host among them, and the GPU."""
    graph = make_fx(function)(*hosts)
    with emulated_gpu() as device:
        arguments = [HostBackedTensor(t) if t.ndim else t for t in hosts]
        code = compile_region(graph, arguments, OPTIONS)
        assert isinstance(code, RegionCode)
        assert code.device == GPU
        return code(*arguments), device


@needs_nvrtc
def test_strides_of_arguments_and_results() -> None:
    a, b = torch.rand(6, 5).t(), torch.rand(9, 12)[1:6, ::2]
    result, device = called(lambda x, y: x * 2 + y, a, b)
    assert result.device == GPU
    torch.testing.assert_close(result.host, a * 2 + b)
    assert result.stride() == (a * 2 + b).stride()
    assert device.streams == [STREAM]


@needs_nvrtc
def test_kernels_share_the_current_stream() -> None:
    a = torch.rand(40, 50)
    (shares, total), device = called(lambda x: (x / x.sum(0), x.sum()), a)
    torch.testing.assert_close(shares.host, a / a.sum(0))
    torch.testing.assert_close(total.host, a.sum())
    assert len(device.names) > 1
    assert set(device.streams) == {STREAM}


@needs_nvrtc
def test_a_number_of_the_host_beside_tensors_of_a_gpu() -> None:
    a, factor = torch.rand(6, 5), torch.tensor(0.75)
    result, _ = called(lambda x, s: x * s, a, factor)
    torch.testing.assert_close(result.host, a * factor)


@needs_nvrtc
def test_numbers_of_a_module_go_to_the_gpu() -> None:
    class Scaled(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.factor = torch.tensor(0.75)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * self.factor

    a, module = torch.rand(6, 5), Scaled()
    result, _ = called(module, a)
    torch.testing.assert_close(result.host, a * module.factor)


@needs_nvrtc
def test_checks_are_read_at_once_and_asserted_in_a_capture() -> None:
    a, good, bad = torch.rand(6), torch.tensor([0, -6, 5]), torch.tensor([0, 6, 5])

    def taken(x: torch.Tensor, i: torch.Tensor, j: torch.Tensor) -> torch.Tensor:
        return x[i] + x[j]

    graph = make_fx(taken)(a, good, good.clone())
    asserted: list[bool] = []
    with emulated_gpu():
        x, i, j = HostBackedTensor(a), HostBackedTensor(good), HostBackedTensor(bad)
        code = compile_region(graph, (x, i, j), OPTIONS)
        torch.testing.assert_close(code(x, i, i).host, 2 * a[good])
        with pytest.raises(IndexError, match="out of range for a dimension of 6 elements"):
            code(x, i, j)
        with (
            mock.patch.object(torch.cuda, "is_current_stream_capturing", lambda: True),
            mock.patch.object(torch, "_assert_async", lambda held, text: asserted.append(bool(held.host))),
            mock.patch.object(HostBackedTensor, "tolist", None),  # a copy to the host would end the capture
        ):
            code(x, i, j)
    assert sorted(asserted) == [False, True]


def traced(function: Callable[..., Any], *devices: str) -> GraphModule:
    """Return the graph of a function of tensors without data, of 4 elements, or a number of the host."""
    with FakeTensorMode():
        return make_fx(function)(*(torch.empty(4 if d != "number" else (), device=d if d != "number" else "cpu")
                                   for d in devices))  # fmt: skip


def devices_of(graph: GraphModule) -> list[set[str]]:
    """Return the devices of the results in each region of a partitioned graph."""
    partition = partition_graph(graph)
    return [
        {n.meta["val"].device.type for n in partition.graph.get_submodule(name).graph.nodes if n.op == "call_function"}
        for name in partition.regions
    ]


def test_a_region_has_one_device() -> None:
    assert devices_of(traced(lambda x, y: (x * 2 + 1, y * 3), "cuda", "cpu")) in (
        [{"cuda"}, {"cpu"}],
        [{"cpu"}, {"cuda"}],
    )
    assert devices_of(traced(lambda x, s: x * (s * 2), "cuda", "number")) == [{"cpu"}, {"cuda"}]


def test_copies_between_devices_stay_pytorchs() -> None:
    partition = partition_graph(traced(lambda x: (x * 2).cpu() + 1, "cuda"))
    assert set(partition.reasons.values()) == {"tensors on several devices"}
    assert len(partition.regions) == 2


def test_the_device_of_a_region_is_that_of_its_results() -> None:
    """A region without tensors as arguments, and one whose only argument is a number of the host."""
    graph = traced(lambda: torch.full((5000,), 3.0, device="cuda") * 2)
    assert translate(graph, ()).device == GPU
    graph = traced(lambda s: torch.full((5000,), 3.0, device="cuda") * s, "number")
    assert translate(graph, (torch.tensor(2.0),)).device == GPU
    graph = traced(lambda x, y: (x * 2, y * 2), "cuda", "cpu")
    with FakeTensorMode(), pytest.raises(InputError, match="a region has results on cpu, cuda:0: divide it"):
        translate(graph, (torch.empty(4, device="cuda"), torch.empty(4)))


def test_regions_on_a_gpu_have_no_entry_in_the_cache() -> None:
    graph = traced(lambda x: x * 2, "cuda")
    with FakeTensorMode():
        assert region_key(graph, (torch.empty(4, device="cuda"),), Options()) is None
