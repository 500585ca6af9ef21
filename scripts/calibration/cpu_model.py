"""Compare the CPU's timing model with times of kernels: rank correlation, regret and better rates; prints tables.

    OMP_NUM_THREADS=1 python scripts/fit_cpu_model.py [--apps unsharp,harris] [--seed 0] [--rounds 9] [--fit]
    python scripts/fit_cpu_model.py --data docs/results/data/cpu-genuineintel-6-amx-labels.parquet --fit

Without ``--data``, schedules of all strategies and random ones of suite apps are compiled through C, and every kernel
is timed by itself within its pipeline; times are the least of all rounds, on one core, which other processes disturb
less. For each app: Spearman's rank correlation of predicted and measured times over the schedules, the regret (what the
schedule that the model likes best takes, over the fastest one's time), predicted over measured time, and how many times
as long as the beam search's schedule those of `roots` and of the best of Sioutas' modes take.

With ``--data`` times are read that scripts/make_dataset.py measured, of whatever processor, and means over the
pipelines are printed.

``--fit`` prints the rates that make the logarithms of kernels' times fit best, to be put in
`autosched.search.cost.cpu.coefficients`, and how well they do: those of one half of the pipelines on the other half
(``--data``), or on the apps that they were fitted to, whose times may all be off by one factor, which changes no order.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import spearmanr

from autosched.search.cost.cpu.analytical import CpuModel
from autosched.search.cost.cpu.coefficients import CPU_COMPONENTS
from autosched.target import get_target
from calibration.rate_fit import Sample, crosswise, fitted, means, times
from calibration.samples import SIZES, labelled, measured


def report(samples: list[Sample], rates: Any) -> None:
    """Print how well the model orders the schedules of each app."""
    print(f"{'app':26}{'rank corr.':>12}{'regret':>9}{'predicted/measured':>20}{'roots/beam':>12}{'Sioutas/beam':>14}")
    for app in dict.fromkeys(s.app for s in samples):
        own = [s for s in samples if s.app == app]
        real, predicted = times(own, rates, CpuModel.total)
        rank = spearmanr(real, predicted).statistic
        regret = real[predicted.argmin()] / real.min()
        of = {name: min((t for s, t in zip(own, real, strict=True) if s.strategy.startswith(name)), default=np.nan)
              for name in ("roots", "sioutas")}  # fmt: skip
        beam = next((t for s, t in zip(own, real, strict=True) if s.strategy == "beam"), np.nan)
        ratios = f"{of['roots'] / beam:12.2f}{of['sioutas'] / beam:14.2f}"
        print(f"{app:26}{rank:12.2f}{regret:9.2f}{np.median(predicted / real):20.2f}{ratios}", flush=True)


def show(rates: Any) -> None:
    """Print rates as they stand in the code."""
    for part, rate in zip(CPU_COMPONENTS, rates, strict=True):
        print(f'    "{part}": {rate:.2g},')


def compare_labels(path: Path, fit: bool) -> None:
    """Print how well the model orders the schedules of labels."""
    samples, target = labelled(path, get_target("cpu"))
    rates = CpuModel(target).rates
    means(samples, rates, CpuModel.total, "rates as they are")
    if fit:
        crosswise(samples, rates, CpuModel.total)
        show(fitted(samples, rates, CpuModel.total, offsets=False))


def main() -> int:
    """Measure the apps that the command line names, or read labels."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--apps", default=",".join(SIZES), help="names, separated by commas")
    parser.add_argument("--seed", type=int, default=0, help="of the schedules drawn of each app")
    parser.add_argument("--rounds", type=int, default=9, help="calls of each schedule, in turn")
    parser.add_argument("--data", type=Path, help="results database or Parquet file to read instead of measuring")
    parser.add_argument("--fit", action="store_true", help="print better rates")
    options = parser.parse_args()
    if options.data is not None:
        compare_labels(options.data, options.fit)
        return 0
    if os.environ.get("OMP_NUM_THREADS") != "1":
        parser.error("set OMP_NUM_THREADS=1: the times of one core are compared")
    target = get_target("cpu")
    samples: list[Sample] = []
    rates = CpuModel(target).rates
    for name in options.apps.split(","):
        samples += measured(name, target, options.rounds, options.seed)
        print(f"measured {name}", file=sys.stderr, flush=True)
    report(samples, rates)
    if options.fit:
        rates = fitted(samples, rates, CpuModel.total, offsets=True)
        show(rates)
        report(samples, rates)
    return 0
