"""Families of random pipelines: three witnesses, kinds, sizes, types, and pipelines of existing seeds."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from math import prod

import numpy as np
import pytest

from autosched.errors import InputError
from autosched.lang.func import Func
from autosched.measure.problem import Problem
from autosched.random_pipelines import RandomPipelineSettings, family_of_seed, random_pipeline
from autosched.random_pipelines.families import FAMILIES
from autosched.random_pipelines.settings import CPU, DOUBLE, FAMILY_WEIGHTS, USERS
from autosched.random_pipelines.workload_counts import computed_funcs, total_evaluations
from autosched.reference import interpret
from autosched.runtime.compile.nvrtc import have_nvrtc
from tests.fuzz.witnesses import compile_for_gpu
from tests.random_pipelines.family_witnesses import disagreements, small_pipeline

MANY = 30
FIRST = {name: 1001 + 100 * k for k, name in enumerate(FAMILY_WEIGHTS)}


def only(family: str) -> RandomPipelineSettings:
    return replace(USERS, families={family: 1.0})


def check(family: str, seed: int) -> None:
    wrong, programs = disagreements(small_pipeline(family, seed), seed)
    assert wrong == [], (family, seed)
    if have_nvrtc():
        for program in programs:
            compile_for_gpu(program, "sm_90")


@pytest.mark.parametrize("family", FAMILY_WEIGHTS)
def test_witnesses_agree(family: str) -> None:
    check(family, FIRST[family])


@pytest.mark.fuzz
@pytest.mark.parametrize("family", FAMILY_WEIGHTS)
def test_witnesses_agree_on_many(family: str) -> None:
    for seed in range(FIRST[family], FIRST[family] + MANY):
        check(family, seed)


def test_every_family_has_a_weight() -> None:
    assert {*FAMILIES, DOUBLE} == set(FAMILY_WEIGHTS)
    assert set(USERS.families) == set(FAMILY_WEIGHTS)


@pytest.mark.parametrize("family", FAMILY_WEIGHTS)
def test_a_family_is_many_programs(family: str) -> None:
    pipelines = [random_pipeline(seed, only(family)) for seed in range(20)]
    assert len({p.pipeline.hash for p in pipelines}) == 20
    structures = {tuple(sorted((f.name, len(f.definitions)) for f in p.pipeline.funcs)) for p in pipelines}
    assert len(structures) >= 15
    assert all(family in p.family.split(" ") for p in pipelines)
    assert len({shape for p in pipelines for shape in p.shapes.values()}) >= 20
    for p in pipelines:
        bound = p.bind()
        assert 20_000 <= total_evaluations(bound) <= USERS.max_operations, p.seed
        assert all(prod(f.extents) <= USERS.max_points for f in computed_funcs(bound))


def test_reads_stay_in_range_after_every_recurrence() -> None:
    """Stages after an idiom may read outside of its shape only where it can be computed there."""
    for seed in range(700, 820):
        random_pipeline(seed, only("recurrences")).bind()


def test_few_outputs_are_constant() -> None:
    constant = outputs = 0
    for family in FAMILY_WEIGHTS:
        for seed in range(4):
            p = small_pipeline(family, seed)
            for array in interpret(p.pipeline, p.inputs(np.random.default_rng(seed)), p.params).values():
                outputs += array.size > 8
                constant += array.size > 8 and bool((array == array.flat[0]).all())
    assert outputs >= 40
    assert constant <= 2


def test_families_are_drawn_by_weight() -> None:
    settings = replace(USERS, families={"tables": 3.0, "warps": 1.0, DOUBLE: 0.0})
    drawn = Counter(family_of_seed(seed, settings) for seed in range(400))
    assert set(drawn) == {"tables", "warps"}
    assert 250 <= drawn["tables"] <= 350
    double = {family_of_seed(seed, only(DOUBLE)) for seed in range(200)}
    assert double == {f"{DOUBLE} {name}" for name in FAMILIES}


@pytest.mark.parametrize("idiom", ["row_statistics", "warps", "time_loops"])
def test_double_precision(idiom: str) -> None:
    settings = replace(USERS, stages=(1, 1), families={DOUBLE: 1.0, idiom: 1e-9})
    for seed in range(5):
        p = random_pipeline(seed, settings)
        assert p.family == f"{DOUBLE} {idiom}"
        types = Counter(str(f.dtypes[0]) for f in p.pipeline.funcs if f.boundary is None)
        assert types["float64"] >= types["float32"], seed


def test_several_outputs_differ_in_kind() -> None:
    for seed in range(20):
        outputs = random_pipeline(seed, only("several_outputs")).pipeline.outputs
        assert len(outputs) >= 2
    kinds = {
        (o.func.dtypes[0].kind, o.func.ndim)
        for seed in range(20)
        for o in random_pipeline(seed, only("several_outputs")).pipeline.outputs
    }
    assert {kind for kind, _ in kinds} >= {"b", "i", "u", "f"}
    assert {ndim for _, ndim in kinds} >= {0, 1, 2, 3}


def test_time_loops_repeat_one_step() -> None:
    steps = []
    for seed in range(10):
        p = random_pipeline(seed, replace(only("time_loops"), stages=(1, 1)))
        repeated = Counter(f.name for f in p.pipeline.funcs if f.boundary is None and f.name.startswith("step_"))
        steps += repeated.values()
        conditions = {f.boundary for f in p.pipeline.funcs if isinstance(f, Func) and f.boundary}
        assert len(conditions) <= 2, seed  # that of the steps, and of a stage before
    assert max(steps) >= 15
    assert min(steps) >= 3


def test_problems_state_their_family() -> None:
    problem = Problem.random(7, USERS)
    family = family_of_seed(7, USERS)
    assert problem.title == f"random {family} 7"
    assert Problem.parse(problem.text()) == problem
    other = Problem.parse(problem.text().replace(f'"family":"{family}"', '"family":"attention"'))
    with pytest.raises(
        InputError, match=f"random pipeline 7 is of the family '{family}' by its settings, but its text"
    ):
        other.bind()


def test_problems_without_families_have_the_text_of_stored_labels() -> None:
    text = Problem.random(3, CPU).text()
    assert "famil" not in text
    assert Problem.parse(text).bind().pipeline.hash == random_pipeline(3, CPU).pipeline.hash


def test_unknown_families_are_refused() -> None:
    with pytest.raises(InputError, match="families has no 'tilings': choose among attention, double_precision"):
        RandomPipelineSettings(families={"tilings": 1.0})
    with pytest.raises(InputError, match="families needs weights of at least 0"):
        RandomPipelineSettings(families={"tables": 0.0})
