"""How fast samples are made, beside how fast NVRTC alone compiles the same kernels in as many processes.

    python scripts/bench_samples.py --pipelines 30 --rounds 3 --drawers 2

Samples are made as `scripts/make_dataset.py` makes them, in an empty database with an empty cache: schedules are drawn,
validated, lowered, printed, compiled and stored; only the time on a GPU is missing, which the other processes would not
wait for. Beside that the distinct texts of all their kernels are compiled by NVRTC and nothing else, with an empty
cache, too. All times include that for starting processes. Processor time stands beside the time on the clock: other
programs on the machine disturb it less.

A machine is faster at one time than at another: pipelines are dealt to rounds, in each of which all is timed that is
compared, in the other order in every second one; times are those of all rounds together.
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
    parser.add_argument("--rounds", type=int, default=1, help="parts of the pipelines that are timed by themselves")
    parser.add_argument("--processes", type=int, default=available_cpus(), help="compiling at a time")
    parser.add_argument("--drawers", type=int, default=1, help="processes that draw schedules (default 1)")
    options = parser.parse_args()
    if not 1 <= options.rounds <= options.pipelines:
        parser.error(f"{options.rounds} rounds of {options.pipelines} pipelines: each needs one, and there must be one")
    problems = [Problem.random(options.first + n) for n in range(options.pipelines)]
    rounds = [Round.drawn(problems[k :: options.rounds], options.drawers) for k in range(options.rounds)]
    samples, kernels, texts = (sum(getattr(r, what) for r in rounds) for what in ("samples", "kernels", "distinct"))
    print(f"{samples} samples of {len(problems)} pipelines, {options.processes} processes that compile")
    print(
        f"{kernels} kernels, {texts} of them with a text of their own: {kernels / texts:.2f} for each text", flush=True
    )

    total: dict[str, Spent] = {}
    for number, one in enumerate(rounds):
        found = one.timed(options.processes, options.drawers, backwards=bool(number % 2))
        for what, spent in found.items():
            total[what] = total.get(what, Spent(0.0, 0.0)) + spent
        if options.rounds > 1:
            ratios = ", ".join(f"{what} {spent.wall / found[ALONE].wall:.2f} x" for what, spent in found.items())
            print(f"round {number + 1}: {ratios}", flush=True)
    alone = total[ALONE]
    for what in (ALONE, COMPILED, WHOLE):
        wall, cpu = total[what].wall, total[what].cpu
        print(
            f"{what:20s} {wall:7.1f} s {1e3 * wall / samples:7.1f} ms a sample {samples / wall:6.2f} samples/s "
            f"{wall / alone.wall:5.2f} x; {cpu:7.1f} s of processors {cpu / alone.cpu:5.2f} x"
        )


@dataclass(frozen=True)
class Spent:
    """Seconds on the clock, and on the processors with the processes that were started."""

    wall: float
    cpu: float

    def __add__(self, other: Spent) -> Spent:
        return Spent(self.wall + other.wall, self.cpu + other.cpu)


@dataclass(frozen=True)
class Round:
    """Pipelines with what is to be made of them.

    Attributes:
        problems: The pipelines.
        jobs: Their candidates.
        texts: Distinct texts of the candidates' kernels, with a name for each.
        kernels: How many kernels the candidates have.
    """

    problems: Sequence[Problem]
    jobs: Sequence[Job]
    texts: Mapping[str, str]
    kernels: int

    @classmethod
    def drawn(cls, problems: Sequence[Problem], drawers: int) -> Round:
        """Return pipelines with the candidates that are drawn for them."""
        jobs = list(drawn_jobs(problems, drawers))
        return cls(problems, jobs, *distinct_texts(jobs))

    @property
    def samples(self) -> int:
        """How many samples are made."""
        return len(self.jobs)

    @property
    def distinct(self) -> int:
        """How many kernels have a text of their own."""
        return len(self.texts)

    def timed(self, processes: int, drawers: int, *, backwards: bool) -> dict[str, Spent]:
        """Return what it takes to compile the texts, to make samples of the candidates, and to draw these, too."""
        work: dict[str, Callable[[], None]] = {
            ALONE: lambda: nvrtc_alone(self.texts, processes),
            COMPILED: lambda: produce(self.jobs, processes),
            WHOLE: lambda: produce(drawn_jobs(self.problems, drawers), processes),
        }
        found = {}
        for what in reversed(work) if backwards else work:
            with empty_cache():
                found[what] = timed(work[what])
        return found


def timed(work: Callable[[], None]) -> Spent:
    """Return what work takes, with the processes that it starts."""
    before, started = processor_seconds(), time.perf_counter()
    work()
    return Spent(time.perf_counter() - started, processor_seconds() - before)


def processor_seconds() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(u.ru_utime + u.ru_stime for u in used)


def drawn_jobs(problems: Iterable[Problem], processes: int) -> Iterator[Job]:
    """Yield the candidates of some problems."""
    drawer = CandidateWorker(TARGET, MIX)
    with closing(generate_in_processes(drawer, problems, processes=processes, ahead=processes)) as drawing:
        for problem, drawn in drawing:
            for kind, schedule in drawn.schedules:
                yield Job(problem, schedule, TARGET, origin=kind)


def produce(jobs: Iterable[Job], processes: int) -> None:
    """Make samples of candidates."""
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
    for found in compiled:
        if isinstance(found, CompileError):
            raise found
