"""Launches at machine level: sizes and parameters in constant bank 0."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sass.machine import Launch

FIRST_PARAMETER = {"sm_80": 0x160, "sm_86": 0x160, "sm_89": 0x160, "sm_90": 0x210}
"""Byte of constant bank 0 at which parameters begin."""
ARRAYS_APART = 1 << 36


@dataclass(frozen=True, slots=True)
class PointerArgument:
    """An array in global memory, at ``offset`` bytes behind a multiple of 256."""

    offset: int = 0


@dataclass(frozen=True, slots=True)
class ScalarArgument:
    """A scalar passed by value."""

    value: np.generic


Argument = PointerArgument | ScalarArgument


def launch_of(
    grid: tuple[int, int, int], block: tuple[int, int, int], arguments: Sequence[Argument], arch: str
) -> Launch:
    """Return a launch with naturally aligned arguments and a distinct address for every array.

    Raises:
        ValueError: If the parameter layout of the architecture is unknown.
    """
    if arch not in FIRST_PARAMETER:
        raise ValueError(f"the parameter layout of {arch} is unknown; supported: {', '.join(FIRST_PARAMETER)}")
    data = bytearray()
    for k, a in enumerate(arguments):
        value: np.ndarray[Any, Any]
        if isinstance(a, PointerArgument):
            value = np.array([ARRAYS_APART * (k + 1) + a.offset], np.uint64)
        else:
            value = np.array([a.value])
        data += bytes(-len(data) % value.itemsize) + value.tobytes()
    return raw_launch(grid, block, bytes(data), arch)


def raw_launch(grid: tuple[int, int, int], block: tuple[int, int, int], parameters: bytes, arch: str) -> Launch:
    """Return a launch from the memory image of its parameters."""
    constants = {4 * k: int(n) for k, n in enumerate((*block, *grid))}
    words = np.frombuffer(parameters + bytes(-len(parameters) % 4), np.uint32)
    constants.update({FIRST_PARAMETER[arch] + 4 * k: int(w) for k, w in enumerate(words)})
    return Launch(grid, block, constants)
