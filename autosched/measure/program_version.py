"""The version of the code generator that one program is of, where marked loops set it apart from the others.

Loops that carry a dependence end in a macro (`autosched.codegen.loop_dependence`). Programs without such loops have
the texts that they had before there was one, so their times stay valid: their version is that of the generator, which
leaves marked lines out. That of a program with one has an addition.
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
    return f"{generator}{SEPARATOR}{text_digest([loop_carried()])[:4]}"


def without_addition(version: str) -> str:
    """Return the version of the code generator in the version of a program."""
    return version.partition(SEPARATOR)[0]


def without_marks(text: str) -> str:
    """Return a C text without what marks loops."""
    lines = text.replace(loop_carried(), "").splitlines(keepends=True)
    return "".join(line for line in lines if line.strip() != f"{MARKER};")


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
