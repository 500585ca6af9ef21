"""Run random legal schedules of every suite app through all backends; prints coverage, exits 1 on any difference.

    python scripts/check_suite.py [--schedules 200] [--apps blur,harris] [--seed 0] [--jobs 2] [--no-nvrtc]

Each schedule runs through the C backend and the CUDA emulator. Results are compared with the NumPy interpreter, bit for
bit unless the app calls functions such as exp, which libraries round differently. NVRTC compiles every distinct kernel
for sm_90. A failure names its seed: ``--seed N --schedules 1`` repeats it.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from autosched.analysis.bind import bind
from autosched.apps import get_app, load_apps
from autosched.apps.agreement import disagreement
from autosched.codegen.cuda import print_cuda
from autosched.errors import AutoschedError
from autosched.lower.ir import If
from autosched.lower.program import Program, lower
from autosched.reference import interpret
from autosched.runtime.backends.cpu import CpuExecutable
from autosched.runtime.backends.emulator import EmulatedExecutable
from autosched.runtime.compile.nvrtc_pool import compile_many
from autosched.schedule.sampling.random_schedule import SampleStats, sample_schedule
from autosched.schedule.types import Level, Schedule
from autosched.target import get_target

Arrays = dict[str, np.ndarray[Any, Any]]
CHAIN = {"stages": 6}  # of stencil_chain, whose pairs of neighbouring stages are all equal
SEEDS_A_PART = 10


@dataclass
class Tally:
    """Coverage of an app's schedules."""

    stats: SampleStats = field(default_factory=SampleStats)
    counts: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)

    def add(self, other: Tally) -> None:
        """Add the counts of another tally."""
        for name in ("chosen", "offered", "rejected"):
            getattr(self.stats, name).update(getattr(other.stats, name))
        self.counts.update(other.counts)
        self.failures += other.failures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--schedules", type=int, default=200, help="schedules of each app")
    parser.add_argument("--apps", default=",".join(load_apps()), help="names of apps, separated by commas")
    parser.add_argument("--seed", type=int, default=0, help="seed of the first schedule; further seeds follow")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)), help="processes")
    parser.add_argument("--no-nvrtc", action="store_true", help="skip the compilation for the GPU")
    args = parser.parse_args()
    os.environ |= {"OMP_NUM_THREADS": "2", "OMP_WAIT_POLICY": "passive"}
    failures = 0
    with tempfile.TemporaryDirectory() as cache:  # random kernels are not worth caching
        os.environ["AUTOSCHED_CACHE_DIR"] = cache
        for name in args.apps.split(","):
            start = time.perf_counter()
            tally = check_in_processes(name, range(args.seed, args.seed + args.schedules), args.jobs, not args.no_nvrtc)
            report(name, tally, time.perf_counter() - start)
            failures += len(tally.failures)
    sys.exit(1 if failures else 0)


def check_in_processes(name: str, seeds: range, jobs: int, nvrtc: bool) -> Tally:
    """Check an app in several processes."""
    tally = Tally()
    parts = [seeds[k : k + SEEDS_A_PART] for k in range(0, len(seeds), SEEDS_A_PART)]
    with ProcessPoolExecutor(
        jobs, max_tasks_per_child=SEEDS_A_PART
    ) as pool:  # a process never unloads compiled libraries
        for part in [pool.submit(check_app, name, part, nvrtc=nvrtc) for part in parts]:
            tally.add(part.result())
    return tally


