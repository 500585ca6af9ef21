"""Timing of finalists: what is timed, what is chosen, and what happens if the process fails."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import autosched
from autosched import Func, Var
from autosched.apps.registry import get_app
from autosched.cli import main
from autosched.errors import InputError
from autosched.measure.workers.program_service import ProgramService
from autosched.runtime.compile import host_compiler
from autosched.runtime.timing.interleaved import Rounds
from autosched.scheduled_pipeline import ScheduledPipeline
from autosched.search.calibration.processor_scale import ProcessorScale
from autosched.search.calibration.scale_cache import is_this_processor
from autosched.search.strategies.compute_root import schedule_roots
from autosched.search.tune import finalist_timing, one_shot
from autosched.search.tune.finalist_timing import select_winner
from autosched.search.tune.top_k import ROOTS
from autosched.target import get_target
from tests.search.tune.faulty_services import (
    CrashingService,
    GivenTimesService,
    HangingService,
    LateCompilerService,
    RefusingService,
)

APP = get_app("blur")
SHAPES = APP.shapes(APP.small_sizes)
CPU = get_target("cpu")


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AUTOSCHED_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(finalist_timing, "LEAST_PREDICTED_S", 0.0)  # the small app is predicted to be very short
    monkeypatch.setattr(one_shot, "find_scale", lambda *_: ProcessorScale())  # no microbenchmarks


def find(**options: object) -> ScheduledPipeline:
    given = {"target": "cpu", "samples": 3, "measure_finalists": True, **options}
    return autosched.schedule(APP.build(), SHAPES, **given)  # type: ignore[arg-type]


def is_timed(found: ScheduledPipeline) -> bool:
    assert found.provenance is not None
    assert (found.provenance.measured_s is None) == (found.trials is None)
    return found.trials is not None


def serve(monkeypatch: pytest.MonkeyPatch, service: ProgramService) -> None:
    monkeypatch.setattr(finalist_timing, "ProgramService", lambda: service)


def test_the_winner_is_a_finalist_and_is_cached_with_its_library(monkeypatch: pytest.MonkeyPatch) -> None:
    found = find()
    assert found.provenance is not None and found.trials is not None and found.search_result is not None
    assert found.provenance.source.startswith("measured:cpu")
    assert found.provenance.measured_s == found.trials.best.seconds > 0
    assert found.provenance.predicted_s == found.trials.best.predicted > 0
    assert found.schedule == found.trials.best.schedule == found.search_result.best
    schedules = [t.schedule for t in found.trials.trials]
    assert len(set(schedules)) == len(schedules) > 1
    assert [t.schedule for t in found.trials.trials if t.origin == ROOTS] == [schedule_roots(found.bound, CPU)]

    def refuse(*_: object) -> None:
        raise AssertionError("the library of a finalist is compiled again")

    monkeypatch.setattr(host_compiler, "_run_compiler", refuse)
    inputs = APP.make_inputs(APP.small_sizes)
    got = found.compile("cpu")(inputs)
    np.testing.assert_array_equal(got, next(iter(autosched.interpret(APP.build(), inputs).values())))
    again = find()
    assert again.provenance == replace(found.provenance, reused=True)
    assert again.schedule == found.schedule
    assert str(again.trials) == str(found.trials)


def test_option_and_variable_switch_it_off(monkeypatch: pytest.MonkeyPatch) -> None:
    serve(monkeypatch, GivenTimesService())
    assert is_timed(find())
    off = find(measure_finalists=False)
    assert not is_timed(off)
    assert off.provenance is not None and not off.provenance.reused  # a cache entry of its own
    assert off.schedule == find(measure_finalists=False, reuse=False).schedule
    monkeypatch.setenv("AUTOSCHED_HOST_TIMING", "0")
    assert not is_timed(find(measure_finalists=None, reuse=False))
    assert is_timed(find(reuse=False))  # the option precedes the variable
    monkeypatch.setenv("AUTOSCHED_HOST_TIMING", "1")
    assert is_timed(find(measure_finalists=None, reuse=False))
    assert not is_timed(find(measure_finalists=None, effort="fast", reuse=False))
    assert is_timed(find(effort="fast", reuse=False))


@pytest.mark.parametrize(
    "options",
    [
        {"target": replace(CPU, multiprocessors=CPU.multiprocessors + 1)},
        {"target": replace(CPU, processor="GenuineIntel 6 amx")},
        {"target": "h200", "cost": "analytical"},
        {"strategy": "beam"},
        {"seconds": 0.0},
    ],
)
def test_nothing_else_is_timed(options: dict[str, object], monkeypatch: pytest.MonkeyPatch) -> None:
    def start(*_: object, **__: object) -> None:
        raise AssertionError("a process is started")

    monkeypatch.setattr(finalist_timing, "WorkerProcess", start)
    assert not is_timed(find(**options))
    with pytest.raises(AssertionError, match="a process is started"):
        find()


@pytest.mark.parametrize(("limit", "value"), [("LEAST_PREDICTED_S", 1.0), ("TIMING_S", 1e-7)])
def test_too_short_and_too_long_runs_are_not_timed(limit: str, value: float, monkeypatch: pytest.MonkeyPatch) -> None:
    serve(monkeypatch, GivenTimesService())
    monkeypatch.setattr(finalist_timing, limit, value)
    found = find()
    assert not is_timed(found)
    assert found.provenance is not None and found.provenance.note == ""


def test_arrays_must_fit_into_a_share_of_the_free_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    serve(monkeypatch, GivenTimesService())
    monkeypatch.setattr(finalist_timing, "available_memory_bytes", lambda: 4 << 10)
    assert not is_timed(find())
    monkeypatch.setattr(finalist_timing, "available_memory_bytes", lambda: 4 << 30)
    assert is_timed(find(reuse=False))


def test_a_faster_finalist_is_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    serve(monkeypatch, GivenTimesService(fastest=0))
    best = find(reuse=False)
    serve(monkeypatch, GivenTimesService(fastest=1))
    other = find(reuse=False)
    assert best.trials is not None and other.trials is not None
    assert best.provenance is not None and other.provenance is not None
    assert other.schedule != best.schedule
    assert other.schedule in [t.schedule for t in best.trials.trials]
    assert best.provenance.note == ""
    assert other.provenance.note == "timed 50% faster than the best prediction"
    assert other.provenance.measured_s == 1e-3


@pytest.mark.parametrize(
    ("service", "reason"),
    [
        (CrashingService(), "the best predictions were not timed: the process ended (killed by SIGKILL)"),
        (HangingService(), "the best predictions were not timed: no answer in 0.3 s"),
        (RefusingService(), ""),
    ],
)
def test_a_failure_keeps_the_predicted_order(
    service: ProgramService, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    serve(monkeypatch, service)
    monkeypatch.setattr(finalist_timing, "KILL_AFTER_S", 0.3)
    found = find()
    assert not is_timed(found)
    assert found.provenance is not None and found.provenance.note == reason
    assert found.schedule == find(measure_finalists=False).schedule


def test_a_late_compiler_is_killed_within_the_time_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    serve(monkeypatch, LateCompilerService())
    scheduled = find(measure_finalists=False)
    assert scheduled.search_result is not None
    started = time.perf_counter()
    trials, note = finalist_timing.time_finalists(
        scheduled.bound.root_pipeline, CPU, scheduled.search_result, seconds=finalist_timing.LEAST_S + 1.0
    )
    assert trials is None
    assert note.startswith("the best predictions were not timed: ")
    assert time.perf_counter() - started < 60  # not the 600 s of the compiler


@pytest.mark.parametrize("fastest", [0, 1])
def test_the_command_shows_the_trials(fastest: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    serve(monkeypatch, GivenTimesService(fastest))
    small = [f"--size={name}={size}" for name, size in APP.small_sizes.items()]
    command = ["schedule", "blur", *small, "--target", "cpu", "--samples", "3", "--measure-finalists"]
    result = CliRunner().invoke(main, [*command, "--explain", "--html", str(tmp_path / "r.html")])
    assert result.exit_code == 0, result.output
    assert "baseline" in result.output and "times are measured:cpu" in result.output
    assert ("timed 50% faster than the best prediction" in result.output) == bool(fastest)
    assert "taken from the cache" in CliRunner().invoke(main, command).output
    off = CliRunner().invoke(main, [*command[:-1], "--no-measure-finalists"])
    assert off.exit_code == 0 and "times are" not in off.output


def test_the_decorator_times_finalists(monkeypatch: pytest.MonkeyPatch) -> None:
    def double(image: Any) -> Any:
        """Twice the neighbour's value."""
        y, x = Var("y"), Var("x")
        out = Func("out")
        out[y, x] = image.clamped()[y, x + 1] * 2
        return out.over(y=(0, 5), x=(0, 9))

    image = np.arange(45, dtype=np.float32).reshape(5, 9)
    kernel = autosched.jit(samples=2, measure_finalists=True)(double)
    np.testing.assert_array_equal(kernel(image)[:, :-1], 2 * image[:, 1:])
    serve(monkeypatch, CrashingService())
    again = autosched.jit(samples=2, reuse=False, measure_finalists=True)(double)
    np.testing.assert_array_equal(again(image), kernel(image))


