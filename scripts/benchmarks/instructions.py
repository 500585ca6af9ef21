"""Executed instructions of generated kernels over a lower bound; needs no GPU.

    python scripts/bench_instructions.py [--apps blur,harris] [--strategy beam] [--target h200] [--json out.json]
    python scripts/bench_instructions.py --apps blur --schedule blur.json --profile
    python scripts/bench_instructions.py --scalar                  # no vector accesses, as for unaligned arrays
    python scripts/bench_instructions.py --peers-prebuilt DIR      # Halide's kernels beside ours
    python scripts/bench_instructions.py --suite                   # registers and spills of every app

NVRTC compiles the kernels, and nvdisasm (package nvidia-cuda-nvdisasm) disassembles them. One block of each, in the
middle of the interior, is executed as machine code: integers of every thread, with values read from memory unknown
(`sass.machine`). Trip counts, branches taken and all addresses are therefore exact. Limits:

* A data-dependent branch takes its shorter path, for instance past the slow path of a division; ``?`` marks it.
* Accesses at data-dependent addresses count as requests only, not as transactions.
* Totals assume that every block is an interior block. ``inner`` is the share that is; in ``all/pt`` boundary blocks
  count like the block next to the interior.

Columns: ``instr/pt`` instructions of threads for a point of the pipeline's outputs; ``needed/pt`` the lower bound of
`sass.lower_bound` (common subexpressions once, one load for each distinct element and thread, and stores); ``ratio`` of
the two; ``lanes`` the share of active lanes in issued instructions; ``sectors`` transactions with global memory over
the distinct sectors of the block; registers and spilled bytes by ptxas.
"""

from __future__ import annotations

import argparse
import json
import math
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sass.classes import CLASSES
from sass.competitors import Peers
from sass.costs import OperationCosts
from sass.disassembly import NoDisassembler, find_nvdisasm
from sass.machine import MachineError
from sass.measure import KernelCounts, measure_peer, measure_program

from autosched.analysis.bind import bind
from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.apps import get_app, load_apps
from autosched.codegen.cuda import print_cuda
from autosched.errors import AutoschedError
from autosched.lower.program import Program, lower
from autosched.runtime.backends.cpu import scalar_arguments
from autosched.runtime.compile.nvrtc import compile_cubin
from autosched.schedule.io.serialise import load_schedule
from autosched.search.settings import SearchSettings
from autosched.search.strategies.protocol import STRATEGIES, Beam
from autosched.target import get_target

APPS = "blur,unsharp,harris,camera_pipe,interpolate"
HEADER = (
    f"{'kernel':34} {'blocks':>8} {'threads':>7} {'instr/pt':>9} {'needed/pt':>9} {'ratio':>6} {'lanes':>6} "
    f"{'inner':>6} {'all/pt':>8} {'sectors':>7} {'regs':>5} {'spill':>6}"
)


def scheduled(name: str, options: argparse.Namespace) -> tuple[BoundPipeline, Program, dict[str, Any]]:
    """Return an app bound to its sizes, lowered under the chosen schedule, and its run-time parameters."""
    app = get_app(name)
    pipeline, params = app.configure({})
    bound = bind(pipeline, app.shapes(), params)
    if options.schedule is not None:
        path = options.schedule / f"{name}.json" if options.schedule.is_dir() else options.schedule
        schedule = load_schedule(path, bound)
    else:
        strategy = STRATEGIES[options.strategy]
        if options.copies is not None:
            strategy = Beam(SearchSettings(cache_read_tolerance=options.copies))
        schedule = strategy.search(bound, get_target(options.target), seconds=options.seconds).best
    program = lower(bound, schedule, vectors=not options.scalar)
    return bound, program, {p.name: params.get(p.name, p.default) for p in bound.scalars}


def measure_app(name: str, options: argparse.Namespace, costs: OperationCosts) -> tuple[list[KernelCounts], int]:
    """Return the counts of an app's kernels, and the points of its outputs."""
    bound, program, params = scheduled(name, options)
    scalars = {n: v[0] for n, v in scalar_arguments(program, params).items()}
    return measure_program(program, scalars, costs), sum(
        math.prod(bound.funcs[f].extents) for f in set(bound.outputs.values())
    )


