"""Random pipelines under every strategy: each gets a legal schedule, on which all witnesses agree bit for bit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.schedule.legality.validate import validate
from autosched.schedule.rewrites import reassociated_pipeline
from autosched.schedule.types import Schedule
from autosched.search.fusion.settings import FusionSettings
from autosched.search.settings import GREEDY, SearchSettings
from autosched.search.strategies.forma.forma_strategy import Forma
from autosched.search.strategies.polymage.cost_weights import CostWeights
from autosched.search.strategies.polymage.polymage_strategy import Polymage
from autosched.search.strategies.polymage.settings import PolymageSettings
from autosched.search.strategies.protocol import Beam, DynamicProgramming, Strategy
from autosched.search.strategies.sioutas.strategy import Sioutas
from autosched.target import Target
from tests.fuzz.choices import Choices
from tests.fuzz.pipelines import random_case
from tests.fuzz.test_fuzz import COMPILE_EVERY, TARGETS, bound_if_small
from tests.fuzz.witnesses import check_schedule, compile_for_gpu, reference_outputs

STRATEGIES: dict[str, Strategy] = {
    "beam": Beam(SearchSettings(beam_size=3, passes=2)),
    "exhaustive": Beam(SearchSettings(beam_size=2, passes=1, sampling="exhaustive")),
    "greedy": Beam(GREEDY),
    "dp": DynamicProgramming(FusionSettings(most_funcs=4, width=2, partitions=2), SearchSettings(beam_size=2)),
    "forma": Forma(),
    "polymage": Polymage(),
    "polymage-hybrid": Polymage(PolymageSettings(CostWeights(1, 0, 0, 0, 0, 1, 0), register_shares=(0.5, 1.0))),
    "sioutas": Sioutas("nested"),
    "sioutas-overlapped": Sioutas("overlapped"),
}


def scheduler(name: str) -> Callable[[BoundPipeline, Target, np.random.Generator], Schedule]:
    def find(bound: BoundPipeline, target: Target, rng: np.random.Generator) -> Schedule:
        found = STRATEGIES[name].search(bound, target, seed=int(rng.integers(1 << 30)))
        assert not found.note.startswith("no state"), found.counts.pruned
        validate(bound, found.best, target)
        return found.best

    return find


def explore(name: str, numbers: range) -> int:
    """Check a strategy on random pipelines; return how many there were."""
    cases = 0
    for number in numbers:
        case = random_case(Choices.from_seed(number))
        bound = bound_if_small(case)
        if bound is None:
            continue
        expected = reference_outputs(case)
        for target in TARGETS:
            if target.kind != "cuda" and isinstance(STRATEGIES[name], Polymage):
                continue  # refused: the strategy is for GPUs alone
            schedule = scheduler(name)(bound, target, np.random.default_rng(number))
            on_gpu = target.kind == "cuda"
            if schedule.rfactors or schedule.windows:  # floating-point sums round in another order
                case = replace(case, pipeline=reassociated_pipeline(bound, schedule).pipeline)
                expected = reference_outputs(case)
            program = check_schedule(case, bound, schedule, expected, seed=number, emulate=on_gpu)
            if on_gpu and number % COMPILE_EVERY == 0:
                compile_for_gpu(program, target.arch)
        cases += 1
    return cases


@pytest.mark.parametrize("name", STRATEGIES)
def test_every_random_pipeline_gets_a_schedule_that_is_right(name: str) -> None:
    assert explore(name, range(5, 10)) == 5


@pytest.mark.fuzz
@pytest.mark.parametrize("name", STRATEGIES)
@pytest.mark.parametrize("shard", range(5))
def test_so_do_many(name: str, shard: int) -> None:
    assert explore(name, range(120 * shard, 120 * (shard + 1))) >= 100


def test_a_greedy_search_survives_places_in_threads_that_prove_illegal() -> None:
    """The cheapest children of the only state are all refused by the checks that come late."""
    assert explore("greedy", range(366, 367)) == 1


def test_a_func_read_by_an_empty_update_elsewhere_is_no_member() -> None:
    """The update's domain is empty, so that its kernel reads nothing; the Func has a consumer there all the same."""
    assert explore("greedy", range(459, 460)) == 1
