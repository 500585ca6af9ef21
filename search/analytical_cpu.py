"""A timing model for the C backend, where a block is an iteration of an OpenMP loop and its lanes an inner loop.

The time of each part of the work is a count times the time of one (`CPU_RATES`). The parts add up, but for those of
memory (`OF_MEMORY`), which goes on beside the computation: the root of the sum of both squares.

* A *row* is one run of a lane loop. Its whole vectors, of as many lanes as the narrowest array it touches allows, run
  as vector instructions: arithmetic, and accesses that are contiguous or the same in all lanes. What is left of the row
  runs lane by lane.
* Lanes that access elements two to four apart (as where a lane has several points in a row) need shuffles; those
  further apart, at quotients of the lane (``f[x // 2]``) or where data says, go one by one.
* Conditions joined by ``&&`` make branches, which the processor guesses; they and elementary functions, which are
  calls, keep gcc from forming vectors at all.
* The running sums of a reduction stay in registers if they are few. If they are very few, each addition waits for the
  one before.
* Bytes that blocks read and write come from the last-level cache; those a kernel touches beyond half the size of that
  cache come from memory. A tile of several short rows breaks up the streams that the processor fetches ahead.
* Every row, block and kernel that is begun costs a little. Blocks are dealt out evenly, so the core with most counts.

What a kernel leaves in the cache for the next one is not known, as kernels are costed alone. Not counted either are
guards of tiles that do not divide their dimension, which keep running sums out of registers, and the lanes at the ends
of a domain that run with clamps.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from autosched.featurize.lanes import WARP
from autosched.featurize.model import BatchEvaluation, KernelModel
from autosched.featurize.schema import INDEX
from autosched.schedule.types import Level, StageId
from autosched.search.lane_work import LANE_BYTES, LaneWork, lane_works, level_of
from autosched.target import Target

Floats = NDArray[np.float64]

CPU_RATES = {
    "vector_arithmetic": 0.2e-9,
    "vector_accesses": 0.32e-9,
    "divisions": 0.9e-9,
    "strided_accesses": 0.15e-9,
    "gathered_accesses": 0.45e-9,
    "scalar": 0.1e-9,
    "branches": 2.5e-9,
    "stalls": 0.2e-9,
    "calls": 3.5e-9,
    "rows": 1e-9,
    "blocks": 15e-9,
    "cache_bytes": 0.03e-9,
    "memory_bytes": 0.04e-9,
    "streams": 4e-9,
    "kernels": 3000e-9,
}
"""Seconds of one core for one of each thing that is counted.

Measured on an AMD EPYC of the fourth generation (vectors of 16 float32, 1 MB of L2 a core, gcc 12) beside other work:
fitted to the kernels of suite apps, then rounded; where fits to parts of the samples disagreed, a value between them.
`scripts/fit_cpu_model.py` measures how well they order schedules
on another machine, and fits new ones.
"""

CPU_COMPONENTS = tuple(CPU_RATES)
OF_MEMORY = ("cache_bytes", "memory_bytes", "streams")
"""Parts that the processor overlaps with the others."""
CACHE_LINE = 64
SHARE_OF_CACHE = 0.5
"""Part of the last-level cache that a kernel's arrays may fill before they come from memory."""
STREAMS = 64
"""Rows that a core reads side by side without losing track of them."""
ACCUMULATORS = 24
"""Vectors of running sums that gcc keeps in registers while a reduction runs."""
STRIDED_BELOW = 0.6
"""Share of the bytes moved that a store uses, below which its lanes lie apart."""
NEAR_BYTES = 1 << 19
"""What a core reads again within this many bytes comes from its own caches."""
CHAINS = 8
"""Additions that a core has under way at once."""


