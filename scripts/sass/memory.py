"""Cost of a block's memory requests: sectors of global memory, wavefronts of shared memory.

The model is that of `autosched.runtime.emulator.trace`, extended to vector accesses. Shared memory serves eight bytes
a lane by half-warps, sixteen by quarter-warps.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sass.instructions import Instruction, register_number

WARP = 32
SECTOR = 32
BANKS = 32
_TERM = re.compile(r"([-+]?)(?:(U?R)(Z|\d+)((?:\.\w+)*)|(-?0x[0-9a-f]+))")

Words = np.ndarray[Any, np.dtype[np.int64]]
Flags = np.ndarray[Any, np.dtype[np.bool_]]


@dataclass(frozen=True, slots=True)
class Address:
    """``sum of registers * scale + offset``; ``wide`` registers are pairs."""

    registers: tuple[tuple[int, int, bool], ...]
    offset: int


def parse_address(text: str) -> Address:
    """Return the parsed address operand, without its descriptor."""
    inner = text[text.rindex("[") + 1 : text.rindex("]")]
    registers, offset = [], 0
    for sign, kind, number, suffix, literal in _TERM.findall(inner):
        if literal:
            offset += int(literal, 16) * (-1 if sign == "-" else 1)
            continue
        scale = next((int(s[1:]) for s in suffix.split(".") if re.fullmatch(r"X\d+", s)), 1)
        wide = ".64" in suffix or (kind == "UR" and ".U32" in inner)  # a 32-bit offset to a uniform base
        registers.append((register_number(kind, number), scale, wide))
    return Address(tuple(registers), offset)


def access_bytes(i: Instruction) -> int:
    """Return the bytes of an access by one lane."""
    for m in i.modifiers:
        if m in ("U8", "S8", "8"):
            return 1
        if m in ("U16", "S16", "16"):
            return 2
        if m in ("64", "128"):
            return int(m) // 8
    return 4


@dataclass
class Traffic:
    """Requests of one block to one kind of memory.

    Attributes:
        requests: Executed loads and stores, by warp.
        unknown: Requests at data-dependent addresses, which are in no other count.
        transactions: Sectors of global memory or wavefronts of shared memory.
        ideal: Wavefronts without bank conflicts.
        touched: Distinct sectors, or words of shared memory.
    """

    requests: Counter[str] = field(default_factory=Counter)
    unknown: Counter[str] = field(default_factory=Counter)
    transactions: Counter[str] = field(default_factory=Counter)
    ideal: Counter[str] = field(default_factory=Counter)
    touched: dict[str, set[int]] = field(default_factory=dict)

    def distinct(self, what: str) -> int:
        """Return the number of distinct sectors or words of loads or stores."""
        return len(self.touched.get(what, ()))


def count_requests(into: Traffic, what: str, shared: bool, bytes_: int, addresses: Words, lanes: Flags) -> None:
    """Count one instruction of all warps; ``addresses`` has a byte address for each lane of the block."""
    positions = np.flatnonzero(lanes)
    touched = into.touched.setdefault(what, set())
    for warp in np.unique(positions // WARP):
        own = positions[positions // WARP == warp]
        into.requests[what] += 1
        if shared:
            _count_wavefronts(into, what, bytes_, addresses[own], own % WARP)
            touched.update((np.unique(addresses[own] // 4)).tolist())
        else:
            sectors = np.unique(addresses[own] // SECTOR).tolist()
            into.transactions[what] += len(sectors)
            touched.update(sectors)


def _count_wavefronts(into: Traffic, what: str, bytes_: int, addresses: Words, lanes: Words) -> None:
    words = max(bytes_ // 4, 1)
    part = lanes // (WARP // words)
    for p in np.unique(part):
        first = addresses[part == p] // 4
        distinct = np.unique(first[:, None] + np.arange(words))
        into.transactions[what] += int(np.bincount(distinct % BANKS).max())
        into.ideal[what] += 1
