"""Networks of minima and maxima that sort, or that select the median of a window.

A network is a list of comparators ``(i, j)``: wire i gets the minimum of wires i and j, wire j the maximum. Whether a
network selects the median follows from its results for zeros and ones (the 0-1 principle), so that comparators without
effect are found by trying all of them.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from functools import lru_cache

Comparator = tuple[int, int]


def merge_exchange(n: int) -> list[Comparator]:
    """Return a network that sorts n wires (Knuth, The Art of Computer Programming 3, 5.2.2, algorithm M).

    >>> merge_exchange(3)
    [(0, 2), (0, 1), (1, 2)]
    """
    comparators: list[Comparator] = []
    top = 1 << max((n - 1).bit_length() - 1, 0)
    p = top if n > 1 else 0
    while p > 0:
        q, r, d = top, 0, p
        while d > 0:
            comparators += [(i, i + d) for i in range(n - d) if i & p == r]
            d, q, r = q - p, q >> 1, p
        p >>= 1
    return comparators


@lru_cache(maxsize=64)
def selection_network(wires: int, ranks: tuple[int, ...]) -> tuple[Comparator, ...]:
    """Return a network that brings the values of some ranks to the wires of these numbers.

    >>> selection_network(3, (2,))
    ((0, 2), (1, 2))
    """
    states = list(itertools.product((0, 1), repeat=wires))
    return _pruned(merge_exchange(wires), states, ranks)


@lru_cache(maxsize=32)
def sorted_median_network(rows: int, columns: int) -> tuple[tuple[tuple[int, int], ...], tuple[Comparator, ...], int]:
    """Return how to select the median of a matrix whose rows and columns are sorted.

    Args:
        rows: Number of rows.
        columns: Number of columns; the number of elements is odd.

    Returns:
        The elements (row, column) that can be the median; a network over these as wires; the wire of the median.
    """
    middle = rows * columns // 2 + 1
    below = [(i, j) for i in range(rows) for j in range(columns) if (rows - i) * (columns - j) > middle]
    above = {(i, j) for i in range(rows) for j in range(columns) if (i + 1) * (j + 1) > middle}
    elements = [(i, j) for j in range(columns) for i in range(rows) if (i, j) not in above and (i, j) not in below]
    target = middle - 1 - len(below)
    # Zeros and ones in sorted rows and columns: the numbers of zeros of the columns do not increase.
    states = []
    for zeros in itertools.combinations_with_replacement(range(rows, -1, -1), columns):
        states.append([int(i >= zeros[j]) for i, j in elements] + [int(sum(zeros) < middle)])
    network = _pruned(merge_exchange(len(elements)), states, (target,), expected=len(elements))
    return tuple(elements), network, target


def _pruned(
    network: Sequence[Comparator], states: Sequence[Sequence[int]], targets: Sequence[int], expected: int | None = None
) -> tuple[Comparator, ...]:
    """Return a network without comparators that the target wires can do without.

    Args:
        network: The comparators.
        states: Zeros and ones of the wires.
        targets: The wires of the results.
        expected: Position of the one result in the states; None for the results of the whole network.
    """
    wires = [sum(state[w] << k for k, state in enumerate(states)) for w in range(len(states[0]))]

    def results(comparators: Sequence[Comparator]) -> list[int]:
        values = list(wires)
        for i, j in comparators:
            values[i], values[j] = values[i] & values[j], values[i] | values[j]
        return [values[t] for t in targets]

    right = results(network) if expected is None else [wires[expected]]
    assert results(network) == right, "the network does not select the median"
    kept = list(network)
    for comparator in reversed(range(len(network))):
        fewer = kept[:comparator] + kept[comparator + 1 :]
        if results(fewer) == right:
            kept = fewer
    return tuple(kept)
