"""Where labels of a processor come from, in words that tell the target that they are labels of, on any machine."""

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
    """Return where labels of this machine's processor come from.

    Its name is what the system says, which in virtual machines may be that of several generations, so what schedules
    and the timing model depend on follows in brackets: kind, lanes of a vector, second-level cache of a core and last-
    level cache of all ``threads``.

    Args:
        threads: OpenMP threads that run a kernel.
    """
    host = read_host(cores=threads)
    caches = f"{host.l2_bytes_per_core >> 10} and {host.last_level_bytes >> 10} KiB of cache"
    return f"{_MARK}{processor_name()} [{host.processor}, {host.simd_lanes} lanes, {caches}] x{threads}"


def target_of_labels(target: Target, source: str) -> Target:
    """Return the target that labels are of: of a processor, itself with the cores that they were measured with.

    Args:
        target: This machine's processor with all its cores, or a GPU, which stays as it is.
        source: Where the labels come from. If it does not describe the processor, as before 2026-11-25, it is taken
            for this machine's.
    """
    said = _SOURCE.fullmatch(source)
    if target.kind != "cpu" or said is None:
        return target
    host = read_host(cores=int(said["threads"]))
    return cpu_target(_described(host, said) if said["lanes"] else host)


def _described(host: Host, said: re.Match[str]) -> Host:
    """Return a processor with memory and clock of a machine, which no prediction depends on."""
    return replace(
        host,
        processor=said["processor"],
        simd_lanes=int(said["lanes"]),
        l2_bytes_per_core=int(said["l2"]) << 10,
        last_level_bytes=int(said["last"]) << 10,
    )


def processor_name(cpuinfo: Path = Path("/proc/cpuinfo")) -> str:
    """Return the processor's name as the system tells it, ``unknown`` where it does not."""
    try:
        lines = cpuinfo.read_text().splitlines()
    except OSError:
        return "unknown"
    found = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(found, "unknown")
