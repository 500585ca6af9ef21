"""Compare the CPU's timing model with times of kernels: rank correlation, regret and better rates; prints tables.

    OMP_NUM_THREADS=1 python scripts/fit_cpu_model.py [--apps unsharp,harris] [--seed 0] [--rounds 9] [--fit]
    python scripts/fit_cpu_model.py --data docs/results/data/cpu-genuineintel-6-amx-labels.parquet --fit

Without ``--data``, suite apps are compiled through C under schedules of all strategies and random ones, and every
kernel is timed individually within its pipeline. Times are the least of all rounds on one core, which reduces noise.
Figures of an app: Spearman's rank correlation of predicted and measured times, the regret (time of the schedule that
the model ranks first over the fastest), predicted over measured time, and the times of `roots` and of the best of
Sioutas' modes over the beam search's.

``--data`` reads times measured by scripts/make_dataset.py on any processor, and prints means over the pipelines.

``--fit`` prints the rates with the least squared error of the logarithms of kernels' times, for
`autosched.search.cost.cpu.coefficients`, and their quality: rates of one half of the pipelines on the other half
(``--data``), or on the fitted apps. In the latter an app's times may be off by one factor, which changes no order.
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
    """Print the quality of the model's order of each app's schedules."""
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
    """Print rates in the form of the source code."""
    for part, rate in zip(CPU_COMPONENTS, rates, strict=True):
        print(f'    "{part}": {rate:.2g},')


def compare_labels(path: Path, fit: bool) -> None:
    """Print the quality of the model's order of the labels' schedules."""
    samples, target = labelled(path, get_target("cpu"))
    rates = CpuModel(target).rates
    means(samples, rates, CpuModel.total, "current rates")
    if fit:
        crosswise(samples, rates, CpuModel.total)
        show(fitted(samples, rates, CpuModel.total, offsets=False))


def main() -> int:
    """Measure the apps of the command line, or read labels."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--apps", default=",".join(SIZES), help="names, separated by commas")
    parser.add_argument("--seed", type=int, default=0, help="seed of each app's random schedules")
    parser.add_argument("--rounds", type=int, default=9, help="interleaved calls of each schedule")
    parser.add_argument("--data", type=Path, help="results database or Parquet file to read instead of measuring")
    parser.add_argument("--fit", action="store_true", help="print better rates")
    options = parser.parse_args()
    if options.data is not None:
        compare_labels(options.data, options.fit)
        return 0
    if os.environ.get("OMP_NUM_THREADS") != "1":
        parser.error("set OMP_NUM_THREADS=1: the model and the measured times are for one core")
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
