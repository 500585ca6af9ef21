"""Effect of not unrolling guarded loops inside unrolled points of boundary code; prints Markdown.

    python scripts/compare_borders.py [--labels docs/results/data/h200-labels.parquet] [--kind app] [--problems 20]

Schedules of labels are compiled with and without the `ROLLED` marks that keep NVRTC from unrolling such loops. Columns:
compile seconds, registers per thread, and the schedule's time on the simulated device; kernels that spill, and
schedules without such a loop, are counted below the table. Needs no GPU.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from statistics import geometric_mean
from unittest.mock import patch

from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.codegen.cuda import print_cuda
from autosched.errors import AutoschedError
from autosched.lower.program import lower
from autosched.measure.simulated import simulate
from autosched.runtime.compile.nvrtc import Cubin, compile_cubin
from autosched.schedule.io.serialise import from_json
from autosched.schedule.types import Schedule
from autosched.search.datasets.replay import ReplayedSchedules
from autosched.target import Target, get_target


def without_marks(source: str) -> str:
    """Return CUDA text without `ROLLED` marks, where NVRTC decides which loops to unroll."""
    return "".join(line for line in source.splitlines(keepends=True) if line.strip() != "ROLLED")


@dataclass(frozen=True)
class Compiled:
    """Compilation of a schedule's kernels with such loops in one form, and the schedule's simulated time."""

    nvrtc_s: float
    registers: tuple[int, ...]
    spilling: int
    simulated_s: float

    @classmethod
    def of(
        cls,
        bound: BoundPipeline,
        schedule: Schedule,
        target: Target,
        sources: Sequence[str],
        form: Callable[[str], str],
    ) -> Compiled:
        """Compile sources in a form, and simulate their schedule with all kernels in that form."""
        started = time.process_time()
        cubins = [compile_cubin(form(source), target.arch) for source in sources]
        seconds = time.process_time() - started
        resources = [r for cubin in cubins for r in cubin.kernels.values()]

        def compiler(sources: Sequence[str], arch: str, **_: object) -> list[Cubin]:
            return [compile_cubin(form(source), arch) for source in sources]

        with patch.object(import_module("autosched.measure.simulated.simulate"), "compile_many", compiler):
            simulation = simulate(bound, schedule, target)
        return cls(
            seconds,
            tuple(r.registers for r in resources),
            sum(r.spill_bytes > 0 for r in resources),
            simulation.seconds,
        )


def compare(options: argparse.Namespace, target: Target) -> None:
    """Print a line for each problem and the means."""
    labels = ReplayedSchedules.read([options.labels])
    problems = [p for p in labels.problems if (p.kind == "app") == (options.kind == "app")]
    rng = random.Random(options.seed)
    rng.shuffle(problems)
    pairs: list[tuple[Compiled, Compiled]] = []
    without = 0
    print("| | schedules | kernels | NVRTC, s | | registers | | simulated speedup |")
    print("|---|---|---|---|---|---|---|---|")
    for problem, drawn in labels.draw(problems[: options.problems]):
        bound, compiled = problem.bind(), []
        for _, text in rng.sample(drawn.schedules, min(options.each, len(drawn.schedules))):
            schedule = from_json(text, bound)
            printed = [print_cuda(kernel).source for kernel in lower(bound, schedule).kernels]
            sources = [source for source in printed if without_marks(source) != source]
            if sources:
                before, after = (Compiled.of(bound, schedule, target, sources, form) for form in (without_marks, str))
                compiled.append((before, after))
            else:
                without += 1
        pairs += compiled
        if compiled:
            print(f"| {problem.title[:40]} | {summary(compiled)} |", flush=True)
    if pairs:
        print(f"| all | {summary(pairs)} |\n")
        spilling = [sum(pair[k].spilling for pair in pairs) for k in (0, 1)]
        slower = sum(after.simulated_s > 1.01 * before.simulated_s for before, after in pairs)
        print(
            f"{spilling[0]} kernels spill without the marks, {spilling[1]} with them; "
            f"{slower} schedules are over 1 % slower; {without} schedules have no such loop"
        )


def summary(pairs: Sequence[tuple[Compiled, Compiled]]) -> str:
    """Return the columns of the table for schedules compiled in both forms."""
    kernels = sum(len(before.registers) for before, _ in pairs)
    seconds = [sum(pair[k].nvrtc_s for pair in pairs) for k in (0, 1)]
    registers = [geometric_mean([r for pair in pairs for r in pair[k].registers]) for k in (0, 1)]
    times = geometric_mean([before.simulated_s / after.simulated_s for before, after in pairs])
    return (
        f"{len(pairs)} | {kernels} | {seconds[0]:.1f} | {seconds[1]:.1f} "
        f"| {registers[0]:.1f} | {registers[1]:.1f} | {times:.3f}"
    )


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--labels", default="docs/results/data/h200-simulated-labels.parquet")
    parser.add_argument("--kind", choices=("app", "random"), default="app")
    parser.add_argument("--problems", type=int, default=20)
    parser.add_argument("--each", type=int, default=3, help="schedules of each problem")
    parser.add_argument("--target", default="h200")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="autosched-bench-") as directory:
        os.environ["AUTOSCHED_CACHE_DIR"] = directory
        try:
            compare(options, get_target(options.target))
        except AutoschedError as error:
            sys.exit(f"error: {error}")
    return 0
