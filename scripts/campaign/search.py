"""Step: schedules of every app at every size by every strategy; needs no GPU and can run ahead of time."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autosched.errors import InputError
from autosched.measure.compile.content_keys import schedule_text
from autosched.measure.problem import Problem
from autosched.search.strategies.protocol import STRATEGIES
from autosched.search.tune.cost_models import ANALYTICAL
from autosched.search.tune.one_shot import rank_schedules
from autosched.search.tune.request import Request
from autosched.target import Target
from campaign.context import Context, Outcome
from campaign.problems import PAPER, app_names, problem_of, target_of
from campaign.results import Part, Results
from campaign.worker_pool import Lost, do_parts

SCHEDULES_FILE = "schedules.json"
LEARNED = "learned"
LEARNED_MODES = {LEARNED: 1, "learned-top5": 5}
MODES = {"one-shot": 1, "top5": 5, **LEARNED_MODES}
"""Modes of `autosched.schedule` with the number of schedules that are measured; some with the learned model."""
_OVER = 3.0
"""Multiple of its budget after which a search is killed."""


@dataclass(frozen=True)
class Wanted:
    """A search.

    Attributes:
        problem: Text of the problem.
        strategy: Name of the strategy or mode.
        count: Number of schedules of a strategy; modes have their own.
        weights: Hash of the weights that it uses; empty for a search without any.
    """

    problem: str
    strategy: str
    count: int
    weights: str = ""


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
        if wanted.strategy in MODES:
            cost = self.weights if wanted.strategy in LEARNED_MODES else ANALYTICAL
            request = Request(top_k=MODES[wanted.strategy], cost=cost, seconds=self.seconds, reuse=False)
            found = rank_schedules(bound, self.target, request)
        else:
            found = STRATEGIES[wanted.strategy].search(bound, self.target, seconds=self.seconds, count=wanted.count)
        return {
            "problem": wanted.problem,
            "weights": wanted.weights,
            "schedules": [schedule_text(bound, r.schedule) for r in found.ranked],
            "predicted_s": [r.seconds for r in found.ranked],
            "search_s": time.perf_counter() - started,
            "cut_short": found.cut_short,
            "note": found.note,
        }


def check_strategies(names: Iterable[str], weights: str) -> None:
    """Check names of strategies.

    Raises:
        InputError: If a name is unknown, or a mode with the learned model has no weights.
    """
    for name in names:
        if name in LEARNED_MODES and not weights:
            raise InputError(f"the strategy {name!r} needs a file of weights: give --weights")
        if name not in STRATEGIES and name not in MODES:
            raise InputError(f"there is no strategy {name!r}; there is {', '.join((*STRATEGIES, *MODES))}")


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
    weights = hash_of(Path(options.weights).read_bytes()) if options.weights else ""
    wanted = {
        f"{app}/{size}/{strategy}": Wanted(
            problem_of(app, size).text(),
            strategy,
            options.ranked if size == PAPER and strategy == "beam" else 1,
            weights if strategy in LEARNED_MODES else "",
        )
        for size in sizes
        for app in app_names(options)
        for strategy in options.strategies
        if size == PAPER or MODES.get(strategy, 1) == 1
    }
    todo = [(name, w) for name, w in wanted.items() if not _is_complete(kept.parts(step).get(name), w)]
    found = do_parts(
        Searcher(target, options.search_seconds, options.weights), "find", todo,
        processes=options.processes, limit_s=_OVER * options.search_seconds + 30.0, deadline=until or context.deadline,
    )  # fmt: skip
    for name, part in found:
        lost = (
            {"problem": wanted[name].problem, "weights": wanted[name].weights, "schedules": [], "error": part.message}
            if isinstance(part, Lost)
            else part
        )
        kept.record(step, name, lost)
    kept.flush()
    return {name: part for name in wanted if (part := kept.parts(step).get(name)) is not None}


def _is_complete(part: Part | None, wanted: Wanted) -> bool:
    if part is None or part["problem"] != wanted.problem or part.get("weights", "") != wanted.weights:
        return False
    return bool(part["schedules"]) or "error" in part


def hash_of(content: bytes) -> str:
    """Return a short hash."""
    return hashlib.sha256(content).hexdigest()[:16]


def run(context: Context) -> Outcome:
    """Find the schedules of a campaign."""
    sizes = tuple(dict.fromkeys((*context.options.sizes, PAPER)))
    found = schedules_for(context, sizes)
    strategies = context.options.strategies
    ways = sum(len(sizes) if MODES.get(s, 1) == 1 else 1 for s in strategies)  # top-5 modes at the papers' size only
    wanted = ways * len(app_names(context.options))
    lost = [name for name, part in found.items() if "error" in part]
    seconds: list[Any] = [part.get("search_s", 0.0) for part in found.values()]
    message = f"{len(found)} of {wanted} searches, {sum(seconds):.0f} s of processor time"
    return Outcome(len(found) == wanted, message + (f"; none for {', '.join(lost)}" if lost else ""), len(lost))
