"""Analytical timing model of GPUs: the time of each unit of the device for a kernel's work, from the features.

Assumptions:

* Units overlap, and the busiest one dominates (a 4-norm of their times). DRAM transfers every distinct byte once, at
  seven tenths of its peak rate. The second-level cache transfers every sector, at four times that peak.
* Each multiprocessor issues four warp instructions a cycle and one memory request in 1.4 cycles, and transfers one
  wavefront of shared memory a cycle. Arithmetic runs at the target's peak rates, with a fused multiply-add as one
  instruction; divisions and elementary functions run at an eighth of these.
* `WARPS_FOR_FULL_RATE` warps on a multiprocessor reach these rates; fewer warps get a proportional share.
* A grid that is no multiple of the number of multiprocessors waits for its last blocks.
* Work is that of the middle block, scaled by the points of the whole over its points.
* Every wave of blocks has a latency (a 2-norm of both): memory, step by step, and the instructions of each stage, which
  its active warps issue one after the other. A stage with work for one warp of a block thus delays the whole block.
* A step of a sliding window without double buffering waits for its loads (`STEP_LOAD_CYCLES`).
* Every kernel has launch overhead. Caches keep no data between kernels.

The share of DRAM's rate, the cycles of requests, instructions and latency, and the launch overhead are fitted to times
of an H200 (`scripts/fit_gpu_model.py` reports the accuracy), and rounded. For CPUs see
`autosched.search.cost.cpu.analytical`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from autosched.featurize.schema import INDEX
from autosched.featurize.tables.pipeline_tables import BatchEvaluation
from autosched.search.cost.cpu.analytical import CpuModel
from autosched.target import Target

Floats = NDArray[np.float64]

LAUNCH_SECONDS = 1.4e-6
STEP_INSTRUCTIONS = 12
"""Instructions of every warp at the beginning of a step: thread indices, guards, the barrier."""
ADDRESSED = 1.5
"""Instructions of a memory request, address arithmetic included."""
GLOBAL_LATENCY_CYCLES = 900
STEP_LATENCY_CYCLES = 120
STEP_LOAD_CYCLES = 400
"""Latency of the loads of a step, fitted to 1,897 kernels with sliding windows among the H200's labels."""
BARRIERS_WITHOUT_BUFFERING = 1.5
"""Least barriers of a step, on average, of a sliding window without double buffering."""
INSTRUCTION_CYCLES = 12.0
"""Cycles from one instruction of a warp to the next, with index arithmetic and stalls."""
WARPS_FOR_FULL_RATE = 16
REQUEST_CYCLES = 1.4
DRAM_SHARE = 0.7
"""Attainable share of the peak rate."""
L2_OVER_DRAM = 4.0
SPECIAL_RATE = 1 / 8
SECTOR_BYTES = 32
LANES_OF_MULTIPROCESSOR = 128
LANES_OF_WARP = 32
REGISTER_BYTES = 4
FREE_REGISTERS = 64
"""Registers of addresses and temporaries, beside register tiles."""

OPERATIONS = ("double", "integer", "special")
"""Units with work in operations."""
READS = frozenset(
    {
        "num_blocks", "num_warps_per_block", "num_active_warps_per_block", "resident_blocks", "working_set_at_thread",
        "global_bytes_at_task", "global_bytes_written_by_kernel",
        "num_global_mem_loads_per_block", "num_global_mem_stores_per_block",
        "num_shared_mem_loads_per_block", "num_shared_mem_stores_per_block", "global_requests_per_block",
        "shared_requests_per_block", "steps_per_block", "streaming_steps", "global_rounds_per_thread",
        "warp_lane_utilization", "unique_global_bytes_read_by_kernel",
        "float_instructions_per_block", *(f"{unit}_operations_per_block" for unit in OPERATIONS),
    }
)  # fmt: skip
"""Features that the model reads."""
BUSY = ("dram", "l2", "issue", "memory_requests", "shared", "float", "double", "special")
WAITING = ("latency", "stages")
COMPONENTS = (*BUSY, *WAITING, "launch")
"""Names of the parts of a predicted time, in the order of `AnalyticalModel.components`."""


def analytical_model(target: Target) -> AnalyticalModel | CpuModel:
    """Return the analytical model of a target."""
    return CpuModel(target) if target.kind == "cpu" else AnalyticalModel(target)


