"""Sources of processor labels, from which any machine can reconstruct the labels' target."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

from autosched.host import Host, read_host
from autosched.target import Target, cpu_target

_MARK = "measured:cpu "
_SOURCE = re.compile(
    re.escape(_MARK)
    + r".*? (?:\[(?P<processor>[^,\]]*), (?P<lanes>\d+) lanes, (?P<l2>\d+) and (?P<last>\d+) KiB of cache\] )?"
    r"x(?P<threads>\d+)"
)


def cpu_source(threads: int) -> str:
    """Return the source of labels of this machine's processor.

    The system's processor name is ambiguous in virtual machines. So the properties that schedules and the timing model
    depend on follow in brackets: kind, vector lanes, second-level cache of a core and last-level cache of all
    ``threads``.

    Args:
        threads: OpenMP threads of a kernel.
    """
    host = read_host(cores=threads)
    caches = f"{host.l2_bytes_per_core >> 10} and {host.last_level_bytes >> 10} KiB of cache"
    return f"{_MARK}{processor_name()} [{host.processor}, {host.simd_lanes} lanes, {caches}] x{threads}"


def target_of_labels(target: Target, source: str) -> Target:
    """Return the target of labels; for a processor, with the cores of the measurement.

    Args:
        target: This machine's processor with all its cores, or a GPU, which is returned unchanged.
        source: Source of the labels. A source without a description of the processor means this machine's.
    """
    said = _SOURCE.fullmatch(source)
    if target.kind != "cpu" or said is None:
        return target
    host = read_host(cores=int(said["threads"]))
    return cpu_target(_described(host, said) if said["lanes"] else host)


def _described(host: Host, said: re.Match[str]) -> Host:
    """Return the described processor with this machine's memory and clock, which no prediction depends on."""
    return replace(
        host,
        processor=said["processor"],
        simd_lanes=int(said["lanes"]),
        l2_bytes_per_core=int(said["l2"]) << 10,
        last_level_bytes=int(said["last"]) << 10,
    )


def processor_name(cpuinfo: Path = Path("/proc/cpuinfo")) -> str:
    """Return the system's name of the processor, or ``unknown``."""
    try:
        lines = cpuinfo.read_text().splitlines()
    except OSError:
        return "unknown"
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, "unknown")
