"""Check the samples of operators, by element type."""

from __future__ import annotations

import logging
import time
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import torch

from opinfo.execution import Backend, compile_regions
from opinfo.groups import Expected, Outcome, expected_of, interpret_samples, judge_backend, short_text
from opinfo.samples import belongs_to_tenth, operators, samples

LIBRARY = 64
"""Regions that are compiled as one C file."""


@dataclass(frozen=True)
class Row:
    """Outcome of the samples of an operator for one element type.

    Attributes:
        operator: Full name of the OpInfo.
        dtype: Element type, or several, separated by commas.
        interpreted: Samples whose regions were right in the interpreter.
        compiled: Samples whose regions were right in C.
        rounded: Right samples that differ from eager PyTorch by more than the tolerance, but from float64 no more.
        decomposed: Right samples that differ from eager PyTorch as PyTorch's decompositions do, which draw random
            numbers and round in another order.
        translated: ATen operators of the regions.
        left: ATen operators that stayed PyTorch's, with the reason.
        skipped: Reasons of samples that were not checked, with their number.
        failures: Sample, backend and message of each failure.
        seconds: Processor time, without that of compilers.
        emulated: Samples whose regions were right in the emulator of a GPU.
    """

    operator: str
    dtype: str
    interpreted: int
    compiled: int
    rounded: int
    decomposed: int
    translated: tuple[str, ...]
    left: dict[str, str]
    skipped: dict[str, int]
    failures: tuple[str, ...]
    seconds: float
    emulated: int = 0


@dataclass
class _Draft:
    """A row in the making.

    Attributes:
        tenth: Outcomes of the samples that further backends compute.
    """

    operator: str
    dtype: str
    translated: set[str] = field(default_factory=set)
    left: dict[str, str] = field(default_factory=dict)
    skipped: Counter[str] = field(default_factory=Counter)
    counts: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)
    tenth: list[Outcome] = field(default_factory=list)
    seconds: float = 0.0

    def add(self, outcomes: Iterable[Outcome], members: Iterable[Expected], backend: Backend) -> None:
        """Count the outcomes of samples."""
        for outcome, member in zip(outcomes, members, strict=True):
            self.translated |= outcome.coverage.translated
            self.left |= outcome.coverage.left
            if outcome.verdict == "failed":
                self.failures.append(f"sample {member.sample.number}, {backend}: {outcome.text}")
            elif outcome.verdict == "skipped":
                self.skipped[outcome.text] += 1
            else:
                self.counts[backend] += 1
                self.counts[outcome.verdict] += 1

    @property
    def row(self) -> Row:
        """The row."""
        counts = self.counts
        return Row(
            self.operator, self.dtype, counts["interpreter"], counts["cpu"],
            counts["rounded"], counts["decomposed"], tuple(sorted(self.translated)), self.left, dict(self.skipped),
            tuple(self.failures), round(self.seconds, 2), counts["emulator"],
        )  # fmt: skip


def check_operator(
    name: str, dtype: torch.dtype, most: int | None = None, *, further: Sequence[Backend] = ("cpu",)
) -> Row:
    """Compare samples of one operator and element type, see `check_operators`."""
    (row,) = check_operators([(name, dtype)], most, further=further)
    return row


def check_operators(
    pairs: Iterable[tuple[str, torch.dtype]], most: int | None = None, *, further: Sequence[Backend] = ("cpu",)
) -> Iterator[Row]:
    """Compare samples, forward and backward, with eager PyTorch.

    Args:
        pairs: Full names of OpInfos with element types.
        most: Most samples of each.
        further: Backends beside the interpreter, for a tenth of the samples.

    Yields:
        A row for each pair, once the C file that has its regions is compiled and was run.
    """
    drafts: list[_Draft] = []
    with _silenced():
        for name, dtype in pairs:
            drafts.append(_interpreted(name, [dtype], most))
            if _regions(drafts) < LIBRARY and "cpu" in further:
                continue
            yield from _finished(drafts, further)
            drafts = []
        yield from _finished(drafts, further)


def check_types(name: str, dtypes: Sequence[torch.dtype], most: int = 1) -> Row:
    """Compare samples of one operator in several element types with eager PyTorch, by the interpreter alone.

    Samples of all types are traced together, which is faster than a row for each.

    Args:
        name: Full name of an OpInfo.
        dtypes: Element types.
        most: Most samples of each type.
    """
    with _silenced():
        return _interpreted(name, dtypes, most).row


def _interpreted(name: str, dtypes: Sequence[torch.dtype], most: int | None) -> _Draft:
    start = time.process_time()
    op = operators()[name]
    draft = _Draft(name, ",".join(str(dtype).removeprefix("torch.") for dtype in dtypes))
    chosen: dict[bool, list[Expected]] = {True: [], False: []}
    for dtype in dtypes:
        try:
            drawn = list(samples(op, dtype, most))
        except Exception as error:
            draft.skipped[f"samples: {short_text(error)}"] += 1
            drawn = []
        for place, sample in enumerate(drawn):
            try:
                member = expected_of(sample)
            except Exception as error:
                draft.skipped[f"eager: {short_text(error)}"] += 1
            else:
                chosen[belongs_to_tenth(op, dtype, place, len(drawn))].append(member)
    for in_tenth, members in chosen.items():
        outcomes = interpret_samples(members)
        draft.add(outcomes, members, "interpreter")
        if in_tenth:
            draft.tenth = [o for o in outcomes if o.is_right]
    draft.seconds = time.process_time() - start
    return draft


def _regions(drafts: Sequence[_Draft]) -> int:
    functions = {id(o.group): o.group.function for draft in drafts for o in draft.tenth if o.group is not None}
    return sum(len(function.regions) for function in functions.values())


def _finished(drafts: Sequence[_Draft], further: Sequence[Backend]) -> Iterator[Row]:
    if "cpu" in further:
        functions = {id(o.group): o.group.function for draft in drafts for o in draft.tenth if o.group is not None}
        try:
            compile_regions(functions.values())
        except Exception:  # each region is compiled on its own, so that the fault is that of its sample
            logging.getLogger(__name__).debug("a C file of several regions is compiled in parts")
    for draft in drafts:
        start = time.process_time()
        for backend in further:
            members = [o.group.members[o.place] for o in draft.tenth if o.group is not None]
            draft.add(judge_backend(draft.tenth, backend), members, backend)
        draft.seconds += time.process_time() - start
        draft.tenth = []
        yield draft.row


@contextmanager
def _silenced() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        logging.disable(logging.WARNING)
        try:
            yield
        finally:
            logging.disable(logging.NOTSET)


def failed(rows: Sequence[Row]) -> bool:
    """Whether a sample of some rows failed."""
    return any(row.failures for row in rows)
