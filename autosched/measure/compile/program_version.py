"""The code generator's version of one program; programs with compiler workarounds have a separate one.

Loops that carry a dependence end in a macro (`autosched.lower.passes.cpu.loop_dependence`) and keep values for their
next iteration (`autosched.lower.passes.cpu.replace_scalars`); a macro stands around indices that are 0 or 1
(`autosched.lower.passes.cpu.boolean_index`); an attribute stands at kernels that reduce conditions
(`autosched.codegen.basic_block_reductions`). The version of a program with one of these has an addition. Programs
without have the generator's version, so that changes of the workarounds do not invalidate their times. Neither does
the workaround for integers converted back to floating point (`autosched.lower.passes.cpu.converted_integers`), one
instruction each.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache

from autosched.analysis.bound_pipeline import BoundPipeline, BoundStage
from autosched.analysis.indices import index as ix
from autosched.codegen.basic_block_reductions import may_reduce_conditions
from autosched.codegen.c import kernel_text
from autosched.codegen.prelude import WORKAROUNDS, workarounds
from autosched.errors import AutoschedError
from autosched.lower.passes.cpu.boolean_index import may_be_boolean
from autosched.lower.program import lower
from autosched.measure.compile.content_keys import text_digest
from autosched.measure.problem import Problem
from autosched.schedule.io.serialise import from_json
from autosched.schedule.types import Level

SEPARATOR = "+"
REVISION = "kept values"
"""Revision of the workarounds' text."""
_CPU = "cpu"


def program_version(generator: str, problem: Problem, schedule: str, target: str) -> str:
    """Return the version of a program's times.

    Args:
        generator: Version of the code generator, without an addition.
        problem: The pipeline.
        schedule: One line of JSON. An illegal schedule has no code, and no addition.
        target: Name of the schedule's target.
    """
    return marked_version(generator) if target == _CPU and _is_guarded(problem, schedule) else generator


def marked_version(generator: str) -> str:
    """Return the version of programs with compiler workarounds."""
    return f"{generator}{SEPARATOR}{text_digest([workarounds(' '.join(WORKAROUNDS)), REVISION])[:4]}"


def without_addition(version: str) -> str:
    """Return a program's version without the addition."""
    return version.partition(SEPARATOR)[0]


@lru_cache(maxsize=1 << 14)
def _is_guarded(problem: Problem, schedule: str) -> bool:
    if f'"level":"{Level.MAINLOOP.key}"' not in schedule and not _may_be_guarded(problem):
        return False
    bound = problem.bind()
    try:
        kernels = lower(bound, from_json(schedule, bound)).kernels
    except AutoschedError:
        return False
    return any(workarounds(kernel_text(k)) for k in kernels)


@lru_cache(maxsize=256)
def _may_be_guarded(problem: Problem) -> bool:
    """Whether a pipeline has updates, indices that may be 0 or 1, or reductions of conditions.

    Without updates, a loop carries a dependence only in arrays of several steps.
    """
    bound: BoundPipeline = problem.bind()
    stages = [stage for f in bound.funcs.values() for stage in f.stages]
    if any(stage.is_update for stage in stages) or may_reduce_conditions(stages):
        return True
    return any(map(may_be_boolean, _indices(stages)))


def _indices(stages: Iterable[BoundStage]) -> Iterator[ix.Index]:
    for stage in stages:
        for e in (*stage.indices, *(i for load, _ in stage.loads for i in load.indices)):
            if id(e) in stage.memo:
                yield stage.memo[id(e)]
