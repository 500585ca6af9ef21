"""Step: schedules and machine code for all steps that run kernels, compiled ahead of time; needs no GPU.

While samples are collected, the GPU would mostly wait for the compiler. Schedules are therefore generated and compiled
on a cheap machine with the same version of NVRTC; a campaign on the GPU reads both from its directory.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field

from autosched.errors import AutoschedError
from autosched.measure.backends.cuda import CudaBackend
from autosched.measure.compile.compile_candidate import compile_kernels, emit
from autosched.measure.job import Job
from autosched.measure.problem import Problem
from autosched.runtime.compile.nvrtc import NvrtcOptions
from autosched.settings import settings
from autosched.target import Target
from campaign.context import Context, Outcome
from campaign.cubin_bundle import CODE_FILE, pack_code, unpack_code
from campaign.files import DRAWN_FILE
from campaign.kernel_samples import samples_for
from campaign.precomputed_schedules import read_drawn, write_drawn
from campaign.problems import target_of
from campaign.results import Part
from campaign.sources import schedules_of
from campaign.suite import cases
from campaign.timing import wanted_parts
from campaign.worker_pool import Lost, do_parts

_LIMIT_S = 120.0
_PACKING_SHARE = 0.15
_SHARE_TO_DRAW = 0.9
"""Share of the compile time after which generation stops."""


@dataclass(frozen=True)
class Compiler:
    """Compiles schedules into the cache, in a worker process.

    Attributes:
        target: Target of the schedules.
    """

    target: Target

    def compile(self, work: tuple[Job, bool]) -> Part:
        """Compile a schedule for measurement and, on request, for calls from Python."""
        job, is_called = work
        try:
            CudaBackend(self.target.name).prepare(job)
            if is_called:
                compile_kernels(emit(job).distinct_kernels, job.target.arch, NvrtcOptions())
        except AutoschedError as error:
            return {"error": f"{type(error).__name__}: {error}"}
        return {}


@dataclass
class Ahead:
    """The sequence of schedules to compile.

    Args:
        context: The step.
        target: Target of the schedules.
        deadline: End of candidate generation, by `time.monotonic`.
        drawn: Schedules for `collect`, including those of earlier calls, by the text of their problem.

    Attributes:
        errors: Number of failed compilations, by the error's first line.
        compiled: Number of compiled schedules.
    """

    context: Context
    target: Target
    deadline: float
    drawn: dict[str, list[tuple[str, str]]]
    errors: Counter[str] = field(default_factory=Counter)
    compiled: int = 0
    _waiting: Counter[str] = field(default_factory=Counter)

    def works(self) -> Iterator[tuple[str, tuple[Job, bool]]]:
        """Yield arguments of `Compiler.compile`: schedules of every kind of kernel, of `timing`, of `suite`, then
        enough schedules for `collect`.
        """
        for s in samples_for(self.context, self.deadline):
            yield s.name, (Job(Problem.parse(s.problem), s.schedule, self.target), True)
        for name, timed in wanted_parts(self.context):
            yield name, (Job(Problem.parse(timed.problem), timed.schedule, self.target), timed.is_first)
        for name, case in cases(self.context, until=self.deadline):
            for schedule in case.schedules.values():
                yield name, (Job(Problem.parse(case.problem), schedule, self.target), True)
        have = sum(part["schedules"] for part in self.context.parts.values())
        with closing(schedules_of(self.context, self.target, self.deadline)) as found:
            for problem, drawn in found:
                if have >= self.context.options.samples:
                    return
                have += len(drawn.schedules)
                text = problem.text()
                self.drawn[text] = list(drawn.schedules)
                self._waiting[text] = len(drawn.schedules)
                for _, schedule in drawn.schedules:
                    yield text, (Job(problem, schedule, self.target), False)

    def note(self, name: str, part: Part | Lost) -> None:
        """Record the result of one compilation."""
        error = part.message if isinstance(part, Lost) else part.get("error", "")
        if error:
            self.errors[error.splitlines()[0]] += 1
        else:
            self.compiled += 1
        if name in self._waiting:
            self._waiting[name] -= 1
            if not self._waiting[name]:
                self.context.record(name, {"schedules": len(self.drawn[name])})


def run(context: Context) -> Outcome:
    """Compile until there are enough schedules or the time is over."""
    options = context.options
    target = target_of(options)
    cache, code = settings().require_cache_dir(), options.out_path / CODE_FILE
    unpack_code(code, cache)
    until = time.monotonic() + (1 - _PACKING_SHARE) * context.remaining
    ahead = Ahead(
        context, target, time.monotonic() + _SHARE_TO_DRAW * (until - time.monotonic()),
        read_drawn(options.out_path / DRAWN_FILE),
    )  # fmt: skip
    done = do_parts(
        Compiler(target), "compile", ahead.works(), processes=options.processes, limit_s=_LIMIT_S, deadline=until
    )
    for name, part in done:
        ahead.note(name, part)
    write_drawn(options.out_path / DRAWN_FILE, ahead.drawn)
    entries = pack_code(cache, code, round(options.code_mib * (1 << 20)))
    have = sum(part["schedules"] for part in context.parts.values())
    wrong = "".join(f"; {n} times {error}" for error, n in ahead.errors.most_common(3))
    message = (
        f"{have} schedules to be collected, {ahead.compiled} schedules compiled now, {entries} files in {CODE_FILE} "
        f"({code.stat().st_size / (1 << 20):.1f} MiB){wrong}"
    )
    return Outcome(have >= options.samples, message)
