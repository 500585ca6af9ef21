"""What the nests of a batch move between a processor's core, its caches and memory."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from autosched.featurize.schema import INDEX
from autosched.search.cost.cpu.l1_conflicts import CACHE_LINE, PERIOD
from autosched.search.cost.cpu.lane_costs import NEAR_BYTES
from autosched.search.cost.cpu.lane_loops import LaneLoops

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

SHARE_OF_CACHE = 0.5
"""Part of the last-level cache that a kernel's arrays may fill before they come from memory."""
UNFORESEEN = 16
"""Lines of a row at an unforeseen place before the processor fetches ahead."""
UNFORESEEN_OF_PARTS = 6
"""The same of a row of which blocks hold parts: the next block goes on where this one ends."""
PARTS_OF_ROWS = 192
"""Rows of which a block reads a part before the processor foresees none of their lines."""
STREAMS = 48
"""Pages that a core reads side by side without losing track of them."""
OF_PAGES = 0.4
"""Time of a line that is not foreseen for that reason over that of others."""
KEPT_BYTES = 2 * NEAR_BYTES
"""What later blocks find in the core's caches if no more than this has been read in between."""
NEAREST_BYTES = 1 << 15
"""What a core reads again within this many bytes comes from its first-level cache."""
BEYOND_NEAREST = 2.5
"""Time to write and read a byte of Members' buffers where they do not fit there over that where they do."""
WAYS = 12
"""Lines of each set of the first-level cache of the processor on which lanes far apart were timed, taken for all of
them; of rows it is `nearest_cache.ways_of`."""
MOST_MISSED = 1.0, 3.0
"""Time of an access where lines are many more than are kept, over that where they are twice as many: of lanes that a
part of `PERIOD`, or a multiple of it, sets apart."""
PAGES = 2048
"""Pages whose addresses a core has at hand."""
STILL_KEPT = 0.75
"""Part of the lines, or pages, that a core can keep of those far apart before it loses some that it reads again."""
COPIED = 2.7
"""Time to read a byte from memory in a Member that only copies, as calls of ``memmove`` do, over that of others."""


def cache_traffic(
    rows: LaneLoops,
    start: NDArray[np.int64],
    filled: Floats,
    is_output: Bools,
    cache_bytes: float,
    core_bytes: float,
) -> dict[str, Floats]:
    """Return what all blocks move for each nest, ``float64[R]`` by name of the part of the time.

    Args:
        rows: The nests.
        start: ``int64[M]``, the first of each candidate.
        filled: ``float64[M]``, whole blocks over blocks.
        is_output: ``bool[M]``, whether the result is one of the pipeline's.
        cache_bytes: What a kernel's arrays may fill before they come from memory.
        core_bytes: What a core's own caches hold.
    """
    f, of, inside = rows.features, rows.of, rows.inside
    root, of_root = f[start], f[start][rows.candidate]
    blocks = f[:, INDEX["num_blocks"]] * filled[rows.candidate]
    # An update may write a part of its array.
    runs = f[:, INDEX["num_scalars"]] * filled[rows.candidate]
    put = np.where(rows.first, np.minimum(of_root[:, INDEX["global_bytes_written_by_kernel"]], runs * of("stored")), 0)
    once = np.minimum(f[:, INDEX["unique_global_bytes_read_by_kernel"]], rows.outside) * rows.share
    block, in_part = _read_by_block(rows)
    row = np.minimum(
        f[:, INDEX["unique_bytes_read_per_task"]] * rows.lanes,
        f[:, INDEX["global_allocation_bytes_read_per_realization"]],
    )
    # What the evaluations of a row inside a thread share with those of the next stays in the nearest caches.
    evaluations = ratio(f[:, INDEX["num_productions"]], rows.lanes) * filled[rows.candidate]
    of_thread = np.where(row <= NEAR_BYTES, 0, row * evaluations - once)
    # Of a block that does not fit there, what several points need is read again.
    asked = ratio(f[:, INDEX["num_scalars"]] * f[:, INDEX["unique_bytes_read_per_point"]], f[:, INDEX["num_blocks"]])
    of_block = np.minimum(block * np.maximum(block / NEAR_BYTES, 1), np.maximum(asked, block)) - block
    within = np.maximum(np.where(inside, of_thread, of_block * blocks), 0)
    is_near = np.where(inside, row, block) <= KEPT_BYTES
    by_blocks, fetched_again = _read_again(rows, start, block, once, filled)
    near = np.maximum(by_blocks - fetched_again, 0) + np.where(is_near, within, 0)
    far = fetched_again + np.where(is_near, 0, within)
    hot = np.add.reduceat(once + put, start)
    beyond = ratio(np.maximum(hot - cache_bytes, 0), hot)[rows.candidate]
    shared = f[:, INDEX["shared_bytes_at_task"]]
    copies = (of("scalar") == 0) & ((shared > 0) | inside)
    fetched = once * beyond * np.where(copies, COPIED, 1)
    stored = put * beyond
    fits = f[:, INDEX["working_set_at_task"]] <= NEAREST_BYTES
    length = np.maximum(rows.lanes * of("stored"), 1)
    most = runs * of("stored") * np.ceil(length / CACHE_LINE) * CACHE_LINE / length
    written = np.minimum(_written(root, is_output, filled)[rows.candidate] * rows.first, most)
    block_buffers = shared * blocks * np.where(fits, 1, BEYOND_NEAREST)
    by_rows, missed, lost = _read_by_rows(rows, core_bytes)
    missed += rows.lost * f[:, INDEX["num_scalars"]]
    return {
        "core_bytes": by_rows * filled[rows.candidate] + in_part * blocks + near,
        "buffer_bytes": block_buffers + _in_threads(rows, start) * filled[rows.candidate],
        "cache_bytes": once + far + written + lost * CACHE_LINE * filled[rows.candidate],
        "missed_accesses": missed * filled[rows.candidate],
        "memory_bytes": fetched,
        "memory_writes": stored,
        "streams": _broken(rows, start, of_root, once + far, put),
        "chosen_lines": _chosen(rows, filled[rows.candidate]),
    }


