"""Deinterleaved reads, hoisted invariants, unrolled reductions, folded values, fissions and clones of random programs:
the interpreter's bits, and those of compiled code."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pytest

from autosched import interpret
from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.analysis.pipeline_rewrites import (
    ComponentFission,
    ComputationFolding,
    Deinterleaving,
    ExpressionFission,
    FuncClone,
    InvariantHoisting,
    ReductionUnrolling,
    StatementRewrite,
)
from autosched.analysis.rewrites import invariant_hoisting
from autosched.analysis.rewrites.component_fission import component_fission_error, split_components
from autosched.analysis.rewrites.deinterleaving import deinterleave_reads, deinterleaving_error, strides
from autosched.analysis.rewrites.func_cloning import clone_funcs, consumers_of
from autosched.analysis.rewrites.invariant_hoisting import hoist_invariants, hoisting_error
from autosched.analysis.rewrites.reduction_unrolling import unroll_reductions, unrolling_error
from autosched.analysis.rewrites.statement import rewrite_statements, statement_error
from autosched.errors import BoundsError
from autosched.schedule.io.serialise import from_json, to_json
from autosched.schedule.sampling.random_schedule import sample_schedule
from autosched.scheduled_pipeline import ScheduledPipeline
from autosched.target import get_target
from tests.comparable import comparable
from tests.fuzz.choices import Choices
from tests.fuzz.pipelines import Case, random_case
from tests.fuzz.test_fuzz import bound_if_small

CPU, H200 = get_target("cpu"), get_target("h200")
COMPILE_EVERY = 8
Array = np.ndarray[Any, Any]


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
        last = len(f.dtypes) - 1
        statements: list[StatementRewrite] = [ComputationFolding(f.name), ExpressionFission(f.name, 2, last)]
        for statement in statements:
            if not statement_error(bound, statement):
                yield rewrite_statements(bound, [statement])
        fission = ComponentFission(f.name, (tuple(range(1, len(f.dtypes))), (0,)))
        if not component_fission_error(bound, fission):
            yield split_components(bound, [fission])
        consumers = consumers_of(bound, f.name)
        for chosen_consumers in dict.fromkeys((consumers[:1], consumers[1:])):
            if chosen_consumers:
                yield clone_funcs(bound, [FuncClone(f.name, chosen_consumers)])


def kind_of(rewritten: BoundPipeline) -> str:
    """Return the kind of a pipeline's only rewrite."""
    (rewrite,) = rewritten.rewrites
    return type(rewrite).__name__


def outputs_of(bound: BoundPipeline, case: Case) -> Mapping[str, Array]:
    inputs = {i.name: case.inputs[i.name] for i in bound.pipeline.inputs}
    return interpret(bound.pipeline, inputs, {p.name: case.params[p.name] for p in bound.pipeline.params})


def renamed(split: BoundPipeline, outputs: Mapping[str, Array]) -> dict[str, Array]:
    """Return the outputs of a pipeline with split components under the names of the original one."""
    public = {func: name for name, func in split.outputs.items()}
    is_tuple = {func: len(split.funcs[func].dtypes) > 1 for func in public}
    return {
        array: outputs[f"{public[func]}_{k}" if is_tuple[func] else public[func]]
        for array, func, k in split.output_components
    }


def check_rewrites(seeds: range) -> Counter[str]:
    """Check the rewrites of random programs; return the number of each kind."""
    counts: Counter[str] = Counter()
    for seed in seeds:
        try:
            case = random_case(Choices.from_seed(seed))
            bound = bound_if_small(case)
        except BoundsError:
            continue
        for rewritten in rewrites_of(bound) if bound is not None else ():
            assert bound is not None
            expected, outputs = outputs_of(bound, case), outputs_of(rewritten, case)
            got = outputs if not rewritten.fissions else renamed(rewritten, outputs)
            where = f"seed {seed}, {rewritten.rewrites}"
            for name, values in expected.items():
                np.testing.assert_array_equal(comparable(got[name]), comparable(values), err_msg=where)
            kind = kind_of(rewritten)
            counts[kind] += 1
            if counts[kind] % COMPILE_EVERY == 1:
                backend, target = ("emulator", H200) if counts.total() % 2 else ("cpu", CPU)
                schedule = sample_schedule(rewritten, target, np.random.default_rng(seed))
                assert from_json(to_json(bound, schedule), bound) == schedule
                kernel = ScheduledPipeline(bound, schedule, target, case.params).compile(backend)
                found = kernel({**case.inputs, **case.params})
                for array, values in zip(found if isinstance(found, tuple) else (found,), got.values(), strict=True):
                    np.testing.assert_allclose(comparable(array), comparable(values), rtol=1e-5, err_msg=where)
    return counts


def test_rewrites_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(invariant_hoisting, "LEAST_OPERATIONS", 1)
    counts = check_rewrites(range(70))
    assert len(counts) >= 6 and sum(n >= 3 for n in counts.values()) >= 5  # few programs repeat a value


@pytest.mark.fuzz
@pytest.mark.parametrize("shard", range(20))
def test_rewrites_agree_on_many(shard: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(invariant_hoisting, "LEAST_OPERATIONS", 1)
    check_rewrites(range(1000 + 200 * shard, 1200 + 200 * shard))