@dataclass(frozen=True)
class CpuModel:
    """Predicts times of the C backend.

    Args:
        target: The processor.
    """

    target: Target
    _known: WeakKeyDictionary[KernelModel, tuple[LaneWork, ...]] = field(
        default_factory=WeakKeyDictionary, init=False, compare=False, repr=False
    )

    @property
    def name(self) -> str:
        """Name, as reports show it."""
        return f"analytical model for {self.target.name}"

    def cost(self, found: BatchEvaluation) -> Floats:
        """Return the predicted seconds of each candidate, ``float64[M]``."""
        total = np.zeros(found.batch.count)
        for model, first, end in zip(found.models, found.batch.bounds, found.batch.bounds[1:], strict=False):
            rows = len(model.rows) + len(model.inlined)
            total[first:end] = self.total(self.counts(model, found.features[first:end, :rows]))
        return total

    @staticmethod
    def total(counts: Floats, rates: Floats | None = None) -> Floats:
        """Return the seconds of work that was counted, ``float64[N]``.

        Args:
            counts: What `counts` returns.
            rates: Seconds of one of each, ``float64[len(CPU_COMPONENTS)]``; `CPU_RATES` when left out.
        """
        seconds = counts * (np.array(list(CPU_RATES.values())) if rates is None else rates)
        memory = np.isin(CPU_COMPONENTS, OF_MEMORY)
        total: Floats = np.hypot(seconds[:, memory].sum(axis=1), seconds[:, ~memory].sum(axis=1))
        return total

    def parts(self, model: KernelModel, features: Floats) -> dict[str, Floats]:
        """Return the seconds that each kind of work takes, ``float64[N]`` by name.

        Args:
            model: The structure of the candidates.
            features: ``float64[N, rows, features]``.
        """
        counts = self.counts(model, features)
        return {name: counts[:, k] * CPU_RATES[name] for k, name in enumerate(CPU_COMPONENTS)}

    def counts(self, model: KernelModel, features: Floats) -> Floats:
        """Return how much of each kind of work the busiest core does, ``float64[N, len(CPU_COMPONENTS)]``."""
        f = features
        root = f[:, 0]
        counts = {name: np.zeros(len(f)) for name in CPU_COMPONENTS}
        blocks, written = root[:, INDEX["num_blocks"]], root[:, INDEX["global_bytes_at_task"]]
        put = root[:, INDEX["global_bytes_written_by_kernel"]]
        row_bytes = root[:, INDEX["global_innermost_bytes_at_task"]]
        # Border blocks do less than the middle one, by which work is counted: as many whole ones as the points fill.
        filled = np.where(written > 0, np.minimum(_per(put, written), blocks) / blocks, 1.0)
        read = np.zeros(len(f))
        lanes_of: dict[StageId, Floats] = {}
        for k, (stage, work) in enumerate(zip(model.rows, self._works(model), strict=True)):
            own = f[:, k]
            lanes_of[stage] = lanes = _lanes(model, stage, own, lanes_of)
            in_thread = level_of(model, stage) is Level.THREAD
            apart = np.zeros(len(f), bool) if in_thread else _lanes_apart(model, stage, own, lanes)
            self._count(counts, own, work, lanes, filled, apart)
            if in_thread:  # what the evaluations of a row share with those of the next stays in the nearest caches
                row = own[:, INDEX["unique_bytes_read_per_task"]] * lanes
                rows = _per(own[:, INDEX["num_scalars"]], lanes) * filled
                once = own[:, INDEX["unique_global_bytes_read_by_kernel"]]
                read += np.where(row <= NEAR_BYTES, once, row * rows)
            else:  # of a block that does not fit there, what several points need is read again
                block = own[:, INDEX["unique_bytes_read_per_task"]]
                asked = _per(own[:, INDEX["num_scalars"]] * own[:, INDEX["unique_bytes_read_per_point"]], blocks)
                again = np.minimum(block * np.maximum(block / NEAR_BYTES, 1), np.maximum(asked, block))
                read += again * blocks * filled
        different = f[:, :, INDEX["unique_global_bytes_read_by_kernel"]].sum(axis=1)
        counts["cache_bytes"] += np.maximum(read, different) + put
        counts["memory_bytes"] += np.maximum(different + put - SHARE_OF_CACHE * self.target.l2_bytes, 0)
        tile_rows = _per(written, row_bytes)
        lines = f[:, :, INDEX["unique_lines_read_per_task"]].sum(axis=1)
        begun = np.minimum((lines + tile_rows) * blocks, counts["cache_bytes"] / CACHE_LINE)
        counts["streams"] += np.where((tile_rows > 1) | (lines > STREAMS), begun, 0)
        counts["blocks"] += blocks
        cores = self.target.multiprocessors
        share = np.ceil(blocks / cores) / blocks
        counts["kernels"] += 1 / share
        result: Floats = np.stack([counts[name] * share for name in CPU_COMPONENTS], axis=1)
        return result

    def _count(
        self, counts: dict[str, Floats], f: Floats, work: LaneWork, lanes: Floats, filled: Floats,
        apart: NDArray[np.bool_],
    ) -> None:  # fmt: skip
        """Add the work of one stage in all blocks."""
        width = self.target.warp_size
        vector = LANE_BYTES * width / work.narrowest
        evaluations = f[:, INDEX["num_scalars"]] * filled
        blocks = f[:, INDEX["num_blocks"]] * filled
        single, double, whole, special = (
            f[:, INDEX[f"{unit}_operations_per_block"]] * blocks for unit in ("float", "double", "integer", "special")
        )
        together = np.floor(lanes / vector) * vector / lanes * (not (work.branches or work.calls))
        points = np.maximum(f[:, INDEX["innermost_pure_loop_extent"]], 1)
        reduces = f[:, INDEX["innermost_loop_extent"]] > points
        sums = points * lanes / vector
        accesses = work.wide - np.where(reduces & (sums <= ACCUMULATORS), work.own, 0)
        counts["vector_arithmetic"] += (single + 2 * double + whole) / width * together
        counts["vector_accesses"] += evaluations * accesses / width * together * ~apart
        counts["divisions"] += special / width * together
        strided = np.where(apart, work.accesses - work.gathered, work.strided)
        counts["strided_accesses"] += evaluations * strided * together
        counts["gathered_accesses"] += evaluations * work.gathered * together
        idle = np.where(reduces, np.maximum(CHAINS - sums, 0), 0)
        counts["stalls"] += evaluations / (points * lanes) * idle * together
        counts["scalar"] += (single + double + whole + special + evaluations * work.accesses) * (1 - together)
        counts["branches"] += evaluations * work.branches
        counts["calls"] += evaluations * work.calls
        counts["rows"] += evaluations / lanes

    def _works(self, model: KernelModel) -> tuple[LaneWork, ...]:
        if model not in self._known:
            self._known[model] = lane_works(model)
        return self._known[model]


