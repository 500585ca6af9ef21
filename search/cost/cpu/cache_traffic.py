"""Traffic of a batch's nests between a processor's core, its caches and memory."""

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
"""Share of the last-level cache that a kernel's arrays may fill before they come from memory."""
UNFORESEEN = 16
"""Lines at the beginning of a row that the hardware prefetcher misses."""
UNFORESEEN_OF_PARTS = 6
"""The same for a row that blocks read in parts: the next block continues where this one ends."""
PARTS_OF_ROWS = 192
"""Partial rows of a block beyond which the prefetcher misses all their lines."""
STREAMS = 48
"""Streams of pages that the prefetcher of a core can follow."""
OF_PAGES = 0.4
"""Relative time of a line that the prefetcher misses because of too many pages."""
KEPT_BYTES = 2 * NEAR_BYTES
"""Most bytes read in between for which later blocks hit the core's caches."""
NEAREST_BYTES = 1 << 15
"""Most bytes read in between for which a reread hits the first-level cache."""
BEYOND_NEAREST = 2.5
"""Relative time to write and read a byte of fused producers' buffers that exceed the first-level cache."""
WAYS = 12
"""Associativity of the first-level cache for lanes far apart, fitted on one processor and used for all; for rows see
`l1_conflicts.associativity`."""
MOST_MISSED = 1.0, 3.0
"""Time of an access with many more lines than the cache keeps, relative to twice as many: for lanes a part of `PERIOD`
apart, and a multiple of it."""
PAGES = 2048
"""Entries of a core's address translation cache."""
STILL_KEPT = 0.75
"""Share of the capacity, in lines or pages, that lines far apart can use before rereads miss."""
COPIED = 2.7
"""Relative time to read a byte from memory in a fused producer that only copies, by ``memmove``."""


def cache_traffic(
    rows: LaneLoops,
    start: NDArray[np.int64],
    filled: Floats,
    is_output: Bools,
    cache_bytes: float,
    core_bytes: float,
) -> dict[str, Floats]:
    """Return the traffic of each nest over all blocks, ``float64[R]`` by component.

    Args:
        rows: The nests.
        start: ``int64[M]``, the first nest of each candidate.
        filled: ``float64[M]``, equivalent number of whole blocks, relative to the number of blocks.
        is_output: ``bool[M]``, whether the result is an output of the pipeline.
        cache_bytes: Capacity of the last-level cache for a kernel's arrays.
        core_bytes: Capacity of a core's own caches.
    """
    f, of, inside = rows.features, rows.of, rows.inside
    root, of_root = f[start], f[start][rows.candidate]
    blocks = f[:, INDEX["num_blocks"]] * filled[rows.candidate]
    # An update may write a part of its array.
    runs = f[:, INDEX["num_scalars"]] * filled[rows.candidate]
    put = np.where(rows.first, np.minimum(of_root[:, INDEX["global_bytes_written_by_kernel"]], runs * of("stored")), 0)
    once = np.minimum(f[:, INDEX["unique_global_bytes_read_by_kernel"]], rows.global_bytes) * rows.global_share
    block, unused = _read_by_block(rows)
    near, far = _rereads(rows, start, block, once, filled)
    touched = np.add.reduceat(once + put, start)
    beyond = ratio(np.maximum(touched - cache_bytes, 0), touched)[rows.candidate]
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
    missed += rows.conflict_misses * f[:, INDEX["num_scalars"]]
    return {
        "core_bytes": by_rows * filled[rows.candidate] + unused * blocks + near,
        "buffer_bytes": block_buffers + _in_threads(rows, start) * filled[rows.candidate],
        "cache_bytes": once + far + written + lost * CACHE_LINE * filled[rows.candidate],
        "missed_accesses": missed * filled[rows.candidate],
        "memory_bytes": fetched,
        "memory_writes": stored,
        "streams": _unforeseen_lines(rows, start, of_root, once + far, put),
        "chosen_lines": _chosen_lines(rows, filled[rows.candidate]),
    }


