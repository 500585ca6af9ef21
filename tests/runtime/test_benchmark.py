"""Benchmarks: number of runs, their arrays, and the text of the result; no time is asserted."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import autosched
from autosched import Func, Input, InputError, Param, Pipeline, Var, float32, int32
from autosched.host import read_host
from autosched.lang.dtypes import ALL, DType
from autosched.runtime.benchmark import Benchmark, time_on_gpu, time_on_host
from autosched.runtime.call.launch_plan import (
    BufferArgument,
    CompiledLaunches,
    LaunchScalar,
    LaunchStep,
    WorkspaceArgument,
)
from autosched.runtime.call.signature import ArraySpec, CallSignature, KernelCall
from autosched.runtime.timing.statistics import StopRule
from autosched.runtime.timing.synthetic_inputs import synthetic_inputs
from tests.runtime.timing.fake_gpu import FakeGpu

SHAPE = (16, 24)


def scaled() -> Pipeline:
    y, x = Var("y"), Var("x")
    image, gain, offset = Input("image", float32, 2), Param("gain", float32, 2.0), Param("offset", float32)
    f = Func("f")
    f[y, x] = image[y, x] * gain + offset
    return Pipeline(f, name="scaled")


@pytest.fixture(scope="module")
def kernel() -> autosched.CompiledPipeline:
    return autosched.schedule(scaled(), {"image": SHAPE}, "cpu", strategy="roots").compile("interpreter")


def test_inputs_are_made_up(kernel: autosched.CompiledPipeline) -> None:
    found = kernel.benchmark(seconds=0.02, offset=1.0)
    assert (found.pipeline, found.backend) == ("scaled", "interpreter")
    assert found.bytes_moved == 2 * 4 * 16 * 24
    assert found.seconds == pytest.approx(np.median(found.samples))
    assert found.gb_per_s == pytest.approx(found.bytes_moved / found.seconds / 1e9)
    assert len(found.samples) >= 1 and min(found.samples) > 0
    assert not found.kernel_seconds


@pytest.mark.parametrize("backend", ["cpu", "emulator"])
def test_compiled_backends(backend: str) -> None:
    found = autosched.schedule(scaled(), {"image": SHAPE}, "h200", strategy="roots").compile(backend)
    assert found.benchmark(seconds=0.02, offset=1.0).backend == backend


def test_given_arrays_and_numbers_are_used(kernel: autosched.CompiledPipeline, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[KernelCall] = []
    monkeypatch.setattr(kernel._executable, "launch", lambda call, stream: calls.append(call))
    image = np.arange(16 * 24, dtype=np.float32).reshape(SHAPE)
    kernel.benchmark({"offset": 3.0}, seconds=0.01, image=image, gain=5)
    for call in calls:
        np.testing.assert_array_equal(call.arrays["image"], image)
        assert (call.scalars["gain"], call.scalars["offset"]) == (5.0, 3.0)
        assert call.out is not None and call.out["f"].shape == SHAPE


def test_arrays_that_do_not_fit_are_refused(kernel: autosched.CompiledPipeline) -> None:
    with pytest.raises(InputError, match="input 'image': got shape"):
        kernel.benchmark(image=np.zeros((3, 3), np.float32), offset=1.0)
    with pytest.raises(InputError, match="parameter 'offset' is missing"):
        kernel.benchmark()
    with pytest.raises(InputError, match="no input or parameter 'offst'; did you mean 'offset'"):
        kernel.benchmark(offst=1.0)


@pytest.mark.parametrize("seconds", [0.0, -1.0, math.nan, math.inf])
def test_times_without_sense_are_refused(kernel: autosched.CompiledPipeline, seconds: float) -> None:
    with pytest.raises(InputError, match="give a positive number"):
        kernel.benchmark(seconds=seconds, offset=1.0)


class Stub:
    """An executable that takes given seconds on a clock of its own, and notes where its arrays lie."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.now = 0.0
        self.places: list[tuple[int, int]] = []

    resources = ()

    def call(self, call: KernelCall) -> dict[str, Any]:
        raise AssertionError("outputs are made beforehand")

    def launch(self, call: KernelCall, stream: object) -> None:
        assert stream is None and call.out is not None
        self.places.append((call.arrays["image"].ctypes.data, call.out["f"].ctypes.data))
        self.now += self.seconds