def check_app(
    name: str, seeds: Sequence[int], *, nvrtc: bool = True, settings: Mapping[str, Any] | None = None
) -> Tally:
    """Check an app's random schedules of some seeds at its small size; settings are parameters of the app."""
    tally = Tally()
    app = get_app(name)
    if settings is None:
        settings = CHAIN if "stages" in app.structure else {}
    pipeline, params = app.configure(settings)
    inputs = app.make_inputs(app.small_sizes, 0)
    bound = bind(pipeline, {n: a.shape for n, a in inputs.items()}, params)
    expected = interpret(pipeline, inputs, params)
    scalars = {p.name: params.get(p.name, p.default) for p in bound.scalars}
    target = get_target("h200")
    sources: dict[str, str] = {}
    for seed in seeds:
        try:
            schedule = sample_schedule(bound, target, np.random.default_rng(seed), tally.stats, varied=True)
            program = lower(bound, schedule)
            for witness in (EmulatedExecutable(program, seed=seed), CpuExecutable(program)):
                tally.counts[f"runs through {type(witness).__name__}"] += 1
                for n, array in run(program, witness, inputs, scalars).items():
                    what = disagreement(pipeline, app.tolerance, array, expected[n])
                    if what:
                        tally.failures.append(f"seed {seed}: {type(witness).__name__}, {n}: {what}")
        except AutoschedError as e:
            tally.failures.append(f"seed {seed}: {e}")
            continue
        cover(tally, schedule, program)
        for kernel in program.kernels:
            printed = print_cuda(kernel)
            sources[printed.source] = printed.name
    if nvrtc:
        compile_all(tally, sources)
    return tally


def run(program: Program, executable: Any, inputs: Arrays, scalars: dict[str, Any]) -> Arrays:
    """Run a backend on fresh outputs."""
    outputs = {n: np.zeros(a.extents, a.buffer.dtype.numpy) for n, a in program.outputs.items()}
    executable.run(inputs, outputs, scalars)
    return outputs


def cover(tally: Tally, schedule: Schedule, program: Program) -> None:
    """Count the features of a schedule."""
    readers = {name: len(func.consumers) for name, func in program.bound.funcs.items()}
    for kernel, ir in zip(schedule.kernels, program.kernels, strict=True):
        tally.counts["kernels"] += 1
        tally.counts["kernels with interior and boundary code"] += any(isinstance(s, If) and s.uniform for s in ir.body)
        tally.counts["kernels with shared memory"] += ir.shared_bytes > 0
        hosts = {m.func: m.at.host.func for m in kernel.fused}
        depth = max((chain_length(m.func, hosts) for m in kernel.fused), default=0)
        if depth:
            tally.counts[f"kernels with fused producers {depth} deep"] += 1
        several = sum(readers.get(m.func, 0) > 1 for m in kernel.fused)  # cache reads are not in the pipeline
        tally.counts["fused producers with several consumers"] += several
        tally.counts["cache reads"] += len(kernel.cache_reads)
        tally.counts["fused producers at THREAD"] += sum(m.at.level is Level.THREAD for m in kernel.fused)
        for root in kernel.roots:
            func = program.bound.funcs[root.tiling.stage.func]
            for dim, extent in zip(func.dims, func.extents, strict=True):
                tally.counts["partial tiles" if root.tiling.extent(dim) > extent else "whole tiles"] += 1


def chain_length(name: str, hosts: dict[str, str]) -> int:
    """Return the nesting depth of a fused producer, itself included."""
    length = 0
    while name in hosts:
        name, length = hosts[name], length + 1
    return length


def compile_all(tally: Tally, sources: Mapping[str, str]) -> None:
    """Compile kernels for sm_90, given as texts with names."""
    names = list(sources.values())
    for name, result in zip(names, compile_many(list(sources), "sm_90", names=names), strict=True):
        tally.counts["kernels compiled by NVRTC"] += 1
        if isinstance(result, Exception):
            tally.failures.append(f"NVRTC refused {name}: {result}")
        else:
            tally.counts["kernels that spill registers"] += result.kernels[name].spill_store_bytes > 0


def report(name: str, tally: Tally, seconds: float) -> None:
    """Print one app's coverage."""
    print(f"{name}: {len(tally.failures)} failures in {seconds:.0f} s")
    chosen = ", ".join(f"{level} {tally.stats.chosen[level]} of {n}" for level, n in tally.stats.offered.items())
    print(f"  chosen of offered: {chosen}")
    for what, n in sorted(tally.counts.items()):
        print(f"  {what}: {n}")
    rejected: Counter[str] = Counter()
    for reason, n in tally.stats.rejected.items():
        rejected[re.sub(r"\w*\d\w*", "#", reason)] += n
    print(f"  rejected candidates: {rejected.total()}")
    for reason, n in rejected.most_common(3):
        print(f"    {n} {reason}")
    for failure in tally.failures[:10]:
        print(f"  FAILED {failure}")
