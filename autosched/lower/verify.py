"""Invariants of kernel IR between passes and before printing; a violation is a bug in a pass.

* Every name is bound before it is used, once in its scope, and its range is the one that indices assume.
* Buffers are declared before they are accessed. Inputs are never stored to. Register indices are within their array.
* Thread loops are outside serial loops and conditions, from z to x, and enclose all work of a block with threads.
* A shuffle is executed by all threads of its nest, of one warp, outside of conditions. It reads a lane of the nest,
  which gives the element that is read.
* A warp reduction is executed by all threads of its nest. The nest's loop over threadIdx.x has as many iterations as
  the reduction has lanes, and blockDim.x is a multiple of them.
* Barriers are between thread nests, in control flow that is uniform over the block: MAINLOOP loops and conditions.
* Vectors have 2 to 16 elements and 2 to 16 bytes. A vector element is used in the scope of its vector.
* Async copies have 4, 8 or 16 bytes, and go from global to shared memory.
* Access sites are numbered from 0 without repetition, each at its recorded depth of serial loops.
* Each step of an ordered loop has a barrier.
* Shared buffers that are live at the same time do not overlap. Conflicting accesses have a barrier between them.

Code that `autosched.lower.passes.cpu.lower_thread_nests` has lowered has no thread nests and is not verified.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import product

import numpy as np

from autosched.analysis.access.accumulation import OPERATORS
from autosched.analysis.indices import index as ix
from autosched.errors import CompileError
from autosched.lower.ir import (
    Alloc,
    AsyncCopy,
    Barrier,
    Buffer,
    BufferRead,
    Comment,
    CompareIndex,
    ConstValue,
    For,
    If,
    IndexValue,
    KernelIR,
    Let,
    LetIndex,
    LetVector,
    LoopRole,
    Memory,
    Op,
    ShuffleRead,
    Stmt,
    Store,
    StoreVector,
    Value,
    VarRef,
    VectorElement,
    WarpReduce,
    walk,
    walk_values,
)
from autosched.lower.ir_queries import conjuncts
from autosched.lower.verify_shared_memory import SharedUse, check_shared_memory, other_buffer, rotated
from autosched.schedule.cpu_policy import MAX_REDUCTION_LANES
from autosched.schedule.kernel.lane_layout import LaneOrder
from autosched.schedule.kernel.vector_access import MAX_VECTOR_BYTES

Interval = tuple[int, int]
OPAQUE = ("data", "select")
"""Kinds of index terms whose value depends on data."""
MAX_POINTS = 1 << 16
"""Points at which the index of a register array is evaluated, at most."""
COPY_BYTES = (4, 8, 16)
"""Sizes in bytes of one async copy (``cp.async``)."""
MAX_LANES = MAX_REDUCTION_LANES
WARP_SIZE = 32


def verify(kernel: KernelIR) -> None:
    """Check the invariants of kernel IR.

    Raises:
        CompileError: An internal error that names the kernel, the statement and the invariant.
    """
    _Verifier(kernel).run()


@dataclass(frozen=True, slots=True)
class _Where:
    """The control flow around a statement.

    Attributes:
        axes: Axes of the thread loops around it.
        depth: Number of serial loops around it.
        mainloops: Number of these that are MAINLOOP loops.
        varying: Whether a condition around it varies over the block.
        tests: Comparisons that hold here.
        lanes: Extent of the loop over threadIdx.x.
        threads: Product of the extents of the thread loops around it.
        loops: The thread loops around it.
    """

    axes: tuple[int, ...] = ()
    depth: int = 0
    mainloops: int = 0
    varying: bool = False
    tests: tuple[CompareIndex, ...] = ()
    lanes: int = 1
    threads: int = 1
    loops: tuple[For, ...] = ()


class _Verifier:
    def __init__(self, kernel: KernelIR) -> None:
        self.kernel = kernel
        self.ranges: dict[str, Interval] = {}
        self.scalars: set[str] = set()
        self.buffers: dict[str, Buffer] = {}
        self.vectors: dict[str, LetVector] = {}
        self.sites: dict[int, int] = {}
        self.where = _Where()
        self.shared = SharedUse()
        self.inputs = {b.name for b in kernel.reads}
        self.parallel_axes = tuple(axis for axis in (2, 1, 0) if kernel.block[axis] > 1)

    def run(self) -> None:
        k = self.kernel
        for b in (*k.reads, *k.writes):
            self._declare(b, Memory.GLOBAL)
        for slot in k.shared:
            self._declare(slot.buffer, Memory.SHARED)
        for s in k.scalars:
            self._bind(s.name)
            self.scalars.add(s.name)
        for name, n in k.grid_loops:
            if n > 1:  # a loop of one iteration is no variable
                self._bind(name)
                self.ranges[name] = (0, n - 1)
        for name, n in (k.step_loops and ((k.step, k.launches), *k.step_loops)) or ():
            self._bind(name)
            self.ranges[name] = (0, n - 1)
        for path in self._paths(k.body):
            check_shared_memory(k, path)
        depths = tuple(self.sites.get(n, -1) for n in range(len(k.site_depths)))
        if depths != k.site_depths or len(self.sites) != len(depths):
            self._fail(f"access sites have the depths {depths}, but {k.site_depths} are recorded")

    def _fail(self, what: str) -> None:
        raise CompileError(f"internal error in the lowering of {self.kernel.name}: {what}")

    # ---- statements of the block

    def _paths(self, body: Sequence[Stmt]) -> list[list[SharedUse | Barrier]]:
        """Check statements outside thread loops; return the uses of shared memory and barriers on each uniform path."""
        paths: list[list[SharedUse | Barrier]] = [[]]
        with self._scope():
            for s in body:
                if isinstance(s, If) and s.uniform:
                    self._uniform_condition(s.condition)
                    with self._narrowed(s.condition):
                        then = self._paths(s.then)
                    branches = then + [path for path in self._paths(s.orelse) if path not in then]
                    paths = [before + after for before in paths for after in branches]
                elif isinstance(s, For) and s.role is LoopRole.MAINLOOP:
                    steps = self._mainloop(s)
                    paths = [before + step + rotated(step) for before in paths for step in steps]
                elif isinstance(s, Alloc) and s.buffer.memory is Memory.PRIVATE:
                    self._declare(s.buffer, Memory.PRIVATE)
                elif isinstance(s, Barrier):
                    paths = [[*p, s] for p in paths]
                else:
                    self.shared = SharedUse()
                    self._statement(s)
                    paths = [[*p, self.shared] for p in paths]
        return paths

    def _mainloop(self, s: For) -> list[list[SharedUse | Barrier]]:
        """Check a loop around thread nests; return the paths through one iteration."""
        if s.depth != self.where.depth:
            self._fail(f"loop {s.name} is inside {self.where.depth} serial loops, but its depth is {s.depth}")
        if s.ordered and not any(isinstance(t, Barrier) for t in walk(s.body)):
            self._fail(f"ordered loop {s.name} has no barrier in its steps")
        with self._inside(_Where(depth=s.depth + 1, mainloops=s.depth + 1)), self._scope():
            self._loop_variable(s)
            return self._paths(s.body)

    def _uniform_condition(self, v: Value) -> None:
        self._value(v)
        if any(isinstance(part, BufferRead) for part in walk_values(v)):
            self._fail(f"the condition {v} is not uniform over the block")

    @contextmanager
    def _narrowed(self, condition: Value) -> Iterator[None]:
        """Restrict the ranges of block loops by a condition that compares them with constants."""
        before = dict(self.ranges)
        for test in conjuncts(condition):
            match test:
                case CompareIndex(a=ix.Affine(terms=((ix.LoopVar(name=name), 1),), const=0), b=int(limit)):
                    lo, hi = self.ranges[name]
                    if test.op == "ge":
                        lo = max(lo, limit)
                    elif test.op == "le":
                        hi = min(hi, limit)
                    self.ranges[name] = lo, hi
        yield
        self.ranges = before

    # ---- statements of a thread

    def _body(self, body: Sequence[Stmt]) -> None:
        with self._scope():
            for s in body:
                self._statement(s)

    def _statement(self, s: Stmt) -> None:
        match s:
            case Let():
                self._value(s.value)
                self._bind(s.name)
                self.scalars.add(s.name)
            case LetIndex():
                self._index(s.index)
                self._bind(s.name)
                self.ranges[s.name] = ix.interval(s.index)
            case LetVector():
                self._vector(s.buffer, s.index, s.length, s.site)
                self._bind(s.name)
                self.vectors[s.name] = s
                self._reads(s.buffer)
            case Store():
                self._store(s, (s.value,))
                self._access(s.buffer, s.index, s.site)
            case StoreVector():
                self._store(s, s.values)
                self._vector(s.buffer, s.index, len(s.values), s.site)
            case AsyncCopy():
                self._async_copy(s)
            case WarpReduce():
                self._warp_reduce(s)
            case For(role=LoopRole.THREAD):
                self._threads(s)
            case For(role=LoopRole.SERIAL | LoopRole.UNROLLED):
                self._serial(s)
            case If():
                self._condition(s)
            case Alloc():
                self._declare(s.buffer, Memory.REGISTER)
            case Comment():
                pass
            case Barrier():
                self._fail("a barrier is inside a thread nest or a condition that varies over the block")
            case _:
                self._fail(f"{s} is not allowed in a thread's body")

    def _threads(self, s: For) -> None:
        if self.where.depth > self.where.mainloops or self.where.varying:
            self._fail(f"thread loop {s.name} is inside a serial loop or a condition")
        if s.axis not in (0, 1, 2) or any(axis <= s.axis for axis in self.where.axes):
            self._fail(f"thread loop {s.name} over axis {s.axis} is inside loops over axes {self.where.axes}")
        threads = self.where.threads * s.extent
        if self.kernel.linear_threads and threads > self.kernel.threads:
            self._fail(
                f"the thread loops down to {s.name} have {threads} iterations, "
                f"but the block has {self.kernel.threads} threads"
            )
        if not self.kernel.linear_threads and s.extent > self.kernel.block[s.axis]:
            size = self.kernel.block[s.axis]
            self._fail(
                f"thread loop {s.name} has {s.extent} iterations, but the block has {size} threads in axis {s.axis}"
            )
        depth = self.where.mainloops
        lanes = s.extent if s.axis == 0 else self.where.lanes
        loops = (*self.where.loops, s)
        where = _Where((*self.where.axes, s.axis), depth, depth, lanes=lanes, threads=threads, loops=loops)
        with self._inside(where), self._scope():
            self._loop_variable(s)
            self._body(s.body)

    def _serial(self, s: For) -> None:
        if s.depth != self.where.depth:
            self._fail(f"loop {s.name} is inside {self.where.depth} serial loops, but its depth is {s.depth}")
        with self._inside(replace(self.where, depth=s.depth + 1)), self._scope():
            self._loop_variable(s)
            self._body(s.body)

    def _loop_variable(self, s: For) -> None:
        if s.extent < 1:
            self._fail(f"loop {s.name} has {s.extent} iterations")
        self._bind(s.name)
        self.ranges[s.name] = (0, s.extent - 1)

    def _condition(self, s: If) -> None:
        if s.uniform:
            self._fail("a condition that is uniform over the block is inside a thread nest")
        self._value(s.condition)
        tests = (t for t in conjuncts(s.condition) if isinstance(t, CompareIndex))
        outer = self.where
        with self._inside(replace(outer, varying=True, tests=(*outer.tests, *tests))):
            self._body(s.then)
        with self._inside(replace(outer, varying=True)):
            self._body(s.orelse)

    def _store(self, s: Store | StoreVector, values: Sequence[Value]) -> None:
        for v in values:
            self._value(v)
            if v.dtype != s.buffer.dtype:
                self._fail(f"a value of {v.dtype} is stored to {s.buffer.name}, which has {s.buffer.dtype}")
        self._writes(s.buffer)

    def _writes(self, buffer: Buffer) -> None:
        if buffer.name in self.inputs:
            self._fail(f"input {buffer.name} is stored to")
        if any(axis not in self.where.axes for axis in self.parallel_axes):
            self._fail(f"{buffer.name} is stored to outside a loop over the block's threads")
        if buffer.memory is Memory.SHARED:
            is_next = buffer.buffers > 1 and self.where.mainloops > 0
            self.shared.writes.add(other_buffer(buffer.name) if is_next else buffer.name)

    def _async_copy(self, s: AsyncCopy) -> None:
        size, is_same = s.length * s.buffer.dtype.bytes_, s.buffer.dtype == s.source.dtype
        memories = (s.source.memory, s.buffer.memory)
        if memories != (Memory.GLOBAL, Memory.SHARED) or not is_same or size not in COPY_BYTES:
            self._fail(f"{size} bytes of {s.source} are copied to {s.buffer}")
        self._writes(s.buffer)
        self._access(s.source, s.source_index, s.source_site)
        self._access(s.buffer, s.index, s.site)

    def _warp_reduce(self, s: WarpReduce) -> None:
        where, w, row = self.where, s.width, self.kernel.block[0]
        if where.varying or any(axis not in where.axes for axis in self.parallel_axes):
            self._fail(f"the warp reduction of {s.buffer.name} is not executed by all threads of the block")
        if w & (w - 1) or not 2 <= w <= MAX_LANES or where.lanes != w or row % w:
            self._fail(
                f"the warp reduction of {s.buffer.name} over {w} lanes is in a nest of {where.lanes} lanes, and "
                f"blockDim.x is {row}: the lanes must be a power of two up to {MAX_LANES} that divides blockDim.x"
            )
        if not s.buffer.in_registers or s.op not in OPERATORS:
            self._fail(f"a warp reduction by {s.op} of {s.buffer}, which is no register array, or ordered")
        self._access(s.buffer, s.index, s.load_site)
        self._access(s.buffer, s.index, s.site)

    # ---- values and indices

    def _value(self, v: Value) -> None:
        match v:
            case VarRef():
                if v.name not in self.scalars:
                    self._fail(f"{v.name} is used before it is bound")
            case ConstValue():
                pass
            case Op():
                for a in v.args:
                    self._value(a)
            case BufferRead():
                self._access(v.buffer, v.index, v.site)
                self._reads(v.buffer)
            case ShuffleRead():
                self._shuffle(v)
            case VectorElement():
                vector = self.vectors.get(v.vector)
                if vector is None or not 0 <= v.number < vector.length or v.dtype != vector.buffer.dtype:
                    self._fail(f"element {v.number} of {v.vector} is used, but that is bound to {vector}")
            case IndexValue():
                self._index(v.index)
            case CompareIndex():
                self._index(v.a)
                self._index(v.b)

    def _shuffle(self, v: ShuffleRead) -> None:
        where, name = self.where, v.buffer.name
        if where.varying or any(axis not in where.axes for axis in self.parallel_axes):
            self._fail(f"the shuffle of {name} is not executed by all threads of the block")
        if self.kernel.threads > WARP_SIZE or v.buffer.memory is not Memory.PRIVATE:
            self._fail(f"a shuffle of {name} in {v.buffer.memory.value} memory in a block of {self.kernel.threads}")
        for test in v.given_tests:
            self._value(test)
        self._access(v.buffer, v.index, v.site)
        self._index(v.lane)
        threads = {p.axis: p for p in where.loops}
        order = LaneOrder(self.kernel.block, self.kernel.linear_threads)
        strides = order.strides([threads[axis].extent if axis in threads else 1 for axis in range(3)])
        names = [p.name for p in threads.values()]
        points = [dict(zip(names, at, strict=True)) for at in product(*(range(p.extent) for p in threads.values()))]
        lanes = {sum(at[p.name] * strides[axis] for axis, p in threads.items()): at for at in points}
        if v.lanes != sum(1 << lane for lane in lanes):
            self._fail(f"the shuffle of {name} is executed by lanes {v.lanes:#x}, but those of the nest are others")
        for at in lanes.values():
            if {*ix.loop_vars(v.lane)} <= {*at} and _is_exact(v.lane):
                lane = ix.evaluate(v.lane, at)
                if lane not in lanes:
                    self._fail(f"the shuffle of {name} reads lane {lane}, which does not take part")
                holds = [int(ix.evaluate(ix.sub(t.a, t.b), lanes[lane])) < 0 for t in v.given_tests]
                given = v.given[sum(bit << k for k, bit in enumerate(holds))]
                needed = ix.evaluate(v.index, at)
                if given != needed:
                    self._fail(f"lane {lane} gives element {given} of {name}, and element {needed} is read")

    def _index(self, e: ix.Index) -> None:
        for t, _ in ix.terms_of(e):
            if isinstance(t, ix.LoopVar):
                bound = self.ranges.get(t.name)
                if bound is None:
                    self._fail(f"{t.name} is used before it is bound")
                elif bound[0] < t.lo or bound[1] > t.hi:
                    self._fail(f"an index assumes {t.name} in [{t.lo}, {t.hi}], but its range is {list(bound)}")
            else:
                if isinstance(t.payload, VarRef | Op | CompareIndex):
                    self._value(t.payload)
                for a in t.args:
                    self._index(a)

    def _access(self, buffer: Buffer, index: ix.Index, site: int) -> None:
        if self.buffers.get(buffer.name) != buffer:
            self._fail(f"{buffer} is accessed, but the declaration is {self.buffers.get(buffer.name)}")
        self._index(index)
        if buffer.in_registers:
            self._register_index(buffer, index)
        if site in self.sites:
            self._fail(f"site {site} is used twice")
        self.sites[site] = self.where.depth

    def _reads(self, buffer: Buffer) -> None:
        if buffer.memory is Memory.SHARED:
            self.shared.reads.add(buffer.name)

    def _vector(self, buffer: Buffer, index: ix.Index, length: int, site: int) -> None:
        if buffer.in_registers or length not in (2, 4, 8, 16):
            self._fail(f"a vector of {length} elements of {buffer.name} in {buffer.memory.value} memory is accessed")
        if length * buffer.dtype.bytes_ > MAX_VECTOR_BYTES:
            self._fail(f"a vector of {length} elements of {buffer.name} has more than {MAX_VECTOR_BYTES} bytes")
        self._access(buffer, index, site)

    def _register_index(self, buffer: Buffer, index: ix.Index) -> None:
        """Check an index by its interval; if that is too wide, at each point where the conditions around it hold."""
        lo, hi = ix.interval(index)
        if lo >= 0 and hi < buffer.count:
            return
        names, slacks = set(ix.loop_vars(index)), []
        for test in self.where.tests:
            slack = ix.sub(test.b, test.a)
            more = names | set(ix.loop_vars(slack))
            if test.op == "le" and _is_exact(slack) and self._points(more) <= MAX_POINTS:
                names = more
                slacks.append(slack)
        if not _is_exact(index) or self._points(names) > MAX_POINTS:
            self._fail(f"index {index} of register array {buffer.name}[{buffer.count}] cannot be bounded")
        axes = np.meshgrid(*(np.arange(*self._span(n)) for n in names), indexing="ij", sparse=True)
        env = dict(zip(names, axes, strict=True))
        reached = np.broadcast_to(ix.evaluate(index, env), [len(range(*self._span(n))) for n in names])
        for slack in slacks:
            reached = np.where(ix.evaluate(slack, env) >= 0, reached, 0)
        if reached.min() < 0 or reached.max() >= buffer.count:
            span = f"[{reached.min()}, {reached.max()}]"
            self._fail(f"index {index} of register array {buffer.name}[{buffer.count}] reaches {span}")

    def _span(self, name: str) -> Interval:
        lo, hi = self.ranges[name]
        return lo, hi + 1

    def _points(self, names: Iterable[str]) -> int:
        return math.prod(len(range(*self._span(n))) for n in names)

    # ---- names

    def _bind(self, name: str) -> None:
        if name in self.ranges or name in self.scalars or name in self.buffers or name in self.vectors:
            self._fail(f"{name} is bound twice in one scope")

    def _declare(self, b: Buffer, memory: Memory) -> None:
        self._bind(b.name)
        if b.memory is not memory or b.count < 1:
            self._fail(f"{b} is declared as an array in {memory.value} memory")
        self.buffers[b.name] = b

    @contextmanager
    def _scope(self) -> Iterator[None]:
        outer = self.ranges, self.scalars, self.buffers, self.vectors
        self.ranges, self.scalars, self.buffers = dict(self.ranges), set(self.scalars), dict(self.buffers)
        self.vectors = dict(self.vectors)
        yield
        self.ranges, self.scalars, self.buffers, self.vectors = outer

    @contextmanager
    def _inside(self, where: _Where) -> Iterator[None]:
        outer, self.where = self.where, where
        yield
        self.where = outer


def _is_exact(e: ix.Index) -> bool:
    return not any(isinstance(t, ix.Atom) and t.kind in OPAQUE for t in ix.atoms(e))
