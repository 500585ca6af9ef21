"""Problems are the same wherever they are bound again."""

from __future__ import annotations

import hashlib
import json
import pickle
import subprocess
import sys

import numpy as np
import pytest

from autosched.errors import InputError
from autosched.measure.problem import Problem
from autosched.random_pipelines.settings import SMALL

PROBLEMS = (
    Problem.app("blur"),
    Problem.app("unsharp", {"H": 40}, small=True),
    Problem.app("bilateral_grid", params={"s_sigma": 4}, small=True),
    Problem.random(3, SMALL),
    Problem.random(5),
    Problem.of(Problem.app("harris", small=True).bind()),
    Problem.of(Problem.random(5).bind()),
)


@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda p: p.title)
def test_text_and_pickle_give_the_same_problem(problem: Problem) -> None:
    assert Problem.parse(problem.text()) == problem
    assert pickle.loads(pickle.dumps(problem)) == problem
    assert "\n" not in problem.text()


def test_sizes_and_settings_are_written_out_so_that_defaults_may_change() -> None:
    assert json.loads(PROBLEMS[0].text())["arguments"]["sizes"] == {"H": 2560, "W": 1536}
    assert json.loads(PROBLEMS[3].text())["arguments"]["settings"]["max_points"] == SMALL.max_points


def test_equal_problems_are_equal_however_they_were_written() -> None:
    assert Problem.app("blur", {"H": 2560}) == Problem.app("blur", {"W": 1536})
    assert len({p.hash for p in PROBLEMS}) == len(PROBLEMS)


def test_another_process_binds_the_same_pipeline_and_makes_the_same_inputs() -> None:
    problem = PROBLEMS[3]
    code = (
        "import sys, hashlib; from autosched.measure.problem import Problem; p = Problem.parse(sys.argv[1]);"
        "print(p.bind().pipeline.hash, hashlib.sha256(b''.join(a.tobytes() for a in p.inputs(7).values())).hexdigest())"
    )
    done = subprocess.run([sys.executable, "-c", code, problem.text()], capture_output=True, text=True, check=True)
    there_hash, there_inputs = done.stdout.split()
    here_inputs = hashlib.sha256(b"".join(a.tobytes() for a in problem.inputs(7).values())).hexdigest()
    assert (there_hash, there_inputs) == (problem.bind().pipeline.hash, here_inputs)


def test_parameters_reach_the_pipeline() -> None:
    plain = Problem.app("bilateral_grid", small=True)
    assert plain.bind().pipeline.hash != PROBLEMS[2].bind().pipeline.hash


def test_inputs_fit_the_pipeline() -> None:
    for problem in PROBLEMS[1:4]:
        bound, arrays = problem.bind(), problem.inputs(1)
        assert {n: (a.shape, a.dtype) for n, a in arrays.items()} == {
            n: (i.shape, i.dtype.numpy) for n, i in bound.inputs.items()
        }


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "no problem's text"),
        ("[]", "no problem's text"),
        ('{"format":"autosched-problem","version":9,"kind":"app","arguments":{}}', "version 9"),
        ('{"format":"autosched-problem","version":1,"kind":"os.system","arguments":{}}', "kind 'os.system'"),
    ],
)
def test_other_texts_are_refused(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        Problem.parse(text)


def test_unknown_apps_sizes_and_parameters_are_refused() -> None:
    for make in (
        lambda: Problem.app("blurr"),
        lambda: Problem.app("blur", {"Q": 3}),
        lambda: Problem.app("blur", params={"q": 3}),
    ):
        with pytest.raises(InputError, match=r"did you mean|has no"):
            make()


def test_agreement_is_exact_unless_rounding_differs() -> None:
    judge = Problem.app("blur", small=True).opened().mismatch
    right = np.full((3, 3), 1.0, np.float32)
    off = np.nextafter(right, np.float32(2))
    assert judge(right, right, True) is None
    assert "differ in their bits" in str(judge(off, right, True))
    assert judge(off, right, False) is None
    assert judge(right + 1, right, False) is not None
    assert judge(right.astype(np.float64), right, False) is not None


def test_a_pipeline_written_out_is_the_same_pipeline() -> None:
    of_app, written = Problem.app("unsharp", small=True), Problem.of(Problem.app("unsharp", small=True).bind())
    assert written.bind().pipeline.hash == of_app.bind().pipeline.hash
    assert written.bind().shapes == of_app.bind().shapes
    assert written.title.startswith("unsharp input ")


def test_parameters_of_a_pipeline_written_out() -> None:
    bound = Problem.app("local_laplacian", small=True).bind()
    opened = Problem.of(bound, {"alpha": 0.25}).opened()
    assert dict(opened.scalars) == {"alpha": 0.25, "beta": 1.0}
    assert opened.bound.specialised == bound.specialised


def test_made_up_inputs_have_the_inputs_types_and_shapes() -> None:
    bound = Problem.random(5).bind()
    arrays = Problem.of(bound).inputs(1)
    assert {n: (a.dtype, a.shape) for n, a in arrays.items()} == {
        n: (i.dtype.numpy, i.shape) for n, i in bound.inputs.items()
    }
