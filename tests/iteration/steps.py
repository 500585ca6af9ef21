"""Time steps of several forms, and their repeated calls in the interpreter."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

import autosched
from autosched import Func, Input, Param, Pipeline, ScheduledPipeline, ScheduledTimeLoop, TimeLoop, Var, float64
from autosched.iteration.deep_tuning import timed_version
from autosched.lang.expr import Expr

Array = np.ndarray[Any, Any]
BOUNDARIES: Mapping[str, Callable[[Input], Func]] = {
    "clamped": lambda u: u.clamped(),
    "mirrored": lambda u: u.mirrored(),
    "mirrored_without_edge": lambda u: u.mirrored_without_edge(),
    "wrapped": lambda u: u.wrapped(),
    "constant": lambda u: u.constant(0.5),
}
y, x = Var("y"), Var("x")


def around(f: Any) -> Expr:
    """Return the five-point Laplacian."""
    value: Expr = f[y - 1, x] + f[y + 1, x] + f[y, x - 1] + f[y, x + 1] - 4 * f[y, x]
    return value


def diffusion(boundary: str = "clamped") -> TimeLoop:
    """One field, a constant input, and a parameter with a default."""
    u, c, a = Input("u", float64, 2), Input("c", float64, 2), Param("a", float64, 0.1)
    outside, after = BOUNDARIES[boundary](u), Func("after")
    after[y, x] = outside[y, x] + a * c[y, x] * around(outside)
    return autosched.iterate(Pipeline(after, name="diffusion"), times=5)


def rim() -> TimeLoop:
    """A field whose rim keeps its values."""
    u, after = Input("u", float64, 2), Func("after")
    inside = (y >= 1) & (y < u.shape[0] - 1) & (x >= 1) & (x < u.shape[1] - 1)
    outside = u.clamped()
    after[y, x] = autosched.select(inside, outside[y, x] + 0.1 * around(outside), outside[y, x])
    return autosched.iterate(Pipeline(after.over(y=(0, u.shape[0]), x=(0, u.shape[1])), name="rim"), times=4)


def leapfrog() -> TimeLoop:
    """Two time levels, the second of which takes the value of the first, and a parameter by step."""
    now, before, dt = Input("now", float64, 2), Input("before", float64, 2), Param("dt", float64)
    outside, after = now.clamped(), Func("after")
    after[y, x] = 2 * outside[y, x] - before[y, x] + dt * around(outside)
    return autosched.iterate(
        Pipeline(after, name="leapfrog"), times=3, fields={"now": "after", "before": "now"},
        by_step={"dt": lambda n: 0.1 / (n + 1)},
    )  # fmt: skip


def coupled() -> TimeLoop:
    """Two fields that read each other, with several Funcs a step and the number of the step."""
    a, b, n = Input("a", float64, 2), Input("b", float64, 2), Param("n", autosched.int32)
    edges_a, edges_b, slope = a.clamped(), b.wrapped(), Func("slope")
    next_a, next_b = Func("next_a"), Func("next_b")
    slope[y, x] = edges_a[y, x + 1] - edges_a[y, x]
    next_a[y, x] = a[y, x] + 0.1 * around(edges_b) + autosched.cast(float64, n)
    next_b[y, x] = b[y, x] - 0.25 * slope[y, x] * slope[y, x]
    return autosched.iterate(Pipeline([next_a, next_b], name="coupled"), times=4, by_step={"n": lambda step: step})


STEPS: Mapping[str, Callable[[], TimeLoop]] = {
    "diffusion": diffusion, "rim": rim, "leapfrog": leapfrog, "coupled": coupled,
}  # fmt: skip


def arrays(iteration: TimeLoop, shape: tuple[int, int] = (13, 21)) -> dict[str, Array]:
    """Return random inputs."""
    rng = np.random.default_rng(3)
    return {i.name: rng.random(shape) for i in iteration.inputs}


def repeated(iteration: TimeLoop, given: Mapping[str, Array], times: int) -> dict[str, Array]:
    """Return the fields after some calls of one step in the interpreter."""
    current = dict(given)
    for number in range(times):
        values = {name: by_step(number) for name, by_step in iteration.by_step.items()}  # type: ignore[operator, misc]
        read = {i.name: current[i.name] for i in iteration.step.inputs}
        computed = autosched.interpret(iteration.step, read, values)
        current |= {
            field: computed[source] if source in computed else current[source]
            for field, source in iteration.fields.items()
        }
    return {name: current[f] for f, name in zip(iteration.fields, iteration.output_names, strict=True)}


def fused(
    iteration: TimeLoop,
    given: Mapping[str, Array],
    seconds: Sequence[float],
    target: str = "h200",
    schedule: Callable[..., ScheduledPipeline] = autosched.schedule,
    **options: Any,
) -> ScheduledTimeLoop:
    """Return versions of 1, 2, ... steps with some times, which decide their composition."""
    shapes = {name: array.shape for name, array in given.items()}
    versions = []
    for steps, time in enumerate(seconds, 1):
        unrolled = iteration.unrolled(steps)
        read = {i.name: shapes[i.name] for i in unrolled.pipeline.inputs}
        made = schedule(unrolled.pipeline, read, target, **({"strategy": "roots"} | options))
        versions.append(timed_version(unrolled, made, time, "test"))
    return ScheduledTimeLoop(iteration, shapes, tuple(versions), "")


def assert_equal_bits(result: Any, expected: Mapping[str, Array]) -> None:
    """Compare the result of a call with the fields' arrays."""
    values = result if isinstance(result, tuple) else (result,)
    for (name, array), value in zip(expected.items(), values, strict=True):
        np.testing.assert_array_equal(np.asarray(value), array, err_msg=name)
