"""Random pipelines under random legal schedules: interpreter, C backend and CUDA emulator agree bit for bit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import hypothesis
import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, note, reject
from hypothesis import strategies as st

from autosched.analysis.bind import bind
from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.errors import BoundsError
from autosched.lower.program import lower
from autosched.schedule.io.serialise import from_json, to_json
from autosched.schedule.io.text import schedule_text
from autosched.schedule.legality.validate import validate
from autosched.schedule.rewrites import reassociated_pipeline
from autosched.schedule.sampling.random_schedule import SampleStats, sample_schedule
from autosched.schedule.types import Schedule
from autosched.search.strategies.compute_root import schedule_roots
from autosched.target import Target, get_target
from tests.comparable import comparable
from tests.fuzz.choices import Choices, tapes
from tests.fuzz.clones import random_clones
from tests.fuzz.coverage import Coverage
from tests.fuzz.joins import random_joins
from tests.fuzz.pipelines import Case, points, random_case
from tests.fuzz.splits import is_exact, random_splits
from tests.fuzz.witnesses import Arrays, check_schedule, compile_for_gpu, reference_outputs

Scheduler = Callable[[BoundPipeline, Target, np.random.Generator], Schedule]

MAX_POINTS = 1_000_000
SCALAR_EVERY = 4
"""One program in this number has no vector accesses, as for unaligned arrays."""
SPLIT_EVERY = 2
"""One program in this number has rfactor, if it has a reduction."""
JOIN_EVERY = 2
"""One program in this number has horizontal fusion, if that is legal."""
CLONE_EVERY = 4
"""One program in this number has clones of Funcs, if one reads another."""
COMPILE_EVERY = 8
"""One program in this number is also compiled by NVRTC, which takes longer than everything else."""
TARGETS = tuple(map(get_target, ("h200", "cpu")))

USUAL = {
    "interior": 0.2, "interior and border": 0.2, "tail": 0.2, "tail beside an interior": 0.2, "shared memory": 0.1,
    "member at BLOCK": 0.1, "member at THREAD": 0.05, "partial tile innermost": 0.2, "partial tile second": 0.2,
    "aligned tile": 0.05, "copy of a source": 0.1, "reduction in pieces": 0.05,
    "extent 1": 0.1, "prime extent": 0.2, "2 thread dimensions": 0.1, "unrolled loop": 0.2, "serial loop": 0.1,
    "rows of lanes together in C": 0.05,
}  # fmt: skip
"""Least share of the schedules in which each property must be found."""
RARE = {
    "members three deep": 0.02, "member with several consumers": 0.005, "partial tile third": 0.02,
    "partial tile fourth": 0.01, "partial tile of a reduction": 0.01, "parallel reduction loop": 0.02,
    "member stored in another order": 0.02, "shared memory reused": 0.003, "stages of a Func share a kernel": 0.1,
    "3 thread dimensions": 0.02, "neighbouring threads across rows": 0.1, "several Funcs inlined": 0.05,
    "member at MAINLOOP": 0.02, "window that slides": 0.02, "member at WARP": 0.01, "tiles of warps": 0.02,
    "hybrid tile": 0.01, "Funcs computed together": 0.005, "cloned Funcs": 0.1, "atomic updates": 0.005,
    "member stored": 0.02, "several lanes at a time in C": 0.005, "rows in strips in C": 0.005,
    "member in terms, outside points": 0.01, "member in terms, inside points": 0.01,
    "lanes share terms": 0.01, "lanes share terms in shared memory": 0.003, "whole warps share terms": 0.003,
}  # fmt: skip
KINDS_AT_LEVELS = {
    "boundary": "ROOT BLOCK THREAD INLINE", "pointwise": "ROOT BLOCK THREAD INLINE",
    "stencil": "ROOT BLOCK THREAD INLINE", "updated in place": "ROOT BLOCK THREAD", "scan or scatter": "ROOT BLOCK",
}  # fmt: skip
LANGUAGE = (
    "several outputs", "run-time parameter", "parameter in an index", "undef", "tuple", "several updates", "gather",
    "empty reduction domain", "carried dependence", "parallel update", "select", "call hash_u32", "call sqrt",
    "call round", "call fmod", "shl of i", "shr of u", "floordiv of i", "floordiv of f", "mod of i", "mod of f",
    "cast f to i", "cast f to u", "cast f to b", "cast i to f", "and of b", "xor of u", "not of i", "neg of f",
    *(f"boundary {k}" for k in ("clamped", "mirrored", "mirrored_without_edge", "wrapped", "constant")),
    *(f"{n} dimensions" for n in range(5)),
    *(f"type {t}" for t in ("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")),
    *(f"type {t}" for t in ("float16", "bfloat16", "float32", "float64")),
)  # fmt: skip


def sampled(bound: BoundPipeline, target: Target, rng: np.random.Generator) -> Schedule:
    """Return a random schedule that may contain every directive."""
    return sample_schedule(bound, target, rng, varied=True, lanes="exact")


def roots(bound: BoundPipeline, target: Target, rng: np.random.Generator) -> Schedule:
    """Return the baseline schedule, checked like any other."""
    schedule = schedule_roots(bound, target)
    validate(bound, schedule, target)
    return schedule


REFUSED = ("more than 32 bits hold", "more than 64 bits hold", "shift count", "over nothing")
"""Why pipelines that are right otherwise have no values: exact integers without a width, selections without points."""


def bound_if_small(case: Case) -> BoundPipeline | None:
    """Return a case bound to its shapes, unless it is too large to be run."""
    try:
        bound = bind(case.pipeline, case.shapes, dict(case.params))
    except BoundsError as error:
        if not case.is_far and not any(reason in error.message for reason in REFUSED):
            raise
        return None
    return bound if points(bound) <= MAX_POINTS else None


def in_pieces(bound: BoundPipeline, case: Case, expected: Arrays, seed: int) -> tuple[BoundPipeline, Case, Arrays]:
    """Return a case with rfactor; where order does not matter, results equal those without it."""
    view = random_splits(bound, np.random.default_rng(seed))
    if view is bound or points(view) > MAX_POINTS:
        return bound, case, expected
    split = replace(case, pipeline=view.pipeline)
    found = reference_outputs(split)
    if is_exact(bound, view):
        for name, array in expected.items():
            np.testing.assert_array_equal(comparable(found[name]), comparable(array))
    return view, split, found


def check(case: Case, scheduler: Scheduler, seed: int, coverage: Coverage) -> None:
    """Run one case under a schedule for each target."""
    bound = bound_if_small(case)
    if bound is None:
        reject()
    expected = reference_outputs(case)
    if seed % SPLIT_EVERY == 0:
        bound, case, expected = in_pieces(bound, case, expected, seed)
    if seed % JOIN_EVERY == 0:
        bound = random_joins(bound, np.random.default_rng(seed))
    if seed % CLONE_EVERY == 1:
        bound = random_clones(bound, np.random.default_rng(seed))
    for target in TARGETS:
        schedule = scheduler(bound, target, np.random.default_rng(seed))
        note(f"{target.name}\n{schedule_text(bound, schedule)}")
        if schedule.rewrites != bound.rewrites:  # the search has applied rfactor
            case = replace(case, pipeline=reassociated_pipeline(bound, schedule).pipeline)
            expected = reference_outputs(case)
        assert from_json(to_json(bound, schedule), bound) == schedule
        on_gpu = target.kind == "cuda"
        program = check_schedule(
            case, bound, schedule, expected, seed=seed, emulate=on_gpu, vectors=seed % SCALAR_EVERY != 0
        )
        if on_gpu and seed % COMPILE_EVERY == 0:
            compile_for_gpu(program, target.arch)
        coverage.add(program.bound, program)


def explore(shard: int, examples: int) -> Coverage:
    """Check random pipelines; each shard has its own, the same in every run."""
    coverage = Coverage()

    @hypothesis.seed(shard)
    @hypothesis.settings(
        max_examples=examples,
        deadline=None,
        database=None,
        print_blob=True,
        phases=(Phase.generate, Phase.shrink),
        suppress_health_check=list(HealthCheck),
    )
    @given(tape=tapes, seed=st.integers(0, 1 << 16), scheduler=st.sampled_from((sampled,) * 3 + (roots,)))
    def run(tape: bytes, seed: int, scheduler: Scheduler) -> None:
        case = random_case(Choices.from_tape(tape))
        note(repr(case))
        check(case, scheduler, seed, coverage)

    run()
    return coverage


def test_witnesses_agree() -> None:
    coverage = explore(0, 18)
    assert coverage.cases >= 28
    assert not coverage.missing(USUAL), coverage.report()


@pytest.mark.fuzz
@pytest.mark.parametrize("shard", range(1000, 1020))
def test_witnesses_agree_on_many(shard: int) -> None:
    coverage = explore(shard, 100)
    assert not coverage.missing(USUAL), coverage.report()


@pytest.mark.fuzz
def test_schedules_and_pipelines_cover_what_they_should() -> None:
    """Lowering alone is fast, so rare features can be required."""
    coverage, stats = Coverage(), SampleStats()
    for number in range(400):
        bound = bound_if_small(random_case(Choices.from_seed(number)))
        if bound is not None:
            if number % SPLIT_EVERY == 0:
                bound = random_splits(bound, np.random.default_rng(number))
            if number % JOIN_EVERY == 0:
                bound = random_joins(bound, np.random.default_rng(number))
            if number % CLONE_EVERY == 1:
                bound = random_clones(bound, np.random.default_rng(number))
            schedule = sample_schedule(
                bound, TARGETS[0], np.random.default_rng(number), stats, varied=True, lanes="exact"
            )
            coverage.add(bound, lower(bound, schedule))
    for level, offered in stats.offered.items():
        assert stats.chosen[level] >= 0.1 * offered, stats
    assert not coverage.missing(USUAL | RARE), coverage.report()
    missing = [name for name in LANGUAGE if not coverage.language[name]]
    missing += [
        f"{kind} at {level}"
        for kind, levels in KINDS_AT_LEVELS.items()
        for level in levels.split()
        if not coverage.levels[f"{kind} at {level}"]
    ]
    assert not missing, coverage.report()
