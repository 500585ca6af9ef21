"""The schedule features: name, unit and meaning.

Names up to ``max_block_occupancy`` are those of Anderson, Appendix A; later ones are our own. A row of features
describes one stage in one kernel; inlined Funcs have rows too. *Realization*: one allocation of the stage's result, the
whole pipeline for a stage computed at root and one block for a stage computed at BLOCK. *Task*: one thread block. Where
each warp of a block has a tile of its own, its tile takes the place of a block, except in ratios of occupancy.
"""

from __future__ import annotations

from dataclasses import dataclass

SCHEMA_VERSION = 4


@dataclass(frozen=True, slots=True)
class Feature:
    """A number that describes one stage under a schedule.

    Attributes:
        name: Its name.
        unit: Its unit.
        meaning: One sentence.
    """

    name: str
    unit: str
    meaning: str


def _per_memory(pattern: str, unit: str, meaning: str) -> list[tuple[str, str, str]]:
    return [(pattern.format(m), unit, meaning.format(m)) for m in ("global", "shared", "register")]


_LISTED: list[tuple[str, str, str]] = [
    ("num_realizations", "allocations", "Allocations of the stage's result."),
    ("num_productions", "computations", "Computations of a tile of the stage."),
    ("points_computed_per_realization", "points", "Points of the stage's loops for one realization."),
    ("points_computed_per_production", "points", "Iterations of one production, guarded ones included."),
    ("points_computed_per_thread", "points", "Product of the loops inside one thread."),
    ("points_computed_total", "points", "Points per realization times realizations."),
    ("points_computed_minimum", "points", "Points of the stage without recomputation."),
    ("innermost_loop_extent", "points", "Points of the register tile, reductions included."),
    ("innermost_pure_loop_extent", "points", "Points of the register tile inside its reductions."),
    ("unrolled_loop_extent", "points", "Points of the register tile if it is unrolled, otherwise 1."),
    ("inner_parallelism", "blocks", "Blocks launched for one production; 1 for a nested stage."),
    ("outer_parallelism", "blocks", "Blocks around the production; 1 at root."),
    ("bytes_at_realization", "bytes", "Size of one realization."),
    ("bytes_at_production", "bytes", "Size of one production."),
    ("bytes_at_root", "bytes", "Size of the stage's region in the whole pipeline."),
    ("innermost_bytes_at_realization", "bytes", "The same along the dimension that is fastest in memory."),
    ("innermost_bytes_at_production", "bytes", "The same along the dimension that is fastest in memory."),
    ("innermost_bytes_at_root", "bytes", "The same along the dimension that is fastest in memory."),
    ("inlined_calls", "calls", "Evaluations inside other stages; 0 for a stage with loops of its own."),
    *_per_memory(
        "unique_{}_bytes_read_per_realization", "bytes", "Distinct bytes of {} memory read for a realization."
    ),
    *_per_memory("unique_{}_lines_read_per_realization", "rows", "Contiguous rows in those bytes of {} memory."),
    *_per_memory("unique_{}_bytes_read_per_thread", "bytes", "Distinct bytes of {} memory read by one thread."),
    *_per_memory("unique_{}_lines_read_per_thread", "rows", "Contiguous rows in those bytes of {} memory."),
    *_per_memory("{}_allocation_bytes_read_per_realization", "bytes", "Size of the {} buffers that are read."),
    ("working_set", "bytes", "Everything allocated inside the stage's production."),
    ("num_scalars", "points", "Product of all loop extents over the grid."),
    *_per_memory("{}_bytes_at_task", "bytes", "Bytes the stage writes to {} memory in one block."),
    *_per_memory("{}_innermost_bytes_at_task", "bytes", "The same for {} memory along the fastest dimension."),
    ("unique_bytes_read_per_point", "bytes", "Distinct bytes read for one evaluation."),
    ("unique_lines_read_per_point", "rows", "Contiguous rows in them."),
    ("unique_bytes_read_per_task", "bytes", "Distinct bytes of global memory that the stage reads in one block."),
    ("unique_lines_read_per_task", "rows", "Contiguous rows in them."),
    ("working_set_at_task", "bytes", "Everything allocated in one block."),
    ("working_set_at_production", "bytes", "Everything allocated around the production."),
    ("working_set_at_realization", "bytes", "Everything allocated at the level of the realization."),
    ("num_blocks", "blocks", "Blocks of the kernel."),
    ("num_warps_per_block", "warps", "Warps of a block."),
    ("num_active_warps_per_block", "warps", "Warps with at least one thread of the stage."),
    ("num_threads_per_block", "threads", "Threads of a block that compute the stage."),
    ("expr_branching", "registers", "Strahler number of the stage's expression."),
    ("block_occupancy", "ratio", "Threads of the stage over the most threads of a block."),
    ("warp_lane_utilization", "ratio", "Threads of the stage over the lanes of its active warps."),
    ("idle_lane_wastage", "ratio", "Idle lanes of active warps over the most threads of a block."),
    ("num_shared_mem_loads_per_block", "wavefronts", "Wavefronts of shared memory, bank conflicts included."),
    ("num_global_mem_loads_per_block", "sectors", "32-byte sectors loaded."),
    ("num_shared_mem_stores_per_block", "wavefronts", "Wavefronts of shared memory, bank conflicts included."),
    ("num_global_mem_stores_per_block", "sectors", "32-byte sectors stored."),
    ("shared_mem_store_efficiency", "ratio", "Requested bytes over the most bytes of the wavefronts."),
    ("shared_mem_load_efficiency", "ratio", "Requested bytes over the most bytes of the wavefronts."),
    ("global_mem_store_efficiency", "ratio", "Requested bytes over bytes of the sectors."),
    ("global_mem_load_efficiency", "ratio", "Requested bytes over bytes of the sectors."),
    ("working_set_at_thread", "bytes", "Everything allocated inside one thread: a hint of register pressure."),
    ("shared_mem_occupancy", "ratio", "Shared memory of a block over the most shared memory of a block."),
    ("shared_mem_block_limit_factor", "ratio", "Blocks that shared memory allows on a multiprocessor over the most."),
    ("max_warp_occupancy", "ratio", "Resident warps of a multiprocessor over the most."),
    ("max_block_occupancy", "ratio", "Resident blocks of a multiprocessor over the most."),
    # Beyond the paper.
    ("float_operations_per_block", "operations", "Single-precision operations, those of inlined Funcs included."),
    ("double_operations_per_block", "operations", "Double-precision operations."),
    ("integer_operations_per_block", "operations", "Integer operations, comparisons and selects."),
    ("special_operations_per_block", "operations", "Divisions and elementary functions, in instructions."),
    ("global_requests_per_block", "requests", "Warp instructions to global memory."),
    ("shared_requests_per_block", "requests", "Warp instructions to shared memory."),
    ("unique_global_bytes_read_by_kernel", "bytes", "Distinct bytes of global memory that all blocks read."),
    ("unique_input_bytes_read_by_kernel", "bytes", "The part of these in the pipeline's inputs."),
    (
        "global_bytes_written_by_kernel",
        "bytes",
        "Bytes of global memory that all blocks write; atomic updates count each time.",
    ),
    (
        "resident_blocks",
        "blocks",
        "Resident blocks of a multiprocessor by the limits of warps, shared memory and blocks.",
    ),
    ("steps_per_block", "steps", "Thread loops of the block or warp tile, with a barrier between them."),
    (
        "index_instructions_per_block",
        "instructions",
        "Warp instructions for addresses, loop counters, guards and thread positions.",
    ),
    ("integer_instructions_per_block", "instructions", "Other warp instructions of the integer units."),
    ("float_instructions_per_block", "instructions", "Single-precision warp instructions; a multiply-add is one."),
    (
        "border_share",
        "ratio",
        "Boundary blocks, or steps of a sliding window, which run code with clamps and guards, over all.",
    ),
    ("global_loads_per_border_block", "sectors", "32-byte sectors loaded by a boundary block."),
    ("global_stores_per_border_block", "sectors", "32-byte sectors stored by a boundary block."),
    ("global_requests_per_border_block", "requests", "Warp instructions to global memory in a boundary block."),
    ("global_sectors_of_block", "sectors", "Distinct 32-byte sectors of global memory that a block loads."),
    (
        "global_sectors_of_stretch",
        "sectors",
        "Distinct 32-byte sectors loaded within some iterations of the rolled loops.",
    ),
    (
        "looped_groups_per_thread",
        "groups",
        "Iterations of rolled loops, those of the innermost one in groups of up to four.",
    ),
    (
        "global_rounds_per_thread",
        "rounds",
        "The same times the length of chains of global loads: two if an index is loaded.",
    ),
    ("shared_rounds_per_thread", "rounds", "The same for loads from shared memory."),
    (
        "global_registers_per_block",
        "registers",
        "Registers of 4 bytes that loads from global memory fill, counted once per warp.",
    ),
    ("streaming_steps", "steps", "Steps that a block iterates over, of a mainloop, sliding window or row scan."),
    ("asynchronous_bytes_per_block", "bytes", "Bytes of async copies to shared memory."),
    # Warp reductions; shuffles also count as loads of shared memory, whose unit they use.
    ("split_reduction_factor", "threads", "Lanes of a warp reduction."),
    ("shuffles_per_block", "requests", "Warp shuffles."),
    # Materialised producers.
    ("live_out_bytes", "bytes", "Bytes that materialised producers store to global memory."),
]

FEATURES = tuple(Feature(*row) for row in _LISTED)
NAMES = tuple(f.name for f in FEATURES)
INDEX = {name: k for k, name in enumerate(NAMES)}
COUNT = len(FEATURES)
