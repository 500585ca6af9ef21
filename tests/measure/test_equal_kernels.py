"""Equal kernels of candidates are compiled once on every device, and run and cost as with their own names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import autosched
from autosched.analysis.bind import bind
from autosched.apps import get_app
from autosched.codegen.c import print_c
from autosched.codegen.cuda import print_cuda
from autosched.codegen.identical_kernels import print_with_canonical_names
from autosched.lower.program import lower
from autosched.measure.backend import Backend
from autosched.measure.backends import cpu
from autosched.measure.backends.cpu import CpuBackend
from autosched.measure.backends.cuda import CudaBackend, time_launches
from autosched.measure.backends.simulated import SimulatedBackend
from autosched.measure.compile import compile_candidate
from autosched.measure.job import Job
from autosched.measure.problem import Problem
from autosched.measure.simulated.simulate import simulate
from autosched.runtime.compile.host_compiler import have_compiler
from autosched.runtime.compile.nvrtc import NvrtcOptions, compile_cubin, have_nvrtc
from autosched.schedule.sampling.random_schedule import sample_schedule
from autosched.schedule.types import Schedule
from autosched.search.strategies.compute_root import schedule_roots
from autosched.target import Target, get_target
from tests.measure.test_cuda import RULE
from tests.runtime.timing.fake_gpu import FakeGpu

H200 = get_target("h200")
needs_nvrtc = pytest.mark.skipif(not have_nvrtc(), reason="NVRTC is not installed")
needs_compiler = pytest.mark.skipif(not have_compiler(), reason="no C compiler")


def sweeps(count: int) -> Problem:
    """Return sweeps of one Func, rows of which are laid out alike in the caller's arrays and in intermediate ones."""
    return Problem.of(bind(get_app("smoother7pt").build(T=count), {"in": (12, 16, 32)}))


def roots(problem: Problem, target: Target) -> Job:
    return Job.of(problem, schedule_roots(problem.bind(), target), target)


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """Return the texts that compilers are given, from an empty cache on."""
    monkeypatch.setenv("AUTOSCHED_CACHE_DIR", str(tmp_path))
    compile_candidate._COMPILED.clear()
    texts: list[str] = []
    batch, library = compile_candidate.compile_batch, cpu.compile_shared_library

    def spied_batch(sources: Any, *arguments: Any) -> Any:
        texts.extend(s.text for s in sources)
        return batch(sources, *arguments)

    def spied_library(text: str, *arguments: Any) -> Any:
        texts.append(text)
        return library(text, *arguments)

    monkeypatch.setattr(compile_candidate, "compile_batch", spied_batch)
    monkeypatch.setattr(cpu, "compile_shared_library", spied_library)
    return texts


def devices() -> list[Any]:
    return [
        pytest.param(lambda: CudaBackend("fake"), H200, id="cuda", marks=needs_nvrtc),
        pytest.param(lambda: SimulatedBackend(H200), H200, id="simulated", marks=needs_nvrtc),
        pytest.param(CpuBackend, get_target("cpu"), id="cpu", marks=needs_compiler),
    ]


@pytest.mark.parametrize(("make", "target"), devices())
def test_kernels_of_candidates_are_compiled_once(make: Any, target: Target, compiled: list[str]) -> None:
    backend: Backend = make()
    prepared = backend.prepare(roots(sweeps(8), target))
    assert len(prepared.kernels) == 8
    assert len(compiled) == 1
    longer = backend.prepare(roots(sweeps(9), target))
    assert len(longer.kernels) == 9
    assert len(set(compiled)) == 1, "the other candidate has no other function"
    assert len({k.text for k in longer.kernels}) == 9, "records have the text of each kernel"


@pytest.mark.parametrize(("make", "target"), devices())
def test_other_kernels_are_compiled(make: Any, target: Target, compiled: list[str]) -> None:
    backend: Backend = make()
    blur = Problem.app("blur", small=True)
    backend.prepare(roots(sweeps(2), target))
    before = len(set(compiled))
    backend.prepare(roots(blur, target))
    assert len(set(compiled)) == before + 2, "two kernels that differ"


@needs_compiler
def test_bits_on_the_processor() -> None:
    problem = sweeps(5)
    backend = CpuBackend()
    outputs = backend.outputs(backend.prepare(roots(problem, get_target("cpu"))))
    assert outputs is not None
    opened = problem.opened()
    reference = autosched.interpret(opened.bound.pipeline, opened.make_inputs(0))
    for name, array in outputs.items():
        np.testing.assert_array_equal(array, reference[name])


@needs_nvrtc
def test_launches_have_arrays_of_their_own() -> None:
    prepared = CudaBackend("fake").prepare(roots(sweeps(8), H200))
    assert len(prepared.payload.cubins) == 1
    assert len({step.arguments for step in prepared.payload.steps}) == 4, "input, two arrays in turn, output"
    timing = time_launches(FakeGpu(), prepared, RULE)
    assert len(timing.kernel_seconds) == 8


@needs_nvrtc
def test_simulated_times_are_those_of_kernels_with_their_own_names() -> None:
    problem = Problem.app("unsharp", small=True)
    bound, rng = problem.bind(), np.random.default_rng(3)
    for _ in range(3):
        schedule: Schedule = sample_schedule(bound, H200, rng, varied=True)
        backend = SimulatedBackend(H200)
        prepared = backend.prepare(Job.of(problem, schedule, H200))
        assert backend.time(prepared).seconds == simulate(bound, schedule, H200).seconds


@needs_nvrtc
@pytest.mark.parametrize("app", ["unsharp", "hist", "smoother7pt"])
def test_names_do_not_change_machine_code(app: str) -> None:
    bound, rng = Problem.app(app, small=True).bind(), np.random.default_rng(1)
    options = NvrtcOptions(lineinfo=False)
    for schedule in (schedule_roots(bound, H200), sample_schedule(bound, H200, rng, varied=True)):
        for kernel in lower(bound, schedule).kernels:
            printed, function = print_with_canonical_names(kernel)
            assert printed == print_cuda(kernel)
            assert function.params == printed.params
            own = compile_cubin(printed.source, "sm_90", options, name=printed.name).kernels[printed.name]
            other = compile_cubin(function.source, "sm_90", options, name=function.name).kernels[function.name]
            assert own == other


def test_canonical_file_has_no_name_of_the_pipeline() -> None:
    program = lower(sweeps(3).bind(), schedule_roots(sweeps(3).bind(), get_target("cpu")))
    source = print_c(program)
    assert "smoother7pt" in source.text
    assert "smoother7pt" not in source.canonical_text
    others = {name for name in source.arrays if name != "in"}
    assert others and not any(name in source.canonical_text for name in others)
