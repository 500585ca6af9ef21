"""Calls that repeat are not checked again, and whatever a check looks at makes another call of it."""

from __future__ import annotations

from importlib.util import find_spec
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

import autosched
from autosched import Func, Input, InputError, Param, Pipeline, Var, float32
from autosched.codegen.cuda import print_cuda
from autosched.runtime.call.buffers import cupy_view
from autosched.runtime.call.call_cache import MAX_CACHED_CALLS, ValidatedCall, ValidatedCalls, forms_of
from autosched.runtime.compile.nvrtc import have_nvrtc
from tests.test_api_cuda import EmulatedDevice

SHAPE = (5, 64)
needs_cupy = pytest.mark.skipif(not find_spec("cupy"), reason="CuPy is not installed")


def scaled() -> Pipeline:
    y, x = Var("y"), Var("x")
    image, gain = Input("image", float32, 2), Param("gain", float32, 2.0)
    out = Func("out")
    out[y, x] = image[y, x] * gain
    return Pipeline(out, name="scaled")


def aligned(value: float = 0.0, *, extra: int = 0) -> np.ndarray[Any, Any]:
    """An array at an address that suits every vector, with some numbers behind it."""
    count = SHAPE[0] * SHAPE[1] + extra
    raw = np.zeros(count * 4 + 256, np.uint8)
    start = -raw.ctypes.data % 256
    found = raw[start : start + count * 4].view(np.float32)
    found[...] = value
    return found


def view(array: np.ndarray[Any, Any], *, dtype: Any = np.float32, shape: tuple[int, ...] = SHAPE) -> Any:
    return cupy_view(array.ctypes.data, np.dtype(dtype), shape, array, 0)


@pytest.mark.skipif(not find_spec("cupy") or not have_nvrtc(), reason="needs CuPy and NVRTC")
class TestOnAnEmulatedGpu:
    @pytest.fixture
    def checked(self, monkeypatch: pytest.MonkeyPatch) -> list[str]:
        """Names of the arrays that were checked."""
        from autosched.runtime.backends import cuda

        found: list[str] = []
        check = cuda.as_device_array

        def noting(value: Any, name: str, *rest: Any, **keywords: Any) -> Any:
            found.append(name)
            return check(value, name, *rest, **keywords)

        monkeypatch.setattr(cuda, "as_device_array", noting)
        return found

    @pytest.fixture
    def kernel(self, monkeypatch: pytest.MonkeyPatch) -> autosched.CompiledPipeline:
        made = autosched.schedule(scaled(), {"image": SHAPE}, "h200", strategy="roots")
        device = EmulatedDevice(tuple(print_cuda(k) for k in made.program.kernels))
        for module in ("backends.cuda", "call.launcher"):
            monkeypatch.setattr(f"autosched.runtime.{module}.gpu_driver", lambda: device)
        return made.compile("cuda")

    def test_a_call_that_repeats_is_not_checked_again(
        self, kernel: autosched.CompiledPipeline, checked: list[str]
    ) -> None:
        memory, result = aligned(1), aligned()
        image, out = view(memory), view(result)
        assert kernel(image=image, out=out) is out
        assert checked == ["image", "out"]
        for value in (3.0, 5.0):
            memory[...] = value
            assert kernel({"image": image}, out=out) is out
            assert kernel(image=view(memory), out=view(result)) is not None, "other objects for the same arrays"
            np.testing.assert_array_equal(result, 2 * memory)
        kernel.launch(image=image, out=out)
        assert checked == ["image", "out"]

    def test_another_value_of_a_parameter_is_another_call(self, kernel: autosched.CompiledPipeline) -> None:
        memory, result = aligned(1), aligned()
        for gain in (2.0, 3.0, 3.0, -0.0, 0.0, 2.0):
            kernel(image=view(memory), gain=gain, out=view(result))
            assert result[0] == gain
            assert np.signbit(result[0]) == np.signbit(gain)

    def test_what_is_wrong_is_found_after_right_calls(
        self, kernel: autosched.CompiledPipeline, checked: list[str]
    ) -> None:
        memory, result = aligned(1, extra=SHAPE[1]), aligned()
        for _ in range(2):
            kernel(image=view(memory), out=view(result))
        known = len(checked)
        with pytest.raises(InputError, match="got dtype int32"):
            kernel(image=view(memory, dtype=np.int32), out=view(result))
        with pytest.raises(InputError, match=r"shape \(4, 64\)"):
            kernel(image=view(memory, shape=(4, 64)), out=view(result))
        with pytest.raises(InputError, match="shares memory"):
            kernel(image=view(memory), out=view(memory))
        with pytest.raises(InputError, match="on the CPU"):
            kernel(image=view(memory), out=np.zeros(SHAPE, np.float32))
        with pytest.raises(InputError, match="not C-contiguous"):
            kernel(image=view(memory, shape=SHAPE[::-1]).T, out=view(result))
        assert len(checked) > known

    def test_a_part_of_an_array_is_no_known_one(self, kernel: autosched.CompiledPipeline) -> None:
        memory, result = aligned(1, extra=SHAPE[1]), aligned()
        memory[...] = np.arange(memory.size)
        for start in (0, 1, 0, 1):
            part = memory[start : start + SHAPE[0] * SHAPE[1]]
            kernel(image=view(part), out=view(result))
            np.testing.assert_array_equal(result, 2 * part)

    def test_many_calls_are_forgotten_and_found_out_again(
        self, kernel: autosched.CompiledPipeline, checked: list[str]
    ) -> None:
        memory, result = aligned(1), aligned()
        for k in range(MAX_CACHED_CALLS + 2):
            kernel(image=view(memory), gain=float(k), out=view(result))
        assert len(checked) == 2 * (MAX_CACHED_CALLS + 2)
        kernel(image=view(memory), gain=float(MAX_CACHED_CALLS + 1), out=view(result))
        assert len(checked) == 2 * (MAX_CACHED_CALLS + 2)
        kernel(image=view(memory), gain=0.0, out=view(result))
        assert len(checked) == 2 * (MAX_CACHED_CALLS + 3)
        assert not result.any()


