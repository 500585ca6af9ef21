"""Timing of a few finalists of a search on this machine's processor, so that the result is not behind the baseline.

The cost model ranks hundreds of schedules well and the first few poorly. So the baseline and the best schedules with
different kernels are compiled and timed interleaved, on synthetic inputs, in a worker process.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from math import prod

import numpy as np

from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.codegen.c import ENTRY, CSource, print_c
from autosched.errors import MeasureError
from autosched.host import available_memory_bytes
from autosched.lang.expr import Scalar
from autosched.lower.program import Program, lower
from autosched.measure.store.cpu_labels import cpu_source
from autosched.measure.workers.process import WorkerDied, WorkerProcess, WorkerTimedOut
from autosched.measure.workers.program_service import COPIES, LEAST_ROUNDS, ProgramService, TimedArrays
from autosched.runtime.backends.cpu import scalar_arguments
from autosched.runtime.call.signature import CallSignature
from autosched.runtime.timing.host_timer import HostLibrary, HostProgram
from autosched.runtime.timing.interleaved import Rounds
from autosched.schedule.types import Schedule
from autosched.search.evaluate.evaluator import KernelEvaluator
from autosched.search.results import RankedSchedule, SearchResult
from autosched.search.strategies.compute_root import schedule_roots
from autosched.search.strategies.prefer_baseline import predicted_seconds
from autosched.search.tune.finalists import choose_finalists
from autosched.search.tune.top_k import ROOTS, Trial, Trials
from autosched.target import Target

logger = logging.getLogger(__name__)

TIMING_S = 0.5
"""Time budget of the timing, without compilation."""
LEAST_S = TIMING_S + 0.5
"""Least time for starting a process, compiling and timing; with less, nothing is tried."""
END_S = 0.1
"""Time for ending the process."""
KILL_AFTER_S = 2.0
"""Time limit of the timing, after which its process is killed."""
START_S = 10.0
"""Time limit of starting the process."""
COMPILE_S = 30.0
"""Time limit of compiling all finalists."""
LEAST_PREDICTED_S = 2e-5
"""Shortest predicted time of a schedule that is timed: the time of calls hides differences of shorter ones."""
SEARCH = "search"
"""Origin of the schedules of the ranking."""
LEAD = 0.97
"""Largest ratio of times, of a finalist over the best prediction, at which the finalist is chosen."""
CONFIDENT_ROUNDS = 6
"""Least number of rounds with a confidence interval."""
STEADY = 1.25
"""With fewer rounds, largest ratio of two times of one program; each of the finalist's must then have the lead."""
MEMORY_SHARE = 4
"""Inverse of the share of free memory for the arrays."""


@dataclass(frozen=True)
class _Finalist:
    """A schedule with its program."""

    ranked: RankedSchedule
    origin: str
    program: Program
    source: CSource

    def compiled(self, path: str, scalars: Mapping[str, Scalar]) -> HostProgram:
        """Return the program with its library."""
        program = self.program
        values = scalar_arguments(program, scalars)
        library = HostLibrary(
            path, ENTRY, self.source.arrays, tuple(values[name].tobytes() for name, _ in self.source.scalars)
        )
        public = {a.buffer.name: name for name, a in (*program.inputs.items(), *program.outputs.items())}
        offsets = {slot.buffer.name: slot.offset for slot in program.workspace}
        return HostProgram((library,), public, offsets, program.workspace_bytes)


def time_finalists(
    bound: BoundPipeline,
    target: Target,
    result: SearchResult,
    params: Mapping[str, Scalar] | None = None,
    seconds: float | None = None,
) -> tuple[Trials | None, str]:
    """Time the best schedules of a search and the baseline on this machine's processor, and choose one.

    The best prediction is chosen, unless another finalist is faster beyond noise. The compiled programs are in the
    cache on disk, where `ScheduledPipeline.compile` looks for them.

    Args:
        bound: The pipeline.
        target: This machine's processor.
        result: The search.
        params: Values of run-time parameters; missing ones have their default, or 1.
        seconds: Time limit of this call; None for none.

    Returns:
        The timed finalists, the chosen one first, or None if nothing was timed; and a note for users, or empty.
    """
    deadline = math.inf if seconds is None else time.perf_counter() + seconds - END_S
    best = result.ranked[0]
    if not LEAST_PREDICTED_S <= best.seconds <= TIMING_S / (2 * (LEAST_ROUNDS + 1)):  # False for NaN
        return None, ""
    if deadline - time.perf_counter() < LEAST_S:
        return None, ""
    schedules = _with_baseline(bound, target, result)
    if len(schedules) < 2:
        return None, ""
    signature = CallSignature.of(bound, params)
    worker = WorkerProcess(
        ProgramService(),
        {"OMP_NUM_THREADS": str(target.multiprocessors), "OMP_DYNAMIC": "false"},
        start_timeout_s=max(min(START_S, deadline - time.perf_counter()), 0),
    )
    try:
        with ThreadPoolExecutor(max_workers=1) as starter:
            started = starter.submit(worker.call, "start")  # while programs are lowered
            finalists = [f for r, origin in schedules if (f := _lowered(bound, r, origin)) is not None]
            started.result()
        if len(finalists) < 2 or not _fits_memory(signature, finalists):
            return None, ""
        rounds, timed = _timed(worker, signature, finalists, deadline)
    except (WorkerDied, WorkerTimedOut, MeasureError) as error:
        logger.info("finalists were not timed: %s", error)
        return None, f"the best predictions were not timed: {str(error).splitlines()[0]}"
    finally:
        worker.close()
    return (None, "") if rounds is None else _chosen(timed, rounds, cpu_source(target.multiprocessors))


