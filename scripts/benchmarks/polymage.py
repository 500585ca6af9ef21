"""Tiles per block and per warp on the programs of PolyMage-GPU (Jangda and Guha 2020, section 7); needs no GPU.

    python scripts/bench_polymage.py [PROGRAM ...] [--columns block,search] [--schedules DIR] [--counters DIR]

Columns are forms of tiles: ``block`` has the schedules by hand with a tile per block (Halide's manual schedules;
`autosched.apps.hand_schedules.image_pipelines`), ``search`` the default search's, and the name of a strategy, such as
``dp`` or ``polymage``, that strategy's; ``fitted`` is ``polymage`` with the weights fitted to simulated times of the
H200. ``warp``, ``registers`` and ``hybrid`` have the kernels of ``block`` with a tile per warp: in shared memory, in
registers as far as possible, and in any division between both, in the best shape of a few simulated ones, for a limited
time (`benchmarks.warp_tile_choice`). ``--schedules DIR`` gives schedules for any column, in
``DIR/PROGRAM.COLUMN.json``, and ``--save DIR`` writes those of all columns in this form.

Instructions, loads, transactions, shuffles and barriers are counted from the machine code of NVRTC, of interior and
last blocks (`benchmarks.grid_counts`). All but transactions are events of warps times 32, over the values of the
output: 1 where each warp of 32 points has one. Transactions are sectors of 32 bytes, in bytes a value. Times and the
weights of kernels in the mean occupancy are simulated for an H200.

``--counters DIR`` adds the stalls of Figure 8 from ``DIR/PROGRAM.COLUMN.csv``, which ``ncu --csv`` writes on a GPU with
the metrics `autosched.search.bottleneck.ncu_counters.STALL_METRICS`.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Mapping, Sequence
from fractions import Fraction
from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table
from sass.costs import OperationCosts
from sass.disassembly import find_nvdisasm

from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.apps.hand_schedules.fused_kernels import fused_schedule
from autosched.apps.hand_schedules.image_pipelines import IMAGE_KERNELS, block_tiles
from autosched.measure.problem import Problem
from autosched.schedule.io.serialise import load_schedule, save_schedule
from autosched.schedule.types import Schedule
from autosched.search.bottleneck.ncu_counters import read_barrier_stalls
from autosched.search.strategies.polymage.polymage_strategy import Polymage
from autosched.search.strategies.polymage.settings import PolymageSettings
from autosched.search.strategies.protocol import Strategy
from autosched.search.tune.one_shot import find_schedule
from autosched.search.tune.request import Request
from autosched.target import Target, get_target
from benchmarks.polymage_paper import PAPER
from benchmarks.tile_measurement import TileMeasurement, measure
from benchmarks.warp_tile_choice import REGISTERS, SHARED, SHARES, choose_warp_tiles, tile_text

BLOCK, SEARCH, WARP, HYBRID, FITTED = "block", "search", "warp", "hybrid", "fitted"
STORAGE: Mapping[str, Sequence[Fraction]] = {WARP: (SHARED,), "registers": (REGISTERS,), HYBRID: SHARES}
"""Columns of tiles per warp, with the shares of tiles that are in registers."""
SEARCHES = ("polymage", FITTED, "dp", SEARCH)
"""Columns of strategies."""
Measurements = Mapping[str, Mapping[str, TileMeasurement]]
"""Figures by program and column."""


def schedule_of(
    program: str, bound: BoundPipeline, column: str, target: Target, folder: Path | None, console: Console
) -> tuple[Schedule, float | None]:
    """Return the schedule of a column, and the seconds of its search; None for a given schedule.

    Raises:
        InputError: If there is no such strategy, and no schedule of the column in the folder.
    """
    given = None if folder is None else folder / f"{program}.{column}.json"
    if given is not None and given.is_file():
        return load_schedule(given, bound), None
    if column == BLOCK:
        return block_tiles(program, bound), None
    if column in STORAGE:
        started = time.perf_counter()
        kernels = choose_warp_tiles(bound, IMAGE_KERNELS[program](bound), target, STORAGE[column])
        for kernel in kernels:
            if kernel.shared:
                console.print(f"{program} {column}: {tile_text(kernel)}")
        return fused_schedule(bound, kernels), time.perf_counter() - started
    strategy: str | Strategy | None = None if column == SEARCH else column
    if column == FITTED:
        strategy = Polymage(PolymageSettings.of_weights(target.name.lower()))
    answer = find_schedule(bound, target, Request(strategy=strategy, reuse=False))
    return answer.schedule, answer.provenance.took_s


def counts_table(measured: Measurements) -> Table:
    """Return all counts and resources."""
    table = Table(
        "program", "tiles", "kernels", "instructions", "loads", "transactions", "shuffles", "shared", "registers",
        "spills", "occupancy", "simulated us",
    )  # fmt: skip
    for program, columns in measured.items():
        for column, m in columns.items():
            c = m.counts
            table.add_row(
                program, column, str(m.kernels), f"{m.a_point(c.warp_issued):.1f}", f"{m.a_point(c.loads):.2f}",
                f"{m.a_point(c.transactions):.1f}", f"{m.a_point(c.shuffles):.2f}", str(m.shared_bytes),
                str(m.registers), str(m.spill_bytes), f"{m.occupancy:.0%}", f"{m.seconds * 1e6:.0f}",
            )  # fmt: skip
    return table


def figure_8(measured: Measurements, stalls: Mapping[tuple[str, str], float]) -> Table:
    """Return barriers of the block and of the warp; where counters are given, the stalls at barriers of the block."""
    table = Table(
        "program", "tiles", "barriers of a block", "a point", "of instructions", "barriers of a warp", "stalls",
        "paper: 1080Ti, V100",
    )  # fmt: skip
    for program, columns in measured.items():
        for column, m in columns.items():
            stall = stalls.get((program, column))
            paper = ", ".join(f"{p} %" for p in PAPER[program].stalls) if column == BLOCK else ""
            table.add_row(
                program, column, str(m.block_barriers), f"{m.a_point(m.counts.barriers):.3f}", f"{m.barrier_share:.1%}",
                str(m.warp_barriers), "-" if stall is None else f"{stall:.1%}", paper,
            )  # fmt: skip
    return table


def figure_9(measured: Measurements, columns: Sequence[str]) -> Table:
    """Return simulated speedups over tiles per block, with their geometric means, and the paper's on the V100."""
    table = Table("program", *columns, "paper, V100: warp, registers, hybrid")
    speedups: dict[str, list[float]] = {c: [] for c in columns}
    for program, of_program in measured.items():
        base = of_program.get(BLOCK)
        cells = []
        for column in columns:
            m = of_program.get(column)
            if base is None or m is None:
                cells.append("-")
                continue
            speedups[column].append(base.seconds / m.seconds)
            cells.append(f"{speedups[column][-1]:.2f}")
        p = PAPER[program]
        table.add_row(program, *cells, ", ".join(str(s[1]) for s in (p.shared, p.registers, p.hybrid)))
    means = [f"{math.exp(sum(map(math.log, s)) / len(s)):.2f}" if s else "-" for s in speedups.values()]
    table.add_row("geometric mean", *means, "1.04, 0.77, 1.33")
    return table