def _rereads(
    rows: LaneLoops, start: NDArray[np.int64], block: Floats, once: Floats, filled: Floats
) -> tuple[Floats, Floats]:
    """Return the bytes that are read again from a core's caches and from the last-level cache, ``float64[R]`` each.

    Args:
        rows: The nests.
        start: ``int64[M]``, the first nest of each candidate.
        block: ``float64[R]``, bytes that a block reads.
        once: ``float64[R]``, distinct bytes that all blocks read.
        filled: ``float64[M]``, see `cache_traffic`.
    """
    f, inside = rows.features, rows.inside
    blocks = f[:, INDEX["num_blocks"]] * filled[rows.candidate]
    row = np.minimum(
        f[:, INDEX["unique_bytes_read_per_task"]] * rows.lanes,
        f[:, INDEX["global_allocation_bytes_read_per_realization"]],
    )
    # Bytes that a row of evaluations inside a thread shares with the next row stay in the core's caches.
    evaluations = ratio(f[:, INDEX["num_productions"]], rows.lanes) * filled[rows.candidate]
    of_thread = np.where(row <= NEAR_BYTES, 0, row * evaluations - once)
    # A block that does not fit there rereads bytes that several points need.
    requested = ratio(
        f[:, INDEX["num_scalars"]] * f[:, INDEX["unique_bytes_read_per_point"]], f[:, INDEX["num_blocks"]]
    )
    of_block = np.minimum(block * np.maximum(block / NEAR_BYTES, 1), np.maximum(requested, block)) - block
    within = np.maximum(np.where(inside, of_thread, of_block * blocks), 0)
    is_near = np.where(inside, row, block) <= KEPT_BYTES
    by_blocks, fetched_again = _read_again(rows, start, block, once, filled)
    near = np.maximum(by_blocks - fetched_again, 0) + np.where(is_near, within, 0)
    return near, fetched_again + np.where(is_near, 0, within)


def _read_again(
    rows: LaneLoops, start: NDArray[np.int64], block: Floats, once: Floats, filled: Floats
) -> tuple[Floats, Floats]:
    """Return the bytes that blocks reread, ``float64[R]``, and the part of these that misses the core's caches.

    Blocks run one after the other, the innermost dimension first. Bytes that neighbours along a dimension share hit if
    everything read in between fits the core's caches: a block, a row of blocks, a slab of such rows.
    """
    read = np.concatenate([block[:, None], rows.level_bytes[:, 1:]], axis=1) * rows.global_share[:, None]
    again = np.maximum(read * rows.level_groups * filled[rows.candidate][:, None] - once[:, None], 0)
    fits = np.add.reduceat(read, start, axis=0) <= KEPT_BYTES
    level = np.where(fits.all(axis=1), fits.shape[1] - 1, fits.argmin(axis=1))[rows.candidate]
    return again[:, 0], np.take_along_axis(again, level[:, None], axis=1)[:, 0]


def _in_threads(rows: LaneLoops, start: NDArray[np.int64]) -> Floats:
    """Return the bytes of arrays inside threads that are written and read again, weighted by their cost.

    A single element stays in a vector register. Several form an array in memory, one per lane.
    """
    f = rows.features
    region = f[:, INDEX["bytes_at_realization"]]
    array = np.where(rows.inside & (f[:, INDEX["points_computed_per_realization"]] > 1), region, 0)
    row = np.add.reduceat(array * rows.lanes, start)[rows.candidate]
    moved: Floats = array * f[:, INDEX["num_productions"]] * np.where(row <= NEAREST_BYTES, 1, BEYOND_NEAREST)
    return moved


def ratio(a: Floats, b: Floats) -> Floats:
    """Return a quotient; the divisor is at least 1."""
    return a / np.maximum(b, 1)


def _read_by_block(rows: LaneLoops) -> tuple[Floats, Floats]:
    """Return the bytes that a block reads, ``float64[R]``, and the bytes of its lines that only later blocks use.

    Partly used lines count as whole if a block has too many of them to be kept for the next ones.
    """
    of, task = rows.of, rows.level_bytes[:, 0]
    contiguous = np.where(of("far") == 0, rows.lanes * of("narrowest"), 0)  # no data-dependent rows
    length = np.maximum(ratio(task, rows.level_rows[:, 0]), np.maximum(contiguous, 1))
    padded = np.ceil(length / CACHE_LINE) * CACHE_LINE * task / length
    is_dense = ((of("inputs") == 1) & (length >= of("input_row"))) | (padded < NEAR_BYTES)
    unused = np.where(is_dense & ~rows.inside, np.maximum(padded - task, 0), 0)
    return np.where(is_dense, task, padded), unused