@dataclass(frozen=True)
class AnalyticalModel:
    """Predicts times from a GPU's rates.

    Args:
        target: The device.
        step_load_cycles: Latency of each round of loads in a step of a sliding window.
    """

    target: Target
    step_load_cycles: int = STEP_LOAD_CYCLES

    @property
    def name(self) -> str:
        """Name, for reports."""
        return f"analytical model for {self.target.name}"

    @property
    def reads(self) -> frozenset[str]:
        """Names of the features it reads."""
        return READS

    def cost(self, evaluation: BatchEvaluation) -> Floats:
        """Return the predicted seconds of each candidate, ``float64[M]``."""
        return self.combined(self.components(evaluation.features))

    def parts(self, evaluation: BatchEvaluation) -> dict[str, Floats]:
        """Return the seconds of each unit, ``float64[M]`` by the names of `COMPONENTS`."""
        seconds = self.components(evaluation.features)
        return {name: seconds[:, k] for k, name in enumerate(COMPONENTS)}

    @staticmethod
    def combined(parts: Floats) -> Floats:
        """Return the seconds of kernels, ``float64[N]``, from their parts, ``float64[N, 11]``."""
        units = len(BUSY)
        busy = np.sqrt((parts[:, :units] ** 4).sum(axis=1))
        total: Floats = np.sqrt(busy + parts[:, units:-1].sum(axis=1) ** 2) + parts[:, -1]
        return total

    def components(self, features: Floats) -> Floats:
        """Return the seconds of each unit, ``float64[N, 11]``, in the order of `COMPONENTS`.

        Args:
            features: ``float64[N, rows, F]``.
        """
        t = self.target
        kernels = _KernelFeatures(features)
        sms = t.multiprocessors
        clock = t.peak_fp32_flops / (2 * LANES_OF_MULTIPROCESSOR * sms)
        lanes = LANES_OF_MULTIPROCESSOR
        blocks, work = kernels.root("num_blocks"), _equivalent_blocks(kernels)
        resident = np.maximum(kernels.root("resident_blocks"), 1)
        imbalance, slow = self._slowdown(kernels, resident)
        sectors = kernels.summed("num_global_mem_loads_per_block") + kernels.summed("num_global_mem_stores_per_block")
        wavefronts = kernels.summed("num_shared_mem_loads_per_block") + kernels.summed(
            "num_shared_mem_stores_per_block"
        )
        requests = kernels.summed("global_requests_per_block") + kernels.summed("shared_requests_per_block")
        started = STEP_INSTRUCTIONS * kernels.root("steps_per_block") * kernels.root("num_warps_per_block")
        operations = _operations(features)
        single, double, whole, special = (operations[u].sum(axis=1) * work for u in ("float", *OPERATIONS))
        moved = kernels.summed("unique_global_bytes_read_by_kernel") + kernels.summed("global_bytes_written_by_kernel")
        waves = np.ceil(blocks / (sms * resident))
        double_rate = t.peak_fp64_flops / 2
        parts: Floats = np.stack(
            [
                moved / (DRAM_SHARE * t.dram_bytes_per_s) * np.maximum(slow / imbalance, 1.0),
                work * sectors * SECTOR_BYTES / (L2_OVER_DRAM * t.dram_bytes_per_s) * slow,
                ((single + double + whole + special) / lanes + work * (ADDRESSED * requests + started) / 4)
                / (sms * clock)
                * slow,
                REQUEST_CYCLES * work * (requests + sectors / 4) / (sms * clock) * slow,
                work * wavefronts / (sms * clock) * slow,
                single / (lanes * sms * clock) * slow,
                double / double_rate * slow,
                special / (SPECIAL_RATE * lanes * sms * clock) * slow,
                waves * (GLOBAL_LATENCY_CYCLES + _step_cycles(kernels, self.step_load_cycles)) / clock,
                waves * INSTRUCTION_CYCLES * _instructions_of_warps(features, operations).sum(axis=1) / clock,
                np.full(len(features), LAUNCH_SECONDS),
            ],
            axis=1,
        )
        return parts

    def _slowdown(self, kernels: _KernelFeatures, resident: Floats) -> tuple[Floats, Floats]:
        """Return the load imbalance of multiprocessors, and the factor by which all units are slower; ``float64[N]``.

        Args:
            kernels: The kernels.
            resident: ``float64[N]``, resident blocks of a multiprocessor, at least 1.
        """
        sms, blocks = self.target.multiprocessors, kernels.root("num_blocks")
        per_sm = np.ceil(blocks / sms)
        imbalance = per_sm * sms / np.maximum(blocks, 1)
        warps = np.minimum(resident, per_sm) * kernels.root("num_warps_per_block")
        registers = kernels.root("working_set_at_thread") / REGISTER_BYTES + FREE_REGISTERS
        spilled = np.maximum(registers - self.target.max_registers_per_thread, 0)
        slow = imbalance / np.minimum(warps / WARPS_FOR_FULL_RATE, 1.0)
        return imbalance, slow * (1 + spilled / FREE_REGISTERS)


