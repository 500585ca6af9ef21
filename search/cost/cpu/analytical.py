"""A timing model for the C backend, where a block is an iteration of an OpenMP loop and its lanes an inner loop.

The time of each part of the work is a count times the time of one (`autosched.search.cost.cpu.coefficients`). The parts
add up, but for those of memory (`OF_MEMORY`), which go on beside the computation of the same step: the root of the sum
of both squares, step by step (`ALONE` is what that is more than the root of both sums).

* A *row* is one run of a lane loop. Its whole vectors run as vector instructions: arithmetic, and accesses that are
  contiguous. gcc forms vectors of as many lanes as the narrowest elements that differ from lane to lane allow, of half
  as many of what these leave over, and of a quarter; the rest runs lane by lane. Blocks at the end of the result have
  shorter rows. Where lanes lie a few elements apart and what is between them is not loaded too, the last one would
  read too far and runs alone.
* Lanes that access elements two to four apart (as where a lane has several points in a row) need shuffles. Where they
  stand at quotients (``f[x // 2]``) that two or four lanes share, so many go together: they load vectors, and access
  all else so far apart (`autosched.lower.passes.cpu.unroll_by_period`). At other quotients, or where data says, they go
  one by one.
* Where lanes lie further apart, but evenly, gcc is not told to form vectors. It does so element by element, but not
  where loads lie a power of two apart that is more than a vector, or several between a lane and the next (it takes both
  for parts of one long access that it then cannot permute), nor of float16 unless the points of a thread share them.
  Two to four such lanes are unrolled, and vectors formed along the loop around them.
* Divisions without a vector instruction and accesses one by one of elements of less than 4 bytes keep gcc from forming
  vectors at all, as do elementary functions where the C library has none of vectors (`autosched.host.has_vector_math`).
  Stores where data say, on processors without an instruction for them, come lane by lane after the rest.
* Rows that the C backend takes together load what they share once, and evaluate inlined Funcs once
  (`autosched.search.cost.cpu.unroll_and_jam_savings`); which these are is told from the middle block.
* What is the same in all lanes is worked out once a row; of two values between which a condition chooses that is the
  same in all lanes, vectors are worked out of one.
* Lanes whose indices are clamped, or that conditions on their place tell apart, at both ends of the rows of the whole
  result, have loops of their own and run one by one, as does what they leave over beside the vectors of their block.
* What is computed inside a thread for every evaluation of its consumer shares that one's lane loop: where one of both
  cannot form vectors, neither does.
* Boundary conditions that take remainders do so for each lane in blocks at those ends of the result at which rows reach
  beyond an array, of which there may be no others.
* The running sums of a reduction stay in registers if they are few and their rows the same in all blocks; wide rows are
  gone through in strips (`autosched.lower.passes.cpu.strip_mine`).
  If they are very few, each addition waits for the one before, unless sums are so short that others begin meanwhile;
  so it is with those of lanes that run one by one, if they are floating-point numbers.
  What each term reads of another term's result, as in running sums, comes back from memory.
* Bytes that blocks read and write come from the last-level cache, and what a kernel touches beyond half the size of
  that cache from memory, as when a pipeline runs time after time. What blocks share with their neighbours along a
  dimension comes from the core's caches if all that is read from one to the other fits these: a block, a row of blocks,
  a slab of such rows (`autosched.search.cost.cpu.inter_block_reuse`). What several stages of a block read is fetched
  once. Tiles that hold parts of many rows, or walk many pages side by side, break up the streams that the processor
  fetches ahead; lanes that a power of two sets apart fall on few of a cache's sets
  (`autosched.search.cost.cpu.cache_traffic`).
* Members at a block's level are written to a buffer and read again. What one copies without computing is fetched by
  calls of ``memmove``, which wait for memory.
* Every row, block and kernel that is begun costs a little, and waking the other cores much more. Blocks are dealt out
  evenly, so the core with most counts.

What a kernel leaves in the cache for the next one is not known, as kernels are costed alone. Not counted either is the
order of a thread's loops, but for which points lie inside its reductions.
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
from autosched.schedule.cpu_policy import MAX_VECTOR_STEP, strip_lengths
from autosched.search.cost.cpu.cache_traffic import SHARE_OF_CACHE, cache_traffic, ratio
from autosched.search.cost.cpu.coefficients import CPU_COMPONENTS, rates_of
from autosched.search.cost.cpu.kernel_costs import CpuKernelCosts
from autosched.search.cost.cpu.lane_costs import LANE_BYTES
from autosched.search.cost.cpu.lane_loops import LaneLoops, lane_rows
from autosched.search.cost.cpu.model_features import cpu_inputs
from autosched.search.cost.cpu.stage_costs import KnownWork
from autosched.search.cost.cpu.unroll_and_jam_savings import SPARED
from autosched.target import Target

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

OF_MEMORY = (
    "core_bytes", "buffer_bytes", "cache_bytes", "memory_bytes", "memory_writes", "missed_accesses", "streams",
    "chosen_lines",
)  # fmt: skip
"""Parts that the processor overlaps with the others."""
ALONE = ("steps",)
"""Parts that come on top: what does not overlap, as one step of a kernel follows the other, in seconds."""
WHOLE_ROWS = 0.3
"""Time of an operation in the few lanes at ends of rows where blocks hold whole ones, over that in others, where
compilers do not know how many lanes these are."""
ACCUMULATORS = 24
"""Vectors of running sums that gcc keeps in registers while a reduction runs."""
UNROLLED = 16
"""Vectors of a row up to which it does so."""
IN_REGISTERS = 0.2
"""Time to begin a row whose sums are in registers over that of others: the loop over its lanes is unrolled."""
SHORTER = (1.0, 0.5, 0.25)
"""Lengths of vectors for a row's lanes, over the longest."""
CHAINS = 8
"""Additions that a core has under way at once."""
AHEAD = 128
"""Terms of sums of one vector that a core looks ahead: it begins the next sums while short ones still go on."""
SCAN = 26.0
"""Additions for which a term of a running sum waits until what the one before wrote to memory is there."""
PUT = 10.0
"""Additions, one at a time, that take as long as to store where data say, beside the accesses themselves."""
SCALAR_ACCESS = 0.5
"""Time of an access of one element over that of an addition: address and cast are part of it."""

