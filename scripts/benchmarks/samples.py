"""Time of producing samples against NVRTC alone on the same kernels and number of processes.

    python scripts/bench_samples.py --pipelines 30 --rounds 3 --drawers 2

Samples are produced as by `scripts/make_dataset.py`, with an empty database and cache: schedules are generated,
validated, lowered, printed, compiled and stored. Only the time on a GPU is missing, which overlaps with that work. The
reference is NVRTC alone on the distinct texts of the same kernels, also with an empty cache. All times include process
startup. Processor time is printed beside wall-clock time, as other programs disturb it less.

The speed of a machine drifts, so pipelines are divided among rounds. Each round times all variants, in alternating
order; the figures are totals over the rounds.
"""

from __future__ import annotations

import argparse
import os
import resource
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from autosched.codegen.cuda import print_cuda
from autosched.errors import CompileError
from autosched.lower.program import lower
from autosched.measure.backends.compile_only import CompileOnlyBackend
from autosched.measure.job import Job
from autosched.measure.measurer import Measurer
from autosched.measure.problem import Problem
from autosched.measure.settings import MeasureSettings
from autosched.measure.store.database import ResultsDatabase
from autosched.runtime.compile.nvrtc_pool import compile_many
from autosched.search.datasets.candidate_mix import CandidateMix
from autosched.search.datasets.parallel_generation import CandidateWorker, generate_in_processes
from autosched.search.strategies.compute_root import schedule_roots
from autosched.settings import available_cpus
from autosched.target import get_target

TARGET = get_target("h200")
MIX = CandidateMix(beam=2, greedy=2, states=4, legal=3, mutations=29)
"""The mix of the standard data set."""

ALONE, COMPILED, WHOLE = "NVRTC alone", "schedules to samples", "drawing, too"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pipelines", type=int, default=12, help="random pipelines (default 12)")
    parser.add_argument("--first", type=int, default=0, help="seed of the first (default 0)")
    parser.add_argument("--rounds", type=int, default=1, help="groups of pipelines that are timed separately")
    parser.add_argument("--processes", type=int, default=available_cpus(), help="processes that compile")
    parser.add_argument("--drawers", type=int, default=1, help="processes that draw schedules (default 1)")
    options = parser.parse_args()
    if not 1 <= options.rounds <= options.pipelines:
        parser.error(f"{options.rounds} rounds of {options.pipelines} pipelines: each round needs a pipeline")
    problems = [Problem.random(options.first + n) for n in range(options.pipelines)]
    rounds = [Round.drawn(problems[k :: options.rounds], options.drawers) for k in range(options.rounds)]
    samples, kernels, texts = (sum(getattr(r, name) for r in rounds) for name in ("samples", "kernels", "distinct"))
    print(f"{samples} samples of {len(problems)} pipelines, {options.processes} processes that compile")
    print(f"{kernels} kernels with {texts} distinct texts: {kernels / texts:.2f} for each text", flush=True)

    total: dict[str, Spent] = {}
    for number, one in enumerate(rounds):
        times = one.timed(options.processes, options.drawers, backwards=bool(number % 2))
        for variant, spent in times.items():
            total[variant] = total.get(variant, Spent(0.0, 0.0)) + spent
        if options.rounds > 1:
            ratios = ", ".join(f"{name} {spent.wall / times[ALONE].wall:.2f} x" for name, spent in times.items())
            print(f"round {number + 1}: {ratios}", flush=True)
    alone = total[ALONE]
    for variant in (ALONE, COMPILED, WHOLE):
        wall, cpu = total[variant].wall, total[variant].cpu
        print(
            f"{variant:20s} {wall:7.1f} s {1e3 * wall / samples:7.1f} ms a sample {samples / wall:6.2f} samples/s "
            f"{wall / alone.wall:5.2f} x; {cpu:7.1f} s of processors {cpu / alone.cpu:5.2f} x"
        )


@dataclass(frozen=True)
class Spent:
    """Wall-clock seconds, and processor seconds with those of child processes."""

    wall: float
    cpu: float

    def __add__(self, other: Spent) -> Spent:
        return Spent(self.wall + other.wall, self.cpu + other.cpu)


