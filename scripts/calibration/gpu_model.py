"""Compare a GPU's timing model with measured times of kernels: rank correlation, regret and better rates.

    python scripts/fit_gpu_model.py --data docs/results/data/h200-labels.parquet --target h200
    python scripts/fit_gpu_model.py --data docs/results/data/h200-labels.parquet --target h200 --fit
    python scripts/fit_gpu_model.py --data docs/results/data/h200-labels.parquet --target h200 --fit --parts

The model is `autosched.search.cost.gpu_analytical`, or with ``--parts`` the prior of the networks
(`autosched.model.predict.gpu_unit_times`). The figures are means over the pipelines of the labels.

``--fit`` prints a correction factor for each part of a time, and its quality: factors fitted to one half of the
pipelines, on the other half.
"""

from __future__ import annotations

import argparse
import sys
from contextlib import closing
from pathlib import Path

import numpy as np
import torch

from autosched.errors import AutoschedError
from autosched.measure.store.labels import open_labels
from autosched.model.data.dataset import Dataset, build_dataset
from autosched.model.data.feature_store import FeatureStore
from autosched.model.data.samples_from_measurements import samples_from
from autosched.model.predict.analytical_prior import ANALYTICAL, prior_for
from autosched.search.cost.gpu_analytical import COMPONENTS, AnalyticalModel
from autosched.target import Target, get_target
from calibration.rate_fit import Floats, Sample, Total, crosswise, fitted, means


def dataset_of(path: Path, target: Target, cache: Path) -> Dataset:
    """Return the labels of a target with the parts of their times, cached in a directory."""
    with closing(open_labels([path])) as labels:
        samples = samples_from(labels, target.name)
    return build_dataset(samples, target, FeatureStore(cache, target))


def timed_samples(dataset: Dataset, columns: list[int]) -> list[Sample]:
    """Return the schedules with a time of every kernel, with some parts of their predicted times."""
    samples = []
    for n in range(dataset.count):
        entries = slice(dataset.sample_start[n], dataset.sample_start[n + 1])
        seconds = dataset.entry_seconds[entries].astype(np.float64)
        if np.isfinite(seconds).all():
            parts = dataset.parts[dataset.entry_kernel[entries]][:, columns].astype(np.float64)
            samples.append(Sample(dataset.pipelines[dataset.pipeline[n]], "labelled", parts, seconds))
    return samples


def analytical_total(parts: Floats, factors: Floats) -> Floats:
    """Return the analytical model's seconds with scaled parts."""
    return AnalyticalModel.combined(parts * factors)


def prior_total(target: Target) -> Total:
    """Return the function from parts and factors to the seconds of the networks' prior."""
    prior = prior_for(target)

    def total(parts: Floats, factors: Floats) -> Floats:
        seconds: Floats = prior.combined(torch.from_numpy(parts * factors)).numpy()
        return seconds

    return total


def main() -> int:
    """Print the quality of the model's order of the labels of the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="results database or Parquet file")
    parser.add_argument("--target", default="h200", help="the GPU of the labels (default: %(default)s)")
    parser.add_argument("--parts", action="store_true", help="use the prior of the networks")
    parser.add_argument("--fit", action="store_true", help="print better factors")
    parser.add_argument("--cache", type=Path, default=Path("out/features"), help="folder of the feature cache")
    options = parser.parse_args()
    try:
        target = get_target(options.target)
        if target.kind != "cuda":
            parser.error(f"{target.name} is not a GPU: use scripts/fit_cpu_model.py for processors")
        dataset = dataset_of(options.data, target, options.cache)
    except AutoschedError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    prior = prior_for(target)
    names = prior.names[: prior.corrected] if options.parts else [f"{ANALYTICAL}_{name}" for name in COMPONENTS]
    total = prior_total(target) if options.parts else analytical_total
    samples, ones = timed_samples(dataset, [prior.names.index(name) for name in names]), np.ones(len(names))
    means(samples, ones, total, "current model")
    if options.fit:
        crosswise(samples, ones, total)
        for name, factor in zip(names, fitted(samples, ones, total, offsets=False), strict=True):
            print(f"{name.removeprefix(f'{ANALYTICAL}_'):24}{factor:6.2f}")
    return 0
