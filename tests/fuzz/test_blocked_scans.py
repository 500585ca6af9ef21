"""Random scans by blocks under random schedules, in all backends."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from autosched import Func, Input, Pipeline, RDom, Var, cast, interpret
from autosched.analysis.bind import bind
from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.analysis.pipeline_rewrites import ScanBlocking
from autosched.analysis.rewrites.scan_blocking import block_scans, scan_error
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


def random_scan(rng: Rng) -> tuple[BoundPipeline, ScanBlocking, bool]:
    """Return a scan, its blocks, and whether any order of its elements gives the same values."""
    op = str(rng.choice([*OPERATORS, "linear", "second order"]))
    linear = op in ("linear", "second order")
    exact = bool(rng.random() < 0.6) or op not in ("add", "mul", "min", "max", "linear", "second order")
    kind = as_dtype(str(rng.choice(INTEGERS if exact else FLOATS)))
    y, x, a, f, after = Var("y"), Var("x"), Input("a", kind, 2), Func("f"), Func("after")
    lengths = {"y": int(rng.integers(1, 12)), "x": int(rng.integers(1, 12))}
    dim = str(rng.choice(["y", "x"]))
    length = lengths[dim] = int(rng.integers(3, 90))
    start = int(rng.integers(0, length - 2))  # points before it are not scanned
    order = 2 if op == "second order" else 1
    length = max(length, start + order + 2)
    lengths[dim] = length
    r = RDom("r", i=(start + order, length))
    backwards = rng.random() < 0.4
    at, *earlier = (length - 1 - r.i + n if backwards else r.i - n for n in range(3))
    here, previous, second = ((y, i) if dim == "x" else (i, x) for i in (at, *earlier))
    f[y, x] = a[y, x] if rng.random() < 0.7 else cast(kind, 2)
    element = f[here] if rng.random() < 0.5 else cast(kind, a[here] * 3)
    if linear:
        value = cast(kind, 2 if kind.is_int else 0.5) * f[previous] + element
        f[here] = value if order == 1 else value - cast(kind, 3 if kind.is_int else 0.25) * f[second]
    else:
        f[here] = cast(kind, OPERATORS[op](f[previous], element))
    after[y, x] = f[y, x + 1]
    box = {"y": (0, lengths["y"]), "x": (0, lengths["x"])}
    shape = tuple(lengths.values())
    out = f.over(**box)
    if rng.random() < 0.4 and lengths["x"] > 1:
        out = after.over(y=box["y"], x=(0, lengths["x"] - 1))
    pipeline = Pipeline(out)
    bound = bind(pipeline, {i.name: shape for i in pipeline.inputs})
    positions = length - start
    chunk = int(rng.integers(2, 6)) if not linear and positions > 4 and rng.random() < 0.5 else 0
    most = 2 * positions - 1
    block = chunk * int(rng.integers(2, max(most // chunk, 2) + 1)) if chunk else int(rng.integers(2, most + 1))
    doubled = order == 2 and bool(rng.random() < 0.5)
    return bound, ScanBlocking("f", 1, block if block <= most else 2, chunk if block <= most else 0, doubled), exact


def check_scan(seed: int) -> None:
    """Check the rewritten pipeline against the pipeline itself, and random schedules of it in all backends."""
    rng = np.random.default_rng(seed)
    bound, scan, same = random_scan(rng)
    assert not scan_error(bound, scan), scan_error(bound, scan)
    blocked = block_scans(bound, [scan])
    inputs = random_inputs(bound)
    for name, values in interpret(bound.pipeline, inputs).items():
        got = interpret(blocked.pipeline, inputs)[name]
        if same:
            np.testing.assert_array_equal(comparable(got), comparable(values))
    for target in TARGETS:
        schedule = sample_schedule(blocked, target, rng, varied=True)
        assert not violations(bound, schedule, target)
        assert from_json(to_json(bound, schedule), bound) == schedule
        assert_backends_agree(blocked, lower(bound, schedule), emulate=target.kind == "cuda")
        if target.kind == "cuda" and have_nvrtc():
            ScheduledPipeline(bound, schedule, target).compile("cuda")


@pytest.mark.parametrize("seed", range(8))
def test_scans_by_blocks_agree(seed: int) -> None:
    check_scan(seed)


@pytest.mark.fuzz
@pytest.mark.parametrize("shard", range(20))
def test_scans_by_blocks_agree_on_many(shard: int) -> None:
    for seed in range(1000 + 25 * shard, 1025 + 25 * shard):
        check_scan(seed)


def test_scans_are_varied() -> None:
    drawn: list[tuple[Any, ...]] = [random_scan(np.random.default_rng(seed)) for seed in range(200)]
    assert {scan.chunk > 0 for _, scan, _ in drawn} == {True, False} == {same for *_, same in drawn}
    assert {scan.doubled for _, scan, _ in drawn} == {True, False}
    assert {d.name for bound, *_ in drawn for d in bound.funcs["f"].dtypes} == {*INTEGERS, *FLOATS}
