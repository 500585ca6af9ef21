"""Compare a GPU's timing model with measured times of kernels: rank correlation, regret and better rates.

    python scripts/fit_gpu_model.py --data docs/results/data/h200-labels.parquet --target h200
    python scripts/fit_gpu_model.py --data docs/results/data/h200-labels.parquet --target h200 --fit
    python scripts/fit_gpu_model.py --data docs/results/data/h200-labels.parquet --target h200 --fit --parts

The model is that of `autosched.search.cost.gpu_analytical`, or with ``--parts`` the one that networks start from
(`autosched.model.predict.gpu_unit_times`). Printed are means over the pipelines of the labels.

``--fit`` prints by which factor each part of a time should be longer, and how well that does: factors fitted to one
half of the pipelines on the other half.
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
    """Return the labels of a target with the parts of their times, which are kept in a directory."""
    with closing(open_labels([path])) as labels:
        samples = samples_from(labels, target.name)
    return build_dataset(samples, target, FeatureStore(cache, target))


def timed_samples(dataset: Dataset, columns: list[int]) -> list[Sample]:
    """Return the schedules whose kernels were all timed, with some of the parts of their times."""
    found = []
    for n in range(dataset.count):
        entries = slice(dataset.sample_start[n], dataset.sample_start[n + 1])
        seconds = dataset.entry_seconds[entries].astype(np.float64)
        if np.isfinite(seconds).all():
            parts = dataset.parts[dataset.entry_kernel[entries]][:, columns].astype(np.float64)
            found.append(Sample(dataset.pipelines[dataset.pipeline[n]], "labelled", parts, seconds))
    return found


def analytical_total(parts: Floats, factors: Floats) -> Floats:
    """Return what the analytical model says if its parts are longer by some factors."""
    return AnalyticalModel.combined(parts * factors)


def prior_total(target: Target) -> Total:
    """Return the same of the model that networks start from."""
    prior = prior_for(target)

    def total(parts: Floats, factors: Floats) -> Floats:
        found: Floats = prior.combined(torch.from_numpy(parts * factors)).numpy()
        return found

    return total


def main() -> int:
    """Read the labels that the command line names and print how well the model orders them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="results database or Parquet file")
    parser.add_argument("--target", default="h200", help="the GPU that the labels are of (default: %(default)s)")
    parser.add_argument("--parts", action="store_true", help="the model that networks start from")
    parser.add_argument("--fit", action="store_true", help="print better factors")
    parser.add_argument("--cache", type=Path, default=Path("out/features"), help="where features are kept")
    options = parser.parse_args()
    try:
        target = get_target(options.target)
        if target.kind != "cuda":
            parser.error(f"{target.name} is no GPU; scripts/fit_cpu_model.py is for processors")
        dataset = dataset_of(options.data, target, options.cache)
    except AutoschedError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    known = prior_for(target)
    names = known.names[: known.corrected] if options.parts else [f"{ANALYTICAL}_{name}" for name in COMPONENTS]
    total = prior_total(target) if options.parts else analytical_total
    samples, ones = timed_samples(dataset, [known.names.index(name) for name in names]), np.ones(len(names))
    means(samples, ones, total, "as it is")
    if options.fit:
        crosswise(samples, ones, total)
        for name, factor in zip(names, fitted(samples, ones, total, offsets=False), strict=True):
            print(f"{name.removeprefix(f'{ANALYTICAL}_'):24}{factor:6.2f}")
    return 0