def test_arrays_that_are_looked_at_each_time() -> None:
    assert forms_of([np.zeros(3)]) is None
    assert forms_of([torch.zeros(3)]) is None, "in host memory"
    assert forms_of([SimpleNamespace(__cuda_array_interface__={})]) is None
    assert forms_of([]) == ()


@needs_cupy
def test_what_belongs_to_a_form() -> None:
    memory = aligned(extra=SHAPE[1])
    forms = [
        forms_of([view(memory)]),
        forms_of([view(memory[1:])]),
        forms_of([view(memory, dtype=np.int32)]),
        forms_of([view(memory, shape=SHAPE[::-1])]),
        forms_of([view(memory, shape=SHAPE[::-1]).T]),
        forms_of([view(memory), view(memory)]),
    ]
    assert len(set(forms)) == len(forms)
    assert forms_of([view(memory)]) == forms[0]
    assert forms_of([view(memory), np.zeros(3)]) is None


def test_calls_are_forgotten_all_at_once() -> None:
    known = ValidatedCalls()
    call = ValidatedCall(None, None, 1, as_torch=False)  # type: ignore[arg-type]
    for k in range(MAX_CACHED_CALLS):
        known.add(("inputs",), (k,), call)
    assert known.find((0,)) is call
    assert known.device_of(("inputs",)) == 1
    assert known.find(None) is None
    known.add(("others",), ("last",), call)
    assert known.find((0,)) is None
    assert known.device_of(("inputs",)) is None
    assert known.find(("last",)) is call


@pytest.mark.gpu
def test_arrays_of_cupy_and_torch_on_the_gpu() -> None:
    """Each call allocates new outputs; PyTorch tensors and CuPy arrays at one address are distinguished."""
    import cupy

    kernel = autosched.schedule(scaled(), {"image": SHAPE}, "cuda", strategy="roots").compile("cuda")
    image = cupy.full(SHAPE, 3, np.float32)
    results = [kernel(image=image) for _ in range(4)]
    assert len({r.data.ptr for r in results}) == 4
    for result in results:
        assert float(result.sum()) == 6 * SHAPE[0] * SHAPE[1]
    if not torch.cuda.is_available():
        pytest.skip("this PyTorch has no CUDA")
    tensor = torch.as_tensor(image, device="cuda")
    for _ in range(3):
        found = kernel(image=tensor)
        assert isinstance(found, torch.Tensor)
        assert float(found.sum()) == 6 * SHAPE[0] * SHAPE[1]
    with torch.cuda.stream(torch.cuda.Stream()):
        on_other = kernel(image=tensor)
        torch.cuda.current_stream().synchronize()
    assert torch.equal(on_other, found)
    with pytest.raises(InputError, match="requires grad"):
        kernel(image=tensor.clone().requires_grad_())
