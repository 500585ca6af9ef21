"""Profiles of kernels from the features: work of the middle block, times the number of blocks, at attainable rates."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.featurize.scaling.row_scans import Scan
from autosched.featurize.scaling.step_scaling import scaling_for
from autosched.featurize.schema import INDEX
from autosched.featurize.tables.pipeline_tables import BatchEvaluation
from autosched.runtime.backends.kernel_info import KernelInfo
from autosched.schedule.kernel.row_scans import ScanLevel
from autosched.schedule.types import Kernel
from autosched.search.bottleneck.kernel_profile import KernelProfile, LevelTraffic, MemoryLevel
from autosched.search.cost.cpu.analytical import OF_MEMORY, CpuModel
from autosched.search.cost.cpu.coefficients import CPU_COMPONENTS
from autosched.search.cost.gpu_analytical import (
    ADDRESSED,
    DRAM_SHARE,
    L2_OVER_DRAM,
    LANES_OF_MULTIPROCESSOR,
    LANES_OF_WARP,
    LAUNCH_SECONDS,
    REQUEST_CYCLES,
    SECTOR_BYTES,
    SPECIAL_RATE,
    STEP_INSTRUCTIONS,
)
from autosched.target import Target

Floats = NDArray[np.float64]

WAVEFRONT_BYTES = 128.0
"""Bytes of a wavefront of shared memory: a word of each bank."""
SECTORS_OF_PASS = 4
"""Sectors that the first-level cache transfers in a cycle."""
SCHEDULERS = 4
SOURCE = "features"
LAUNCHING = ("kernels", "forks")
"""Components of the CPU model that are launch overhead."""
WAITING = ("stalls",)
"""Components of the CPU model that are latency: of dependent instructions."""
LINES = ("streams", "chosen_lines")
"""Components of the CPU model that are lines from beyond a core's caches, which no prefetcher fetches."""
OF_LEVEL = {
    MemoryLevel.DRAM: ("memory_bytes", "memory_writes"),
    MemoryLevel.L2: ("cache_bytes",),
    MemoryLevel.L1: ("core_bytes",),
    MemoryLevel.SHARED: ("buffer_bytes",),
}
"""Components of the CPU model that are bytes of a level of memory."""


def kernel_features_profile(
    bound: BoundPipeline, kernel: Kernel, name: str, evaluation: BatchEvaluation, target: Target, seconds: float,
    resources: KernelInfo | None = None,
) -> KernelProfile:  # fmt: skip
    """Return the profile of any kernel from its features.

    Args:
        bound: The pipeline, with the schedule's rewrites.
        kernel: The kernel.
        name: Its name.
        evaluation: Its features as the only candidate; of a row scan, those of one step
            (`autosched.search.refine.mainloop.step_cost.evaluated`).
        target: The device.
        seconds: Its predicted or measured time, launch overhead included.
        resources: Its registers and spills, if they are known.
    """
    steps, launches = repetitions(bound, kernel)
    spills = None if resources is None else resources.spill_bytes
    registers = None if resources is None else resources.registers
    return feature_profile(name, evaluation, target, seconds, steps, launches, registers, spills)


def repetitions(bound: BoundPipeline, kernel: Kernel) -> tuple[int, int]:
    """Return the steps of a kernel's row scan, which features count once, and its launches; 1 and 1 without one."""
    scaling = scaling_for(bound, kernel)
    if scaling is None or not isinstance(scaling[0], Scan):
        return 1, 1
    scan = scaling[0]
    return scan.count, scan.count if scan.walk is ScanLevel.LAUNCH else 1


def feature_profile(
    name: str, evaluation: BatchEvaluation, target: Target, seconds: float, steps: int = 1, launches: int = 1,
    registers: int | None = None, spill_bytes: int | None = None,
) -> KernelProfile:  # fmt: skip
    """Return the profile of a kernel from its features.

    Args:
        name: The kernel.
        evaluation: Features of the kernel as the only candidate.
        target: The device.
        seconds: Predicted or measured time of all launches, launch overhead included.
        steps: Factor of the counted work.
        launches: Number of launches.
        registers: Registers of a thread, if they are known.
        spill_bytes: Spilled bytes of a thread, if they are known.
    """
    flops = steps * counted_flops(evaluation)
    if target.kind == "cpu":
        return _on_cpu(name, evaluation, target, seconds, steps, flops)
    features = evaluation.features
    blocks = steps * _equivalent_blocks(features)
    clock = target.peak_fp32_flops / (2 * LANES_OF_MULTIPROCESSOR * target.multiprocessors)
    cycles = target.multiprocessors * clock
    sectors = _sum(features, "num_global_mem_loads_per_block", "num_global_mem_stores_per_block")
    wavefronts = _sum(features, "num_shared_mem_loads_per_block", "num_shared_mem_stores_per_block")
    through_l1 = REQUEST_CYCLES * (_sum(features, "global_requests_per_block") + sectors / SECTORS_OF_PASS)
    through_shared = max(wavefronts, REQUEST_CYCLES * _sum(features, "shared_requests_per_block"))
    traffic = {
        MemoryLevel.DRAM: _at(
            steps * _sum(features, "unique_global_bytes_read_by_kernel", "global_bytes_written_by_kernel"),
            DRAM_SHARE * target.dram_bytes_per_s,
        ),
        MemoryLevel.L2: _at(
            SECTOR_BYTES * blocks * _sum(features, "global_sectors_of_block", "num_global_mem_stores_per_block"),
            L2_OVER_DRAM * target.dram_bytes_per_s,
        ),
        MemoryLevel.L1: LevelTraffic(SECTOR_BYTES * blocks * sectors, blocks * through_l1 / cycles),
        MemoryLevel.SHARED: LevelTraffic(WAVEFRONT_BYTES * blocks * wavefronts, blocks * through_shared / cycles),
    }
    return KernelProfile(
        name, target.kind, SOURCE, max(seconds - launches * LAUNCH_SECONDS, 1e-9), flops,
        blocks * _cycles_of_block(features, target) / cycles, traffic, False, registers, spill_bytes,
    )  # fmt: skip


