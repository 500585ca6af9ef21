"""Registers of a thread under launch bounds: the limit that resident blocks set, and the blocks that set a limit."""

from __future__ import annotations

from autosched.target import Target

REGISTER_UNIT = 8
"""Registers of a thread are allocated in multiples of this number."""


def most_resident_blocks(target: Target, threads: int) -> int:
    """Return the most blocks of so many threads that a multiprocessor can have, whatever their registers."""
    warps = -(-threads // target.warp_size)
    return min(target.max_warps_per_sm // warps, target.max_blocks_per_sm)


def register_limit(target: Target, threads: int, resident_blocks: int) -> int:
    """Return the most registers of a thread for which so many blocks are resident.

    Args:
        target: A GPU.
        threads: Threads of a block.
        resident_blocks: The blocks; 1 or 0 for a block alone.
    """
    lanes = -(-threads // target.warp_size) * target.warp_size * max(resident_blocks, 1)
    each = target.registers_per_sm // lanes // REGISTER_UNIT * REGISTER_UNIT
    return min(each, target.max_registers_per_thread)


def resident_blocks_for(target: Target, threads: int, registers: int) -> int:
    """Return the least number of resident blocks that limits a thread to so many registers.

    Returns:
        The number of blocks, at most that of `most_resident_blocks`, even if their threads may have more registers.
    """
    most = max(most_resident_blocks(target, threads), 1)
    return next((n for n in range(1, most) if register_limit(target, threads, n) <= registers), most)
