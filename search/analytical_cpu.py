"""A timing model for the C backend, where a block is an iteration of an OpenMP loop and its lanes an inner loop.

The time of each part of the work is a count times the time of one (`CPU_RATES`). The parts add up, but for those of
memory (`OF_MEMORY`), which goes on beside the computation: the root of the sum of both squares.

* A *row* is one run of a lane loop. Its whole vectors run as vector instructions: arithmetic, and accesses that are
  contiguous. What is left of the row runs lane by lane. gcc forms vectors of as many lanes as the narrowest array
  allows, or of a half or a quarter, whichever leaves least; where lanes lie a few elements apart, the last vector
  would read too far and runs lane by lane too.
* Lanes that access elements two to four apart (as where a lane has several points in a row) need shuffles; those
  further apart, at quotients of the lane (``f[x // 2]``) or where data says, go one by one.
* Elementary functions, conditions joined by ``&&``, divisions without a vector instruction, and such accesses of
  elements of less than 4 bytes keep gcc from forming vectors at all.
* What is the same in all lanes is worked out once a row.
* Boundary conditions that take remainders do so for each lane in blocks at the border, of which there may be no others.
* The running sums of a reduction stay in registers if they are few. If they are very few, each addition waits for the
  one before.
* Bytes that blocks read and write come from the last-level cache; the pipeline's inputs and outputs, and what a kernel
  touches beyond half the size of that cache, come from memory. Tiles that walk many pages side by side break up the
  streams that the processor fetches ahead.
* Every row, block and kernel that is begun costs a little, and waking the other cores much more. Blocks are dealt out
  evenly, so the core with most counts.

What a kernel leaves in the cache for the next one is not known, as kernels are costed alone. Not counted either are
guards of tiles that do not divide their dimension, which keep running sums out of registers; lines of which short rows
use a part, where neighbouring blocks do not use the rest; and addresses that fall on the same few lines of a cache.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from autosched.analysis.bound import BoundStage
from autosched.featurize.model import BatchEvaluation, KernelModel
from autosched.featurize.schema import INDEX
from autosched.search.lane_rows import KernelWork, LaneRows, lane_rows
from autosched.search.lane_work import LANE_BYTES, NARROW_STRIDE, NEAR_BYTES
from autosched.search.stage_work import StageWork
from autosched.target import Target

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

CPU_RATES = {
    "vector_arithmetic": 0.22e-9,
    "vector_accesses": 0.27e-9,
    "divisions": 0.9e-9,
    "strided_accesses": 0.1e-9,
    "gathered_accesses": 0.25e-9,
    "scalar": 0.065e-9,
    "scattered_accesses": 0.25e-9,
    "branches": 2e-9,
    "stalls": 0.1e-9,
    "calls": 2.8e-9,
    "remainders": 0.35e-9,
    "scalar_remainders": 0.9e-9,
    "rows": 0.8e-9,
    "blocks": 8e-9,
    "core_bytes": 0.008e-9,
    "cache_bytes": 0.03e-9,
    "memory_bytes": 0.06e-9,
    "streams": 2.5e-9,
    "kernels": 2500e-9,
    "forks": 35000e-9,
}
"""Seconds of one core for one of each thing that is counted.

Measured on an AMD EPYC of the fourth generation (vectors of 16 float32, 1 MB of L2 a core, gcc 12, a virtual machine):
fitted to kernels of random pipelines that were timed on two busy cores, then rounded and scaled so that they agree with
those of suite apps on a core of their own. To wake a sleeping thread takes long in virtual machines (``forks``).
`scripts/fit_cpu_model.py` says how well they order schedules on another machine, and fits new ones.
"""

CPU_COMPONENTS = tuple(CPU_RATES)
OF_MEMORY = ("core_bytes", "cache_bytes", "memory_bytes", "streams")
"""Parts that the processor overlaps with the others."""
CACHE_LINE = 64
SHARE_OF_CACHE = 0.5
"""Part of the last-level cache that a kernel's arrays may fill before they come from memory."""
UNFORESEEN = 16
"""Lines of a row at an unforeseen place before the processor fetches ahead."""
STREAMS = 48
"""Pages that a core reads side by side without losing track of them."""
ACCUMULATORS = 24
"""Vectors of running sums that gcc keeps in registers while a reduction runs."""
NEAREST_BYTES = 1 << 15
"""What a core reads again within this many bytes comes from its first-level cache."""
IN_REGISTERS = 0.2
"""Time to begin a row whose sums are in registers over that of others: the loop over its lanes is unrolled."""
CHAINS = 8
"""Additions that a core has under way at once."""
WRITTEN = 0.35
"""Time to write a byte of an output over that of reading one of an input."""
SCALAR_ACCESS = 0.5
"""Time of an access of one element over that of an addition: address and cast are part of it."""


