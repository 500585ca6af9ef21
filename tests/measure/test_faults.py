"""Faults of processes: no result is lost or counted twice, and the run ends with a message."""

from __future__ import annotations

import os
import queue
import random
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import pytest

from autosched.errors import DatabaseError, InputError, MeasureError
from autosched.measure.backend import Backend
from autosched.measure.job import Job, Result, Status, Timing
from autosched.measure.measurer import Measurer
from autosched.measure.settings import MeasureSettings
from autosched.measure.store.database import ResultsDatabase
from autosched.measure.workers.pool import Event
from autosched.measure.workers.task import Task
from tests.measure.faulty_backend import OTHER, PROBLEM, FaultyBackend, Note, baseline, job, notes

SETTINGS = MeasureSettings(compile_processes=1, compile_timeout_s=60, time_limit_s=60)
IMPATIENT = MeasureSettings(compile_processes=1, compile_timeout_s=1.5, time_limit_s=1.5)


def measure(
    tmp_path: Path,
    jobs: Iterable[Job],
    settings: MeasureSettings = SETTINGS,
    database: ResultsDatabase | None = None,
    **options: object,
) -> tuple[list[Result], Measurer]:
    backend = FaultyBackend(str(tmp_path), **options)  # type: ignore[arg-type]
    measurer = Measurer(backend, baseline, database, settings)
    return list(measurer.run(jobs)), measurer


def by_fault(results: Iterable[Result]) -> dict[str, Result]:
    return {r.job.origin: r for r in results if r.job.origin}


def test_each_fault_is_recorded_with_its_kind_and_the_others_go_on(tmp_path: Path) -> None:
    expected = {
        "refused": Status.COMPILE,
        "compiler_killed": Status.COMPILE_CRASH,
        "mistake": Status.ERROR,
        "killed": Status.CRASH,
        "illegal_access": Status.CRASH,
        "loses_device": Status.CRASH,
        "refused_launch": Status.LAUNCH,
        "no_memory": Status.LAUNCH,
        "wrong": Status.WRONG_RESULT,
    }
    jobs = [j for n, fault in enumerate(expected) for j in (job(fault, n), job("", n))]
    with ResultsDatabase(tmp_path / "results.sqlite") as database:
        results, measurer = measure(tmp_path, jobs, database=database)
        assert {fault: r.status for fault, r in by_fault(results).items()} == expected
        assert len(results) == 1 + 2 * len(expected)
        assert measurer.summary.counts[Status.OK] == 1 + len(expected)
        rows = list(database.rows(status=None))
        assert sorted(r.status for r in rows) == sorted(r.status for r in results)
    errors = {fault: r.error for fault, r in by_fault(results).items()}
    assert "no semicolon" in errors["refused"]
    assert "killed by SIGKILL" in errors["compiler_killed"]
    assert "killed by SIGKILL" in errors["killed"]
    assert "killed by SIGSEGV" in errors["illegal_access"]
    assert "ILLEGAL_ADDRESS" in errors["loses_device"]
    assert "ZeroDivisionError" in errors["mistake"]
    assert "output 'output'" in errors["wrong"]
    assert measurer.summary.exit_code == 1


def test_what_never_ends_is_killed_and_the_others_go_on(tmp_path: Path) -> None:
    jobs = [job("compiler_hangs"), job("", 1), job("never_ends"), job("", 2)]
    results, measurer = measure(tmp_path, jobs, IMPATIENT)
    assert {f: r.status for f, r in by_fault(results).items()} == {
        "compiler_hangs": Status.COMPILE_TIMEOUT,
        "never_ends": Status.TIMEOUT,
    }
    assert measurer.summary.counts[Status.OK] == 3
    assert measurer.summary.exit_code == 0
    assert "1.5 s" in by_fault(results)["never_ends"].error


def test_a_candidate_is_not_blamed_for_the_device_that_another_left_behind(tmp_path: Path) -> None:
    results, _ = measure(tmp_path, [job("poisons_device"), job("", 1)])
    assert [r.status for r in results if r.job == job("", 1)] == [Status.OK]


def test_a_candidate_is_not_blamed_for_the_compiler_that_another_left_behind(tmp_path: Path) -> None:
    results, _ = measure(tmp_path, [job("exhausts_compiler"), job("", 1)])
    assert [r.status for r in results] == [Status.OK] * 3


def test_another_machine_than_labels_say_is_refused(tmp_path: Path) -> None:
    with ResultsDatabase(tmp_path / "results.sqlite") as database:
        with pytest.raises(InputError, match="another device"):
            measure(tmp_path, [job()], database=database, elsewhere=True)
        assert list(database.rows(status=None)) == []


