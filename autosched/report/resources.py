"""Registers, spills and occupancy of a schedule's kernels, from the compiler if there is one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from autosched.errors import CompileError
from autosched.featurize.regions.occupancy import resident_blocks
from autosched.runtime.backends.factory import launch_info
from autosched.runtime.backends.kernel_info import KernelInfo
from autosched.scheduled_protocol import Scheduled
from autosched.target import Target


@dataclass(frozen=True, slots=True)
class Resources:
    """Compiled resources of a schedule.

    Attributes:
        kernels: The kernels in launch order.
        note: Reason why registers, stack and spills are unknown; empty if they are known.
    """

    kernels: tuple[KernelInfo, ...]
    note: str = ""


@dataclass(frozen=True, slots=True)
class OccupancyRow:
    """Occupancy of a multiprocessor.

    Attributes:
        blocks: Resident blocks.
        ratio: Resident warps over the most of a multiprocessor.
        limited_by: The limiting resource.
    """

    blocks: int
    ratio: float
    limited_by: str


def compiled_resources(scheduled: Scheduled) -> Resources:
    """Return launch configurations with the resources from NVRTC and ptxas; without resources if NVRTC is missing.

    The on-disk cache is used.
    """
    if scheduled.target.kind == "cpu":
        return Resources(
            launch_info(scheduled.program),
            "Registers and spills are those of GPUs; this schedule is for a CPU.",
        )
    try:
        return Resources(scheduled.compile("cuda").resources)
    except CompileError as error:
        reason = str(error).splitlines()[0]  # without the compiler's log
        return Resources(launch_info(scheduled.program), f"Registers and spills are not known: {reason}")


def occupancy(target: Target, info: KernelInfo) -> OccupancyRow | None:
    """Return the occupancy of a kernel, with its registers if they are known; None on a CPU."""
    if target.kind == "cpu":
        return None
    warps = -(-int(np.prod(info.block)) // target.warp_size)
    without = _resident(target, warps, 0, None)
    shared = _resident(target, warps, info.shared_bytes, None)
    blocks = _resident(target, warps, info.shared_bytes, info.registers)
    limited_by = "registers" if blocks < shared else "shared memory" if shared < without else "warps"
    if blocks == target.max_blocks_per_sm:
        limited_by = "blocks"
    return OccupancyRow(blocks, blocks * warps / target.max_warps_per_sm, limited_by)


def _resident(target: Target, warps: int, shared_bytes: int, registers: int | None) -> int:
    # A kernel that does not fit by this count still runs, one block at a time.
    known_registers = None if registers is None else np.array([registers])
    return max(int(resident_blocks(target, np.array([warps]), np.array([shared_bytes]), known_registers)[0]), 1)
