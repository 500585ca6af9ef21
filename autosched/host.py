"""Processor and memory of this machine, from the operating system."""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from autosched.settings import openmp_cpus

_SYSFS = Path("/sys/devices/system/cpu")
_CPUINFO = Path("/proc/cpuinfo")
_MEMINFO = Path("/proc/meminfo")
_CGROUP = Path("/sys/fs/cgroup")

# Used for unknown values (containers and virtual machines often hide caches and clocks).
_FALLBACK_L2_BYTES = 512 * 1024
_FALLBACK_CLOCK_HZ = 2.5e9
_FALLBACK_MEMORY_BYTES = 4 * 1024**3

# Families of several generations, which the widest vector unit distinguishes, since virtual machines hide the model:
# all of Intel's since 1995, and the third and fourth of AMD's EPYC.
_SHARED_FAMILIES = (("GenuineIntel", "6"), ("AuthenticAMD", "25"))
_UNITS = (("amx", "amx_tile"), ("avx512", "avx512f"), ("avx2", "avx2"))


@dataclass(frozen=True, slots=True)
class Host:
    """The processor and memory of this machine.

    Attributes:
        cores: Logical processors of generated C: those of this process, limited by OMP_NUM_THREADS.
        simd_lanes: float32 lanes of the widest vector unit.
        l2_bytes_per_core: L2 capacity divided by its logical processors.
        last_level_bytes: Capacity of the cache before DRAM, over all cores.
        memory_bytes: Physical memory.
        clock_hz: Highest clock, or a nominal one if unknown.
        processor: Vendor and family of the system (``AuthenticAMD 26``), empty if unknown; with the widest vector unit
            for a family of several generations (``GenuineIntel 6 amx``, ``AuthenticAMD 25 avx512``).
    """

    cores: int
    simd_lanes: int
    l2_bytes_per_core: int
    last_level_bytes: int
    memory_bytes: int
    clock_hz: float
    processor: str = ""


def read_host(*, sysfs: Path = _SYSFS, cpuinfo: Path = _CPUINFO, cores: int | None = None) -> Host:
    """Describe this machine, with modest defaults for unreadable values.

    Args:
        sysfs: Directory of the kernel with caches and clocks.
        cpuinfo: File of the kernel with the instruction set.
        cores: Number of logical processors; those of generated C when left out.

    Returns:
        The description; every number is positive.
    """
    cores = cores or openmp_cpus()
    l2 = _FALLBACK_L2_BYTES
    last_level, level_seen = 0, 0
    for level, size, sharing in _caches(sysfs):
        if level == 2:
            l2 = size // sharing
        if level > level_seen:
            level_seen = level
            last_level = size * max(1, cores // sharing)
    return Host(
        cores=cores,
        simd_lanes=_simd_lanes(cpuinfo),
        l2_bytes_per_core=l2,
        last_level_bytes=max(last_level, l2 * cores),
        memory_bytes=memory_bytes(),
        clock_hz=_clock_hz(sysfs),
        processor=_processor(cpuinfo),
    )


@cache
def has_vector_math() -> bool:
    """Return whether this machine's C library has vectorised elementary functions (see ``vector_math.h``)."""
    library, version = platform.libc_ver()
    numbers = tuple(int(n) for n in version.split(".") if n.isdigit())
    return platform.machine() in ("x86_64", "AMD64") and library == "glibc" and numbers >= (2, 35)


@cache
def has_fast_gathers(*, sysfs: Path = _SYSFS, cpuinfo: Path = _CPUINFO) -> bool:
    """Return whether this is an Intel processor with fast gathers, which are those with AMX.

    Gathers of many older ones are slow because of microcode against CVE-2022-40982.
    """
    status = _read(sysfs / "vulnerabilities" / "gather_data_sampling")
    processor = _processor(cpuinfo)
    return status == "Not affected" and processor.startswith("GenuineIntel") and processor.endswith(" amx")


def _caches(sysfs: Path) -> list[tuple[int, int, int]]:
    """Return (level, bytes, logical processors sharing it) of the first processor's data caches."""
    caches = []
    for entry in sorted(sysfs.glob("cpu0/cache/index*")):
        if _read(entry / "type") == "Instruction":
            continue
        level, size = _read(entry / "level"), _parse_size(_read(entry / "size"))
        if level.isdigit() and size:
            caches.append((int(level), size, _count_cpus(_read(entry / "shared_cpu_list"))))
    return caches


def _read(path: Path) -> str:
    """Return a small file's text; empty if it is absent or unreadable."""
    try:
        return path.read_text().strip()
    except OSError:
        return ""


def _parse_size(text: str) -> int:
    """Return the bytes in `512K` or `32M`, 0 for anything else."""
    factor = {"K": 1024, "M": 1024**2}.get(text[-1:], 1)
    digits = text.rstrip("KM")
    return int(digits) * factor if digits.isdigit() else 0


def _count_cpus(text: str) -> int:
    """Return the number of processors in a list such as `0-3,8`; 1 for an empty one."""
    count = 0
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        count += int(last or first) - int(first) + 1
    return max(1, count)


def _simd_lanes(cpuinfo: Path) -> int:
    """Return the float32 lanes of AVX-512, AVX or, on anything else, a 128-bit unit."""
    words = set(_read(cpuinfo).split())
    if "avx512f" in words:
        return 16
    return 8 if "avx" in words else 4


def _processor(cpuinfo: Path) -> str:
    lines = (line.partition(":") for line in _read(cpuinfo).splitlines())
    said = {name.strip(): value.strip() for name, _, value in lines}
    vendor, family = said.get("vendor_id"), said.get("cpu family")
    if not vendor or not family:
        return ""
    if (vendor, family) not in _SHARED_FAMILIES:
        return f"{vendor} {family}"
    flags = set(said.get("flags", "").split())
    unit = next((name for name, flag in _UNITS if flag in flags), "sse")
    return f"{vendor} {family} {unit}"


def memory_bytes() -> int:
    """Return the bytes of physical memory of this machine."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError):  # unknown on this system
        return _FALLBACK_MEMORY_BYTES


def available_memory_bytes(*, meminfo: Path = _MEMINFO, cgroup: Path = _CGROUP) -> int:
    """Return the bytes of memory that this process can use without swapping, within the limit of its container.

    Args:
        meminfo: File of the kernel with the free memory.
        cgroup: Directory of the kernel with the limits of this process (version 2).
    """
    lines = (line.split() for line in _read(meminfo).splitlines())
    free = next((int(words[1]) * 1024 for words in lines if words[:1] == ["MemAvailable:"]), memory_bytes())
    most, used = _read(cgroup / "memory.max"), _read(cgroup / "memory.current")
    if not (most.isdigit() and used.isdigit()):
        return free
    counts = (line.partition(" ") for line in _read(cgroup / "memory.stat").splitlines())
    reclaimable = next((int(count) for name, _, count in counts if name == "inactive_file"), 0)
    return min(free, max(int(most) - int(used) + reclaimable, 0))


def _clock_hz(sysfs: Path) -> float:
    kilohertz = _read(sysfs / "cpu0" / "cpufreq" / "cpuinfo_max_freq")
    return int(kilohertz) * 1e3 if kilohertz.isdigit() else _FALLBACK_CLOCK_HZ
