"""Candidates generated in processes: equal to those of one process, in order, and robust to a process that dies."""

from __future__ import annotations

import os
import signal
import time
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from autosched.measure.compile.content_keys import schedule_text
from autosched.measure.problem import Problem
from autosched.search.datasets.candidate_mix import CandidateGenerator, CandidateMix
from autosched.search.datasets.parallel_generation import CandidateWorker, GeneratedCandidates, generate_in_processes
from autosched.target import get_target

H200 = get_target("h200")
MIX = CandidateMix(beam=0, greedy=0, states=1, legal=1, mutations=1)
BLUR, UNSHARP = Problem.app("blur", small=True), Problem.app("unsharp", small=True)


@dataclass(frozen=True)
class TiresomeDrawer(CandidateWorker):
    """Logs its problems, dies at one of them and hangs at another."""

    notes: str = ""
    dies_of: str = ""
    hangs_at: str = ""

    def draw(self, problem: Problem) -> GeneratedCandidates:
        with (Path(self.notes) / "notes").open("a") as file:
            file.write(f"{problem.title}\n")
        if problem.title == self.dies_of:
            os.kill(os.getpid(), signal.SIGKILL)
        if problem.title == self.hangs_at:
            time.sleep(1000)
        return GeneratedCandidates((("roots", problem.title),))


def test_processes_generate_equal_candidates_in_order() -> None:
    drawer = CandidateWorker(H200, MIX, seed=3)
    found = dict(generate_in_processes(drawer, [BLUR, UNSHARP], processes=2, ahead=2))
    assert list(found) == [BLUR, UNSHARP]
    for problem, drawn in found.items():
        bound = problem.bind()
        expected = [(kind, schedule_text(bound, s)) for kind, s in CandidateGenerator(bound, H200, 3).draw(MIX)]
        assert list(drawn.schedules) == expected
        assert not drawn.note


def test_a_process_that_dies_or_hangs_costs_one_problem(tmp_path: Path) -> None:
    problems = [Problem.app("blur", {"H": n}, small=True) for n in (40, 41, 42, 43)]
    drawer = TiresomeDrawer(
        H200, MIX, most_seconds=0.1, notes=str(tmp_path), dies_of=problems[1].title, hangs_at=problems[2].title
    )
    found = list(generate_in_processes(drawer, problems, processes=1, ahead=1))
    assert [problem for problem, _ in found] == problems
    assert [len(drawn.schedules) for _, drawn in found] == [1, 0, 0, 1]
    assert "SIGKILL" in found[1][1].note
    assert "no answer in 0.4 s" in found[2][1].note


def test_error_keeps_earlier_candidates() -> None:
    drawn = CandidateWorker(H200, MIX).draw(Problem("app", '{"name":"blurr","params":{},"sizes":{}}'))
    assert drawn.schedules == ()
    assert "blurr" in drawn.note


def test_no_generation_in_advance(tmp_path: Path) -> None:
    drawer = TiresomeDrawer(H200, MIX, notes=str(tmp_path))
    with closing(generate_in_processes(drawer, [BLUR, UNSHARP], processes=1, ahead=0)) as drawing:
        next(drawing)
        time.sleep(0.1)
        assert (tmp_path / "notes").read_text().splitlines() == [BLUR.title]
        next(drawing)
    assert (tmp_path / "notes").read_text().splitlines() == [BLUR.title, UNSHARP.title]


def test_generation_ends_at_the_deadline(tmp_path: Path) -> None:
    drawer = TiresomeDrawer(H200, MIX, notes=str(tmp_path), hangs_at=BLUR.title)
    deadline = time.monotonic() + 0.2
    assert list(generate_in_processes(drawer, [BLUR, UNSHARP], processes=1, ahead=0, deadline=deadline)) == []
