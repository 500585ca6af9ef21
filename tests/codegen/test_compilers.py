"""Every gcc and clang on this machine gives the interpreter's results, whichever is the default."""

from __future__ import annotations

import numpy as np
import pytest

from autosched.analysis.bind import bind
from autosched.apps import get_app
from autosched.codegen.prelude import called_scalar_functions, vector_math
from autosched.scheduled_pipeline import ScheduledPipeline
from autosched.search.strategies.protocol import STRATEGIES
from autosched.target import get_target
from tests.compilers import installed_compilers

APPS = ("harris", "hist", "bilateral_grid", "max_filter", "kernel_regression")


@pytest.mark.parametrize("compiler", installed_compilers())
@pytest.mark.parametrize("name", APPS)
def test_a_schedule_computes_what_the_interpreter_does(
    name: str, compiler: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AUTOSCHED_CC", compiler)
    app, target = get_app(name), get_target("cpu")
    pipeline, params = app.configure({})
    bound = bind(pipeline, app.shapes(app.small_sizes), params)
    schedule = STRATEGIES["beam"].search(bound, target, seconds=2).best
    scheduled, inputs = ScheduledPipeline(bound, schedule, target, params), app.make_inputs(app.small_sizes)
    found, expected = scheduled.compile("cpu")(inputs), scheduled.compile("interpreter")(inputs)
    if vector_math(called_scalar_functions(scheduled.source("cpu"))):
        assert app.tolerance.mismatch(found, expected) is None  # functions of vectors round differently
    else:
        np.testing.assert_array_equal(found, expected)
