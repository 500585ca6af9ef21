"""The version of the code generator that one program is of, where loops that carry a dependence set it apart.

Such loops end in a macro (`autosched.codegen.loop_dependence`) and keep values for their next iteration
(`autosched.codegen.carried_values`). Programs without them have the texts that they had before there was either, so
their times stay valid: their version is that of the generator, which prints all loops as if they carried nothing. That
of a program with one has an addition.
"""

from __future__ import annotations

from functools import lru_cache

from autosched.analysis.bound import BoundPipeline
from autosched.codegen.c import MARKER, kernel_text
from autosched.codegen.prelude import loop_carried
from autosched.errors import AutoschedError
from autosched.lower.program import lower
from autosched.measure.keys import text_digest
from autosched.measure.problem import Problem
from autosched.schedule.serialise import from_json
from autosched.schedule.types import Level

SEPARATOR = "+"
REVISION = "kept values"
"""Changes with the text of programs with marked loops."""
_CPU = "cpu"


def program_version(generator: str, problem: Problem, schedule: str, target: str) -> str:
    """Return the version that a program's times are of.

    Args:
        generator: Version of the code generator, without an addition.
        problem: The pipeline.
        schedule: One line of JSON. One that is not legal has no code, and no addition.
        target: Name of the target that it was made for.
    """
    return marked_version(generator) if target == _CPU and _carries(problem, schedule) else generator


def marked_version(generator: str) -> str:
    """Return the version of programs with marked loops."""
    return f"{generator}{SEPARATOR}{text_digest([loop_carried(), REVISION])[:4]}"


def without_addition(version: str) -> str:
    """Return the version of the code generator in the version of a program."""
    return version.partition(SEPARATOR)[0]


@lru_cache(maxsize=1 << 14)
def _carries(problem: Problem, schedule: str) -> bool:
    if f'"level":"{Level.STREAM.name.lower()}"' not in schedule and not _updates(problem):
        return False
    bound = problem.bind()
    try:
        kernels = lower(bound, from_json(schedule, bound)).kernels
    except AutoschedError:
        return False
    return any(f"{MARKER};" in kernel_text(k) for k in kernels)


@lru_cache(maxsize=256)
def _updates(problem: Problem) -> bool:
    """Whether a pipeline has updates; without any, a loop carries a dependence only in arrays of several steps."""
    bound: BoundPipeline = problem.bind()
    return any(stage.is_update for f in bound.funcs.values() for stage in f.stages)
