"""Searches as coroutines that yield evaluation requests, so that concurrent searches share evaluation batches."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from typing import TypeVar

from autosched.featurize.sketch.sketch import KernelSketch
from autosched.search.evaluate.evaluator import KernelEvaluator, Params

T = TypeVar("T")
Kernel = tuple[KernelSketch, Params]
EvaluationCoroutine = Generator[Iterable[Kernel], None, T]
"""Coroutine that yields the kernels it needs verdicts of, resumes once these are evaluated, and returns a result."""


def prepend_requests(others: Sequence[Kernel], search: EvaluationCoroutine[T]) -> EvaluationCoroutine[T]:
    """Run ``search``, adding ``others`` to its first evaluation request so that both share a batch."""
    try:
        first = next(search)
    except StopIteration as end:
        if others:
            yield others
        result: T = end.value
        return result
    yield [*others, *first]
    return (yield from search)


def run_search(evaluator: KernelEvaluator, search: EvaluationCoroutine[T]) -> T:
    """Return the result of one search."""
    return run_batched(evaluator, [search])[0]


def run_batched(evaluator: KernelEvaluator, searches: Sequence[EvaluationCoroutine[T]]) -> list[T]:
    """Return the results of several searches, run in lockstep.

    The requests of all searches in one step are one batch, since a small batch takes almost as long as a large one.
    Kernels that are pruned before they are costed cost NaN (`KernelEvaluator.verdicts`).

    Args:
        evaluator: Costs the kernels.
        searches: Searches that have not been started.
    """
    results: dict[int, T] = {}
    running = dict(enumerate(searches))
    while running:
        requests: list[Kernel] = []
        for number, search in list(running.items()):
            try:
                requests += next(search)
            except StopIteration as end:
                results[number] = end.value
                del running[number]
        evaluator.evaluate(requests, prune=True)
    return [results[number] for number in range(len(searches))]
