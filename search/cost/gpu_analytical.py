"""A timing model that is not learned: what each unit of the device needs for a kernel's work, from the features.

Assumptions. A kernel's units work side by side, and the busiest one counts most (a 4-norm of their times): DRAM moves
every different byte once at seven tenths of its peak rate; the second-level cache moves every sector, four times as
fast as that peak; each multiprocessor starts four warp instructions a cycle, a request to memory in 1.4 cycles, and
passes one wavefront of shared memory; arithmetic runs at the target's peak rates, a product and a sum of floats being
one instruction, divisions and elementary functions at an eighth of them. Rates are reached with `WARPS_FOR_FULL_RATE`
warps on a multiprocessor, and fall off in proportion below. Blocks are dealt out whole, so that a grid that does not
divide by the number of multiprocessors waits for its last blocks. Work is that of the middle block times the points of
the whole over its points. Meanwhile every wave of blocks waits (a 2-norm of both): for memory, step after step, and
for the instructions of each stage, which its own warps start one after the other, so a stage that has work for one
warp of a block keeps the others waiting. Every kernel waits for its launch. Caches do not keep anything from one
kernel to the next. For the CPU there is `autosched.search.cost.cpu.analytical`.

The share of DRAM's rate, cycles of requests, instructions and latency, and the launch were fitted to 6,734 schedules
that were measured on an H200 (`scripts/fit_gpu_model.py` tells how well all of them do), and rounded.
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
"""What every warp of a block runs at the beginning of a step: indices of its threads, guards, the barrier."""
ADDRESSED = 1.5
"""Instructions of a request to memory, its share of the addresses included."""
GLOBAL_LATENCY_CYCLES = 900
STEP_LATENCY_CYCLES = 120
INSTRUCTION_CYCLES = 12.0
"""From one instruction of a warp to the next, its share of indices and of waiting included."""
WARPS_FOR_FULL_RATE = 16
REQUEST_CYCLES = 1.4
DRAM_SHARE = 0.7
"""Of the peak rate, what kernels get."""
L2_OVER_DRAM = 4.0
SPECIAL_RATE = 1 / 8
SECTOR_BYTES = 32
LANES_OF_MULTIPROCESSOR = 128
LANES_OF_WARP = 32
REGISTER_BYTES = 4
FREE_REGISTERS = 64
"""Registers that addresses and temporaries take beside what is kept in registers on purpose."""

OPERATIONS = ("double", "integer", "special")
"""Units whose work is counted in operations."""
READS = frozenset(
    {
        "num_blocks", "num_warps_per_block", "num_active_warps_per_block", "resident_blocks", "working_set_at_thread",
        "global_bytes_at_task", "global_bytes_written_by_kernel",
        "num_global_mem_loads_per_block", "num_global_mem_stores_per_block",
        "num_shared_mem_loads_per_block", "num_shared_mem_stores_per_block", "global_requests_per_block",
        "shared_requests_per_block", "steps_per_block", "warp_lane_utilization", "unique_global_bytes_read_by_kernel",
        "float_instructions_per_block", *(f"{unit}_operations_per_block" for unit in OPERATIONS),
    }
)  # fmt: skip
"""Features that the model reads."""
BUSY = ("dram", "l2", "issue", "memory_requests", "shared", "float", "double", "special")
WAITING = ("latency", "stages")
COMPONENTS = (*BUSY, *WAITING, "launch")
"""Names of the parts of a predicted time, in the order `AnalyticalModel.components` gives them."""


def analytical_model(target: Target) -> AnalyticalModel | CpuModel:
    """Return the model that predicts times for a target without having learned from it."""
    return CpuModel(target) if target.kind == "cpu" else AnalyticalModel(target)


@dataclass(frozen=True)
class AnalyticalModel:
    """Predicts times from a GPU's rates.

    Args:
        target: The device.
    """

    target: Target

    @property
    def name(self) -> str:
        """Name, as reports show it."""
        return f"analytical model for {self.target.name}"

    @property
    def reads(self) -> frozenset[str]:
        """Names of the features it reads."""
        return READS

    def cost(self, found: BatchEvaluation) -> Floats:
        """Return the predicted seconds of each candidate, ``float64[M]``."""
        return self.combined(self.components(found.features))

    def parts(self, found: BatchEvaluation) -> dict[str, Floats]:
        """Return the seconds each unit needs, ``float64[M]`` by the names of `COMPONENTS`."""
        seconds = self.components(found.features)
        return {name: seconds[:, k] for k, name in enumerate(COMPONENTS)}

    @staticmethod
    def combined(parts: Floats) -> Floats:
        """Return the seconds of kernels, ``float64[N]``, from those of their parts, ``float64[N, 11]``."""
        units = len(BUSY)
        busy = np.sqrt((parts[:, :units] ** 4).sum(axis=1))
        total: Floats = np.sqrt(busy + parts[:, units:-1].sum(axis=1) ** 2) + parts[:, -1]
        return total

    def components(self, features: Floats) -> Floats:
        """Return the seconds each unit needs, ``float64[N, 11]``, in the order of `COMPONENTS`."""
        t = self.target

        def summed(name: str) -> Floats:
            total: Floats = features[:, :, INDEX[name]].sum(axis=1)
            return total

        def root(name: str) -> Floats:
            values: Floats = features[:, 0, INDEX[name]]
            return values

        sms = t.multiprocessors
        clock = t.peak_fp32_flops / (2 * LANES_OF_MULTIPROCESSOR * sms)
        lanes = LANES_OF_MULTIPROCESSOR
        blocks = root("num_blocks")
        warps = root("num_warps_per_block")
        resident = np.maximum(root("resident_blocks"), 1)
        per_sm = np.ceil(blocks / sms)
        waiting = per_sm * sms / np.maximum(blocks, 1)
        running = np.minimum(resident, per_sm) * warps
        slow = waiting / np.minimum(running / WARPS_FOR_FULL_RATE, 1.0)
        spilled = np.maximum(
            root("working_set_at_thread") / REGISTER_BYTES + FREE_REGISTERS - t.max_registers_per_thread, 0
        )
        slow = slow * (1 + spilled / FREE_REGISTERS)
        # Border blocks do less than the middle one, by which work is counted: as many whole ones as the points fill.
        written = root("global_bytes_at_task")
        share = root("global_bytes_written_by_kernel") / np.maximum(written, 1)
        work = np.where(written > 0, np.minimum(share, blocks), blocks)
        sectors = summed("num_global_mem_loads_per_block") + summed("num_global_mem_stores_per_block")
        wavefronts = summed("num_shared_mem_loads_per_block") + summed("num_shared_mem_stores_per_block")
        requests = summed("global_requests_per_block") + summed("shared_requests_per_block")
        started = STEP_INSTRUCTIONS * root("steps_per_block") * warps
        used = features[:, :, INDEX["warp_lane_utilization"]]
        used = np.where(used > 0, used, 1.0)

        # Lanes that wait count, as they do in instructions of warps, in which a product and a sum are one.
        counted = {unit: features[:, :, INDEX[f"{unit}_operations_per_block"]] / used for unit in OPERATIONS}
        counted["float"] = features[:, :, INDEX["float_instructions_per_block"]] * LANES_OF_WARP
        single, double, whole, special = (counted[u].sum(axis=1) * work for u in ("float", *OPERATIONS))
        moved = summed("unique_global_bytes_read_by_kernel") + summed("global_bytes_written_by_kernel")
        waves = np.ceil(blocks / (sms * resident))
        double_rate = t.peak_fp64_flops / 2
        parts = np.stack(
            [
                moved / (DRAM_SHARE * t.dram_bytes_per_s) * np.maximum(slow / waiting, 1.0),
                work * sectors * SECTOR_BYTES / (L2_OVER_DRAM * t.dram_bytes_per_s) * slow,
                ((single + double + whole + special) / lanes + work * (ADDRESSED * requests + started) / 4)
                / (sms * clock)
                * slow,
                REQUEST_CYCLES * work * (requests + sectors / 4) / (sms * clock) * slow,
                work * wavefronts / (sms * clock) * slow,
                single / (lanes * sms * clock) * slow,
                double / double_rate * slow,
                special / (SPECIAL_RATE * lanes * sms * clock) * slow,
                waves * (GLOBAL_LATENCY_CYCLES + STEP_LATENCY_CYCLES * root("steps_per_block")) / clock,
                waves * INSTRUCTION_CYCLES * _instructions_of_warps(features, counted).sum(axis=1) / clock,
                np.full(len(features), LAUNCH_SECONDS),
            ],
            axis=1,
        )
        result: Floats = parts
        return result


def _instructions_of_warps(features: Floats, operations: Mapping[str, Floats]) -> Floats:
    """Return the instructions that a warp with work runs in each stage of a block, ``float64[N, rows]``.

    Args:
        features: ``float64[N, rows, F]``.
        operations: Of each unit, ``float64[N, rows]``, lanes that do nothing counted.
    """
    requests = features[:, :, INDEX["global_requests_per_block"]] + features[:, :, INDEX["shared_requests_per_block"]]
    active = features[:, :, INDEX["num_active_warps_per_block"]]
    active = np.where(active > 0, active, np.maximum(features[:, :1, INDEX["num_warps_per_block"]], 1))
    instructions: Floats = (sum(operations.values()) / LANES_OF_WARP + ADDRESSED * requests) / active
    return instructions
