"""Simulated times of an app's schedules, kernel by kernel, with the analytical model's predictions.

    python scripts/simulate.py harris [--strategy roots,sioutas,forma,beam] [--target h200] [--random 5] [--seed 0]
    python scripts/simulate.py local_laplacian --random 20 --speed     # kernels a second, and time by step
    python scripts/simulate.py harris --random 3 --strategy '' --sass  # counts against machine code

Times are in microseconds and include no noise. Columns: the kernel's time, the analytical model's, and the longest
part; resident blocks and waves; registers and spilled bytes; sectors a load request; shares of loaded sectors that miss
the first and the second cache; bytes moved from and to DRAM, in MB; then the time each unit would take alone.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from sass.disassembly import NoDisassembler, disassemble, find_nvdisasm
from sass.launches import PointerArgument, ScalarArgument, launch_of
from sass.machine import MachineError, run_block
from sass.measure import block_at, interior_block

from autosched.analysis.bind import bind
from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.apps import get_app
from autosched.codegen.cuda import print_cuda
from autosched.errors import AutoschedError
from autosched.featurize.sketch.sketch_from_kernel import describe_kernel
from autosched.lower.program import lower
from autosched.measure.simulated import KernelBreakdown, Simulated, simulate
from autosched.measure.simulated.count import count_kernel
from autosched.measure.simulated.simulate import compiled_resources, count_once, counted_kernels, default_scalars
from autosched.measure.simulated.timing import UNITS
from autosched.runtime.compile.nvrtc import compile_cubin
from autosched.schedule.rewrites import apply_rewrites
from autosched.schedule.types import Schedule
from autosched.search.beam.random_states import RandomStates
from autosched.search.cost.gpu_analytical import AnalyticalModel
from autosched.search.evaluate.evaluator import KernelEvaluator
from autosched.search.settings import SearchSettings
from autosched.search.strategies.protocol import STRATEGIES
from autosched.target import Target, get_target

PARTS = ("latency", *UNITS)
STEPS = ("lower", "print", "NVRTC", "count", "time")


def schedules(bound: BoundPipeline, target: Target, options: argparse.Namespace) -> Iterator[tuple[str, Schedule]]:
    """Yield the schedules to simulate, with labels."""
    for name in options.strategy.split(",") if options.strategy else ():
        yield name, STRATEGIES[name].search(bound, target, seconds=options.seconds, seed=options.seed).best
    if options.random:
        states = RandomStates(KernelEvaluator(bound, target, AnalyticalModel(target), SearchSettings()))
        rng = np.random.default_rng(options.seed)
        for k in range(options.random):
            drawn = states.draw_legal(rng)
            if drawn is not None:
                yield f"random {k}", drawn[1]


def predictions(bound: BoundPipeline, schedule: Schedule, target: Target) -> list[float]:
    """Return the seconds that the analytical model predicts for each kernel."""
    evaluator = KernelEvaluator(apply_rewrites(bound, schedule), target, AnalyticalModel(target), SearchSettings())
    described = [describe_kernel(evaluator.bound, k) for k in schedule.kernels]
    evaluator.evaluate(described)
    return [evaluator.verdict(sketch, params).cost for sketch, params in described]


def row(k: KernelBreakdown, predicted: float) -> str:
    """Return a kernel's line of the table."""
    t, w, m = k.time, k.work, k.traffic
    spilled = k.resources.spill_bytes
    each = w.total("load_sectors") / max(w.total("load_requests"), 1e-9)
    parts = " ".join(f"{1e6 * t.parts[p]:8.1f}" for p in PARTS)
    return (
        f"  {k.name[:36]:36} {1e6 * t.seconds:9.1f} {1e6 * predicted:9.1f} {t.limiter:8} {w.blocks:8} {w.threads:5} "
        f"{k.resident_blocks:4} {t.waves:7.2f} {k.resources.registers:4} {spilled:5} {each:5.1f} "
        f"{m.miss_l1:5.2f} {m.miss_l2:5.2f} {m.dram_read_bytes / 1e6:7.1f} {m.dram_write_bytes / 1e6:7.1f} {parts}"
    )


def header() -> str:
    """Return the table's first line."""
    return (
        f"  {'kernel':36} {'us':>9} {'analytic':>9} {'longest':8} {'blocks':>8} {'thr':>5} {'res':>4} {'waves':>7} "
        f"{'regs':>4} {'spill':>5} {'sec/r':>5} {'miss1':>5} {'miss2':>5} {'read':>7} {'write':>7} "
        + " ".join(f"{p:>8}" for p in PARTS)
    )


def print_table(label: str, found: Simulated, predicted: Sequence[float]) -> None:
    """Print one schedule."""
    total = found.seconds / found.noise
    print(
        f"{label}: {1e6 * total:.1f} us simulated, {1e6 * sum(predicted):.1f} us by the analytical model "
        f"({sum(predicted) / total:.2f}), noise {100 * (found.noise - 1):+.1f} %"
    )
    print(header())
    for k, seconds in zip(found.kernels, predicted, strict=True):
        print(row(k, seconds))


