"""Check that every strategy finds a legal schedule of every random pipeline; exits 1 on any failure.

    python scripts/check_strategies.py [--pipelines 500] [--strategies roots,beam,sioutas,forma] [--targets h200,cpu]
    python scripts/check_strategies.py --first 137 --pipelines 1 --jobs 1   (repeats one seed)

Every ``--run-every``-th seed also gives a small pipeline, whose schedules run through the C backend and, for a GPU,
through the emulator. Results are compared with the NumPy interpreter, bit for bit unless the pipeline calls functions
such as exp, which libraries round differently.
"""

from __future__ import annotations

import argparse
import os
import resource
import signal
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.apps.agreement import disagreement
from autosched.apps.tolerance import Tolerance
from autosched.lower.program import Program, lower
from autosched.random_pipelines.generate import RandomPipeline, random_pipeline
from autosched.random_pipelines.settings import SMALL, RandomPipelineSettings
from autosched.reference import interpret
from autosched.runtime.backends.cpu import CpuExecutable
from autosched.runtime.backends.emulator import EmulatedExecutable
from autosched.schedule.legality.validate import validate
from autosched.schedule.types import Schedule
from autosched.search.strategies.protocol import STRATEGIES, Strategy
from autosched.target import Target, get_target

Arrays = dict[str, NDArray[Any]]
TOLERANCE = Tolerance(rtol=1e-2, atol=1e-3, bad_fraction=0.02)
"""Tolerance for functions with library-dependent rounding, and for comparisons that it flips."""
GRACE = 1.0
"""Seconds beyond its budget after which a search is reported."""
PIPELINES_A_POOL = 24


@dataclass(frozen=True)
class Options:
    """Settings of the check.

    Attributes:
        strategies: Names of strategies.
        targets: Names of targets.
        seconds: Time budget of a search.
        run_every: Period of the seeds that also give a small pipeline to run; 0 for none.
        limit: Seconds after which a search is stopped and counts as failed.
        memory_gb: Address space of a search, in GB.
    """

    strategies: tuple[str, ...]
    targets: tuple[str, ...]
    seconds: float
    run_every: int
    limit: float
    memory_gb: int


@dataclass
class Outcome:
    """Result of one seed or several.

    Attributes:
        counts: Number of events by name.
        failures: Failures with their seeds.
        remarks: Unusual events that are not failures.
        slowest: Longest search of each strategy and target: seconds and seed.
    """

    counts: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    slowest: dict[str, tuple[float, int]] = field(default_factory=dict)

    def add(self, other: Outcome) -> None:
        """Add another outcome."""
        self.counts.update(other.counts)
        self.failures += other.failures
        self.remarks += other.remarks
        for name, longest in other.slowest.items():
            self.slowest[name] = max(self.slowest.get(name, longest), longest)


