"""The baseline strategy: cheap pointwise stages are inlined, every other stage is a kernel with a default tile.

It follows Li et al. 2018 as cited by the papers on GPU autoschedulers. Every valid pipeline gets a schedule, and all
other strategies are compared with it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from autosched.analysis.bound_pipeline import BoundFunc, BoundPipeline, BoundStage, LoopDim
from autosched.analysis.expressions.operation_count import operations
from autosched.schedule.kernel.row_scans import MOST_LAUNCHES, in_step, row_points, step_count
from autosched.schedule.tilings import MAX_UNROLLED_LOADS, fusable_roots, inlined_calls, loop_sizes
from autosched.schedule.types import Inlined, Kernel, Loop, LoopKind, Root, Schedule, StageId, StageTiling
from autosched.target import Target

CHEAP_OPERATIONS = 4
"""Most operations of a pointwise Func that is always inlined."""
MIN_VECTOR_EXTENT = 16
"""Least extent of the dimension of threadIdx.x, if another dimension has it."""
CPU_LANES = 32
"""Least lanes of a tile on a CPU: two of the widest vectors of float32."""
TILES_OF_ROW = 4
"""Tiles of a row on a CPU, where these are long enough."""
CPU_ROW = 1 << 13
"""Longest row of a scan that one core computes alone, without synchronising each step."""
CPU_LANES_OF_ROW = 512
"""Most lanes of a scan's row on a CPU."""


def schedule_roots(bound: BoundPipeline, target: Target) -> Schedule:
    """Return the baseline schedule of a bound pipeline; rewrites of the pipeline are undone."""
    bound = bound.rewritten
    inlined = inlined_funcs(bound)
    kernels = [
        k for f in bound.funcs.values() if f.name not in inlined for k in root_kernels(bound, f, target, inlined)
    ]
    return Schedule.for_pipeline(bound, kernels)


def inlined_funcs(bound: BoundPipeline) -> set[str]:
    """Return the Funcs that are cheaper to recompute at every use than to materialise.

    These are boundary conditions and copies, pointwise Funcs of a few operations, and Funcs used once per point. A use
    by an inlined Func counts as often as that Func is evaluated.
    """
    inlined: set[str] = set()
    loads: dict[str, float] = {}  # of all points of a Func, if it were materialised
    for name, func in reversed(list(bound.funcs.items())):  # consumers first
        evaluations = {
            consumer: loads[consumer] if consumer in inlined else _product(bound.funcs[consumer].extents)
            for consumer in func.consumers
        }
        loads[name] = sum(
            stage.load_counts.get(name, 0) * _product(d.extent for d in stage.reductions) * evaluations[consumer]
            for consumer in func.consumers
            for stage in bound.funcs[consumer].stages
        )
        if _should_inline(bound, func, loads[name] / max(_product(func.extents), 1)):
            inlined.add(name)
    return _within_loads(bound, inlined)


def _within_loads(bound: BoundPipeline, inlined: set[str]) -> set[str]:
    """Return the Funcs whose inlining brings no stage above `MAX_UNROLLED_LOADS` loads."""
    remaining = set(inlined)
    through: dict[str, int] = {}  # loads of one evaluation
    for name, func in bound.funcs.items():  # producers first
        for stage in func.stages:
            brought = {s: n * through[s] for s, n in stage.load_counts.items() if s in remaining and s != name}
            total = sum(stage.load_counts.values()) + sum(brought.values())
            for source in sorted(brought, key=lambda s: (-brought[s], s)):
                if total <= MAX_UNROLLED_LOADS:
                    break
                remaining.remove(source)
                total -= brought[source]
            through[name] = max(through.get(name, 0), total)
    return remaining


def _should_inline(bound: BoundPipeline, func: BoundFunc, uses: float) -> bool:
    """Whether a Func is cheaper to recompute than to materialise, for the number of uses per point."""
    if func.is_output or not func.is_pure or func.undefined:
        return False
    if func.boundary is not None:
        return True
    if is_pointwise(bound, func) and operations(func.stages[0]) <= CHEAP_OPERATIONS:
        return True
    return uses <= 1


def is_pointwise(bound: BoundPipeline, func: BoundFunc) -> bool:
    """Whether the first stage of a Func reads other Funcs once and at its own point."""
    stage = func.stages[0]
    return all(
        len(f.dims) == 0 or f.source in bound.inputs or _own_point(func, f.dims) for f in stage.footprints
    ) and all(n == 1 for n in stage.load_counts.values())


def _own_point(func: BoundFunc, dims: Sequence[Sequence[object]]) -> bool:
    """Whether an access reads a source at the Func's own point."""
    variables = {f"({d})" for d in func.dims}
    return all(len(d) == 1 and getattr(d[0], "key", None) in variables for d in dims)


def root_kernels(bound: BoundPipeline, func: BoundFunc, target: Target, inlined: set[str]) -> list[Kernel]:
    """Return the kernels of a Func computed at root; stages that access only their own points share one."""
    kernels = []
    for group in fusable_roots(func):
        shared = len(group) > 1
        roots = tuple(
            Root(StageTiling(StageId(func.name, s.number), root_loops(func, s, target, shared=shared))) for s in group
        )
        kernels.append(Kernel(roots, (), inlined_by(bound, [r.tiling.stage for r in roots], inlined)))
    return kernels


