"""Instructions, traffic and resources of schedules for the programs of Artemis; needs no GPU.

    python scripts/bench_stencils.py [PROGRAM ...] [--times 2] [--sizes D=512,H=512,W=512]

Each program is scheduled for the H200 by the default search, without guidance. NVRTC compiles the kernels, and their
interior blocks are executed as machine code (`sass.measure`). A sweep is a sweep of the iterated smoothers, and all of
another program.

``instructions`` are those of the threads of an interior block per point of its tile and sweep, ``of all`` those of all
blocks per point and sweep. ``bytes`` are the distinct sectors of a block's loads and stores of global memory, summed
over blocks, per point and sweep. ``shared`` is the most shared memory of a block,
``registers`` the most of a thread, ``spills`` the bytes of all kernels, ``occupancy`` the least of a kernel: resident
warps over those of a multiprocessor. ``windows`` counts sliding windows, and those of them in registers.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from sass.costs import OperationCosts
from sass.disassembly import find_nvdisasm
from sass.measure import measure_program

from autosched.analysis.bind import bind
from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.apps import get_app
from autosched.lower.program import lower
from autosched.measure.simulated.simulate import default_scalars, simulate
from autosched.schedule.rewrites import apply_rewrites
from autosched.schedule.types import Level, LoopKind, Schedule
from autosched.search.tune.one_shot import find_schedule
from autosched.search.tune.request import Request
from autosched.target import Target, get_target
from benchmarks.grid_counts import grid_counts, occupancy, partial_tiles

PROGRAMS = (
    "smoother7pt", "smoother27pt", "helmholtz", "denoise", "miniflux", "hypterm", "diffterm", "addsgd4", "addsgd6",
    "rhs4center", "rhs4sgcurv",
)  # fmt: skip
SECTOR_BYTES = 32
COLUMNS = (
    "kernels", "windows", "instructions", "of all", "bytes", "shared", "registers", "spills", "occupancy",
    "simulated us", "predicted us", "search s",
)  # fmt: skip


def windows(schedule: Schedule) -> str:
    """Return the numbers of sliding windows and of those in registers."""
    members = [m for k in schedule.kernels if k.is_sliding_window for m in k.fused if m.at.level is Level.MAINLOOP]
    return f"{len(members)}, {sum(m.private for m in members)}" if members else "-"


def root_points(bound: BoundPipeline, schedule: Schedule, number: int) -> int:
    """Return the points of a kernel's first root."""
    funcs = apply_rewrites(bound.rewritten, schedule).funcs
    return math.prod(funcs[schedule.kernels[number].roots[0].tiling.stage.func].extents)


def tile_points(schedule: Schedule, number: int) -> int:
    """Return the points of a block of a kernel's first root."""
    loops = schedule.kernels[number].roots[0].tiling.loops
    return math.prod(p.extent for p in loops if p.kind in (LoopKind.THREAD, LoopKind.SERIAL))


def row(name: str, sizes: Mapping[str, int], times: int, target: Target, costs: OperationCosts) -> list[str]:
    """Return the figures of one program.

    Args:
        name: The program.
        sizes: Problem sizes.
        times: Sweeps of iterated programs.
        target: The device.
        costs: Costs of operations of the device.
    """
    app = get_app(name)
    is_iterated = "T" in app.structure
    pipeline, params = app.configure({"T": times} if is_iterated else {})
    given = {k: n for k, n in sizes.items() if k in app.default_sizes}
    bound = bind(pipeline, app.shapes(app.sizes(given)), params)
    began = time.process_time()
    answer = find_schedule(bound, target, Request(reuse=False), params)
    took = time.process_time() - began
    program = lower(bound, answer.schedule)
    kernels = measure_program(program, default_scalars(program), costs)
    points = max(math.prod(f.extents) for f in bound.funcs.values() if f.is_output)
    sweeps = times if is_iterated else 1
    totals = [
        grid_counts(k, c, partial_tiles(bound, answer.schedule, n))
        for n, (k, c) in enumerate(zip(program.kernels, kernels, strict=True))
    ]
    interior = sum(
        int(c.execution.issued.sum()) * root_points(bound, answer.schedule, n) / tile_points(answer.schedule, n)
        for n, c in enumerate(kernels)
    )
    per_point = points * sweeps
    moved = sum(t.sectors for t in totals) * SECTOR_BYTES
    simulated: Any = simulate(bound, answer.schedule, target, program=program)
    predicted = answer.provenance.predicted_s
    return [
        str(len(kernels)), windows(answer.schedule), f"{interior / per_point:.1f}",
        f"{sum(t.issued for t in totals) / per_point:.1f}", f"{moved / per_point:.1f}",
        str(max(k.shared_bytes for k in kernels)), str(max(k.resources.registers for k in kernels)), 
        str(sum(k.resources.spill_bytes for k in kernels)), f"{min(occupancy(k, target) for k in kernels):.0%}",
        f"{simulated.seconds / simulated.noise * 1e6:.0f}",
        "-" if predicted is None else f"{predicted * 1e6:.0f}", f"{took:.1f}",
    ]  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("programs", nargs="*", default=PROGRAMS)
    parser.add_argument("--times", type=int, default=2, help="sweeps of iterated programs")
    parser.add_argument("--sizes", default="", help="problem sizes such as D=512,H=512,W=512; the papers' by default")
    options = parser.parse_args(arguments)
    sizes = {k: int(n) for k, _, n in (item.partition("=") for item in options.sizes.split(",") if item)}
    target = get_target("h200")
    costs = OperationCosts(find_nvdisasm(), target.arch)
    table = Table("program", *COLUMNS)
    console = Console(width=150)
    for name in options.programs:
        figures = row(name, sizes, options.times, target, costs)
        console.print(name, *figures)
        table.add_row(name, *figures)
    console.print(table)


if __name__ == "__main__":
    main()
