"""Cost of a group of stages for tables of tile sizes (Algorithm 2).

The numbers in comments are the lines of Algorithm 2. Two of them read otherwise than printed: the points of a tile are
needed before line 17, and the blocks of line 34 are those of one multiprocessor, as the text says. Where a block has
one overlapped tile, shared memory is that of its tile in place of lines 4, 7 and 9.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np
from numpy.typing import NDArray

from autosched.featurize.accesses.accesses import AccessGroup
from autosched.featurize.featurizer import SketchFeaturizer
from autosched.search.strategies.polymage.settings import PolymageSettings
from autosched.search.strategies.polymage.stage_resources import StageResources
from autosched.target import Target

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

CORES_OF_MULTIPROCESSOR = {6: 128, 7: 64}
"""CUDA cores (Table 1) by compute capability; 128 of later ones, 64 of an A100."""
A100 = (8, 0)
REGISTER_BYTES = 4


@dataclass(frozen=True)
class GroupTerms:
    """The terms of a group's cost; arrays have a row for each tile.

    Attributes:
        transactions: Global memory transactions of a warp.
        occupancy: Resident warps over the most of a multiprocessor.
        memory_time: Time of the transactions over that of computing.
        unallocated: Share of shared memory that no resident block has.
        unused: Share of registers that no resident warp has.
        overlap: Share of points that several tiles compute.
        extra_blocks: Blocks of a multiprocessor in its last wave.
        possible: Whether the group fits the device.
    """

    transactions: Floats
    occupancy: Floats
    memory_time: Floats
    unallocated: Floats
    unused: Floats
    overlap: Floats
    extra_blocks: Floats
    possible: NDArray[np.bool_]

    def cost(self, settings: PolymageSettings) -> Floats:
        """Return the weighted sum of the terms, ``float64[N]``; infinite where the group does not fit (line 35)."""
        w = settings.weights
        total = (
            w.transactions * self.transactions
            + w.occupancy * (1 - self.occupancy)
            + w.memory_time * self.memory_time
            + w.shared_memory * self.unallocated
            + w.registers * self.unused
            + w.overlap * self.overlap
            + w.extra_blocks * self.extra_blocks
        )
        cost: Floats = np.where(self.possible, total, np.inf)
        return cost


def group_terms(
    model: SketchFeaturizer, params: Ints, resources: StageResources, target: Target, transaction: int,
    register_share: float,
) -> GroupTerms:  # fmt: skip
    """Return the terms of a group for tiles.

    Args:
        model: The kernel of the group, its members at BLOCK.
        params: ``int64[N, columns]``, tile sizes.
        resources: Registers and seconds of each Func.
        target: Device limits.
        transaction: Bytes of a global memory transaction.
        register_share: Share of a tile in registers.
    """
    layout, bound, sketch = model.layout, model.bound, model.sketch
    threads, points = params[:, layout.root_threads], params[:, layout.root_serial]
    block = threads.prod(axis=1)
    warps = -(-block // target.warp_size)
    _, blocks = model.grid.blocks(params)
    count = blocks.prod(axis=1)
    blocks_of_sm = count / target.multiprocessors  # 6
    extents = model.member_extents(params) if layout.members else {}
    iterations = {sketch.func: points.prod(axis=1).astype(np.float64)}
    computed = (threads * points).prod(axis=1).astype(np.float64)
    needed = np.minimum(computed, prod(model.grid.sizes.tolist()) / count)
    shared = np.zeros(len(params))
    for name, where in layout.members:
        region, func = extents[name], bound.funcs[name]
        volume = region.prod(axis=1).astype(np.float64)
        iterations[name] = (-(-region // params[:, where])).prod(axis=1).astype(np.float64)
        shared += volume * sum(d.bytes_ for d in func.dtypes)  # 9
        computed = computed + volume
        needed = needed + np.minimum(volume, prod(func.extents) / count)
    in_registers = register_share * shared / np.maximum(block, 1) / REGISTER_BYTES  # 11
    shared = shared * (1 - register_share)  # 10
    possible = shared <= target.shared_per_block_optin  # 12
    transactions = np.zeros(len(params))
    for stage in model.rows:  # 14
        for group in model.accesses_of(stage).loads:
            if group.source in bound.inputs or group.source not in iterations:
                each = _warp_transactions(model, group, params, target, transaction)
                terms = prod(d.extent for d in bound.stage(*stage).reductions)
                transactions += each * len(group.offsets) * terms * iterations[stage.func]  # 17
    resident = np.minimum(target.shared_per_sm // np.maximum(shared, 1), target.max_blocks_per_sm)  # 18
    resident = np.maximum(resident, 1)
    by_shared = np.minimum(resident * warps, target.max_warps_per_sm)  # 19
    registers = in_registers + sum(resources.registers[name] for name in iterations)  # 20
    if len(iterations) > 1:
        possible &= registers <= target.max_registers_per_thread  # 21
    by_registers = np.minimum(target.registers_per_sm / registers, target.max_threads_per_sm) / target.warp_size  # 23
    occupancy = np.minimum(by_shared, by_registers) / target.max_warps_per_sm  # 24
    warp_rate = target.dram_bytes_per_s * target.warp_size / (target.multiprocessors * _cores(target))  # 25
    memory = transaction * transactions / warp_rate  # 26
    compute = sum(resources.seconds[name] * n for name, n in iterations.items())  # 28
    unused = 1 - registers * target.max_warps_per_sm * target.warp_size * occupancy / target.registers_per_sm  # 32
    return GroupTerms(
        transactions, occupancy, memory / np.maximum(compute, 1e-30),
        1 - np.minimum(shared * resident / target.shared_per_sm, 1),  # 30
        unused, np.maximum(1 - needed / computed, 0),  # 33
        blocks_of_sm % resident,  # 34
        possible,
    )  # fmt: skip


def _cores(target: Target) -> int:
    if target.compute_capability == A100:
        return 64
    return CORES_OF_MULTIPROCESSOR.get(target.compute_capability[0], 128)


def _warp_transactions(
    model: SketchFeaturizer, group: AccessGroup, params: Ints, target: Target, transaction: int
) -> Floats:
    """Return the fewest transactions of a load by a warp, ``float64[N]`` (lines 15 and 16).

    Neighbouring lanes have neighbouring points of the root. An index along the fastest dimension of the source spans a
    range of elements; lanes along other dimensions need transactions of their own.
    """
    threads = params[:, model.layout.root_threads]
    source = group.source
    bound = model.bound
    dtype = bound.inputs[source].dtype if source in bound.inputs else bound.funcs[source].dtypes[group.component]
    dims = model.grid.dims
    lanes = np.ones(len(params))
    left = np.full(len(params), float(target.warp_size))
    total = np.ones(len(params))
    for k in reversed(range(len(dims))):
        lanes = np.minimum(threads[:, k], left)
        left = np.maximum(left // lanes, 1)
        steps = [abs(dict(r.coefficients).get(dims[k], 0)) / r.quotient if r is not None else 1.0 for r in group.rows]
        if not steps or not any(steps):
            continue  # all lanes along this dimension load one element
        if steps[-1]:
            span = ((lanes - 1) * steps[-1] + 1) * dtype.bytes_
            total *= np.minimum(np.ceil(span / transaction), lanes)
        else:
            total *= lanes
    return total
