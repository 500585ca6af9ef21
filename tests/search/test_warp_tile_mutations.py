"""Mutations of kernels whose warps have tiles of their own: legal, with equal results, from and to such kernels."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np

from autosched.analysis.bind import bind
from autosched.lower.program import lower
from autosched.schedule.legality.validate import violations
from autosched.schedule.types import Schedule
from autosched.search.evaluate.evaluator import KernelEvaluator
from autosched.search.settings import SearchSettings
from autosched.search.tune.autotune.batches import predicted_seconds
from tests.lower.run_backends import assert_backends_agree
from tests.schedule.building import blur, chain_pipeline, kernel, member, root, schedule, warp
from tests.search.test_step_mutations import H200, MODEL, mutator_of

DRAWS = 120


def blurred() -> Schedule:
    """Return a blur with its rows in a warp's slice."""
    bound = blur()
    rows = member(warp("out", 4), "yx", across="sy=6 tx=24")
    out = root("out", "by=7 bx=2 wy=2 wx=2 sy=4 tx=24")
    return schedule(bound, kernel(bound, [out], [rows], ["img_clamped"]))


def test_mutations_are_legal_and_keep_or_take_the_warps() -> None:
    bound, parent = blur(), blurred()
    mutator, rng = mutator_of(bound), np.random.default_rng(0)
    found: Counter[str] = Counter()
    some: dict[str, Schedule] = {}
    for _ in range(DRAWS):
        mutated = mutator.mutated(parent, rng)
        if mutated is None:
            continue
        assert violations(bound, mutated, H200) == []
        (child,) = mutated.kernels
        kind = "kept" if child.warp_loops else "taken" if child.linear_threads else "other"
        found[kind] += 1
        if kind == "kept" and replace(child, resident_blocks=0) != parent.kernels[0]:
            found["other tiles"] += 1
            some["other tiles"] = mutated
        some[kind] = mutated
    assert all(found[k] for k in ("kept", "taken", "other tiles")), found
    for mutated in some.values():
        assert_backends_agree(bound, lower(bound, mutated))


def test_kernels_get_warps() -> None:
    bound = bind(chain_pipeline(3), {"img": (60, 90)})
    tiles = [root("out", "by=15 bx=3 tx=32 ty=4")]
    parent = schedule(bound, kernel(bound, tiles, (), ["f1", "f2", "img_clamped"]))
    mutator, rng = mutator_of(bound), np.random.default_rng(1)
    drawn = [m for _ in range(DRAWS) if (m := mutator.mutated(parent, rng)) is not None]
    given = [m for m in drawn if m.kernels[0].warp_loops]
    assert given
    assert_backends_agree(bound, lower(bound, given[0]))


def test_they_have_a_predicted_time() -> None:
    seconds = predicted_seconds(KernelEvaluator(blur(), H200, MODEL, SearchSettings()), blurred())
    assert seconds is not None and 0 < seconds < 1
