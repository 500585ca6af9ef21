"""Random legal schedules of every suite app, judged by all witnesses; prints coverage and exits 1 on any difference.

    python scripts/check_suite.py [--schedules 200] [--apps blur,harris] [--seed 0] [--emulate 25] [--no-nvrtc]

Each schedule runs through the C backend and is compared bit for bit with the NumPy interpreter; every ``--emulate``-th
also through the CUDA emulator; NVRTC compiles every distinct kernel for sm_90.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from autosched.analysis.bind import bind
from autosched.apps import App, get_app, load_apps
from autosched.codegen.cuda import print_cuda
from autosched.errors import AutoschedError
from autosched.lower.ir import If
from autosched.lower.program import Program, lower
from autosched.reference import interpret
from autosched.runtime.cpu import CpuExecutable
from autosched.runtime.emulated import EmulatedExecutable
from autosched.runtime.nvrtc_pool import compile_many
from autosched.schedule.sample import SampleStats, sample_schedule
from autosched.schedule.types import Level, Schedule
from autosched.target import get_target

Arrays = dict[str, np.ndarray[Any, Any]]
CHAIN_STAGES = 6  # of stencil_chain: every pair of neighbouring stages is alike


@dataclass
class Tally:
    """What the schedules of one app covered."""

    stats: SampleStats = field(default_factory=SampleStats)
    counts: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)
    sources: dict[str, str] = field(default_factory=dict)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--schedules", type=int, default=200)
    parser.add_argument("--apps", default=",".join(load_apps()))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--emulate", type=int, default=4, metavar="N", help="emulate every Nth schedule (0: none)")
    parser.add_argument("--no-nvrtc", action="store_true")
    args = parser.parse_args()
    failures = 0
    for name in args.apps.split(","):
        start = time.perf_counter()
        tally = check_app(get_app(name), args.schedules, args.seed, args.emulate)
        if not args.no_nvrtc:
            compile_all(tally)
        report(name, tally, time.perf_counter() - start)
        failures += len(tally.failures)
    sys.exit(1 if failures else 0)


def check_app(app: App, schedules: int, seed: int, emulate: int) -> Tally:
    """Run random schedules of an app at its small size."""
    tally = Tally()
    pipeline, params = app.configure({"stages": CHAIN_STAGES} if "stages" in app.structure else {})
    inputs = app.make_inputs(app.small_sizes, 0)
    bound = bind(pipeline, {n: a.shape for n, a in inputs.items()}, params)
    expected = interpret(pipeline, inputs, params)
    scalars = {p.name: params.get(p.name, p.default) for p in bound.scalars}
    target = get_target("h200")
    for k in range(schedules):
        try:
            schedule = sample_schedule(bound, target, np.random.default_rng((seed, k)), tally.stats)
            program = lower(bound, schedule)
            witnesses: dict[str, Any] = {"C": CpuExecutable(program)}
            if emulate and k % emulate == 0:
                witnesses["emulator"] = EmulatedExecutable(program, seed=k)
            for label, executable in witnesses.items():
                tally.counts[f"runs through {label}"] += 1
                for n, array in run(program, executable, inputs, scalars).items():
                    if not same_bits(array, expected[n]):
                        tally.failures.append(f"schedule {k}: {label} differs from the interpreter in {n}")
        except AutoschedError as e:
            tally.failures.append(f"schedule {k}: {e}")
            continue
        cover(tally, schedule, program)
        for kernel in program.kernels:
            printed = print_cuda(kernel)
            tally.sources[printed.source] = printed.name
    return tally


def run(program: Program, executable: Any, inputs: Arrays, scalars: dict[str, Any]) -> Arrays:
    """Run a backend on fresh outputs."""
    outputs = {n: np.zeros(a.extents, a.buffer.dtype.numpy) for n, a in program.outputs.items()}
    executable.run(inputs, outputs, scalars)
    return outputs


def same_bits(a: np.ndarray[Any, Any], b: np.ndarray[Any, Any]) -> bool:
    """Whether two arrays are equal in every bit, NaNs of any payload being equal."""
    if a.dtype.kind != "f":
        return bool(np.array_equal(a, b))
    nan = np.isnan(a) & np.isnan(b)
    return bool(np.all(nan | ((a == b) & (np.signbit(a) == np.signbit(b)))))


def cover(tally: Tally, schedule: Schedule, program: Program) -> None:
    """Count what a schedule exercises."""
    readers: Counter[str] = Counter()
    for name, func in program.bound.funcs.items():
        readers[name] = len(func.consumers)
    for kernel, ir in zip(schedule.kernels, program.kernels, strict=True):
        tally.counts["kernels"] += 1
        tally.counts["kernels with an interior of their own"] += any(isinstance(s, If) and s.uniform for s in ir.body)
        tally.counts["kernels with shared memory"] += ir.shared_bytes > 0
        hosts = {m.func: m.at.host.func for m in kernel.members}
        depth = max((chain_length(m.func, hosts) for m in kernel.members), default=0)
        tally.counts[f"kernels with members {depth} deep"] += depth > 0
        tally.counts["members with several consumers"] += sum(readers[m.func] > 1 for m in kernel.members)
        tally.counts["members at THREAD"] += sum(m.at.level is Level.THREAD for m in kernel.members)


def chain_length(name: str, hosts: dict[str, str]) -> int:
    """Return how many Members a Member is nested in, itself included."""
    length = 0
    while name in hosts:
        name, length = hosts[name], length + 1
    return length


def compile_all(tally: Tally) -> None:
    """Compile every distinct kernel for sm_90."""
    names = list(tally.sources.values())
    for name, result in zip(names, compile_many(list(tally.sources), "sm_90", names=names), strict=True):
        tally.counts["kernels compiled by NVRTC"] += 1
        if isinstance(result, Exception):
            tally.failures.append(f"NVRTC refused {name}: {result}")


def report(name: str, tally: Tally, seconds: float) -> None:
    """Print one app's coverage."""
    print(f"{name}: {len(tally.failures)} failures in {seconds:.0f} s")
    chosen = ", ".join(f"{level} {tally.stats.chosen[level]} of {n}" for level, n in tally.stats.offered.items())
    print(f"  chosen of offered: {chosen}")
    for what, n in sorted(tally.counts.items()):
        print(f"  {what}: {n}")
    rejected: Counter[str] = Counter()
    for reason, n in tally.stats.rejected.items():
        rejected[reason.partition(":")[0]] += n
    print(f"  rejected candidates: {dict(rejected)}")
    for failure in tally.failures[:10]:
        print(f"  FAILED {failure}")


if __name__ == "__main__":
    main()