@dataclass(frozen=True)
class Round:
    """Pipelines with their candidates.

    Attributes:
        problems: The pipelines.
        jobs: The candidates.
        texts: Distinct texts of the candidates' kernels, with a name for each.
        kernels: Number of the candidates' kernels.
    """

    problems: Sequence[Problem]
    jobs: Sequence[Job]
    texts: Mapping[str, str]
    kernels: int

    @classmethod
    def drawn(cls, problems: Sequence[Problem], drawers: int) -> Round:
        """Return pipelines with candidates generated for them."""
        jobs = list(drawn_jobs(problems, drawers))
        return cls(problems, jobs, *distinct_texts(jobs))

    @property
    def samples(self) -> int:
        """Number of samples."""
        return len(self.jobs)

    @property
    def distinct(self) -> int:
        """Number of distinct kernel texts."""
        return len(self.texts)

    def timed(self, processes: int, drawers: int, *, backwards: bool) -> dict[str, Spent]:
        """Return the times of NVRTC alone, of samples from the candidates, and of samples with generation."""
        work: dict[str, Callable[[], None]] = {
            ALONE: lambda: nvrtc_alone(self.texts, processes),
            COMPILED: lambda: produce(self.jobs, processes),
            WHOLE: lambda: produce(drawn_jobs(self.problems, drawers), processes),
        }
        times = {}
        for variant in reversed(work) if backwards else work:
            with empty_cache():
                times[variant] = timed(work[variant])
        return times


def timed(work: Callable[[], None]) -> Spent:
    """Return the time of work, with that of its child processes."""
    before, started = processor_seconds(), time.perf_counter()
    work()
    return Spent(time.perf_counter() - started, processor_seconds() - before)


def processor_seconds() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(u.ru_utime + u.ru_stime for u in used)


def drawn_jobs(problems: Iterable[Problem], processes: int) -> Iterator[Job]:
    """Yield generated candidates of some problems."""
    drawer = CandidateWorker(TARGET, MIX)
    with closing(generate_in_processes(drawer, problems, processes=processes, ahead=processes)) as drawing:
        for problem, drawn in drawing:
            for kind, schedule in drawn.schedules:
                yield Job(problem, schedule, TARGET, origin=kind)


def produce(jobs: Iterable[Job], processes: int) -> None:
    """Produce samples of candidates."""
    with tempfile.TemporaryDirectory(prefix="autosched-bench-") as directory:
        settings = MeasureSettings(compile_processes=processes)
        with ResultsDatabase(Path(directory) / "samples.sqlite") as database:
            measurer = Measurer(CompileOnlyBackend("nothing", arch=TARGET.arch), baseline, database, settings)
            for result in measurer.run(jobs):
                if result.error:
                    print(f"{result.job.problem.title}: {result.status}: {result.error.splitlines()[0]}")


def baseline(problem: Problem) -> Job:
    return Job.of(problem, schedule_roots(problem.bind(), TARGET), TARGET, origin="roots")


@contextmanager
def empty_cache() -> Iterator[None]:
    before = os.environ.get("AUTOSCHED_CACHE_DIR")
    with tempfile.TemporaryDirectory(prefix="autosched-bench-") as directory:
        os.environ["AUTOSCHED_CACHE_DIR"] = directory
        try:
            yield
        finally:
            if before is None:
                del os.environ["AUTOSCHED_CACHE_DIR"]
            else:
                os.environ["AUTOSCHED_CACHE_DIR"] = before


def distinct_texts(jobs: Iterable[Job]) -> tuple[dict[str, str], int]:
    """Return the distinct texts of the jobs' kernels with their names, and the number of kernels."""
    texts: dict[str, str] = {}
    kernels = 0
    for job in jobs:
        for kernel in lower(job.problem.bind(), job.read_schedule()).kernels:
            printed = print_cuda(kernel)
            texts[printed.source] = printed.name
            kernels += 1
    return texts, kernels


def nvrtc_alone(texts: Mapping[str, str], processes: int) -> None:
    """Compile texts and nothing else."""
    compiled = compile_many(list(texts), TARGET.arch, names=list(texts.values()), processes=processes)
    for result in compiled:
        if isinstance(result, CompileError):
            raise result
