"""How fast samples are made, beside how fast NVRTC alone compiles the same kernels in as many processes.

    python scripts/bench_samples.py --pipelines 12 --processes 2

Samples are made as `scripts/make_dataset.py` makes them, in an empty database with an empty cache: schedules are drawn,
validated, lowered, printed, compiled and stored; only the time on a GPU is missing, which the other processes would not
wait for. Then the distinct texts of all their kernels are compiled by NVRTC and nothing else, with an empty cache, too.
All times include that for starting processes. Processor time stands beside the time on the clock: other programs on
the machine disturb it less.
"""

from __future__ import annotations

import argparse
import os
import resource
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from untimed import UntimedCudaBackend

from autosched.codegen.cuda import print_cuda
from autosched.errors import CompileError
from autosched.lower.program import lower
from autosched.measure.database import ResultsDatabase
from autosched.measure.job import Job
from autosched.measure.measurer import Measurer
from autosched.measure.problem import Problem
from autosched.measure.settings import MeasureSettings
from autosched.runtime.nvrtc_pool import compile_many
from autosched.search.candidates import Mix
from autosched.search.drawing import Drawer, draw_in_processes
from autosched.search.roots import schedule_roots
from autosched.settings import available_cpus
from autosched.target import get_target

TARGET = get_target("h200")
MIX = Mix(beam=2, greedy=2, states=4, legal=3, mutations=29)
"""The mix of the standard data set."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pipelines", type=int, default=12, help="random pipelines (default 12)")
    parser.add_argument("--first", type=int, default=0, help="seed of the first (default 0)")
    parser.add_argument("--processes", type=int, default=available_cpus(), help="compiling at a time")
    parser.add_argument("--drawers", type=int, default=1, help="processes that draw schedules (default 1)")
    options = parser.parse_args()
    problems = [Problem.random(options.first + n) for n in range(options.pipelines)]
    jobs: list[Job] = []
    with empty_cache():
        whole = timed(lambda: produce(drawn_jobs(problems, options.drawers, jobs), options.processes))
    with empty_cache():
        compiled = timed(lambda: produce(jobs, options.processes))
    texts, kernels = distinct_texts(jobs)
    with empty_cache():
        alone = timed(lambda: nvrtc_alone(texts, options.processes))
    print(f"{len(jobs)} samples of {len(problems)} pipelines, {options.processes} processes that compile")
    print(f"{kernels} kernels, {len(texts)} of them with a text of their own: {kernels / len(texts):.2f} for each text")
    rows = {"NVRTC alone": alone, "schedules to samples": compiled, "drawing, too": whole}
    for what, (wall, cpu) in rows.items():
        print(
            f"{what:20s} {wall:7.1f} s {1e3 * wall / len(jobs):7.1f} ms a sample {len(jobs) / wall:6.2f} samples/s "
            f"{wall / alone[0]:5.2f} x; {cpu:7.1f} s of processors {cpu / alone[1]:5.2f} x"
        )


def timed(work: Callable[[], None]) -> tuple[float, float]:
    """Return the seconds that work takes on the clock, and on the processors with the processes that it starts."""
    before, started = processor_seconds(), time.perf_counter()
    work()
    return time.perf_counter() - started, processor_seconds() - before


def processor_seconds() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(u.ru_utime + u.ru_stime for u in used)


def drawn_jobs(problems: Iterable[Problem], processes: int, into: list[Job]) -> Iterator[Job]:
    """Yield the candidates of some problems, and remember them."""
    drawer = Drawer(TARGET, MIX)
    with closing(draw_in_processes(drawer, problems, processes=processes, ahead=processes)) as drawing:
        for problem, drawn in drawing:
            for kind, schedule in drawn.schedules:
                into.append(Job(problem, schedule, TARGET, origin=kind))
                yield into[-1]


def produce(jobs: Iterable[Job], processes: int) -> None:
    """Make samples of candidates."""
    with tempfile.TemporaryDirectory(prefix="autosched-bench-") as directory:
        settings = MeasureSettings(compile_processes=processes)
        with ResultsDatabase(Path(directory) / "samples.sqlite") as database:
            measurer = Measurer(UntimedCudaBackend("nothing", arch=TARGET.arch), baseline, database, settings)
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


def nvrtc_alone(texts: dict[str, str], processes: int) -> None:
    """Compile texts and nothing else."""
    compiled = compile_many(list(texts), TARGET.arch, names=list(texts.values()), processes=processes)
    for found in compiled:
        if isinstance(found, CompileError):
            raise found


if __name__ == "__main__":
    main()
