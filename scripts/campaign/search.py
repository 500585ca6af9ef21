"""Step: schedules of every app at every size by every strategy; needs no GPU and can run ahead of time."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from autosched.errors import InputError
from autosched.measure.compile.content_keys import schedule_text
from autosched.measure.problem import Problem
from autosched.search.cost.protocol import CostModel
from autosched.search.strategies.protocol import STRATEGIES
from autosched.target import Target
from campaign.context import Context, Outcome
from campaign.problems import PAPER, app_names, problem_of, target_of
from campaign.results import Part, Results
from campaign.worker_pool import Lost, do_parts

SCHEDULES_FILE = "schedules.json"
LEARNED = "learned"
"""The beam search with a learned model."""
_OVER = 3.0
"""Multiple of its budget after which a search is killed."""


@dataclass(frozen=True)
class Wanted:
    """A search.

    Attributes:
        problem: Text of the problem.
        strategy: Name of the strategy.
        count: Number of schedules.
    """

    problem: str
    strategy: str
    count: int


@dataclass(frozen=True)
class Searcher:
    """Searches in a worker process.

    Attributes:
        target: Target of the schedules.
        seconds: Time budget of a search.
        weights: File of the learned model.
    """

    target: Target
    seconds: float
    weights: str

    def find(self, wanted: Wanted) -> Part:
        """Return the schedules of a search, best first, with their predicted seconds."""
        problem = Problem.parse(wanted.problem)
        bound = problem.bind()
        started = time.perf_counter()
        learned = wanted.strategy == LEARNED
        strategy = STRATEGIES["beam" if learned else wanted.strategy]
        found = strategy.search(
            bound, self.target, cost=self._model() if learned else None, seconds=self.seconds, count=wanted.count
        )
        return {
            "problem": wanted.problem,
            "schedules": [schedule_text(bound, r.schedule) for r in found.ranked],
            "predicted_s": [r.seconds for r in found.ranked],
            "search_s": time.perf_counter() - started,
            "cut_short": found.cut_short,
            "note": found.note,
        }

    def _model(self) -> CostModel:
        from autosched.model.predict.learned import load_model

        return load_model(self.weights, self.target)


def check_strategies(names: Iterable[str], weights: str) -> None:
    """Check names of strategies.

    Raises:
        InputError: If a name is unknown, or the strategy `learned` has no weights.
    """
    for name in names:
        if name == LEARNED and not weights:
            raise InputError("the strategy 'learned' needs a file of weights: give --weights")
        if name not in STRATEGIES and name != LEARNED:
            raise InputError(f"there is no strategy {name!r}; there is {', '.join((*STRATEGIES, LEARNED))}")


def schedules_for(context: Context, sizes: Iterable[str], *, until: float | None = None) -> Mapping[str, Part]:
    """Return the schedules of all strategies by ``app/size/strategy``; missing ones are searched.

    Args:
        context: The requesting step.
        sizes: Sizes of the apps.
        until: End of the searches, by `time.monotonic` (default: the end of the step).
    """
    options = context.options
    check_strategies(options.strategies, options.weights)
    target = target_of(options)
    kept = Results(options.out_path / SCHEDULES_FILE)
    step = f"{target.name} {target.multiprocessors}"
    wanted = {
        f"{app}/{size}/{strategy}": Wanted(
            problem_of(app, size).text(), strategy, options.ranked if size == PAPER and strategy != "roots" else 1
        )
        for size in sizes
        for app in app_names(options)
        for strategy in options.strategies
    }
    todo = [(name, w) for name, w in wanted.items() if not _is_complete(kept.parts(step).get(name), w)]
    found = do_parts(
        Searcher(target, options.search_seconds, options.weights), "find", todo,
        processes=options.processes, limit_s=_OVER * options.search_seconds + 30.0, deadline=until or context.deadline,
    )  # fmt: skip
    for name, part in found:
        lost = (
            {"problem": wanted[name].problem, "schedules": [], "error": part.message}
            if isinstance(part, Lost)
            else part
        )
        kept.record(step, name, lost)
    kept.flush()
    return {name: part for name in wanted if (part := kept.parts(step).get(name)) is not None}


def _is_complete(part: Part | None, wanted: Wanted) -> bool:
    return part is not None and part["problem"] == wanted.problem and (bool(part["schedules"]) or "error" in part)


def run(context: Context) -> Outcome:
    """Find the schedules of a campaign."""
    sizes = tuple(dict.fromkeys((*context.options.sizes, PAPER)))
    found = schedules_for(context, sizes)
    wanted = len(sizes) * len(app_names(context.options)) * len(context.options.strategies)
    lost = [name for name, part in found.items() if "error" in part]
    seconds: list[Any] = [part.get("search_s", 0.0) for part in found.values()]
    message = f"{len(found)} of {wanted} searches, {sum(seconds):.0f} s of processor time"
    return Outcome(len(found) == wanted, message + (f"; none for {', '.join(lost)}" if lost else ""), len(lost))
