"""Code differencing: kernels timed against forms of them whose accesses to global memory hit in caches.

Section IV of the Artemis paper. A kernel that is faster when all its blocks access one tile
(`autosched.lower.passes.confine_accesses`) is bound by the bandwidth of DRAM. The confined kernels compute garbage into
arrays of the measurement, which is never checked or kept.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.codegen.c import ENTRY, print_c
from autosched.errors import InputError
from autosched.host import read_host
from autosched.lang.expr import Scalar
from autosched.lower.ir import KernelIR
from autosched.lower.passes.confine_accesses import confine_accesses
from autosched.lower.program import Program, lower
from autosched.measure.problem import Problem
from autosched.runtime.backends.cpu import scalar_arguments
from autosched.runtime.backends.factory import compile_pipeline
from autosched.runtime.call.signature import CallSignature, output_specs
from autosched.runtime.compile.host_compiler import compile_shared_library
from autosched.runtime.timing.host_arrays import HostArrays
from autosched.runtime.timing.host_timer import HostLibrary, HostProgram, HostTimer
from autosched.runtime.timing.interleaved import RoundsRule, time_interleaved
from autosched.runtime.timing.statistics import median_interval
from autosched.schedule.rewrites import apply_rewrites
from autosched.schedule.types import Schedule
from autosched.target import Target

RULE = RoundsRule(least=7, most=31, most_seconds=4.0)


@dataclass(frozen=True, slots=True)
class KernelDifference:
    """A kernel's time, and that of its confined form.

    Attributes:
        name: The kernel.
        seconds: Median time of the kernel.
        confined_seconds: Median time of its confined form; NaN if there is none.
        ratio: Median over rounds of the confined form's time over that of the kernel; NaN without one.
        interval: 95 % confidence interval of the ratio.
        problem: Reason for a missing form, or empty.
    """

    name: str
    seconds: float
    confined_seconds: float
    ratio: float
    interval: tuple[float, float]
    problem: str = ""


def difference_kernels(
    bound: BoundPipeline, schedule: Schedule, target: Target, params: Mapping[str, Scalar] | None = None,
    *, rule: RoundsRule = RULE, seed: int = 0,
) -> tuple[KernelDifference, ...]:  # fmt: skip
    """Time each kernel of a schedule and its confined form, in turns, on cold inputs, on the target's device.

    Args:
        bound: The pipeline with its shapes, without the schedule's rewrites.
        schedule: A legal schedule.
        target: Its device, which must be that of this machine.
        params: Values of parameters.
        rule: Limits of the rounds.
        seed: Seed of the inputs.

    Raises:
        CompileError: If a compiler is missing or refuses the code.
        LaunchError: If there is no such GPU, or too little memory.
    """
    program = lower(apply_rewrites(bound, schedule), schedule)
    threads = target.multiprocessors if target.kind == "cpu" else 1
    confined, problems = confined_program(program, threads)
    problem = Problem.of(bound, params)
    times = _on_host if target.kind == "cpu" else _on_gpu
    one, other = times(problem, (program, confined), target, rule, seed)
    return tuple(
        _difference(k.name, a, b, problems.get(k.name, "")) for k, a, b in zip(program.kernels, one, other, strict=True)
    )


def confined_program(program: Program, threads: int = 1) -> tuple[Program, dict[str, str]]:
    """Return a program of confined kernels, and the reasons of those that stay as they are, by name.

    Args:
        program: The program.
        threads: Threads of the host that share the blocks; 1 on a GPU.
    """
    problems: dict[str, str] = {}

    def confined(kernel: KernelIR) -> KernelIR:
        try:
            return confine_accesses(kernel, threads)
        except InputError as error:
            problems[kernel.name] = str(error)
            return kernel

    return replace(program, kernels=tuple(map(confined, program.kernels))), problems


Times = list[list[float]]
"""Seconds of each kernel, by round."""


def _on_host(
    problem: Problem, programs: tuple[Program, Program], target: Target, rule: RoundsRule, seed: int
) -> tuple[Times, Times]:
    opened = problem.opened()
    arrays = HostArrays(opened.make_inputs(seed), output_specs(opened.bound), read_host())
    arrays.scratch(max(p.workspace_bytes for p in programs))
    timer = HostTimer(arrays)
    # the programs themselves first, so that confined kernels read what they store
    copies = [timer.warmed(_compiled(p, scalar_arguments(p, opened.scalars))) for p in programs]
    return _in_turns([lambda: timer.run(copies[0]), lambda: timer.run(copies[1])], rule)


def _compiled(program: Program, values: Mapping[str, NDArray[Any]]) -> HostProgram:
    """Return a program with each kernel as a library of its own."""
    libraries = []
    for kernel in program.kernels:
        source = print_c(replace(program, kernels=(kernel,)))
        scalars = tuple(values[name].tobytes() for name, _ in source.scalars)
        path = compile_shared_library(source.canonical_text, "c")
        libraries.append(HostLibrary(str(path), ENTRY, source.arrays, scalars))
    public = {a.buffer.name: name for name, a in (*program.inputs.items(), *program.outputs.items())}
    offsets = {slot.buffer.name: slot.offset for slot in program.workspace}
    return HostProgram(tuple(libraries), public, offsets, program.workspace_bytes)


def _on_gpu(
    problem: Problem, programs: tuple[Program, Program], target: Target, rule: RoundsRule, seed: int
) -> tuple[Times, Times]:
    opened = problem.opened()
    signature = CallSignature.of(opened.bound, opened.scalars)
    inputs = opened.make_inputs(seed)
    each = rule.most_seconds / (2 * rule.least)
    compiled = [
        compile_pipeline(opened.bound, partial(_itself, program), signature, target, "cuda") for program in programs
    ]

    def run(number: int) -> list[float]:
        return list(compiled[number].benchmark(inputs, seconds=each).kernel_seconds.values())

    return _in_turns([lambda: run(0), lambda: run(1)], replace(rule, most=rule.least))


def _itself(program: Program) -> Program:
    return program


def _in_turns(runs: Sequence[Callable[[], list[float]]], rule: RoundsRule) -> tuple[Times, Times]:
    """Return the seconds of each kernel of two programs that run alternately."""
    rounds: tuple[Times, Times] = ([], [])

    def sample(number: int) -> float:
        rounds[number].append(runs[number]())
        return sum(rounds[number][-1])

    time_interleaved([lambda: sample(0), lambda: sample(1)], rule, time.perf_counter)
    return _by_kernel(rounds[0]), _by_kernel(rounds[1])


def _by_kernel(rounds: Times) -> Times:
    return [list(times) for times in zip(*rounds, strict=True)]


def _difference(name: str, one: Sequence[float], other: Sequence[float], problem: str) -> KernelDifference:
    if problem:
        nothing = float("nan")
        return KernelDifference(name, float(np.median(one)), nothing, nothing, (nothing, nothing), problem)
    ratios = np.asarray(other) / np.asarray(one)
    return KernelDifference(
        name, float(np.median(one)), float(np.median(other)), float(np.median(ratios)), median_interval(ratios.tolist())
    )
