"""Resident blocks of a kernel on a multiprocessor."""

from __future__ import annotations

from autosched.errors import LaunchError
from autosched.measure.simulated.device import SCHEDULERS
from autosched.target import Target


def resident_blocks(target: Target, name: str, threads: int, registers: int, shared_bytes: int) -> int:
    """Return the blocks that fit a multiprocessor by warps, blocks, threads, registers and shared memory.

    Args:
        target: The device.
        name: The kernel, for the error message.
        threads: Threads of a block.
        registers: 32-bit registers of a thread.
        shared_bytes: Shared memory of a block.

    Raises:
        LaunchError: Not even one fits.
    """
    warps = -(-threads // target.warp_size)
    unit = target.register_allocation_unit
    a_warp = max(-(-registers * target.warp_size // unit) * unit, unit)
    by_registers = target.registers_per_sm // SCHEDULERS // a_warp * SCHEDULERS // warps
    a_block = shared_bytes + target.reserved_shared_per_block
    by_shared = target.shared_per_sm // a_block if a_block else target.max_blocks_per_sm
    blocks = min(
        target.max_blocks_per_sm, target.max_warps_per_sm // warps, target.max_threads_per_sm // threads,
        by_registers, by_shared,
    )  # fmt: skip
    if blocks < 1:
        raise LaunchError(
            f"{name}: a block of {threads} threads with {registers} registers each and {shared_bytes} bytes of shared "
            f"memory does not fit a multiprocessor of {target.name}"
        )
    return blocks