def root_loops(func: BoundFunc, stage: BoundStage, target: Target, *, shared: bool = False) -> tuple[Loop, ...]:
    """Return block, thread and reduction loops: 32 x 8 threads (on a CPU up to 256 x 4 lanes) on the inner dimensions.

    Each thread has one point, or several where the grid would have too many blocks. ``shared`` keeps reduction loops
    inside the thread, so that several stages of the Func share a grid.
    """
    if stage.steps:
        return scan_loops(func, stage, target)
    parallel = [d.name for d in stage.loops if d.parallel and not (shared and d.reduction)]
    size = loop_sizes(func, stage, func.extents)
    vector = next((d for d in reversed(parallel) if size[d] >= MIN_VECTOR_EXTENT), parallel[-1] if parallel else None)
    others = sorted((d for d in reversed(parallel) if d != vector), key=lambda d: size[d] < 2)
    wide, tall = (256, 4) if target.kind == "cpu" else (32, 8)
    threads: dict[str, int] = {}
    if vector is not None:
        if target.kind == "cpu":
            # With several tiles per row most tiles are interior: no clamps, and loads of whole vectors.
            wide = min(wide, max(CPU_LANES, size[vector] // TILES_OF_ROW))
        threads[vector] = min(_power_of_two_up_to(size[vector], wide), size[vector])
    if others:
        threads[others[0]] = _power_of_two_up_to(size[others[0]], tall)
    serial = _serial_points(size, parallel, threads, vector, target)
    tile = {d: threads.get(d, 1) * serial.get(d, 1) for d in parallel}
    blocks = [Loop(d, LoopKind.BLOCK, -(-size[d] // tile[d])) for d in parallel]
    lanes = [Loop(d, LoopKind.THREAD, n) for d, n in threads.items()]
    lanes += [Loop(d, LoopKind.SERIAL, n) for d, n in serial.items()]
    terms = [Loop(d.name, LoopKind.REDUCTION, d.extent) for d in stage.loops if d.name not in parallel]
    return (*blocks, *lanes, *terms)


def _serial_points(
    size: Mapping[str, int], parallel: Sequence[str], threads: Mapping[str, int], vector: str | None, target: Target
) -> dict[str, int]:
    """Return the serial points of a thread by dimension: one, unless the grid would have too many blocks."""
    serial = dict.fromkeys(parallel, 1)
    for d in sorted(parallel, key=lambda d: (d != vector, -size[d])):
        tiles = -(-size[d] // threads.get(d, 1))
        while serial[d] < tiles and _block_count(size, threads, serial) > target.max_grid[0]:
            serial[d] *= 2
    return {d: n for d, n in serial.items() if n > 1}


def _block_count(size: Mapping[str, int], threads: Mapping[str, int], serial: Mapping[str, int]) -> int:
    return _product(-(-size[d] // (threads.get(d, 1) * n)) for d, n in serial.items())


def scan_loops(func: BoundFunc, stage: BoundStage, target: Target) -> tuple[Loop, ...]:
    """Return the loops of a scan over rows: in one block if rows are short, else with one launch per step."""
    size = loop_sizes(func, stage, func.extents)
    rest = [d.name for d in stage.loops if d.name not in stage.steps]
    steps = [Loop(d, LoopKind.REDUCTION, size[d]) for d in stage.steps]
    as_row = replace(stage, steps=(), loops=tuple(_in_one_step(d) for d in stage.loops if d.name in rest))
    longest = CPU_ROW if target.kind == "cpu" else target.max_threads_per_block
    if step_count(stage) <= MOST_LAUNCHES and row_points(stage, size) > longest:
        return (*steps, *root_loops(func, as_row, target))
    inside = in_step(stage)
    independent = [d.name for d in stage.loops if d.parallel]
    room = min(target.max_threads_per_block, CPU_LANES_OF_ROW if target.kind == "cpu" else 1 << 30)
    threads: list[Loop] = []
    serial: list[Loop] = []
    for d in reversed([d for d in rest if d in inside]):
        most = min(room, target.max_block_dim[min(len(threads), 2)]) if len(threads) < 3 else 1
        count = min(size[d], most)
        threads.append(Loop(d, LoopKind.THREAD, count))
        serial.append(Loop(d, LoopKind.SERIAL, -(-size[d] // count)))
        room //= count
    terms = [Loop(d, LoopKind.REDUCTION, size[d]) for d in rest if d not in inside and d not in independent]
    blocks = [Loop(d, LoopKind.BLOCK, size[d]) for d in independent]
    return (*blocks, *steps, *(p for p in serial if p.extent > 1), *threads, *terms)


def _in_one_step(d: LoopDim) -> LoopDim:
    return replace(d, parallel=d.parallel or d.in_step, in_step=False)


def _power_of_two_up_to(extent: int, limit: int) -> int:
    n = 1
    while 2 * n <= limit and n < extent:
        n *= 2
    return n


def inlined_by(bound: BoundPipeline, stages: Sequence[StageId], inlined: set[str]) -> tuple[Inlined, ...]:
    """Return the inlined Funcs that stages use, directly or through inlined Funcs, producers first."""
    calls = inlined_calls(bound, stages, inlined)
    return tuple(Inlined(f, calls[f]) for f in sorted(calls, key=list(bound.funcs).index))


def _product(values: Iterable[int]) -> int:
    result = 1
    for v in values:
        result *= v
    return result
