"""Random windows by doubling under random schedules, in all backends."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from autosched import Expr, Func, Input, Pipeline, RDom, Var, cast, interpret, select
from autosched.analysis.bind import bind
from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.analysis.pipeline_rewrites import WindowDoubling
from autosched.analysis.rewrites.window_doubling import double_windows, window_error
from autosched.lang.dtypes import as_dtype
from autosched.lower.program import lower
from autosched.runtime.compile.nvrtc import have_nvrtc
from autosched.schedule.io.serialise import from_json, to_json
from autosched.schedule.legality.validate import violations
from autosched.schedule.sampling.random_schedule import sample_schedule
from autosched.scheduled_pipeline import ScheduledPipeline
from autosched.target import get_target
from tests.comparable import comparable
from tests.lower.run_backends import assert_backends_agree, random_inputs
from tests.schedule.warp_reduction_cases import OPERATORS

TARGETS = [get_target("cpu"), get_target("h200")]
INTEGERS = ("uint8", "int8", "uint16", "int16", "int32", "uint32", "int64", "uint64")
FLOATS = ("float16", "bfloat16", "float32", "float64")
Rng = np.random.Generator


def random_window(rng: Rng) -> tuple[BoundPipeline, list[WindowDoubling], bool]:
    """Return a window, its loops in random order, and whether any order of its elements gives the same values."""
    op = str(rng.choice(list(OPERATORS)))
    exact = rng.random() < 0.6 or op not in ("add", "mul", "min", "max")
    kind = as_dtype(str(rng.choice(INTEGERS if exact else FLOATS)))
    sizes = {d: int(rng.integers(2, most)) for d, most in (("y", 9), ("x", 40)) if rng.random() < 0.7} or {"x": 7}
    firsts = {d: int(rng.integers(-n, 4)) for d, n in sizes.items()}
    narrower = [d for d in map(as_dtype, INTEGERS) if kind.is_int and d.bits < kind.bits]
    source = narrower[int(rng.integers(len(narrower)))] if narrower and rng.random() < 0.6 else kind
    y, x, a, f, after = Var("y"), Var("x"), Input("a", source, 2), Func("f"), Func("after")
    r = RDom("r", **{d: (firsts[d], firsts[d] + n) for d, n in sizes.items()})
    at = {"y": y, "x": x}
    for d in sizes:  # along the dimension or against it
        at[d] = at[d] + getattr(r, d) if rng.random() < 0.6 else at[d] + 2 - getattr(r, d)
    bordered = (a.clamped, a.mirrored, lambda: a.constant(1))[int(rng.integers(3))]()
    elements: list[Callable[[Expr], Expr]] = [lambda e: e, lambda e: cast(kind, e * 3), lambda e: select(e > 1, e, 1)]
    element = elements[int(rng.integers(len(elements)))](cast(kind, bordered[at["y"], at["x"]]))
    f[y, x] = cast(kind, int(rng.integers(0, 3)))
    f[y, x] = cast(kind, OPERATORS[op](f[y, x], element))
    after[y, x] = f[y, x + 1]  # the window is not always the output
    box = {"y": (0, int(rng.integers(1, 8))), "x": (0, int(rng.integers(1, 50)))}
    out = (after if rng.random() < 0.5 else f).over(**box)
    bound = bind(Pipeline(out), {"a": (box["y"][1], box["x"][1])})
    loops = [WindowDoubling("f", 1, f"r.{d}") for d in sizes]
    return bound, [loops[k] for k in rng.permutation(len(loops))], exact or op in ("min", "max")


def with_extremes(array: np.ndarray[Any, Any], rng: Rng) -> np.ndarray[Any, Any]:
    """Return integers half of which are the least or the greatest ones of their type."""
    if array.dtype.kind not in "iu":
        return array
    limits = np.iinfo(array.dtype)
    ends = np.array([limits.min, limits.max], array.dtype)[rng.integers(0, 2, array.shape)]
    return np.where(rng.random(array.shape) < 0.5, ends, array)


def check_window(seed: int) -> None:
    """Check the rewritten pipeline against the pipeline itself, and random schedules of it in all backends."""
    rng = np.random.default_rng(seed)
    bound, windows, same = random_window(rng)
    assert not window_error(bound, windows[0])
    windowed = double_windows(bound, windows[: int(rng.integers(1, len(windows) + 1))])
    inputs = {name: with_extremes(array, rng) for name, array in random_inputs(bound).items()}
    if same:
        for name, values in interpret(bound.pipeline, inputs).items():
            got = interpret(windowed.pipeline, inputs)[name]
            np.testing.assert_array_equal(comparable(got), comparable(values))
    for target in TARGETS:
        schedule = sample_schedule(windowed, target, rng, varied=True)
        assert not violations(bound, schedule, target)
        assert from_json(to_json(bound, schedule), bound) == schedule
        assert_backends_agree(windowed, lower(bound, schedule), emulate=target.kind == "cuda", inputs=inputs)
        if target.kind == "cuda" and have_nvrtc():
            ScheduledPipeline(bound, schedule, target).compile("cuda")


@pytest.mark.parametrize("seed", range(8))
def test_windows_agree(seed: int) -> None:
    check_window(seed)


@pytest.mark.fuzz
@pytest.mark.parametrize("shard", range(20))
def test_windows_agree_on_many(shard: int) -> None:
    for seed in range(1000 + 25 * shard, 1025 + 25 * shard):
        check_window(seed)


def test_windows_are_varied() -> None:
    drawn: list[tuple[Any, ...]] = [random_window(np.random.default_rng(seed)) for seed in range(200)]
    assert {len(windows) for _, windows, _ in drawn} == {1, 2} and {same for *_, same in drawn} == {True, False}
    assert {d.name for bound, *_ in drawn for d in bound.funcs["f"].dtypes} == {*INTEGERS, *FLOATS}
    narrowed = 0
    for bound, windows, _ in drawn[:60]:
        types = {f.dtypes for f in double_windows(bound, windows[:1]).funcs.values()}
        narrowed += any(0 < t.bits < d.bits for (t,) in types for d in bound.funcs["f"].dtypes)
    assert narrowed > 15
