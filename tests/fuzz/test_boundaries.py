"""Random chains of stencils, each stage with its own boundary condition, under random schedules in all backends."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from autosched import Expr, Func, Input, Pipeline, RDom, Var, cast, int32, interpret
from autosched.analysis.bind import bind
from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.lang.boundary import KINDS
from autosched.lower.program import lower
from autosched.runtime.compile.nvrtc import have_nvrtc
from autosched.schedule.legality.validate import violations
from autosched.schedule.sampling.random_schedule import sample_schedule
from autosched.scheduled_pipeline import ScheduledPipeline
from autosched.target import get_target
from tests.lower.run_backends import assert_backends_agree, random_inputs

TARGETS = [get_target("cpu"), get_target("h200")]
MODES = {"clamped": "edge", "mirrored": "symmetric", "mirrored_without_edge": "reflect", "wrapped": "wrap"}
Rng = np.random.Generator


def random_chain(rng: Rng) -> tuple[Pipeline, tuple[int, ...], list[str]]:
    """Return a chain of 4 to 6 stages on 32-bit integers, its shape, and the kinds of boundary conditions."""
    ndim = int(rng.integers(1, 4))
    most = {1: 200, 2: 48, 3: 20}[ndim]
    shape = tuple(int(rng.integers(1, 8 if rng.random() < 0.2 else most + 1)) for _ in range(ndim))
    point = tuple(Var(d) for d in ("c", "y", "x")[3 - ndim :])
    usual = str(rng.choice(KINDS))  # most chains have one kind
    kinds: list[str] = []
    low = int(rng.choice([0, 0, -3, 5]))
    stage: Func | Input = Input("img", int32, ndim)
    for k in range(int(rng.integers(4, 7))):
        kind = usual if rng.random() < 0.7 else str(rng.choice(KINDS))
        kinds.append(kind)
        first = 0 if k == 0 else low
        box = {v.name: (first, first + n) for v, n in zip(point, shape, strict=True)}
        value = (int(rng.integers(9)),) if kind == "constant" else ()
        source = getattr(stage, kind)(*value, **box)
        stage = random_stage(rng, source, stage, point, f"f{k}", 0 if k else low)
    box = {v.name: (low, low + n) for v, n in zip(point, shape, strict=True)}
    assert isinstance(stage, Func)
    return Pipeline(stage.over(**box), name="chain"), shape, kinds


def random_stage(rng: Rng, bordered: Func, inner: Func | Input, point: tuple[Var, ...], name: str, low: int) -> Func:
    """Return a stage that reads neighbours of a point, at coordinates smaller by ``low``."""
    f = Func(name)

    def at(*offsets: int) -> Expr:
        return bordered[tuple(v - low + o for v, o in zip(point, offsets, strict=True))]

    def offset() -> int:
        return int(rng.integers(-2, 3))

    value = at(*(offset() for _ in point))
    for _ in range(int(rng.integers(1, 4))):
        value = value * int(rng.integers(-3, 4)) + at(*(offset() for _ in point))
    if rng.random() < 0.3:  # depends on the coordinate itself
        value = value + cast(int32, point[-1]) * 7
    if rng.random() < 0.3:  # reads its producer without a boundary condition as well
        value = value ^ inner[tuple(v - low for v in point)]
    if rng.random() < 0.3:
        r = RDom("r", k=(-1, 3))
        f[point] = cast(int32, value)
        index = (*(v - low for v in point[:-1]), point[-1] - low + r.k)
        f[point] = f[point] + bordered[index] * cast(int32, r.k + 2)
        return f
    if rng.random() < 0.3:
        half = Func(f"{name}_half")
        half[point] = cast(int32, value)
        f[point] = half[point] * 3 + half[point]
        return f
    f[point] = cast(int32, value)
    return f


def bound_chain(seed: int) -> tuple[BoundPipeline, list[str]]:
    pipeline, shape, kinds = random_chain(np.random.default_rng(seed))
    return bind(pipeline, {"img": shape}), kinds


def check_chain(seed: int) -> None:
    """Check random schedules of a chain, for both targets, in all backends."""
    bound, _ = bound_chain(seed)
    rng = np.random.default_rng(seed)
    for target in TARGETS:
        schedule = sample_schedule(bound, target, rng, varied=True)
        assert not violations(bound, schedule, target)
        assert_backends_agree(bound, lower(bound, schedule), emulate=target.kind == "cuda")
        if target.kind == "cuda" and seed % 4 == 0 and have_nvrtc():
            ScheduledPipeline(bound, schedule, target).compile("cuda")


@pytest.mark.parametrize("seed", range(12))
def test_chains_agree(seed: int) -> None:
    check_chain(seed)


@pytest.mark.fuzz
@pytest.mark.parametrize("shard", range(20))
def test_chains_agree_on_many(shard: int) -> None:
    for seed in range(1000 + 25 * shard, 1025 + 25 * shard):
        check_chain(seed)


def test_chains_are_varied() -> None:
    chosen: Counter[str] = Counter()
    for seed in range(150):
        bound, kinds = bound_chain(seed)
        chosen.update(kinds)
        for f in bound.funcs.values():
            if f.boundary is not None and f.stages[0].sources[0] in bound.funcs:
                chosen[f"{f.boundary}: {'remainder' if '%' in repr(f.stages[0].values) else 'none'}"] += 1
    assert set(KINDS) <= chosen.keys()
    for kind in ("mirrored", "mirrored_without_edge", "wrapped"):  # of both forms
        assert min(chosen[f"{kind}: remainder"], chosen[f"{kind}: none"]) > 5


@pytest.mark.parametrize("kind", MODES)
def test_a_chain_equals_padded_arrays(kind: str) -> None:
    y, x, image = Var("y"), Var("x"), Input("img", int32, 2)
    box = {"y": (0, 9), "x": (0, 33)}
    stage: Func | Input = image
    for k in range(4):
        source, stage = getattr(stage, kind)(**box), Func(f"f{k}")
        stage[y, x] = source[y - 1, x + 2] * 3 - source[y + 1, x - 1]
    assert isinstance(stage, Func)
    bound = bind(Pipeline(stage.over(**box)), {"img": (9, 33)})
    expected = random_inputs(bound)["img"]
    inputs = {"img": expected}
    for _ in range(4):
        padded = np.pad(expected, 2, mode=MODES[kind])  # type: ignore[call-overload]
        expected = padded[1:10, 4:37] * 3 - padded[3:12, 1:34]
    np.testing.assert_array_equal(interpret(bound.pipeline, inputs)["f3"], expected)
    schedule = sample_schedule(bound, TARGETS[1], np.random.default_rng(0))
    assert_backends_agree(bound, lower(bound, schedule))