def row(name: str, kernels: Sequence[KernelCounts], points: int) -> str:
    """Return a line of the table for one kernel or for all kernels of a pipeline."""
    issued, needed = sum(k.issued for k in kernels), sum(k.necessary for k in kernels)
    slots = sum(k.slots for k in kernels)
    moved = sum(k.sectors()[0] * k.blocks for k in kernels)
    distinct = sum(k.sectors()[1] * k.blocks for k in kernels)
    inner = sum(k.interior_share * k.issued for k in kernels) / max(issued, 1)
    everywhere = sum(k.issued_with_border for k in kernels)
    undecided = any(k.execution.undecided for k in kernels)
    sizes = f"{kernels[0].blocks:8} {kernels[0].launch.threads:7}" if len(kernels) == 1 else " " * 16
    spilled = sum(k.resources.spill_bytes for k in kernels)
    registers = max(k.resources.registers for k in kernels)
    return (
        f"{name[:34]:34} {sizes} {issued / points:9.2f} {_number(needed / points, needed, 9)} "
        f"{_number(issued / max(needed, 1), needed, 6)} {issued / max(slots, 1):6.2f} {inner:6.2f} "
        f"{everywhere / points:8.2f} {_number(moved / max(distinct, 1), distinct, 7)} {registers:5} {spilled:6}"
        f"{' ?' if undecided else ''}"
    )


def _number(value: float, needed: int, width: int) -> str:
    return f"{value:{width}.2f}" if needed else "-".rjust(width)


def print_app(name: str, kernels: Sequence[KernelCounts], points: int, *, profile: bool) -> None:
    """Print the lines of a pipeline."""
    for k in kernels:
        if len(kernels) > 1:
            print(row(f"  {k.name}", [k], points))
    print(row(name, kernels, points), flush=True)
    if profile:
        print_profile(kernels, points)


def print_profile(kernels: Sequence[KernelCounts], points: int) -> None:
    """Print the instructions of a pipeline by class, and the lower bound by part, in instructions a point."""
    for name in CLASSES:
        n = sum(k.classes.get(name, 0) * k.blocks for k in kernels)
        if n:
            print(f"    {name:14} {n / points:8.2f}")
    parts: dict[str, float] = {}
    for k in kernels:
        if k.needed is not None:
            named = {"arithmetic": k.needed.arithmetic, **{f"load {m}": n for m, n in k.needed.loads.items()}}
            for part, n in {**named, **{f"store {m}": n for m, n in k.needed.stores.items()}}.items():
                parts[part] = parts.get(part, 0) + n * k.blocks / points
    if parts:
        print("    needed: " + ", ".join(f"{part} {n:.2f}" for part, n in parts.items() if n))


def peers_of(name: str, peers: Peers, nvdisasm: str) -> dict[str, tuple[list[KernelCounts], int]]:
    """Return the counts of the peers' variants of an app, and the points of its output."""
    variants = {}
    for number, record in peers.variants(name):
        label = f"{name} {record['scheduler']}"
        try:
            kernels = [measure_peer(k, nvdisasm) for k in peers.kernels(number)]
        except (RuntimeError, MachineError) as e:
            print(f"{label}: not counted: {e}")
            continue
        variants[label] = kernels, math.prod(record["args"][-1]["extents"])
    return variants