@dataclass(frozen=True)
class CpuModel:
    """Predicts times of the C backend.

    Args:
        target: The processor.
    """

    target: Target
    _known: WeakKeyDictionary[KernelModel, KernelWork] = field(
        default_factory=WeakKeyDictionary, init=False, compare=False, repr=False
    )
    _stages: dict[tuple[int, frozenset[str]], tuple[BoundStage, StageWork]] = field(
        default_factory=dict, init=False, compare=False, repr=False
    )

    @property
    def name(self) -> str:
        """Name, as reports show it."""
        return f"analytical model for {self.target.name}"

    def cost(self, found: BatchEvaluation) -> Floats:
        """Return the predicted seconds of each candidate, ``float64[M]``."""
        return self.total(self.counts(found))

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

    def parts(self, found: BatchEvaluation) -> dict[str, Floats]:
        """Return the seconds that each kind of work takes, ``float64[M]`` by name."""
        counts = self.counts(found)
        return {name: counts[:, k] * CPU_RATES[name] for k, name in enumerate(CPU_COMPONENTS)}

    def counts(self, found: BatchEvaluation) -> Floats:
        """Return how much of each kind of work the busiest core does, ``float64[M, len(CPU_COMPONENTS)]``."""
        rows = lane_rows(found, self._work)
        start = found.batch.nests.start
        root = rows.features[start]
        blocks, written = root[:, INDEX["num_blocks"]], root[:, INDEX["global_bytes_at_task"]]
        put = root[:, INDEX["global_bytes_written_by_kernel"]]
        # Border blocks do less than the middle one, by which work is counted: as many whole ones as the points fill.
        filled = np.where(written > 0, np.minimum(_per(put, written), blocks) / blocks, 1.0)
        by_row = self._computation(rows, filled[rows.candidate])
        counts = {name: np.add.reduceat(values, start) for name, values in by_row.items()}
        is_output = np.array([m.bound.funcs[m.rows[0].func].is_output for m in found.models])[found.batch.structure]
        counts |= self._memory(rows, start, filled, put, is_output)
        counts["blocks"] = blocks
        cores = self.target.multiprocessors
        share = np.ceil(blocks / cores) / blocks
        counts["kernels"] = 1 / share
        counts["forks"] = ((blocks > 1) & (cores > 1)) / share
        result: Floats = np.stack([counts[name] * share for name in CPU_COMPONENTS], axis=1)
        return result

    def _computation(self, rows: LaneRows, filled: Floats) -> dict[str, Floats]:
        """Return the work of each nest in all blocks, ``float64[R]`` by name."""
        f, lanes, of = rows.features, rows.lanes, rows.of
        width = float(self.target.warp_size)
        runs = f[:, INDEX["num_scalars"]] * filled
        apart, wide_apart = rows.apart > 1, rows.apart > NARROW_STRIDE
        near = np.where(wide_apart, 0, of("near") + np.where(apart, of("unit"), 0))
        far = of("far") + np.where(wide_apart, of("unit") + of("near"), 0)
        whole, part = _in_vectors(lanes, LANE_BYTES * width / of("narrowest"), near > 0)
        free = (of("branches") == 0) & (of("calls") == 0) & (of("serial") == 0)
        cut = of("bordered") > 0  # gathers of narrow elements in blocks at the border
        together = whole * free * (1 - rows.borders * cut)
        vectors = runs / (width * part) * together
        points = np.maximum(f[:, INDEX["innermost_pure_loop_extent"]], 1)
        reduces = f[:, INDEX["innermost_loop_extent"]] > points
        sums = points * lanes * of("narrowest") / (LANE_BYTES * width * part)
        in_registers = reduces & (sums <= ACCUMULATORS)
        accesses = np.where(apart, 0, of("wide")) + of("held") - np.where(in_registers, of("own"), 0)
        singly = of("scalar") + SCALAR_ACCESS * (of("unit") + of("near") + of("fixed") + of("inside"))
        remainders = runs * of("periodic") * rows.borders
        in_vectors = whole * free * ~cut
        return {
            "vector_arithmetic": vectors * of("arithmetic"),
            "vector_accesses": vectors * accesses,
            "divisions": vectors * of("divisions"),
            "strided_accesses": runs * near * together,
            "gathered_accesses": runs * far * together,
            "scalar": runs * (singly * (1 - together) + of("once") / lanes),
            "scattered_accesses": runs * far * (1 - together),
            "branches": runs * of("branches"),
            "stalls": runs / (points * lanes) * np.where(reduces, np.maximum(CHAINS - sums, 0), 0) * together,
            "calls": runs * of("calls"),
            "remainders": remainders * in_vectors,
            "scalar_remainders": remainders * (1 - in_vectors),
            "rows": runs / lanes * np.where(in_registers, IN_REGISTERS, 1),
        }

    def _memory(
        self, rows: LaneRows, start: NDArray[np.int64], filled: Floats, put: Floats, is_output: Bools
    ) -> dict[str, Floats]:
        """Return what all blocks move, ``float64[M]`` by name."""
        f, lanes, of = rows.features, rows.lanes, rows.of
        blocks, filled_of = f[:, INDEX["num_blocks"]], filled[rows.candidate]
        task, once = f[:, INDEX["unique_bytes_read_per_task"]], f[:, INDEX["unique_global_bytes_read_by_kernel"]]
        # What the evaluations of a row inside a thread share with those of the next stays in the nearest caches.
        held = f[:, INDEX["global_allocation_bytes_read_per_realization"]]
        row = np.minimum(task * lanes, held)
        of_thread = np.where(row <= NEAR_BYTES, once, row * _per(f[:, INDEX["num_productions"]], lanes) * filled_of)
        # Of a block that does not fit there, what several points need is read again.
        together = np.where(of("far") == 0, lanes * of("narrowest"), 0)  # rows are longer than where data chooses them
        length = np.maximum(_per(task, f[:, INDEX["unique_lines_read_per_task"]]), np.maximum(together, 1))
        padded = np.ceil(length / CACHE_LINE) * CACHE_LINE * task / length
        is_dense = ((of("inputs") == 1) & (length >= of("input_row"))) | (padded < NEAR_BYTES)
        block = np.where(is_dense, task, padded)
        asked = _per(f[:, INDEX["num_scalars"]] * f[:, INDEX["unique_bytes_read_per_point"]], blocks)
        again = np.minimum(block * np.maximum(block / NEAR_BYTES, 1), np.maximum(asked, block)) * blocks * filled_of
        read = np.add.reduceat(np.where(rows.inside, of_thread, again), start)
        different = np.add.reduceat(once, start)
        cold = np.add.reduceat(once * of("inputs"), start)
        own = np.where(rows.first, put[rows.candidate], 0)
        first_lines = np.minimum((task * blocks + own) / CACHE_LINE, rows.streams * blocks * UNFORESEEN)
        broken = first_lines * np.minimum(rows.streams / STREAMS, 1) * ~rows.inside
        entered = np.minimum(np.ceil(lanes * of("narrowest") / CACHE_LINE) + 1, UNFORESEEN)
        broken = broken + f[:, INDEX["num_scalars"]] * filled_of / lanes * of("chosen") * entered
        spilled = np.maximum(different - cold + put - SHARE_OF_CACHE * self.target.l2_bytes, 0)
        return {
            "core_bytes": np.add.reduceat(self._read_by_rows(rows) * filled_of, start),
            "cache_bytes": np.maximum(read, different) + self._written(f[start], put, is_output, filled),
            "memory_bytes": cold + spilled + WRITTEN * put * is_output,
            "streams": np.add.reduceat(broken, start),
        }

    @staticmethod
    def _read_by_rows(rows: LaneRows) -> Floats:
        """Return the bytes that rows of threads read, ``float64[R]``, where they do not fit the first-level cache."""
        f, lanes, of = rows.features, rows.lanes, rows.of
        task, blocks = f[:, INDEX["unique_bytes_read_per_task"]], f[:, INDEX["num_blocks"]]
        moving = of("unit") + of("near") + of("far")
        spread = (moving * lanes + of("fixed")) / np.maximum(moving + of("fixed"), 1)
        of_thread = np.where(rows.inside, task, f[:, INDEX["unique_global_bytes_read_per_thread"]])
        most = np.where(rows.inside, f[:, INDEX["global_allocation_bytes_read_per_realization"]], task)
        row = np.minimum(of_thread * spread, most)
        threads = f[:, INDEX["num_threads_per_block"]] * blocks
        times = np.where(rows.inside, f[:, INDEX["num_productions"]], threads) / lanes
        found: Floats = np.where(row > NEAREST_BYTES, row * times, 0)
        return found

    @staticmethod
    def _written(root: Floats, put: Floats, is_output: Bools, filled: Floats) -> Floats:
        """Return the bytes written, lines of which a row fills a part as whole where a tile has too many of them."""
        row = root[:, INDEX["global_innermost_bytes_at_task"]]
        padded = np.ceil(row / CACHE_LINE) * CACHE_LINE * _per(root[:, INDEX["global_bytes_at_task"]], row)
        is_dense = ((row >= root[:, INDEX["innermost_bytes_at_root"]]) & is_output) | (padded < NEAR_BYTES)
        found: Floats = np.where(is_dense, put, padded * root[:, INDEX["num_blocks"]] * filled)
        return found

    def _work(self, model: KernelModel) -> KernelWork:
        if model not in self._known:
            self._known[model] = KernelWork(model, self._stages)
        return self._known[model]


def _per(a: Floats, b: Floats) -> Floats:
    return a / np.maximum(b, 1)


def _in_vectors(lanes: Floats, longest: Floats, gaps: Bools) -> tuple[Floats, Floats]:
    """Return the share of a row's lanes in vectors, and the part of the longest vector that these are.

    Args:
        lanes: ``float64[R]``, lanes of a row.
        longest: ``float64[R]``, lanes of the longest vector.
        gaps: ``bool[R]``, whether the last vector would read too far.
    """
    best = np.full(len(lanes), np.inf)
    share, part = np.zeros(len(lanes)), np.ones(len(lanes))
    for fraction in (1.0, 0.5, 0.25):
        length = np.maximum(longest * fraction, 1)
        vectors = np.where(gaps, np.ceil(lanes / length) - 1, np.floor(lanes / length))
        steps = vectors + lanes - vectors * length
        better = steps < best
        best = np.where(better, steps, best)
        share, part = np.where(better, vectors * length / lanes, share), np.where(better, fraction, part)
    return share, part
