"""Profiles of kernels from hardware counters: the CSV of NVIDIA's Nsight Compute.

    ncu --csv --print-units base --metrics $(python -m autosched.search.bottleneck.ncu_counters) PROGRAM > counters.csv

The names of metrics are those of the user manual of the command line, "Nvprof Metric Comparison", and of its sections
for the Speed of Light and the hierarchical roofline.
"""

from __future__ import annotations

import csv
import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from autosched.errors import InputError, shortened
from autosched.search.bottleneck.kernel_profile import KernelProfile, LevelTraffic, MemoryLevel

SOURCE = "ncu"
SECONDS = "gpu__time_duration.sum"
REGISTERS = "launch__registers_per_thread"
FLOPS: Mapping[str, float] = {
    f"smsp__sass_thread_inst_executed_op_{kind}{op}_pred_on.sum": 2.0 if op == "fma" else 1.0
    for kind in "fd"
    for op in ("add", "mul", "fma")
}
"""Instructions of threads, with the operations of each."""
COMPUTE = "sm__throughput.avg.pct_of_peak_sustained_elapsed"
"""Throughput of the busiest unit of the multiprocessors, in percent."""
SHARED_WAVEFRONTS = "l1tex__data_pipe_lsu_wavefronts_mem_shared"
WAVEFRONT_BYTES = 128
BYTES: Mapping[MemoryLevel, tuple[tuple[str, ...], float]] = {
    MemoryLevel.DRAM: (("dram__bytes_read.sum", "dram__bytes_write.sum"), 1.0),
    MemoryLevel.L2: (("lts__t_bytes.sum",), 1.0),
    MemoryLevel.L1: (("l1tex__t_bytes.sum",), 1.0),
    MemoryLevel.SHARED: ((f"{SHARED_WAVEFRONTS}.sum",), float(WAVEFRONT_BYTES)),
}
"""Metrics whose sum is the accesses to a level, and the bytes of one."""
THROUGHPUTS: Mapping[MemoryLevel, str] = {
    MemoryLevel.DRAM: "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed",
    MemoryLevel.L2: "lts__throughput.avg.pct_of_peak_sustained_elapsed",
    MemoryLevel.L1: "l1tex__throughput.avg.pct_of_peak_sustained_active",
    MemoryLevel.SHARED: f"{SHARED_WAVEFRONTS}.avg.pct_of_peak_sustained_elapsed",
}
"""Throughput of each level, in percent of its peak."""
METRICS = (
    SECONDS,
    COMPUTE,
    *FLOPS,
    *(m for names, _ in BYTES.values() for m in names),
    *THROUGHPUTS.values(),
    REGISTERS,
)
"""Metrics that `read_counters` reads."""
BARRIER_STALL = "smsp__average_warps_issue_stalled_barrier_per_issue_active.ratio"
"""Cycles that a warp waits at a barrier of its block between two instructions."""
ISSUE_LATENCY = "smsp__average_warp_latency_per_inst_issued.ratio"
"""Cycles between two instructions of a warp."""
STALL_METRICS = (SECONDS, BARRIER_STALL, ISSUE_LATENCY)
"""Metrics that `read_barrier_stalls` reads."""
COLUMNS = ("ID", "Kernel Name", "Metric Name", "Metric Unit", "Metric Value")
_UNITS = {
    "byte": 1.0, "kbyte": 1e3, "mbyte": 1e6, "gbyte": 1e9, "nsecond": 1e-9, "usecond": 1e-6, "msecond": 1e-3,
    "second": 1.0, "ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0,
}  # fmt: skip
"""Factors of scaled units; all other units are counts and percentages."""


def read_counters(path: str | os.PathLike[str]) -> dict[str, KernelProfile]:
    """Return the profiles of the kernels in a CSV file of ``ncu``, by the names of the kernels.

    A kernel with several launches has their mean. Lines before the header, which ``ncu`` prints, are skipped.

    Args:
        path: The file, with a row for each metric of each launch (``ncu --csv --metrics ...``).

    Raises:
        InputError: If the file cannot be read, has no such table, or lacks a metric of a kernel.
    """
    return {name: _profile(path, name, launches) for name, launches in _kernels(path, METRICS).items()}


