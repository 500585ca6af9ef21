"""Kernel IR: a small typed tree of loops, allocations, barriers and stores.

Indices are symbolic (`autosched.analysis.indices.index`), values are typed operations. Thread loops are explicit, with
one nest per stage. Barriers occur only between thread nests, and MAINLOOP loops only around them.

Nodes of the lanes of a warp are in `autosched.lower.lane_nodes`. To add a node, declare its fields and its
`NodeFields`, and print it in `autosched.codegen`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Any, ClassVar

from autosched.analysis.indices.index import Index
from autosched.lang.dtypes import DType
from autosched.lang.expr import Scalar
from autosched.lower.lane_nodes import ShuffleRead as ShuffleRead  # re-exported with the other nodes
from autosched.lower.lane_nodes import WarpReduce as WarpReduce
from autosched.lower.operands import Buffer as Buffer
from autosched.lower.operands import CompareIndex as CompareIndex
from autosched.lower.operands import Memory as Memory
from autosched.lower.operands import NodeFields as NodeFields


@dataclass(frozen=True, slots=True)
class ConstValue:
    """A literal."""

    FIELDS: ClassVar[NodeFields] = NodeFields()

    value: Scalar
    dtype: DType


@dataclass(frozen=True, slots=True)
class VarRef:
    """A scalar bound by `Let`, or a scalar parameter of the kernel."""

    FIELDS: ClassVar[NodeFields] = NodeFields()

    name: str
    dtype: DType


@dataclass(frozen=True, slots=True)
class IndexValue:
    """An exact integer of at most 64 bits, converted to ``dtype``."""

    FIELDS: ClassVar[NodeFields] = NodeFields(indices=("index",))

    index: Index
    dtype: DType


@dataclass(frozen=True, slots=True)
class BufferRead:
    """One element of a buffer; ``site`` is the number of the access in the kernel."""

    FIELDS: ClassVar[NodeFields] = NodeFields(indices=("index",), sites=("site",))

    buffer: Buffer
    index: Index
    site: int

    @property
    def dtype(self) -> DType:
        """Element type."""
        return self.buffer.dtype


@dataclass(frozen=True, slots=True)
class Op:
    """A typed operation.

    ``name`` is an operator of the language, ``cast``, ``select``, a scalar function, or ``fptosi``: a conversion of a
    number that the integer type holds after truncation, so that it needs no saturation.
    """

    FIELDS: ClassVar[NodeFields] = NodeFields(values=("args",))

    name: str
    args: tuple[Value, ...]
    dtype: DType


@dataclass(frozen=True, slots=True)
class VectorElement:
    """One element of a vector bound by `LetVector`."""

    FIELDS: ClassVar[NodeFields] = NodeFields()

    vector: str
    number: int
    dtype: DType


Value = ConstValue | VarRef | IndexValue | BufferRead | Op | CompareIndex | VectorElement | ShuffleRead


class LoopRole(Enum):
    """Execution of a loop. MAINLOOP loops are serial and enclose thread nests: uniform over the block."""

    BLOCK = "block"
    MAINLOOP = "stream"
    THREAD = "thread"
    SERIAL = "serial"
    UNROLLED = "unrolled"
    LANES = "lanes"
    """A lane loop of lowered C code."""
    VECTOR = "vector"
    """A lane loop of lowered C code that is vectorised with ``omp simd``."""


@dataclass(frozen=True, slots=True)
class For:
    """``for name in [0, extent)``.

    Attributes:
        name: The loop variable.
        extent: Number of iterations without bounds.
        role: How the loop is executed.
        body: The statements of an iteration.
        axis: Block or thread axis; 0 is x.
        depth: Number of serial loops around it.
        comment: Comment in the generated code.
        upper_bounds: Exclusive bounds of the variable; all of them apply. In host code only.
        lower_bounds: First values of the variable; the greatest applies. In host code only.
        few_points: Whether the loop may be unrolled to coalesce accesses; a lane loop in host code is not vectorised.
        ordered: Whether iterations of a MAINLOOP loop read elements of global memory that earlier iterations wrote.
        dim: Dimension of the points that the loop traverses; empty where there are several or none.
        unroll: Iterations of a MAINLOOP loop that code for GPUs unrolls: shifts of registers become renamings.
    """

    FIELDS: ClassVar[NodeFields] = NodeFields(indices=("upper_bounds", "lower_bounds"), bodies=("body",))

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
    dim: str = ""
    unroll: int = 1


class Partitioning(Enum):
    """Iterations that a condition partitions into interior and boundary."""

    BLOCKS = "blocks"
    STEPS = "steps"
    """Steps of a sliding window, over all blocks along its dimension."""


@dataclass(frozen=True, slots=True)
class If:
    """Conditional statements.

    Attributes:
        condition: The condition.
        then: Statements where it holds.
        orelse: Statements where it does not.
        uniform: Whether the condition has one value in all threads of a block.
        partition: Of a uniform condition, what it partitions into ``then``, the interior, and ``orelse``.
    """

    FIELDS: ClassVar[NodeFields] = NodeFields(values=("condition",), bodies=("then", "orelse"))

    condition: Value
    then: tuple[Stmt, ...]
    orelse: tuple[Stmt, ...] = ()
    uniform: bool = False
    partition: Partitioning | None = None


@dataclass(frozen=True, slots=True)
class Let:
    """Bind a scalar."""

    FIELDS: ClassVar[NodeFields] = NodeFields(values=("value",))

    name: str
    value: Value


@dataclass(frozen=True, slots=True)
class LetIndex:
    """Bind an exact integer."""

    FIELDS: ClassVar[NodeFields] = NodeFields(indices=("index",))

    name: str
    index: Index


@dataclass(frozen=True, slots=True)
class Alloc:
    """Declare a per-thread array: inside a thread nest, or around several for PRIVATE memory."""

    FIELDS: ClassVar[NodeFields] = NodeFields()

    buffer: Buffer


@dataclass(frozen=True, slots=True)
class Store:
    """Write one element.

    An ``asynchronous`` store of a loaded value completes before the next barrier that waits for copies. If ``combine``
    is an operator, the store is an atomic update.
    """

    FIELDS: ClassVar[NodeFields] = NodeFields(values=("value",), indices=("index",), sites=("site",))

    buffer: Buffer
    index: Index
    value: Value
    site: int
    asynchronous: bool = False
    combine: str = ""


@dataclass(frozen=True, slots=True)
class LetVector:
    """Read ``length`` elements of a buffer in one access; ``index`` is that of the first, a multiple of ``length``."""

    FIELDS: ClassVar[NodeFields] = NodeFields(indices=("index",), sites=("site",))

    name: str
    buffer: Buffer
    index: Index
    length: int
    site: int


@dataclass(frozen=True, slots=True)
class StoreVector:
    """Write one element per value in one access; ``index`` is that of the first, a multiple of their number."""

    FIELDS: ClassVar[NodeFields] = NodeFields(values=("values",), indices=("index",), sites=("site",))

    buffer: Buffer
    index: Index
    values: tuple[Value, ...]
    site: int
    asynchronous: bool = False


@dataclass(frozen=True, slots=True)
class AsyncCopy:
    """Start an async copy of ``length`` elements from global to shared memory (in CUDA code only).

    Both indices are multiples of ``length``.
    """

    FIELDS: ClassVar[NodeFields] = NodeFields(indices=("index", "source_index"), sites=("source_site", "site"))

    buffer: Buffer
    index: Index
    source: Buffer
    source_index: Index
    length: int
    site: int
    source_site: int


@dataclass(frozen=True, slots=True)
class Barrier:
    """Synchronise all threads of the block, after their async copies if ``waits_for_copies``."""

    FIELDS: ClassVar[NodeFields] = NodeFields()

    waits_for_copies: bool = False


@dataclass(frozen=True, slots=True)
class Comment:
    """A comment in the generated code."""

    FIELDS: ClassVar[NodeFields] = NodeFields()

    text: str


@dataclass(frozen=True, slots=True)
class LocalScope:
    """Statements whose names are local to them, in lowered C code."""

    FIELDS: ClassVar[NodeFields] = NodeFields(bodies=("body",))

    body: Body


@dataclass(frozen=True, slots=True)
class ScatterChoice:
    """Two versions of lane loops with scatter stores; the C compiler chooses one by the processor's instructions.

    Attributes:
        whole: The lane loops, for processors with scatter instructions.
        split: The same work with scalar stores in loops of their own.
    """

    FIELDS: ClassVar[NodeFields] = NodeFields(bodies=("whole", "split"))

    whole: Body
    split: Body


@dataclass(frozen=True, slots=True)
class RegisterChoice:
    """The same statements for processors with 32 vector registers of 64 bytes, and for all others, in lowered C code.

    Attributes:
        many: Statements that keep more running sums in registers.
        few: The statements for all other processors.
    """

    FIELDS: ClassVar[NodeFields] = NodeFields(bodies=("many", "few"))

    many: tuple[Stmt, ...]
    few: tuple[Stmt, ...]


@dataclass(frozen=True, slots=True)
class TableLookup:
    """Read one-byte elements of a table at the positions of `LOOKUP_LANES` lanes, in lowered C code.

    Attributes:
        values: Receives the element of each lane.
        table: The table.
        index: Its element at position 0; 256 elements from there on can be read.
        positions: Position of each lane in the table, ``uint8``.
        site: Number of the access.
    """

    FIELDS: ClassVar[NodeFields] = NodeFields(indices=("index",), sites=("site",))

    values: Buffer
    table: Buffer
    index: Index
    positions: Buffer
    site: int


class Hint(Enum):
    """Transformation of the enclosing loop that a hint forbids to C compilers."""

    ONE_BY_ONE = "one by one"
    """Unroll-and-jam."""
    CARRIES_DEPENDENCE = "carries dependence"
    """Decide its dependences by itself."""


@dataclass(frozen=True, slots=True)
class CompilerHint:
    """A hint at the end of a loop's body, in lowered C code."""

    FIELDS: ClassVar[NodeFields] = NodeFields()

    hint: Hint


