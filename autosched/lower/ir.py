"""Kernel IR: a small typed tree of loops, allocations, barriers and stores.

Index arithmetic is kept symbolic (`autosched.analysis.indices.index`), values are typed operations. Thread loops are
explicit, one nest around each stage; barriers stand only between thread nests, as MAINLOOP loops stand only around
them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from autosched.analysis.indices.index import Index
from autosched.lang.dtypes import DType
from autosched.lang.expr import Scalar


class Memory(Enum):
    """Where a buffer lives."""

    GLOBAL = "global"
    SHARED = "shared"
    REGISTER = "register"
    PRIVATE = "private"
    """Registers of each thread that outlive a thread nest."""


@dataclass(frozen=True, slots=True)
class Buffer:
    """A flat array of ``count`` elements; with two ``halves``, one is written while the other is read, in turns."""

    name: str
    dtype: DType
    count: int
    memory: Memory
    buffers: int = 1

    @property
    def in_registers(self) -> bool:
        """Whether every thread has the array for itself."""
        return self.memory in (Memory.REGISTER, Memory.PRIVATE)


@dataclass(frozen=True, slots=True)
class ConstValue:
    """A literal."""

    value: Scalar
    dtype: DType


@dataclass(frozen=True, slots=True)
class VarRef:
    """A scalar bound by `Let`, or a scalar parameter of the kernel."""

    name: str
    dtype: DType


@dataclass(frozen=True, slots=True)
class IndexValue:
    """An exact integer of at most 64 bits used as a value: converted to ``dtype``."""

    index: Index
    dtype: DType


@dataclass(frozen=True, slots=True)
class BufferRead:
    """One element of a buffer; ``site`` numbers the access within the kernel."""

    buffer: Buffer
    index: Index
    site: int

    @property
    def dtype(self) -> DType:
        """Element type."""
        return self.buffer.dtype


@dataclass(frozen=True, slots=True)
class Op:
    """A typed operation. ``name`` is an operator of the language, ``cast``, ``select`` or a scalar function."""

    name: str
    args: tuple[Value, ...]
    dtype: DType


@dataclass(frozen=True, slots=True)
class CompareIndex:
    """A comparison of two exact integers (``lt``, ``le``, ``gt``, ``ge``, ``eq``, ``ne``)."""

    op: str
    a: Index
    b: Index
    dtype: DType


@dataclass(frozen=True, slots=True)
class VectorElement:
    """One element of what `LetVector` binds."""

    vector: str
    number: int
    dtype: DType


Value = ConstValue | VarRef | IndexValue | BufferRead | Op | CompareIndex | VectorElement


class LoopRole(Enum):
    """How a loop is run; MAINLOOP loops are serial, around thread loops: all threads of a block walk them together."""

    BLOCK = "block"
    MAINLOOP = "stream"
    THREAD = "thread"
    SERIAL = "serial"
    UNROLLED = "unrolled"


@dataclass(frozen=True, slots=True)
class For:
    """``for name in [0, extent)``; ``axis`` is the block or thread axis (0 is x), ``depth`` counts serial loops.

    ``limits`` end the loop earlier: it runs while ``name`` is below each of them; ``starts`` begin it later, at the
    greatest of them, or at 0 (both in host code only). ``few_points`` says that it and the loops inside are over so few
    points of a thread that they may be written out, to join accesses; of a lane loop in host code, that no vectors are
    to be formed of so few. An ``ordered`` MAINLOOP loop has iterations that read what earlier ones left in global
    memory.
    """

    name: str
    extent: int
    role: LoopRole
    body: tuple[Stmt, ...]
    axis: int = 0
    depth: int = -1
    comment: str = ""
    upper_bounds: tuple[Index, ...] = ()
    lower_bounds: tuple[Index, ...] = ()
    few_points: bool = False
    ordered: bool = False


@dataclass(frozen=True, slots=True)
class If:
    """Conditional statements; the condition is uniform over the block when ``uniform``."""

    condition: Value
    then: tuple[Stmt, ...]
    orelse: tuple[Stmt, ...] = ()
    uniform: bool = False


@dataclass(frozen=True, slots=True)
class Let:
    """Bind a scalar."""

    name: str
    value: Value


@dataclass(frozen=True, slots=True)
class LetIndex:
    """Bind an exact integer."""

    name: str
    index: Index


@dataclass(frozen=True, slots=True)
class Alloc:
    """Declare an array that every thread has for itself: inside a thread nest, or (PRIVATE) around several."""

    buffer: Buffer


@dataclass(frozen=True, slots=True)
class Store:
    """Write one element; an ``asynchronous`` store of what was loaded may happen as late as the next such barrier.

    Where ``combine`` is an operator, the value is combined with what is there, by one atomic operation.
    """

    buffer: Buffer
    index: Index
    value: Value
    site: int
    asynchronous: bool = False
    combine: str = ""


@dataclass(frozen=True, slots=True)
class LetVector:
    """Read ``length`` elements of a buffer in one access, from ``index`` on, which is a multiple of ``length``."""

    name: str
    buffer: Buffer
    index: Index
    length: int
    site: int


@dataclass(frozen=True, slots=True)
class StoreVector:
    """Write as many elements as there are values in one access; ``index`` is a multiple of their number."""

    buffer: Buffer
    index: Index
    values: tuple[Value, ...]
    site: int
    asynchronous: bool = False


@dataclass(frozen=True, slots=True)
class AsyncCopy:
    """Begin to copy ``length`` elements from global memory to shared memory, past registers (in CUDA code only).

    Both indices are multiples of ``length``.
    """

    buffer: Buffer
    index: Index
    source: Buffer
    source_index: Index
    length: int
    site: int
    source_site: int


@dataclass(frozen=True, slots=True)
class WarpReduce:
    """Lanes of one warp combine an element of a register array, and each then has what all of them had together.

    They are ``width`` neighbours in threadIdx.x, a power of two, and take part in every iteration of the loops around.
    Pairs combine, at half the width first, then at half of that: equal operands, so that all lanes have equal results.

    Attributes:
        buffer: The array.
        index: The element.
        op: Operator, as in `Op`; it commutes.
        width: Number of lanes.
        load_site: Number of the access that reads the element.
        site: Number of the access that writes it.
    """

    buffer: Buffer
    index: Index
    op: str
    width: int
    load_site: int
    site: int


@dataclass(frozen=True, slots=True)
class Barrier:
    """All threads of the block meet; with ``copies``, what they have begun to copy has arrived."""

    waits_for_copies: bool = False


@dataclass(frozen=True, slots=True)
class Comment:
    """A line for the reader of the generated code."""

    text: str


Stmt = For | If | Let | LetIndex | LetVector | Alloc | Store | StoreVector | AsyncCopy | WarpReduce | Barrier | Comment


@dataclass(frozen=True, slots=True)
class SharedSlot:
    """A buffer at a byte offset of the memory it shares with others."""

    buffer: Buffer
    offset: int


@dataclass(frozen=True, slots=True)
class KernelIR:
    """One kernel, ready to print.

    ``reads`` and ``writes`` are the global buffers passed as parameters (a buffer that is read and written is in
    ``writes`` only); ``grid_loops`` are the block loops from outer to inner as ``(name, extent)``; ``site_depths``
    gives, per access site, the number of enclosing serial loops. ``vectors`` says whether the CUDA printer is to join
    accesses to neighbouring elements (`autosched.lower.passes.coalesce_accesses`); the C printer leaves that to the
    compiler. ``step_loops`` are loops around all blocks, from outer to inner: each iteration is a launch, to which its
    number among all of them is passed as the scalar ``step``.
    """

    name: str
    title: str
    reads: tuple[Buffer, ...]
    writes: tuple[Buffer, ...]
    scalars: tuple[VarRef, ...]
    grid_loops: tuple[tuple[str, int], ...]
    block: tuple[int, int, int]
    shared: tuple[SharedSlot, ...]
    shared_bytes: int
    body: tuple[Stmt, ...]
    site_depths: tuple[int, ...]
    vectors: bool = False
    step_loops: tuple[tuple[str, int], ...] = ()
    step: str = ""

    @property
    def launches(self) -> int:
        """How often the kernel is launched, one launch after the other."""
        product = 1
        for _, n in self.step_loops:
            product *= n
        return product

    @property
    def is_ordered(self) -> bool:
        """Whether threads of a block write what others have read or written before a barrier."""
        return any(isinstance(s, For) and s.ordered for s in walk(self.body))

    @property
    def blocks(self) -> int:
        """Number of thread blocks."""
        product = 1
        for _, n in self.grid_loops:
            product *= n
        return product

    @property
    def threads(self) -> int:
        """Threads per block."""
        return self.block[0] * self.block[1] * self.block[2]


def walk(statements: tuple[Stmt, ...]) -> Iterator[Stmt]:
    """Yield all statements, outer before inner."""
    for s in statements:
        yield s
        match s:
            case For(body=body):
                yield from walk(body)
            case If(then=then, orelse=orelse):
                yield from walk(then)
                yield from walk(orelse)


def walk_values(value: Value) -> Iterator[Value]:
    """Yield a value and its operands."""
    yield value
    if isinstance(value, Op):
        for a in value.args:
            yield from walk_values(a)


def values_of(s: Stmt) -> tuple[Value, ...]:
    """Return the values a statement computes itself (not those of inner statements)."""
    match s:
        case Let(value=v):
            return (v,)
        case Store(value=v):
            return (v,)
        case StoreVector(values=values):
            return values
        case If(condition=c):
            return (c,)
    return ()
