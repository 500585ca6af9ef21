"""Measurement of many schedules of random pipelines and apps, configured by `configs/make_dataset.yaml`."""

from __future__ import annotations

import time
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, track

from autosched.apps.registry import NAMES
from autosched.errors import InputError
from autosched.measure.backend import Backend
from autosched.measure.backends.cpu import CpuBackend
from autosched.measure.backends.cuda import CudaBackend
from autosched.measure.backends.simulated import SimulatedBackend
from autosched.measure.compare.interleaved_comparison import InterleavedComparison
from autosched.measure.compare.retime import retime_interleaved
from autosched.measure.job import Status
from autosched.measure.measurer import Measurer
from autosched.measure.problem import Problem, interleave_evenly
from autosched.measure.settings import MeasureSettings
from autosched.measure.store.cpu_labels import target_of_labels
from autosched.measure.store.database import ResultsDatabase
from autosched.measure.store.parquet_export import export_parquet
from autosched.random_pipelines import RandomPipelineSettings
from autosched.runtime.timing.interleaved import RoundsRule
from autosched.runtime.timing.statistics import StopRule
from autosched.schedule.io.typed_json import read_settings
from autosched.search.datasets.candidate_mix import CandidateMix
from autosched.search.datasets.parallel_generation import CandidateWorker, generate_in_processes
from autosched.search.datasets.replay import ReplayedSchedules
from autosched.search.datasets.supply import CandidateQueue, CandidateSupply
from autosched.search.tune.cost_models import cost_model
from autosched.settings import available_cpus
from autosched.target import Target, get_target
from training.renamed_keys import with_present_keys

CONSOLE = Console(stderr=True)
CORES_PER_DRAWER = 4
GRACE_S = 0.5
"""Seconds after the end of the budget until which pending schedules are awaited."""
RETIME_SHARE = 0.35
"""Largest share of the budget for interleaved retiming of a pipeline's schedules."""
LIMITS = ("compile_processes", "compile_timeout_s", "time_limit_s", "trust_limit_s", "ahead", "lifetime", "again")


def backend_of(config: DictConfig, target: Target) -> Backend:
    """Return the backend of the configuration."""
    if config.backend == "simulated":
        return SimulatedBackend(target)
    rule = read_settings(_plain(config.stop), "measure.stop", StopRule)
    if config.backend == "cpu":
        return CpuBackend(config.threads, rule) if config.threads else CpuBackend(rule=rule)
    if config.backend == "cuda":
        numbers = tuple(config.devices)
        names = {Target.detect(n).name for n in numbers}
        if len(names) != 1:
            raise InputError(f"devices are {', '.join(sorted(names)) or 'none'}: list GPUs of one kind only")
        return CudaBackend(names.pop(), numbers, rule, config.fast_math)
    raise InputError(f"there is no backend {config.backend!r}; there is simulated, cpu and cuda")


def limits_of(config: DictConfig) -> MeasureSettings:
    """Return processes and time limits."""
    values = _plain(config)
    given = {name: values[name] for name in LIMITS if values[name] is not None}
    return read_settings(given, "measure", MeasureSettings)


def _plain(config: DictConfig) -> dict[Any, Any]:
    plain: Any = OmegaConf.to_container(config)
    return dict(plain)


def problems_of(config: DictConfig) -> list[Problem]:
    """Return the pipelines to measure, apps spread evenly among random ones."""
    settings = read_settings(_plain(config.random_pipelines), "random_pipelines", RandomPipelineSettings)
    chosen = config.dataset
    apps = [Problem.app(n, small=chosen.small) for n in (NAMES if list(chosen.apps) == ["all"] else chosen.apps)]
    seeds = range(chosen.first, chosen.first + chosen.pipelines)
    return interleave_evenly([Problem.random(seed, settings) for seed in seeds], apps)