def _per(a: Floats, b: Floats) -> Floats:
    return a / np.maximum(b, 1)


def _lanes_apart(model: KernelModel, stage: StageId, f: Floats, lanes: Floats) -> NDArray[np.bool_]:
    """Return whether each lane has several points in a row, so that neighbouring lanes access memory with a stride.

    The threads of a tile are then no whole rows of it, or the 32 lanes of the features use a part of what they store.
    """
    if level_of(model, stage) is Level.ROOT:
        used = f[:, INDEX["global_mem_store_efficiency"]]
    else:
        size = min(d.bytes_ for d in model.bound.funcs[stage.func].dtypes)
        # A pass through shared memory could move 4 bytes for each lane.
        used = f[:, INDEX["shared_mem_store_efficiency"]] / min(size / LANE_BYTES, 1)
    partly = (used < STRIDED_BELOW) & (lanes >= WARP)
    return np.asarray(partly | (f[:, INDEX["num_threads_per_block"]] % lanes != 0))


def _lanes(model: KernelModel, stage: StageId, f: Floats, known: dict[StageId, Floats]) -> Floats:
    """Return the lanes of a stage's rows: the points of its tile along the lanes; inside a thread those of its host."""
    spot = model.structure.spot(stage.func)
    if spot is not None and spot.level is Level.THREAD:
        return known.get(spot.host, known[model.rows[0]])
    memory = "global" if spot is None else "shared"
    size = sum(d.bytes_ for d in model.bound.funcs[stage.func].dtypes)
    lanes: Floats = np.maximum(f[:, INDEX[f"{memory}_innermost_bytes_at_task"]] / size, 1)
    return lanes
