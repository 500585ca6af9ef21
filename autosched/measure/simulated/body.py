"""Interpret one body of a kernel for the threads of some rows, and count instructions and accesses."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from autosched.analysis.indices import index as ix
from autosched.lower.ir import (
    Alloc,
    AsyncCopy,
    Barrier,
    Buffer,
    BufferRead,
    Comment,
    CompareIndex,
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
    Partitioning,
    ShuffleRead,
    Stmt,
    Store,
    StoreVector,
    Value,
    VarRef,
    WarpReduce,
)
from autosched.lower.ir_queries import thread_loops
from autosched.measure.simulated.context import Context
from autosched.measure.simulated.device import FLOAT_TURNS
from autosched.measure.simulated.evaluate import Evaluator, lanes_of
from autosched.measure.simulated.footprint import Access, Footprints
from autosched.measure.simulated.indexing import IndexCosts
from autosched.measure.simulated.operations import priced
from autosched.measure.simulated.sampling import Limits, Rows, share_of_steps
from autosched.measure.simulated.transactions import WORD_BYTES, count_sectors, count_turns, count_wavefronts
from autosched.measure.simulated.warp_counts import WarpCounts

SITE_COUNTS = ("requests", "active_lanes", "sectors", "wavefronts", "bank_conflicts")
"""Counts of each access site, with the names of the emulator's trace."""
UNITS = ("fp32", "fp64", "integer", "special")
SECTORS_A_PASS = 4
"""Sectors that the first-level cache delivers per cycle: 128 bytes (Jia et al. 2018; Luo et al. 2024)."""
REGISTER_BYTES = 4
KERNEL_INSTRUCTIONS = 12.0
"""Instructions of a warp for its block and thread indices and array addresses, as in the SASS of small kernels."""
LOOP_INSTRUCTIONS = 1.0
"""Instructions per iteration of a loop without unrolling: counter, comparison, branch, less some unrolling."""
LINEAR_INDEX_INSTRUCTIONS = 2.0
"""Instructions of a thread for one of several loops that divide its linear index: a product and a shift."""
LONG_LOOPS = (LoopRole.SERIAL, LoopRole.MAINLOOP)
_STRETCHES = (33, 17, 9, 5, 3, 2)
"""Executed iterations of a long loop: one more than a power of two samples the first and last sectors."""