def drawn_schedules(config: DictConfig, target: Target, *, ahead: bool, deadline: float) -> CandidateSupply:
    """Return the pipelines of the configuration, with schedules generated in processes.

    Args:
        config: Settings of the script.
        target: Target of the schedules.
        ahead: Whether generation overlaps with measurements.
        deadline: End of waiting for schedules, by `time.monotonic`.
    """
    problems = problems_of(config)
    drawer = CandidateWorker(
        target,
        read_settings(_plain(config.dataset.schedules), "dataset.schedules", CandidateMix),
        config.seed,
        config.cost,
    )
    processes = config.draw_processes or max(available_cpus() // CORES_PER_DRAWER, 1)
    return CandidateSupply(
        problems,
        len(problems) * (drawer.mix.total + 1),
        partial(generate_in_processes, drawer, processes=processes, ahead=processes if ahead else 0, deadline=deadline),
        lambda _: f"{drawer.mix!r} {drawer.seed} {drawer.cost}",
    )


def replayed_schedules(config: DictConfig) -> CandidateSupply:
    """Return the pipelines of other labels, with the labels' schedules."""
    paths = config.dataset.labels
    replayed = ReplayedSchedules.read([paths] if isinstance(paths, str) else list(paths))
    return CandidateSupply(replayed.problems, replayed.count, replayed.draw, replayed.key)


def measure(config: DictConfig, database: ResultsDatabase) -> Measurer:
    """Measure until everything is done or the time is over, and show the progress."""
    target = get_target(config.target)
    backend = backend_of(config.measure, target)
    target = target_of_labels(target, backend.source)
    started = time.perf_counter()
    budget_s = config.budget_s * (1 - RETIME_SHARE if config.measure.rounds else 1)
    if config.dataset.labels:
        supply = replayed_schedules(config)
    else:
        cost_model(config.cost, target)  # an unusable model fails here, not at each pipeline
        last = time.monotonic() + budget_s + GRACE_S
        # Concurrent generation would disturb measurements on the cores.
        supply = drawn_schedules(config, target, ahead=not backend.needs_quiet, deadline=last)
    samples = CandidateQueue(
        supply, target, database, f"{backend.source} {backend.generator}",
        lambda message: CONSOLE.print(f"[yellow]{message}[/]", highlight=False),
    )  # fmt: skip
    limits = limits_of(config.measure)
    measurer = Measurer(backend, samples.baseline, database, limits)
    CONSOLE.print(
        f"{len(supply.problems)} pipelines, {supply.count} schedules, labels {backend.source}", highlight=False
    )
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[note]}"), TimeElapsedColumn())
    with closing(samples.jobs()) as jobs, Progress(*columns, console=CONSOLE) as progress:
        bar = progress.add_task("pipelines", total=len(supply.problems), note="")
        for result in measurer.run(jobs, seconds=budget_s):
            if result.status in limits.again:
                samples.leave_open(result.job.problem)
            samples.note_done(measurer)
            ok, all_ = measurer.summary.counts[Status.OK], measurer.summary.counts.total()
            note = f"{ok} of {all_} ok, {all_ / (time.perf_counter() - started):.1f}/s, {result.job.problem.title}"
            progress.update(bar, completed=samples.done, note=note)
        samples.note_done(measurer)
        progress.update(bar, completed=samples.done)
    if config.measure.rounds:
        retime(config, database, backend, target, limits, started + config.budget_s)
    took = time.perf_counter() - started
    CONSOLE.print(measurer.summary.text(), highlight=False)
    CONSOLE.print(f"{took:.0f} s, of which {samples.waited_s:.0f} s waiting for schedules", highlight=False)
    return measurer


def retime(
    config: DictConfig, database: ResultsDatabase, backend: Backend, target: Target, limits: MeasureSettings, end: float
) -> None:
    """Retime each pipeline's schedules, interleaved, where that is not done yet.

    Args:
        config: Settings of the script.
        database: Database of the times.
        backend: Backend of the measurement.
        target: Target of the schedules.
        limits: Time limits.
        end: Time by `time.perf_counter` after which no further pipeline starts.
    """
    deadline = time.monotonic() + end - time.perf_counter()
    with InterleavedComparison(
        backend, limits, read_settings(_plain(config.measure.rounds), "measure.rounds", RoundsRule)
    ) as comparer:
        timings = retime_interleaved(database, backend, target, comparer, deadline=deadline)
        outcomes = list(track(timings, "interleaved timing", console=CONSOLE))
    for problem, reason in outcomes:
        if reason:
            CONSOLE.print(f"[yellow]{problem.title} keeps its earlier times:[/] {reason}", highlight=False)
    CONSOLE.print(f"{sum(not reason for _, reason in outcomes)} pipelines timed interleaved", highlight=False)


def write_parquet(config: DictConfig, database: ResultsDatabase, source: str) -> None:
    """Write the samples of a source as Parquet, if configured."""
    if config.parquet is None:
        return
    Path(config.parquet).parent.mkdir(parents=True, exist_ok=True)
    count = export_parquet(database, config.parquet, source=source)
    CONSOLE.print(f"{count} samples in {config.parquet}", highlight=False)


def run(config: DictConfig) -> int:
    """Measure and export; return the exit code."""
    config = with_present_keys(config)
    OmegaConf.resolve(config)
    Path(config.database).parent.mkdir(parents=True, exist_ok=True)
    with ResultsDatabase(config.database) as database:
        measurer = measure(config, database)
        if database.sources()[measurer.backend.source]:
            write_parquet(config, database, measurer.backend.source)
    return measurer.summary.exit_code