@dataclass(frozen=True)
class _KernelFeatures:
    """Features of N kernels by name.

    Attributes:
        values: ``float64[N, rows, F]``.
    """

    values: Floats

    def summed(self, name: str) -> Floats:
        """Return the sum of a feature over a kernel's stages, ``float64[N]``."""
        total: Floats = self.values[:, :, INDEX[name]].sum(axis=1)
        return total

    def root(self, name: str) -> Floats:
        """Return a feature of the root stage, ``float64[N]``."""
        values: Floats = self.values[:, 0, INDEX[name]]
        return values


def _step_cycles(kernels: _KernelFeatures, load_cycles: int) -> Floats:
    """Return the latency of a block's steps in cycles: barriers, and loads of sliding windows, ``float64[N]``.

    Of a mainloop the root has no steps in the features; its loads are not counted.

    Args:
        kernels: The kernels.
        load_cycles: Latency of each round of loads.
    """
    barriers, steps = kernels.root("steps_per_block"), kernels.root("streaming_steps")
    waits = (steps > 0) & (barriers >= BARRIERS_WITHOUT_BUFFERING * steps)
    in_steps = kernels.values[:, :, INDEX["streaming_steps"]] > 0
    rounds = np.where(in_steps, kernels.values[:, :, INDEX["global_rounds_per_thread"]], 0).sum(axis=1)
    cycles: Floats = STEP_LATENCY_CYCLES * barriers + load_cycles * np.where(waits, rounds, 0)
    return cycles


def _equivalent_blocks(kernels: _KernelFeatures) -> Floats:
    """Return the number of middle blocks with as many points as all blocks, ``float64[N]``.

    Work is counted for the middle block, and boundary blocks do less.
    """
    blocks, written = kernels.root("num_blocks"), kernels.root("global_bytes_at_task")
    equivalent = kernels.root("global_bytes_written_by_kernel") / np.maximum(written, 1)
    return np.where(written > 0, np.minimum(equivalent, blocks), blocks)


def _operations(features: Floats) -> dict[str, Floats]:
    """Return the operations of each unit, ``float64[N, rows]``.

    Idle lanes of a warp count, as in warp instructions; a fused multiply-add is one operation.
    """
    used = features[:, :, INDEX["warp_lane_utilization"]]
    used = np.where(used > 0, used, 1.0)
    operations = {unit: features[:, :, INDEX[f"{unit}_operations_per_block"]] / used for unit in OPERATIONS}
    operations["float"] = features[:, :, INDEX["float_instructions_per_block"]] * LANES_OF_WARP
    return operations


def _instructions_of_warps(features: Floats, operations: Mapping[str, Floats]) -> Floats:
    """Return the instructions of an active warp in each stage of a block, ``float64[N, rows]``.

    Args:
        features: ``float64[N, rows, F]``.
        operations: Operations of each unit, ``float64[N, rows]``, idle lanes included.
    """
    requests = features[:, :, INDEX["global_requests_per_block"]] + features[:, :, INDEX["shared_requests_per_block"]]
    active = features[:, :, INDEX["num_active_warps_per_block"]]
    active = np.where(active > 0, active, np.maximum(features[:, :1, INDEX["num_warps_per_block"]], 1))
    instructions: Floats = (sum(operations.values()) / LANES_OF_WARP + ADDRESSED * requests) / active
    return instructions
