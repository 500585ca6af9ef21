"""Measuring on this machine's processor, for real and small."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from autosched.codegen.c import print_c
from autosched.errors import InputError, ScheduleError
from autosched.host import Host
from autosched.lower.program import lower
from autosched.measure.backends.cpu import CpuBackend
from autosched.measure.compare.interleaved_comparison import InterleavedComparison
from autosched.measure.compile.content_keys import digest
from autosched.measure.compile.single_flight import MadeElsewhere, once_each
from autosched.measure.job import Job, Prepared, Status
from autosched.measure.measurer import Measurer
from autosched.measure.problem import Problem
from autosched.measure.result_check import first_difference, interpreted
from autosched.measure.settings import MeasureSettings
from autosched.measure.store.cpu_labels import cpu_source, target_of_labels
from autosched.random_pipelines.settings import SMALL
from autosched.runtime.call.signature import output_specs
from autosched.runtime.compile.host_compiler import have_compiler
from autosched.runtime.timing.host_arrays import HostArrays
from autosched.runtime.timing.host_timer import HostTimer
from autosched.runtime.timing.interleaved import RoundsRule
from autosched.runtime.timing.statistics import StopRule
from autosched.schedule.sampling.random_schedule import sample_schedule
from autosched.search.datasets.candidate_mix import CandidateGenerator
from autosched.search.strategies.compute_root import schedule_roots
from autosched.settings import available_cpus
from autosched.target import get_target

PROBLEM = Problem.app("unsharp", small=True)
SCALED = Problem.random(3, SMALL)
CPU = get_target("cpu")
THREADS = min(2, available_cpus())
BACKEND = CpuBackend(threads=THREADS, rule=StopRule(least_samples=7, most_seconds=0.05))
HOST = Host(2, 8, 1 << 18, 1 << 20, 1 << 30, 1e9)

pytestmark = pytest.mark.skipif(not have_compiler("c"), reason="there is no C compiler")


def baseline(problem: Problem) -> Job:
    return Job.of(problem, schedule_roots(problem.bind(), CPU), CPU, origin="roots")


def sampled(problem: Problem, seed: int) -> Job:
    return Job.of(problem, sample_schedule(problem.bind(), CPU, np.random.default_rng(seed)), CPU, origin="legal")


def checked(prepared: Prepared) -> str | None:
    problem = prepared.job.problem
    got, expected = BACKEND.outputs(prepared), interpreted(problem, prepared.job.seed)
    assert got is not None
    assert expected is not None
    return first_difference(problem, got, expected, same_bits=True)


@pytest.mark.parametrize("problem", [PROBLEM, SCALED], ids=lambda p: p.title)
def test_a_candidate_computes_what_the_interpreter_does_and_is_timed(problem: Problem) -> None:
    for job in (baseline(problem), sampled(problem, 1)):
        prepared = BACKEND.prepare(job)
        assert checked(prepared) is None
        timing = BACKEND.time(prepared)
        assert len(timing.kernel_seconds) == len(prepared.kernels) == len(job.read_schedule().kernels)
        assert all(s > 0 for s in timing.kernel_seconds)
        assert timing.samples >= 1
        assert timing.conditions["threads"] == THREADS
        assert not timing.registers


def test_a_processor_has_as_many_cores_as_openmp_has_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    alone = get_target("cpu")
    assert alone.multiprocessors == CpuBackend().threads == 1
    monkeypatch.delenv("OMP_NUM_THREADS")
    everything = get_target("cpu")
    assert everything.multiprocessors == CpuBackend().threads == available_cpus()
    assert target_of_labels(everything, CpuBackend(threads=1).source) == alone


def test_candidates_are_timed_in_turns() -> None:
    jobs = [baseline(PROBLEM), sampled(PROBLEM, 1), sampled(PROBLEM, 2)]
    with InterleavedComparison(BACKEND, rule=RoundsRule(least=7, most=9, most_seconds=0.1)) as comparer:
        rounds = comparer.compare(jobs)
    assert 7 <= len(rounds.seconds) <= 9
    assert all(len(row) == 3 and min(row) > 0 for row in rounds.seconds)


def test_a_copy_of_the_arrays_is_used_by_one_run_after_the_other() -> None:
    used: list[int] = []
    arrays = HostArrays(PROBLEM.inputs(0), output_specs(PROBLEM.bind()), HOST)
    timer = HostTimer(arrays)
    one, two = ([[lambda c=c: used.append(c)] for c in range(arrays.rotation.copies)] for _ in range(2))  # type: ignore[misc]
    for _ in range(2 * arrays.rotation.copies):
        timer.run(one)
        timer.run(two)
    assert used == [k % arrays.rotation.copies for k in range(4 * arrays.rotation.copies)]


def test_a_library_that_is_being_compiled_elsewhere_is_waited_for_only_if_asked_to() -> None:
    job = baseline(PROBLEM)
    prepared = BACKEND.prepare(job)

    def elsewhere(text: str) -> None:
        with pytest.raises(MadeElsewhere):
            BACKEND.prepare(job, wait=False)

    program = lower(PROBLEM.bind(), job.read_schedule())
    first = print_c(replace(program, kernels=program.kernels[:1])).canonical_text
    once_each([digest(first)], lambda key: key, elsewhere)
    assert BACKEND.prepare(job, wait=False).payload == prepared.payload


def test_kernels_that_schedules_share_have_one_key_and_one_library() -> None:
    candidates = CandidateGenerator(PROBLEM.bind(), CPU, 0)
    schedule = schedule_roots(PROBLEM.bind(), CPU)
    mutated = candidates.mutator.mutated(schedule, np.random.default_rng(0))
    assert mutated is not None
    one, two = (BACKEND.prepare(Job.of(PROBLEM, s, CPU)) for s in (schedule, mutated))
    same = [a == b for a, b in zip(schedule.kernels, mutated.kernels, strict=True)]
    assert [a.key == b.key for a, b in zip(one.kernels, two.kernels, strict=True)] == same
    assert [a.path == b.path for a, b in zip(one.payload.libraries, two.payload.libraries, strict=True)] == same
    assert sum(same) == len(same) - 1


def test_results_left_from_another_candidate_are_not_taken_for_this_ones() -> None:
    prepared = BACKEND.prepare(baseline(PROBLEM))
    assert checked(prepared) is None
    payload = prepared.payload
    lazy = type(payload)(payload.libraries[:-1], payload.public, payload.workspace, payload.workspace_bytes)
    broken = Prepared(prepared.job, prepared.kernels, prepared.compiler, lazy)
    assert "output" in str(checked(broken))


def test_an_illegal_schedule_is_refused() -> None:
    job = baseline(PROBLEM)
    document = json.loads(job.schedule)
    document["kernels"].pop()
    with pytest.raises(ScheduleError):
        BACKEND.prepare(Job(PROBLEM, json.dumps(document), CPU))


def test_arrays_of_all_copies_hold_the_inputs() -> None:
    arrays = HostArrays(PROBLEM.inputs(0), output_specs(PROBLEM.bind()), HOST)
    assert arrays.rotation.copies > 2
    assert arrays.rotation.total_bytes + arrays.rotation.flush_bytes > 2 * HOST.last_level_bytes
    for name, expected in PROBLEM.inputs(0).items():
        for copy in (0, arrays.rotation.copies - 1):
            np.testing.assert_array_equal(arrays.array(copy, name), expected)
            assert arrays.address(copy, name) % 64 == 0


def test_candidates_are_measured_in_processes(tmp_path: Path) -> None:
    settings = MeasureSettings(compile_processes=2)
    measurer = Measurer(BACKEND, baseline, None, settings)
    jobs = [*(sampled(PROBLEM, n) for n in range(3)), baseline(PROBLEM), sampled(PROBLEM, 1)]
    results = list(measurer.run(jobs))
    assert sorted(r.job.origin for r in results) == ["legal"] * 3 + ["roots"]
    assert {r.status for r in results} == {Status.OK}
    assert {r.source for r in results} == {cpu_source(THREADS)}
    assert all(r.timing is not None and r.timing.seconds > 0 for r in results)


def test_a_machine_that_labels_do_not_name_is_refused() -> None:
    other = CpuBackend(threads=1, source="measured:cpu Another [Vendor 1, 16 lanes, 1024 and 32768 KiB of cache] x1")
    with pytest.raises(
        InputError, match=r"this machine has .* x1', and the backend's source is 'measured:cpu Another .* x1'"
    ):
        other.check_machine()
