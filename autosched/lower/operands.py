"""Operands of kernel IR without values of their own: buffers and comparisons of indices."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import ClassVar

from autosched.analysis.indices.index import Index
from autosched.lang.dtypes import DType


@dataclass(frozen=True, slots=True)
class NodeFields:
    """Names of the fields that hold parts of a node, each in order of execution.

    All generic code (`walk`, `autosched.lower.ir_visitor`, `autosched.lower.ir_queries`) follows from these names.

    Attributes:
        values: Fields with a value or a tuple of values.
        indices: Fields with an index or a tuple of indices.
        bodies: Fields with a tuple of statements.
        sites: Fields with the number of an access.
    """

    values: tuple[str, ...] = ()
    indices: tuple[str, ...] = ()
    bodies: tuple[str, ...] = ()
    sites: tuple[str, ...] = ()


class Memory(Enum):
    """The memory of a buffer."""

    GLOBAL = "global"
    SHARED = "shared"
    REGISTER = "register"
    PRIVATE = "private"
    """Registers of each thread that live across thread nests."""


@dataclass(frozen=True, slots=True)
class Buffer:
    """A flat array of ``count`` elements; a double buffer has ``buffers == 2`` and twice the elements of one step."""

    name: str
    dtype: DType
    count: int
    memory: Memory
    buffers: int = 1

    @property
    def in_registers(self) -> bool:
        """Whether each thread has its own copy of the array."""
        return self.memory in (Memory.REGISTER, Memory.PRIVATE)


@dataclass(frozen=True, slots=True)
class CompareIndex:
    """A comparison of two exact integers (``lt``, ``le``, ``gt``, ``ge``, ``eq``, ``ne``)."""

    FIELDS: ClassVar[NodeFields] = NodeFields(indices=("a", "b"))

    op: str
    a: Index
    b: Index
    dtype: DType
