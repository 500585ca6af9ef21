"""Description of this machine: ``python -m campaign.machine TARGET FILE`` writes it as JSON."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from campaign.files import write_json

PACKAGES = ("numpy", "networkx", "torch", "cupy-cuda13x", "cuda-core", "nvidia-cuda-nvrtc", "triton", "pyarrow")
TOOLS = ("compute-sanitizer", "ncu", "nvcc", "gcc", "nvidia-smi")
_TOOL_S = 10.0


def describe(target: str) -> dict[str, Any]:
    """Return processor, cores, packages, tools and, for the target `cuda`, the GPU."""
    found: dict[str, Any] = {
        "device": "" if target == "cuda" else f"{target} {processor()}" if target == "cpu" else target,
        "system": platform.platform(),
        "python": platform.python_version(),
        "processor": processor(),
        "cores": len(os.sched_getaffinity(0)),
        "packages": {name: v for name in PACKAGES if (v := _version(name))},
        "tools": {name: path for name in TOOLS if (path := shutil.which(name))},
    }
    return found | (gpu() if target == "cuda" else {})


def gpu() -> dict[str, Any]:
    """Return name, driver, memory and clocks of the current GPU."""
    from cupy.cuda import runtime

    number = runtime.getDevice()
    properties = runtime.getDeviceProperties(number)
    driver = runtime.driverGetVersion()
    return {
        "device": properties["name"].decode(),
        "cuda_driver": f"{driver // 1000}.{driver % 1000 // 10}",
        "memory_bytes": int(properties["totalGlobalMem"]),
        "multiprocessors": int(properties["multiProcessorCount"]),
        "l2_bytes": int(properties["l2CacheSize"]),
        "smi": _smi(),
    }


def processor() -> str:
    """Return the processor's name as reported by the system."""
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or "unknown"


def _smi() -> str:
    """Return driver, clocks and power limit as printed by nvidia-smi."""
    asked = "driver_version,clocks.sm,clocks.mem,clocks.max.sm,clocks.max.mem,power.limit,persistence_mode"
    command = ["nvidia-smi", f"--query-gpu={asked}", "--format=csv"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_TOOL_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"not known: {error}"
    return done.stdout.strip()


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


if __name__ == "__main__":
    write_json(Path(sys.argv[2]), describe(sys.argv[1]))