def _timed(
    worker: WorkerProcess, signature: CallSignature, finalists: Sequence[_Finalist], deadline: float
) -> tuple[Rounds | None, list[_Finalist]]:
    """Compile and time finalists in a process; return the times and the schedules of their columns."""
    limit = min(COMPILE_S, deadline - TIMING_S - time.perf_counter())
    paths = worker.call("compile", [f.source.text for f in finalists], timeout_s=max(limit, 0))
    defaults = {name: value.item() for name, value in signature.defaults.items()}
    scalars = {name: defaults.get(name, 1) for name in signature.scalars}
    ready = [(f, f.compiled(path, scalars)) for f, path in zip(finalists, paths, strict=True) if path is not None]
    if len(ready) < 2:
        return None, []
    arrays = TimedArrays(signature.inputs, signature.outputs)
    limit = max(min(KILL_AFTER_S, deadline - time.perf_counter()), 0)
    rounds: Rounds | None = worker.call("time", [p for _, p in ready], arrays, min(TIMING_S, limit), timeout_s=limit)
    return rounds, [f for f, _ in ready]


def _chosen(finalists: Sequence[_Finalist], rounds: Rounds, source: str) -> tuple[Trials, str]:
    """Return the trials with the chosen one first."""
    seconds = [float(s) for s in np.median(np.asarray(rounds.seconds), axis=0)]
    baseline = next((k for k, f in enumerate(finalists) if f.origin == ROOTS), 0)
    winner = select_winner(rounds, baseline)
    trials = [
        Trial(f.ranked.schedule, f.origin, f.ranked.seconds, s, ranked=f.ranked)
        for f, s in zip(finalists, seconds, strict=False)  # the last ones may not have been timed
    ]
    chosen = trials.pop(winner)
    note = f"timed {1 - rounds.ratio(winner, 0):.0%} faster than the best prediction" if winner else ""
    return Trials(source, (chosen, *sorted(trials, key=lambda t: t.seconds))), note


def select_winner(rounds: Rounds, baseline: int = 0) -> int:
    """Return the column of the chosen candidate.

    The first one is chosen unless others are faster beyond noise: then the fastest of these, or the baseline if it is
    among them and none of them is faster than it beyond noise.

    Args:
        rounds: Times of the candidates.
        baseline: Column of the baseline.
    """
    ahead = [c for c in range(1, len(rounds.seconds[0])) if _is_ahead(rounds, c, 0)]
    if baseline in ahead:
        ahead = [c for c in ahead if _is_ahead(rounds, c, baseline)] or [baseline]
    return min(ahead, key=lambda c: (rounds.ratio(c, 0), c), default=0)


def _is_ahead(rounds: Rounds, one: int, other: int) -> bool:
    """Return whether a candidate is faster than another by the lead, beyond noise."""
    if rounds.ratio(one, other) > LEAD:
        return False
    if len(rounds.seconds) >= CONFIDENT_ROUNDS:
        return rounds.is_faster(one, other)
    times = [[row[c] for row in rounds.seconds] for c in (one, other)]
    return all(max(t) <= STEADY * min(t) for t in times) and max(times[0]) <= LEAD * min(times[1])


def _with_baseline(bound: BoundPipeline, target: Target, result: SearchResult) -> list[tuple[RankedSchedule, str]]:
    """Return the finalists with their origins: the best prediction, the baseline, and the others."""
    baseline = schedule_roots(bound, target)
    best, *others = choose_finalists(result.ranked)
    if best.schedule == baseline:
        return [(best, ROOTS), *((r, SEARCH) for r in others)]
    of_roots = next((r for r in result.ranked if r.schedule == baseline), None)
    of_roots = of_roots or _predicted(baseline, bound, target, result)
    return [(best, SEARCH), (of_roots, ROOTS), *((r, SEARCH) for r in others if r.schedule != baseline)]


def _predicted(schedule: Schedule, bound: BoundPipeline, target: Target, result: SearchResult) -> RankedSchedule:
    """Return a schedule with its time by the model of a search."""
    of_search = result.evaluator
    if of_search is None:
        return RankedSchedule(schedule, math.nan)
    evaluator = KernelEvaluator(bound, target, of_search.model, of_search.settings)
    return RankedSchedule(schedule, predicted_seconds(schedule, evaluator), None, evaluator)


def _lowered(bound: BoundPipeline, ranked: RankedSchedule, origin: str) -> _Finalist | None:
    """Return a schedule with its program; None if it cannot be lowered."""
    try:
        program = lower(bound, ranked.schedule)
        return _Finalist(ranked, origin, program, print_c(program))
    except Exception:  # a schedule that is not chosen must not fail the search
        logger.warning("a finalist cannot be compiled: %r", ranked.schedule, exc_info=True)
        return None


def _fits_memory(signature: CallSignature, finalists: Sequence[_Finalist]) -> bool:
    """Return whether the arrays fit into the share of the free memory."""
    inputs, outputs = (
        sum(prod(s.shape) * s.dtype.bytes_ for s in specs) for specs in (signature.inputs, signature.outputs)
    )
    scratch = max(f.program.workspace_bytes for f in finalists)
    return inputs + COPIES * (inputs + outputs) + scratch <= available_memory_bytes() // MEMORY_SHARE
