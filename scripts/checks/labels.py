"""Find the labels of a file whose emitted text is still the same as when they were taken.

    python scripts/check_labels.py LABELS.parquet COMMIT [--output HOLDS.parquet] [--sample 300 | --pipelines 500]

COMMIT is the version of the code whose text was measured, unpacked to a temporary directory; a label holds if the
installed version emits the same text. Each version emits the programs in a process of its own. Two texts are the same
if they are equal, or if a preprocessor makes the same tokens of them: comments, unused macros and branches for other
processors do not count. Blocks, threads, launches and shared memory of GPU kernels count. A label does not hold where
the pipeline has another hash now, or the schedule is refused.

The table counts the rows by verdict. ``--output`` writes the rows that hold, in their order. With ``--sample`` a random
choice of rows is checked, with ``--pipelines`` all rows of some pipelines; only these are written.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks.version_process import ROOT, VersionProcess, unpacked

from checks.emission import Answer
from checks.preprocessor import Preprocessor

SCRIPTS = Path(__file__).parents[1]
EQUAL, PREPROCESSED = "equal text", "equal after preprocessing"
HOLDING = frozenset({EQUAL, PREPROCESSED})
"""Verdicts of rows that hold."""
OTHER_PIPELINE, NOT_EMITTED, REFUSED = "other pipeline", "not emitted by the commit", "refused now"
OTHER_COUNT, OTHER_LAUNCH, OTHER_TEXT = "other number of kernels", "other launch", "other text"
COLUMNS = ("problem", "pipeline_hash", "schedule", "source", "target")

Row = dict[str, str]


class EmittingVersion(VersionProcess):
    """A process that emits programs with one version.

    Args:
        tree: Directory of the version.
        cache: Directory of the version's cache.
    """

    def __init__(self, tree: Path, cache: Path) -> None:
        paths = os.pathsep.join([str(tree), str(SCRIPTS)] if tree != ROOT else [str(SCRIPTS)])
        environment = {**os.environ, "AUTOSCHED_CACHE_DIR": str(cache), "PYTHONPATH": paths}
        super().__init__([sys.executable, "-P", "-m", "checks.emission", str(tree)], environment)


def main() -> int:
    """Check a file and print the counts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("labels", help="a Parquet file of labels")
    parser.add_argument("commit", help="the version that was measured")
    parser.add_argument("--output", metavar="FILE", help="Parquet file for the rows that hold")
    choice = parser.add_mutually_exclusive_group()
    choice.add_argument("--sample", type=int, metavar="N", help="check N rows, chosen at random")
    choice.add_argument("--pipelines", type=int, metavar="N", help="check the rows of N pipelines, chosen at random")
    parser.add_argument("--seed", type=int, default=0, help="seed of the choice")
    options = parser.parse_args()
    import pyarrow.parquet as pq

    table = pq.read_table(options.labels)
    numbers = chosen_rows(table.column("problem").to_pylist(), options)
    rows: list[Row] = table.select(list(COLUMNS)).take(numbers).to_pylist()
    verdicts = check(rows, options.commit)
    print_counts(Counter(verdicts))
    if options.output:
        holding = [number for number, verdict in zip(numbers, verdicts, strict=True) if verdict in HOLDING]
        pq.write_table(table.take(holding), options.output, compression="zstd", compression_level=9)
        print(f"{len(holding)} rows in {options.output}")
    return 0


def chosen_rows(problems: Sequence[str], options: argparse.Namespace) -> list[int]:
    """Return the numbers of the rows to check, in ascending order, from the problem of each row."""
    rng = random.Random(options.seed)
    if options.pipelines is not None:
        distinct = list(dict.fromkeys(problems))
        chosen = set(rng.sample(distinct, min(options.pipelines, len(distinct))))
        return [number for number, problem in enumerate(problems) if problem in chosen]
    every = range(len(problems))
    return list(every) if options.sample is None else sorted(rng.sample(every, min(options.sample, len(every))))


