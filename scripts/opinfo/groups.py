"""Groups of samples that are traced as one function."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import torch
from torch.utils import _pytree as pytree

from opinfo.comparison import difference, is_as_near_as_eager
from opinfo.execution import Backend, Coverage, Results, TracedFunction, results_and_gradients
from opinfo.samples import Sample

GROUP = 12
"""Samples that are traced together; more save little, and are judged by halves more often."""

Verdict = Literal["right", "rounded", "decomposed", "skipped", "failed"]


@dataclass(frozen=True)
class Expected:
    """A sample with the results of eager PyTorch.

    Attributes:
        sample: The sample.
        results: Results and gradients.
    """

    sample: Sample
    results: Results


class SampleGroup:
    """Samples that are traced as one function.

    Args:
        members: The samples.
    """

    def __init__(self, members: Sequence[Expected]) -> None:
        self.members = tuple(members)
        self.function = TracedFunction([m.sample.function for m in members], [len(m.sample.tensors) for m in members])

    def results(self, backend: Backend) -> list[Results]:
        """Return results and gradients of each sample by a backend."""
        self.function.backend = backend
        return results_and_gradients(self.function, [m.sample.tensors for m in self.members])


@dataclass
class Outcome:
    """Outcome of a sample.

    Attributes:
        verdict: ``rounded``: outside of the tolerance, but near to float64. ``decomposed``: as the decomposed graphs.
        text: Reason of a skip, or what failed.
        group: The group in which the sample was computed; None if it never was.
        place: Its place in the group.
    """

    verdict: Verdict
    text: str = ""
    group: SampleGroup | None = None
    place: int = 0

    @property
    def is_right(self) -> bool:
        """Whether results and gradients are right."""
        return self.verdict in ("right", "rounded", "decomposed")

    @property
    def coverage(self) -> Coverage:
        """Where the operators of the sample were computed."""
        return Coverage() if self.group is None else self.group.function.coverage[self.place]


def expected_of(sample: Sample) -> Expected:
    """Return a sample with eager PyTorch's results."""
    (results,) = results_and_gradients(lambda *tensors: [sample.function(*tensors)], [sample.tensors])
    return Expected(sample, results)


def interpret_samples(members: Sequence[Expected], size: int = GROUP) -> list[Outcome]:
    """Compute samples by the interpreter, in groups, and alone where a group cannot tell.

    Args:
        members: The samples.
        size: Largest number of samples in a group.
    """
    outcomes: list[Outcome] = []
    together = True
    for first in range(0, len(members), size):
        part = members[first : first + size]
        if together:
            judged = judge_group(SampleGroup(part), "interpreter")
            together = 2 * sum(len(o.group.members) > 1 for o in judged if o.group) >= len(judged)
        else:
            judged = [judge_group(SampleGroup([m]), "interpreter")[0] for m in part]
            together = 2 * sum(o.is_right for o in judged) >= len(judged)
        outcomes += judged
    return outcomes


def judge_group(group: SampleGroup, backend: Backend) -> list[Outcome]:
    """Compare the samples of a group with eager PyTorch.

    A group that raises, or has a region without translation, is judged by halves; a sample that differs, alone.
    """
    try:
        found = group.results(backend)
    except Exception as error:
        return [_judge_error(group, error)] if len(group.members) == 1 else _judge_halves(group, backend)
    if len(group.members) > 1 and any(coverage.refused for coverage in group.function.coverage):
        return _judge_halves(group, backend)
    outcomes = [_judge(group, k, results, backend) for k, results in enumerate(found)]
    views = [k for k, o in enumerate(outcomes) if o is None]
    if views:
        used = SampleGroup([_used(group.members[k]) for k in views])
        for k, outcome in zip(views, judge_group(used, backend), strict=True):
            outcomes[k] = outcome
    return [o for o in outcomes if o is not None]


def _judge_halves(group: SampleGroup, backend: Backend) -> list[Outcome]:
    middle = len(group.members) // 2
    halves = group.members[:middle], group.members[middle:]
    return [outcome for half in halves for outcome in judge_group(SampleGroup(half), backend)]