def test_a_strange_option_is_refused() -> None:
    with pytest.raises(InputError, match="measure_finalists is 'yes': give True or False, or None for the default"):
        find(measure_finalists="yes")


def test_only_this_machines_processor_is_timed() -> None:
    assert is_this_processor(CPU)
    assert not is_this_processor(replace(CPU, l2_bytes=CPU.l2_bytes * 2))
    assert not is_this_processor(get_target("h200"))


def test_a_lead_within_noise_does_not_change_the_order() -> None:
    def winner(*ratios: float) -> int:
        return select_winner(Rounds(tuple((1.0, r, 1.5) for r in ratios)))

    assert winner(*[0.9] * 11) == 1
    assert winner(*[0.98] * 11) == 0  # a sure lead that is too small
    assert winner(*[0.8, 1.3] * 5, 0.9) == 0  # not sure
    assert winner(0.9, 0.95) == 1
    assert winner(0.9, 0.98) == 0  # few rounds, not all with the lead
    assert winner(0.9, 0.7) == 0  # few rounds, not steady
    assert select_winner(Rounds(((1.0, 0.9), (0.91, 0.82)))) == 0  # the lead is within the variation
    assert select_winner(Rounds(((1.0, 0.8), (0.95, 0.82)))) == 1
    assert select_winner(Rounds(((1.0, 0.9, 0.8),) * 11)) == 2


def test_the_baseline_is_preferred_to_a_finalist_that_is_as_fast() -> None:
    alike = Rounds(((1.0, 0.8, 0.79),) * 11)
    assert select_winner(alike) == 2
    assert select_winner(alike, baseline=1) == 1
    assert select_winner(Rounds(((1.0, 0.8, 0.7),) * 11), baseline=1) == 2
    assert select_winner(Rounds(((1.0, 0.98, 0.9),) * 11), baseline=1) == 2
