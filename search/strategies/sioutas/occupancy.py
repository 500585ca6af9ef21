"""Occupancy, active threads and active multiprocessors of a stage (`estimate_occupancy`, section 4.2)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from autosched.featurize.regions.occupancy import resident_blocks
from autosched.target import Target

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class GroupOccupancy:
    """Occupancy of the device by one stage; arrays have a row for each candidate.

    Attributes:
        occupancy: ``float64[N]``, active warps over the limit of a multiprocessor, in [0, 1].
        active_threads: ``int64[N]``, active threads of a multiprocessor.
        active_multiprocessors: ``int64[N]``, multiprocessors with at least one block.
    """

    occupancy: Floats
    active_threads: Ints
    active_multiprocessors: Ints


MOST_REGISTERS = 64
"""Assumed registers of a thread in a block of up to 1024: the paper's example (section 3), and the limit of
`estimate_occupancy` in HalideAutoGPU."""


def registers_per_thread(target: Target, threads: Ints) -> Ints:
    """Return the assumed registers of a thread: min(MAX_REGS_PER_THREAD, TOTAL_REGS_PER_SM / N_threads), at most 64.

    No compiler has seen the kernel, so the number is the most that a block of N_threads can have (section 4.2).

    Args:
        target: Device limits.
        threads: ``int64[N]``, threads of a block.
    """
    most = min(target.max_registers_per_thread, MOST_REGISTERS)
    registers: Ints = np.clip(target.registers_per_sm // np.maximum(threads, 1), 1, most)
    return registers


def estimate_occupancy(target: Target, threads: Ints, shared_bytes: Ints, blocks: Ints) -> GroupOccupancy:
    """Return the occupancy of the device by a stage, as NVIDIA's occupancy calculator computes it (section 4.2).

    Registers limit it as threads, shared memory and blocks do.

    Args:
        target: Device limits.
        threads: ``int64[N]``, threads of a block in the stage.
        shared_bytes: ``int64[N]``, shared memory of a block.
        blocks: ``int64[N]``, blocks of the grid.
    """
    warps = -(-threads // target.warp_size)
    resident = resident_blocks(target, warps, shared_bytes, registers_per_thread(target, threads))
    active_warps = np.minimum(resident * warps, target.max_warps_per_sm)
    return GroupOccupancy(
        active_warps / target.max_warps_per_sm,
        resident * threads,
        np.where(resident > 0, np.minimum(blocks, target.multiprocessors), 0),
    )
