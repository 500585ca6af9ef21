"""Labels hold where two versions of the code emit the same text."""

from __future__ import annotations

import copy
import json
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmarks.version_process import ROOT
from checks import labels
from checks.emission import Answer, answer_to
from checks.preprocessor import Preprocessor

from autosched.errors import CompileError
from autosched.measure.compile.content_keys import schedule_text
from autosched.measure.problem import Problem
from autosched.schedule.sampling.random_schedule import sample_schedule
from autosched.target import get_target

SOURCES = {
    "h200": "measured:NVIDIA H200",
    "cpu": "measured:cpu AMD EPYC [AuthenticAMD 23, 8 lanes, 512 and 8192 KiB of cache] x1",
}
WIDE = "measured:cpu Xeon [GenuineIntel 6 amx, 16 lanes, 2048 and 491520 KiB of cache] x1"
Change = Callable[[Answer], Any]


@pytest.fixture(scope="module", params=["h200", "cpu"])
def answer(request: pytest.FixtureRequest) -> Answer:
    """The programs of two schedules of a small app."""
    return emitted(request.param)


def question_of(target: str) -> dict[str, Any]:
    problem = Problem.app("unsharp", small=True)
    bound = problem.bind()
    schedules = [sample_schedule(bound, get_target("h200"), np.random.default_rng(seed)) for seed in range(2)]
    return {
        "problem": problem.text(),
        "target": target,
        "source": SOURCES[target],
        "schedules": [schedule_text(bound, s) for s in schedules],
    }


def emitted(target: str, **changes: Any) -> Answer:
    return answer_to({**question_of(target), **changes}, checked=target == "h200")


def verdict_of(before: Answer, after: Answer, source: str) -> str:
    return labels.ProgramComparison(before, after, Preprocessor(source)).verdict(0, before["pipeline_hash"])


def test_programs_of_one_version_are_equal(answer: Answer) -> None:
    assert all(isinstance(program, list) and program for program in answer["programs"])
    assert verdict_of(answer, answer, SOURCES["h200"]) == labels.EQUAL


def test_a_process_of_a_version_answers_the_same(tmp_path: Path) -> None:
    process = labels.EmittingVersion(ROOT, tmp_path)
    try:
        process.send(question_of("h200"))
        assert process.answer() == json.loads(json.dumps(emitted("h200")))
    finally:
        process.close()


def kernel(answer: Answer) -> Any:
    program = answer["programs"][0]
    assert isinstance(program, list)
    return answer["kernels"][program[0]]


def with_text(edit: Callable[[str], str]) -> Change:
    def change(answer: Answer) -> None:
        kernel(answer)["text"] = edit(kernel(answer)["text"])

    return change


@pytest.mark.parametrize(
    ("change", "verdict"),
    [
        (with_text(lambda text: f"// another comment\n#define UNUSED 1\n{text}"), labels.PREPROCESSED),
        (with_text(lambda text: f"{text}\nstatic int another;\n"), labels.OTHER_TEXT),
        (with_text(lambda text: " - ".join(text.rsplit(" + ", 1))), labels.OTHER_TEXT),
        (lambda a: kernel(a).update(launch=[[1, 1, 1], [1, 1, 1], 0, 1]), labels.OTHER_LAUNCH),
        (lambda a: a["programs"].__setitem__(0, a["programs"][0] * 2), labels.OTHER_COUNT),
        (lambda a: a["programs"].__setitem__(0, "illegal schedule"), labels.REFUSED),
        (lambda a: a.update(pipeline_hash="0" * 64), labels.OTHER_PIPELINE),
    ],
    ids=["comment", "declaration", "operator", "launch", "count", "refused", "pipeline"],
)
def test_verdicts(answer: Answer, change: Change, verdict: str) -> None:
    after = copy.deepcopy(answer)
    change(after)
    assert verdict_of(answer, after, SOURCES["h200"]) == verdict


def test_program_that_the_commit_does_not_emit(answer: Answer) -> None:
    before = copy.deepcopy(answer)
    before["programs"][0] = "illegal schedule"
    assert verdict_of(before, answer, SOURCES["h200"]) == labels.NOT_EMITTED


def test_branches_of_other_processors_do_not_count() -> None:
    """Text for AVX-512 alone may change under labels of a processor without."""
    texts = ["#ifdef __AVX512F__\nint wide;\n#endif\nint all;\n", "#ifdef __AVX512F__\nint wider;\n#endif\nint all;\n"]
    narrow, wide = (Preprocessor(source).tokens(texts) for source in (SOURCES["cpu"], WIDE))
    assert narrow == [["int", "all", ";"]] * 2
    assert wide == [["int", name, ";", "int", "all", ";"] for name in ("wide", "wider")]


def test_refused_text_of_a_commit_is_an_error() -> None:
    with pytest.raises(CompileError, match=r"(?s)the preprocessor refuses emitted text: .*use gcc or clang"):
        Preprocessor(WIDE).tokens(["#error never\n"])


def test_illegal_schedules_and_other_pipelines() -> None:
    other = Problem.app("blur", small=True)
    answer = emitted("h200", problem=other.text())
    assert answer["pipeline_hash"] == other.bind().pipeline.hash
    assert all("pipeline" in str(program) for program in answer["programs"]) and not answer["kernels"]
    unreadable = emitted("h200", problem="{}")
    assert unreadable["pipeline_hash"] == "" and all(isinstance(p, str) for p in unreadable["programs"])


def test_chosen_rows() -> None:
    problems = ["a", "a", "b", "c", "b"]
    assert labels.chosen_rows(problems, Namespace(seed=0, sample=None, pipelines=None)) == [0, 1, 2, 3, 4]
    assert len(set(labels.chosen_rows(problems, Namespace(seed=0, sample=3, pipelines=None)))) == 3
    some = labels.chosen_rows(problems, Namespace(seed=0, sample=None, pipelines=2))
    chosen = {problems[k] for k in some}
    assert len(chosen) == 2 and some == [k for k, problem in enumerate(problems) if problem in chosen]