CORE_CACHES = 2
"""Bytes of a core's second-level cache over those of a target's shared memory."""


@dataclass(frozen=True)
class CpuModel:
    """Predicts times of the C backend.

    Args:
        target: The processor.
        vector_math: Whether its C library has elementary functions of vectors; as this machine's does, when left out.
    """

    target: Target
    vector_math: bool = field(default_factory=has_vector_math)
    _known: WeakKeyDictionary[SketchFeaturizer, CpuKernelCosts] = field(
        default_factory=WeakKeyDictionary, init=False, compare=False, repr=False
    )
    _stages: KnownWork = field(default_factory=dict, init=False, compare=False, repr=False)

    @property
    def name(self) -> str:
        """Name, as reports show it."""
        return f"analytical model for {self.target.name}"

    def cost(self, found: BatchEvaluation) -> Floats:
        """Return the predicted seconds of each candidate, ``float64[M]``."""
        return self.total(self.counts(found), self.rates)

    @property
    def rates(self) -> Floats:
        """Seconds of one of each kind of work on this processor, ``float64[len(CPU_COMPONENTS)]``."""
        return np.array([rates_of(self.target.processor)[name] for name in CPU_COMPONENTS])

    @staticmethod
    def total(counts: Floats, rates: Floats) -> Floats:
        """Return the seconds of work that was counted, ``float64[N]``.

        Args:
            counts: What `counts` returns.
            rates: Seconds of one of each, ``float64[len(CPU_COMPONENTS)]``.
        """
        seconds = counts * rates
        memory, alone = np.isin(CPU_COMPONENTS, OF_MEMORY), np.isin(CPU_COMPONENTS, ALONE)
        beside = np.hypot(seconds[:, memory].sum(axis=1), seconds[:, ~(memory | alone)].sum(axis=1))
        total: Floats = beside + seconds[:, alone].sum(axis=1)
        return total

    def parts(self, found: BatchEvaluation) -> dict[str, Floats]:
        """Return the seconds that each kind of work takes, ``float64[M]`` by name."""
        seconds = self.counts(found) * self.rates
        return {name: seconds[:, k] for k, name in enumerate(CPU_COMPONENTS)}

    def counts(self, found: BatchEvaluation) -> Floats:
        """Return how much of each kind of work the busiest core does, ``float64[M, len(CPU_COMPONENTS)]``."""
        return self._counted(*self._by_nest(found))

    def counts_and_inputs(self, found: BatchEvaluation) -> tuple[Floats, Floats]:
        """Return what `counts` does, and what networks are told beside it, see `cpu_inputs`."""
        rows, start, by_nest = self._by_nest(found)
        rates = rates_of(self.target.processor)
        seconds = np.sum([values * rates[name] for name, values in by_nest.items()], axis=0)
        return self._counted(rows, start, by_nest), cpu_inputs(rows, start, seconds)

    def _by_nest(self, found: BatchEvaluation) -> tuple[LaneLoops, Ints, dict[str, Floats]]:
        """Return the nests of a batch, the first of each candidate, and the work of each in all blocks."""
        rows, start = lane_rows(found, self._work), found.batch.nests.start
        is_output = np.array([m.bound.funcs[m.rows[0].func].is_output for m in found.models])[found.batch.structure]
        root = rows.features[start]
        blocks, written = root[:, INDEX["num_blocks"]], root[:, INDEX["global_bytes_at_task"]]
        put = root[:, INDEX["global_bytes_written_by_kernel"]]
        # Border blocks do less than the middle one, by which work is counted: as many whole ones as the points fill.
        filled = np.where(written > 0, np.minimum(ratio(put, written), blocks) / blocks, 1.0)
        by_nest = self._computation(rows, filled[rows.candidate])
        hot, own = SHARE_OF_CACHE * self.target.l2_bytes, CORE_CACHES * self.target.shared_per_sm
        return rows, start, by_nest | cache_traffic(rows, start, filled, is_output, hot, own)

    def _counted(self, rows: LaneLoops, start: Ints, by_nest: dict[str, Floats]) -> Floats:
        """Return what `counts` does, from the work of each nest."""
        blocks = rows.features[start, INDEX["num_blocks"]]
        counts = {name: np.add.reduceat(values, start) for name, values in by_nest.items()}
        counts["steps"] = self._one_after_another(rows, start, by_nest)
        counts["blocks"] = blocks
        cores = self.target.multiprocessors
        share = np.ceil(blocks / cores) / blocks
        counts["kernels"] = 1 / share
        counts["forks"] = ((blocks > 1) & (cores > 1)) / share
        result: Floats = np.stack([counts[name] * share for name in CPU_COMPONENTS], axis=1)
        return result

    def _computation(self, rows: LaneLoops, filled: Floats) -> dict[str, Floats]:
        """Return the work of each nest in all blocks, ``float64[R]`` by name."""
        f, lanes, of = rows.features, rows.lanes, rows.of
        width = float(self.target.warp_size)
        runs = f[:, INDEX["num_scalars"]] * filled
        in_a_row = np.where(rows.apart > 1, of("unit"), 0)  # lanes several points apart
        too_far = [distance > MAX_VECTOR_STEP for distance in (rows.apart, rows.apart * of("stride"))]
        near = np.where(too_far[0], 0, in_a_row) + np.where(too_far[1], 0, of("near"))
        far = of("far") + np.where(too_far[0], of("unit"), 0) + np.where(too_far[1], of("near"), 0)
        less = dict(zip(SPARED, rows.less.T, strict=True))
        points = np.maximum(f[:, INDEX["innermost_pure_loop_extent"]], 1)
        gaps = np.where(too_far[0], 0, in_a_row) + np.where(too_far[1], 0, of("gaps"))
        longest = LANE_BYTES * width / of("narrowest")
        whole, part = _rows_in_vectors(rows, longest, gaps > 0)
        power = np.exp2(np.round(np.log2(rows.apart))) == rows.apart
        refused = (power & ((of("powers") > 0) | (too_far[0] & (of("unit") > 0)))) | (of("beside") > 0)
        refused |= (of("halves") > 0) & ~rows.all_shared
        called = (of("calls") > 0) & ~self.vector_math
        free = ~rows.shared(refused | called | (of("serial") > 0))
        cut = rows.shared(of("bordered") > 0)  # gathers of narrow elements in blocks at the border
        together = whole * free * (1 - rows.borders * cut)
        vectors = runs / (width * part) * together
        reduces = f[:, INDEX["innermost_loop_extent"]] > points
        own_sums = reduces & (of("scans") == 0)
        strips = strip_lengths(lanes, points * LANE_BYTES)
        side_by_side = np.where(own_sums & (strips > 0), strips, lanes)
        sums = points * side_by_side * of("narrowest") / (LANE_BYTES * width * part)
        in_registers = reduces & (sums <= ACCUMULATORS) & (sums <= UNROLLED * points)
        contiguous = np.where(rows.apart > 1, 0, of("wide") - less["wide"] - reduces * of("own"))
        near -= np.where(too_far[0], 0, np.where(rows.apart > 1, less["unit"], 0) + less["near"])
        accesses = contiguous + of("held") - reduces * in_registers * of("kept")
        singly = of("scalar") + SCALAR_ACCESS * (of("unit") + of("near") + of("fixed") + of("inside"))
        remainders = runs * of("periodic") * rows.borders
        waits = together * _waits(sums, of("terms")) + (1 - together) * _waits(points * lanes, of("chained"))
        in_vectors = whole * free * ~cut
        ends = self._ends(rows, np.maximum(longest * SHORTER[-1], 1)) * together
        return {
            "vector_arithmetic": vectors * (of("arithmetic") - less["arithmetic"]),
            "vector_accesses": vectors * accesses,
            "sums": vectors * of("own") * reduces * np.where(in_registers, rows.cut, 1),
            "divisions": vectors * (of("divisions") - less["divisions"]),
            "strided_accesses": runs * near * together,
            "gathered_accesses": runs * (far - rows.spared) * together,
            "scalar": runs * (singly * (1 - together) + PUT * of("put") * together + of("once") / lanes),
            "ends": runs * singly * ends,
            "scattered_accesses": runs * far * (1 - together),
            "stalls": runs / (points * lanes) * (reduces * waits + SCAN * of("scans") * (lanes > 1)),
            "calls": runs * of("calls") * (1 - together),
            "remainders": remainders * in_vectors,
            "scalar_remainders": remainders * (1 - in_vectors),
            "rows": runs
            / (np.where(in_registers, side_by_side, lanes) * rows.together)
            * np.where(in_registers, IN_REGISTERS, 1),
        }

    def _ends(self, rows: LaneLoops, vector: Floats) -> Floats:
        """Return the share of lanes, ``float64[R]``, that run one by one as indices are clamped at both ends of rows.

        They are those whose indices are clamped, and what is left beside the vectors of the others.

        Args:
            rows: The nests.
            vector: ``float64[R]``, lanes of a vector.
        """
        low, high, whole = (rows.of(name) / rows.apart for name in ("low", "high", "whole"))
        lanes = np.minimum(rows.lanes, whole)
        at_one_end = [np.maximum(lanes - n, 0) % vector * (n > 0) for n in (low, high)]
        at_both = np.maximum(lanes - low - high, 0) % vector * (low + high > 0)
        rest = np.where(lanes < whole, sum(at_one_end), at_both)
        found: Floats = np.minimum((low + high + rest) / whole, 1) * np.where(lanes < whole, 1, WHOLE_ROWS)
        return found

    def _one_after_another(self, rows: LaneLoops, start: Ints, by_nest: dict[str, Floats]) -> Floats:
        """Return the seconds that it takes longer as only memory and computation of the same step overlap, ``[M]``."""
        of_step = np.zeros((2, len(rows.first)))
        rates = rates_of(self.target.processor)
        for name, values in by_nest.items():
            of_step[int(name in OF_MEMORY)] += np.bincount(rows.carrier, values * rates[name], len(values))
        together = np.hypot(*np.add.reduceat(of_step, start, axis=1))
        found: Floats = np.maximum(np.add.reduceat(np.hypot(*of_step), start) - together, 0)
        return found

    def _work(self, model: SketchFeaturizer) -> CpuKernelCosts:
        if model not in self._known:
            self._known[model] = CpuKernelCosts(model, self._stages)
        return self._known[model]


