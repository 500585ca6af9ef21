"""Launching for real; skipped on machines without a GPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from autosched.errors import LaunchError
from autosched.lang.dtypes import float32
from autosched.runtime.backends.cupy_driver import gpu_driver
from autosched.runtime.call.buffers import as_device_array, empty_like_caller, like_caller
from autosched.runtime.call.caller_context import context_of
from autosched.runtime.call.launch_plan import BufferArgument, LaunchScalar, LaunchStep, WorkspaceArgument
from autosched.runtime.call.launcher import CudaModule, LaunchSequence
from autosched.runtime.compile.nvrtc import compile_cubin
from autosched.target import Target

pytestmark = [pytest.mark.gpu, pytest.mark.usefixtures("cache_dir")]

COUNT = 1 << 20
SHARED_BYTES = 64 * 1024

SOURCE = """
extern "C" __global__ void __launch_bounds__(256) scale(const float* __restrict__ a, float* __restrict__ b, const float s)
{
    const int i = blockIdx.x * 256 + threadIdx.x;
    b[i] = a[i] * s;
}
extern "C" __global__ void __launch_bounds__(256) turn(const float* __restrict__ a, float* __restrict__ b)
{
    extern __shared__ float tile[];
    tile[threadIdx.x + 64 * 256 - 256] = a[blockIdx.x * 256 + threadIdx.x];
    __syncthreads();
    b[blockIdx.x * 256 + threadIdx.x] = tile[64 * 256 - 1 - threadIdx.x];
}
"""  # noqa: E501

STEPS = (
    LaunchStep(
        "scale",
        (COUNT // 256, 1, 1),
        (256, 1, 1),
        0,
        (BufferArgument("a"), WorkspaceArgument(1024), LaunchScalar("s", float32)),
    ),
    LaunchStep("turn", (COUNT // 256, 1, 1), (256, 1, 1), SHARED_BYTES, (WorkspaceArgument(1024), BufferArgument("b"))),
)


def _code() -> bytes:
    return compile_cubin(SOURCE, Target.detect().arch).code


def _sequence() -> LaunchSequence:
    code = _code()
    return LaunchSequence({"scale": code, "turn": code}, STEPS, workspace_bytes=COUNT * 4 + 1024)


def _expected(a: np.ndarray[Any, Any], s: float) -> np.ndarray[Any, Any]:
    return (a * np.float32(s)).reshape(-1, 256)[:, ::-1].reshape(-1)


@pytest.fixture
def numbers() -> np.ndarray[Any, Any]:
    return np.random.default_rng(1).random(COUNT, np.float32)


def test_plain_launches_then_graphs(numbers: np.ndarray[Any, Any]) -> None:
    cupy = pytest.importorskip("cupy")
    sequence = _sequence()
    a, b = cupy.asarray(numbers), cupy.empty(COUNT, np.float32)
    for repeat in range(4):
        b.fill(0)
        sequence.run({"a": a.data.ptr, "b": b.data.ptr}, {"s": 2.5})
        np.testing.assert_array_equal(like_caller(b, numbers), _expected(numbers, 2.5), err_msg=f"call {repeat}")
    with cupy.cuda.Stream(non_blocking=True) as stream:
        sequence.run({"a": a.data.ptr, "b": b.data.ptr}, {"s": 3.0})
        stream.synchronize()
    np.testing.assert_array_equal(cupy.asnumpy(b), _expected(numbers, 3.0))


def test_an_explicit_graph(numbers: np.ndarray[Any, Any]) -> None:
    cupy = pytest.importorskip("cupy")
    a, b = cupy.asarray(numbers), cupy.zeros(COUNT, np.float32)
    graph = _sequence().capture({"a": a.data.ptr, "b": b.data.ptr}, {"s": 2.0}, keep_alive=(a, b))
    assert not b.any()
    graph.launch()
    np.testing.assert_array_equal(cupy.asnumpy(b), _expected(numbers, 2.0))


def test_tensors_on_pytorchs_stream_and_in_its_graphs(numbers: np.ndarray[Any, Any]) -> None:
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("this PyTorch has no CUDA")
    sequence = _sequence()
    a = torch.from_numpy(numbers).cuda()
    b = empty_like_caller(a, float32, (COUNT,))
    pointers = {
        name: as_device_array(tensor, name, float32, (COUNT,)).data.ptr for name, tensor in (("a", a), ("b", b))
    }

    def call() -> None:
        sequence.run(pointers, {"s": 2.0}, device=0, caller=context_of([a, b], gpu_driver(), 0))

    with torch.cuda.stream(torch.cuda.Stream()):
        for _ in range(3):
            call()
    torch.cuda.synchronize()
    np.testing.assert_array_equal(b.cpu().numpy(), _expected(numbers, 2.0))
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        call()
    a.mul_(0.5)
    graph.replay()
    torch.cuda.synchronize()
    np.testing.assert_array_equal(b.cpu().numpy(), _expected(numbers * np.float32(0.5), 2.0))


def test_results_go_to_pytorch_without_a_copy() -> None:
    cupy, torch = pytest.importorskip("cupy"), pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("this PyTorch has no CUDA")
    for dtype in (np.float32, np.float16, np.uint8, np.bool_):
        array = cupy.ones(5, dtype)
        tensor = like_caller(array, torch.zeros(1, device="cuda"))
        assert tensor.data_ptr() == array.data.ptr
        assert str(tensor.dtype) == f"torch.{np.dtype(dtype).name}"


def test_errors_of_the_real_driver() -> None:
    with pytest.raises(LaunchError, match="finding kernel missing"):
        CudaModule(_code()).launch("missing", (1, 1, 1), (1, 1, 1), ())
    with pytest.raises(LaunchError, match="loading a cubin"):
        CudaModule(b"no cubin").launch("scale", (1, 1, 1), (1, 1, 1), ())
    with pytest.raises(LaunchError, match="kernel scale: launching grid"):
        CudaModule(_code()).launch("scale", (1, 1, 1), (1, 1, 2048), (np.uint64(0), np.uint64(0), np.float32(0)))