def counted_flops(evaluation: BatchEvaluation) -> float:
    """Return the floating-point operations of one launch of a kernel, recomputed ones included."""
    features = evaluation.features
    of_block = _sum(features, "float_operations_per_block", "double_operations_per_block")
    return _equivalent_blocks(features) * of_block


def _cycles_of_block(features: Floats, target: Target) -> float:
    """Return the cycles of a multiprocessor's busiest execution unit, or of its schedulers, for one block."""
    used = features[0, :, INDEX["warp_lane_utilization"]]
    used = np.where(used > 0, used, 1.0)

    def warps(unit: str) -> float:
        lanes = features[0, :, INDEX[f"{unit}_operations_per_block"]] / used
        return float(lanes.sum()) / LANES_OF_WARP

    single = _sum(features, "float_instructions_per_block")
    double, special, whole = warps("double"), warps("special"), warps("integer")
    requests = _sum(features, "global_requests_per_block", "shared_requests_per_block")
    started = STEP_INSTRUCTIONS * _root(features, "steps_per_block") * _root(features, "num_warps_per_block")
    issued = single + double + special + whole + ADDRESSED * requests + started
    units = LANES_OF_MULTIPROCESSOR / LANES_OF_WARP
    double_units = units * target.peak_fp64_flops / target.peak_fp32_flops
    # the model's rate of double precision is one operation a cycle and unit, fused or not
    return max(issued / SCHEDULERS, single / units, double / double_units, special / (SPECIAL_RATE * units))


def _on_cpu(
    name: str, evaluation: BatchEvaluation, target: Target, seconds: float, steps: int, flops: float
) -> KernelProfile:
    model = CpuModel(target)
    counts = dict(zip(CPU_COMPONENTS, steps * model.counts(evaluation)[0], strict=True))
    parts = {unit: count * rate for (unit, count), rate in zip(counts.items(), model.rates, strict=True)}
    cores = min(target.multiprocessors, max(_root(evaluation.features, "num_blocks"), 1.0))
    traffic = {
        level: LevelTraffic(cores * sum(counts[u] for u in units), sum(parts[u] for u in units))
        for level, units in OF_LEVEL.items()
    }
    # bytes from memory pass the last-level cache: the time of both is that of memory
    passing = min(counts["memory_bytes"] / counts["cache_bytes"], 1.0) if counts["cache_bytes"] else 0.0
    memory, cache = traffic[MemoryLevel.DRAM], traffic[MemoryLevel.L2]
    beyond = cache.seconds + sum(parts[unit] for unit in LINES)
    traffic[MemoryLevel.DRAM] = LevelTraffic(memory.bytes, memory.seconds + passing * beyond)
    traffic[MemoryLevel.L2] = LevelTraffic(cache.bytes, (1 - passing) * beyond)
    core = traffic[MemoryLevel.L1]
    traffic[MemoryLevel.L1] = LevelTraffic(core.bytes, core.seconds + parts["missed_accesses"])
    apart = {*OF_MEMORY, *LAUNCHING, *WAITING, "steps"}
    computing = sum(part for unit, part in parts.items() if unit not in apart)
    launch = sum(parts[unit] for unit in LAUNCHING)
    return KernelProfile(name, target.kind, SOURCE, max(seconds - launch, 1e-9), flops, computing, traffic, True)


def _equivalent_blocks(features: Floats) -> float:
    """Return the number of middle blocks with as many points as all blocks."""
    blocks, written = _root(features, "num_blocks"), _root(features, "global_bytes_at_task")
    if written <= 0:
        return blocks
    return min(_root(features, "global_bytes_written_by_kernel") / max(written, 1.0), blocks)


def _at(bytes_: float, bytes_per_s: float) -> LevelTraffic:
    return LevelTraffic(bytes_, bytes_ / bytes_per_s)


def _sum(features: Floats, *names: str) -> float:
    return float(features[0][:, [INDEX[name] for name in names]].sum())


def _root(features: Floats, name: str) -> float:
    return float(features[0, 0, INDEX[name]])
