"""The simulated device as a whole: repeatable, with noise, compiled for real, and without features."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from autosched.codegen.cuda import print_cuda
from autosched.errors import InputError
from autosched.lower.program import lower
from autosched.measure.simulated import Simulated, simulate
from autosched.measure.simulated import simulate as simulate_package
from autosched.measure.simulated.simulate import noise_of
from autosched.runtime.compile.nvrtc import compile_cubin, have_nvrtc
from autosched.search.strategies.protocol import STRATEGIES
from autosched.target import get_target
from tests.measure.simulated.programs import H200, bound_app, random_schedule

needs_nvrtc = pytest.mark.skipif(not have_nvrtc(), reason="no NVRTC")

ROOT = Path(__file__).parents[3]
BLUR = bound_app("unsharp", H=133, W=157)
SCHEDULE = random_schedule(BLUR, 0)


@pytest.fixture(scope="module")
def found() -> Simulated:
    return simulate(BLUR, SCHEDULE, H200)


@needs_nvrtc
def test_the_same_again(found: Simulated) -> None:
    assert simulate(BLUR, SCHEDULE, H200) == found
    assert simulate(BLUR, SCHEDULE, H200, program=lower(BLUR, SCHEDULE)) == found


@needs_nvrtc
def test_the_same_in_another_process(found: Simulated) -> None:
    code = (
        "from tests.measure.simulated.test_simulate import BLUR, SCHEDULE, H200, simulate;"
        "print(repr(simulate(BLUR, SCHEDULE, H200).kernel_seconds))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.strip() == repr(found.kernel_seconds)


@needs_nvrtc
def test_kernels_add_up(found: Simulated) -> None:
    assert found.seconds == pytest.approx(sum(found.kernel_seconds))
    assert len(found.kernels) == len(found.registers) == len(found.spill_bytes) == len(SCHEDULE.kernels)
    for k, seconds in zip(found.kernels, found.kernel_seconds, strict=True):
        assert seconds == pytest.approx(k.time.seconds * found.noise)
        assert all(0 <= part <= k.time.seconds for name, part in k.time.parts.items() if name != "latency")


@needs_nvrtc
def test_registers_are_those_of_ptxas(found: Simulated) -> None:
    for ir, registers in zip(lower(BLUR, SCHEDULE).kernels, found.registers, strict=True):
        printed = print_cuda(ir)
        assert compile_cubin(printed.source, "sm_90", name=printed.name).kernels[printed.name].registers == registers


@needs_nvrtc
def test_another_seed_is_another_measurement(found: Simulated) -> None:
    again = simulate(BLUR, SCHEDULE, H200, seed=1)
    assert again.seconds != found.seconds
    assert again.seconds / again.noise == pytest.approx(found.seconds / found.noise)


def test_noise_is_two_percent() -> None:
    factors = np.log([noise_of(BLUR, SCHEDULE, H200, seed) for seed in range(400)])
    assert factors.std() == pytest.approx(0.02, rel=0.1)
    assert abs(factors.mean()) < 0.004


def test_noise_follows_from_schedule_and_target() -> None:
    others = [random_schedule(BLUR, k) for k in range(1, 4)]
    factors = {noise_of(BLUR, s, H200, 0) for s in (SCHEDULE, *others)}
    assert len(factors) == 4
    assert noise_of(BLUR, SCHEDULE, get_target("a100"), 0) not in factors


@needs_nvrtc
def test_equal_kernels_are_counted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    module = sys.modules[simulate_package.__module__]
    calls: list[str] = []
    count = module.count_kernel
    monkeypatch.setattr(module, "count_kernel", lambda k, scalars: calls.append(k.name) or count(k, scalars))
    monkeypatch.setattr(module, "_COUNTED", {})
    for _ in range(2):
        simulate(BLUR, SCHEDULE, H200)
    assert len(calls) == len(SCHEDULE.kernels)
    wider = bound_app("unsharp", H=133, W=200)  # its text names other sizes
    simulate(wider, replace(random_schedule(wider, 0)), H200)
    assert len(calls) > len(SCHEDULE.kernels)


@needs_nvrtc
def test_a_slower_device_takes_longer(found: Simulated) -> None:
    half = replace(H200, name="half", dram_bytes_per_s=H200.dram_bytes_per_s / 2)
    large = bound_app("unsharp", H=2048, W=2048)
    schedule = random_schedule(large, 0)
    fast, slow = simulate(large, schedule, H200), simulate(large, schedule, half)
    assert slow.seconds / slow.noise > 1.1 * fast.seconds / fast.noise


@needs_nvrtc
def test_kernels_leave_the_cache_to_those_that_follow() -> None:
    bound = bound_app("unsharp", H=512, W=512)
    found = simulate(bound, STRATEGIES["roots"].search(bound, H200).best, H200)
    first, second = found.kernels[:2]  # the second reads only the output of the first
    assert first.traffic.dram_read_bytes > 0
    assert second.traffic.dram_read_bytes == 0


def test_no_gpu_no_simulation() -> None:
    with pytest.raises(InputError, match="is a GPU"):
        simulate(BLUR, SCHEDULE, get_target("cpu"))


def test_no_feature_is_read() -> None:
    """A model that is trained on these times must not find the featurizer's own formulas in them."""
    code = "import sys, autosched.measure.simulated; print(*(m for m in sys.modules if m.startswith('autosched')))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    loaded = done.stdout.split()
    assert "autosched.measure.simulated.simulate" in loaded
    assert not [m for m in loaded if m.split(".")[1:2] in (["featurize"], ["search"], ["model"])]
