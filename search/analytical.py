"""A timing model that is not learned: what each unit of the device needs for a kernel's work, from the features.

Assumptions. A kernel takes as long as its busiest unit, and a little for the others (a 4-norm of the times): DRAM moves
every different byte once at its peak rate; the second-level cache moves every sector, four times as fast; each
multiprocessor starts four warp instructions a cycle, one request to memory, and passes one wavefront of shared memory;
arithmetic runs at the target's peak rates, divisions and elementary functions at an eighth of them. Rates are reached
with `WARPS_FOR_FULL_RATE` warps on a multiprocessor, and fall off in proportion below. Blocks are dealt out whole, so
that a grid that does not divide by the number of multiprocessors waits for its last blocks. Work is that of the middle
block times the points of the whole over its points. No wave of blocks is faster than its chain of dependent accesses.
Every kernel waits for its launch. Caches do not keep anything from one kernel to the next. For the CPU there is
`autosched.search.analytical_cpu`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from autosched.featurize.model import BatchEvaluation
from autosched.featurize.schema import INDEX
from autosched.search.analytical_cpu import CpuModel
from autosched.target import Target

Floats = NDArray[np.float64]

LAUNCH_SECONDS = 2e-6
STEP_INSTRUCTIONS = 12
"""What every warp of a block runs at the beginning of a step: indices of its threads, guards, the barrier."""
ADDRESSED = 1.5
"""Instructions of a request to memory, its share of the addresses included."""
GLOBAL_LATENCY_CYCLES = 600
STEP_LATENCY_CYCLES = 80
WARPS_FOR_FULL_RATE = 16
L2_OVER_DRAM = 4.0
SPECIAL_RATE = 1 / 8
SECTOR_BYTES = 32
LANES_OF_MULTIPROCESSOR = 128
REGISTER_BYTES = 4
FREE_REGISTERS = 64
"""Registers that addresses and temporaries take beside what is kept in registers on purpose."""

UNITS = ("float", "double", "integer", "special")
READS = frozenset(
    {
        "num_blocks", "num_warps_per_block", "resident_blocks", "working_set_at_thread", "global_bytes_at_task",
        "global_bytes_written_by_kernel", "num_global_mem_loads_per_block", "num_global_mem_stores_per_block",
        "num_shared_mem_loads_per_block", "num_shared_mem_stores_per_block", "global_requests_per_block",
        "shared_requests_per_block", "steps_per_block", "warp_lane_utilization", "unique_global_bytes_read_by_kernel",
        *(f"{unit}_operations_per_block" for unit in UNITS),
    }
)  # fmt: skip
"""Features that the model reads."""
COMPONENTS = ("dram", "l2", "issue", "memory_requests", "shared", "float", "double", "special", "latency", "launch")
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
        parts = self.components(found.features)
        busy = (parts[:, :8] ** 4).sum(axis=1) ** 0.25
        total: Floats = np.maximum(busy, parts[:, 8]) + parts[:, 9]
        return total

    def parts(self, found: BatchEvaluation) -> dict[str, Floats]:
        """Return the seconds each unit needs, ``float64[M]`` by the names of `COMPONENTS`."""
        seconds = self.components(found.features)
        return {name: seconds[:, k] for k, name in enumerate(COMPONENTS)}

    def components(self, features: Floats) -> Floats:
        """Return the seconds each unit needs, ``float64[N, 10]``, in the order of `COMPONENTS`."""
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

        def operations(unit: str) -> Floats:
            counted: Floats = (features[:, :, INDEX[f"{unit}_operations_per_block"]] / used).sum(axis=1)
            return counted * work

        single, double, whole, special = (operations(u) for u in UNITS)
        moved = summed("unique_global_bytes_read_by_kernel") + summed("global_bytes_written_by_kernel")
        double_rate = t.peak_fp64_flops / 2
        parts = np.stack(
            [
                moved / t.dram_bytes_per_s * np.maximum(slow / waiting, 1.0),
                work * sectors * SECTOR_BYTES / (L2_OVER_DRAM * t.dram_bytes_per_s) * slow,
                ((single + double + whole + special) / lanes + work * (ADDRESSED * requests + started) / 4)
                / (sms * clock)
                * slow,
                work * (requests + sectors / 4) / (sms * clock) * slow,
                work * wavefronts / (sms * clock) * slow,
                single / (lanes * sms * clock) * slow,
                double / double_rate * slow,
                special / (SPECIAL_RATE * lanes * sms * clock) * slow,
                np.ceil(blocks / (sms * resident))
                * (GLOBAL_LATENCY_CYCLES + STEP_LATENCY_CYCLES * root("steps_per_block"))
                / clock,
                np.full(len(features), LAUNCH_SECONDS),
            ],
            axis=1,
        )
        result: Floats = parts
        return result
