"""Instructions of blocks at the faces of a grid over those of interior blocks; needs no GPU.

    python scripts/bench_faces.py [--sizes 512x512x512] [--steps 16,128] [--inputs window,global] [--found]

Two fused sweeps of smoother7pt with sliding windows along z, 16 x 64 points a step. The input is read from ``global``
memory or through a ``window`` of its own, which may be ``double`` buffered or filled by ``async`` copies. NVRTC
compiles the kernels for the H200, and some blocks are executed as machine code (`sass.machine`).
``interior`` is instructions of threads per point of the middle block; the other columns are ratios to it, of the first
and last block of each loop over blocks and of the first corner. ``us`` is simulated. With ``--found`` the schedule is
that of the default search.
"""

from __future__ import annotations

import argparse
import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from sass.disassembly import disassemble, find_nvdisasm
from sass.launches import Argument, PointerArgument, ScalarArgument, launch_of
from sass.machine import run_block
from sass.measure import block_at

from autosched.analysis.bind import bind
from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.analysis.rewrites.cache_read import cache_name, insert_cache_reads
from autosched.apps import get_app
from autosched.codegen.cuda import print_cuda
from autosched.lower.program import Program, lower
from autosched.measure.simulated.simulate import default_scalars, simulate
from autosched.runtime.compile.nvrtc import compile_cubin
from autosched.schedule.tilings import inlined_calls
from autosched.schedule.types import (
    ComputeAt,
    FusedProducer,
    Inlined,
    Kernel,
    Level,
    Loop,
    LoopKind,
    Root,
    Schedule,
    StageId,
    StageTiling,
)
from autosched.search.tune.one_shot import find_schedule
from autosched.search.tune.request import Request
from autosched.target import get_target

HOST = StageId("output")
STEP = {"y": (4, 4), "x": (32, 2)}
"""Threads and points of a thread along each dimension, in a step."""


INPUTS: Mapping[str, Callable[[Kernel], Kernel]] = {
    "global": lambda k: k, "window": lambda k: k, "double": Kernel.with_double_buffering,
    "async": Kernel.with_async_copies,
}  # fmt: skip
"""Forms of loads of the input, with the change of a kernel without double buffering."""


def loop(kind: LoopKind, dim: str, extent: int) -> Loop:
    """Return a loop."""
    return Loop(dim, kind, extent)


def window(name: str, dims: tuple[str, ...], at: ComputeAt) -> FusedProducer:
    """Return a producer with a sliding window, of the step's points and a halo."""
    threads = [loop(LoopKind.THREAD, dims[2], 34), loop(LoopKind.THREAD, dims[1], 4)]
    points = [loop(LoopKind.SERIAL, d, n) for d, n in zip(dims, (1, 5, 2), strict=True)]
    return FusedProducer((StageTiling(StageId(name), (*threads, *points)),), at, dims)