def _chosen_lines(rows: LaneLoops, filled: Floats) -> Floats:
    """Return the lines at the beginning of data-dependent rows, which the prefetcher misses, ``float64[R]``."""
    entered = np.minimum(np.ceil(rows.lanes * rows.of("narrowest") / CACHE_LINE) + 1, UNFORESEEN)
    lines: Floats = rows.features[:, INDEX["num_scalars"]] * filled / rows.lanes * rows.of("chosen") * entered
    return lines


def _unforeseen_lines(
    rows: LaneLoops, start: NDArray[np.int64], of_root: Floats, fetched: Floats, put: Floats
) -> Floats:  # fmt: skip
    """Return the lines that the prefetcher misses, ``float64[R]``.

    These are lines of partial rows, in proportion to the rows of a block, and lines of tiles over many pages.
    """
    f = rows.features
    blocks, task = f[:, INDEX["num_blocks"]], f[:, INDEX["unique_bytes_read_per_task"]]
    part = of_root[:, INDEX["global_innermost_bytes_at_task"]]
    is_part = part < of_root[:, INDEX["innermost_bytes_at_root"]]
    unforeseen = np.minimum(UNFORESEEN_OF_PARTS / np.maximum(part / CACHE_LINE, 1), 1)
    rows_of_block = np.add.reduceat(rows.level_rows[:, 0] * rows.global_share, start)[rows.candidate]
    begun = (fetched + put) / CACHE_LINE * unforeseen * np.minimum(rows_of_block / PARTS_OF_ROWS, 1)
    first = np.minimum((task * blocks + put) / CACHE_LINE, rows.pages * blocks * UNFORESEEN)
    pages = OF_PAGES * first * np.minimum(rows.pages / STREAMS, 1)
    lines: Floats = np.where(is_part, begun, 0) + np.where(rows.inside, 0, pages)
    return lines


def _read_by_rows(rows: LaneLoops, core_bytes: float) -> tuple[Floats, Floats, Floats]:
    """Return the traffic of rows of threads that exceeds the caches.

    Returns:
        ``float64[R]`` each: bytes of rows that exceed the first-level cache; accesses of lanes far apart that miss it;
        lines of such accesses from the last-level cache, as the core's own caches keep few lines a power of two apart.
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
    capacity_lines = np.clip(WAYS * PERIOD / np.maximum(of("aligned"), 1), WAYS, NEAREST_BYTES / CACHE_LINE / 2)
    points = np.where(of("terms") > 1, np.maximum(f[:, INDEX["innermost_pure_loop_extent"]], 1), 1)
    lines = np.minimum((of("far") - rows.shared_loads) * points * lanes, of("array_bytes") / CACHE_LINE)
    missed = np.clip(lines / capacity_lines - 1, 0, np.where(of("aligned") < PERIOD, *MOST_MISSED))
    # Data-dependent or coinciding accesses touch no more lines than all rows of the block have.
    of_block = rows.level_rows[:, 0] + rows.level_bytes[:, 0] / CACHE_LINE
    lines = np.minimum(lines, np.where(rows.inside, np.inf, of_block))
    # The offset of a line in its page determines its sets of the second-level cache, for any page.
    capacity = core_bytes / np.clip(of("aligned"), CACHE_LINE, PERIOD)
    pages = np.minimum(lines, of("array_bytes") / PERIOD)
    lost = np.clip(np.maximum(lines / capacity, pages / PAGES) - STILL_KEPT, 0, 1)
    loads = of("far") * f[:, INDEX["num_scalars"]]
    return np.where(row > NEAREST_BYTES, row * times, 0), missed * loads, lost * loads


def _written(root: Floats, is_output: Bools, filled: Floats) -> Floats:
    """Return the bytes written, ``float64[M]``; partly filled lines count as whole if a block has too many of them."""
    row = root[:, INDEX["global_innermost_bytes_at_task"]]
    padded = np.ceil(row / CACHE_LINE) * CACHE_LINE * ratio(root[:, INDEX["global_bytes_at_task"]], row)
    is_dense = ((row >= root[:, INDEX["innermost_bytes_at_root"]]) & is_output) | (padded < NEAR_BYTES)
    put = root[:, INDEX["global_bytes_written_by_kernel"]]
    written: Floats = np.where(is_dense, put, padded * root[:, INDEX["num_blocks"]] * filled)
    return written
