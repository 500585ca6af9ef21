"""Pruning rules of the search, each with its reason (Anderson, section 6.6)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from autosched.featurize.regions.occupancy import resident_blocks
from autosched.featurize.schema import INDEX
from autosched.featurize.sketch.candidate_layout import CandidateLayout
from autosched.featurize.tables.candidate_batch import Batch, RaggedRows
from autosched.featurize.tables.descriptor_tables import BLOCK, THREAD
from autosched.featurize.tables.pipeline_tables import BatchEvaluation
from autosched.schedule.policy import is_unrolled, unrolls_reduction
from autosched.schedule.tilings import MAX_UNROLLED_LOADS
from autosched.search.evaluate.guide_limits import GuideLimits
from autosched.search.settings import SearchSettings
from autosched.target import Target

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]

PRUNED_BY = frozenset({"points_computed_minimum", "points_computed_total", "idle_lane_wastage", "inlined_calls"})
"""Features that `reasons_of` reads."""

LEGAL = ""
REASONS = (
    LEGAL,
    "more threads than a block can have",
    "threads beyond the device's limit in a dimension",
    "more shared memory than a block can have",
    "more blocks than a grid can have",
    "too much code when unrolled",
    "too large for a thread's registers",
    "serial loops too long to unroll",
    "an inlined Func is evaluated too often",
    "less occupancy than the guide asks for",
    "more threads in a block than the guide gives its root",
    "too much recomputation",
    "too many idle lanes",
)
"""Reasons by number; the lowest number takes precedence."""
EARLY = 10
"""Number of early reasons: they depend on the layout of a kernel alone, not on its accesses."""


def reasons_of(candidates: BatchEvaluation, s: SearchSettings, t: Target, limits: GuideLimits | None = None) -> Ints:
    """Return the number of each candidate's pruning reason, ``int64[M]``; 0 if it is not pruned.

    Args:
        candidates: The candidates.
        s: Limits of the rules.
        t: The device.
        limits: Limits of a guide; None without any.
    """
    early = early_reasons(candidates, s, t, limits)
    return np.where(early > 0, early, late_reasons(candidates, s))


def early_reasons(
    candidates: CandidateLayout | BatchEvaluation, s: SearchSettings, t: Target, limits: GuideLimits | None = None
) -> Ints:  # fmt: skip
    """As `reasons_of`, for the early reasons alone."""
    g = candidates.geometry
    fits, short = _register_tiles(candidates, s, t)
    bad: tuple[Bools, ...] = (
        _too_many_threads(candidates, t) | (g.thread_dims > 3),
        np.asarray((g.block > np.array(t.max_block_dim)).any(axis=1)),
        candidates.shared_bytes * candidates.batch.tiles > t.shared_per_block_optin,
        g.blocks > t.max_grid[0],
        _unrolled_loads(candidates) > MAX_UNROLLED_LOADS,
        ~fits,
        ~short,
        np.array([(p.calls >= s.max_inlined_calls).any() for p in candidates.batch.plans])[candidates.batch.sketch],
    )
    if limits is not None:
        root_threads = g.nests.entered[candidates.batch.nests.start].prod(axis=1)
        bad += (
            _occupancy(candidates, t) < limits.occupancy,
            limits.fixed_block & (g.block.prod(axis=1) > root_threads),
        )
    return _first_of(bad, 1)


def _too_many_threads(candidates: CandidateLayout | BatchEvaluation, t: Target) -> Bools:
    """Return whether a block has too many threads, or the tile of a warp has more than that, ``bool[M]``."""
    threads, batch = candidates.geometry.block.prod(axis=1), candidates.batch
    has_warps = np.array([p.warps > 0 for p in batch.plans])[batch.sketch]
    in_block = np.where(has_warps, t.warp_size * batch.tiles, threads) > t.max_threads_per_block
    return np.asarray(in_block | (has_warps & (threads > t.warp_size)))


def late_reasons(candidates: BatchEvaluation, s: SearchSettings) -> Ints:
    """As `reasons_of`, for candidates without an early reason."""
    return _first_of(_work(candidates, s), 1 + EARLY)


def _first_of(bad: Sequence[Bools], number: int) -> Ints:
    """Return the number of the first mask that is set, where the first mask has the given number; 0 where none is."""
    codes = np.zeros(len(bad[0]), np.int64)
    for k, mask in reversed(list(enumerate(bad, number))):
        codes[mask] = k
    return codes


def _occupancy(candidates: CandidateLayout | BatchEvaluation, t: Target) -> Floats:
    """Return the resident threads of a multiprocessor over those that it can have, ``float64[M]``, by shared memory."""
    tiles = candidates.batch.tiles
    warps = -(-candidates.geometry.block.prod(axis=1) // t.warp_size) * tiles
    occupancy: Floats = resident_blocks(t, warps, candidates.shared_bytes * tiles) * warps / t.max_warps_per_sm
    return occupancy


def _every(batch: Batch, nests: Bools) -> Bools:
    """Return whether a condition holds for all loop nests of each candidate."""
    return np.asarray(np.logical_and.reduceat(nests, batch.nests.start))


def _register_tiles(
    candidates: CandidateLayout | BatchEvaluation, s: SearchSettings, t: Target
) -> tuple[Bools, Bools]:  # fmt: skip
    """Return whether register tiles fit, and whether serial loops are short enough to unroll."""
    nests, batch = candidates.geometry.nests, candidates.batch
    level = nests.kinds["level"]
    inside = level == THREAD
    points = nests.extents.prod(axis=1)
    serial = nests.serial.prod(axis=1)
    fits = (points <= s.max_thread_points) & (points * nests.kinds["bytes"] <= s.max_thread_bytes)
    fits &= serial[batch.hosts] <= s.max_serial_points
    short = (level != BLOCK) | (serial <= 4 * s.max_serial_points) | (t.kind == "cpu")
    return _every(batch, ~inside | fits), _every(batch, short)


def _unrolled_loads(candidates: CandidateLayout | BatchEvaluation) -> Ints:
    """Return the loads of a kernel after unrolling, as the legality check counts them."""
    nests = candidates.geometry.nests
    kinds = nests.kinds
    points, red = nests.serial.prod(axis=1), kinds["reductions"]
    inside = kinds["level"] == THREAD
    terms = np.where(unrolls_reduction(points, red), red, 1)
    times, nest = nests.times.copy(), np.arange(len(points))
    while inside[nest].any():  # reduction loops of hosts that are not unrolled add no copies
        host = np.where(inside[nest], candidates.batch.hosts[nest], nest)
        times //= np.where(nests.times[nest] > nests.times[host], red[host] // terms[host], 1)
        nest = host
    copies = np.where(is_unrolled(points) | inside | (kinds["indexes_registers"] > 0), points, 1) * times
    return np.add.reduceat(copies * terms * kinds["loads"], candidates.batch.nests.start)


def _work(candidates: BatchEvaluation, s: SearchSettings) -> tuple[Bools, Bools]:
    """Return whether recomputation and whether idle lanes exceed their limits."""
    batch, features = candidates.batch, candidates.features
    needed = np.maximum(features[:, :, INDEX["points_computed_minimum"]], 1)
    recomputed = (features[:, :, INDEX["points_computed_total"]] / needed > s.max_recompute).any(axis=1)
    idle = features[:, :, INDEX["idle_lane_wastage"]].max(axis=1) > s.max_idle_lanes
    items = RaggedRows.of([len(p.inlined) for p in batch.plans], batch.sketch)
    if len(items.flat):
        trivial = np.concatenate([p.inlined for p in batch.plans])[items.flat, 3] > 0
        row = batch.nests.count[items.candidate] + np.arange(len(items.flat)) - items.start[items.candidate]
        calls = features[items.candidate, row, INDEX["inlined_calls"]]
        many = calls / needed[items.candidate, row] > s.max_recompute
        recomputed |= np.bincount(items.candidate, many & ~trivial, batch.count) > 0
    return np.asarray(recomputed), np.asarray(idle)
