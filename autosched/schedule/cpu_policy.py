"""Choices of the C backend that no schedule states: strips, unroll-and-jam factors, periods, steps of vectors.

Pure functions and constants. The passes in `autosched.lower.passes.cpu` apply them, and the CPU cost model in
`autosched.search.cost.cpu` evaluates them for many candidates at once.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import gcd, lcm
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

MAX_VECTOR_STEP = 4
"""Largest step in elements between neighbouring lanes for which a lane loop is vectorised with ``omp simd``."""
SCATTERED_BYTES = 4
"""Least element bytes of vectorised loops with scatter stores; smaller elements have no scatter instruction."""

STRIP_LANES = (128, 64, 32)
"""Lanes of a strip, longest first: eight, four or two vectors of AVX-512. The longest whose sums fit is used."""
MIN_STRIP_REMAINDER = 32
"""Lanes of the shortest remainder after the strips; a shorter remainder is merged into the last strip."""
SUMS_BYTES = 1536
"""Bytes of the running sums of a strip: 24 vectors of AVX-512."""
MANY_LOADS = 48
"""Least different loads of a lane loop that is cut into single vectors. gcc advances one pointer for each load, and has
registers for about ten."""
VECTOR_BYTES = 64
"""Bytes of one vector of AVX-512."""

JAM_FACTORS = (4, 3, 2)
"""Rows that are jammed, most first. The first factor that divides the number of rows and fits is used."""
MIN_JAM_LOADS = 6
"""Loads of the smallest row that is jammed. Rows with fewer are limited by memory, where jamming does not help."""
MAX_JAM_LOADS_LEFT = 0.6
"""Largest share of the rows' loads that may be left after jamming."""
MAX_JAM_STREAMS = 10
"""Streams of memory that jammed rows read, at most; the hardware prefetcher follows about as many."""
MAX_STREAM_GAP = 16
"""Elements between two loads of one stream, at most."""
MAX_JAM_OPERATIONS = 400
"""Operations of jammed rows, at most; compilers take long for longer straight-line code."""
MAX_GATHER_OPERATIONS_LEFT = 0.6
"""Largest share of the operations that may be left after jamming rows that gather at the same positions."""

JAMMED_TERMS = 4
"""Terms of a reduction that are jammed in one lane loop."""
MIN_JAM_TERMS = 256
"""Terms of the shortest reduction whose terms are jammed."""
WIDE_SUMS_BYTES = 1024
"""Bytes of the running sums of a strip whose terms are jammed: 16 of the 32 vector registers of AVX-512."""

VECTOR_BYTES = 64
"""Bytes of the longest vectors."""
MIN_STREAM_BYTES = 16 << 20
"""Bytes of an array that is streamed from memory, more than; a smaller one may lie in caches."""
MAX_STREAM_OPERATIONS = 2
"""Operations for each element that a reduction streams from memory, at most: more take longer than the loads."""

MAX_REDUCTION_LANES = 128
"""Lanes of a reduction, at most."""
REDUCTION_BYTES = 128
"""Bytes of the partial results of a reduction: two vectors of AVX-512 or four of AVX2."""
MIN_REDUCTION_LANES = 32
"""Lanes of a reduction of 4-byte and longer elements."""

SHIFTED_BYTES = 64
"""Bytes of a vector that shifts inwards at the end of a row: one of AVX-512, two of AVX2."""
MAX_SHIFTED_ELEMENT = 2
"""Bytes of the widest elements in whose loops the last vector shifts; of wider ones few lanes are left over."""
LOOKUP_LANES = 64
"""Lanes that look up elements of a table at once: one vector of AVX-512."""
TABLE_ELEMENTS = 256
"""Elements of a table for positions of one byte."""
BIN_COPIES = 4
"""Copies of the bins of a histogram, for consecutive terms."""
MAX_BIN_BYTES = 4096
"""Bytes of the bins that are copied, at most: all copies fit in the first-level cache."""
LEAST_TERMS_PER_BYTE = 4
"""Least terms of a histogram for each byte of its bins. Copies are initialised and added up."""
LEAST_TERM_ROW = 16
"""Least iterations of the innermost loop over the terms."""

MAX_PERIOD = MAX_VECTOR_STEP
"""Lanes of one unrolled period, at most: contiguous lanes are this many elements apart afterwards."""