def main(arguments: Sequence[str] | None = None) -> int:
    """Check the pipelines of the command line; return 1 on any failure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pipelines", type=int, default=500, help="number of random pipelines")
    parser.add_argument("--first", type=int, default=0, help="seed of the first pipeline; further seeds follow")
    parser.add_argument("--strategies", default="roots,beam,sioutas,forma", help="names, separated by commas")
    parser.add_argument("--targets", default="h200,cpu", help="names, separated by commas")
    parser.add_argument("--seconds-each", type=float, default=5.0, help="time budget of each search")
    parser.add_argument(
        "--run-every", type=int, default=20, help="period of the seeds with a small pipeline to run; 0 runs none"
    )
    parser.add_argument("--limit", type=float, default=60.0, help="seconds after which a search is stopped")
    parser.add_argument("--memory", type=int, default=4, help="address space of a search in GB")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)), help="processes")
    args = parser.parse_args(arguments)
    options = Options(
        tuple(args.strategies.split(",")), tuple(args.targets.split(",")), args.seconds_each, args.run_every,
        args.limit, args.memory,
    )  # fmt: skip
    os.environ |= {"OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "passive"}
    started = time.perf_counter()
    everything = Outcome()
    with tempfile.TemporaryDirectory() as cache:  # random kernels are not worth caching
        os.environ["AUTOSCHED_CACHE_DIR"] = cache
        for outcome in outcomes(range(args.first, args.first + args.pipelines), options, args.jobs):
            everything.add(outcome)
            for line in outcome.failures:
                print(f"FAILED {line}", flush=True)
            for line in outcome.remarks:
                print(line, flush=True)
    report(everything, time.perf_counter() - started)
    return 1 if everything.failures else 0


def outcomes(seeds: Sequence[int], options: Options, jobs: int) -> Iterator[Outcome]:
    """Yield the outcome of each seed, in any order; with one job, in this process."""
    if jobs == 1:
        yield from (check_seed(seed, options) for seed in seeds)
        return
    for start in range(0, len(seeds), PIPELINES_A_POOL):  # a process that dies breaks only its own pool
        with ProcessPoolExecutor(jobs) as pool:
            pending = {pool.submit(check_seed, s, options): s for s in seeds[start : start + PIPELINES_A_POOL]}
            for future in as_completed(pending):
                error = future.exception()
                if error is None:
                    yield future.result()
                else:
                    yield Outcome(failures=[f"seed {pending[future]}: a process of its pool died: {error}"])


@contextmanager
def limited(options: Options) -> Iterator[None]:
    """Raise MemoryError or TimeoutError where the body exceeds the limits."""

    def stop(signum: int, frame: FrameType | None) -> NoReturn:
        raise TimeoutError(f"stopped after {options.limit:g} s")

    before, limits = signal.signal(signal.SIGALRM, stop), resource.getrlimit(resource.RLIMIT_AS)
    most = options.memory_gb << 30 if limits[1] == resource.RLIM_INFINITY else min(options.memory_gb << 30, limits[1])
    resource.setrlimit(resource.RLIMIT_AS, (most, limits[1]))
    signal.setitimer(signal.ITIMER_REAL, options.limit)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        resource.setrlimit(resource.RLIMIT_AS, limits)


def check_seed(seed: int, options: Options) -> Outcome:
    """Search for schedules of the pipeline of a seed, and check a small pipeline if the seed is due."""
    outcome = Outcome()
    check_pipeline(seed, None, options, outcome)
    if options.run_every and seed % options.run_every == 0:
        check_pipeline(seed, SMALL, options, outcome)
    return outcome


def check_pipeline(seed: int, settings: RandomPipelineSettings | None, options: Options, outcome: Outcome) -> None:
    """Search for schedules of a pipeline under each strategy and target; with small settings, also run them."""
    what = f"seed {seed}" if settings is None else f"seed {seed}, small"
    inputs: Arrays = {}
    expected: Arrays = {}
    try:
        pipeline = random_pipeline(seed, settings)
        bound = pipeline.bind()
        if settings is not None:
            inputs = pipeline.inputs(np.random.default_rng(seed))
            expected = interpret(pipeline.pipeline, inputs, pipeline.params)
    except Exception as e:  # any exception is a finding of this script
        outcome.failures.append(f"{what}: {_described(e)}")
        return
    outcome.counts["pipelines" if settings is None else "small pipelines"] += 1
    for target in map(get_target, options.targets):
        for name in options.strategies:
            where = f"{what}, {name} for {target.name}"
            try:
                schedule = searched(bound, target, name, seed, options, where, outcome)
                if settings is not None:
                    compare(pipeline, bound, schedule, target, inputs, expected, where, outcome)
            except Exception as e:
                outcome.failures.append(f"{where}: {_described(e)}")


def searched(
    bound: BoundPipeline, target: Target, name: str, seed: int, options: Options, where: str, outcome: Outcome
) -> Schedule:
    """Return a strategy's validated schedule; record fallbacks and exceeded budgets."""
    strategy: Strategy = STRATEGIES[name]
    with limited(options):
        result = strategy.search(bound, target, seconds=options.seconds, seed=seed)
    key = f"{name} for {target.name}"
    outcome.counts[f"searches, {key}"] += 1
    outcome.slowest[key] = max(outcome.slowest.get(key, (0.0, seed)), (result.seconds, seed))
    if result.cut_short:
        outcome.counts[f"cut short, {key}"] += 1
    if result.note and not result.cut_short:
        outcome.counts[f"with a note, {key}"] += 1
        outcome.remarks.append(f"{where}: {result.note}")
    if result.seconds > options.seconds + GRACE:
        outcome.counts[f"over the budget, {key}"] += 1
        outcome.remarks.append(f"{where}: took {result.seconds:.1f} s of {options.seconds:g}, {len(bound.funcs)} Funcs")
    for ranked in result.ranked:
        validate(bound, ranked.schedule, target)
    return result.best


def compare(
    p: RandomPipeline, bound: BoundPipeline, schedule: Schedule, target: Target, inputs: Arrays, expected: Arrays,
    where: str, outcome: Outcome,
) -> None:  # fmt: skip
    """Run a schedule through the C backend, and through the emulator if it was made for a GPU."""
    program = lower(bound, schedule)
    if schedule.reassociates:  # floating-point sums round in another order
        split = program.bound.pipeline  # without inputs and parameters that only define extents
        params = {q.name: p.params[q.name] for q in split.params}
        expected = interpret(split, {i.name: inputs[i.name] for i in split.inputs}, params)
    witnesses: list[Any] = [CpuExecutable(program)]
    if target.kind == "cuda":  # emulator first: it reports out-of-bounds accesses, which would crash this process in C
        witnesses.insert(0, EmulatedExecutable(program, seed=p.seed))
    for witness in witnesses:
        outcome.counts[f"runs through {type(witness).__name__}"] += 1
        for name, array in run(program, witness, inputs, p).items():
            wrong = disagreement(p.pipeline, TOLERANCE, array, expected[name])
            if wrong:
                outcome.failures.append(f"{where}, {type(witness).__name__}, {name}: {wrong}")


def run(program: Program, executable: Any, inputs: Arrays, p: RandomPipeline) -> Arrays:
    """Run a backend on fresh outputs."""
    outputs = {n: np.zeros(a.extents, a.buffer.dtype.numpy) for n, a in program.outputs.items()}
    executable.run(inputs, outputs, {s.name: p.params[s.name] for s in program.bound.scalars})
    return outputs


def report(outcome: Outcome, seconds: float) -> None:
    """Print counts, remarks and the longest searches."""
    print(f"{len(outcome.failures)} failures in {seconds:.0f} s")
    for what, n in sorted(outcome.counts.items()):
        print(f"  {what}: {n}")
    alike = Counter(failure.partition(": ")[2] for failure in outcome.failures)
    for what, n in alike.most_common():
        print(f"  {n} times: {what}")
    for key, (longest, seed) in sorted(outcome.slowest.items()):
        print(f"  longest search, {key}: {longest:.2f} s (seed {seed})")


def _described(e: Exception) -> str:
    """Return an exception on one line, with its origin."""
    frames = traceback.extract_tb(e.__traceback__)
    frame = next((f for f in reversed(frames) if f.filename != __file__), frames[-1])  # not the signal handler
    text = " ".join(str(e).split())[:400]
    return f"{type(e).__name__} at {os.path.basename(frame.filename)}:{frame.lineno}: {text}"
