"""Choice between schedules with noisy first times."""

from __future__ import annotations

from autosched.search.tune.final_selection import MOST, contenders, select_fastest
from tests.search.tune.fake_clock import Stopwatch, timed


def test_a_lucky_time_does_not_replace_a_good_schedule() -> None:
    watch = Stopwatch({"model's": 10.0, "lucky": 10.5, "slow": 20.0})
    first = timed("model's", 10.2), timed("lucky", 9.9), timed("slow", 20.0)
    found = select_fastest(first[0], [first], watch)  # type: ignore[arg-type]
    assert found.chosen.job.schedule == "model's"
    assert found.seconds == 10.0
    assert found.again == {"model's": 10.0, "lucky": 10.5}, "what is clearly slower is not timed again"


def test_faster_challenger_wins_despite_its_first_time() -> None:
    watch = Stopwatch({"model's": 10.0, "unlucky": 9.8, "roots": 30.0})
    first = timed("model's", 10.0), timed("unlucky", 10.6), timed("roots", 30.0)
    found = select_fastest(first[0], [first], watch, references=[first[2]])  # type: ignore[arg-type]
    assert found.chosen.job.schedule == "unlucky"
    assert set(found.again) == {"model's", "unlucky", "roots"}


def test_a_later_group_has_to_beat_the_winner_of_the_earlier_one() -> None:
    watch = Stopwatch({"one-shot": 10.0, "top": 9.0, "tuned": 9.5})
    one, top, tuned = timed("one-shot", 10.0), timed("top", 9.3), timed("tuned", 8.8)
    assert select_fastest(one, [[one, top], [one, top, tuned]], watch).chosen == top  # type: ignore[arg-type]
    watch.true["tuned"] = 8.0
    assert select_fastest(one, [[one, top], [one, top, tuned]], watch).chosen == tuned  # type: ignore[arg-type]


def test_deterministic_times_are_not_repeated() -> None:
    watch = Stopwatch({}, is_needed=False)
    one, two = timed("one", 10.0), timed("two", 9.99)
    found = select_fastest(one, [[two]], watch)  # type: ignore[arg-type]
    assert (found.chosen, found.seconds, found.again) == (two, 9.99, {})
    assert not watch.asked


def test_single_contender_is_not_timed_again() -> None:
    watch = Stopwatch({})
    one, slow = timed("one", 10.0), timed("slow", 15.0)
    assert select_fastest(one, [[slow]], watch, references=[slow]).chosen == one  # type: ignore[arg-type]
    assert not watch.asked


def test_a_comparison_that_fails_leaves_the_first_times() -> None:
    watch = Stopwatch({}, fails=True)
    one, two = timed("one", 10.0), timed("two", 9.9)
    found = select_fastest(one, [[two]], watch)  # type: ignore[arg-type]
    assert found.chosen == two
    assert found.note == "chosen by single times: the process ended (killed by SIGKILL):"


def test_contenders() -> None:
    assert contenders([]) == []
    many = [timed(str(k), 10.0 + k / 100) for k in range(20)]
    assert contenders(many) == many[:MOST]
    sure, unsure = timed("sure", 13.0, spread=0.01), timed("unsure", 14.0, spread=0.3)
    assert contenders([unsure, sure, timed("best", 10.0)]) == [timed("best", 10.0), unsure]
