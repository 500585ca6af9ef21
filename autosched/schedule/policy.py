"""What lowering chooses, as pure functions of the schedule: unrolling, promotion, pitch, padding.

Lowering and features both call these; neither decides. The functions take integers or NumPy arrays of candidates.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

MAX_UNROLL = 16
"""Serial loops inside a thread are unrolled up to this many points together (Anderson, section 6.7)."""
MAX_UNROLLED_REDUCTION = 32
"""A reduction loop is unrolled when its points times the serial points stay within this."""
MAX_STREAMED_REDUCTION = 1024
"""The same where the block stages the terms of each step in shared memory."""
MAX_PROMOTED = 64
"""Accumulators are kept in registers up to this many elements a thread."""
PITCH_BYTES = 128
"""Rows of intermediate results in global memory start at multiples of this."""
NARROW_BYTES = 64
"""Rows up to this length, as of an image's channels, are not padded: that would at least double the array."""
LONG_ROW = 16
"""Rows of this many times `PITCH_BYTES` are padded to an odd number of them."""
SHARED_ALIGN = 16
SHORT_ROW_BYTES = 32
"""Rows of shared buffers shorter than this are not padded to `SHARED_ALIGN`."""
BANK_BYTES = 4


def is_unrolled(serial_points: Any, streamed: Any = False) -> Any:
    """Return whether the serial loops of a thread nest are unrolled, given the product of their extents.

    A ``streamed`` nest (of which the block stages the terms in steps) keeps all of its points in registers.
    """
    return serial_points <= MAX_UNROLL + (MAX_PROMOTED - MAX_UNROLL) * streamed


def unrolls_reduction(serial_points: Any, reduction_points: Any, streamed: Any = False) -> Any:
    """Return whether a nest's reduction loops are unrolled too."""
    more = (MAX_STREAMED_REDUCTION - MAX_UNROLLED_REDUCTION) * streamed
    return serial_points * reduction_points <= MAX_UNROLLED_REDUCTION + more


def in_registers(serial_points: Any, components: Any = 1, streamed: Any = False) -> Any:
    """Return whether a thread keeps the points it updates in registers."""
    return (serial_points * components <= MAX_PROMOTED) & is_unrolled(serial_points, streamed)


def row_pitch(extent: Any, itemsize: int) -> Any:
    """Return the distance between rows of an intermediate buffer in elements: a multiple of 128 bytes.

    An odd one for long rows: elements above each other then fall into different sets of a cache.
    """
    per_line = max(PITCH_BYTES // itemsize, 1)
    lines = -(-extent // per_line)
    return (lines + ((lines >= LONG_ROW) & (lines % 2 == 0))) * per_line


def array_strides(extents: Sequence[int], itemsize: int, *, pitched: bool) -> tuple[tuple[int, ...], int]:
    """Return the stride of each dimension of an array in global memory and its size, in elements.

    Args:
        extents: Points per dimension, slowest first.
        itemsize: Bytes of an element.
        pitched: Whether rows are padded as `row_pitch` says (intermediates) or not (the caller's arrays). Where rows
            are narrow, what is padded are as many of them, one after the other, as the next dimension has.
    """
    strides: list[int] = []
    count = 1
    for k in reversed(range(len(extents))):
        strides.insert(0, count)
        count *= extents[k]
        if pitched and k > 0 and count * itemsize > NARROW_BYTES:
            count, pitched = row_pitch(count, itemsize), False
    return tuple(strides), count


def shared_pitch(extent: Any, itemsize: int, walked_across: bool, streamed: bool = False) -> Any:
    """Return the row length of a shared buffer in elements.

    Rows that threads walk along are padded to a multiple of `SHARED_ALIGN` bytes, so that vectors that are aligned in
    one row are so in all; short rows, of which that would waste much, are left as they are. Where neighbouring threads
    walk across rows (``column_accessed``), rows are padded to an odd number of banks (of elements, if these are wider):
    then the threads of a warp meet in no bank, as every odd number is a unit modulo 32. In a kernel
    that computes a reduction in steps (``streamed``) they are read many times for each time they are written, by
    vectors along rows: these are padded to an odd number of vectors, so that at most four of the threads that walk
    across meet in a bank.
    """
    if streamed and walked_across:
        per_vector = SHARED_ALIGN // itemsize
        vectors = -(-extent // per_vector)
        return (vectors + (vectors + 1) % 2) * per_vector
    if not walked_across:
        vector = SHARED_ALIGN // itemsize
        return extent + -extent % vector * (extent >= SHORT_ROW_BYTES // itemsize)
    per_bank = max(BANK_BYTES // itemsize, 1)
    banks = -(-extent // per_bank)
    return (banks + (banks + 1) % 2) * per_bank
