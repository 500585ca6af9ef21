"""The three witnesses of small pipelines of a family: interpreter, C backend and CUDA emulator."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.apps.agreement import comparison_for, has_one_result
from autosched.apps.tolerance import Tolerance
from autosched.lang.dtypes import is_float_dtype
from autosched.lower.program import Program, lower
from autosched.random_pipelines import RandomPipeline, random_pipeline
from autosched.random_pipelines.settings import SMALL
from autosched.reference import interpret
from autosched.runtime.backends.cpu import CpuExecutable
from autosched.runtime.backends.emulator import EmulatedExecutable
from autosched.schedule.sampling.random_schedule import sample_schedule
from autosched.schedule.types import Schedule
from autosched.target import get_target

TOLERANCE = Tolerance(rtol=1e-2, atol=1e-3, bad_fraction=0.03)
"""For functions that libraries round differently, sums in another order, and comparisons that these flip."""
TARGETS = ("h200", "cpu")


def small_pipeline(family: str, seed: int) -> RandomPipeline:
    """Return a pipeline of a family that is small enough for interpreter and emulator."""
    return random_pipeline(seed, replace(SMALL, stages=(1, 5), families={family: 1.0}))


def disagreements(p: RandomPipeline, seed: int) -> tuple[list[str], list[Program]]:
    """Run a pipeline under a random schedule for each target; return what differs, and the programs for the GPU."""
    bound, inputs = p.bind(), p.inputs(np.random.default_rng(seed))
    expected = interpret(p.pipeline, inputs, p.params)
    scalars = {s.name: p.params[s.name] for s in bound.scalars}
    wrong = [
        f"{name} is not finite" for name, a in expected.items() if is_float_dtype(a.dtype) and not np.isfinite(a).all()
    ]
    for_gpu: list[Program] = []
    for target in TARGETS:
        schedule = sample_schedule(bound, get_target(target), np.random.default_rng(seed), varied=target != "cpu")
        program = lower(bound, schedule)
        executables: list[CpuExecutable | EmulatedExecutable] = [CpuExecutable(program)]
        if target != "cpu":
            executables.insert(0, EmulatedExecutable(program, seed=seed))
            for_gpu.append(program)
        for executable in executables:
            outputs = {n: np.zeros(b.extents, b.buffer.dtype.numpy) for n, b in program.outputs.items()}
            executable.run(inputs, outputs, scalars)
            for name, array in outputs.items():
                if what := _difference(bound, schedule, array, expected[name]):
                    wrong.append(f"{type(executable).__name__}, {target}, {name}: {what}")
    return wrong, for_gpu


def _difference(bound: BoundPipeline, schedule: Schedule, got: np.ndarray, expected: np.ndarray) -> str | None:
    """Return how an output differs: in bits where all operations and their order have one result, else in value."""
    compared = comparison_for(bound, schedule) if has_one_result(bound.pipeline) else None
    if compared is None:
        return TOLERANCE.mismatch(got, expected)
    count = int((~compared(got, expected)).sum())
    return f"{count} of {got.size} elements differ" if count else None