Stmt = (
    For
    | If
    | Let
    | LetIndex
    | LetVector
    | Alloc
    | Store
    | StoreVector
    | AsyncCopy
    | WarpReduce
    | Barrier
    | Comment
    | LocalScope
    | ScatterChoice
    | RegisterChoice
    | TableLookup
    | CompilerHint
)
Body = tuple[Stmt, ...]
"""Statements that are executed in order."""


@dataclass(frozen=True, slots=True)
class SharedSlot:
    """A buffer at a byte offset of the block's shared memory."""

    buffer: Buffer
    offset: int


@dataclass(frozen=True, slots=True)
class KernelIR:
    """One kernel, ready to print.

    Attributes:
        name: Name of the function.
        title: Comment above it.
        reads: Global buffers that are only read.
        writes: Global buffers that are written, or read and written.
        scalars: Scalar parameters.
        grid_loops: Block loops from outer to inner as ``(name, extent)``, or loops over the tiles of warps.
        block: Threads of a tile in x, y and z: those of a block, or of a warp with a tile of its own.
        shared: Buffers in shared memory.
        shared_bytes: Shared memory of a tile.
        body: The statements of a block.
        site_depths: Number of serial loops around each access site.
        vectors: Whether `autosched.lower.passes.coalesce_accesses` forms vector accesses.
        step_loops: Loops around all blocks, from outer to inner as ``(name, extent)``; each iteration is a launch.
        step: Name of the scalar parameter with the number of the launch.
        linear_threads: Whether the thread loops of a nest divide a linear index of the threads, innermost loop fastest.
        resident_blocks: Least blocks of a multiprocessor, which limit the registers of a thread; 0 for no such limit.
        warps: Where warps have tiles of their own, the warps of a block along each of ``grid_loops``; otherwise empty.
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
    linear_threads: bool = False
    resident_blocks: int = 0
    warps: tuple[int, ...] = ()

    @property
    def warp_tiles(self) -> int:
        """Tiles of a block: its warps if each has one of its own, otherwise 1."""
        product = 1
        for n in self.warps:
            product *= n
        return product

    @property
    def launch_block(self) -> tuple[int, int, int]:
        """Threads of a block in x, y and z; warps with tiles of their own are along y."""
        return (self.block[0], self.warp_tiles, 1) if self.warps else self.block

    @property
    def launches(self) -> int:
        """Number of consecutive launches of the kernel."""
        product = 1
        for _, n in self.step_loops:
            product *= n
        return product

    @property
    def is_ordered(self) -> bool:
        """Whether barriers order accesses of different threads to the same global memory."""
        return any(isinstance(s, For) and s.ordered for s in walk(self.body))

    @property
    def blocks(self) -> int:
        """Number of thread blocks, or of the tiles of warps."""
        product = 1
        for _, n in self.grid_loops:
            product *= n
        return product

    @property
    def threads(self) -> int:
        """Threads of a block, or of a warp with a tile of its own."""
        return self.block[0] * self.block[1] * self.block[2]


def walk(statements: tuple[Stmt, ...]) -> Iterator[Stmt]:
    """Yield all statements, outer before inner."""
    stack = list(reversed(statements))
    while stack:
        s = stack.pop()
        yield s
        for name in reversed(s.FIELDS.bodies):
            stack += reversed(getattr(s, name))


def walk_values(value: Value) -> list[Value]:
    """Return a value and its operands, each before its own operands."""
    if not value.FIELDS.values:
        return [value]
    values: list[Value] = []
    stack = [value]
    while stack:
        v = stack.pop()
        values.append(v)
        if v.FIELDS.values:
            stack += reversed(values_of(v))
    return values


def values_of(node: Stmt | Value) -> tuple[Value, ...]:
    """Return the values that a statement computes, without those of inner statements, or the operands of a value."""
    names = node.FIELDS.values
    return _parts(node, names) if names else ()


def indices_of(node: Stmt | Value) -> tuple[Index, ...]:
    """Return the indices of a node, without those of its values and inner statements."""
    names = node.FIELDS.indices
    return _parts(node, names) if names else ()


def _parts(node: Stmt | Value, names: tuple[str, ...]) -> tuple[Any, ...]:
    if len(names) == 1:
        part = getattr(node, names[0])
        return part if type(part) is tuple else (part,)
    parts = [getattr(node, name) for name in names]
    return tuple(p for part in parts for p in (part if isinstance(part, tuple) else (part,)))