def print_suite(names: Sequence[str], options: argparse.Namespace) -> dict[str, Any]:
    """Print the registers and memory that ptxas allocates for every kernel of some apps."""
    print(f"{'kernel':44} {'threads':>7} {'regs':>5} {'stack':>6} {'stored':>7} {'loaded':>7} {'shared':>7}")
    table: dict[str, Any] = {}
    for name in names:
        for kernel in scheduled(name, options)[1].kernels:
            printed = print_cuda(kernel)
            resources = compile_cubin(printed.source, options.arch, name=printed.name).kernels[printed.name]
            table.setdefault(name, []).append(
                {
                    "kernel": printed.name, "threads": kernel.threads, "registers": resources.registers,
                    "stack_bytes": resources.stack_bytes, "spill_store_bytes": resources.spill_store_bytes,
                    "spill_load_bytes": resources.spill_load_bytes, "shared_bytes": printed.shared_bytes,
                }
            )  # fmt: skip
            print(
                f"{printed.name[:44]:44} {kernel.threads:7} {resources.registers:5} {resources.stack_bytes:6} "
                f"{resources.spill_store_bytes:7} {resources.spill_load_bytes:7} {printed.shared_bytes:7}",
                flush=True,
            )
    rows = [r for kernels in table.values() for r in kernels]
    spilling = sum(r["spill_store_bytes"] > 0 for r in rows)
    print(f"{len(rows)} kernels, {spilling} spill, {max(r['registers'] for r in rows)} registers at most")
    return table


def main() -> int:
    """Print the tables of the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--apps", help=f"names, separated by commas (default: {APPS}; all with --suite)")
    parser.add_argument("--strategy", default="beam", choices=sorted(STRATEGIES), help="scheduling strategy")
    parser.add_argument("--copies", type=float, help="`cache_read_tolerance` of the beam search's settings")
    parser.add_argument("--schedule", type=Path, help="a schedule's JSON, or a folder of APP.json")
    parser.add_argument("--target", default="h200", help="device to schedule for")
    parser.add_argument("--seconds", type=float, help="time budget of each search")
    parser.add_argument("--arch", default="sm_90", help="architecture to compile for")
    parser.add_argument("--scalar", action="store_true", help="coalesce no accesses to neighbouring elements")
    parser.add_argument("--profile", action="store_true", help="print instructions by class")
    parser.add_argument("--suite", action="store_true", help="registers, stack and spills instead of instructions")
    parser.add_argument("--peers-prebuilt", type=Path, help="folder of Halide kernels compiled beforehand")
    parser.add_argument("--nvdisasm", help="the disassembler (default: the Python package's, or the one on the PATH)")
    parser.add_argument("--ptxas", default="ptxas", help="the assembler for the peers' PTX")
    parser.add_argument("--json", type=Path, help="file for the figures")
    options = parser.parse_args()
    names = (options.apps or (",".join(load_apps()) if options.suite else APPS)).split(",")
    if options.schedule is not None and not options.schedule.is_dir() and len(names) != 1:
        parser.error("--schedule with a file needs exactly one app in --apps")
    try:
        figures = print_suite(names, options) if options.suite else print_instructions(names, options)
    except (AutoschedError, NoDisassembler) as e:
        print(f"error: {e}", file=sys.stderr)
        return 1
    if options.json:
        options.json.write_text(json.dumps(figures, indent=1))
    return 0


def print_instructions(names: Sequence[str], options: argparse.Namespace) -> dict[str, Any]:
    """Print the instructions of some apps, and of their peers if present."""
    costs = OperationCosts(find_nvdisasm(options.nvdisasm), options.arch)
    peers = None
    if options.peers_prebuilt is None:
        print("no peers: --peers-prebuilt names their folder")
    elif shutil.which(options.ptxas) is None:
        print(f"no peers: {options.ptxas}, the assembler of their PTX, is missing")
    else:
        peers = Peers(options.peers_prebuilt, options.ptxas, options.arch)
    print(HEADER)
    figures: dict[str, Any] = {}
    for name in names:
        kernels, points = measure_app(name, options, costs)
        print_app(name, kernels, points, profile=options.profile)
        figures[name] = _figures(kernels, points)
        if peers is not None:
            variants = peers_of(name, peers, costs.nvdisasm)
            for label, (peer_kernels, peer_points) in variants.items():
                print(row(label, peer_kernels, peer_points), flush=True)
                if options.profile:
                    print_profile(peer_kernels, peer_points)
                figures[label] = _figures(peer_kernels, peer_points)
            if not variants:
                print(f"  {name}: the peers have no variant of it")
    return figures


def _figures(kernels: Sequence[KernelCounts], points: int) -> Mapping[str, Any]:
    return {"points": points, "kernels": [k.as_dict() for k in kernels]}