@dataclass
class Speed:
    """Speed of the simulation.

    Attributes:
        seconds: Time of each step, for all schedules.
        kernels: Number of simulated kernels.
        counted: Number of kernels with a new text, which had to be counted.
    """

    seconds: dict[str, float] = field(default_factory=lambda: dict.fromkeys(STEPS, 0.0))
    kernels: int = 0
    counted: int = 0

    def add(self, bound: BoundPipeline, schedule: Schedule, target: Target) -> None:
        """Simulate a schedule step by step; cached counts and compilations take almost no time."""
        marks = [time.perf_counter()]

        def mark() -> None:
            marks.append(time.perf_counter())

        program = lower(bound, schedule)
        mark()
        printed = [print_cuda(k) for k in program.kernels]
        mark()
        compiled_resources(printed, target.arch)
        mark()
        scalars, before = default_scalars(program), counted_kernels()
        for k, p in zip(program.kernels, printed, strict=True):
            count_once(k, p, scalars)
        mark()
        simulate(bound, schedule, target, program=program)
        mark()
        self.kernels += len(printed)
        self.counted += counted_kernels() - before
        for name, seconds in zip(STEPS, np.diff(marks), strict=True):
            self.seconds[name] += float(seconds)

    def print(self) -> None:
        """Print the times and the rates."""
        whole, counting = sum(self.seconds.values()), self.seconds["count"]
        each = ", ".join(f"{name} {1e3 * s / self.kernels:.1f}" for name, s in self.seconds.items())
        print(f"{self.kernels} kernels, {self.counted} of them counted; ms a kernel: {each}")
        print(
            f"{self.kernels / whole:.1f} kernels/s with NVRTC and its cache, "
            f"{self.counted / counting:.0f} kernels/s counted, on one core"
        )


def print_sass(label: str, bound: BoundPipeline, schedule: Schedule, target: Target, nvdisasm: str) -> None:
    """Print the counted instructions and sectors of each kernel over those of its machine code.

    The count is a mean over all blocks, boundary blocks included; machine code is executed for one interior block.
    """
    program = lower(bound, schedule)
    scalars = default_scalars(program)
    for kernel in program.kernels:
        printed = print_cuda(kernel)
        cubin = compile_cubin(printed.source, target.arch, name=printed.name)
        arguments = [
            ScalarArgument(scalars[p.name]) if p.kind == "scalar" else PointerArgument() for p in printed.params
        ]
        launch = launch_of(printed.grid, printed.block, arguments, target.arch)
        position, _ = interior_block(kernel)
        here = block_at(position, [n for _, n in kernel.grid_loops], printed.grid)
        code = disassemble(cubin.code, nvdisasm)[printed.name]
        try:
            executed = run_block(code, launch, here)
        except MachineError as e:
            print(f"{label} {kernel.name[:40]:40} not executed: {e}")
            continue
        work = count_kernel(kernel, scalars)
        issued, sectors = int(executed.warps.sum()), sum(executed.memory["global"].transactions.values())
        mine = work.total("load_sectors") + work.total("store_sectors")
        print(
            f"{label} {kernel.name[:40]:40} instructions {work.total('instructions'):9.0f} / {issued:8} = "
            f"{work.total('instructions') / issued:5.2f}  "
            f"sectors {mine:8.0f} / {sectors:7} = {mine / max(sectors, 1):5.2f}",
            flush=True,
        )


def main() -> int:
    """Print the tables of the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("app", help="name of an app of the suite")
    parser.add_argument("--strategy", default="roots,sioutas,forma,beam", help="strategies, separated by commas; or ''")
    parser.add_argument("--target", default="h200", help="the GPU to simulate")
    parser.add_argument("--seconds", type=float, help="time budget of each search")
    parser.add_argument("--random", type=int, default=0, help="number of additional random legal schedules")
    parser.add_argument("--seed", type=int, default=0, help="seed of searches and random schedules")
    parser.add_argument("--speed", action="store_true", help="print the speed of the simulation instead")
    parser.add_argument("--sass", action="store_true", help="compare counts with executed machine code instead")
    options = parser.parse_args()
    try:
        target = get_target(options.target)
        app = get_app(options.app)
        pipeline, params = app.configure({})
        bound = bind(pipeline, app.shapes(), params)
        speed = Speed()
        for label, schedule in schedules(bound, target, options):
            if options.sass:
                print_sass(label, bound, schedule, target, find_nvdisasm(None))
            elif options.speed:
                speed.add(bound, schedule, target)
            else:
                print_table(label, simulate(bound, schedule, target), predictions(bound, schedule, target))
        if speed.kernels:
            speed.print()
    except (AutoschedError, NoDisassembler) as e:
        print(f"error: {e}", file=sys.stderr)
        return 1
    return 0
