"""Searches that say which kernels they must know next, so that several can go on side by side and share batches."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from typing import TypeVar

from autosched.featurize.sketch.sketch import KernelSketch
from autosched.search.evaluate.evaluator import KernelEvaluator, Params

T = TypeVar("T")
Kernel = tuple[KernelSketch, Params]
EvaluationCoroutine = Generator[Iterable[Kernel], None, T]
"""Something that yields the kernels whose verdicts it needs before it can go on, and returns its result in the end."""


def prepend_requests(others: Sequence[Kernel], search: EvaluationCoroutine[T]) -> EvaluationCoroutine[T]:
    """Do what a search does, and ask for some other kernels with the first that it asks for."""
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
    """Return the results of some searches, all of which go one step before any goes the next.

    What they ask for in a step is evaluated in one batch, as small batches cost almost as much as large ones. Kernels
    that are pruned without being costed cost NaN (`KernelEvaluator.verdicts`).

    Args:
        evaluator: Costs the kernels.
        searches: Not begun yet.
    """
    results: dict[int, T] = {}
    running = dict(enumerate(searches))
    while running:
        wanted: list[Kernel] = []
        for number, search in list(running.items()):
            try:
                wanted += next(search)
            except StopIteration as end:
                results[number] = end.value
                del running[number]
        evaluator.evaluate(wanted, prune=True)
    return [results[number] for number in range(len(searches))]
