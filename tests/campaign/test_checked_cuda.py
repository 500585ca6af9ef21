"""Comparison of results on the device."""

from __future__ import annotations

import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from campaign import checked_cuda
from campaign.checked_cuda import CheckedCudaBackend, ComparingDevice, agrees, exclusive

from autosched.measure.problem import Problem
from autosched.runtime.timing.cupy_device import CupyDevice

A, B = Problem.app("blur", small=True), Problem.app("unsharp", small=True)


@pytest.mark.parametrize(
    ("got", "trusted", "same"),
    [
        ([1, 2], [1, 2], True),
        ([1, 2], [1, 3], False),
        ([1.0, float("nan")], [1.00001, float("nan")], True),
        ([1.0, 2.0], [1.0, 2.001], False),
        ([float("inf")], [float("inf")], True),
        ([float("inf")], [-float("inf")], False),
        ([float("inf")], [3e38], False),
        ([0.0], [float("nan")], False),
        ([1e-6], [0.0], True),
    ],
)
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_numbers_agree_up_to_rounding(got: list[float], trusted: list[float], same: bool, dtype: str) -> None:
    with np.errstate(over="ignore"):
        a, b = (np.array(v, dtype) for v in (got, trusted))
    if not (dtype == "float16" and 3e38 in trusted):
        assert agrees(np, a, b) is same


def test_integers_agree_exactly() -> None:
    assert agrees(np, np.array([1000000], np.int32), np.array([1000000], np.int32))
    assert not agrees(np, np.array([1000001], np.int32), np.array([1000000], np.int32))
    assert agrees(np, np.array(True), np.array(True))


class Memory:
    """Arrays at addresses."""

    def __init__(self) -> None:
        self.arrays: dict[int, np.ndarray[Any, Any]] = {}


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> tuple[ComparingDevice, Memory]:
    memory = Memory()
    comparing = object.__new__(ComparingDevice)
    comparing.agreed, comparing._problem, comparing._trusted, comparing._position = False, None, [], 0
    comparing._stream = nullcontext()
    comparing._cupy = np
    monkeypatch.setattr(ComparingDevice, "_view", lambda _, address, *__: memory.arrays[address])
    monkeypatch.setattr(CupyDevice, "read", lambda _, address, *__: memory.arrays[address].copy())
    monkeypatch.setattr(CupyDevice, "synchronise", lambda _: None)
    return comparing, memory


def test_candidates_are_compared_with_the_first_one_of_their_problem(
    device: tuple[ComparingDevice, Memory],
) -> None:
    gpu, memory = device

    def outcome(problem: Problem, *values: float) -> tuple[bool, list[float]]:
        gpu.begin(problem)
        memory.arrays = {k: np.array([v], np.float32) for k, v in enumerate(values)}
        read = [gpu.read(k, (1,), np.dtype(np.float32)) for k in range(len(values))]
        return gpu.agreed, [float(r[0]) for r in read]

    assert outcome(A, 1.0, 2.0) == (False, [1.0, 2.0])
    assert outcome(A, 1.0, 2.0) == (True, [1.0, 2.0])
    assert outcome(A, 1.0, 2.5) == (False, [1.0, 2.5])
    assert outcome(A, 1.00001, 2.0) == (True, [1.0, 2.0])
    assert outcome(B, 2.5, 1.0) == (False, [2.5, 1.0]), "another problem has no trusted outputs yet"
    assert outcome(A, 7.0, 2.0) == (False, [7.0, 2.0]), "trusted outputs are dropped with a change of problem"


def test_only_different_outputs_are_copied_to_the_host(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    states: list[bool] = [False, True]
    gpu = SimpleNamespace(begin=lambda problem: setattr(gpu, "agreed", states.pop(0)), agreed=False)
    monkeypatch.setattr(checked_cuda, "_comparing_device", lambda number: gpu)
    monkeypatch.setattr(checked_cuda, "run_once", lambda device, prepared: {"out": np.zeros(1)})
    backend = CheckedCudaBackend("NVIDIA H200", (0, 0, 0), lock=str(tmp_path / "gpu.lock"))
    prepared: Any = SimpleNamespace(job=SimpleNamespace(problem=A))
    assert backend.outputs(prepared) is not None
    assert backend.outputs(prepared) is None
    assert len(backend.device_backends()) == 3
    assert all(b.lock == backend.lock for b in backend.device_backends())  # type: ignore[attr-defined]
    assert backend.source == "measured:NVIDIA H200"


def test_one_process_at_a_time_uses_the_gpu(tmp_path: Path) -> None:
    lock = tmp_path / "gpu.lock"
    program = f"import fcntl; fcntl.flock(open({str(lock)!r}, 'a'), fcntl.LOCK_EX | fcntl.LOCK_NB)"
    with exclusive(str(lock)):
        assert b"BlockingIOError" in subprocess.run([sys.executable, "-c", program], capture_output=True).stderr
    assert subprocess.run([sys.executable, "-c", program], capture_output=True).returncode == 0


def test_cupy_has_the_functions_in_use() -> None:
    cupy = pytest.importorskip("cupy")
    for name in ("UnownedMemory", "MemoryPointer", "get_elapsed_time", "get_current_stream", "set_allocator", "Event"):
        assert hasattr(cupy.cuda, name)
    for name in ("memcpyAsync", "memcpyDeviceToDevice", "deviceSynchronize", "getDeviceProperties", "driverGetVersion"):
        assert hasattr(cupy.cuda.runtime, name)
    assert hasattr(cupy.random, "randint")