def _read_again(
    rows: LaneLoops, start: NDArray[np.int64], block: Floats, once: Floats, filled: Floats
) -> tuple[Floats, Floats]:
    """Return the bytes that blocks read which others have read, ``float64[R]``, and those that are no longer at hand.

    Blocks run one after the other, the innermost dimension first. What neighbours along a dimension share is at hand if
    all that is read from one to the other fits the core's caches: a block, a row of blocks, a slab of such rows.
    """
    held = np.concatenate([block[:, None], rows.read[:, 1:]], axis=1) * rows.share[:, None]
    again = np.maximum(held * rows.groups * filled[rows.candidate][:, None] - once[:, None], 0)
    fits = np.add.reduceat(held, start, axis=0) <= KEPT_BYTES
    level = np.where(fits.all(axis=1), fits.shape[1] - 1, fits.argmin(axis=1))[rows.candidate]
    return again[:, 0], np.take_along_axis(again, level[:, None], axis=1)[:, 0]


def _in_threads(rows: LaneLoops, start: NDArray[np.int64]) -> Floats:
    """Return the bytes of arrays inside threads that rows of these write and read again, by what they cost.

    One element stays in a register of vectors; several are an array in memory, of so many elements for each lane.
    """
    f = rows.features
    region = f[:, INDEX["bytes_at_realization"]]
    held = np.where(rows.inside & (f[:, INDEX["points_computed_per_realization"]] > 1), region, 0)
    row = np.add.reduceat(held * rows.lanes, start)[rows.candidate]
    found: Floats = held * f[:, INDEX["num_productions"]] * np.where(row <= NEAREST_BYTES, 1, BEYOND_NEAREST)
    return found


def ratio(a: Floats, b: Floats) -> Floats:
    """Return a quotient, the divisor being at least 1."""
    return a / np.maximum(b, 1)


def _read_by_block(rows: LaneLoops) -> tuple[Floats, Floats]:
    """Return the bytes that a block reads, ``float64[R]``, and those of its lines that only later blocks use.

    Lines of which rows use a part count as whole where a block has too many of them to be kept for the next ones.
    """
    of, task = rows.of, rows.read[:, 0]
    together = np.where(of("far") == 0, rows.lanes * of("narrowest"), 0)  # rows are longer than where data chooses them
    length = np.maximum(ratio(task, rows.read_rows[:, 0]), np.maximum(together, 1))
    padded = np.ceil(length / CACHE_LINE) * CACHE_LINE * task / length
    is_dense = ((of("inputs") == 1) & (length >= of("input_row"))) | (padded < NEAR_BYTES)
    unused = np.where(is_dense & ~rows.inside, np.maximum(padded - task, 0), 0)
    return np.where(is_dense, task, padded), unused


def _chosen(rows: LaneLoops, filled: Floats) -> Floats:
    """Return the lines of rows that data chooses, ``float64[R]``, before the processor fetches ahead."""
    entered = np.minimum(np.ceil(rows.lanes * rows.of("narrowest") / CACHE_LINE) + 1, UNFORESEEN)
    found: Floats = rows.features[:, INDEX["num_scalars"]] * filled / rows.lanes * rows.of("chosen") * entered
    return found