def fused_sweeps(extents: tuple[int, ...], steps: int, source: str) -> tuple[BoundPipeline, Schedule]:
    """Return two sweeps as one kernel with windows along z.

    Args:
        extents: Extents of the grid in z, y and x.
        steps: Steps of a block.
        source: Form of loads of the input, one of `INPUTS`.
    """
    bound = bind(get_app("smoother7pt").configure({"T": 2})[0], {"in": extents})
    points = (steps, *(math.prod(STEP[d]) for d in ("y", "x")))
    blocks = [
        loop(LoopKind.BLOCK, d, -(-n // k)) for d, n, k in zip(("z", "y", "x"), extents, points, strict=True)
    ]  # fmt: skip
    inner = [loop(LoopKind.THREAD, d, STEP[d][0]) for d in ("x", "y")]
    inner += [loop(LoopKind.SERIAL, d, STEP[d][1]) for d in ("y", "x")]
    tiling = StageTiling(HOST, (*blocks, loop(LoopKind.SERIAL, "z", steps), *inner))
    at, staged = ComputeAt(Level.MAINLOOP, HOST, 4), cache_name("in")
    members = [window("sweep_1", ("z", "y", "x"), at)]
    is_cached = source != "global"
    with_copies = insert_cache_reads(bound, ["in"] if is_cached else [])
    if is_cached:
        members.append(window(staged, with_copies.funcs[staged].dims, at))
    inlined = {f for f in bound.funcs if f not in ("output", "sweep_1")}
    calls = inlined_calls(with_copies, [HOST, *(t.stage for m in members for t in m.tilings)], inlined)
    called = tuple(Inlined(f, calls[f]) for f in bound.funcs if f in calls)
    kernel = INPUTS[source](Kernel((Root(tiling),), tuple(members), called))
    return bound, Schedule(bound.pipeline.hash, (kernel,))


def faces(grid: tuple[int, ...]) -> dict[str, tuple[int, ...]]:
    """Return the middle block, the first and last block of each loop, and the first corner, by name."""
    middle = tuple(n // 2 for n in grid)
    blocks = {"interior": middle}
    for k, (dim, n) in enumerate(zip("zyx", grid, strict=True)):
        if n > 1:
            blocks |= {f"{dim} {end}": (*middle[:k], at, *middle[k + 1 :]) for end, at in (("<", 0), (">", n - 1))}
    return blocks | {"corner": tuple(0 for _ in grid)}


def measured(program: Program) -> tuple[dict[str, int], int, int]:
    """Return instructions of some blocks of the only kernel, its registers, and the bytes that it spills."""
    (kernel,) = program.kernels
    printed = print_cuda(kernel)
    target = get_target("h200")
    cubin = compile_cubin(printed.source, target.arch, name=printed.name)
    code = disassemble(cubin.code, find_nvdisasm())[printed.name]
    scalars = default_scalars(program)
    arguments: list[Argument] = [
        ScalarArgument(scalars[p.name]) if p.kind == "scalar" else PointerArgument() for p in printed.params
    ]
    launch = launch_of(printed.grid, printed.block, arguments, target.arch)
    grid = tuple(n for _, n in kernel.grid_loops)
    issued = {
        name: int(run_block(code, launch, block_at(at, grid, printed.grid)).issued.sum())
        for name, at in faces(grid).items()
    }
    resources = cubin.kernels[printed.name]
    return issued, resources.registers, resources.spill_bytes


def found_sweeps(extents: tuple[int, ...]) -> tuple[BoundPipeline, Schedule]:
    """Return two sweeps with the schedule of the default search."""
    pipeline, params = get_app("smoother7pt").configure({"T": 2})
    bound = bind(pipeline, {"in": extents}, params)
    return bound, find_schedule(bound, get_target("h200"), Request(reuse=False), params).schedule


def row(steps: str, source: str, bound: BoundPipeline, schedule: Schedule, columns: Sequence[str]) -> list[str]:
    """Return the figures of a schedule of one kernel."""
    program = lower(bound, schedule)
    issued, registers, spilled = measured(program)
    simulated: Any = simulate(bound, schedule, get_target("h200"), program=program)
    loops = schedule.kernels[0].roots[0].tiling.loops
    points = math.prod(p.extent for p in loops if p.kind in (LoopKind.THREAD, LoopKind.SERIAL))
    inside = issued["interior"]
    ratios = [f"{issued[c] / inside:.2f}" if c in issued else "-" for c in columns]
    time = f"{simulated.seconds / simulated.noise * 1e6:.0f}"
    return [steps, source, f"{inside / points:.1f}", *ratios, str(registers), str(spilled), time]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", default="512x512x512")
    parser.add_argument("--inputs", default="window,global", help=f"some of {', '.join(INPUTS)}")
    parser.add_argument("--steps", default="16,128")
    parser.add_argument("--found", action="store_true", help="take the default search's schedule")
    options = parser.parse_args()
    extents = tuple(int(n) for n in options.sizes.split("x"))
    columns = ("z <", "z >", "y <", "y >", "x <", "x >", "corner")
    table = Table("steps", "input", "interior", *columns, "registers", "spilled", "us")
    if options.found:
        table.add_row(*row("", "found", *found_sweeps(extents), columns))
    else:
        for steps, source in itertools.product(options.steps.split(","), options.inputs.split(",")):
            table.add_row(*row(steps, source, *fused_sweeps(extents, int(steps), source), columns))
    Console(width=140).print(table)


if __name__ == "__main__":
    main()
