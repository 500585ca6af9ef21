"""Schedules of small pipelines with labels by a formula of loops that does not use features."""

from __future__ import annotations

import functools
from math import prod

import numpy as np

from autosched.measure.compile.content_keys import schedule_text
from autosched.measure.problem import Problem
from autosched.model.data.samples import Sample
from autosched.random_pipelines import RandomPipelineSettings
from autosched.schedule.types import Kernel, LoopKind
from autosched.search.beam.random_states import RandomStates
from autosched.search.cost.gpu_analytical import analytical_model
from autosched.search.evaluate.evaluator import KernelEvaluator
from autosched.search.settings import SearchSettings
from autosched.target import Target, get_target

H200 = get_target("h200")
SOURCE = "simulated:formula"
SMALL = RandomPipelineSettings(stages=(2, 5), extents=(16, 96), channels=(1, 4), max_points=1 << 16)


def kernel_seconds(kernel: Kernel) -> float:
    """Return a time that grows with the work, and with the share of few threads."""
    threads = prod(p.extent for p in kernel.roots[0].tiling.loops if p.kind is LoopKind.THREAD)
    work = sum(prod(p.extent for p in t.loops) for t in kernel.tilings())
    return 2e-6 + 1e-10 * work * (1 + 64 / threads)


def sample(problem: Problem, family: str, count: int, target: Target, seed: int = 0) -> list[Sample]:
    """Return labelled random schedules of a problem."""
    bound = problem.bind()
    states = RandomStates(KernelEvaluator(bound, target, analytical_model(target), SearchSettings()), varied=True)
    rng = np.random.default_rng(seed)
    found: dict[str, Sample] = {}
    for _ in range(count):
        drawn = states.draw_legal(rng)
        if drawn is None:
            continue
        text = schedule_text(bound, drawn[1])
        seconds = tuple(kernel_seconds(k) for k in drawn[1].kernels)
        total = sum(seconds) * (1 + 1e-6 * len(found))  # no two alike
        registers = tuple(16 + 12 * len(k.tilings()) for k in drawn[1].kernels)
        found[text] = Sample(
            problem, family, text, SOURCE, total, seconds, registers, tuple(0 for _ in seconds)
        )  # fmt: skip
    return list(found.values())


@functools.cache
def samples(pipelines: int = 6, count: int = 12, target: str = "h200") -> tuple[Sample, ...]:
    """Return labelled schedules of random pipelines and of two apps."""
    chosen = get_target(target)
    found = [s for k in range(pipelines) for s in sample(Problem.random(k, SMALL), f"random {k}", count, chosen)]
    for app in ("blur", "unsharp"):
        found += sample(Problem.app(app, small=True), app, count, chosen)
    return tuple(found)