def _waits(sums: Floats, terms: Floats) -> Floats:
    """Return for how many additions each term of running sums side by side waits, ``float64[R]``.

    Args:
        sums: ``float64[R]``, running sums, vectors or single ones.
        terms: ``float64[R]``, terms of each; 0 where none waits.
    """
    chains = sums * (1 + AHEAD / np.maximum(sums * terms, 1))
    found: Floats = np.where(terms > 0, np.maximum(CHAINS - chains, 0), 0)
    return found


def _rows_in_vectors(rows: LaneLoops, longest: Floats, gaps: Bools) -> tuple[Floats, Floats]:
    """Return the share of lanes in vectors, ``float64[R]``, and what part of the longest vector these are.

    Blocks at the end of rows have fewer lanes.

    Args:
        rows: The nests.
        longest: ``float64[R]``, lanes of the longest vector.
        gaps: ``bool[R]``, whether the last lane's vector would read too far.
    """
    whole, vectors = _in_vectors(rows.lanes, longest, gaps)
    at_end, fewer = _in_vectors(rows.left, longest, gaps)
    lanes, whole, vectors = (
        (1 - rows.cut) * a + rows.cut * b for a, b in ((rows.lanes, rows.left), (whole, at_end), (vectors, fewer))
    )
    return whole / lanes, np.where(vectors > 0, whole / np.maximum(vectors * longest, 1e-9), 1.0)


def _in_vectors(lanes: Floats, longest: Floats, gaps: Bools) -> tuple[Floats, Floats]:
    """Return how many of a row's lanes run in vectors, and how many vectors these are.

    What the longest vectors leave over fills one of half their length, and of a quarter.

    Args:
        lanes: ``float64[R]``, lanes of a row.
        longest: ``float64[R]``, lanes of the longest vector.
        gaps: ``bool[R]``, whether the last lane's vector would read too far.
    """
    left = lanes - gaps
    vectors = np.zeros(len(lanes))
    for part in SHORTER:
        length = np.maximum(longest * part, 1)
        whole = np.floor(left / length)
        vectors, left = vectors + whole, left - whole * length
    return lanes - gaps - left, vectors
