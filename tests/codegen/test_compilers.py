"""Every compiler on this machine gives the interpreter's bits, whichever is the default."""

from __future__ import annotations

import shutil

import numpy as np
import pytest

from autosched.analysis.bind import bind
from autosched.api import ScheduledPipeline
from autosched.apps import get_app
from autosched.search.strategy import STRATEGIES
from autosched.target import get_target

COMPILERS = ("gcc", "gcc-14", "clang", "clang-14", "clang-19")
APPS = ("harris", "hist", "bilateral_grid", "max_filter")


@pytest.mark.parametrize("compiler", COMPILERS)
@pytest.mark.parametrize("name", APPS)
def test_a_schedule_computes_what_the_interpreter_does(
    name: str, compiler: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if shutil.which(compiler) is None:
        pytest.skip(f"{compiler} is not installed")
    monkeypatch.setenv("AUTOSCHED_CC", compiler)
    app, target = get_app(name), get_target("cpu")
    pipeline, params = app.configure({})
    bound = bind(pipeline, app.shapes(app.small_sizes), params)
    schedule = STRATEGIES["beam"].search(bound, target, seconds=2).best
    scheduled, inputs = ScheduledPipeline(bound, schedule, target, params), app.make_inputs(app.small_sizes)
    found, expected = scheduled.compile("cpu")(inputs), scheduled.compile("interpreter")(inputs)
    np.testing.assert_array_equal(found, expected)
