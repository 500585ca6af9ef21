"""Put the lane loop (threadIdx.x) innermost for the C backend.

A thread's body becomes, for all lanes of a row at once: serial loops outside, and one vectorisable lane loop around
each straight-line piece. Per-thread register arrays get a lane dimension. Lanes are independent between barriers, so
the order does not matter; values bound further out are computed again in each piece that uses them.

Why not leave the lane loop outermost: gcc 12 with ``omp simd`` miscompiles such outer loops when they hold inner
loops with conditions (seen with AVX-512), and rarely vectorises them otherwise.

Rewrite:
    for lane: { acc; for s: { let a; store acc[s] } }
    ->  acc[][lanes]; for s: { for lane: { let a; store acc[s][lane] } }

Where lanes combine what they have, all of them have come there, and one statement does it for the row.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from autosched.analysis.indices import index as ix
from autosched.lower.ir import (
    Alloc,
    Buffer,
    BufferRead,
    CompareIndex,
    For,
    If,
    IndexValue,
    Let,
    LetIndex,
    LoopRole,
    Memory,
    Op,
    Stmt,
    Store,
    Value,
    VarRef,
    WarpReduce,
    values_of,
    walk,
    walk_values,
)

Binding = Let | LetIndex

MAX_VECTOR_STEP = 4
"""Largest distance in elements between what neighbouring lanes touch for which lanes are told to form vectors."""


SCATTERED_BYTES = 4
"""Bytes of the smallest elements that lanes are told to store in vectors where data say; others have no instruction."""


def make_lane_loop_innermost(loop: For) -> tuple[Stmt, ...]:
    """Return the statements that replace a lane loop (a thread loop of axis 0)."""
    if not any(isinstance(s, For | WarpReduce) for s in walk(loop.body)):
        return (guard_to_bound(loop),)
    return _Distributor(loop).run()


def distribute(loop: For, lanes: int, first: ix.Index) -> tuple[Stmt, ...]:
    """Return what `make_lane_loop_innermost` does of a part of a lane loop.

    Args:
        loop: The loop.
        lanes: How many lanes the part has.
        first: The first of them.
    """
    here = ix.add(first, ix.var(loop.name, 0, lanes - 1))
    return _Distributor(
        replace(loop, extent=lanes, comment=f"{loop.comment}, {lanes} of them"), {loop.name: here}
    ).run()


def guard_to_bound(loop: For) -> Stmt:
    """Turn the guard around a lane loop's body into the loop's end, so that tails vectorise too.

    Rewrite:
        for lane < n: if (8*y + lane <= h && y <= k) S   ->   if (y <= k) for lane < min(n, h - 8*y + 1): S
    """
    *before, last = loop.body
    if not isinstance(last, If) or last.orelse or not all(isinstance(s, Binding) for s in before):
        return loop
    limits: list[ix.Index] = []
    inside: list[Value] = []
    outside: list[Value] = []
    bound_here = {s.name for s in before if isinstance(s, Binding)}
    for test in _conjuncts(last.condition):
        names: set[str] = set()
        _collect(test, names)
        limit = _limit(test, loop.name)
        if not names & (bound_here | {loop.name}):
            outside.append(test)
        elif limit is not None and not names & bound_here:
            limits.append(limit)
        else:
            inside.append(test)
    body = (
        (
            *before,
            replace(last, condition=_all(inside)),
        )
        if inside
        else (*before, *last.then)
    )
    found: Stmt = replace(loop, body=body, upper_bounds=tuple(limits))
    return If(_all(outside), (found,)) if outside else found


def _conjuncts(v: Value) -> list[Value]:
    if isinstance(v, Op) and v.name == "and":
        return [part for a in v.args for part in _conjuncts(a)]
    return [v]


def _all(tests: Sequence[Value]) -> Value:
    result = tests[0]
    for t in tests[1:]:
        result = Op("and", (result, t), t.dtype)
    return result


def _limit(test: Value, lane: str) -> ix.Index | None:
    """Return the number of lanes for which ``a*lane + rest <= limit`` holds, for a positive integer ``a``."""
    if not isinstance(test, CompareIndex) or test.op != "le":
        return None
    room = ix.sub(test.b, test.a)
    scale = [c for t, c in ix.terms_of(room) if isinstance(t, ix.LoopVar) and t.name == lane]
    if len(scale) != 1 or scale[0] >= 0:
        return None
    rest = ix.sub(room, ix.scale(ix.var(lane, 0, 1 << 30), scale[0]))
    if lane in ix.loop_vars(rest):
        return None
    limit: ix.Index = ix.add(ix.floordiv(rest, -scale[0]), 1)
    return limit


def is_unit_stride(loop: For) -> bool:
    """Whether neighbouring lanes touch elements that lie near each other, so that vectors are worth it.

    Told to vectorise a loop over 16-bit elements that lie a row apart, gcc 12 loads all that is between them: tens of
    thousands of instructions, and a minute to compile them.
    """
    steps: dict[str, int] = {loop.name: 1}

    def step(e: ix.Index) -> int:
        return sum(c * steps.get(t.name, 0) for t, c in ix.terms_of(e) if isinstance(t, ix.LoopVar))

    for s in walk(loop.body):
        if isinstance(s, Store) and s.combine:
            return False
        if isinstance(s, LetIndex):
            steps[s.name] = step(s.index)
        touched = [v.index for value in values_of(s) for v in walk_values(value) if isinstance(v, BufferRead)]
        if isinstance(s, Store):
            touched.append(s.index)
        if any(abs(step(i)) > MAX_VECTOR_STEP for i in touched):
            return False
    return True


def is_gather(loop: For) -> bool:
    """Whether addresses in a loop follow from what it loads.

    gcc 12 takes what is the same in all lanes out of a lane loop, and then joins two iterations of the loop around it
    into one (unroll and jam). What the second of them loads to find its addresses is loaded again in every lane then.
    """
    return any(
        names_in_indices([r.index for r in reads] + ([s.index] if isinstance(s, Store) else [])) & loaded
        for s, reads, loaded in _with_loaded(loop)
    )


def is_scatter(loop: For) -> bool:
    """Whether lanes store where what they load says, and all that they touch is elements of at least 4 bytes.

    No compiler finds out that such stores of different lanes do not meet; without being told, it forms no vectors of
    the arithmetic either.
    """
    found = False
    for s, reads, loaded in _with_loaded(loop):
        touched = [r.buffer for r in reads]
        if isinstance(s, Store):
            if s.combine:
                return False
            touched.append(s.buffer)
            found |= bool(names_in_indices([s.index]) & loaded)
        if any(b.dtype.bytes_ < SCATTERED_BYTES for b in touched):
            return False
    return found


def _with_loaded(loop: For) -> Iterator[tuple[Stmt, list[BufferRead], frozenset[str]]]:
    """Yield the statements of a loop, what each reads, and the names that what was loaded before it went into."""
    loaded: frozenset[str] = frozenset()
    for s in walk(loop.body):
        reads = reads_in((s,))
        yield s, reads, loaded
        if isinstance(s, Binding) and (reads or names_used((s,)) & loaded):
            loaded |= {s.name}


def reads_in(statements: Sequence[Stmt]) -> list[BufferRead]:
    """Return what statements read themselves (not those inside them)."""
    return [v for s in statements for value in values_of(s) for v in walk_values(value) if isinstance(v, BufferRead)]


def names_in_indices(indices: Sequence[ix.Index]) -> set[str]:
    """Return the names that indices depend on."""
    names: set[str] = set()
    for index in indices:
        _collect_index(index, names)
    return names


class _Distributor:
    def __init__(self, lane: For, at: Mapping[str, ix.Index] | None = None) -> None:
        self.lane = lane
        self.at = at  # what the lane's number is in the whole row, where this is a part of one
        self.allocs: list[Stmt] = []
        self.widened: dict[str, Buffer] = {}

    def run(self) -> tuple[Stmt, ...]:
        body = self._distribute(self.lane.body, [], [])
        return (*self.allocs, *body)

    def _distribute(self, body: Sequence[Stmt], visible: list[Binding], guards: list[Value]) -> tuple[Stmt, ...]:
        """Split a body at its loops; ``visible`` are the bindings made so far, ``guards`` the conditions around it."""
        out: list[Stmt] = []
        piece: list[Stmt] = []
        visible = list(visible)

        def flush() -> None:
            if any(isinstance(s, Store | If) for s in piece):
                out.append(self._lane_loop(piece, visible, guards))
            visible.extend(s for s in piece if isinstance(s, Binding))
            piece.clear()

        for s in body:
            match s:
                case Alloc():
                    wide = Buffer(s.buffer.name, s.buffer.dtype, s.buffer.count * self.lane.extent, Memory.REGISTER)
                    self.widened[s.buffer.name] = wide
                    self.allocs.append(Alloc(wide))
                case For():
                    flush()
                    out.append(replace(s, body=self._distribute(s.body, visible, guards), role=LoopRole.SERIAL))
                case WarpReduce():
                    flush()
                    row = ix.scale(s.index, self.lane.extent)
                    out.append(replace(s, buffer=self.widened[s.buffer.name], index=row))
                case If() if any(isinstance(t, For | Alloc) for t in walk((*s.then, *s.orelse))):
                    flush()
                    assert not s.orelse, "a guard has one branch"
                    out += self._distribute(s.then, visible, [*guards, s.condition])
                case _:
                    piece.append(s)
        flush()
        return tuple(out)

    def _lane_loop(self, piece: Sequence[Stmt], visible: Sequence[Binding], guards: Sequence[Value]) -> Stmt:
        inner: tuple[Stmt, ...] = tuple(piece)
        for g in reversed(guards):
            inner = (If(g, inner),)
        needed = names_used(inner)
        bindings: list[Stmt] = []
        for b in reversed(visible):  # latest first, so that what a binding uses is found further on
            if b.name in needed:
                bindings.insert(0, b)
                needed |= names_used((b,))
        return guard_to_bound(replace(self.lane, body=tuple(self._widen(s) for s in (*bindings, *inner))))

    def _widen(self, s: Stmt) -> Stmt:
        match s:
            case Let():
                return Let(s.name, self._widen_value(s.value))
            case LetIndex():
                return LetIndex(s.name, self._index(s.index))
            case Store():
                value, index = self._widen_value(s.value), self._index(s.index)
                if s.buffer.name in self.widened and s.buffer.memory is Memory.REGISTER:
                    return Store(self.widened[s.buffer.name], self._lane_index(index), value, s.site)
                return replace(s, value=value, index=index)
            case If():
                then, orelse = (tuple(self._widen(t) for t in b) for b in (s.then, s.orelse))
                return replace(s, condition=self._widen_value(s.condition), then=then, orelse=orelse)
        return s

    def _widen_value(self, v: Value) -> Value:
        match v:
            case BufferRead():
                index = self._index(v.index)
                if v.buffer.name in self.widened and v.buffer.memory is Memory.REGISTER:
                    return BufferRead(self.widened[v.buffer.name], self._lane_index(index), v.site)
                return v if self.at is None else replace(v, index=index)
            case IndexValue() if self.at is not None:
                return replace(v, index=self._index(v.index))
            case CompareIndex() if self.at is not None:
                return replace(v, a=self._index(v.a), b=self._index(v.b))
            case Op():
                return replace(v, args=tuple(self._widen_value(a) for a in v.args))
        return v

    def _index(self, i: ix.Index) -> ix.Index:
        """Return an index where the lane's number is what it is in the whole row."""
        if self.at is None:
            return i
        found: ix.Index = ix.substitute(i, self.at)  # what data choose has names
        return found

    def _lane_index(self, i: ix.Index) -> ix.Index:
        found: ix.Index = ix.add(ix.scale(i, self.lane.extent), ix.var(self.lane.name, 0, self.lane.extent - 1))
        return found


def names_used(statements: Sequence[Stmt]) -> set[str]:
    """Return the names that statements read."""
    names: set[str] = set()
    for s in walk(tuple(statements)):
        for v in values_of(s):
            _collect(v, names)
        if isinstance(s, Store | LetIndex):
            _collect_index(s.index, names)
    return names


def _collect(v: Value, names: set[str]) -> None:
    match v:
        case VarRef():
            names.add(v.name)
        case IndexValue() | BufferRead():
            _collect_index(v.index, names)
        case CompareIndex():
            _collect_index(v.a, names)
            _collect_index(v.b, names)
        case Op():
            for a in v.args:
                _collect(a, names)


def _collect_index(i: ix.Index, names: set[str]) -> None:
    for t in ix.atoms(i):
        if isinstance(t, ix.LoopVar):
            names.add(t.name)
        elif t.kind in ("data", "select") and t.payload is not None:
            _collect(t.payload, names)
