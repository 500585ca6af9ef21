"""Check the samples of operators, by element type."""

from __future__ import annotations

import gc
import logging
import time
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch

from opinfo.execution import Backend, compile_regions
from opinfo.groups import Expected, Outcome, expected_of, interpret_samples, judge_backend, short_text
from opinfo.samples import belongs_to_tenth, operators, samples

BATCH = 96
"""Samples that are divided into groups at a time."""
LIBRARY = 48
"""Samples whose regions are compiled as one C file."""


@dataclass(frozen=True)
class Row:
    """Outcome of the samples of an operator for one element type.

    Attributes:
        operator: Full name of the OpInfo.
        dtype: Element type.
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


class _Draft:
    """A row in the making.

    Args:
        operator: Full name of the OpInfo.
        dtype: Element type.
        most: Most samples.

    Attributes:
        members: The samples, until they are computed.
        in_tenth: Whether each is one for all backends.
        tenth: Outcomes of the samples that further backends compute: one at least where any has a region.
    """

    def __init__(self, operator: str, dtype: torch.dtype, most: int | None) -> None:
        start = time.process_time()
        self.operator = operator
        self.dtype = dtype
        self.translated: set[str] = set()
        self.left: dict[str, str] = {}
        self.skipped: Counter[str] = Counter()
        self.counts: Counter[str] = Counter()
        self.failures: list[str] = []
        self.tenth: list[Outcome] = []
        self.members, self.in_tenth = expected_samples(operator, dtype, most, self.skipped)
        self.seconds = time.process_time() - start

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
            self.operator, str(self.dtype).removeprefix("torch."), counts["interpreter"], counts["cpu"],
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
    interpreted: list[_Draft] = []
    with silenced():
        for name, dtype in pairs:
            drafts.append(_Draft(name, dtype, most))
            if sum(len(draft.members) for draft in drafts) < BATCH:
                continue
            interpreted += _interpreted(drafts)
            drafts = []
            if sum(len(draft.tenth) for draft in interpreted) < LIBRARY and "cpu" in further:
                continue
            yield from _finished(interpreted, further)
            interpreted = []
        yield from _finished([*interpreted, *_interpreted(drafts)], further)


def expected_samples(
    name: str, dtype: torch.dtype, most: int | None, skipped: Counter[str]
) -> tuple[list[Expected], list[bool]]:
    """Return samples with eager PyTorch's results, and whether each belongs to the tenth for all backends.

    Args:
        name: Full name of an OpInfo.
        dtype: Element type.
        most: Most samples.
        skipped: Gets the reasons of samples that cannot be drawn, or that eager PyTorch refuses.
    """
    op = operators()[name]
    members: list[Expected] = []
    in_tenth: list[bool] = []
    try:
        drawn = list(samples(op, dtype, most))
    except Exception as error:
        skipped[f"samples: {short_text(error)}"] += 1
        return [], []
    for place, sample in enumerate(drawn):
        try:
            members.append(expected_of(sample))
        except Exception as error:
            skipped[f"eager: {short_text(error)}"] += 1
        else:
            in_tenth.append(belongs_to_tenth(op, dtype, place, len(drawn)))
    return members, in_tenth


def _interpreted(drafts: list[_Draft]) -> list[_Draft]:
    """Compute the samples of some rows, those of the tenth and the others, in groups of any rows."""
    start = time.process_time()
    outcomes: dict[int, Outcome] = {}
    for is_chosen in (True, False):
        chosen = [m for d in drafts for m, c in zip(d.members, d.in_tenth, strict=True) if c is is_chosen]
        outcomes |= {id(m): outcome for m, outcome in zip(chosen, interpret_samples(chosen), strict=True)}
    total = len(outcomes)
    seconds = time.process_time() - start
    for draft in drafts:
        judged = [outcomes[id(m)] for m in draft.members]
        draft.add(judged, draft.members, "interpreter")
        right = [(o, c) for o, c in zip(judged, draft.in_tenth, strict=True) if o.is_right]
        draft.tenth = [o for o, c in right if c] or [o for o, _ in right[:1]]
        draft.seconds += seconds * len(judged) / max(total, 1)
        draft.members = []
    return drafts


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
def silenced() -> Iterator[None]:
    """Ignore warnings and log messages of a context, and keep PyTorch's modules out of garbage collections."""
    gc.freeze()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        logging.disable(logging.WARNING)
        try:
            yield
        finally:
            logging.disable(logging.NOTSET)
            gc.unfreeze()


def failed(rows: Sequence[Row]) -> bool:
    """Whether a sample of some rows failed."""
    return any(row.failures for row in rows)
