"""Nodes of kernel IR for the lanes of a warp: shuffles and reductions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from autosched.analysis.indices.index import Index
from autosched.lang.dtypes import DType
from autosched.lower.operands import Buffer, CompareIndex, NodeFields


@dataclass(frozen=True, slots=True)
class ShuffleRead:
    """One element of a register array of another lane of the warp (``__shfl_sync``).

    All threads of the nest execute it, outside of conditions. Registers have no run-time index, so the lane that is
    read chooses among constant ones. Each lane is read by lanes that need the same element of it.

    Attributes:
        buffer: The array, in PRIVATE memory.
        index: The element, as this lane sees it.
        lane: Number of the lane in the warp: its position among the threads of the block, x fastest.
        given: Elements of which a lane gives one to the others: number k if just those tests hold whose bits are set in
            k.
        given_tests: The tests.
        lanes: The lanes that take part, as a mask.
        site: Number of the access.
    """

    FIELDS: ClassVar[NodeFields] = NodeFields(values=("given_tests",), indices=("index", "lane"), sites=("site",))

    buffer: Buffer
    index: Index
    lane: Index
    given: tuple[int, ...]
    given_tests: tuple[CompareIndex, ...]
    lanes: int
    site: int

    @property
    def dtype(self) -> DType:
        """Element type."""
        return self.buffer.dtype


@dataclass(frozen=True, slots=True)
class WarpReduce:
    """All-reduce of one register-array element over ``width`` neighbouring lanes of a warp (butterfly shuffle).

    ``width`` is a power of two, and all lanes execute the statement. Pairs combine at distance ``width / 2``, then at
    half of that, and so on. Both lanes of a pair have the same operands, so all lanes receive the same bits.

    Attributes:
        buffer: The array.
        index: The element.
        op: A commutative operator, as in `Op`.
        width: Number of lanes.
        load_site: Number of the access that loads the element.
        site: Number of the access that stores it.
    """

    FIELDS: ClassVar[NodeFields] = NodeFields(indices=("index",), sites=("load_site", "site"))

    buffer: Buffer
    index: Index
    op: str
    width: int
    load_site: int
    site: int