def strip_lengths(lanes: ArrayLike, sums_bytes: ArrayLike) -> NDArray[np.int64]:
    """Return the lanes of a strip in each row, ``int64[R]``; 0 where a row is not strip-mined.

    Args:
        lanes: ``number[R]``, lanes of each row.
        sums_bytes: ``number[R]``, bytes of one lane's running sums.

    >>> strip_lengths([512, 128, 512], [4, 4, 100]).tolist()
    [128, 0, 0]
    """
    rows, strips = np.asarray(lanes), np.array(STRIP_LANES, np.int64)
    fits = np.asarray(sums_bytes)[..., None] * strips <= SUMS_BYTES
    length = np.where(fits.any(axis=-1), strips[fits.argmax(axis=-1)], 0)
    is_wide = (rows > STRIP_LANES[0]) & (rows >= length + MIN_STRIP_REMAINDER)
    return np.where(is_wide, length, 0)


def wide_strip_lanes(sums_bytes: int) -> int:
    """Return the lanes of a strip whose terms are jammed, on processors with 32 vector registers of 64 bytes.

    Args:
        sums_bytes: Bytes of one lane's running sums.

    >>> [wide_strip_lanes(n) for n in (1, 4, 8)]
    [1024, 256, 128]
    """
    return WIDE_SUMS_BYTES // max(sums_bytes, 1)


def reduction_lanes(element_bytes: int) -> int:
    """Return the lanes along the terms of a reduction.

    >>> [reduction_lanes(n) for n in (1, 2, 4, 8)]
    [128, 64, 32, 32]
    """
    return max(REDUCTION_BYTES // element_bytes, MIN_REDUCTION_LANES)


def shifted_lanes(element_bytes: ArrayLike) -> NDArray[np.int64]:
    """Return the lanes of a vector that shifts inwards at the end of a row, ``int64[R]``; 0 where none does.

    Args:
        element_bytes: ``number[R]``, bytes of the narrowest element of each row.

    >>> shifted_lanes([1, 2, 4]).tolist()
    [64, 32, 0]
    """
    size = np.asarray(element_bytes)
    return np.where(size <= MAX_SHIFTED_ELEMENT, SHIFTED_BYTES // size, 0).astype(np.int64)


def private_bins_pay(terms: int, row: int, bin_bytes: int) -> bool:
    """Whether it pays to accumulate a histogram in `BIN_COPIES` copies of its bins.

    Args:
        terms: Number of terms.
        row: Iterations of the innermost loop over them.
        bin_bytes: Bytes of all bins.
    """
    return row >= LEAST_TERM_ROW and bin_bytes <= MAX_BIN_BYTES and terms >= LEAST_TERMS_PER_BYTE * bin_bytes


def jam_pays(factor: int, *, operations: float, loads: int, loads_left: int, streams: int) -> bool:
    """Whether it pays to jam rows.

    Args:
        factor: Number of rows.
        operations: Operations of one row.
        loads: Loads of one row.
        loads_left: Different loads of all rows.
        streams: Streams of memory that they read.
    """
    fits = factor * operations <= MAX_JAM_OPERATIONS and streams <= MAX_JAM_STREAMS
    return fits and loads_left <= MAX_JAM_LOADS_LEFT * factor * loads


def gathers_share(factor: int, *, operations: float, operations_left: float) -> bool:
    """Whether it pays to jam rows that gather at the same positions.

    Args:
        factor: Number of rows.
        operations: Operations of one row.
        operations_left: Different operations of all rows.

    >>> gathers_share(3, operations=50, operations_left=80), gathers_share(3, operations=10, operations_left=25)
    (True, False)
    """
    return operations_left <= min(MAX_JAM_OPERATIONS, MAX_GATHER_OPERATIONS_LEFT * factor * operations)


def terms_are_jammed(terms: int, operations: int) -> bool:
    """Whether terms of a reduction are jammed, if each reads a row of its own.

    Args:
        terms: Number of terms.
        operations: Operations of one term.
    """
    return terms >= MIN_JAM_TERMS and JAMMED_TERMS * operations <= MAX_JAM_OPERATIONS


def is_streamed(operations: int, loads: int, size: int) -> bool:
    """Whether memory limits lanes that accumulate elements.

    Args:
        operations: Operations of one lane.
        loads: Elements that it loads.
        size: Bytes of the smallest array.
    """
    return operations <= MAX_STREAM_OPERATIONS * loads and size > MIN_STREAM_BYTES


def stream_count(positions: ArrayLike) -> int:
    """Return the number of streams in ascending positions of loads: runs without gaps over `MAX_STREAM_GAP`.

    >>> stream_count([0, 1, 2, 100, 110])
    2
    """
    gaps: NDArray[Any] = np.diff(np.asarray(positions))
    return 1 + int((gaps > MAX_STREAM_GAP).sum())


def lane_period(quotients: Iterable[tuple[int, int]]) -> int:
    """Return the number of lanes after which all quotients move by a whole number.

    Args:
        quotients: Step of each numerator per lane, and its divisor.

    >>> lane_period([(1, 2), (3, 4)])
    4
    """
    return lcm(*(divisor // gcd(step, divisor) for step, divisor in quotients))