def check(rows: Sequence[Row], commit: str) -> list[str]:
    """Return the verdict of each row."""
    verdicts = [""] * len(rows)
    with tempfile.TemporaryDirectory() as directory:
        trees = unpacked(commit, Path(directory) / "before"), ROOT
        before, after = (EmittingVersion(tree, Path(directory) / f"cache{k}") for k, tree in enumerate(trees))
        try:
            for done, (problem, numbers) in enumerate(by_problem(rows)):
                group = [rows[number] for number in numbers]
                question = {
                    "problem": problem,
                    "target": group[0]["target"],
                    "source": group[0]["source"],
                    "schedules": [row["schedule"] for row in group],
                }
                before.send(question)
                after.send(question)
                answers = before.answer(), after.answer()
                comparison = ProgramComparison(*answers, Preprocessor(group[0]["source"]))
                for k, number in enumerate(numbers):
                    verdicts[number] = comparison.verdict(k, group[k]["pipeline_hash"])
                    if verdicts[number] in (REFUSED, NOT_EMITTED):
                        side = answers[verdicts[number] == REFUSED]
                        print(f"row {number}: {verdicts[number]}: {side['programs'][k]!s:.300}", file=sys.stderr)
                if done % 100 == 99:
                    print(f"{done + 1} pipelines: {dict(Counter(filter(None, verdicts)))}", file=sys.stderr, flush=True)
        finally:
            before.close()
            after.close()
    return verdicts


def by_problem(rows: Sequence[Row]) -> Iterator[tuple[str, list[int]]]:
    """Yield the text of each problem with the numbers of its rows, in the order of first occurrence."""
    groups: dict[str, list[int]] = {}
    for number, row in enumerate(rows):
        groups.setdefault(row["problem"], []).append(number)
    yield from groups.items()


class ProgramComparison:
    """Comparison of the programs that two versions emit for schedules of one problem.

    Args:
        before: Answer of the version that was measured.
        after: Answer of the installed version.
        preprocessor: Decides where two texts differ.
    """

    def __init__(self, before: Answer, after: Answer, preprocessor: Preprocessor) -> None:
        self._before, self._after = before, after
        unequal = sorted({pair for k in range(len(before["programs"])) for pair in self._unequal(k)})
        tokens = [
            preprocessor.tokens([answer["kernels"][pair[side]]["text"] for pair in unequal])
            for side, answer in enumerate((before, after))
        ]
        self._same_tokens = {pair for pair, *both in zip(unequal, *tokens, strict=True) if both[0] == both[1]}

    def verdict(self, k: int, pipeline_hash: str) -> str:
        """Return the verdict of a schedule, given by its number, with the pipeline's hash in its row."""
        before, after = self._before["programs"][k], self._after["programs"][k]
        if self._after["pipeline_hash"] != pipeline_hash:
            return OTHER_PIPELINE
        if isinstance(before, str) or self._before["pipeline_hash"] != pipeline_hash:
            return NOT_EMITTED
        if isinstance(after, str):
            return REFUSED
        if len(before) != len(after):
            return OTHER_COUNT
        if any(
            self._kernel(0, b)["launch"] != self._kernel(1, a)["launch"] for b, a in zip(before, after, strict=True)
        ):
            return OTHER_LAUNCH
        unequal = self._unequal(k)
        return EQUAL if not unequal else PREPROCESSED if self._same_tokens.issuperset(unequal) else OTHER_TEXT

    def _unequal(self, k: int) -> list[tuple[int, int]]:
        """Return the pairs of kernels of a schedule that differ in their text alone, none if a launch differs."""
        before, after = self._before["programs"][k], self._after["programs"][k]
        if isinstance(before, str) or isinstance(after, str) or len(before) != len(after):
            return []
        if self._has_other_launch(before, after):
            return []
        pairs = zip(before, after, strict=True)
        return [(b, a) for b, a in pairs if self._kernel(0, b)["text"] != self._kernel(1, a)["text"]]

    def _has_other_launch(self, before: Sequence[int], after: Sequence[int]) -> bool:
        pairs = zip(before, after, strict=True)
        return any(self._kernel(0, b)["launch"] != self._kernel(1, a)["launch"] for b, a in pairs)

    def _kernel(self, side: int, number: int) -> dict[str, Any]:
        kernel: dict[str, Any] = (self._before, self._after)[side]["kernels"][number]
        return kernel


def print_counts(counts: Counter[str]) -> None:
    """Print the rows by verdict, and the share that holds."""
    total, holding = counts.total(), sum(counts[verdict] for verdict in HOLDING)
    for verdict, count in counts.most_common():
        print(f"{verdict:28} {count:6} {count / total:7.1%}")
    print(f"{'holds':28} {holding:6} {holding / total:7.1%}")
