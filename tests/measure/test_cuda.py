"""Timing on a GPU, with one that only takes notes; kernels are compiled by NVRTC for real."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from autosched.codegen.cuda import print_cuda
from autosched.errors import CompileError, DeviceLostError, LaunchError
from autosched.lower.program import lower
from autosched.measure.backends.cuda import CudaBackend, run_once, time_launches, time_launches_interleaved
from autosched.measure.compile import compile_candidate
from autosched.measure.compile.compile_candidate import compile_kernels, print_cached
from autosched.measure.compile.content_keys import kernel_keys, schedule_text
from autosched.measure.job import Job, Prepared
from autosched.measure.problem import Problem
from autosched.runtime.call.launcher import CudaModule
from autosched.runtime.compile.nvrtc import NvrtcOptions, have_nvrtc
from autosched.runtime.timing.gpu_timer import shares
from autosched.runtime.timing.interleaved import RoundsRule
from autosched.runtime.timing.statistics import StopRule
from autosched.schedule.sampling.random_schedule import sample_schedule
from autosched.schedule.types import Schedule
from autosched.search.strategies.compute_root import schedule_roots
from autosched.target import get_target
from tests.runtime.timing.fake_gpu import EVENT_S, FakeGpu

PROBLEM = Problem.app("blur", small=True)
H200 = get_target("h200")
RULE = StopRule(least_samples=5, least_seconds=0.0, most_seconds=10.0)

pytestmark = pytest.mark.skipif(not have_nvrtc(), reason="NVRTC is not installed")


@pytest.fixture(scope="module")
def prepared() -> Prepared:
    return CudaBackend("fake").prepare(Job.of(PROBLEM, schedule_roots(PROBLEM.bind(), H200), H200))


def names(prepared: Prepared) -> list[str]:
    return [step.function for step in prepared.payload.steps]


def test_a_candidate_is_compiled_and_can_be_sent_to_another_process(prepared: Prepared) -> None:
    there = pickle.loads(pickle.dumps(prepared))
    assert there == prepared
    assert len(prepared.kernels) == len(names(prepared)) == 2
    assert all(k.registers and k.registers > 0 and k.spill_bytes == 0 for k in prepared.kernels)
    assert prepared.compiler.startswith("NVRTC")
    assert set(prepared.payload.cubins) == set(names(prepared))


def test_shared_kernels_are_printed_as_alone(prepared: Prepared) -> None:
    bound = PROBLEM.bind()
    rng = np.random.default_rng(0)
    schedules = [sample_schedule(bound, H200, rng, varied=True) for _ in range(6)]
    for schedule in (*schedules, *schedules):
        keys = kernel_keys(bound, schedule_text(bound, schedule), H200)
        kernels = lower(bound, schedule).kernels
        shared = [print_cached(key, k.name, lambda k=k: k)[0] for key, k in zip(keys, kernels, strict=True)]
        assert shared == [print_cuda(k) for k in kernels]


def test_a_label_is_the_time_of_a_round_over_the_copies(prepared: Prepared) -> None:
    first, second = names(prepared)
    gpu = FakeGpu({first: 30e-6, second: 50e-6})
    timing = time_launches(gpu, prepared, RULE)
    copies = timing.conditions["copies"]
    assert timing.seconds == pytest.approx(80e-6 + EVENT_S / copies)
    assert timing.kernel_seconds == pytest.approx((3 / 8 * timing.seconds, 5 / 8 * timing.seconds))
    assert (timing.registers, timing.spill_bytes) == (tuple(k.registers for k in prepared.kernels), (0, 0))
    assert timing.conditions["sm_mhz"] == 1980.0
    assert timing.samples >= RULE.least_samples


def test_candidates_are_timed_in_turns_each_as_it_is_alone(prepared: Prepared) -> None:
    first, second = names(prepared)
    gpu = FakeGpu({first: 30e-6, second: 50e-6})
    rounds = time_launches_interleaved(gpu, [prepared, prepared], RoundsRule(least=6, most=6), lambda: gpu.now)
    assert len(rounds.seconds) == 6
    alone = time_launches(gpu, prepared, RULE).seconds
    assert rounds.seconds[0] == pytest.approx((alone, alone))
    assert len(gpu.driver.graphs) == 3
    workspaces = {launch.arguments[1] for graph in gpu.driver.graphs for launch in graph.launches[::2]}
    assert len(workspaces) == 1


def test_a_round_is_one_graph_over_different_arrays(prepared: Prepared) -> None:
    gpu = FakeGpu()
    timing = time_launches(gpu, prepared, RULE)
    (graph,) = gpu.driver.graphs
    copies = int(timing.conditions["copies"])
    assert [launch.function.name for launch in graph.launches] == names(prepared) * copies
    inputs = [launch.arguments[0] for launch in graph.launches[::2]]
    workspaces = {launch.arguments[1] for launch in graph.launches[::2]}
    assert len(set(inputs)) == copies
    assert len(workspaces) == 1, "intermediate arrays are as warm as the pipeline leaves them"
    assert {gpu.written[int(i)] for i in inputs} == {PROBLEM.inputs(0)["input"].tobytes()}


def test_before_every_round_more_is_written_than_the_copies_leave_of_the_cache(prepared: Prepared) -> None:
    gpu = FakeGpu(cache_bytes=64 << 20)
    timing = time_launches(gpu, prepared, RULE)
    copy = sum(a.nbytes for a in PROBLEM.inputs(0).values())
    least = 2 * gpu.cache_bytes - 3 * copy * int(timing.conditions["copies"])
    fills = [size for _, size, byte in gpu.fills if byte == 0]
    assert len(fills) >= timing.samples
    assert min(fills) >= least > gpu.cache_bytes


def test_without_graphs_the_round_is_launched_plainly(prepared: Prepared) -> None:
    gpu = FakeGpu(fail_capture=True)
    timing = time_launches(gpu, prepared, RULE)
    assert not gpu.driver.graph_launches
    assert timing.seconds == pytest.approx(20e-6 + EVENT_S / timing.conditions["copies"])


def test_outputs_and_workspace_are_poisoned_before_a_result_is_taken(prepared: Prepared) -> None:
    gpu = FakeGpu()
    outputs = run_once(gpu, prepared)
    assert {name: a.shape for name, a in outputs.items()} == {
        name: PROBLEM.bind().funcs[func].extents for name, func in PROBLEM.bind().outputs.items()
    }
    poisoned = [size for _, size, byte in gpu.fills if byte == 0xA5]
    assert prepared.payload.workspace_bytes in poisoned
    assert sum(poisoned) == prepared.payload.workspace_bytes + sum(a.nbytes for a in outputs.values())


def test_a_refused_launch_is_told_from_a_lost_device(prepared: Prepared) -> None:
    first, second = names(prepared)
    with pytest.raises(LaunchError, match="the driver refuses") as refused:
        run_once(FakeGpu(refused=second), prepared)
    assert not isinstance(refused.value, DeviceLostError)
    for gpu in (FakeGpu(lost=first), FakeGpu(lost=first, refused=second)):
        with pytest.raises(DeviceLostError):
            run_once(gpu, prepared)
    with pytest.raises(DeviceLostError):
        time_launches(FakeGpu(lost=second), prepared, RULE)


def test_errors_name_the_kernels_of_the_candidate(prepared: Prepared, monkeypatch: pytest.MonkeyPatch) -> None:
    second = names(prepared)[1]
    label = prepared.payload.names[second]
    assert second.startswith("as_kernel_") and not label.startswith("as_kernel_")

    def lacks_memory(module: CudaModule, name: str, shared_bytes: int) -> Any:
        if name == second:
            raise LaunchError(f"kernel {name} needs 9 bytes")
        return function(module, name, shared_bytes)

    function = CudaModule.function
    monkeypatch.setattr(CudaModule, "function", lacks_memory)
    for run in (
        lambda: run_once(FakeGpu(), prepared),
        lambda: time_launches(FakeGpu(), prepared, RULE),
        lambda: time_launches_interleaved(FakeGpu(), [prepared], RoundsRule()),
    ):
        with pytest.raises(LaunchError, match=f"kernel {label} needs 9 bytes"):
            run()

    def refuse(functions: Any, *_: Any, **__: Any) -> Any:
        raise CompileError(f"NVRTC refused {functions[1].name}", source=functions[1].source, log=functions[1].name)

    monkeypatch.setattr(compile_candidate, "compile_kernels", refuse)
    with pytest.raises(CompileError, match=f"NVRTC refused {label}\n{label}$") as refused:
        CudaBackend("H200").prepare(prepared.job)
    assert refused.value.log == label and "as_kernel_" not in refused.value.source


def test_arrays_that_do_not_fit_are_refused(prepared: Prepared) -> None:
    with pytest.raises(LaunchError, match="measure smaller shapes"):
        run_once(FakeGpu(memory_bytes=1 << 12), prepared)


def test_kernel_times_without_that_of_events() -> None:
    assert shares(12.0, [5.0, 9.0], 1.0, [True, True]) == (4.0, 8.0)
    assert shares(4.0, [5.0, 9.0], 1.0, [True, False]) == (4.0, 0.0)
    assert sum(shares(1.0, [1.0, 1.0, 20.0], 2.0, [True] * 3)) == pytest.approx(1.0)
    assert min(shares(1.0, [1.0, 1.0, 20.0], 2.0, [True] * 3)) > 0
    assert shares(1.0, [], 1.0, []) == ()


def test_every_gpu_has_a_bench_and_labels_say_what_they_are() -> None:
    backend = CudaBackend("H200", (0, 2), fast_math=True)
    assert [b.numbers for b in backend.device_backends()] == [(0,), (2,)]  # type: ignore[attr-defined]
    assert backend.source == "measured:H200 fast-math"
    assert CudaBackend("H200").source == "measured:H200"
    assert not backend.same_bits


def test_what_nvrtc_refuses_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, prepared: Prepared) -> None:
    monkeypatch.setenv("AUTOSCHED_CACHE_DIR", str(tmp_path))
    from dataclasses import replace

    schedule: Schedule = prepared.job.read_schedule()
    kernel = print_cuda(lower(PROBLEM.bind(), schedule).kernels[0])
    with pytest.raises(CompileError):
        compile_kernels([replace(kernel, body=kernel.body + "}")], "sm_90", NvrtcOptions())


@pytest.mark.gpu
def test_on_a_real_gpu() -> None:
    target = get_target("cuda")
    backend = CudaBackend.detect()
    job = Job.of(PROBLEM, schedule_roots(PROBLEM.bind(), target), target)
    candidate = backend.prepare(job)
    outputs = backend.outputs(candidate)
    timing = backend.time(candidate)
    from autosched.measure.result_check import first_difference, interpreted

    expected = interpreted(PROBLEM, 0)
    assert expected is not None
    assert outputs is not None
    assert first_difference(PROBLEM, outputs, expected, same_bits=False) is None
    assert 0 < timing.seconds < 1e-3
    assert sum(timing.kernel_seconds) == pytest.approx(timing.seconds)
