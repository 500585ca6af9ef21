"""Compare the CPU's timing model with this machine: rank correlation, regret and better rates; prints tables.

    python scripts/fit_cpu_model.py [--apps unsharp,harris] [--random 8] [--rounds 12] [--fit]

Schedules of all strategies and random ones are compiled through C, and every kernel is timed by itself within its
pipeline. For each app: Spearman's rank correlation of predicted and measured times over the schedules, the regret (what
the schedule that the model likes best takes, over the fastest one's time), predicted over measured time, and how many
times as long as the beam search's schedule those of `roots` and of the best of Sioutas' modes take. With
``--fit`` the rates that make the logarithms of kernels' times fit best are printed as well, to be put in
`autosched.search.analytical_cpu.CPU_RATES`; an app's times may all be off by one factor, which changes no order. Times
are the least of all rounds, on one core, which other processes disturb less: call it with ``OMP_NUM_THREADS=1``.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.optimize import least_squares
from scipy.stats import spearmanr

from autosched.analysis.bind import bind
from autosched.analysis.bound import BoundPipeline
from autosched.api import ScheduledPipeline
from autosched.apps import get_app
from autosched.codegen.c import ENTRY, print_c
from autosched.featurize.describe import describe_kernel
from autosched.lang.expr import Scalar
from autosched.runtime.cpu import aligned_empty, scalar_arguments
from autosched.runtime.host_compiler import compile_shared_library
from autosched.schedule.types import Schedule
from autosched.search.analytical_cpu import CPU_COMPONENTS, CPU_RATES, CpuModel
from autosched.search.evaluate import Evaluator
from autosched.search.random_state import RandomStates
from autosched.search.settings import SearchSettings
from autosched.search.strategy import STRATEGIES
from autosched.target import Target, get_target

SIZES: Mapping[str, Mapping[str, int]] = {
    "blur": {"W": 1536, "H": 2560},
    "unsharp": {"W": 1536, "H": 1280},
    "harris": {"W": 1536, "H": 1280},
    "bilateral_grid": {"W": 1536, "H": 1280},
    "stencil_chain": {"W": 1536, "H": 640},
    "interpolate": {"W": 1536, "H": 1280},
    "canny": {"W": 1536, "H": 1280},
    "max_filter": {"W": 768, "H": 640},
    "nl_means": {"W": 192, "H": 160},
    "conv_layer": {"N": 1, "CI": 64, "CO": 64, "W": 50, "H": 40},
    "sgemm": {"M": 512, "N": 512, "K": 512},
    "depthwise_separable_conv": {"N": 2},
    "camera_pipe": {"W": 1296, "H": 984},
    "hypterm": {"W": 96, "H": 96, "D": 96},
    "smoother27pt": {"W": 160, "H": 160, "D": 160},
    "smoother7pt": {"W": 256, "H": 256, "D": 256},
    "iir_blur": {"W": 1536, "H": 1280},
    "pyramid_blend": {"W": 1536, "H": 1280},
}
"""Apps and sizes that take one to a hundred milliseconds."""
WEIGHT_OF_OFFSET = 0.3
STAMPS = "as_stamps"


@dataclass
class Sample:
    """A schedule with what was counted and measured.

    Attributes:
        app: Name of the app.
        strategy: Where the schedule comes from.
        counts: ``float64[kernels, parts]``, work of each kernel on one core.
        seconds: ``float64[kernels]``, its time.
    """

    app: str
    strategy: str
    counts: Any
    seconds: Any


class TimedKernels:
    """A pipeline through C that tells the time of each kernel.

    Args:
        scheduled: The pipeline.
    """

    def __init__(self, scheduled: ScheduledPipeline) -> None:
        self.program = scheduled.program
        source = print_c(self.program)
        count = len(self.program.kernels)
        self.arrays, self.scalars = source.arrays, source.scalars
        library = ctypes.CDLL(str(compile_shared_library(_with_stamps(source.text, count), "c")))
        self._entry = library[ENTRY]
        self._entry.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
        self._entry.restype = None
        self._stamps = (ctypes.c_double * (count + 1)).in_dll(library, STAMPS)
        self._workspace = aligned_empty(self.program.workspace_bytes)

    def run(self, inputs: Mapping[str, Any], outputs: Mapping[str, Any], params: Mapping[str, Scalar]) -> Any:
        """Run once and return the seconds of each kernel."""
        base = self._workspace.ctypes.data
        address = {a.buffer.name: inputs[n].ctypes.data for n, a in self.program.inputs.items()}
        address |= {a.buffer.name: outputs[n].ctypes.data for n, a in self.program.outputs.items()}
        address |= {slot.buffer.name: base + slot.offset for slot in self.program.workspace}
        values = scalar_arguments(self.program, params)
        arrays = (ctypes.c_void_p * max(len(self.arrays), 1))(*(address[n] for n in self.arrays))
        scalars = (ctypes.c_void_p * max(len(self.scalars), 1))(*(values[n].ctypes.data for n, _ in self.scalars))
        self._entry(arrays, scalars)
        return np.diff(np.array(self._stamps))


def _with_stamps(text: str, kernels: int) -> str:
    """Return generated C that notes the time before each kernel and after the last."""
    head, entry = text.split(f"void {ENTRY}(", 1)
    lines: list[str] = []
    number = 0
    for line in entry.split("\n"):
        begins = line.strip() == "#pragma omp parallel" or (line == "    {" and "omp parallel" not in lines[-1])
        if begins:
            lines.append(f"    {STAMPS}[{number}] = omp_get_wtime();")
            number += 1
        lines.append(line)
    assert number == kernels, "the entry of the generated C is not of the form that is expected"
    lines.insert(lines.index("}"), f"    {STAMPS}[{number}] = omp_get_wtime();")
    declared = f"double omp_get_wtime(void);\ndouble {STAMPS}[{kernels + 1}];\n"
    return f"{head}{declared}void {ENTRY}(" + "\n".join(lines)


def schedules(bound: BoundPipeline, target: Target, count: int) -> Iterator[tuple[str, Schedule]]:
    """Yield schedules of all strategies, and so many random ones."""
    for name, strategy in STRATEGIES.items():
        for ranked in strategy.search(bound, target, count=3).ranked:
            yield name, ranked.schedule
    states = RandomStates(Evaluator(bound, target, CpuModel(target), SearchSettings()))
    rng = np.random.default_rng(0)
    for _ in range(count):
        drawn = states.draw_legal(rng)
        if drawn is not None:
            yield "random", drawn[1]


def measured(name: str, target: Target, count: int, rounds: int) -> list[Sample]:
    """Return the samples of an app."""
    app = get_app(name)
    pipeline, _ = app.configure({})
    bound = bind(pipeline, app.shapes(SIZES[name]), {})
    inputs = app.make_inputs(SIZES[name])
    params: dict[str, Scalar] = {p.name: p.default for p in pipeline.params if p.default is not None}
    chosen: dict[Schedule, str] = {}
    for strategy, schedule in schedules(bound, target, count):
        chosen.setdefault(schedule, strategy)
    scheduled = [ScheduledPipeline(bound, s, target) for s in chosen]
    first = scheduled[0].compile("cpu")(inputs)
    results = first if isinstance(first, tuple) else (first,)
    timed = [TimedKernels(s) for s in scheduled]
    outputs = dict(zip(timed[0].program.outputs, map(np.empty_like, results), strict=True))
    best: list[Any] = [np.inf] * len(timed)
    for _ in range(rounds):
        for k, kernels in enumerate(timed):
            best[k] = np.minimum(best[k], kernels.run(inputs, outputs, params))
    model = CpuModel(replace(target, multiprocessors=1))
    evaluator = Evaluator(bound, target, model, SearchSettings())
    found = []
    for s, seconds in zip(scheduled, best, strict=True):
        counts = []
        for kernel in s.schedule.kernels:
            structure, tiles = describe_kernel(bound, kernel)
            one = evaluator.kernel_model(structure)
            counts.append(model.counts(one, one.evaluate(np.array([tiles], np.int64)).features)[0])
        found.append(Sample(name, chosen[s.schedule], np.array(counts), seconds))
    return found


def fitted(samples: list[Sample]) -> Any:
    """Return the rates that fit best, each app weighing the same."""
    apps = sorted({s.app for s in samples})
    counts, seconds = np.concatenate([s.counts for s in samples]), np.concatenate([s.seconds for s in samples])
    of_app = np.concatenate([np.full(len(s.seconds), apps.index(s.app)) for s in samples])
    weight = 1 / np.sqrt(np.bincount(of_app))[of_app]
    start = np.log(np.array(list(CPU_RATES.values())))
    n = len(start)

    def residuals(x: Any) -> Any:
        off = np.log(CpuModel.total(counts, np.exp(x[:n])) / seconds) - x[n:][of_app]
        return np.concatenate([off * weight, x[n:] * WEIGHT_OF_OFFSET])

    near = np.log(4)  # what few samples tell little about stays near what it was
    lower = np.concatenate([start - near, np.full(len(apps), -4.0)])
    upper = np.concatenate([start + near, np.full(len(apps), 4.0)])
    x0 = np.concatenate([start, np.zeros(len(apps))])
    solution = least_squares(residuals, x0, bounds=(lower, upper), loss="soft_l1", f_scale=0.1)
    return np.exp(solution.x[:n])


def report(samples: list[Sample], rates: Any) -> None:
    """Print how well the model orders the schedules of each app."""
    print(f"{'app':26}{'rank corr.':>12}{'regret':>9}{'predicted/measured':>20}{'roots/beam':>12}{'Sioutas/beam':>14}")
    for app in dict.fromkeys(s.app for s in samples):
        own = [s for s in samples if s.app == app]
        real = np.array([s.seconds.sum() for s in own])
        predicted = np.array([CpuModel.total(s.counts, rates).sum() for s in own])
        rank = spearmanr(real, predicted).statistic
        regret = real[predicted.argmin()] / real.min()
        of = {name: min((t for s, t in zip(own, real, strict=True) if s.strategy.startswith(name)), default=np.nan)
              for name in ("roots", "sioutas")}  # fmt: skip
        beam = next((t for s, t in zip(own, real, strict=True) if s.strategy == "beam"), np.nan)
        ratios = f"{of['roots'] / beam:12.2f}{of['sioutas'] / beam:14.2f}"
        print(f"{app:26}{rank:12.2f}{regret:9.2f}{np.median(predicted / real):20.2f}{ratios}", flush=True)


def main() -> int:
    """Measure the apps that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--apps", default=",".join(SIZES), help="names, separated by commas")
    parser.add_argument("--random", type=int, default=8, help="random schedules of each app")
    parser.add_argument("--rounds", type=int, default=12, help="calls of each schedule, in turn")
    parser.add_argument("--fit", action="store_true", help="print better rates")
    options = parser.parse_args()
    if os.environ.get("OMP_NUM_THREADS") != "1":
        parser.error("set OMP_NUM_THREADS=1: the times of one core are compared")
    target = get_target("cpu")
    samples: list[Sample] = []
    rates = np.array(list(CPU_RATES.values()))
    for name in options.apps.split(","):
        samples += measured(name, target, options.random, options.rounds)
        print(f"measured {name}", file=sys.stderr, flush=True)
    report(samples, rates)
    if options.fit:
        rates = fitted(samples)
        for part, rate in zip(CPU_COMPONENTS, rates, strict=True):
            print(f'    "{part}": {rate:.2g},')
        report(samples, rates)
    return 0


if __name__ == "__main__":
    sys.exit(main())
