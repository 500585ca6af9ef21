"""Kernels of random schedules, lowered and printed, for tests of the simulated device."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from autosched.analysis.bind import bind
from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.apps import get_app
from autosched.codegen.cuda import print_cuda
from autosched.codegen.prelude import called_scalar_functions, scalar_prelude
from autosched.lower.ir import KernelIR
from autosched.lower.program import Program, lower
from autosched.measure.simulated.data import virtual_data
from autosched.measure.simulated.simulate import default_scalars
from autosched.runtime.emulator import ParamSpec, Trace, compile_emulated
from autosched.schedule.types import Schedule
from autosched.search.beam.random_states import RandomStates
from autosched.search.cost.gpu_analytical import AnalyticalModel
from autosched.search.evaluate.evaluator import KernelEvaluator
from autosched.search.settings import SearchSettings
from autosched.target import get_target

H200 = get_target("h200")


def bound_app(name: str, **sizes: int) -> BoundPipeline:
    """Return an app bound to its small sizes, with the given changes."""
    app = get_app(name)
    structure = {"stages": 4, "T": 2}
    pipeline, params = app.configure({k: v for k, v in structure.items() if k in app.structure})
    return bind(pipeline, app.shapes({**app.small_sizes, **sizes}), params)


def random_schedule(bound: BoundPipeline, seed: int, *, varied: bool = False) -> Schedule:
    """Return a random legal schedule; if ``varied``, with aligned tiles and copies of sources."""
    states = RandomStates(KernelEvaluator(bound, H200, AnalyticalModel(H200), SearchSettings()), varied)
    drawn = states.draw_legal(np.random.default_rng(seed))
    assert drawn is not None
    return drawn[1]


def random_program(bound: BoundPipeline, seed: int, *, vectors: bool = False, varied: bool = False) -> Program:
    """Return a random legal schedule, lowered."""
    return lower(bound, random_schedule(bound, seed, varied=varied), vectors=vectors)


def corner_blocks(kernel: KernelIR) -> list[tuple[int, ...]]:
    """Return the first, middle and last block of every loop, all combinations."""
    return list(itertools.product(*(sorted({0, n // 2, n - 1}) for _, n in kernel.grid_loops)))


def emulated(
    program: Program, kernel: KernelIR, blocks: Sequence[tuple[int, ...]] | None
) -> Trace:  # fmt: skip
    """Trace blocks of one kernel, all if None, in the emulator, with memory content as the simulated device has it."""
    printed = print_cuda(kernel)
    specs = [ParamSpec(p.kind, p.dtype.numpy, p.name, p.count) for p in printed.params]  # type: ignore[arg-type]
    prelude = scalar_prelude(called_scalar_functions(printed.body))
    compiled = compile_emulated(printed.body, printed.name, specs, common_prelude=prelude, traced=True)
    scalars = default_scalars(program)
    arguments: list[Any] = [
        scalars[p.name] if p.kind == "scalar" else virtual_data(np.arange(p.count), p.dtype) for p in printed.params
    ]
    counts = [n for _, n in kernel.grid_loops]
    at = None if blocks is None else [_launch_index(position, counts, printed.grid) for position in blocks]
    trace = compiled.launch(printed.grid, printed.block, printed.shared_bytes, arguments, blocks=at)
    assert trace is not None
    return trace


def _launch_index(position: Sequence[int], counts: Sequence[int], grid: tuple[int, int, int]) -> tuple[int, int, int]:
    linear = 0
    for n, k in zip(counts, position, strict=True):
        linear = linear * n + k
    return linear % grid[0], linear // grid[0] % grid[1], linear // (grid[0] * grid[1])
