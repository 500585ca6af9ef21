"""Clocks of a GPU from NVML, the library of NVIDIA's driver; empty without it."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

_LIBRARY = "libnvidia-ml.so.1"
_SUCCESS = 0
_CLOCK_SM, _CLOCK_MEMORY = 1, 2
_TEMPERATURE_GPU = 0
_THROTTLED = 0x4 | 0x8 | 0x20 | 0x40 | 0x80
"""Throttle reasons that spoil a measurement: power cap, hardware and thermal slowdown, power brake."""


def gpu_conditions(pci_bus_id: str, library: str = _LIBRARY) -> Mapping[str, float]:
    """Return clocks in MHz, temperature in degrees Celsius, and whether the clocks are throttled (0 or 1).

    Args:
        pci_bus_id: The device, as in ``0000:3b:00.0``.
        library: File name of the library.
    """
    nvml = _load(library)
    if nvml is None:
        return {}
    device = ctypes.c_void_p()
    if nvml.nvmlDeviceGetHandleByPciBusId_v2(pci_bus_id.encode(), ctypes.byref(device)) != _SUCCESS:
        return {}
    conditions: dict[str, float] = {}
    number, reasons = ctypes.c_uint(), ctypes.c_ulonglong()
    for name, kind in (("sm_mhz", _CLOCK_SM), ("memory_mhz", _CLOCK_MEMORY)):
        if nvml.nvmlDeviceGetClockInfo(device, kind, ctypes.byref(number)) == _SUCCESS:
            conditions[name] = float(number.value)
    if nvml.nvmlDeviceGetTemperature(device, _TEMPERATURE_GPU, ctypes.byref(number)) == _SUCCESS:
        conditions["celsius"] = float(number.value)
    if nvml.nvmlDeviceGetCurrentClocksThrottleReasons(device, ctypes.byref(reasons)) == _SUCCESS:
        conditions["throttled"] = float(bool(reasons.value & _THROTTLED))
    return conditions


@lru_cache(maxsize=4)
def _load(library: str) -> Any:
    try:
        nvml = ctypes.CDLL(library)
    except OSError:
        return None
    return nvml if nvml.nvmlInit_v2() == _SUCCESS else None
