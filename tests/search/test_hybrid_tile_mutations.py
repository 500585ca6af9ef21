"""Mutations of kernels with hybrid tiles: legal, with equal results, from and to such kernels."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np

from autosched.lower.program import lower
from autosched.schedule.legality.validate import violations
from autosched.schedule.types import Schedule
from autosched.search.evaluate.evaluator import KernelEvaluator
from autosched.search.settings import SearchSettings
from autosched.search.tune.autotune.batches import predicted_seconds
from tests.lower.hybrid_cases import rows, rows_kernel
from tests.lower.run_backends import assert_backends_agree
from tests.schedule.building import schedule
from tests.search.test_step_mutations import H200, MODEL, mutator_of

DRAWS = 100


def test_mutations_are_legal_and_give_or_take_registers() -> None:
    bound = rows(300, 20)
    whole, half = (schedule(bound, rows_kernel(bound, n, 4)) for n in (0, 3))
    mutator, rng = mutator_of(bound), np.random.default_rng(0)
    found: Counter[str] = Counter()
    some: dict[str, Schedule] = {}
    for parent in (whole, half):
        for _ in range(DRAWS):
            mutated = mutator.mutated(parent, rng)
            if mutated is None:
                continue
            assert violations(bound, mutated, H200) == []
            (child,) = mutated.kernels
            has, had = (any(m.registers for m in k.fused) for k in (child, parent.kernels[0]))
            kind = "kept" if has and had else "given" if has else "taken" if had else "none"
            found[kind] += 1
            if kind == "kept" and replace(child, resident_blocks=0) != parent.kernels[0]:
                some["other tiles"] = mutated
            some[kind] = mutated
    assert all(found[k] for k in ("kept", "given", "taken")), found
    for mutated in some.values():
        assert_backends_agree(bound, lower(bound, mutated))


def test_they_have_a_predicted_time() -> None:
    bound = rows()
    evaluator = KernelEvaluator(bound, H200, MODEL, SearchSettings())
    times = [predicted_seconds(evaluator, schedule(bound, rows_kernel(bound, n, 8, 2))) for n in (0, 4, 9)]
    assert all(t is not None and 0 < t < 1 for t in times)