def test_a_failed_baseline_leaves_nothing_to_compare_with(tmp_path: Path) -> None:
    backend = FaultyBackend(str(tmp_path))
    for fault, status in (("killed", Status.CRASH), ("refused", Status.COMPILE)):
        measurer = Measurer(backend, lambda problem, f=fault: job(f, -1, problem), None, SETTINGS)  # type: ignore[misc]
        results = list(measurer.run([job("", 1), job("", 2)]))
        assert [r.status for r in results] == [status, Status.NO_REFERENCE, Status.NO_REFERENCE]
        assert str(status) in results[1].error


def test_a_full_cache_ends_the_run(tmp_path: Path) -> None:
    with pytest.raises(MeasureError, match="No space left"):
        measure(tmp_path, [job("", 1), job("cache_full"), job("", 2)])


def test_a_worker_that_does_not_start_ends_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "nowhere"))
    with pytest.raises(MeasureError, match="no worker process can be started"):
        measure(tmp_path, [job()])


def test_a_full_disk_ends_the_run_and_the_next_one_goes_on(tmp_path: Path) -> None:
    jobs = [job("", n) for n in range(30)]
    with ResultsDatabase(tmp_path / "results.sqlite") as database:
        pages = database._connection.execute("PRAGMA page_count").fetchone()[0]
        database._connection.execute(f"PRAGMA max_page_count = {pages + 1}")
        with pytest.raises(DatabaseError, match=r"results\.sqlite.*full.*free space"):
            measure(tmp_path, jobs, database=database)
        stored = len(list(database.rows()))
        assert stored < 31
        database._connection.execute("PRAGMA max_page_count = 100000")
        results, measurer = measure(tmp_path, jobs, database=database)
        assert len(results) == 31 - stored
        assert measurer.summary.cached == stored - 1, "the baseline is stored and was not among those given"
        assert len(list(database.rows())) == 31


def test_a_database_locked_for_a_while_is_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "results.sqlite"
    with ResultsDatabase(path, busy_timeout_s=60) as database:
        other = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        release = threading.Timer(0.3, lambda: other.execute("ROLLBACK"))
        release.start()
        results, _ = measure(tmp_path, [job("", 1)], database=database)
        release.join()
        assert len(results) == len(list(database.rows())) == 2


def test_a_database_locked_for_good_ends_the_run_and_the_next_one_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "results.sqlite"
    with ResultsDatabase(path, busy_timeout_s=0.1) as database:
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(DatabaseError, match=r"results\.sqlite.*another process has locked it"):
            measure(tmp_path, [job("", 1)], database=database)
        other.execute("ROLLBACK")
        assert list(database.rows()) == []
        measure(tmp_path, [job("", 1)], database=database)
        assert len(list(database.rows())) == 2


def _started(tmp_path: Path, mode: str) -> subprocess.Popen[bytes]:
    program = [sys.executable, "-m", "tests.measure.tuning_cases", str(tmp_path), mode]
    return subprocess.Popen(program, cwd=Path(__file__).parents[2])


def _rows(path: Path) -> list[str]:
    if not path.exists():
        return []
    connection = sqlite3.connect(path, timeout=60)
    try:
        return [schedule for (schedule,) in connection.execute("SELECT schedule FROM results")]
    except sqlite3.OperationalError:  # the tables are being made
        return []
    finally:
        connection.close()


def test_a_run_killed_at_any_moment_is_resumed(tmp_path: Path) -> None:
    path = tmp_path / "results.sqlite"
    rng = random.Random()
    moments = sorted(rng.sample(range(1, 25), 3))
    for moment in moments:
        process = _started(tmp_path, "steady")
        while len(_rows(path)) < moment and process.poll() is None:
            time.sleep(0.002)
        time.sleep(rng.uniform(0, 0.01))
        process.send_signal(signal.SIGKILL)
        process.wait()
        before = _rows(path)
        assert len(set(before)) == len(before) >= moment
    assert _started(tmp_path, "steady").wait() == 0
    after = _rows(path)
    assert len(after) == len(set(after)) == 31
    assert set(before) <= set(after)
    timed = sum(line.startswith("end timed") for line in notes(tmp_path))
    assert timed <= 31 + len(moments) * (1 + SETTINGS.window), "only what was on its way is measured again"


def test_workers_end_with_the_process_that_was_killed(tmp_path: Path) -> None:
    process = _started(tmp_path, "never_ends")
    while not any("begin compiling" in line for line in notes(tmp_path)):
        time.sleep(0.01)
    while not _rows(tmp_path / "results.sqlite"):
        time.sleep(0.01)
    workers = {int(line.split()[-1]) for line in notes(tmp_path)}
    process.send_signal(signal.SIGKILL)
    process.wait()
    deadline = time.monotonic() + 30
    while any(_is_running(pid) for pid in workers):
        assert time.monotonic() < deadline, "a worker outlives the process it works for"
        time.sleep(0.01)


