"""The suite's results, compared with references."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from campaign import suite
from campaign.problems import problem_of, target_of
from campaign.suite import Case, Judge, expected_outputs, junk

from autosched.errors import InputError
from autosched.measure.compile.content_keys import schedule_text
from autosched.measure.problem import Problem
from autosched.runtime.call.signature import output_specs
from autosched.runtime.compile.host_compiler import have_compiler
from autosched.search.strategies.compute_root import schedule_roots
from autosched.target import get_target
from tests.campaign.tiny_campaign import options, run

pytestmark = pytest.mark.skipif(not have_compiler("c++"), reason="no C++ compiler")


def roots(app: str) -> str:
    bound = problem_of(app, "small").bind()
    return schedule_text(bound, schedule_roots(bound, get_target("cpu")))


def test_generated_code_is_compared_with_the_interpreter(tmp_path: Path) -> None:
    chosen = options(tmp_path, target="emulator")
    outcome, step_context = run("suite", chosen)
    assert outcome.finished
    assert outcome.failures == 0
    assert outcome.message == "1 of 1 apps and sizes, 1 schedules, 0 wrong"
    assert {p["witness"] for p in step_context.parts.values()} == {"interpreter"}
    assert all(p["wrong"] == {"roots": None} for p in step_context.parts.values())
    before = dict(step_context.parts)
    assert run("suite", chosen)[1].parts == before, "no case is checked twice"


@pytest.mark.parametrize("fault", ["wrong", "not written"])
def test_wrong_results_are_found(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    true = suite.run_poisoned

    def faulty(*arguments: Any) -> Iterator[dict[str, Any]]:
        for number, arrays in enumerate(true(*arguments)):
            for name, a in arrays.items():
                if fault == "wrong":
                    a.flat[7] += 1
                elif number == 1:  # an unwritten point whose value happens to equal the first fill byte
                    a.flat[7] = junk_of(a)
                yield {name: a}

    def junk_of(a: np.ndarray[Any, Any]) -> Any:
        return np.full(a.dtype.itemsize, suite.POISONS[1], np.uint8).view(a.dtype)[0]

    monkeypatch.setattr(suite, "run_poisoned", faulty)
    problem = problem_of("blur", "small")
    part = Judge(get_target("cpu"), "cpu").judge(Case(problem.text(), {"roots": roots("blur")}, False))
    assert part["wrong"]["roots"].startswith(f"run {0 if fault == 'wrong' else 1}, output 'output'")
    assert part["schedules"] == {"roots": roots("blur")}


def test_errors_count_as_wrong_results() -> None:
    part = Judge(get_target("cpu"), "cpu").judge(
        Case(problem_of("blur", "small").text(), {"roots": roots("hist"), "other": roots("blur")}, False)
    )
    assert part["wrong"]["roots"].startswith("ScheduleError: ")
    assert part["wrong"]["other"] is None


def test_without_a_reference_every_schedule_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(problem: Problem, *, is_large: bool) -> None:
        raise InputError("pictures need Pillow")

    monkeypatch.setattr(suite, "expected_outputs", fail)
    part = Judge(get_target("cpu"), "cpu").judge(Case(problem_of("blur", "small").text(), {"roots": ""}, False))
    assert part["wrong"] == {"roots": "the reference failed: pictures need Pillow"}


def test_large_problems_have_other_references(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = problem_of("unsharp", "small")
    _, exact = expected_outputs(problem, is_large=False)
    for witness in ("C", "reference"):
        expected_outputs.cache_clear()
        monkeypatch.setattr(suite, "have_compiler", lambda _, found=witness == "C": found)
        name, outputs = expected_outputs(problem, is_large=True)
        assert name == witness
        for key, array in outputs.items():
            np.testing.assert_allclose(array, exact[key], rtol=1e-4, atol=1e-5)


def test_junk_fills_arrays_of_every_type() -> None:
    bound = problem_of("canny", "small").bind()
    for spec in output_specs(bound):
        array = junk(spec, 0xA5)
        assert array.shape == tuple(spec.shape)
        assert len(set(array.tobytes())) == 1


def test_schedules_target_the_given_device(tmp_path: Path) -> None:
    assert target_of(options(tmp_path)).name == "H200"
    assert target_of(options(tmp_path, device="a100")).name == "A100"
    assert target_of(options(tmp_path, target="cpu")).kind == "cpu"
