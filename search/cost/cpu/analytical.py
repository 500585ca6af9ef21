"""Timing model of the C backend: a block is an iteration of an OpenMP loop, its lanes are an inner loop.

The time of each component is a count times a coefficient (`autosched.search.cost.cpu.coefficients`). Components add up,
except memory (`OF_MEMORY`), which overlaps with the computation of the same step: the root of the sum of both squares,
step by step. `ALONE` is the excess of that over the root of both sums.

Lane loops:

* A *row* is one run of a lane loop. Full vectors run as vector instructions: arithmetic and contiguous accesses. gcc
  uses vectors of as many lanes as the narrowest varying element allows, then of half and a quarter of that;
  remaining lanes are scalar. In rows of 1- and 2-byte elements the last vector shifts inwards instead
  (`autosched.lower.passes.cpu.shift_tail`). Blocks at the end of the result have shorter rows. Where lanes lie a few
  elements apart and the elements in between are not loaded, the last vector would read too far and is scalar.
* Lanes two to four elements apart (several points of a lane in a row) need shuffles. Lanes at quotients (``f[x // 2]``)
  of period two or four are unrolled by that period (`autosched.lower.passes.cpu.unroll_by_period`). At other quotients,
  or at data-dependent indices, accesses are scalar.
* Lanes further apart at a constant distance get no pragma. gcc vectorises them element by element, with exceptions:
  loads a power of two apart beyond a vector; loads with others in between (it cannot permute the combined access);
  float16 that the points of a thread do not share. Two to four such lanes are unrolled, with vectors along the loop
  around them.
* Divisions without a vector instruction, scalar accesses of elements below 4 bytes, and elementary functions without a
  vector version in the C library (`autosched.host.has_vector_math`) prevent vectors altogether. Stores at
  data-dependent indices are a separate scalar loop on processors without a scatter instruction.
* Unroll-and-jam loads shared elements once and evaluates inlined Funcs once
  (`autosched.search.cost.cpu.unroll_and_jam_savings`), as the middle block shows. Rows that gather at the same
  positions compute addresses and weights once.
* Uniform values are computed once a row. Of the branches of a uniform condition, vectors compute one.
* Lanes with clamped indices, or separated by conditions on the point, have scalar loops at both ends of a row.
  Remaining lanes of the row that do not fill a vector are scalar too.
* A producer inside a thread for every evaluation of its consumer shares the consumer's lane loop: they have vectors
  both or not at all.
* Boundary conditions with remainders compute these per lane, in blocks at the ends where rows reach beyond an array.
* Running sums stay in registers if they are few and all blocks have equal rows; wide rows are strip-mined
  (`autosched.lower.passes.cpu.strip_mine`). With very few sums, each addition waits for the one before, unless sums are
  short enough to overlap; scalar floating-point sums wait likewise. A term that reads another term's result, as in
  a scan, waits for memory.

Memory:

* Bytes of a block come from the last-level cache. Bytes of a kernel beyond half the size of that cache come from
  memory, as in repeated runs of a pipeline. Bytes shared by blocks adjacent along a dimension come from the core's
  caches if everything read in between fits: a block, a row of blocks, a slab of such rows
  (`autosched.search.cost.cpu.inter_block_reuse`). Bytes that several stages of a block read are fetched once.
* Tiles with parts of many rows, or over many pages, break the streams of the hardware prefetcher. Lanes a power of two
  apart fall on few cache sets (`autosched.search.cost.cpu.cache_traffic`).
* Fused producers at block level are written to a buffer and read again. A producer that only copies uses ``memmove``,
  which waits for memory.
* Every row, block and kernel costs a little to begin, and waking the other cores much more. Blocks are distributed
  evenly, so the core with most of them counts.

Kernels are costed alone, so data that a kernel leaves in the cache for the next one is not counted. Neither is the
order of a thread's loops, except for points inside its reductions.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from autosched.featurize.featurizer import SketchFeaturizer
from autosched.featurize.schema import INDEX
from autosched.featurize.tables.pipeline_tables import BatchEvaluation
from autosched.host import has_vector_math
from autosched.schedule.cpu_policy import MAX_VECTOR_STEP, shifted_lanes, strip_lengths
from autosched.search.cost.cpu.cache_traffic import SHARE_OF_CACHE, cache_traffic, ratio
from autosched.search.cost.cpu.coefficients import CPU_COMPONENTS, rates_of
from autosched.search.cost.cpu.kernel_costs import CpuKernelCosts, NestCostCache
from autosched.search.cost.cpu.lane_costs import LANE_BYTES
from autosched.search.cost.cpu.lane_loops import LaneLoops, lane_loops
from autosched.search.cost.cpu.model_features import cpu_inputs
from autosched.search.cost.cpu.stage_costs import StageCostCache
from autosched.search.cost.cpu.unroll_and_jam_savings import SPARED
from autosched.target import Target

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

OF_MEMORY = (
    "core_bytes", "buffer_bytes", "cache_bytes", "memory_bytes", "memory_writes", "missed_accesses", "streams",
    "chosen_lines",
)  # fmt: skip
"""Components that overlap with computation."""
ALONE = ("steps",)
"""Components that come on top: seconds that do not overlap, as the steps of a kernel follow one another."""
WHOLE_ROWS = 0.3
"""Relative time of an operation at the ends of rows if blocks contain whole rows, whose length is a constant."""
ACCUMULATORS = 24
"""Most vectors of running sums that gcc keeps in registers during a reduction."""
UNROLLED = 16
"""Most vectors of a row for which it does so."""
IN_REGISTERS = 0.2
"""Relative time to begin a row whose sums are in registers: its lane loop is unrolled."""
SHORTER = (1.0, 0.5, 0.25)
"""Lengths of vectors for a row's lanes, relative to the longest."""
CHAINS = 8
"""Additions that a core has in flight."""
COMBINED = 120.0
"""Scalar operations that combine the lanes of one point: with them, products of 64 terms take 10 ns each."""
AHEAD = 128
"""Look-ahead of a core, in terms of one-vector sums: it begins the next sums while short ones are in flight."""
SCAN = 26.0
"""Latency of a scan's term, in additions: the store of the previous term must complete."""
SCATTERED_STORE = 10.0
"""Time of a scalar store at a data-dependent place, in scalar additions, without the accesses themselves."""
SCALAR_ACCESS = 0.5
"""Time of a scalar access, in additions, with address and cast."""

