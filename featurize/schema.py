"""The schedule features by name: what each means, in which unit, and where the papers list it.

Names up to ``max_block_occupancy`` are those of Anderson, Appendix A; the ones after it are ours. A row of features
describes one stage in one kernel, an inlined Func included. *Realization*: one allocation of the stage's result, so the
whole pipeline for a stage computed at root and one block for a stage computed at BLOCK. *Task*: one thread block.
"""

from __future__ import annotations

from dataclasses import dataclass

SCHEMA_VERSION = 4


@dataclass(frozen=True, slots=True)
class Feature:
    """A number that describes one stage under a schedule.

    Attributes:
        name: Its name.
        unit: What it counts.
        meaning: One sentence.
    """

    name: str
    unit: str
    meaning: str


def _per_memory(pattern: str, unit: str, meaning: str) -> list[tuple[str, str, str]]:
    return [(pattern.format(m), unit, meaning.format(m)) for m in ("global", "shared", "register")]


_LISTED: list[tuple[str, str, str]] = [
    ("num_realizations", "allocations", "How often the stage's result is allocated."),
    ("num_productions", "computations", "How often a tile of the stage is computed."),
    ("points_computed_per_realization", "points", "Points of the stage's loops for one realization."),
    ("points_computed_per_production", "points", "Points that one production really runs, guarded ones included."),
    ("points_computed_per_thread", "points", "Product of the loops inside one thread."),
    ("points_computed_total", "points", "Points per realization times realizations."),
    ("points_computed_minimum", "points", "Points needed if nothing were computed twice."),
    ("innermost_loop_extent", "points", "Points of the register tile, reductions included."),
    ("innermost_pure_loop_extent", "points", "Points of the register tile inside its reductions."),
    ("unrolled_loop_extent", "points", "Points of the register tile if it is unrolled, otherwise 1."),
    ("inner_parallelism", "blocks", "Blocks launched for one production; 1 for a nested stage."),
    ("outer_parallelism", "blocks", "Blocks around the production; 1 at root."),
    ("bytes_at_realization", "bytes", "Size of one realization."),
    ("bytes_at_production", "bytes", "Size of one production."),
    ("bytes_at_root", "bytes", "Size of everything the pipeline needs of the stage."),
    ("innermost_bytes_at_realization", "bytes", "The same along the dimension that is fastest in memory."),
    ("innermost_bytes_at_production", "bytes", "The same along the dimension that is fastest in memory."),
    ("innermost_bytes_at_root", "bytes", "The same along the dimension that is fastest in memory."),
    ("inlined_calls", "calls", "Evaluations inside other stages; 0 for a stage with loops of its own."),
    *_per_memory(
        "unique_{}_bytes_read_per_realization", "bytes", "Different bytes of {} memory read for a realization."
    ),
    *_per_memory("unique_{}_lines_read_per_realization", "rows", "Contiguous rows in those bytes of {} memory."),
    *_per_memory("unique_{}_bytes_read_per_thread", "bytes", "Different bytes of {} memory read by one thread."),
    *_per_memory("unique_{}_lines_read_per_thread", "rows", "Contiguous rows in those bytes of {} memory."),
    *_per_memory("{}_allocation_bytes_read_per_realization", "bytes", "Size of the {} buffers that are read."),
    ("working_set", "bytes", "Everything allocated inside the stage's production."),
    ("num_scalars", "points", "Product of all loop extents over the grid."),
    *_per_memory("{}_bytes_at_task", "bytes", "Bytes the stage writes to {} memory in one block."),
    *_per_memory("{}_innermost_bytes_at_task", "bytes", "The same for {} memory along the fastest dimension."),
    ("unique_bytes_read_per_point", "bytes", "Different bytes read for one evaluation."),
    ("unique_lines_read_per_point", "rows", "Contiguous rows in them."),
    ("unique_bytes_read_per_task", "bytes", "Different bytes of global memory that the block's stage reads."),
    ("unique_lines_read_per_task", "rows", "Contiguous rows in them."),
    ("working_set_at_task", "bytes", "Everything allocated in one block."),
    ("working_set_at_production", "bytes", "Everything allocated around the production."),
    ("working_set_at_realization", "bytes", "Everything allocated at the level of the realization."),
    ("num_blocks", "blocks", "Blocks of the kernel."),
    ("num_warps_per_block", "warps", "Warps of a block."),
    ("num_active_warps_per_block", "warps", "Warps with at least one thread of the stage."),
    ("num_threads_per_block", "threads", "Threads of a block that compute the stage."),
    ("expr_branching", "registers", "Strahler number of the stage's expression."),
    ("block_occupancy", "ratio", "Threads of the stage over the most a block can have."),
    ("warp_lane_utilization", "ratio", "Threads of the stage over the lanes of its active warps."),
    ("idle_lane_wastage", "ratio", "Idle lanes of active warps over the most threads a block can have."),
    ("num_shared_mem_loads_per_block", "wavefronts", "Passes through shared memory, bank conflicts included."),
    ("num_global_mem_loads_per_block", "sectors", "32-byte sectors loaded."),
    ("num_shared_mem_stores_per_block", "wavefronts", "Passes through shared memory, bank conflicts included."),
    ("num_global_mem_stores_per_block", "sectors", "32-byte sectors stored."),
    ("shared_mem_store_efficiency", "ratio", "Bytes asked for over bytes the passes could have moved."),
    ("shared_mem_load_efficiency", "ratio", "Bytes asked for over bytes the passes could have moved."),
    ("global_mem_store_efficiency", "ratio", "Bytes asked for over bytes of the sectors."),
    ("global_mem_load_efficiency", "ratio", "Bytes asked for over bytes of the sectors."),
    ("working_set_at_thread", "bytes", "Everything allocated inside one thread: a hint of register pressure."),
    ("shared_mem_occupancy", "ratio", "Shared memory of a block over what a block can have."),
    ("shared_mem_block_limit_factor", "ratio", "Blocks that shared memory allows on a multiprocessor over the most."),
    ("max_warp_occupancy", "ratio", "Warps resident at once over the most."),
    ("max_block_occupancy", "ratio", "Blocks resident at once over the most."),
    # Beyond the paper.
    ("float_operations_per_block", "operations", "Single-precision operations, those of inlined Funcs included."),
    ("double_operations_per_block", "operations", "Double-precision operations."),
    ("integer_operations_per_block", "operations", "Integer operations, comparisons and selections."),
    ("special_operations_per_block", "operations", "Divisions and elementary functions, in instructions."),
    ("global_requests_per_block", "requests", "Warp instructions to global memory."),
    ("shared_requests_per_block", "requests", "Warp instructions to shared memory."),
    ("unique_global_bytes_read_by_kernel", "bytes", "Different bytes of global memory read by all blocks together."),
    ("unique_input_bytes_read_by_kernel", "bytes", "Of these, those of the pipeline's inputs."),
    (
        "global_bytes_written_by_kernel",
        "bytes",
        "Bytes of global memory written by all blocks together; what is combined with others counts each time.",
    ),
    ("resident_blocks", "blocks", "Blocks resident on a multiprocessor: warps, shared memory and blocks counted."),
    ("steps_per_block", "steps", "Thread loops of the block, with a barrier between them."),
    (
        "index_instructions_per_block",
        "instructions",
        "Instructions of warps for addresses, counters of loops, guards and positions of threads.",
    ),
    ("integer_instructions_per_block", "instructions", "Other instructions of warps for the integer units."),
    ("float_instructions_per_block", "instructions", "Single-precision instructions of warps, multiply-adds as one."),
    ("border_share", "ratio", "Blocks that run code with clamps and guards over all blocks."),
    ("global_loads_per_border_block", "sectors", "32-byte sectors loaded by a block that runs code with guards."),
    ("global_stores_per_border_block", "sectors", "The same of stores."),
    ("global_requests_per_border_block", "requests", "Warp instructions to global memory in such a block."),
    ("global_sectors_of_block", "sectors", "Different 32-byte sectors of global memory that a block loads."),
    ("global_sectors_of_stretch", "sectors", "The same for some iterations of the loops that are not unrolled."),
    (
        "looped_groups_per_thread",
        "groups",
        "Iterations of loops that are not unrolled, up to four of the innermost one together.",
    ),
    (
        "global_rounds_per_thread",
        "rounds",
        "The same times how many loads from global memory follow one another: two if an index is loaded.",
    ),
    ("shared_rounds_per_thread", "rounds", "The same of loads from shared memory."),
    (
        "global_registers_per_block",
        "registers",
        "Registers of 4 bytes that loads from global memory fill, one of all lanes of a warp counted as one.",
    ),
    ("streaming_steps", "steps", "Steps of a loop that all threads of a block walk together."),
    ("asynchronous_bytes_per_block", "bytes", "Bytes copied to shared memory past registers."),
    # Of lanes that share terms. What they exchange counts as loads of shared memory, too, whose way it goes.
    ("split_reduction_factor", "threads", "Threads that share one reduction."),
    ("shuffles_per_block", "requests", "Warp shuffles."),
    # Reserved for code generation to come; zero.
    ("live_out_bytes", "bytes", "Bytes of Members that are stored to global memory too."),
]

FEATURES = tuple(Feature(*row) for row in _LISTED)
NAMES = tuple(f.name for f in FEATURES)
INDEX = {name: k for k, name in enumerate(NAMES)}
COUNT = len(FEATURES)
