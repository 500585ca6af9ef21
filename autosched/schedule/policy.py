"""Lowering policy as pure functions of the schedule: unrolling, promotion to registers, row pitch, padding.

Lowering and the featurizer share these functions. They take integers or NumPy arrays of candidates.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

MAX_UNROLL = 16
"""Limit on the points of a thread whose serial loops are unrolled (Anderson, section 6.7)."""
MAX_UNROLLED_REDUCTION = 32
"""Limit on serial points times reduction points of a thread whose reduction loops are unrolled."""
MAX_MAINLOOP_REDUCTION = 1024
"""The same limit within a step of a mainloop."""
MAX_PROMOTED = 64
"""Limit on the accumulators of a thread that are promoted to registers."""
PITCH_BYTES = 128
"""Rows of intermediates in global memory start at multiples of this number of bytes."""
NARROW_BYTES = 64
"""Rows up to this length, such as the channels of a pixel, have no padding: it would at least double the array."""
LONG_ROW = 16
"""Rows of at least this many times `PITCH_BYTES` are padded to an odd multiple."""
SHARED_ALIGN = 16
SHORT_ROW_BYTES = 32
"""Rows of shared buffers shorter than this are not padded to `SHARED_ALIGN`."""
BANK_BYTES = 4


def is_unrolled(serial_points: Any, mainloop: Any = False) -> Any:
    """Return whether the serial loops of a thread nest are unrolled, given the product of their extents.

    Inside a ``mainloop`` the limit is higher, as all points of a thread are in its register tile.
    """
    return serial_points <= MAX_UNROLL + (MAX_PROMOTED - MAX_UNROLL) * mainloop


def unrolls_reduction(serial_points: Any, reduction_points: Any, mainloop: Any = False) -> Any:
    """Return whether the reduction loops of a thread nest are unrolled."""
    more = (MAX_MAINLOOP_REDUCTION - MAX_UNROLLED_REDUCTION) * mainloop
    return serial_points * reduction_points <= MAX_UNROLLED_REDUCTION + more


def in_registers(serial_points: Any, components: Any = 1, mainloop: Any = False) -> Any:
    """Return whether the accumulators of a thread are promoted to registers."""
    return (serial_points * components <= MAX_PROMOTED) & is_unrolled(serial_points, mainloop)


def row_pitch(extent: Any, itemsize: int) -> Any:
    """Return the distance between rows of an intermediate array in elements: a multiple of `PITCH_BYTES`.

    For long rows the multiple is odd, so that the elements of a column fall into different cache sets.
    """
    per_line = max(PITCH_BYTES // itemsize, 1)
    lines = -(-extent // per_line)
    return (lines + ((lines >= LONG_ROW) & (lines % 2 == 0))) * per_line


def array_strides(extents: Sequence[int], itemsize: int, *, pitched: bool) -> tuple[tuple[int, ...], int]:
    """Return the stride of each dimension of an array in global memory and its size, in elements.

    Args:
        extents: Points per dimension, slowest first.
        itemsize: Bytes of an element.
        pitched: Whether rows are padded to `row_pitch` (intermediates) or not (the caller's arrays). Narrow rows are
            not padded one by one: the next dimension's sequence of rows is padded instead.
    """
    strides: list[int] = []
    count = 1
    for k in reversed(range(len(extents))):
        strides.insert(0, count)
        count *= extents[k]
        if pitched and k > 0 and count * itemsize > NARROW_BYTES:
            count, pitched = row_pitch(count, itemsize), False
    return tuple(strides), count


def shared_pitch(extent: Any, itemsize: int, by_column: bool, mainloop: bool = False) -> Any:
    """Return the row length of a shared buffer in elements, with bank-conflict padding.

    Buffers accessed along rows have rows of whole `SHARED_ALIGN` vectors, so that vectors aligned in one row are
    aligned in all; rows shorter than `SHORT_ROW_BYTES` are not padded. Buffers accessed ``by_column`` (neighbouring
    threads in neighbouring rows) have rows of an odd number of banks, or elements if these are wider: odd numbers are
    units modulo 32, so the threads of a warp have no bank conflict. Tiles of a ``mainloop`` are mostly read, by vectors
    along rows, so their rows have an odd number of vectors: column accesses have conflicts of at most four threads.
    """
    if mainloop and by_column:
        per_vector = SHARED_ALIGN // itemsize
        vectors = -(-extent // per_vector)
        return (vectors + (vectors + 1) % 2) * per_vector
    if not by_column:
        vector = SHARED_ALIGN // itemsize
        return extent + -extent % vector * (extent >= SHORT_ROW_BYTES // itemsize)
    per_bank = max(BANK_BYTES // itemsize, 1)
    banks = -(-extent // per_bank)
    return (banks + (banks + 1) % 2) * per_bank