def _is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def test_closing_a_run_keeps_what_was_measured(tmp_path: Path) -> None:
    with ResultsDatabase(tmp_path / "results.sqlite") as database:
        measurer = Measurer(FaultyBackend(str(tmp_path)), baseline, database, SETTINGS)
        run = measurer.run(job("", n) for n in range(20))
        for _ in range(3):
            next(run)
        run.close()  # type: ignore[attr-defined]
        assert len(list(database.rows())) == measurer.summary.counts[Status.OK] >= 3
        rest = list(measurer.run(job("", n) for n in range(20)))
        assert len(list(database.rows())) == measurer.summary.counts[Status.OK] == 21
        assert rest


class LatePool:
    """A pool that ends while it hands over its last result."""

    def __init__(self, backend: Backend, settings: MeasureSettings) -> None:
        self.results: queue.SimpleQueue[Event] = queue.SimpleQueue()
        self._given: list[Event] = []

    def __enter__(self) -> LatePool:
        return self

    def __exit__(self, *_: object) -> None:
        self.results.put(self._given[1])

    def drawing(self) -> AbstractContextManager[None]:
        return nullcontext()

    def submit(self, task: Task) -> None:
        result = Result(task.job, "measured:faulty", "one", Status.OK, Timing(1e-3, 0.0, ()))
        self._given.append((task, result))
        if len(self._given) == 2:
            self.results.put(self._given[0])


def test_a_result_that_arrives_while_processes_end_is_kept(tmp_path: Path) -> None:
    with ResultsDatabase(tmp_path / "results.sqlite") as database:
        measurer = Measurer(FaultyBackend(str(tmp_path)), baseline, database, SETTINGS, pool=LatePool)
        run = measurer.run(job("", n) for n in range(4))
        first = next(run)
        run.close()  # type: ignore[attr-defined]
        assert [r.schedule for r in database.rows()] == [first.job.schedule, job("", 0).schedule]


def test_nothing_is_drawn_or_compiled_while_a_candidate_is_timed_on_the_same_cores(tmp_path: Path) -> None:
    def jobs() -> Iterator[Job]:
        for n in range(12):
            with Note(tmp_path, "drawing"):
                time.sleep(0.005)
            yield job("", n)

    settings = MeasureSettings(compile_processes=2, ahead=2)
    measure(tmp_path, jobs(), settings, quiet=True, seconds=0.01)
    at_work = timing = 0
    for line in notes(tmp_path):
        step = 1 if line.startswith("begin") else -1
        timing, at_work = (timing + step, at_work) if "timed" in line else (timing, at_work + step)
        assert not (timing and at_work), notes(tmp_path)
    assert sum("end timed" in line for line in notes(tmp_path)) == 13


@pytest.mark.parametrize("quiet", [False, True])
def test_a_candidate_that_others_are_compiling_a_part_of_lets_those_behind_it_go_first(
    tmp_path: Path, quiet: bool
) -> None:
    jobs = [job("made_elsewhere", 0), job("", 1), job("", 2)]
    results, _ = measure(tmp_path, jobs, quiet=quiet)
    assert [r.status for r in results] == [Status.OK] * 4
    assert [r.job for r in results] == [baseline(PROBLEM), jobs[1], jobs[2], jobs[0]]


def test_candidates_that_all_wait_for_others_are_compiled_in_the_end(tmp_path: Path) -> None:
    settings = MeasureSettings(compile_processes=2)
    results, _ = measure(tmp_path, [job("made_elsewhere", n) for n in range(9)], settings)
    assert [r.status for r in results] == [Status.OK] * 10
    assert len({r.job.schedule for r in results}) == 10


def test_every_device_has_a_process_and_all_candidates_of_a_problem_go_to_one(tmp_path: Path) -> None:
    jobs = [job("", n, problem) for problem in (PROBLEM, OTHER) for n in range(3)]
    results, _ = measure(tmp_path, jobs, devices=2)
    assert len(results) == 8
    timed = [line.split()[2:] for line in notes(tmp_path) if line.startswith("end timed")]
    assert sorted(number for number, _ in timed) == ["0"] * 4 + ["1"] * 4
    assert len({pid for _, pid in timed}) == 2
    assert os.getpid() not in {int(pid) for _, pid in timed}


@pytest.mark.parametrize(("lifetime", "processes"), [(1, 3), (3, 2)])
def test_the_measuring_process_is_replaced_after_its_lifetime(tmp_path: Path, lifetime: int, processes: int) -> None:
    settings = MeasureSettings(compile_processes=1, lifetime=lifetime)
    results, _ = measure(tmp_path, [job("", n) for n in range(2)], settings)
    assert [r.status for r in results] == [Status.OK] * 3
    assert len({line.split()[-1] for line in notes(tmp_path) if "end timed" in line}) == processes
