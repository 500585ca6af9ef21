"""Measured speedup over `roots` by predicted speedup; prints Markdown.

    python scripts/bench_baseline.py docs/results/data/cpu-genuineintel-6-amx-labels.parquet
    python scripts/bench_baseline.py LABELS.parquet --weights out/cpu/fold*/model.safetensors  # of train.py folds=4

For each pipeline of the labels, the schedule that a model ranks best is compared with the baseline, `roots`, unless
they are the same. The last column is the mean gain of a threshold rule: take the best-ranked schedule where its
predicted speedup is at least the row's lower bound, and `roots` elsewhere, like `SearchSettings.baseline_tolerance` in
a search. With several files of weights, each pipeline uses the first that held it out, or the first of all if none did;
the number of the latter is printed. Labels measured after training are in none of the weights.
"""

from __future__ import annotations

import argparse
import itertools
import sys
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from autosched.errors import AutoschedError, InputError
from autosched.measure.store.cpu_labels import target_of_labels
from autosched.measure.store.labels import open_labels
from autosched.model.data.dataset import Dataset, build_dataset
from autosched.model.data.feature_store import FeatureStore
from autosched.model.data.samples import one_source
from autosched.model.data.samples_from_measurements import samples_from
from autosched.model.predict.checkpoint import Checkpoint, load_checkpoint
from autosched.model.predict.holdout_predictions import predict, predict_analytically
from autosched.target import get_target

Floats = NDArray[np.float64]
FACTORS = (1.0, 1.02, 1.04, 1.06, 1.08, 1.1, 1.15, 1.25, 1.5, np.inf)
"""Bounds of the rows: predicted speedup of the best-ranked schedule over the baseline."""


def load(path: Path, cache: str, target_name: str) -> tuple[Dataset, set[tuple[str, float]]]:
    """Return the data of a file of labels, and each baseline's pipeline with its seconds."""
    target = get_target(target_name)
    with closing(open_labels([path])) as labels:
        samples = samples_from(labels, target.name)
        rows = list(labels.rows(source=one_source(samples), target=target.name))
    target = target_of_labels(target, one_source(samples))
    baselines = {(row.problem.text(), row.seconds) for row in rows if row.origin == "roots" and row.seconds is not None}
    return build_dataset(samples, target, FeatureStore(cache, target)), baselines


def predicted_seconds(dataset: Dataset, weights: Sequence[Checkpoint]) -> Floats:
    """Return the predicted seconds of all schedules, ``float64[N]``."""
    if not weights:
        return predict_analytically(dataset, dataset.own_pipelines).predicted
    seconds = np.zeros(dataset.count)
    holders = [[k for k, w in enumerate(weights) if f in w.provenance.held_out] for f in dataset.families]
    if unknown := sum(not numbers for numbers in holders):
        print(f"{unknown} of {len(holders)} pipelines were held out from none of the weights", file=sys.stderr)
    choice = np.array([numbers[0] if numbers else 0 for numbers in holders])
    for k, checkpoint in enumerate(weights):
        pipelines = np.flatnonzero(choice == k)
        if len(pipelines):
            predicted = predict(checkpoint.network, dataset, pipelines, checkpoint.settings.trust).predicted
            seconds[dataset.samples_of(pipelines)] = predicted
    return seconds


def gains(dataset: Dataset, baselines: set[tuple[str, float]], predicted: Floats) -> tuple[Floats, Floats]:
    """Return the predicted and measured speedups of the best-ranked schedules over the baseline."""
    pairs = []
    for number, problem in enumerate(dataset.pipelines):
        samples = np.flatnonzero(dataset.pipeline == number)
        roots = [s for s in samples if (problem, float(dataset.seconds[s])) in baselines]
        best = samples[np.argmin(predicted[samples])]
        if roots and best != roots[0]:
            pairs.append([times[roots[0]] / times[best] for times in (predicted, dataset.seconds)])
    if not pairs:
        raise InputError("no pipeline of the labels has times of both roots and a better-ranked schedule")
    predicted_gains, measured_gains = np.array(pairs, np.float64).T
    return predicted_gains, measured_gains


def table(predicted: Floats, measured: Floats) -> str:
    """Return the figures as a Markdown table."""
    lines = [
        "| predicted speedup | pipelines | measured, geometric mean | faster | gain with this threshold |",
        "|---|---|---|---|---|",
    ]
    for low, high in itertools.pairwise(FACTORS):
        here = (predicted >= low) & (predicted < high)
        if not here.any():
            continue
        logs = np.log(measured[here])
        error = logs.std() / np.sqrt(here.sum())
        all_ = np.exp(np.where(predicted >= low, np.log(measured), 0.0).mean())
        lines.append(
            f"| {low:.2f} to {high:.2f} | {here.sum()} | {np.exp(logs.mean()):.3f} ({error:.3f}) "
            f"| {100 * (logs > 0).mean():.0f} % | {all_:.4f} |"
        )
    return "\n".join(lines)


def main() -> int:
    """Print the table of the labels and the weights of the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("labels", type=Path, help="file of labels")
    parser.add_argument(
        "--weights", type=Path, nargs="+", default=[], help="files of weights (default: the analytical model)"
    )
    parser.add_argument("--target", default="cpu")
    parser.add_argument("--cache", default="out/features", help="folder of the feature cache")
    options = parser.parse_args()
    try:
        dataset, baselines = load(options.labels, options.cache, options.target)
        weights = [load_checkpoint(path) for path in options.weights]
        predicted, measured = gains(dataset, baselines, predicted_seconds(dataset, weights))
    except AutoschedError as error:
        sys.exit(f"error: {error}")
    model = f"learned, {len(weights)} files of weights" if weights else "analytical"
    print(f"Labels: {dataset.source}; {model}\n\n{table(predicted, measured)}")
    return 0
