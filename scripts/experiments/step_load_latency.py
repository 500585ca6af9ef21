"""Latency of the loads of a step of sliding windows, in measured times of an H200's labels.

    python scripts/experiments/step_load_latency.py [--data docs/results/data/h200-labels.parquet] [--cycles 0,300,400]

Predicts each labelled kernel with a sliding window, with its compiled registers, for some cycles of each round of loads
(`autosched.search.cost.gpu_analytical.STEP_LOAD_CYCLES`). Prints the median of measured over predicted times, the mean
factor between them, and the mean of Spearman's correlation within families of at least eight such kernels.
``--mainloops`` does so for kernels with mainloops, which the model leaves as they are.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.stats import spearmanr

from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.featurize.featurizer import Featurizer
from autosched.measure.store.labels import open_labels
from autosched.model.data.samples_from_measurements import samples_from
from autosched.schedule.io.serialise import from_json
from autosched.schedule.legality.validate import kernel_violations
from autosched.schedule.rewrites import apply_rewrites
from autosched.schedule.types import Kernel, Level
from autosched.search.cost.gpu_analytical import AnalyticalModel
from autosched.search.refine.mainloop.step_cost import evaluated
from autosched.target import Target, get_target

Floats = NDArray[np.float64]
LEAST_KERNELS = 8


@dataclass(frozen=True)
class TimedKernel:
    """Features and measured time of a kernel with steps."""

    family: str
    features: Floats
    seconds: float


def kernels(path: Path, target: Target, *, mainloops: bool) -> Iterator[TimedKernel]:
    """Yield the labelled kernels with sliding windows, or with mainloops."""
    model = AnalyticalModel(target)
    pipelines: dict[str, BoundPipeline] = {}
    with closing(open_labels([path])) as labels:
        samples = samples_from(labels, target.name)
    for s in samples:
        if f'"{Level.MAINLOOP.key}"' not in s.schedule or not s.kernel_seconds:
            continue
        if s.problem.hash not in pipelines:
            pipelines[s.problem.hash] = s.problem.bind()
        schedule = from_json(s.schedule, pipelines[s.problem.hash])
        bound = apply_rewrites(pipelines[s.problem.hash].rewritten, schedule)
        registers = s.registers or (None,) * len(schedule.kernels)
        for k, seconds, used in zip(schedule.kernels, s.kernel_seconds, registers, strict=True):
            if seconds and _is_chosen(k, mainloops=mainloops) and not kernel_violations(bound, k, target):
                found = evaluated(Featurizer(bound, target), k).with_registers(model, used)
                yield TimedKernel(s.family, found.batch_evaluation.features, seconds)


def _is_chosen(kernel: Kernel, *, mainloops: bool) -> bool:
    return kernel.mainloop_at is not None and kernel.is_sliding_window != mainloops


def figures(timed: list[TimedKernel], model: AnalyticalModel) -> str:
    """Return the quality of predictions in words."""
    predicted = np.array([model.combined(model.components(t.features))[0] for t in timed])
    measured = np.array([t.seconds for t in timed])
    families = np.array([t.family for t in timed])
    error = np.log(measured / predicted)
    ranks = [
        spearmanr(measured[families == f], predicted[families == f])[0]
        for f in np.unique(families)
        if (families == f).sum() >= LEAST_KERNELS
    ]
    return (
        f"measured over predicted {np.exp(np.median(error)):.2f}, off by {np.exp(np.abs(error).mean()):.2f}x, "
        f"correlation {np.nanmean(ranks):.3f} in {len(ranks)} families"
    )


def main() -> None:
    """Print a line for each number of cycles."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("docs/results/data/h200-labels.parquet"))
    parser.add_argument("--cycles", default="0,300,400,500")
    parser.add_argument("--mainloops", action="store_true")
    options = parser.parse_args()
    target = get_target("h200")
    timed = list(kernels(options.data, target, mainloops=options.mainloops))
    print(f"{len(timed)} kernels")
    for cycles in options.cycles.split(","):
        print(f"{cycles} cycles: {figures(timed, AnalyticalModel(target, int(cycles)))}")


if __name__ == "__main__":
    main()
