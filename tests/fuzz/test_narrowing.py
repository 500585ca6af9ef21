"""Narrowed integers of random programs: ranges contain the values, and all backends give the same bits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from autosched import Expr, Func, Input, Pipeline, RDom, Var, cast, clamp, interpret, max, min, select
from autosched.analysis.bind import bind
from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.analysis.value_ranges import value_ranges
from autosched.errors import BoundsError
from autosched.lang.dtypes import as_dtype
from autosched.lower.program import lower
from autosched.runtime.compile.nvrtc import have_nvrtc
from autosched.schedule.io.serialise import from_json, to_json
from autosched.schedule.legality.validate import violations
from autosched.schedule.sampling.random_schedule import sample_schedule
from autosched.scheduled_pipeline import ScheduledPipeline
from autosched.search.rewrites.integer_narrowing import narrowed
from autosched.target import get_target
from tests.comparable import comparable
from tests.fuzz.choices import Choices
from tests.fuzz.pipelines import random_case
from tests.fuzz.test_fuzz import bound_if_small
from tests.lower.run_backends import assert_backends_agree

TARGETS = [get_target("cpu"), get_target("h200")]
INTEGERS = ("uint8", "int8", "uint16", "int16", "int32", "uint32", "int64", "uint64")
Rng = np.random.Generator
Arrays = dict[str, np.ndarray[Any, Any]]


def random_values(rng: Rng) -> BoundPipeline:
    """Return a chain of Funcs of wide integers over the values of a narrow input, many of them near a type's limits."""
    source, kind = (as_dtype(str(rng.choice(names))) for names in (INTEGERS[:4], INTEGERS[2:]))
    y, x, a = Var("y"), Var("x"), Input("a", source, 2)
    read = a.clamped() if rng.random() < 0.7 else a.constant(int(rng.integers(0, 100)))
    funcs: list[Any] = [read]
    count = int(rng.integers(2, 6))
    for k in range(count):
        f, before = Func(f"f{k}"), funcs[int(rng.integers(len(funcs)))]
        left = cast(kind, before[y, x + int(rng.integers(-1, 2))])
        right = cast(kind, funcs[int(rng.integers(len(funcs)))][y, x])
        f[y, x] = _value(rng, kind.name, left, right, before, y, x)
        funcs.append(f.clamped(x=(0, 40)) if rng.random() < 0.2 else f)
    out = Func("out")
    last = funcs[-1][y, x]
    out[y, x] = cast("float32", last) * 0.5 if rng.random() < 0.3 else cast("int64", last) + 1
    size = int(rng.integers(1, 6)), int(rng.integers(1, 70))
    return bind(Pipeline(out.over(y=(0, size[0]), x=(0, size[1]))), {"a": size})


def _value(rng: Rng, kind: str, left: Expr, right: Expr, before: Any, y: Var, x: Var) -> Expr:
    few = int(rng.integers(1, 6))
    window = RDom(f"r{rng.integers(1 << 30)}", k=few)
    choices = [
        lambda: left + right, lambda: left - right, lambda: left * few, lambda: left * right, lambda: -left,
        lambda: (left + right + 1) >> 1, lambda: left << few, lambda: left >> few, lambda: left & right,
        lambda: left | few, lambda: left ^ right, lambda: ~left, lambda: min(left, right), lambda: max(left, few),
        lambda: clamp(left, 0, 255), lambda: select(left > right, left, right), lambda: left // few,
        lambda: left % (few + 1), lambda: cast(kind, cast("float32", left) * 0.25 + 0.5),
        lambda: cast(kind, clamp(cast("float32", right), 0.0, 255.0)),
        lambda: cast(kind, cast("int16", left)) + right, lambda: cast(kind, y) + left,
        lambda: sum((cast(kind, before[y, x + k]) for k in range(few)), cast(kind, 0)),
        lambda: __import__("autosched").sum(cast(kind, before[y, x + window.k]), over=window),
    ]  # fmt: skip
    e: Expr = choices[int(rng.integers(len(choices)))]()
    return cast(kind, e)


def extreme_inputs(bound: BoundPipeline, rng: Rng) -> Arrays:
    """Return inputs in which most integers are the least or greatest of their type."""
    arrays = {}
    for i in bound.inputs.values():
        limits = np.iinfo(i.dtype.numpy)
        corners = np.array([limits.min, limits.max, 0, 1, limits.max - 1], i.dtype.numpy)
        values = rng.integers(limits.min, limits.max, i.shape, dtype=i.dtype.numpy, endpoint=True)
        arrays[i.name] = np.where(rng.random(i.shape) < 0.6, rng.choice(corners, i.shape), values)
    return arrays


def check_narrowing(seed: int) -> bool:
    """Check a narrowed pipeline in all backends; return whether anything was narrowed."""
    rng = np.random.default_rng(seed)
    try:
        bound = random_values(rng)
    except BoundsError:  # coordinates that need more bits
        return False
    narrow = narrowed(bound)
    inputs = extreme_inputs(bound, rng)
    for name, values in interpret(bound.pipeline, inputs).items():
        np.testing.assert_array_equal(comparable(interpret(narrow.pipeline, inputs)[name]), comparable(values))
    for target in TARGETS:
        schedule = sample_schedule(narrow, target, rng, varied=True)
        assert not violations(bound, schedule, target)
        assert from_json(to_json(bound, schedule), bound) == schedule
        assert_backends_agree(narrow, lower(bound, schedule), emulate=target.kind == "cuda", inputs=inputs)
        if target.kind == "cuda" and have_nvrtc():
            ScheduledPipeline(bound, schedule, target).compile("cuda")
    return narrow is not bound


def check_ranges(seeds: range) -> int:
    """Check the ranges of the outputs of random programs; return the number of ranges narrower than their types."""
    narrower = 0
    for seed in seeds:
        case = random_case(Choices.from_seed(seed))
        try:
            bound = bound_if_small(case)
        except BoundsError:
            continue
        if bound is None:
            continue
        ranges = value_ranges(bound)
        params = {p.name: case.params[p.name] for p in bound.pipeline.params}
        found = interpret(bound.pipeline, {i.name: case.inputs[i.name] for i in bound.pipeline.inputs}, params)
        for array, func, k in bound.output_components:
            values, span, dtype = found[array], ranges.of_func(func)[k], bound.funcs[func].dtypes[k]
            if not values.size or bound.funcs[func].undefined:
                continue
            if dtype.is_float:
                assert span.nan or not np.isnan(values).any(), f"seed {seed}"
                values = values[~np.isnan(values)]
            assert all(span.lo <= v <= span.hi for v in values.ravel().tolist()), f"seed {seed}: {array} {span}"
            narrower += dtype.is_int and (span.lo > dtype.min_value or span.hi < dtype.max_value)
    return narrower


def test_narrowed_integers_agree() -> None:
    assert sum(map(check_narrowing, range(7))) >= 3


def test_ranges_contain_values() -> None:
    assert check_ranges(range(300)) >= 20


@pytest.mark.fuzz
@pytest.mark.parametrize("shard", range(20))
def test_narrowed_integers_agree_on_many(shard: int) -> None:
    for seed in range(1000 + 25 * shard, 1025 + 25 * shard):
        check_narrowing(seed)


@pytest.mark.fuzz
@pytest.mark.parametrize("shard", range(10))
def test_ranges_contain_many_values(shard: int) -> None:
    check_ranges(range(10_000 + 500 * shard, 10_500 + 500 * shard))
