"""The incumbent of a tuning run after each batch."""

from __future__ import annotations

from dataclasses import replace

from autosched.measure.compile.content_keys import digest
from autosched.measure.job import Job, Status
from autosched.search.tune.autotune.incumbent import new_incumbent
from autosched.search.tune.autotune.results import TuningOutcome, TuningResults
from autosched.search.tune.autotune.state import DrawnCandidate, Incumbent, TuningState, with_batch, with_incumbent
from tests.search.tune.fake_clock import PROBLEM, TARGET, Stopwatch

TRUE = {"roots": 40.0, "first": 10.0, "second": 9.0, "lucky": 9.5, "later": 8.0, "slow": 20.0}


def drawn(*names: str) -> tuple[DrawnCandidate, ...]:
    return tuple(DrawnCandidate("roots" if name == "roots" else "greedy", None, name) for name in names)


def results(**seconds: float) -> TuningResults:
    """Return results with the first time of each candidate."""
    outcomes = {name: TuningOutcome(Status.OK, s, 0.0, (), (), (), "") for name, s in seconds.items()}
    return TuningResults(PROBLEM, "measured:made up", outcomes)


def job(candidate: DrawnCandidate) -> Job:
    return Job(PROBLEM, candidate.schedule, TARGET, origin=candidate.origin)


def after(state: TuningState, known: TuningResults, watch: Stopwatch) -> TuningState:
    champion = new_incumbent(state, known, job, watch)  # type: ignore[arg-type]
    assert champion is not None
    return with_incumbent(state, champion)


def test_incumbent_stays_until_a_faster_schedule() -> None:
    watch = Stopwatch(TRUE)
    known = results(roots=40.0, first=10.0, second=9.4, lucky=8.9, slow=20.0)
    state = after(with_batch(TuningState("f"), drawn("roots", "first", "second", "slow")), known, watch)
    assert state.incumbent == Incumbent("second", 9.0, {digest(k): TRUE[k] for k in ("first", "second", "roots")})
    state = with_batch(replace(state, iteration=1), drawn("lucky", "slow"))
    state = after(state, known, watch)
    assert state.incumbent is not None
    assert state.incumbent.schedule == "second", "the single time of the other was shorter"
    assert watch.asked[-1] == ["second", "lucky", "roots"]
    known = results(**{name: s for name, s in TRUE.items()})
    state = after(with_batch(replace(state, iteration=2), drawn("later")), known, watch)
    assert state.incumbent is not None
    assert (state.incumbent.schedule, state.incumbent.seconds) == ("later", 8.0)


def test_compared_schedules_are_not_compared_again() -> None:
    watch = Stopwatch(TRUE)
    state = with_batch(TuningState("f"), drawn("roots", "first", "second", "later"))
    half = after(state, results(roots=40.0, first=10.0, second=9.0), watch)
    whole = after(half, results(roots=40.0, first=10.0, second=9.0, later=8.0), watch)
    assert watch.asked == [["first", "second", "roots"], ["second", "later", "roots"]]
    assert whole.incumbent == Incumbent(
        "later", 8.0, {digest(k): TRUE[k] for k in ("first", "second", "roots", "later")}
    )
    assert after(whole, results(roots=40.0, first=10.0, second=9.0, later=8.0), watch) == whole
    assert len(watch.asked) == 2


def test_deterministic_device_needs_no_comparison() -> None:
    watch = Stopwatch({}, is_needed=False)
    state = after(
        with_batch(TuningState("f"), drawn("roots", "first", "lucky")), results(first=10.0, lucky=9.99), watch
    )
    assert state.incumbent == Incumbent("lucky", 9.99)
    state = with_batch(replace(state, iteration=1), drawn("slow"))
    assert after(state, results(first=10.0, lucky=9.99, slow=20.0), watch).incumbent == Incumbent("lucky", 9.99)


def test_no_incumbent_without_times() -> None:
    state = with_batch(TuningState("f"), drawn("roots", "first"))
    assert new_incumbent(state, results(), job, Stopwatch({})) is None  # type: ignore[arg-type]
