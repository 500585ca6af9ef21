"""Tuning: batches, measurements, training, and runs that are killed at any moment."""

from __future__ import annotations

import random
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from autosched.errors import InputError, MeasureError
from autosched.measure.compile.content_keys import digest
from autosched.measure.job import Status
from autosched.measure.store.database import ResultsDatabase
from autosched.model.predict.checkpoint import load_checkpoint
from autosched.runtime.compile.host_compiler import have_compiler
from autosched.search.tune.autotune.loop import Tuner
from autosched.search.tune.autotune.report import TuneReport
from autosched.search.tune.autotune.results import rescaled_times
from autosched.search.tune.autotune.settings import TuneSettings
from autosched.search.tune.autotune.state import Incumbent
from autosched.search.tune.final_selection import NOISE
from tests.search.tune.fake_backend import QuickBackend
from tests.search.tune.fast_settings import MEASURE, PROBLEM, SETTINGS, TARGET, tuned

REPORTS: dict[Path, list[TuneReport]] = {}
"""Reports of runs."""
Rows = dict[str, tuple[str, float | None]]


def rows(directory: Path) -> Rows:
    """Return the outcome of each schedule; fails if one is stored twice."""
    with ResultsDatabase(directory / "t.sqlite") as database:
        found = list(database.rows(status=None))
    assert len({r.schedule for r in found}) == len(found)
    return {r.schedule: (str(r.status), r.seconds) for r in found}


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("undisturbed")
    REPORTS[directory] = []
    tuned(directory, report=REPORTS[directory].append)
    return directory


def test_files_of_a_run(undisturbed: Path) -> None:
    found = tuned(undisturbed)  # everything is done already
    assert found.measured == 3 * SETTINGS.samples == len(rows(undisturbed))
    assert found.seconds == min(s for _, s in rows(undisturbed).values() if s is not None)
    assert found.baseline_seconds >= found.seconds
    assert len(found.errors) == 3
    assert found.files.schedule.exists()
    assert load_checkpoint(found.files.weights, TARGET).provenance.source == "measured:quick"
    with ResultsDatabase(undisturbed / "t.sqlite") as database:
        assert {r.origin for r in database.rows()} == {"roots", "beam", "greedy", "mutation"}


def test_weights_are_trained(undisturbed: Path, tmp_path: Path) -> None:
    first = tuned(tmp_path, iterations=1)
    before = load_checkpoint(first.files.weights, TARGET).network
    after = load_checkpoint(undisturbed / "t.weights.safetensors", TARGET).network
    changed = [
        not np.array_equal(a.numpy(), b.numpy()) for a, b in zip(before.parameters(), after.parameters(), strict=True)
    ]
    assert any(changed)


def test_files_of_another_run_are_refused(undisturbed: Path) -> None:
    def begin(**changes: object) -> Tuner:
        settings = replace(SETTINGS, **changes)  # type: ignore[arg-type]
        return Tuner(PROBLEM, TARGET, QuickBackend(), undisturbed / "t.sqlite", settings, measure=MEASURE, resume=True)

    assert begin().state.iteration == 3
    assert begin(iterations=5).state.iteration == 3
    with pytest.raises(InputError, match="of a tuning run with another pipeline"):
        begin(seed=2)
    with pytest.raises(InputError, match="resume it, or choose another"):
        Tuner(PROBLEM, TARGET, QuickBackend(), undisturbed / "t.sqlite", SETTINGS, measure=MEASURE)


def test_new_weights(tmp_path: Path) -> None:
    settings = TuneSettings(1, 4, 5, weights="random", search=SETTINGS.search)
    found = Tuner(PROBLEM, TARGET, QuickBackend(), tmp_path / "t.sqlite", settings, measure=MEASURE).run()
    assert load_checkpoint(found.files.weights, TARGET).provenance.data.startswith("4 schedules of 1 pipelines")


def test_failures_are_counted_and_not_fatal(tmp_path: Path) -> None:
    backend = QuickBackend(refused=2)
    settings = TuneSettings(1, 10, 10, search=SETTINGS.search)
    found = Tuner(PROBLEM, TARGET, backend, tmp_path / "t.sqlite", settings, measure=MEASURE).run()
    assert found.failures[Status.COMPILE] == sum(s == Status.COMPILE for s, _ in rows(tmp_path).values()) > 0
    assert found.measured == 10


def test_no_time_for_anything(tmp_path: Path) -> None:
    tuner = Tuner(PROBLEM, TARGET, QuickBackend(), tmp_path / "t.sqlite", SETTINGS, measure=MEASURE)
    with pytest.raises(MeasureError, match=r"no schedule of harris.* more time"):
        tuner.run(seconds=0.0)


def test_time_budget(tmp_path: Path, undisturbed: Path) -> None:
    for file in undisturbed.iterdir():
        shutil.copy(file, tmp_path)
    found = tuned(tmp_path)
    again = Tuner(
        PROBLEM, TARGET, QuickBackend(), tmp_path / "t.sqlite", replace(SETTINGS, iterations=9),
        measure=MEASURE, resume=True,
    ).run(seconds=0.01)  # fmt: skip
    assert again.cut_short
    assert again.seconds <= found.seconds


def test_reports(undisturbed: Path) -> None:
    seen = REPORTS[undisturbed]
    assert [r.activity for r in seen if r.activity != "measure"] == ["search", "compare", "train"] * 3
    bests = [r.best for r in seen]
    assert bests == sorted(bests, reverse=True)
    assert seen[-1].measured == seen[-1].total == 3 * SETTINGS.samples
    assert all(r.rate > 0 for r in seen if r.activity == "measure")