CORE_CACHES = 2
"""Size of a core's second-level cache, relative to the shared memory of the target."""


@dataclass(frozen=True)
class CpuModel:
    """Predicts times of the C backend.

    Args:
        target: The processor.
        vector_math: Whether its C library has vector elementary functions; by default, whether this machine's has.
    """

    target: Target
    vector_math: bool = field(default_factory=has_vector_math)
    _kernel_cache: WeakKeyDictionary[SketchFeaturizer, CpuKernelCosts] = field(
        default_factory=WeakKeyDictionary, init=False, compare=False, repr=False
    )
    _nest_cache: NestCostCache = field(default_factory=dict, init=False, compare=False, repr=False)
    _stage_cache: StageCostCache = field(default_factory=dict, init=False, compare=False, repr=False)

    @property
    def name(self) -> str:
        """Name, as reports show it."""
        return f"analytical model for {self.target.name}"

    def cost(self, evaluation: BatchEvaluation) -> Floats:
        """Return the predicted seconds of each candidate, ``float64[M]``."""
        return self.total(self.counts(evaluation), self.rates)

    @property
    def rates(self) -> Floats:
        """Coefficients of the components on this processor in seconds, ``float64[len(CPU_COMPONENTS)]``."""
        return np.array([rates_of(self.target.processor)[name] for name in CPU_COMPONENTS])

    @staticmethod
    def total(counts: Floats, rates: Floats) -> Floats:
        """Return the predicted seconds of kernels, ``float64[N]``.

        Args:
            counts: ``float64[N, len(CPU_COMPONENTS)]``, see `counts`.
            rates: ``float64[len(CPU_COMPONENTS)]``, see `rates`.
        """
        seconds = counts * rates
        memory, alone = np.isin(CPU_COMPONENTS, OF_MEMORY), np.isin(CPU_COMPONENTS, ALONE)
        overlapped = np.hypot(seconds[:, memory].sum(axis=1), seconds[:, ~(memory | alone)].sum(axis=1))
        total: Floats = overlapped + seconds[:, alone].sum(axis=1)
        return total

    def parts(self, evaluation: BatchEvaluation) -> dict[str, Floats]:
        """Return the seconds of each component, ``float64[M]`` by name."""
        seconds = self.counts(evaluation) * self.rates
        return {name: seconds[:, k] for k, name in enumerate(CPU_COMPONENTS)}

    def counts(self, evaluation: BatchEvaluation) -> Floats:
        """Return the counts of each component on the busiest core, ``float64[M, len(CPU_COMPONENTS)]``."""
        return self._total_counts(*self._by_nest(evaluation))

    def counts_and_inputs(self, evaluation: BatchEvaluation) -> tuple[Floats, Floats]:
        """Return the `counts`, and the further inputs of networks, see `cpu_inputs`."""
        rows, start, by_nest = self._by_nest(evaluation)
        rates = rates_of(self.target.processor)
        seconds = np.sum([values * rates[name] for name, values in by_nest.items()], axis=0)
        return self._total_counts(rows, start, by_nest), cpu_inputs(rows, start, seconds)

    def _by_nest(self, evaluation: BatchEvaluation) -> tuple[LaneLoops, Ints, dict[str, Floats]]:
        """Return the nests of a batch, the first of each candidate, and the counts of each nest over all blocks."""
        rows, start = lane_loops(evaluation, self._kernel_costs), evaluation.batch.nests.start
        is_output = np.array([m.bound.funcs[m.rows[0].func].is_output for m in evaluation.models])[
            evaluation.batch.sketch
        ]
        root = rows.features[start]
        blocks, written = root[:, INDEX["num_blocks"]], root[:, INDEX["global_bytes_at_task"]]
        put = root[:, INDEX["global_bytes_written_by_kernel"]]
        # Counts are those of the middle block. Boundary blocks do less, in proportion to their points.
        filled = np.where(written > 0, np.minimum(ratio(put, written), blocks) / blocks, 1.0)
        by_nest = self._computation(rows, filled[rows.candidate])
        last_level, core = SHARE_OF_CACHE * self.target.l2_bytes, CORE_CACHES * self.target.shared_per_sm
        return rows, start, by_nest | cache_traffic(rows, start, filled, is_output, last_level, core)

    def _total_counts(self, rows: LaneLoops, start: Ints, by_nest: dict[str, Floats]) -> Floats:
        """Return the `counts`, from the counts of each nest."""
        blocks = rows.features[start, INDEX["num_blocks"]]
        counts = {name: np.add.reduceat(values, start) for name, values in by_nest.items()}
        counts["steps"] = self._without_overlap(rows, start, by_nest)
        counts["blocks"] = blocks
        cores = self.target.multiprocessors
        share = np.ceil(blocks / cores) / blocks
        counts["kernels"] = 1 / share
        counts["forks"] = ((blocks > 1) & (cores > 1)) / share
        result: Floats = np.stack([counts[name] * share for name in CPU_COMPONENTS], axis=1)
        return result

    def _computation(self, rows: LaneLoops, filled: Floats) -> dict[str, Floats]:
        """Return the counts of each nest over all blocks, ``float64[R]`` by component."""
        f, lanes, of = rows.features, rows.lanes, rows.of
        width = float(self.target.warp_size)
        runs = f[:, INDEX["num_scalars"]] * filled
        in_a_row = np.where(rows.lane_points > 1, of("unit"), 0)
        too_far = [distance > MAX_VECTOR_STEP for distance in (rows.lane_points, rows.lane_points * of("stride"))]
        near = np.where(too_far[0], 0, in_a_row) + np.where(too_far[1], 0, of("near"))
        far = of("far") + np.where(too_far[0], of("unit"), 0) + np.where(too_far[1], of("near"), 0)
        savings = dict(zip(SPARED, rows.jam_savings.T, strict=True))
        points = np.maximum(f[:, INDEX["innermost_pure_loop_extent"]], 1)
        gaps = np.where(too_far[0], 0, in_a_row) + np.where(too_far[1], 0, of("gaps"))
        longest = LANE_BYTES * width / of("narrowest")
        reduces = f[:, INDEX["innermost_loop_extent"]] > points
        shifts = ~reduces & (near + far == in_a_row) & (of("private") == 0)
        shifted = np.where(shifts, shifted_lanes(of("narrowest")), 0)
        whole, part = _vectorised_share(rows, longest, gaps > 0, shifted)
        power = np.exp2(np.round(np.log2(rows.lane_points))) == rows.lane_points
        refused = (power & ((of("powers") > 0) | (too_far[0] & (of("unit") > 0)))) | (of("interleaved") > 0)
        refused |= (of("halves") > 0) & ~rows.all_shared
        called = (of("calls") > 0) & ~self.vector_math
        has_vectors = ~rows.any_in_loop(refused | called | (of("serial") > 0))
        narrow = rows.any_in_loop(of("bordered") > 0)  # gathers of narrow elements in boundary blocks
        vectorised = whole * has_vectors * (1 - rows.boundary_share * narrow)
        vectors = runs / (width * part) * vectorised
        own_sums = reduces & (of("scans") == 0)
        strips = strip_lengths(lanes, points * LANE_BYTES)
        side_by_side = np.where(own_sums & (strips > 0), strips, lanes)
        sums = points * side_by_side * of("narrowest") / (LANE_BYTES * width * part)
        in_registers = reduces & (sums <= ACCUMULATORS) & (sums <= UNROLLED * points)
        contiguous = np.where(rows.lane_points > 1, 0, of("wide") - savings["wide"] - reduces * of("result_wide"))
        near -= np.where(too_far[0], 0, np.where(rows.lane_points > 1, savings["unit"], 0) + savings["near"])
        accesses = contiguous + of("private_wide") - reduces * in_registers * of("private_result_wide")
        scalar = of("scalar") + SCALAR_ACCESS * (of("unit") + of("near") + of("fixed") + of("private"))
        stores = SCATTERED_STORE * of("scattered_stores") * vectorised
        remainders = runs * of("periodic") * rows.boundary_share
        waits = vectorised * _waits(sums, of("terms")) + (1 - vectorised) * _waits(points * lanes, of("chained"))
        in_vectors = whole * has_vectors * ~narrow
        over_lanes = (f[:, INDEX["split_reduction_factor"]] == lanes) & (lanes > 1)  # the lane loop is the reduction's
        combined = COMBINED * over_lanes * runs * points / (lanes * np.maximum(f[:, INDEX["innermost_loop_extent"]], 1))
        ends = self._ends(rows, np.where(shifted > 0, 1, np.maximum(longest * SHORTER[-1], 1))) * vectorised
        return {
            "vector_arithmetic": vectors * (of("arithmetic") - savings["arithmetic"]),
            "vector_accesses": vectors * accesses,
            "sums": vectors * of("result_wide") * reduces * np.where(in_registers, rows.cut_share, 1),
            "divisions": vectors * (of("divisions") - savings["divisions"]),
            "strided_accesses": runs * near * vectorised,
            "gathered_accesses": runs * (far - rows.shared_loads) * vectorised,
            "scalar": runs * (scalar * (1 - vectorised) + stores + of("once") / lanes) + combined,
            "ends": runs * scalar * ends,
            "scattered_accesses": runs * far * (1 - vectorised),
            "stalls": runs / (points * lanes) * (reduces * waits + SCAN * of("scans") * (lanes > 1)),
            "calls": runs * of("calls") * (1 - vectorised),
            "remainders": remainders * in_vectors,
            "scalar_remainders": remainders * (1 - in_vectors),
            "rows": runs
            / (np.where(in_registers, side_by_side, lanes) * rows.jammed)
            * np.where(in_registers, IN_REGISTERS, 1),
        }

    def _ends(self, rows: LaneLoops, vector: Floats) -> Floats:
        """Return the share of lanes in the scalar loops at both ends of rows, ``float64[R]``.

        These run lanes with clamped indices, and remaining lanes that do not fill a vector.

        Args:
            rows: The nests.
            vector: ``float64[R]``, lanes of a vector.
        """
        low, high, whole = (rows.of(name) / rows.lane_points for name in ("low", "high", "whole"))
        lanes = np.minimum(rows.lanes, whole)
        at_one_end = [np.maximum(lanes - n, 0) % vector * (n > 0) for n in (low, high)]
        at_both = np.maximum(lanes - low - high, 0) % vector * (low + high > 0)
        rest = np.where(lanes < whole, sum(at_one_end), at_both)
        share: Floats = np.minimum((low + high + rest) / whole, 1) * np.where(lanes < whole, 1, WHOLE_ROWS)
        return share

    def _without_overlap(self, rows: LaneLoops, start: Ints, by_nest: dict[str, Floats]) -> Floats:
        """Return the extra seconds, ``float64[M]``, as memory and computation overlap within a step only."""
        of_step = np.zeros((2, len(rows.first)))
        rates = rates_of(self.target.processor)
        for name, values in by_nest.items():
            of_step[int(name in OF_MEMORY)] += np.bincount(rows.carrier, values * rates[name], len(values))
        overlapped = np.hypot(*np.add.reduceat(of_step, start, axis=1))
        extra: Floats = np.maximum(np.add.reduceat(np.hypot(*of_step), start) - overlapped, 0)
        return extra

    def _kernel_costs(self, model: SketchFeaturizer) -> CpuKernelCosts:
        if model not in self._kernel_cache:
            self._kernel_cache[model] = CpuKernelCosts(model, self._stage_cache, self._nest_cache)
        return self._kernel_cache[model]


