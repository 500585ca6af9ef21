"""Random scans over rows under random schedules and strategies: all witnesses agree, and NVRTC takes every kernel."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from autosched.analysis.bind import bind
from autosched.runtime.compile.nvrtc import have_nvrtc
from autosched.schedule.io.serialise import from_json, to_json
from autosched.schedule.kernel.row_scans import ScanLevel
from autosched.schedule.rewrites import reassociated_pipeline
from autosched.schedule.sampling.random_schedule import sample_schedule
from autosched.search.settings import GREEDY
from autosched.search.strategies.protocol import Beam, Roots
from autosched.search.strategies.sioutas.strategy import Sioutas
from autosched.target import get_target
from tests.fuzz.choices import Choices
from tests.fuzz.scans import random_scan
from tests.fuzz.witnesses import check_schedule, compile_for_gpu, reference_outputs
from tests.schedule.scans import walks

TARGETS = (get_target("h200"), get_target("cpu"))
STRATEGIES = (Beam(GREEDY), Sioutas("nested"), Roots())


def explore(numbers: range) -> Counter[str]:
    """Check random scans, each under a random schedule and a strategy for each target; return the coverage."""
    seen: Counter[str] = Counter()
    for number in numbers:
        case = random_scan(Choices.from_seed(number))
        bound = bind(case.pipeline, case.shapes)
        expected = reference_outputs(case)
        for target in TARGETS:
            rng = np.random.default_rng(number)
            strategy = STRATEGIES[number % len(STRATEGIES)]
            drawn = sample_schedule(bound, target, rng, varied=True, lanes="exact")
            for found in (drawn, strategy.search(bound, target, seed=number).best):
                wanted, one = expected, case
                if found.rfactors or found.windows:  # floating-point sums round in another order
                    one = replace(case, pipeline=reassociated_pipeline(bound, found).pipeline)
                    wanted = reference_outputs(one)
                else:
                    seen.update(f"{target.kind} {w.value}" for w in walks(bound, found))
                assert from_json(to_json(bound, found), bound) == found
                on_gpu = target.kind == "cuda"
                program = check_schedule(one, bound, found, wanted, seed=number, emulate=on_gpu, vectors=True)
                if on_gpu and have_nvrtc():
                    compile_for_gpu(program, target.arch)
        seen["programs"] += 1
    return seen


def test_witnesses_agree() -> None:
    seen = explore(range(16))
    assert all(seen[f"{kind} {walk.value}"] for kind in ("cuda", "cpu") for walk in ScanLevel), seen


@pytest.mark.fuzz
@pytest.mark.parametrize("shard", range(10))
def test_witnesses_agree_on_many(shard: int) -> None:
    assert explore(range(1000 + 100 * shard, 1100 + 100 * shard))["programs"] == 100
