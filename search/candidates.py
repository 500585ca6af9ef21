"""Schedules worth measuring, of many kinds: a model trained on the best alone would know nothing of the others.

Most of them share kernels with others, so that a pipeline's time tells something of each kernel: a mutation changes the
tiles of one kernel of a schedule and leaves the rest as it is.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace

import numpy as np

from autosched.analysis.bound import BoundPipeline
from autosched.errors import AutoschedError, InputError
from autosched.featurize.build import build_kernel
from autosched.featurize.describe import describe_kernel
from autosched.schedule.sample import sample_schedule
from autosched.schedule.types import Kernel, Schedule
from autosched.schedule.validate import kernel_reasons, reasons
from autosched.search.analytical import analytical_model
from autosched.search.cost import CostModel
from autosched.search.decide import Decider
from autosched.search.evaluate import Evaluator
from autosched.search.random_state import RandomStates
from autosched.search.roots import schedule_roots
from autosched.search.settings import SearchSettings
from autosched.search.strategy import Beam
from autosched.target import Target

GREEDY = SearchSettings(beam_size=1, passes=1, freeze=False, refine=0, dropout=0.01)
"""One of the many different samples of a tuning round: one state, one pass, states dropped at random."""
BEAM = SearchSettings(beam_size=8, passes=2, refine=0)

_TRIES = 8
_SEARCH_SECONDS = 20.0


@dataclass(frozen=True)
class Mix:
    """How many schedules of each kind a pipeline is measured with, besides the baseline.

    Attributes:
        beam: The best of a beam search.
        greedy: Each the result of a greedy search that drops states at random.
        states: Random states of the search: what it might look at, good or bad.
        legal: Random legal schedules, most of them slow.
        mutations: Schedules of the kinds above with other tiles in one kernel.
    """

    beam: int = 2
    greedy: int = 4
    states: int = 8
    legal: int = 4
    mutations: int = 14

    def __post_init__(self) -> None:
        for f in fields(self):
            if getattr(self, f.name) < 0:
                raise InputError(f"{f.name} is {getattr(self, f.name)}: give a number of schedules")

    @property
    def total(self) -> int:
        """Schedules of all kinds."""
        return sum(getattr(self, f.name) for f in fields(self))


@dataclass
class Candidates:
    """Draws schedules of one pipeline.

    Args:
        bound: The pipeline with its shapes.
        target: Device limits.
        seed: Source of randomness; the same seed draws the same schedules.
        model: What the searches minimise; the analytical model by default.
    """

    bound: BoundPipeline
    target: Target
    seed: int
    model: CostModel | None = None
    _evaluator: Evaluator = field(init=False)

    def __post_init__(self) -> None:
        model = self.model or analytical_model(self.target)
        self._evaluator = Evaluator(self.bound, self.target, model, SearchSettings())

    def draw(self, mix: Mix) -> Iterator[tuple[str, Schedule]]:
        """Yield distinct legal schedules with their kind, the baseline first.

        There are fewer than asked for where a pipeline does not have as many.
        """
        seen: set[Schedule] = set()
        kinds: Mapping[str, tuple[int, Callable[[], Iterator[Schedule]]]] = {
            "roots": (1, lambda: iter((schedule_roots(self.bound, self.target),))),
            "beam": (mix.beam, lambda: self._searched(BEAM, mix.beam)),
            "greedy": (mix.greedy, self._greedy),
            "state": (mix.states, self._states),
            "legal": (mix.legal, self._legal),
            "mutation": (mix.mutations, lambda: self._mutations(sorted(seen, key=str))),
        }
        for kind, (count, make) in kinds.items():
            drawn = itertools.islice(make(), 2 * count) if count else ()
            fresh = (s for s in drawn if s not in seen)
            for schedule in itertools.islice(fresh, count):
                seen.add(schedule)
                yield kind, schedule

    def _rng(self, number: int) -> np.random.Generator:
        return np.random.default_rng([self.seed, number])

    def _searched(self, settings: SearchSettings, count: int, seed: int = 0) -> Iterator[Schedule]:
        strategy = Beam(settings)
        found = strategy.search(
            self.bound, self.target, cost=self.model, seconds=_SEARCH_SECONDS, seed=seed, count=count
        )
        return (r.schedule for r in found.ranked)

    def _greedy(self) -> Iterator[Schedule]:
        for number in itertools.count():
            yield from self._searched(GREEDY, 1, seed=self.seed * 10_007 + number)

    def _states(self) -> Iterator[Schedule]:
        states, rng = RandomStates(self._evaluator), self._rng(1)
        while (drawn := states.draw_legal(rng)) is not None:
            yield drawn[1]

    def _legal(self) -> Iterator[Schedule]:
        rng = self._rng(2)
        while True:
            yield sample_schedule(self.bound, self.target, rng)

    def _mutations(self, of: list[Schedule]) -> Iterator[Schedule]:
        """Yield schedules with other tiles in one kernel, each made of one drawn before or of another mutation."""
        rng, decider = self._rng(3), Decider(self._evaluator)
        pool = list(of)
        for _ in range(1_000):
            schedule = pool[int(rng.integers(len(pool)))]
            mutated = self.mutated(schedule, rng, decider)
            if mutated is not None:
                pool.append(mutated)
                yield mutated

    def mutated(self, schedule: Schedule, rng: np.random.Generator, decider: Decider) -> Schedule | None:
        """Return a legal schedule with other tiles in one kernel, or None if some tries find none.

        Args:
            schedule: Any legal schedule of the pipeline.
            rng: Source of randomness.
            decider: Knows which tiles a search would try.
        """
        for _ in range(_TRIES):
            k = int(rng.integers(len(schedule.kernels)))
            kernel = self._retiled(schedule.kernels[k], rng, decider)
            if kernel is None or kernel == schedule.kernels[k] or kernel_reasons(self.bound, kernel, self.target):
                continue
            found = replace(schedule, kernels=(*schedule.kernels[:k], kernel, *schedule.kernels[k + 1 :]))
            if not reasons(self.bound, found, self.target):
                return found
        return None

    def _retiled(self, kernel: Kernel, rng: np.random.Generator, decider: Decider) -> Kernel | None:
        """Return a kernel with other tiles of its root, Members keeping their threads as far as regions allow."""
        try:
            structure, params = describe_kernel(self.bound, kernel)
            model = self._evaluator.kernel_model(structure)
            tilings = decider.tilings(structure)
        except (AutoschedError, KeyError, ValueError):  # a kernel of a kind that the search does not make
            return None
        if not tilings:
            return None
        layout = model.layout
        tile = tilings[int(rng.integers(len(tilings)))]
        row = np.array([(*tile[: layout.root_serial.stop], *params[layout.root_serial.stop :])], np.int64)
        extents = model.member_extents(row) if layout.members else {}
        for func, where in layout.members:
            row[:, where] = np.minimum(row[:, where], extents[func])
        return build_kernel(model, row[0])
