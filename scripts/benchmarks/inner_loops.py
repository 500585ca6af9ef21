"""Machine code of the inner loops of matrix products and convolutions; needs no GPU.

    python scripts/bench_inner_loops.py [--apps conv_layer,...] [--seconds 30] [--arch sm_90] [--json FILE]

First come hand-tiled schedules of the matrix product and the convolution layer (`autosched.apps.hand_schedules`),
single- and double-buffered; both are in the schedule space. Then come the kernels of the beam search. The counted loop
is the innermost one with the most FFMA; its body is counted once, as the compiler unrolled it. A kernel without such a
loop is counted whole. Columns: instructions of the loop; FFMA and their share; 16-byte and other loads
from shared memory; loads from global memory into registers; registers and spilled bytes by ptxas.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sass.disassembly import NoDisassembler, disassemble, find_nvdisasm
from sass.instructions import Code
from sass.loops import LoopCode, innermost_loops, whole

from autosched.analysis.bind import bind
from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.apps import get_app
from autosched.apps.hand_schedules.convolutions import ConvolutionTile, tiled_convolution
from autosched.apps.hand_schedules.products import ProductTile, tiled_product
from autosched.codegen.cuda import print_cuda
from autosched.errors import AutoschedError
from autosched.lower.program import lower
from autosched.runtime.compile.nvrtc import compile_cubin
from autosched.schedule.types import Schedule
from autosched.search.strategies.protocol import STRATEGIES
from autosched.target import get_target

APPS = "sgemm,conv_layer,conv_layer_nchw,depthwise_separable_conv"
HEADER = f"{'kernel':46} {'instr':>6}  {'FFMA':>5} {'share':>7} {'lds128':>6} {'lds':>5} {'ldg':>5} {'regs':>5} spilled"
FUSED = "FFMA"
TILES = {
    "by hand, 128 x 128, 8 x 8 a thread": ProductTile(double_buffered=False),
    "the same, two buffers": ProductTile(),
    "by hand, 64 x 64, 4 x 4 a thread, two buffers": ProductTile(points=4),
}
CONVOLUTIONS = {
    "by hand, 128 x 16 x 8, 8 x 8 a thread": ConvolutionTile(),
    "the same, two buffers": ConvolutionTile(double_buffered=True),
}


def busiest(code: Code) -> tuple[LoopCode, bool]:
    """Return the innermost loop with the most FFMA, or else the whole kernel, and whether it is a loop."""
    best = max(innermost_loops(code), key=lambda loop: loop.opcodes[FUSED], default=None)
    return (best, True) if best is not None and best.opcodes[FUSED] else (whole(code), False)


def figures(bound: BoundPipeline, schedule: Schedule, arch: str, nvdisasm: str) -> Iterator[dict[str, Any]]:
    """Yield the figures of every kernel of a schedule that has FFMA instructions."""
    for kernel in lower(bound, schedule).kernels:
        printed = print_cuda(kernel)
        compiled = compile_cubin(printed.source, arch, name=printed.name)
        loop, is_loop = busiest(disassemble(compiled.code, nvdisasm)[printed.name])
        if not loop.opcodes[FUSED]:
            continue
        resources = compiled.kernels[printed.name]
        yield {
            "kernel": printed.name, "loop": is_loop, "instructions": loop.instructions, "ffma": loop.opcodes[FUSED],
            "share": loop.share(FUSED), "lds128": loop.wide_shared_loads,
            "lds": loop.opcodes["LDS"] - loop.wide_shared_loads, "ldg": loop.opcodes["LDG"],
            "registers": resources.registers, "spill_bytes": resources.spill_store_bytes + resources.spill_load_bytes,
        }  # fmt: skip


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--apps", default=APPS, help="names, separated by commas")
    parser.add_argument("--seconds", type=float, help="time budget of each search")
    parser.add_argument("--arch", default="sm_90", help="architecture to compile for")
    parser.add_argument("--target", default="h200", help="device to schedule for")
    parser.add_argument("--nvdisasm", help="the disassembler (default: the Python package's, or the one on the PATH)")
    parser.add_argument("--json", type=Path, help="file for the figures")
    options = parser.parse_args()
    table: dict[str, list[dict[str, Any]]] = {}

    def show(title: str, bound: BoundPipeline, schedule: Schedule) -> None:
        for row in figures(bound, schedule, options.arch, nvdisasm):
            table.setdefault(title, []).append(row)
            print(
                f"{title[:46]:46} {row['instructions']:6}{' ' if row['loop'] else '*'} {row['ffma']:5} "
                f"{row['share']:7.1%} {row['lds128']:6} {row['lds']:5} {row['ldg']:5} {row['registers']:5} "
                f"{row['spill_bytes']:6}",
                flush=True,
            )

    try:
        nvdisasm = find_nvdisasm(options.nvdisasm)
        print(HEADER)
        app = get_app("sgemm")
        bound = bind(app.build(), app.shapes(), {})
        for title, tile in TILES.items():
            show(f"sgemm {title}", bound, tiled_product(bound, tile))
        app = get_app("conv_layer")
        bound = bind(app.build(), app.shapes(), {})
        for title, convolution in CONVOLUTIONS.items():
            show(f"conv_layer {title}", bound, tiled_convolution(bound, convolution))
        for name in options.apps.split(","):
            app = get_app(name)
            pipeline, params = app.configure({})
            bound = bind(pipeline, app.shapes(), params)
            schedule = STRATEGIES["beam"].search(bound, get_target(options.target), seconds=options.seconds).best
            show(f"{name}, searched", bound, schedule)
    except (AutoschedError, NoDisassembler) as e:
        print(f"error: {e}", file=sys.stderr)
        return 1
    print("* no loop: the whole kernel")
    if options.json:
        options.json.write_text(json.dumps(table, indent=1))
    return 0