def read_barrier_stalls(path: str | os.PathLike[str]) -> float:
    """Return the share of the cycles between two instructions of a warp that it waits at a barrier of its block.

    It is the mean of the kernels in a CSV file of ``ncu``, weighted by their times: the stalls by ``__syncthreads`` of
    PolyMage-GPU (Jangda and Guha 2020, Figure 8).

    Args:
        path: The file, of a profile with the metrics `STALL_METRICS`.

    Raises:
        InputError: If the file cannot be read, has no such table, or lacks a metric of a kernel.
    """
    stalled = seconds = 0.0
    for name, launches in _kernels(path, STALL_METRICS).items():
        took, wait, latency = (_mean(path, name, launches, m, STALL_METRICS) for m in STALL_METRICS)
        stalled += took * wait / latency if latency else 0.0
        seconds += took
    return stalled / seconds if seconds else 0.0


def _kernels(path: str | os.PathLike[str], metrics: Sequence[str]) -> dict[str, list[dict[str, float]]]:
    """Return the counters of each launch of each kernel; ``metrics`` must be numbers."""
    launches: dict[tuple[str, str], dict[str, float]] = {}
    for number, row in _rows(Path(path)):
        name = row["Kernel Name"].partition("(")[0]
        try:
            value = float(row["Metric Value"].replace(",", "")) * _UNITS.get(row["Metric Unit"].lower(), 1.0)
        except ValueError:
            value = math.nan  # "n/a"
        if row["Metric Name"] in metrics and math.isnan(value):
            raise InputError(
                f"{path}, line {number}: {row['Metric Name']} of kernel {name} is {shortened(row['Metric Value'])}, "
                "expected a number: profile again with fewer metrics, or on a device that counts it"
            )
        launches.setdefault((name, row["ID"]), {})[row["Metric Name"]] = value
    if not launches:
        raise InputError(f"{path} has no kernels: profile a program that launches some")
    kernels: dict[str, list[dict[str, float]]] = {}
    for (name, _), counters in launches.items():
        kernels.setdefault(name, []).append(counters)
    return kernels


def _mean(path: object, name: str, launches: list[dict[str, float]], metric: str, metrics: Sequence[str]) -> float:
    if any(metric not in c for c in launches):
        raise InputError(f"{path} lacks {metric} of kernel {name}: profile with --metrics {','.join(metrics)}")
    return sum(c[metric] for c in launches) / len(launches)


def _rows(path: Path) -> list[tuple[int, dict[str, str]]]:
    """Return the rows of a CSV file below its header, with their line numbers."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot read counters from {path}: {error}") from error
    for at, line in enumerate(lines):
        header = next(csv.reader([line]), [])
        if set(COLUMNS) <= set(header):
            rows = csv.reader(lines[at + 1 :])
            whole = ((at + 2 + k, row) for k, row in enumerate(rows) if len(row) == len(header))
            return [(number, dict(zip(header, row, strict=True))) for number, row in whole]
    raise InputError(
        f"{path} has no header with the columns {', '.join(COLUMNS)}: write it by ncu --csv --metrics METRICS PROGRAM"
    )


def _profile(path: object, name: str, launches: list[dict[str, float]]) -> KernelProfile:
    def mean(metric: str) -> float:
        return _mean(path, name, launches, metric, METRICS)

    seconds = mean(SECONDS)
    return KernelProfile(
        name=name, kind="cuda", source=SOURCE, seconds=seconds,
        flops=sum(operations * mean(metric) for metric, operations in FLOPS.items()),
        compute_seconds=mean(COMPUTE) / 100 * seconds,
        traffic={
            level: LevelTraffic(each * sum(map(mean, names)), mean(THROUGHPUTS[level]) / 100 * seconds)
            for level, (names, each) in BYTES.items()
        },
        registers=round(mean(REGISTERS)),
    )  # fmt: skip


if __name__ == "__main__":
    import sys

    sys.stdout.write(",".join(METRICS) + "\n")
