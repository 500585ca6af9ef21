"""Features of compiled code: instructions, boundary code, and cache working sets."""

from __future__ import annotations

import numpy as np

from autosched.featurize.accesses.batch_accesses import BatchAccesses
from autosched.featurize.accesses.cache_working_set import distinct_sectors
from autosched.featurize.accesses.memory_traffic import Floats, MemoryTraffic, Warps
from autosched.featurize.instructions.arithmetic_work import FLOAT, INTEGER
from autosched.featurize.instructions.index_instructions import IndexCode
from autosched.featurize.instructions.thread_loops import Loops
from autosched.featurize.regions.boundary_blocks import border_share, guards
from autosched.featurize.regions.geometry import Geometry
from autosched.featurize.regions.memory_kinds import GLOBAL, SHARED
from autosched.featurize.regions.nest_arrays import Ints, NestArrays
from autosched.featurize.tables.descriptor_tables import THREAD

COMPILED = (
    "index_instructions_per_block", "integer_instructions_per_block", "border_share", "looped_groups_per_thread",
    "global_loads_per_border_block", "global_stores_per_border_block", "global_requests_per_border_block",
    "global_sectors_of_block", "global_sectors_of_stretch", "global_registers_per_block", "global_rounds_per_thread",
    "shared_rounds_per_thread",
)  # fmt: skip
"""Names of the features of `compiled_code`, which are slow to compute."""
FLOATS = "float_instructions_per_block"
REGISTER_BYTES = 4


def compiled_code(
    geometry: Geometry, accesses: BatchAccesses, cost: MemoryTraffic, warps: Warps, loops: Loops, evaluated: Ints
) -> dict[str, Floats]:
    """Return features by name, ``float64[R]`` each.

    Args:
        geometry: The nests.
        accesses: Their accesses.
        cost: Memory traffic of the accesses.
        warps: Warps of the nests.
        loops: Loops inside a thread.
        evaluated: ``int64[R]``, points of thread-level producers that a thread evaluates, shared ones once.
    """
    nests, candidate = geometry.nests, accesses.batch.nests.candidate
    moving, border = loops.moving(accesses), border_share(geometry, accesses)
    at_border = border[candidate]
    code = IndexCode(geometry, accesses, loops, moving, cost.per_thread, border)
    instructions, combined = _of_warps(geometry, warps, evaluated)
    integers = nests.kinds["integer_instructions"]
    shuffles = nests.kinds["shuffles"] / np.maximum(nests.kinds["components"], 1)
    sectors, of_stretch = distinct_sectors(geometry, accesses, cost, loops, moving)
    loads, stores, requests = _border_traffic(geometry, accesses, cost)
    from_global, from_shared = _dependent_loads(accesses, cost, len(nests.low))
    columns: tuple[Floats, ...] = (
        code.instructions(), instructions * (integers[:, 0] + at_border * integers[:, 1]) + combined[:, INTEGER],
        at_border, loops.groups,
        loads, stores, requests, sectors, of_stretch, _registers_filled(accesses, cost, len(nests.low)),
        loops.groups * from_global, loops.groups * from_shared + shuffles,
    )  # fmt: skip
    return dict(zip(COMPILED, columns, strict=True))


def float_instructions(geometry: Geometry, warps: Warps, evaluated: Ints) -> Floats:
    """Return the single-precision instructions of all warps of a block, ``float64[R]``.

    Args:
        geometry: The nests.
        warps: Warps of the nests.
        evaluated: ``int64[R]``, points of thread-level producers that a thread evaluates, shared ones once.
    """
    instructions, combined = _of_warps(geometry, warps, evaluated)
    kinds = geometry.nests.kinds
    hoisted = instructions / iterations_without_invariants(geometry.nests) * kinds["invariant_floats"]
    return np.asarray(instructions * kinds["float_instructions"] + hoisted + combined[:, FLOAT], np.float64)


def iterations_without_invariants(nests: NestArrays) -> Ints:
    """Return the iterations of the loop out of which invariant operations are hoisted, ``int64[R]``; 1 without any."""
    dim = nests.kinds["invariant"]
    return np.where(dim >= 0, nests.serial[np.arange(len(dim)), np.maximum(dim, 0)], 1)


def _of_warps(geometry: Geometry, warps: Warps, evaluated: Ints) -> tuple[Floats, Floats]:
    """Return the executions of each instruction of an evaluation, ``[R]``, and the instructions of warp reductions.

    The latter are by unit, ``[R, units]``.
    """
    nests = geometry.nests
    within = (nests.points / nests.threads).prod(axis=1)
    points = np.where(nests.kinds["level"] == THREAD, evaluated, within) * nests.kinds["reductions"]
    running = warps.regular + warps.tail
    return points * running, within[:, None] * running[:, None] * nests.kinds["combine_operations"]


def _dependent_loads(accesses: BatchAccesses, cost: MemoryTraffic, nests: int) -> tuple[Floats, Floats]:
    """Return the length of chains of dependent loads, from global and from shared memory, ``float64[R]`` each.

    Loads with data-dependent indices form the second link; longer chains within one memory are not modelled.
    """
    kinds = accesses.kinds
    loads = (kinds["store"] == 0) & (cost.transactions > 0)

    def any_of(memory: int, by_data: int) -> Floats:
        here = loads & (kinds["memory"] == memory) & (kinds["by_data"] == by_data)
        links = np.zeros(nests)
        links[accesses.batch.readers[here]] = 1.0
        return links

    return any_of(GLOBAL, 0) + any_of(GLOBAL, 1), any_of(SHARED, 0) + any_of(SHARED, 1)


def _registers_filled(accesses: BatchAccesses, cost: MemoryTraffic, nests: int) -> Floats:
    """Return the registers that loads from global memory fill, ``float64[R]``; small elements of a vector share one."""
    kinds = accesses.kinds
    loads = (kinds["memory"] == GLOBAL) & (kinds["store"] == 0) & (cost.requests > 0)
    elements = cost.uncoalesced_requests[loads] / cost.requests[loads]
    filled = cost.requests[loads] * np.ceil(elements * kinds["itemsize"][loads] / REGISTER_BYTES)
    return np.asarray(np.bincount(accesses.batch.readers[loads], filled, nests), np.float64)


def _border_traffic(geometry: Geometry, accesses: BatchAccesses, cost: MemoryTraffic) -> tuple[Floats, Floats, Floats]:
    """Return global sectors loaded, sectors stored and requests of boundary blocks, ``float64[R]`` each.

    In boundary code guarded points share no loads, and neither guarded nor clamped accesses are coalesced.
    """
    nests, kinds, reader = geometry.nests, accesses.kinds, accesses.batch.readers
    guarded = (guards(geometry, accesses)[1] > 0)[reader]
    points = nests.serial.prod(axis=1) * nests.kinds["reductions"] * nests.times
    again = np.maximum(points[reader] * kinds["count"] / np.maximum(cost.per_thread, 1), 1)
    again = np.where(guarded & (kinds["own"] == 0), again, 1)
    separate = guarded | (kinds["clamped"] > 0).any(axis=1)
    here, stores = kinds["memory"] == GLOBAL, kinds["store"] > 0
    sectors = np.where(separate, cost.uncoalesced * again, cost.transactions) * here
    requests = np.where(separate, cost.uncoalesced_requests * again, cost.requests) * here

    def summed(values: Floats) -> Floats:
        return np.asarray(np.bincount(reader, values, len(points)), np.float64)

    return summed(sectors * ~stores), summed(sectors * stores), summed(requests)