def _broken(rows: LaneLoops, start: NDArray[np.int64], of_root: Floats, fetched: Floats, put: Floats) -> Floats:
    """Return the lines that the processor does not foresee, ``float64[R]``.

    They are those of the parts of rows that blocks hold, the more rows the more of them, and those of tiles that walk
    many pages side by side.
    """
    f = rows.features
    blocks, task = f[:, INDEX["num_blocks"]], f[:, INDEX["unique_bytes_read_per_task"]]
    part = of_root[:, INDEX["global_innermost_bytes_at_task"]]
    is_part = part < of_root[:, INDEX["innermost_bytes_at_root"]]
    unforeseen = np.minimum(UNFORESEEN_OF_PARTS / np.maximum(part / CACHE_LINE, 1), 1)
    side_by_side = np.add.reduceat(rows.read_rows[:, 0] * rows.share, start)[rows.candidate]
    begun = (fetched + put) / CACHE_LINE * unforeseen * np.minimum(side_by_side / PARTS_OF_ROWS, 1)
    first = np.minimum((task * blocks + put) / CACHE_LINE, rows.streams * blocks * UNFORESEEN)
    pages = OF_PAGES * first * np.minimum(rows.streams / STREAMS, 1)
    found: Floats = np.where(is_part, begun, 0) + np.where(rows.inside, 0, pages)
    return found


def _read_by_rows(rows: LaneLoops, core_bytes: float) -> tuple[Floats, Floats, Floats]:
    """Return the bytes that rows of threads read, ``float64[R]``, where they do not fit the first-level cache.

    Second are the accesses that lie anywhere, of too many lines to find them there again; third are the lines that such
    accesses fetch from the last level, as the core's own caches keep few that a power of two sets apart.
    """
    f, lanes, of = rows.features, rows.lanes, rows.of
    task, blocks = f[:, INDEX["unique_bytes_read_per_task"]], f[:, INDEX["num_blocks"]]
    moving = of("unit") + of("near") + of("far")
    spread = (moving * lanes + of("fixed")) / np.maximum(moving + of("fixed"), 1)
    of_thread = np.where(rows.inside, task, f[:, INDEX["unique_global_bytes_read_per_thread"]])
    most = np.where(rows.inside, f[:, INDEX["global_allocation_bytes_read_per_realization"]], task)
    row = np.minimum(of_thread * spread, most)
    threads = f[:, INDEX["num_threads_per_block"]] * blocks
    times = np.where(rows.inside, f[:, INDEX["num_productions"]], threads) / lanes
    # Lines that are a power of two apart fall on few of a cache's sets.
    kept = np.clip(WAYS * PERIOD / np.maximum(of("aligned"), 1), WAYS, NEAREST_BYTES / CACHE_LINE / 2)
    points = np.where(of("terms") > 1, np.maximum(f[:, INDEX["innermost_pure_loop_extent"]], 1), 1)
    lines = np.minimum((of("far") - rows.spared) * points * lanes, of("among") / CACHE_LINE)
    missed = np.clip(lines / kept - 1, 0, np.where(of("aligned") < PERIOD, *MOST_MISSED))
    # Where data choose them, or several accesses meet, there are no more lines than in all rows that the block reads.
    of_block = rows.read_rows[:, 0] + rows.read[:, 0] / CACHE_LINE
    lines = np.minimum(lines, np.where(rows.inside, np.inf, of_block))
    # Where a line lies in a page says which sets of the second-level cache it may be in, wherever the page is.
    held = core_bytes / np.clip(of("aligned"), CACHE_LINE, PERIOD)
    pages = np.minimum(lines, of("among") / PERIOD)
    lost = np.clip(np.maximum(lines / held, pages / PAGES) - STILL_KEPT, 0, 1)
    loads = of("far") * f[:, INDEX["num_scalars"]]
    return np.where(row > NEAREST_BYTES, row * times, 0), missed * loads, lost * loads


def _written(root: Floats, is_output: Bools, filled: Floats) -> Floats:
    """Return the bytes written, ``float64[M]``, lines of which a row fills a part as whole where there are too many."""
    row = root[:, INDEX["global_innermost_bytes_at_task"]]
    padded = np.ceil(row / CACHE_LINE) * CACHE_LINE * ratio(root[:, INDEX["global_bytes_at_task"]], row)
    is_dense = ((row >= root[:, INDEX["innermost_bytes_at_root"]]) & is_output) | (padded < NEAR_BYTES)
    put = root[:, INDEX["global_bytes_written_by_kernel"]]
    found: Floats = np.where(is_dense, put, padded * root[:, INDEX["num_blocks"]] * filled)
    return found