def test_runs_go_through_copies_that_fill_the_cache_twice(kernel: autosched.CompiledPipeline) -> None:
    stub = Stub(0.001)
    image = np.ones((1024, 1024), np.float32)
    spec = ArraySpec("f", float32, image.shape)
    signature = CallSignature("big", (ArraySpec("image", float32, image.shape),), (spec,), {}, {}, {})
    rule = StopRule(least_seconds=0.0, most_samples=64, most_seconds=1.0)
    samples = time_on_host(stub, signature, {"image": image}, {}, rule, lambda: stub.now)
    assert samples == pytest.approx([0.001] * 7)
    assert len(stub.places) == len(samples) + 1, "one run before does not count"
    rounds = stub.places[1:]
    copies = len(set(rounds))
    assert copies > 1 and rounds[copies:] == rounds[: len(rounds) - copies]
    assert len({place for pair in rounds for place in pair}) == 2 * copies
    assert min(copies, 7) * 2 * image.nbytes >= min(2 * read_host().last_level_bytes, 7 * 2 * image.nbytes)


@pytest.mark.parametrize("dtype", ALL, ids=repr)
@pytest.mark.parametrize("shape", [(), (7,), (50, 40)])
def test_made_up_arrays(dtype: DType, shape: tuple[int, ...]) -> None:
    made = [synthetic_inputs(ArraySpec("a", dtype, shape), np.random.default_rng(0)) for _ in range(2)]
    assert made[0].dtype == dtype.numpy and made[0].shape == shape
    np.testing.assert_array_equal(*made)
    assert made[0].min() >= 0
    assert made[0].max() <= (1 if dtype.is_float else min(255, dtype.max_value))
    if len(shape) == 2:
        assert len(np.unique(made[0])) > 1


STEPS = (
    LaunchStep("first", (4, 1, 1), (32, 1, 1), 0, (BufferArgument("image"), WorkspaceArgument(0))),
    LaunchStep("nothing", (0, 1, 1), (32, 1, 1), 0, ()),
    LaunchStep(
        "second", (4, 1, 1), (32, 1, 1), 0, (WorkspaceArgument(0), BufferArgument("f"), LaunchScalar("n", int32))
    ),
)


def test_kernels_on_a_gpu_share_the_time() -> None:
    gpu = FakeGpu(seconds={"first": 30e-6, "second": 10e-6})
    compiled = CompiledLaunches({"first": b"one", "second": b"two", "nothing": b"two"}, STEPS, 4096)
    spec = ArraySpec("f", float32, SHAPE)
    signature = CallSignature("two", (ArraySpec("image", float32, SHAPE),), (spec,), {"n": int32}, {}, {})
    image = np.ones(SHAPE, np.float32)
    rule = StopRule(least_samples=5, least_seconds=0.0)
    samples, kernels = time_on_gpu(gpu, compiled, signature, {"image": image}, {"n": np.int32(3)}, rule)
    assert np.median(samples) == pytest.approx(40e-6, rel=0.1)
    assert list(kernels) == ["first", "nothing", "second"]
    assert sum(kernels.values()) == pytest.approx(np.median(samples))
    assert kernels["nothing"] == 0
    assert kernels["first"] == pytest.approx(3 * kernels["second"], rel=0.1)
    assert set(gpu.written.values()) == {image.tobytes()}
    assert len(gpu.written) > 1


RESULT = Benchmark("sharpen", "cuda", 2e-3, 0.0123, (2e-3,) * 9, 48_000_000, {"blur": 0.5e-3, "sharp": 1.5e-3})


def test_it_reads_well() -> None:
    assert str(RESULT).splitlines() == [
        "sharpen on cuda: 2 ms, median of 9 (spread 1.2%); 48 MB of arrays, 24 GB/s",
        "  blur     500 µs",
        "  sharp    1.5 ms",
    ]
    assert repr(RESULT) == f"<Benchmark {str(RESULT).splitlines()[0]}>"


def test_rich_prints_it() -> None:
    pretty = pytest.importorskip("rich.pretty")
    text = pretty.pretty_repr(RESULT)
    assert text.startswith("Benchmark(") and "time='2 ms'" in text and "'blur': '500 µs'" in text


@pytest.mark.gpu
def test_on_the_gpu() -> None:
    import cupy

    kernel = autosched.schedule(scaled(), {"image": (512, 512)}, "cuda", strategy="roots").compile("cuda")
    image = cupy.ones((512, 512), np.float32)
    found = kernel.benchmark(seconds=0.2, image=image, offset=1.0)
    assert list(found.kernel_seconds) == [k.name for k in kernel.resources]
    assert sum(found.kernel_seconds.values()) == pytest.approx(found.seconds)
    assert found.bytes_moved == 2 * 4 * 512 * 512
    assert kernel.benchmark(seconds=0.1, offset=1.0).seconds > 0
