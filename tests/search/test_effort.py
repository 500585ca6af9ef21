"""Searches of pipelines with very many Funcs."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import autosched
from autosched import Func, Input, Pipeline, RDom, Var, float32
from autosched.analysis.bind import bind
from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.apps.registry import get_app
from autosched.lower.program import lower
from autosched.schedule.io.serialise import from_json, to_json
from autosched.schedule.io.text import schedule_text
from autosched.schedule.legality.validate import violations
from autosched.search.settings import SearchSettings
from autosched.search.space.effort import MANY_FUNCS, TOO_LONG, TOO_MANY_KERNELS, affordable, inlined_before, undecided
from autosched.search.strategies.compute_root import inlined_funcs, schedule_roots
from autosched.search.strategies.protocol import STRATEGIES
from autosched.target import get_target

x = Var("x")
TARGETS = [get_target("cpu"), get_target("h200")]
LONG = 2000
ARRAY = {"a": np.arange(9, dtype=np.float32)}


def pointwise(count: int) -> Pipeline:
    previous: Func | Input = Input("a", float32, 1)
    for k in range(count):
        f = Func(f"f{k}")
        f[x] = previous[x] + 1
        previous = f
    assert isinstance(previous, Func)
    return Pipeline(previous)


def stencils(count: int) -> Pipeline:
    """Return a pipeline without cheap Funcs, so that each Func is a decision."""
    previous = Input("a", float32, 1).clamped()
    for k in range(count):
        f = Func(f"f{k}")
        f[x] = previous[x - 1] * 2.0 + previous[x] + autosched.sin(previous[x + 1])
        previous = f
    return Pipeline(previous.over(x=(0, 9)))


def updates(count: int) -> Pipeline:
    f, a = Func("f"), Input("a", float32, 1)
    f[x] = a[x]
    for k in range(count):
        f[x] = f[x] + a[x] * float(k)
    return Pipeline(f)


def bound_of(pipeline: Pipeline) -> BoundPipeline:
    return bind(pipeline, {"a": (9,)})


def test_only_long_pipelines_get_reduced_settings() -> None:
    app = get_app("local_laplacian")
    bound = bind(app.build(), app.shapes(app.small_sizes))
    settings = SearchSettings()
    assert inlined_before(bound) == frozenset()
    assert affordable(settings, bound) is settings
    assert undecided(bound) == len(bound.funcs)
    assert affordable(settings, bound_of(stencils(MANY_FUNCS + 1))).beam_size == 1


@pytest.mark.parametrize("target", TARGETS, ids=lambda t: t.name)
@pytest.mark.parametrize("strategy", ["roots", "beam", "sioutas"])
def test_thousands_of_pointwise_funcs(strategy: str, target: autosched.Target) -> None:
    bound = bound_of(pointwise(LONG))
    assert len(inlined_before(bound)) == LONG - 1
    found = STRATEGIES[strategy].search(bound, target).best
    assert violations(bound, found, target) == []
    assert len(found.kernels) == 1
    assert from_json(to_json(bound, found), bound) == found
    assert f"f{LONG - 1}" in schedule_text(bound, found)
    (kernel,) = lower(bound, found).kernels
    assert len(kernel.reads) == 1


@pytest.mark.parametrize("make", [lambda: pointwise(LONG), lambda: updates(500)], ids=["Funcs", "updates"])
def test_interpreter_and_pickling(make: object) -> None:
    assert callable(make)
    pipeline = make()
    again = pickle.loads(pickle.dumps(pipeline))
    assert again.hash == pipeline.hash
    assert [f.location for f in again.funcs] == [f.location for f in pipeline.funcs]
    assert [d.location for d in again.funcs[0].definitions] == [d.location for d in pipeline.funcs[0].definitions]
    (name,) = pipeline.output_names
    wanted = autosched.interpret(pipeline, ARRAY)[name]
    assert np.array_equal(autosched.interpret(again, ARRAY)[name], wanted)


@pytest.mark.parametrize("make", [lambda: pointwise(LONG), lambda: updates(500)], ids=["Funcs", "updates"])
def test_backends_agree(make: object) -> None:
    assert callable(make)
    pipeline = make()
    (name,) = pipeline.output_names
    wanted = autosched.interpret(pipeline, ARRAY)[name]
    for target, backend in (("cpu", "cpu"), ("h200", "emulator")):
        found = autosched.schedule(pipeline, inputs=ARRAY, target=target, samples=2, reuse=False)
        assert np.array_equal(found.compile(backend)(ARRAY), wanted)


def test_too_many_kernels_are_not_searched() -> None:
    bound = bound_of(stencils(TOO_MANY_KERNELS + 1))
    found = STRATEGIES["beam"].search(bound, TARGETS[0])
    assert found.note == TOO_LONG
    assert found.best == schedule_roots(bound, TARGETS[0])


def test_kernels_too_large_for_compilers_are_divided() -> None:
    a, f = Input("a", float32, 1), Func("f")
    f[x] = 0.0
    for k in range(500):
        r = RDom("r", i=5)
        f[x] += a[autosched.clamp(x + r.i + k, 0, 8)]
    sums = bound_of(Pipeline(f.over(x=(0, 9))))
    chain = bound_of(pointwise(3000))
    assert 0 < len(inlined_funcs(chain)) < 2999
    for bound in (sums, chain):
        found = schedule_roots(bound, TARGETS[0])
        assert 1 < len(found.kernels) < 10
        assert violations(bound, found, TARGETS[0]) == []


def test_one_stage_may_have_any_number_of_loads() -> None:
    f, a = Func("f"), Input("a", float32, 1)
    f[x] = sum((a[(x + k * 7) % 9] for k in range(1, 3000)), start=a[x])
    bound = bound_of(Pipeline(f))
    for target in TARGETS:
        assert violations(bound, schedule_roots(bound, target), target) == []