def table_2(measured: Measurements) -> Table:
    """Return the seconds of searches, and the paper's of fusion."""
    searched = list(
        dict.fromkeys(c for columns in measured.values() for c, m in columns.items() if m.search_s is not None)
    )
    table = Table("program", *searched, "paper: fusion")
    for program, columns in measured.items():
        seconds = [columns[c].search_s if c in columns else None for c in searched]
        table.add_row(program, *("-" if s is None else f"{s:.2f}" for s in seconds), str(PAPER[program].fusion_s))
    return table


def table_4(measured: Measurements, columns: Sequence[str]) -> Table:
    """Return simulated microseconds, and the paper's on the V100."""
    table = Table("program", *columns, "paper, V100: Halide, PolyMage-GPU")
    for program, of_program in measured.items():
        cells = [f"{of_program[c].seconds * 1e6:.0f}" if c in of_program else "-" for c in columns]
        p = PAPER[program]
        table.add_row(program, *cells, f"{p.halide_ms[1] * 1e3:.0f}, {p.hybrid_ms[1] * 1e3:.0f}")
    return table


def table_5(measured: Measurements) -> Table:
    """Return loads and occupancy of hybrid tiles against tiles in shared memory: counted, and the paper's."""
    table = Table("program", "fewer loads", "more occupancy", "paper: fewer loads", "more occupancy")
    for program, columns in measured.items():
        base, hybrid, p = columns.get(WARP), columns.get(HYBRID), PAPER[program]
        counted = ("-", "-")
        if base is not None and hybrid is not None:
            loads, resident = hybrid.counts.loads / base.counts.loads, hybrid.occupancy / base.occupancy
            counted = (f"{1 - loads:.1%}", f"{resident - 1:.1%}")
        paper = (", ".join(f"{n} %" for n in pair) for pair in (p.fewer_loads, p.more_occupancy))
        table.add_row(program, *counted, *paper)
    return table


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("programs", nargs="*", default=list(PAPER), metavar="PROGRAM", help=", ".join(PAPER))
    parser.add_argument("--columns", default=",".join((BLOCK, *STORAGE, *SEARCHES)), help="forms of tiles")
    parser.add_argument("--schedules", type=Path, help="folder of given schedules, PROGRAM.COLUMN.json")
    parser.add_argument("--save", type=Path, help="folder to write the schedules to")
    parser.add_argument("--counters", type=Path, help="folder of counters by ncu, PROGRAM.COLUMN.csv")
    parser.add_argument("--sizes", default="", help="sizes such as W=77,H=53; the paper's by default")
    options = parser.parse_args(arguments)
    unknown = [p for p in options.programs if p not in PAPER]
    if unknown:
        parser.error(f"unknown program {unknown[0]}: choose from {', '.join(PAPER)}")
    columns = options.columns.split(",")
    sizes = {k: int(n) for k, _, n in (item.partition("=") for item in options.sizes.split(",") if item)}
    target = get_target("h200")
    costs = OperationCosts(find_nvdisasm(), target.arch)
    measured: dict[str, dict[str, TileMeasurement]] = {}
    stalls: dict[tuple[str, str], float] = {}
    console = Console(width=150)
    for program in options.programs:
        bound = Problem.app(program, sizes or PAPER[program].sizes).bind()
        measured[program] = {}
        for column in columns:
            schedule, search_s = schedule_of(program, bound, column, target, options.schedules, console)
            if options.save is not None:
                options.save.mkdir(parents=True, exist_ok=True)
                save_schedule(options.save / f"{program}.{column}.json", bound, schedule)
            measured[program][column] = measure(bound, schedule, target, costs, search_s)
            counters = None if options.counters is None else options.counters / f"{program}.{column}.csv"
            if counters is not None and counters.is_file():
                stalls[program, column] = read_barrier_stalls(counters)
    tables = {
        "Counts": counts_table(measured),
        "Figure 8: barriers": figure_8(measured, stalls),
        "Figure 9: speedup over a tile per block, simulated": figure_9(measured, columns),
        "Table 2: seconds of the search": table_2(measured),
        "Table 4: microseconds, simulated": table_4(measured, columns),
        "Table 5: hybrid tiles against tiles per warp in shared memory": table_5(measured),
    }
    for title, table in tables.items():
        table.box = box.MARKDOWN
        console.print(title, table, sep="\n")


if __name__ == "__main__":
    main()