@dataclass
class Body:
    """Counts of one body of a kernel.

    Args:
        kernel: The kernel in its printed form.
        rows: Warps to execute.
        limits: Limits of the executed iterations.
        scalars: Values of the kernel's parameters.

    Attributes:
        phases: Weighted sums of the quantities of `work.Phase`, from barrier to barrier.
        of_warps: Counts of each executed warp, from barrier to barrier.
        sites: Weighted sums of `SITE_COUNTS`, by site.
        load_sectors: Weighted sectors of loads, by buffer.
        footprints: Touched memory.
        executed: Instructions of warps, weighted.
        written: Instructions in the text.
    """

    kernel: KernelIR
    rows: Rows
    limits: Limits
    scalars: Mapping[str, Any]
    phases: list[dict[str, float]] = field(default_factory=lambda: [defaultdict(float)])
    of_warps: list[WarpCounts] = field(init=False)
    sites: dict[int, NDArray[np.float64]] = field(default_factory=dict)
    load_sectors: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    footprints: Footprints = field(default_factory=Footprints)
    executed: float = 0.0
    written: float = 0.0
    _counted: dict[Any, tuple[NDArray[np.float64], NDArray[np.float64], Context]] = field(default_factory=dict)
    _serial: set[str] = field(default_factory=set)
    _mainloop: For | None = None

    def count(self, body: Sequence[Stmt]) -> None:
        """Interpret the statements of the body."""
        self.of_warps = [WarpCounts.none(self.rows)]
        self._eval = Evaluator(self.scalars)
        self._indexing = IndexCosts()
        for name, at in self.rows.position.items():
            self._eval.bind_loop(name, at)
        whole = Context.whole(self.rows)
        self._indexing.begin(whole.frame)
        self._charge("integer", KERNEL_INSTRUCTIONS, whole)
        self._statements(body, whole)
        self._take_indexing()

    def _charge(self, unit: str, count: float, c: Context, instructions: float | None = None) -> None:
        issued = count if instructions is None else instructions
        phase = self.phases[-1]
        phase[unit] += count * c.warps
        phase["instructions"] += issued * c.warps
        self.of_warps[-1].instructions += issued * c.row_warps
        if unit == "fp64":
            self.of_warps[-1].fp64 += count * c.row_warps
        self.executed += issued * c.warps
        self.written += issued * c.copies

    def _take_indexing(self) -> None:
        """Add the index arithmetic since the last phase to the current one."""
        phase = self.phases[-1]
        if phase["instructions"]:
            self.of_warps[-1].instructions *= 1 + self._indexing.executed / phase["instructions"]
        phase["integer"] += self._indexing.executed
        phase["instructions"] += self._indexing.executed
        self.executed += self._indexing.executed
        self.written += self._indexing.written
        self._indexing.executed = self._indexing.written = 0.0

    def _statements(self, body: Sequence[Stmt], c: Context) -> None:
        for s in body:
            match s:
                case For(role=LoopRole.THREAD):
                    self._threads(s, c)
                case For():
                    self._loop(s, c)
                case If():
                    self._branch(s, c)
                case Barrier():
                    self._charge("integer", 1.0, c)
                    self._take_indexing()
                    self.phases.append(defaultdict(float))
                    self.of_warps.append(WarpCounts.none(self.rows))
                case Alloc() | Comment():
                    pass
                case _:
                    self._simple(s, c)

    def _simple(self, s: Stmt, c: Context) -> None:
        match s:
            case Let(value=BufferRead() as read):
                self._eval.bind_value(s.name, read)
                self._access(read.buffer, read.index, read.site, 1, c, store=False)
            case Let():
                self._arithmetic(s.value, c)
                self._eval.bind_value(s.name, s.value)
            case LetIndex():
                self._indexing.bind(s.name, s.index, c.frame)
                self._eval.bind_index(s.name, s.index)
            case LetVector():
                self._eval.bind_vector(s)
                self._access(s.buffer, s.index, s.site, s.length, c, store=False)
            case Store():
                self._arithmetic(s.value, c, low=s.buffer.dtype.bits < 32)
                self._access(s.buffer, s.index, s.site, 1, c, store=True)
                if s.combine:
                    self._take_turns(s, c)
            case AsyncCopy():
                self._access(s.source, s.source_index, s.source_site, s.length, c, store=False, past_registers=True)
                self._access(s.buffer, s.index, s.site, s.length, c, store=True, past_registers=True)
            case WarpReduce():
                element = VarRef("", s.buffer.dtype)
                for _ in range(s.width.bit_length() - 1):
                    self._charge("shuffles", s.buffer.dtype.bits / 32, c)
                    self._arithmetic(Op(s.op, (element, element), s.buffer.dtype), c)
            case StoreVector():
                for v in s.values:
                    self._arithmetic(v, c, low=s.buffer.dtype.bits < 32)
                self._access(s.buffer, s.index, s.site, len(s.values), c, store=True)

    def _threads(self, s: For, c: Context) -> None:
        if self.kernel.linear_threads:
            loops, active = self._linear_threads(s, c)
        else:
            at, loops, active = self.rows.thread[s.axis], [s], c.active
            self._eval.bind_loop(s.name, at)
            if s.extent < self.kernel.block[s.axis]:
                self._charge("integer", 2.0, c)
                active = active & (at < s.extent)
        inside = c.nest(active)
        if len(loops) > 1:
            self._charge("integer", LINEAR_INDEX_INSTRUCTIONS * len(loops), inside)
        self._take_indexing()
        self._indexing.begin(inside.frame)
        for loop in loops:
            self._indexing.enter(loop.name, inside.frame, loop.role)
        self._statements(loops[-1].body, inside)

    def _linear_threads(self, s: For, c: Context) -> tuple[list[For], NDArray[np.bool_]]:
        """Bind the thread loops of a nest, which divide a linear index; return them and the lanes with a point."""
        loops, index = thread_loops(s), self.rows.thread[0]
        count = inside = math.prod(loop.extent for loop in loops)
        for loop in loops:
            inside //= loop.extent
            self._eval.bind_loop(loop.name, index // inside % loop.extent)
        if count == self.kernel.threads:
            return loops, c.active
        self._charge("integer", 2.0, c)
        return loops, c.active & (index < count)

    def _loop(self, s: For, c: Context) -> None:
        executed, start = s.extent, 0
        if s.role in LONG_LOOPS:
            self._serial.add(s.name)
            executed = self._stretch(s, c)
            start = (s.extent - executed) // 2 // executed * executed
        at = np.arange(start, start + executed).reshape(-1, *(1,) * (len(c.iterations) + 2))
        self._eval.bind_loop(s.name, at)
        inside = c.loop(s.extent, executed, unrolled=s.role is LoopRole.UNROLLED)
        self._indexing.enter(s.name, inside.frame, s.role)
        if s.role in LONG_LOOPS:
            self._charge("integer", LOOP_INSTRUCTIONS, inside)
        if s.role is LoopRole.MAINLOOP:
            self._mainloop = s
        self._statements(s.body, inside)

    def _stretch(self, s: For, c: Context) -> int:
        """Return the number of consecutive executed iterations of a loop."""
        if self.limits.lanes is None:
            return s.extent
        room = self.limits.lanes / (32 * len(self.rows) * math.prod(c.iterations))
        mine = max(room, 1.0) ** (1 / _loop_depth(s))
        return next((n for n in (s.extent, *_STRETCHES) if n <= max(mine, 2) and n <= s.extent), min(2, s.extent))

    def _branch(self, s: If, c: Context) -> None:
        self._arithmetic(s.condition, c)
        self._charge("integer", 1.0, c)
        held = np.asarray(self._eval.value(s.condition), bool)
        if s.partition is Partitioning.STEPS:
            self._partitioned_steps(s, held, c)
            return
        if s.uniform:
            self._statements(s.then, c.in_some_steps(held, share_of_steps(s)))
            return
        for way, body in ((held, s.then), (~held, s.orelse)):
            if body:
                self._statements(body, c.guarded(c.active & way))

    def _partitioned_steps(self, s: If, held: NDArray[np.bool_], c: Context) -> None:
        """Count both codes of a step, each in the share of each block's steps that execute it."""
        assert self._mainloop is not None
        steps = self._mainloop
        holds = np.asarray(self._eval.value_over_loop(s.condition, steps.name, steps.extent), bool)
        share = np.broadcast_to(holds, (steps.extent, len(self.rows), 1)).mean(axis=(0, 2))
        for executed, part, body in ((held, share, s.then), (~held, 1 - share, s.orelse)):
            if part.any():
                self._statements(body, c.in_steps_of_blocks(executed, part))

    def _arithmetic(self, v: Value, c: Context, *, low: bool = False) -> None:
        """Count the operations of a value; both arms of a selection are computed."""
        match v:
            case Op(name="select", args=(CompareIndex() as test, BufferRead() as read, VarRef())):
                self._predicated_read(test, read, c)
            case Op():
                cost, operands = priced(v, low=low)
                for unit in UNITS:
                    count = getattr(cost, unit)
                    if count:
                        self._charge(unit, count, c)
                for o in operands:
                    self._arithmetic(o.value, c, low=o.low)
            case BufferRead():
                self._access(v.buffer, v.index, v.site, 1, c, store=False)
            case ShuffleRead():
                self._indexing.charge(v.lane, c.frame)
                for test in v.given_tests:
                    self._arithmetic(test, c)
                self._charge("integer", float(len(v.given) - 1), c)
                self._charge("shuffles", max(v.dtype.bits / 32, 1.0), c)
            case CompareIndex():
                self._indexing.charge(v.a, c.frame)
                self._indexing.charge(v.b, c.frame)
                self._charge("integer", 1.0, c)
            case IndexValue():
                self._indexing.charge(v.index, c.frame)
                self._charge("integer", 1.0 if v.dtype.is_float else 0.0, c)

    def _predicated_read(self, test: CompareIndex, read: BufferRead, c: Context) -> None:
        """Count a load that replaces a value in the lanes in which a test holds."""
        self._arithmetic(test, c)
        held = np.asarray(self._eval.value(test), bool)
        inside = c.guarded(c.active & held)
        self._access(read.buffer, read.index, read.site, 1, inside, store=False)

    def _access(
        self, buffer: Buffer, e: ix.Index, site: int, length: int, c: Context, *, store: bool,
        past_registers: bool = False,
    ) -> None:  # fmt: skip
        """Count a load or store; an async copy is one instruction for both."""
        if buffer.in_registers:
            if any(name in self._serial for name in ix.loop_vars(e)):
                self._charge("register_array_requests", 1.0, c, instructions=0.0)
            return
        self._indexing.address(buffer, e, c.frame)
        linear, const = (ix.sub(e, e.const), e.const) if isinstance(e, ix.Affine) else (0, int(e))
        counts, by_row = self._transactions(buffer, linear, const, length, c)
        self.sites[site] = self.sites.get(site, np.zeros(len(SITE_COUNTS))) + counts[:-1]
        requests, _, sectors, wavefronts, _, passes = (float(n) for n in counts)
        phase = self.phases[-1]
        if not (store and past_registers):
            self.executed += requests
            self.written += c.copies
            phase["instructions"] += requests
            self.of_warps[-1].instructions += by_row
        if buffer.memory is Memory.SHARED:
            phase["shared_requests"] += 0.0 if past_registers else requests
            phase["wavefronts"] += wavefronts
            return
        kind = "store" if store else "load"
        phase[f"{kind}_requests"] += requests
        phase[f"{kind}_sectors"] += sectors
        phase["passes"] += passes
        if not store:
            if not past_registers:
                registers = -(-length * buffer.dtype.bytes_ // REGISTER_BYTES)
                phase["load_registers"] += requests * registers
                self.of_warps[-1].load_registers += by_row * registers
            self.load_sectors[buffer.name] += sectors
        access = Access(lanes_of(self._eval.index(linear)), c.active, c.loops)
        self.footprints.note(buffer, (ix.key(linear), id(c.active)), access, range(const, const + length), store=store)

    def _take_turns(self, s: Store, c: Context) -> None:
        """Count the cost of an atomic operation beyond a store."""
        phase = self.phases[-1]
        if s.buffer.memory is not Memory.SHARED:
            phase["atomic_lanes"] += float(c.total(c.active.sum(axis=-1)))
            return
        size = s.buffer.dtype.bytes_
        address = lanes_of(self._eval.index(s.index)) * size
        plain, _ = count_wavefronts(address, c.active, size)
        turns = count_turns(address, c.active) * (size // WORD_BYTES)
        again = FLOAT_TURNS if s.buffer.dtype.is_float else 1
        phase["wavefronts"] += float(c.total(again * turns - plain))

    def _transactions(
        self, buffer: Buffer, linear: ix.Index, const: int, length: int, c: Context
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the weighted counts and passes of an access, and each warp's requests.

        They are equal for indices 32 bytes apart.
        """
        size = buffer.dtype.bytes_
        shift = const * size % 32
        key = (ix.key(linear), buffer.memory, size, length, shift, id(c))
        cached = self._counted.get(key)
        if cached is None:
            address = lanes_of(self._eval.index(linear)) * size + shift
            any_active, lanes = np.asarray(c.active.any(axis=-1)), c.active.sum(axis=-1)
            if buffer.memory is Memory.SHARED:
                wavefronts, conflicts = count_wavefronts(address, c.active, size * length)
                parts = [any_active, lanes, np.zeros(1, np.int64), wavefronts, conflicts, np.zeros(1, np.int64)]
            else:
                sectors = count_sectors(address, c.active)
                passes = np.maximum(sectors / SECTORS_A_PASS, any_active)
                zero = np.zeros(1, np.int64)
                parts = [any_active, lanes, sectors, zero, zero, passes]
            summed = np.array([c.total(p) for p in parts])
            # The context is kept alive, so that its id is not reused.
            cached = self._counted[key] = (summed, c.of_rows(any_active), c)
        return cached[0], cached[1]


def _loop_depth(s: For) -> int:
    """Return the nesting depth of loops without unrolling, this one included."""
    inner = 0
    pending: list[tuple[Stmt, int]] = [(x, 0) for x in s.body]
    while pending:
        x, depth = pending.pop()
        if isinstance(x, For):
            depth += x.role in LONG_LOOPS
            inner = max(inner, depth)
            pending += [(y, depth) for y in x.body]
        elif isinstance(x, If):
            pending += [(y, depth) for y in (*x.then, *x.orelse)]
    return 1 + inner