def _waits(sums: Floats, terms: Floats) -> Floats:
    """Return the latency of each term of independent running sums in additions, ``float64[R]``.

    Args:
        sums: ``float64[R]``, running sums, vector or scalar.
        terms: ``float64[R]``, terms of each; 0 where none waits.
    """
    chains = sums * (1 + AHEAD / np.maximum(sums * terms, 1))
    waits: Floats = np.where(terms > 0, np.maximum(CHAINS - chains, 0), 0)
    return waits


def _vectorised_share(rows: LaneLoops, longest: Floats, gaps: Bools, shifted: Ints) -> tuple[Floats, Floats]:
    """Return the share of lanes in vectors and the mean length of these, relative to the longest; ``float64[R]``.

    Blocks at the end of rows have fewer lanes.

    Args:
        rows: The nests.
        longest: ``float64[R]``, lanes of the longest vector.
        gaps: ``bool[R]``, whether the last lane's vector would read too far.
        shifted: ``int64[R]``, lanes of the vectors of rows whose last one shifts inwards; 0 where it does not.
    """
    whole, vectors = _in_vectors(rows.lanes, longest, gaps, shifted)
    at_end, fewer = _in_vectors(rows.end_lanes, longest, gaps, shifted)
    lanes, whole, vectors = (
        (1 - rows.cut_share) * a + rows.cut_share * b
        for a, b in ((rows.lanes, rows.end_lanes), (whole, at_end), (vectors, fewer))
    )
    return whole / lanes, np.where(vectors > 0, whole / np.maximum(vectors * longest, 1e-9), 1.0)


def _in_vectors(lanes: Floats, longest: Floats, gaps: Bools, shifted: Ints) -> tuple[Floats, Floats]:
    """Return the lanes of a row that run in vectors, and the number of these vectors.

    The last vector of a row shifts inwards, or the remainder fills vectors of half and a quarter of the longest.

    Args:
        lanes: ``float64[R]``, lanes of a row.
        longest: ``float64[R]``, lanes of the longest vector.
        gaps: ``bool[R]``, whether the last lane's vector would read too far.
        shifted: ``int64[R]``, see `_vectorised_share`.
    """
    rest = lanes - gaps
    vectors = np.zeros(len(lanes))
    for part in SHORTER:
        length = np.maximum(longest * part, 1)
        whole = np.floor(rest / length)
        vectors, rest = vectors + whole, rest - whole * length
    at_once = (shifted > 0) & (lanes >= shifted)
    all_vectors = np.ceil(lanes / np.maximum(shifted, 1)) * shifted / longest
    return np.where(at_once, lanes, lanes - gaps - rest), np.where(at_once, all_vectors, vectors)
