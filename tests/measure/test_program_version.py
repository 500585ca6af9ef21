"""Times of programs whose text has stayed as it was stay valid; those with marked loops are measured again."""

from __future__ import annotations

from pathlib import Path

import pytest

from autosched.codegen import c
from autosched.lower.passes.cpu import lower_thread_nests
from autosched.lower.passes.cpu.converted_integers import ConvertedIntegers
from autosched.lower.program import lower
from autosched.measure.compile.codegen_version import fixed_schedules, generator_version
from autosched.measure.compile.program_version import marked_version, program_version, without_addition
from autosched.measure.job import Job, KernelRecord, Result, Status, Timing
from autosched.measure.problem import Problem
from autosched.measure.store.database import ResultsDatabase
from autosched.measure.store.labels import LabelFiles
from autosched.measure.store.parquet_export import export_parquet
from autosched.search.strategies.compute_root import schedule_roots
from autosched.target import Target, get_target

CPU, H200 = get_target("cpu"), get_target("h200")
SOURCE = "measured:here"


def job(app: str, target: Target = CPU) -> Job:
    problem = Problem.app(app, small=True)
    return Job.of(problem, schedule_roots(problem.bind(), target), target, origin="roots")


def ok(candidate: Job, generator: str, seconds: float) -> Result:
    kernels = (KernelRecord("key", "text"),)
    return Result(candidate, SOURCE, generator, Status.OK, Timing(seconds, 0.0, (seconds,)), kernels=kernels)


PLAIN, SCAN = job("blur"), job("iir_blur")


def version(candidate: Job) -> str:
    return program_version("one", candidate.problem, candidate.schedule, candidate.target.name)


def test_only_programs_with_marked_loops_in_c_have_another_version() -> None:
    assert version(PLAIN) == "one"
    assert version(SCAN) == marked_version("one") != "one"
    assert version(job("iir_blur", H200)) == "one", "CUDA C has no marks"
    assert without_addition(marked_version("one")) == without_addition("one") == "one"


def test_a_schedule_that_cannot_be_read_has_no_addition() -> None:
    assert program_version("one", SCAN.problem, PLAIN.schedule, "cpu") == "one"


def test_the_version_of_the_generator_is_that_of_loops_without_dependences(monkeypatch: pytest.MonkeyPatch) -> None:
    programs = [lower(bound, schedule) for bound, schedule in fixed_schedules("c")]
    marked, before = [c.print_c(p).text for p in programs], generator_version("c")
    plain = [c.print_c(p, guarded=False).text for p in programs]
    monkeypatch.setattr(lower_thread_nests, "carries_dependence", lambda loop, bound: False)
    monkeypatch.setattr(ConvertedIntegers, "hidden", lambda self, v: v)  # has no version of its own
    assert marked != plain == [c.print_c(p).text for p in programs]
    from autosched.measure.compile import codegen_version

    assert codegen_version._version.__wrapped__("c", codegen_version._options()) == before


def test_old_times_count_where_the_text_is_the_same(tmp_path: Path) -> None:
    with ResultsDatabase(tmp_path / "results.sqlite") as database:
        database.record(ok(PLAIN, "one", 1.0))
        database.record(ok(SCAN, "one", 2.0))
        assert [r.seconds for r in database.rows(generator="one")] == [1.0]
        assert database.status_of(PLAIN, SOURCE, "one") is Status.OK
        assert database.status_of(SCAN, SOURCE, "one") is None, "it is measured again"
        database.record(ok(SCAN, marked_version("one"), 3.0))
        assert database.status_of(SCAN, SOURCE, "one") is Status.OK
        assert [r.seconds for r in database.rows(generator="one")] == [1.0, 3.0]
        assert [r.seconds for r in database.rows(generator=marked_version("one"))] == [1.0, 3.0]
        assert database.generators(SOURCE) == ["one"]
        database.retime([(SCAN, Timing(4.0, 0.0, (4.0,)))], SOURCE, "one")
        assert [r.seconds for r in database.rows()] == [1.0, 2.0, 4.0]
        pytest.importorskip("pyarrow")
        assert export_parquet(database, tmp_path / "labels.parquet", mixed=True) == 3
    labels = LabelFiles([tmp_path / "labels.parquet"])
    assert labels.generators(SOURCE) == ["one"]
    assert [r.seconds for r in labels.rows(generator="one")] == [1.0, 4.0]
