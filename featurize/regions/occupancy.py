"""Occupancy: resident blocks of a multiprocessor."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from autosched.target import Target

Ints = NDArray[np.int64]


def shared_limit(target: Target, shared_bytes: Ints) -> Ints:
    """Return the blocks that fit in a multiprocessor's shared memory, the system's reserve included."""
    each = shared_bytes + target.reserved_shared_per_block
    limit: Ints = np.where(shared_bytes > 0, target.shared_per_sm // np.maximum(each, 1), target.max_blocks_per_sm)
    return np.minimum(limit, target.max_blocks_per_sm)


def resident_blocks(target: Target, warps: Ints, shared_bytes: Ints, registers: Any = None) -> Ints:
    """Return the resident blocks of a multiprocessor: the least of the limits by warps, blocks, memory and registers.

    Args:
        target: The device.
        warps: ``int64[N]``, warps of a block.
        shared_bytes: ``int64[N]``, shared memory of a block.
        registers: ``int64[N]``, registers of a thread, if known; allocated to warps in units.
    """
    limit = np.minimum(target.max_warps_per_sm // np.maximum(warps, 1), shared_limit(target, shared_bytes))
    if registers is not None:
        unit = target.register_allocation_unit
        per_warp = -(-np.asarray(registers) * target.warp_size // unit) * unit
        limit = np.minimum(limit, target.registers_per_sm // np.maximum(per_warp * warps, 1))
    return np.asarray(limit, np.int64)
