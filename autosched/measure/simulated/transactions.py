"""Transactions of warps, from the byte addresses of their lanes; the same model as `autosched.runtime.emulator.trace`.

Arrays have shape ``[..., 32]``: the last axis is the lanes of a warp. Results have shape ``[...]``.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Addresses = NDArray[np.int64]
Mask = NDArray[np.bool_]

SECTOR_BYTES = 32
WORD_BYTES = 4
BANKS = 32
LANES = 32
_NOWHERE = np.int64(1) << 60


def count_sectors(address: Addresses, active: Mask) -> Addresses:
    """Return the number of global memory sectors of each request.

    Args:
        address: First byte of each lane's access.
        active: Active lanes.
    """
    return _distinct(address >> 5, active)


def count_wavefronts(address: Addresses, active: Mask, bytes_: int) -> tuple[Addresses, Addresses]:
    """Return the wavefronts of each shared memory request, and how many of them are bank conflicts.

    Args:
        address: First byte of each lane's access.
        active: Active lanes.
        bytes_: Bytes of a lane's access; above 4, half-warps or quarter-warps are processed in sequence.
    """
    at_once = LANES * WORD_BYTES // max(WORD_BYTES, bytes_)
    address, active = np.broadcast_arrays(address, active)
    split = (*active.shape[:-1], LANES // at_once, at_once)
    word = address.reshape(split) // WORD_BYTES
    taking_part = active.reshape(split)
    low = np.where(taking_part, word, _NOWHERE).min(axis=-1)
    high = np.where(taking_part, word, -_NOWHERE).max(axis=-1)
    passes = (high >= low).astype(np.int64)
    spread = high - low >= BANKS  # otherwise no two words are in one bank
    if spread.any():
        passes[spread] = _fullest_bank(word[spread], taking_part[spread])
    return passes.sum(axis=-1), np.maximum(passes - 1, 0).sum(axis=-1)


def count_turns(address: Addresses, active: Mask) -> Addresses:
    """Return the passes of each atomic operation on shared memory: the active lanes of its fullest bank.

    Args:
        address: First byte of each lane's element.
        active: Active lanes.
    """
    address, active = np.broadcast_arrays(address, active)
    bank = (address // WORD_BYTES % BANKS).reshape(-1, LANES)
    taking_part = active.reshape(-1, LANES)
    slot = np.arange(len(bank))[:, None] * BANKS + bank
    of_banks = np.bincount(slot[taking_part], minlength=len(bank) * BANKS).reshape(-1, BANKS)
    most: Addresses = of_banks.max(axis=1).reshape(active.shape[:-1])
    return most


def _distinct(key: Addresses, active: Mask) -> Addresses:
    """Return the number of distinct keys of the active lanes."""
    key, active = np.broadcast_arrays(key, active)
    ordered = key if active.all() else np.where(active, key, _NOWHERE)
    steps = np.diff(ordered, axis=-1)
    if (steps < 0).any():
        steps = np.diff(np.sort(ordered, axis=-1), axis=-1)
    different: Addresses = np.count_nonzero(steps, axis=-1) + active.any(axis=-1)
    return different - (active.any(axis=-1) & ~active.all(axis=-1))  # the marker of idle lanes is no key


def _fullest_bank(word: Addresses, active: Mask) -> Addresses:
    """Return the largest number of distinct words in one bank, for rows of lanes ``[N, lanes]``."""
    ordered = np.sort(np.where(active, word, _NOWHERE), axis=-1)
    first = np.ones(ordered.shape, bool)
    first[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
    first &= ordered != _NOWHERE
    rows = np.broadcast_to(np.arange(len(ordered))[:, None], ordered.shape)
    slot = (rows * BANKS + ordered % BANKS)[first]
    of_banks = np.bincount(slot, minlength=len(ordered) * BANKS).reshape(-1, BANKS)
    most: Addresses = of_banks.max(axis=1)
    return most
