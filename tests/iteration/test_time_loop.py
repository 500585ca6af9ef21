"""Iterations have the bits of as many calls of a step, in every backend, and leave the caller's arrays alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import autosched
from autosched import BoundsError, DSLError, Func, Input, InputError, Param, Pipeline, Var, float32, float64
from autosched.apps import get_app
from autosched.iteration import deep_tuning
from autosched.iteration.step_values import typed_number
from autosched.runtime.backends import cpu
from tests.iteration.steps import (
    BOUNDARIES,
    STEPS,
    arrays,
    assert_equal_bits,
    diffusion,
    fused,
    leapfrog,
    repeated,
    rim,
)

TIMES = (0, 1, 2, 3, 4, 7)
SECONDS = (1.0, 1.3, 2.5)
"""Times of versions with which 7 steps are two versions of two steps and one of three, or the like."""


@pytest.mark.parametrize("name", STEPS)
@pytest.mark.parametrize(("backend", "target"), [("cpu", "cpu"), ("emulator", "h200"), ("interpreter", "cpu")])
def test_bits_are_those_of_single_steps(name: str, backend: str, target: str) -> None:
    iteration = STEPS[name]()
    given = arrays(iteration)
    kept = {key: array.copy() for key, array in given.items()}
    kernel = fused(iteration, given, SECONDS, target).compile(backend)
    for times in TIMES if backend == "cpu" else (0, 3, 5):
        assert_equal_bits(kernel(given, times=times), repeated(iteration, given, times))
    for key, array in given.items():
        np.testing.assert_array_equal(array, kept[key], err_msg=f"the caller's {key}")


@pytest.mark.parametrize("boundary", BOUNDARIES)
@pytest.mark.parametrize("target", ["cpu", "h200"])
def test_searched_versions_with_every_boundary(boundary: str, target: str) -> None:
    iteration = diffusion(boundary)
    given = arrays(iteration)
    scheduled = fused(iteration, given, (1.0, 1.5, 2.0, 2.4), target, strategy="beam")
    assert scheduled.composed(9) == (4, 4, 1)
    kernel = scheduled.compile("cpu" if target == "cpu" else "emulator")
    assert_equal_bits(kernel(given, times=9, a=0.2), repeated_with(iteration, given, 9, a=0.2))


@pytest.mark.parametrize(("backend", "target"), [("cpu", "cpu"), ("emulator", "h200")])
def test_a_grid_of_three_dimensions(backend: str, target: str) -> None:
    loop = autosched.iterate(get_app("smoother7pt").build(T=1), times=10)
    grid = {"in": np.random.default_rng(0).random((7, 10, 36))}
    scheduled = fused(loop, grid, (1.0, 1.5, 2.0, 2.4), target, strategy="beam")
    assert scheduled.composed(10) == (4, 4, 2)
    assert_equal_bits(scheduled.compile(backend)(grid), repeated(loop, grid, 10))


def repeated_with(iteration: Any, given: Any, times: int, **params: float) -> Any:
    current = dict(given)
    for _ in range(times):
        current["u"] = autosched.interpret(iteration.step, current, params)["after"]
    return {"after": current["u"]}


def test_the_default_number_of_steps_is_that_of_the_declaration() -> None:
    iteration = diffusion()
    given = arrays(iteration)
    kernel = fused(iteration, given, (1.0,), "cpu").compile("interpreter")
    assert_equal_bits(kernel(given), repeated(iteration, given, 5))


def test_no_steps_return_copies() -> None:
    given = arrays(leapfrog())
    result = fused(leapfrog(), given, (1.0,), "cpu").compile("cpu")(given, times=0)
    assert not np.shares_memory(result.after, given["now"])
    assert_equal_bits(result, {"after": given["now"], "before_next": given["before"]})


def test_outputs_of_the_caller_are_filled() -> None:
    iteration = diffusion()
    given = arrays(iteration)
    out = np.zeros((13, 21))
    kernel = fused(iteration, given, SECONDS, "cpu").compile("cpu")
    assert kernel(given, times=4, out=out) is out
    assert_equal_bits(out, repeated(iteration, given, 4))
    with pytest.raises(InputError, match="output 'after' shares memory with input 'u'"):
        kernel(given, times=4, out=given["u"])


def test_values_by_step_of_a_call() -> None:
    iteration = leapfrog()
    given = arrays(iteration)
    kernel = fused(iteration, given, SECONDS, "cpu").compile("cpu")
    by_function = kernel(given, times=4, dt=lambda n: 0.5**n)
    assert_equal_bits(
        kernel(given, times=4, dt=[1.0, 0.5, 0.25, 0.125, 99.0]), dict(zip("ab", by_function, strict=True))
    )
    with pytest.raises(InputError, match="parameter 'dt' has 2 values for 4 steps"):
        kernel(given, times=4, dt=[1.0, 0.5])


def test_a_benchmark_times_a_number_of_steps() -> None:
    given = arrays(diffusion())
    kernel = fused(diffusion(), given, (1.0,), "cpu").compile("cpu")
    assert kernel.benchmark(seconds=0.02, times=3).seconds > 0


def step(u: Any, c: Any, a: Any = 0.1, *, order: int = 1) -> Any:
    """One step of diffusion along rows."""
    x = Var("x")
    outside, after = u.clamped(), Func("after")
    after[x] = outside[x] + a * c[x] * (outside[x - order] + outside[x + order] - 2 * outside[x])
    return after


def numpy_steps(u: Any, c: Any, a: float, times: int, order: int = 1) -> Any:
    for _ in range(times):
        padded = np.pad(u, order, mode="edge")
        u = u + a * c * (padded[: -2 * order] + padded[2 * order :] - 2 * u)
    return u


def test_a_function_is_called_with_arrays() -> None:
    solver = autosched.iterate(step, times=3, target="cpu", strategy="roots")
    u, c = np.random.default_rng(0).random((2, 40))
    np.testing.assert_array_equal(solver(u, c), numpy_steps(u, c, 0.1, 3))
    np.testing.assert_array_equal(solver(u, c, 0.2, times=8, order=2), numpy_steps(u, c, 0.2, 8, 2))
    tensor = solver(torch.from_numpy(u), torch.from_numpy(c), times=2)
    assert isinstance(tensor, torch.Tensor)
    np.testing.assert_array_equal(tensor.numpy(), numpy_steps(u, c, 0.1, 2))
    assert solver.cache_info() == (1, 2, 2)
    assert (solver.__name__, solver.__doc__) == ("step", "One step of diffusion along rows.")
    assert repr(solver).startswith("<IteratedFunction step(u: ")


def test_a_decorated_function_returns_fields() -> None:
    @autosched.iterate(times=2, strategy="roots", backend="interpreter", by_step={"n": lambda n: n})
    def pair(now: Any, before: Any, n: Any) -> Any:
        x, after = Var("x"), Func("after")
        after[x] = now[x] + before[x] + n
        return after, now

    now, before = np.arange(4, dtype=np.int32), np.ones(4, np.int32)
    after, level = pair(now, before, times=3)
    expected, other = now, before
    for n in range(3):
        expected, other = expected + other + n, expected
    np.testing.assert_array_equal(after, expected)
    np.testing.assert_array_equal(level, other)
    assert pair.time_loop(now, before).fields == {"now": "after", "before": "now"}
    np.testing.assert_array_equal(pair(now, before, times=1, n=lambda n: 7)[0], now + before + 7)


def test_more_steps_search_and_compile_nothing() -> None:
    solver = autosched.iterate(step, target="cpu", strategy="roots", backend="cpu")
    u, c = np.random.default_rng(0).random((2, 40))
    first = solver.compiled(u, c)
    np.testing.assert_array_equal(solver(u, c, times=48), numpy_steps(u, c, 0.1, 48))
    assert solver.compiled(u, c) is first
    assert solver.cache_info().currsize == 1


def test_steps_on_a_small_grid_are_fused_although_latency_bounds_them() -> None:
    """Launches and waiting are what fused steps save there."""
    pipeline, params = get_app("smoother7pt").configure({"T": 1})
    loop = autosched.iterate(pipeline, times=4)
    scheduled = loop.schedule({"in": (24, 20, 40)}, "h200", params, effort="fast")
    assert scheduled.versions[0].bound_by == "latency" and len(scheduled.versions) > 1
    assert scheduled.versions[1].seconds < 2 * scheduled.versions[0].seconds


def test_more_declared_steps_search_and_compile_no_more(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    monkeypatch.setenv("AUTOSCHED_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("AUTOSCHED_HOST_TIMING", "0")
    searched: list[str] = []
    compiled: list[str] = []
    schedule, load = deep_tuning.schedule, cpu.compile_shared_library

    def spied_schedule(pipeline: Pipeline, *arguments: Any, **options: Any) -> Any:
        searched.append(pipeline.name)
        return schedule(pipeline, *arguments, **options)

    def spied_load(text: str, language: Any) -> Any:
        compiled.append(text)
        return load(text, language)

    monkeypatch.setattr(deep_tuning, "schedule", spied_schedule)
    monkeypatch.setattr(cpu, "compile_shared_library", spied_load)
    given = arrays(rim(), (600, 2048))
    counts = []
    for times in (4, 48):
        searched.clear(), compiled.clear()
        loop = autosched.iterate(rim().step, times=times)
        scheduled = loop.schedule({"u": (600, 2048)}, "cpu", reuse=False, effort="fast")
        result = scheduled.compile("cpu")(given)
        counts.append((tuple(searched), len(compiled)))
        assert_equal_bits(result, repeated(loop, given, times))
    assert counts[0] == counts[1]
    assert len(counts[0][0]) == len(scheduled.versions)


def _one(name: str = "after", dtype: Any = float64, ndim: int = 1, by: int = 1, **box: Any) -> Pipeline:
    dims = [Var(f"d{k}") for k in range(ndim)]
    u, f = Input("u", float64, ndim), Func(name)
    f[tuple(dims)] = autosched.cast(dtype, u[tuple(dims)] * by)
    return Pipeline(f.over(**box) if box else f, name="one")


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: autosched.iterate(_one(), times=-1), InputError, "times is -1: give a whole number of steps from 0"),
        (lambda: autosched.iterate(_one(), times=2.5), InputError, "times is 2.5: give a whole number"),  # type: ignore[call-overload]
        (lambda: autosched.iterate(_one(), times=True), InputError, "times is True: give a whole number"),
        (lambda: autosched.iterate(_one(dtype=float32)), DSLError, "field 'u' is float64 of rank 1, its next value"),
        (lambda: autosched.iterate(_one(), fields=["after"]), InputError, r"fields is \['after'\]: give a mapping"),  # type: ignore[call-overload]
        (lambda: autosched.iterate(_one(), fields={"v": "after"}), InputError, "has no input 'v'; it has u"),
        (lambda: autosched.iterate(_one(), fields={"u": "v"}), InputError, "neither an output nor a field"),
        (lambda: autosched.iterate(_one(), fields={"u": "u"}), InputError, "output 'after' of step 'one' is the next"),
        (lambda: autosched.iterate(_one(), by_step={"dt": None}), InputError, "has no parameter 'dt'; it has none"),
        (lambda: autosched.iterate(_one(), strategy="roots"), InputError, "scheduled by its method schedule"),  # type: ignore[call-overload]
        (lambda: autosched.iterate(step, fields={}), InputError, "those of a step function are its first arrays"),  # type: ignore[call-overload]
        (lambda: autosched.iterate(step, by_step={"dt": None}), InputError, "has no parameter 'dt': add it"),
        (lambda: autosched.iterate(step, by_step={"times": [1]}), InputError, "has no parameter 'times': add it"),
        (lambda: autosched.iterate(step, steps=3), InputError, "there is no option 'steps'"),
        (lambda: autosched.iterate(lambda *u: u), InputError, "step function '<lambda>' takes [*]u"),
        (lambda: autosched.iterate(lambda times: times), InputError, "has a parameter 'times': rename it"),
        (
            lambda: autosched.iterate(_one(d0=(0, 5))).schedule({"u": (6,)}, "cpu", strategy="roots"),
            InputError,
            r"field 'u' has the box \(0:6\), its next value 'after' has \(0:5\): return it over the whole field",
        ),
        (lambda: autosched.iterate(_one()).schedule(target="cpu"), InputError, "give shapes="),
        (lambda: autosched.iterate(_one()).schedule({}, "cpu"), InputError, "needs the shape of 'u'"),
        (lambda: autosched.iterate(_one()).schedule({"u": (3,), "v": (3,)}, "cpu"), InputError, "has no input 'v'"),
    ],
)
def test_refused(make: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        make()


@pytest.mark.parametrize("values", [[], "abc", {0: 1.0}, lambda n: None, np.zeros((3, 1))])
def test_values_by_step_are_numbers(values: Any) -> None:
    scaled = autosched.iterate(_scaled, times=3, strategy="roots", backend="interpreter", by_step={"gain": values})
    with pytest.raises(InputError, match=r"'gain' of '_scaled' (is .* in step 0|has no values): give a function of"):
        scaled(np.ones(4))


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([2, 0.5, 3], 3.0), (lambda n: [0.5, 2, 3][n], 3.0), ([1, 2.5, 2], 5.0), ([2, 2, 2], 8.0),
        (np.array([2.0, 0.5, 0.25]), 0.25), ([np.float32(2.0), 2, 1], 4.0), ([True, 2, 0.5], 1.0),
    ],
)  # fmt: skip
def test_the_type_of_values_by_step_is_that_of_all(values: Any, expected: float) -> None:
    scaled = autosched.iterate(_scaled, times=3, strategy="roots", backend="interpreter", by_step={"gain": values})
    assert_equal_bits(scaled(np.ones(4)), {"after": np.full(4, expected)})


def test_values_by_step_have_a_common_type() -> None:
    for values, expected in [
        ([1, 0.5], float), ([3, -5], int), ([True, False], bool), ([np.float32(1), 2], np.float32),
        ([np.int8(1), np.int32(2)], np.int32), ([np.float32(1), np.float64(2)], np.float64), ([1, True], int),
    ]:  # fmt: skip
        assert type(typed_number("it", values)) is expected
    assert typed_number("it", [1, 1 << 40, -3]) == 1 << 40, "int64"


def test_values_of_a_call_of_another_type_are_refused() -> None:
    scaled = autosched.iterate(_scaled, times=2, strategy="roots", backend="interpreter", by_step={"gain": [1, 2]})
    with pytest.raises(InputError, match=r"0\.5 is no whole number in step 1; the type of 'gain' is that of"):
        scaled(np.ones(4), gain=[1, 0.5])


def test_the_box_is_that_of_the_field() -> None:
    """No box follows from a step that reads its field at moved points alone."""
    y, x, u, after = Var("y"), Var("x"), Input("u", float64, 2), Func("after")
    edges = u.clamped()
    after[y, x] = edges[y, x - 1] + edges[y, x + 1]
    loop = autosched.iterate(Pipeline(after, name="sides"), times=3)
    field = np.random.default_rng(0).random((5, 9))
    result = field
    for _ in range(3):
        padded = np.pad(result, ((0, 0), (1, 1)), mode="edge")
        result = padded[:, :-2] + padded[:, 2:]
    for target, backend in (("cpu", "cpu"), ("h200", "emulator")):
        kernel = loop.schedule({"u": (5, 9)}, target, strategy="roots").compile(backend)
        np.testing.assert_array_equal(kernel(u=field), result)


def test_a_step_that_reads_outside_of_its_field_is_refused() -> None:
    x, u, after = Var("x"), Input("u", float64, 1), Func("after")
    after[x] = u[x - 1] + u[x + 1]
    with pytest.raises(BoundsError, match="u"):
        autosched.iterate(Pipeline(after)).schedule({"u": (9,)}, "cpu", strategy="roots")


def test_a_step_that_computes_nothing_is_refused() -> None:
    swap = autosched.iterate(lambda a, b: (b, a))
    with pytest.raises(DSLError, match=r"returns only its fields \(b, a\) and computes nothing"):
        swap(np.ones(4), np.ones(4))


def test_one_value_for_all_steps() -> None:
    scaled = autosched.iterate(_scaled, times=3, strategy="roots", backend="interpreter", by_step={"gain": 2.0})
    assert_equal_bits(scaled(np.ones(4)), {"after": np.full(4, 8.0)})


def test_a_time_loop_without_values_by_step_is_scheduled() -> None:
    given = arrays(leapfrog())
    shapes = {name: array.shape for name, array in given.items()}
    update = leapfrog()
    update.by_step["dt"] = []  # as where every call gives values
    kernel = update.schedule(shapes, "cpu", measure_finalists=False, effort="fast").compile("interpreter")
    assert_equal_bits(kernel(given, times=2, dt=[0.1, 0.05]), repeated(leapfrog(), given, 2))


def _scaled(u: Any, gain: Any) -> Func:
    x, after = Var("x"), Func("after")
    after[x] = u[x] * gain
    return after


def test_a_parameter_in_an_index_has_one_value() -> None:
    x, u, d, f = Var("x"), Input("u", float64, 1), Param("d", autosched.int32, 1), Func("f")
    f[x] = u.clamped()[x + d]
    with pytest.raises(InputError, match="parameter 'd' of step 'pipeline' reaches an index or a domain"):
        autosched.iterate(Pipeline(f.over(x=(0, u.shape[0]))), by_step={"d": lambda n: n})


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"times": -3}, "times is -3: give a whole number of steps"),
        ({"times": True}, "times is True: give a whole number of steps"),
        ({"times": 2.5}, "parameter 'times' of type int64: 2.5 is no whole number"),
        ({"gain": 1.0}, "there is no input or parameter 'gain'"),
    ],
)
def test_refused_calls(arguments: dict[str, Any], message: str) -> None:
    given = arrays(diffusion())
    kernel = fused(diffusion(), given, (1.0,), "cpu").compile("interpreter")
    with pytest.raises(InputError, match=message):
        kernel(given, **arguments)