def test_comparisons_are_rescaled() -> None:
    one, two, three = (digest(text) for text in ("one", "two", "three"))
    champions = [
        Incumbent("one", 10.0, {one: 10.0, two: 12.0}),
        Incumbent("one", 9.0, {}),
        Incumbent("three", 18.0, {one: 20.0, three: 18.0}),
        Incumbent("three", 18.0, {}),
    ]
    assert rescaled_times(champions) == {one: 20.0, two: 24.0, three: 18.0}
    assert rescaled_times(champions[:2]) == {one: 10.0, two: 12.0}
    assert rescaled_times([]) == {}


def test_the_result_lists_the_fastest(undisturbed: Path) -> None:
    found = tuned(undisturbed)
    times = [t.seconds for t in found.trials.trials]
    assert times == sorted(times)
    assert len(times) == 12
    assert found.trials.best.schedule == found.schedule
    assert found.seconds == times[0]
    assert [t.seconds for t in found.trials.trials if t.origin == "roots"] == [found.baseline_seconds]
    again = [t for t in found.trials.trials if t.again_s is not None]
    assert len(again) != 1  # the possibly fastest ones are interleaved, none if one is clearly faster
    assert found.model.startswith("learned model")
    assert str(found.trials).splitlines()[-1] == "(measured:quick; the first is taken)"


def killed_runs(directory: Path, kills: int, kind: str, iterations: int = 3) -> Iterator[None]:
    """Start a run and kill it at a random moment, repeatedly; yields after each."""
    rng = random.Random(7)
    command = [sys.executable, "-m", "tests.search.tune.fast_settings", str(directory), str(iterations), kind]
    for _ in range(kills):
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        assert process.stdout is not None
        for _ in range(rng.randrange(1, 8)):  # a random number of progress lines
            process.stdout.readline()
        try:
            process.wait(rng.random())
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
        process.communicate()
        yield


def stored(directory: Path) -> Rows:
    return rows(directory) if (directory / "t.sqlite").exists() else {}


def kill_and_resume(directory: Path, expected: Path, kills: int, kind: str) -> None:
    """Kill a run at random moments; its result must equal that of an uninterrupted run."""
    for _ in killed_runs(directory, kills, kind):
        assert stored(directory).items() <= rows(expected).items()
    found = tuned(directory, kind=kind)
    assert rows(directory) == rows(expected)
    assert found.files.schedule.read_text() == (expected / "t.schedule.json").read_text()
    assert found.files.weights.read_bytes() == (expected / "t.weights.safetensors").read_bytes()


def kill_where_times_differ(directory: Path, kills: int, iterations: int) -> None:
    """Kill a run on the CPU at random moments: measured schedules stay and are not measured again."""
    before: Rows = {}
    seen = [0]
    for _ in killed_runs(directory, kills, "cpu", iterations):
        now = stored(directory)
        assert before.items() <= now.items(), "a row was lost, or has another time"
        assert not timed_alone(directory, seen[-1]) & {digest(schedule) for schedule in before}, "measured again"
        before = now
        seen.append(len(notes(directory)))
    found = tuned(directory, iterations, "cpu")
    now = rows(directory)
    assert before.items() <= now.items()
    assert not timed_alone(directory, seen[-1]) & {digest(schedule) for schedule in before}
    assert timed_alone(directory) == {digest(schedule) for schedule, (status, _) in now.items() if status == Status.OK}
    assert found.measured == len(now) == iterations * SETTINGS.samples
    assert found.seconds > 0 and found.baseline_seconds > 0  # which one is less depends on the machine's other work
    compared = [line for line in notes(directory) if " " in line]
    assert len(compared) <= iterations + kills
    times = sorted(seconds for status, seconds in now.values() if status == Status.OK and seconds is not None)
    assert compared or times[0] * (1 + NOISE) < times[1] * (1 - NOISE), "several may be the fastest"
    lines = notes(directory)
    assert tuned(directory, iterations, "cpu").seconds == found.seconds
    assert notes(directory) == lines, "a run that is done measures nothing"


def notes(directory: Path) -> list[str]:
    """Return a line for each measurement: the hashes of its schedules, several if timed interleaved."""
    path = directory / "notes"
    return path.read_text().splitlines() if path.exists() else []


def timed_alone(directory: Path, first: int = 0) -> set[str]:
    """Return the hashes of schedules that were timed alone, from a line of the notes on."""
    return {line for line in notes(directory)[first:] if " " not in line}


def test_killed_and_resumed(tmp_path: Path, undisturbed: Path) -> None:
    kill_and_resume(tmp_path, undisturbed, 2, "quick")


@pytest.mark.skipif(not have_compiler("c"), reason="there is no C compiler")
def test_killed_on_this_processor(tmp_path: Path) -> None:
    kill_where_times_differ(tmp_path, 1, 2)


@pytest.mark.fuzz
@pytest.mark.skipif(not have_compiler("c"), reason="there is no C compiler")
def test_killed_ten_times_on_this_processor(tmp_path: Path) -> None:
    kill_where_times_differ(tmp_path, 10, 3)


@pytest.mark.fuzz
def test_killed_ten_times_on_the_simulated_device(tmp_path: Path) -> None:
    expected, directory = tmp_path / "expected", tmp_path / "killed"
    for path in (expected, directory):
        path.mkdir()
    tuned(expected, kind="simulated")
    kill_and_resume(directory, expected, 10, "simulated")