def _judge(group: SampleGroup, place: int, found: Results, backend: Backend) -> Outcome | None:
    """Return the outcome of a sample; None if it has views alone, which no region computes."""
    coverage = group.function.coverage[place]
    if coverage.refused:
        return Outcome("skipped", f"refused: {'; '.join(sorted(coverage.refused))}", group, place)
    if not coverage.translated:
        if not coverage.left and not group.members[place].sample.is_used:
            return None
        reasons = "; ".join(sorted(set(coverage.left.values()))) or "no operator that computes"
        return Outcome("skipped", f"no region: {reasons}", group, place)
    member = group.members[place]
    text = difference(found, member.results, member.sample.limits)
    if not text:
        return Outcome("right", "", group, place)
    if len(group.members) > 1:
        return judge_group(SampleGroup([member]), backend)[0]
    return Outcome(_verdict_of_difference(group, found), text, group, place)


def _verdict_of_difference(group: SampleGroup, found: Results) -> Verdict:
    """Return the verdict of a sample alone that differs from eager PyTorch."""
    (member,) = group.members
    try:
        (decomposed,) = group.results("pytorch")
    except Exception:
        return "failed"
    if not difference(found, decomposed, member.sample.limits):
        return "decomposed"
    return "rounded" if is_rounding(member, found) else "failed"


def is_rounding(member: Expected, found: Results) -> bool:
    """Whether results are as near to those of float64 as eager PyTorch's.

    Sums of a few numbers that cancel differ by their order from any tolerance. Integers become numbers of float64 where
    PyTorch's default type does.
    """
    tensors = member.sample.tensors
    floats = [t for t in tensors if t.is_floating_point()]
    if floats and all(t.dtype == torch.float64 for t in floats):
        return False
    wide = tuple(t.detach().double().requires_grad_(t.requires_grad) if t.is_floating_point() else t for t in tensors)
    default = torch.get_default_dtype()
    if not floats:
        torch.set_default_dtype(torch.float64)
    try:
        exact = expected_of(replace(member.sample, tensors=wide)).results
    except Exception:
        return False
    finally:
        torch.set_default_dtype(default)
    return is_as_near_as_eager(found, member.results, exact)


def judge_backend(outcomes: Sequence[Outcome], backend: Backend) -> list[Outcome]:
    """Compute samples that are right in the interpreter by another backend, in the same groups."""
    results: dict[int, list[Results] | None] = {}
    judged: list[Outcome] = []
    for outcome in outcomes:
        group = outcome.group
        assert group is not None
        if id(group) not in results:
            try:
                results[id(group)] = group.results(backend)
            except Exception:
                results[id(group)] = None
        found = results[id(group)]
        member = group.members[outcome.place]
        if found is not None and not difference(found[outcome.place], member.results, member.sample.limits):
            judged.append(Outcome("right", "", group, outcome.place))
        else:
            judged.append(judge_group(SampleGroup([member]), backend)[0])
    return judged


def _judge_error(group: SampleGroup, error: Exception) -> Outcome:
    """Return the outcome of a sample alone that raised: a failure if its regions are at fault."""
    if group.function.coverage[0].translated:
        try:
            group.results("pytorch")
        except Exception:
            pass
        else:
            return Outcome("failed", short_text(error), group)
    return Outcome("skipped", f"graph: {short_text(error)}", group)


def _used(member: Expected) -> Expected:
    """Return a sample whose results are read by an operator that computes."""
    return expected_of(replace(member.sample, function=with_results_used(member.sample.function), is_used=True))


def with_results_used(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function whose results are those of another, each read by an operator that computes."""

    def used(value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        return value | False if value.dtype == torch.bool else value * 1

    return lambda *tensors: pytree.tree_map(used, function(*tensors))


def short_text(error: BaseException, most: int = 160) -> str:
    """Return an error's type and message on one line."""
    text = " ".join(f"{type(error).__name__}: {error}".split())
    return text if len(text) <= most else f"{text[:most]}..."
