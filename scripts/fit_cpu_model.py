"""Compare the CPU's timing model with times of kernels: rank correlation, regret and better rates; prints tables.

    OMP_NUM_THREADS=1 python scripts/fit_cpu_model.py [--apps unsharp,harris] [--seed 0] [--rounds 9] [--fit]
    python scripts/fit_cpu_model.py --data docs/results/cpu-genuineintel-6-amx-labels.parquet --fit

Without ``--data``, schedules of all strategies and random ones of suite apps are compiled through C, and every kernel
is timed by itself within its pipeline; times are the least of all rounds, on one core, which other processes disturb
less. For each app: Spearman's rank correlation of predicted and measured times over the schedules, the regret (what the
schedule that the model likes best takes, over the fastest one's time), predicted over measured time, and how many times
as long as the beam search's schedule those of `roots` and of the best of Sioutas' modes take.

With ``--data`` times are read that scripts/make_dataset.py measured, of whatever processor, and means over the
pipelines are printed.

``--fit`` prints the rates that make the logarithms of kernels' times fit best, to be put in
`autosched.search.cpu_rates`, and how well they do: those of one half of the pipelines on the other half
(``--data``), or on the apps that they were fitted to, whose times may all be off by one factor, which changes no order.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
from cpu_samples import SIZES, Sample, labelled, measured
from scipy.optimize import least_squares
from scipy.stats import spearmanr

from autosched.search.analytical_cpu import CpuModel
from autosched.search.cpu_rates import CPU_COMPONENTS
from autosched.target import get_target

WEIGHT_OF_OFFSET = 0.3
WEIGHT_OF_START = 0.5
"""How much a rate that few samples tell about is held where it was."""
WEIGHT_OF_ORDER = 1.5
"""How much more than its kernels' times it counts how long a schedule takes beside the app's other ones."""


def fitted(samples: list[Sample], rates: Any, *, offsets: bool) -> Any:
    """Return the rates that fit best, each app weighing the same, and each schedule of an app.

    Args:
        samples: Kernels with their times.
        rates: What they are where samples tell nothing else.
        offsets: Whether an app's times may all be off by one factor.
    """
    apps = sorted({s.app for s in samples})
    counts, seconds = np.concatenate([s.counts for s in samples]), np.concatenate([s.seconds for s in samples])
    app = np.array([apps.index(s.app) for s in samples])
    kernels = np.array([len(s.seconds) for s in samples])
    start, of_schedule = np.cumsum(kernels) - kernels, np.repeat(np.arange(len(samples)), kernels)
    of_app = app[of_schedule]
    schedules = np.bincount(app)
    alike = np.sqrt(len(samples) / len(apps) / schedules)[app]
    share = seconds / np.add.reduceat(seconds, start)[of_schedule]
    weight = np.sqrt(share) * alike[of_schedule]
    taken = np.log(np.add.reduceat(seconds, start))
    before = np.log(rates)
    n, free = len(before), len(apps) if offsets else 0

    def residuals(x: Any) -> Any:
        found = CpuModel.total(counts, np.exp(x[:n]))
        off = np.log(found / seconds) - (x[n:][of_app] if free else 0)
        beside = np.log(np.add.reduceat(found, start)) - taken
        beside -= (np.bincount(app, beside) / schedules)[app]
        held = (x[:n] - before) * WEIGHT_OF_START
        return np.concatenate([off * weight, WEIGHT_OF_ORDER * beside * alike, held, x[n:] * WEIGHT_OF_OFFSET])

    near, far = np.full(n, np.log(20)), np.full(free, 4.0)
    x0 = np.concatenate([before, np.zeros(free)])
    bounds = np.concatenate([before - near, -far]), np.concatenate([before + near, far])
    return np.exp(least_squares(residuals, x0, bounds=bounds, loss="soft_l1", f_scale=0.3).x[:n])


def means(samples: list[Sample], rates: Any, title: str) -> None:
    """Print means over pipelines of how well the model orders their schedules."""
    ranks, regrets, ratios = [], [], []
    for app in dict.fromkeys(s.app for s in samples):
        own = [s for s in samples if s.app == app]
        if len(own) > 2:
            real, predicted = _times(own, rates)
            ranks.append(np.nan_to_num(spearmanr(real, predicted).statistic))
            regrets.append(real[predicted.argmin()] / real.min())
            ratios += list(predicted / real)
    off = np.exp(np.median(np.abs(np.log(ratios))))
    print(f"{title:30} {len(ranks)} pipelines, {len(ratios)} schedules: rank correlation {np.mean(ranks):.3f}, "
          f"regret {np.mean(regrets):.2f}, predicted/measured {np.median(ratios):.2f}, off by {off:.2f}")  # fmt: skip


def _times(samples: list[Sample], rates: Any) -> tuple[Any, Any]:
    real = np.array([s.seconds.sum() for s in samples])
    return real, np.array([CpuModel.total(s.counts, rates).sum() for s in samples])


def report(samples: list[Sample], rates: Any) -> None:
    """Print how well the model orders the schedules of each app."""
    print(f"{'app':26}{'rank corr.':>12}{'regret':>9}{'predicted/measured':>20}{'roots/beam':>12}{'Sioutas/beam':>14}")
    for app in dict.fromkeys(s.app for s in samples):
        own = [s for s in samples if s.app == app]
        real, predicted = _times(own, rates)
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
    means(samples, rates, "rates as they are")
    if fit:
        apps = sorted({s.app for s in samples})
        halves = [[s for s in samples if apps.index(s.app) % 2 == k] for k in (0, 1)]
        for one, other, name in ((*halves, "one half"), (*halves[::-1], "the other half")):
            means(other, fitted(one, rates, offsets=False), f"rates of {name}, the rest")
        show(fitted(samples, rates, offsets=False))


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
        rates = fitted(samples, rates, offsets=True)
        show(rates)
        report(samples, rates)
    return 0


if __name__ == "__main__":
    sys.exit(main())
