"""Critical path of a thread between barriers: the longest chain of dependent instructions.

Independent points of an unrolled loop do not lengthen it, since their loads overlap. A loop without unrolling waits
for its loads in every group of `UNROLLED_BY_COMPILER` iterations.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from autosched.analysis.indices import index as ix
from autosched.lower.ir import (
    AsyncCopy,
    Barrier,
    Buffer,
    BufferRead,
    CompareIndex,
    For,
    If,
    IndexValue,
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
)
from autosched.measure.simulated.device import SHUFFLE_CYCLES
from autosched.measure.simulated.operations import ARITHMETIC_LATENCY, priced
from autosched.measure.simulated.sampling import share_of_steps

UNROLLED_BY_COMPILER = 4
"""Iterations of an innermost loop of known length that the compiler unrolls by default."""

_GLOBAL, _SHARED = 500.0, 30.0
"""Nominal load latencies in cycles for comparing chains; the timing model weighs loads by their cache hits."""

_Time = tuple[float, float, float, float]
"""Total cycles, then the parts of the chain: cycles of arithmetic, loads from global and from shared memory."""
_START: _Time = (0.0, 0.0, 0.0, 0.0)
_Place = tuple[str, str]


def phase_chains(body: Sequence[Stmt]) -> list[dict[str, float]]:
    """Return the chain of each phase of a kernel body, as fields of `work.Phase`."""
    phases = _Phases()
    phases.visit(body, 1)
    chains = phases.ended()
    return [{"chain_cycles": t[1], "chain_global": t[2], "chain_shared": t[3]} for t in chains]


@dataclass
class _Phases:
    """Chains from barrier to barrier; loops around thread nests are interpreted once, with a weight."""

    chains: list[_Time] = field(default_factory=lambda: [_START])
    walker: _Walker = field(default_factory=lambda: _Walker())

    def visit(self, body: Sequence[Stmt], times: float) -> None:
        for s in body:
            if isinstance(s, Barrier):
                self._end(times)
                self.chains.append(_START)
            elif isinstance(s, For) and s.role is LoopRole.MAINLOOP:
                self._end(times)
                self.visit(s.body, times * s.extent)
                self._end(times * s.extent)
            elif isinstance(s, If) and s.uniform:  # taken in a range of the steps
                share = share_of_steps(s)
                self._end(times)
                for part, code in ((share, s.then), (1 - share, s.orelse)):
                    self.visit(code, times * part)
                    self._end(times * part)
            else:
                self.walker.statements((s,), _START)

    def ended(self) -> list[_Time]:
        self._end(1)
        return self.chains

    def _end(self, times: float) -> None:
        self.chains[-1] = _repeated(self.chains[-1], self.walker.end, times)
        self.walker.next_phase()


def _after(t: _Time, cycles: float) -> _Time:
    return (t[0] + cycles, t[1] + cycles, t[2], t[3])


def _loaded(t: _Time, memory: Memory) -> _Time:
    if memory is Memory.GLOBAL:
        return (t[0] + _GLOBAL, t[1], t[2] + 1, t[3])
    return (t[0] + _SHARED, t[1], t[2], t[3] + 1)


def _repeated(start: _Time, step: _Time, times: float) -> _Time:
    return (
        start[0] + times * step[0], start[1] + times * step[1], start[2] + times * step[2], start[3] + times * step[3]
    )  # fmt: skip


def _between(earlier: _Time, later: _Time) -> _Time:
    if later[0] <= earlier[0]:
        return _START
    return (later[0] - earlier[0], *(max(b - a, 0.0) for a, b in zip(earlier[1:], later[1:], strict=True)))  # type: ignore[return-value]


@dataclass
class _Walker:
    """Interpreter of dependences: ``ready`` times of names, and ``registers`` times of elements of per-thread arrays.

    Elements are distinguished by their index over ``variables``; an empty index means the whole array.
    """

    ready: dict[str, _Time] = field(default_factory=dict)
    registers: dict[_Place, _Time] = field(default_factory=dict)
    variables: dict[_Place, frozenset[str]] = field(default_factory=dict)
    end: _Time = _START

    def next_phase(self) -> None:
        self.ready.clear()
        self.registers.clear()
        self.end = _START

    def statements(self, body: Sequence[Stmt], start: _Time) -> None:
        for s in body:
            match s:
                case For(role=LoopRole.SERIAL | LoopRole.UNROLLED):
                    self._loop(s, start)
                case For():
                    self.statements(s.body, start)
                case If():
                    begin = max(start, _after(self._value(s.condition, start), ARITHMETIC_LATENCY))
                    self.statements(s.then, begin)
                    self.statements(s.orelse, begin)
                case Let():
                    self._bind(s.name, self._value(s.value, start))
                case LetIndex():
                    self._bind(s.name, self._index(s.index, start))
                case LetVector():
                    self._bind(s.name, _loaded(self._index(s.index, start), s.buffer.memory))
                case Store():
                    self._store(s.buffer, s.index, self._value(s.value, start, low=s.buffer.dtype.bits < 32), start)
                case WarpReduce():
                    self._shuffle(s, start)
                case AsyncCopy():
                    self.end = max(self.end, _loaded(self._index(s.source_index, start), s.source.memory))
                case StoreVector():
                    for v in s.values:
                        self._store(s.buffer, s.index, self._value(v, start, low=s.buffer.dtype.bits < 32), start)

    def _bind(self, name: str, at: _Time) -> None:
        self.ready[name] = at
        self.end = max(self.end, at)

    def _store(self, buffer: Buffer, e: ix.Index, value: _Time, start: _Time) -> None:
        at = max(value, self._index(e, start))
        self.end = max(self.end, at)
        if buffer.in_registers:
            self.registers[buffer.name, ix.key(e)] = at
            self.variables[buffer.name, ix.key(e)] = frozenset(ix.loop_vars(e))
            self.registers[buffer.name, ""] = max(at, self.registers.get((buffer.name, ""), _START))

    def _shuffle(self, s: WarpReduce, start: _Time) -> None:
        """Add the steps of a butterfly reduction of an element."""
        element = BufferRead(s.buffer, s.index, s.load_site)
        other = VarRef("", s.buffer.dtype)
        step = self._value(Op(s.op, (other, other), s.buffer.dtype), _START)[0] + SHUFFLE_CYCLES
        at = _after(self._value(element, start), (s.width.bit_length() - 1) * step)
        self._store(s.buffer, s.index, at, start)

    def _loop(self, s: For, start: _Time) -> None:
        """Interpret the body for its first iteration, then for a later one.

        The first iteration waits for values from before the loop; later ones wait only for loop-carried values. Loads
        of iterations that are unrolled together overlap.
        """
        outside, before, ready = self.end, dict(self.registers), self.ready
        first = self._iteration(s, start)
        after = self.registers
        written = [p for p, at in after.items() if before.get(p) != at]
        if s.role is LoopRole.UNROLLED:
            step = self._carried(s, start, first, written)
            last = _repeated(first, step, s.extent - 1)
        else:
            late = [at for at in (*before.values(), *ready.values()) if at > start]
            one = first
            if late:
                self.ready = {name: min(at, start) for name, at in ready.items()}
                self.registers = {p: min(at, start) for p, at in before.items()}
                one = self._iteration(s, start)
            step = self._carried(s, start, one, written)
            innermost = not any(isinstance(x, For) and x.role is LoopRole.SERIAL for x in walk(s.body))
            together = _divisor(s.extent, UNROLLED_BY_COMPILER) if innermost else 1
            group = _between(start, _repeated(one, step, together - 1))
            last = _repeated(_repeated(start, _between(one, first), 1), group, s.extent / together)
        self.ready, self.registers = ready, before | {p: max(after[p], last) for p in written}
        self.end = max(outside, last)

    def _iteration(self, s: For, start: _Time) -> _Time:
        """Interpret a loop's body and return its end time."""
        self.end = start
        self.statements(s.body, start)
        return self.end

    def _carried(self, s: For, start: _Time, one: _Time, written: Sequence[_Place]) -> _Time:
        """Return the delay of the next iteration by loop-carried dependences on the current one.

        An element of a per-thread array with the loop variable in its index differs in the next iteration.
        """
        same = {p for p in self.registers if p[1] and s.name not in self.variables[p]}
        if s.extent == 1 or not same.intersection(written):
            return _START
        self.registers = {p: at if p in same else start for p, at in self.registers.items()}
        return _between(one, self._iteration(s, start))

    def _value(self, v: Value, start: _Time, *, low: bool = False) -> _Time:
        match v:
            case VarRef():
                return max(start, self.ready.get(v.name, start))
            case VectorElement():
                return max(start, self.ready.get(v.vector, start))
            case BufferRead():
                return self._read(v, start)
            case ShuffleRead():
                given = (self._read(BufferRead(v.buffer, k, v.site), start) for k in v.given)
                return _after(max(given), SHUFFLE_CYCLES + ARITHMETIC_LATENCY * (len(v.given) > 1))
            case IndexValue():
                return _after(self._index(v.index, start), ARITHMETIC_LATENCY)
            case CompareIndex():
                return _after(max(self._index(v.a, start), self._index(v.b, start)), ARITHMETIC_LATENCY)
            case Op():
                cost, operands = priced(v, low=low)
                return _after(max(self._value(o.value, start, low=o.low) for o in operands), cost.latency)
        return start

    def _read(self, v: BufferRead, start: _Time) -> _Time:
        if not v.buffer.in_registers:
            return _loaded(self._index(v.index, start), v.buffer.memory)
        ready = self.registers.get((v.buffer.name, ix.key(v.index)))
        if ready is None:
            ready = self.registers.get((v.buffer.name, ""), start)
        return max(start, ready)

    def _index(self, e: ix.Index, start: _Time) -> _Time:
        """Return the ready time of an index: 0, unless it depends on data."""
        at = start
        for t in ix.atoms(e):
            if isinstance(t, ix.LoopVar):
                at = max(at, self.ready.get(t.name, start))
            elif t.kind in ("data", "select"):
                at = max(at, _after(self._value(t.payload, start), ARITHMETIC_LATENCY))
        return at


def _divisor(extent: int, most: int) -> int:
    """Return the iterations unrolled together: the compiler prefers a number that divides the extent."""
    return max((k for k in range(2, most + 1) if extent % k == 0), default=min(extent, most))
