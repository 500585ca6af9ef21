"""Deinterleaved reads, hoisted invariants and unrolled reductions of random programs: the interpreter's bits, and those
of compiled code."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pytest

from autosched import interpret
from autosched.analysis.bound_pipeline import BoundPipeline, Deinterleaving, InvariantHoisting, ReductionUnrolling
from autosched.analysis.rewrites import invariant_hoisting
from autosched.analysis.rewrites.deinterleaving import deinterleave_reads, deinterleaving_error, strides
from autosched.analysis.rewrites.invariant_hoisting import hoist_invariants, hoisting_error
from autosched.analysis.rewrites.reduction_unrolling import unroll_reductions, unrolling_error
from autosched.errors import BoundsError
from autosched.schedule.io.serialise import from_json, to_json
from autosched.schedule.sampling.random_schedule import sample_schedule
from autosched.scheduled_pipeline import ScheduledPipeline
from autosched.target import get_target
from tests.fuzz.choices import Choices
from tests.fuzz.pipelines import Case, random_case
from tests.fuzz.test_fuzz import bound_if_small

CPU, H200 = get_target("cpu"), get_target("h200")
COMPILE_EVERY = 8


def rewrites_of(bound: BoundPipeline) -> Iterator[BoundPipeline]:
    """Yield the pipeline with each rewrite that is legal."""
    for f in bound.funcs.values():
        for source in dict.fromkeys(s for stage in f.stages for s in stage.sources):
            for stride in sorted(strides(f, source)):
                chosen = Deinterleaving(f.name, source, stride)
                if not deinterleaving_error(bound, chosen):
                    yield deinterleave_reads(bound, [chosen])
        for dim in f.dims:
            hoisting = InvariantHoisting(f.name, dim)
            if not hoisting_error(bound, hoisting):
                yield hoist_invariants(bound, [hoisting])
        for stage in f.stages[1:]:
            for loop in stage.reductions:
                unrolling = ReductionUnrolling(f.name, stage.number, loop.name)
                if not unrolling_error(bound, unrolling):
                    yield unroll_reductions(bound, [unrolling])


def outputs_of(bound: BoundPipeline, case: Case) -> Mapping[str, np.ndarray[Any, Any]]:
    inputs = {i.name: case.inputs[i.name] for i in bound.pipeline.inputs}
    return interpret(bound.pipeline, inputs, {p.name: case.params[p.name] for p in bound.pipeline.params})


def check_rewrites(seeds: range) -> list[int]:
    """Check the rewrites of random programs; return the numbers of deinterleavings, hoistings and unrollings."""
    counts = [0, 0, 0]
    for seed in seeds:
        try:
            case = random_case(Choices.from_seed(seed))
            bound = bound_if_small(case)
        except BoundsError:
            continue
        for rewritten in rewrites_of(bound) if bound is not None else ():
            assert bound is not None
            got = outputs_of(rewritten, case)
            for name, values in outputs_of(bound, case).items():
                np.testing.assert_array_equal(got[name], values, err_msg=f"seed {seed}, {rewritten.rewrites}")
            counts[2 if rewritten.unrollings else bool(rewritten.hoistings)] += 1
            if sum(counts) % COMPILE_EVERY == 0:
                backend, target = ("emulator", H200) if counts[2] % 2 else ("cpu", CPU)
                schedule = sample_schedule(rewritten, target, np.random.default_rng(seed))
                assert from_json(to_json(bound, schedule), bound) == schedule
                kernel = ScheduledPipeline(bound, schedule, target, case.params).compile(backend)
                found = kernel({**case.inputs, **case.params})
                for array, values in zip(found if isinstance(found, tuple) else (found,), got.values(), strict=True):
                    np.testing.assert_allclose(array, values, rtol=1e-5, err_msg=f"seed {seed}, {rewritten.rewrites}")
    return counts


def test_rewrites_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(invariant_hoisting, "LEAST_OPERATIONS", 1)
    assert min(check_rewrites(range(150))) >= 5


@pytest.mark.fuzz
@pytest.mark.parametrize("shard", range(20))
def test_rewrites_agree_on_many(shard: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(invariant_hoisting, "LEAST_OPERATIONS", 1)
    check_rewrites(range(1000 + 200 * shard, 1200 + 200 * shard))
