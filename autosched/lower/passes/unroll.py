"""Write an unrolled loop out as one straight run of code, in which what its iterations share is computed once.

    for s < 4: { at = 4*x + s; v = load a[at]; store b[at] = v }
    ->  at = 4*x; v = load a[at]; store b[at] = v; v1 = load a[at + 1]; store b[at + 1] = v1; ...

Points with equal guards stand under one; those with stricter guards stand inside it, under what these ask for besides.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from autosched.analysis.identifiers import Namer
from autosched.analysis.indices import index as ix
from autosched.lang.dtypes import bool_
from autosched.lower.divisibility import known_divisor
from autosched.lower.ir import (
    Alloc,
    AsyncCopy,
    Buffer,
    BufferRead,
    Comment,
    CompareIndex,
    ConstValue,
    For,
    If,
    IndexValue,
    Let,
    LetIndex,
    LoopRole,
    Op,
    Stmt,
    Store,
    Value,
    VarRef,
    WarpReduce,
    walk,
    walk_values,
)

Tests = dict[Any, tuple[int, Value]]
"""What a point is guarded by: ``linear + const <= 0`` by the linear part, or any other test by itself with 0."""


@dataclass(slots=True)
class GuardStage:
    """Statements under one guard, which is asked besides those of the stages before."""

    guard: Value | None
    statements: list[Stmt]


@dataclass(frozen=True, slots=True)
class StraightLineCode:
    """A loop written out: stages, each inside the guard of the one before."""

    stages: tuple[GuardStage, ...]


def unroll(loop: For, namer: Namer, first: ix.Index = 0) -> StraightLineCode | None:
    """Return a loop written out.

    None if what it contains is not straight (other loops, branches with two arms), or if a point may be there while an
    earlier one is not.

    Args:
        loop: A loop that is unrolled, or over few points.
        namer: Gives names that are new in the kernel.
        first: What the loop's variable begins at.
    """
    stored = frozenset(s.buffer.name for s in walk(loop.body) if isinstance(s, Store))
    run = _Run(namer, stored)
    if not run.append_iterations(loop, first) or not run.guards_are_from_outside():
        return None
    return StraightLineCode(tuple(run.stages))


@dataclass
class _Run:
    """The loop as far as it is written out; ``index``, ``values`` and ``arrays`` say what its names stand for now.

    ``here`` has the guards around the statement at hand, ``asked`` those of the stage at hand and all before.
    """

    namer: Namer
    stored: frozenset[str]
    stages: list[GuardStage] = field(default_factory=lambda: [GuardStage(None, [])])
    asked: Tests = field(default_factory=dict)
    index: dict[str, ix.Index] = field(default_factory=dict)
    values: dict[str, Value] = field(default_factory=dict)
    arrays: dict[str, Buffer] = field(default_factory=dict)
    known: dict[Any, Any] = field(default_factory=dict)
    bound: set[str] = field(default_factory=set)
    here: list[Value] = field(default_factory=list)

    def append(self, s: Stmt) -> None:
        """Add a statement to the stage at hand."""
        self.stages[-1].statements.append(s)

    def append_iterations(self, loop: For, first: ix.Index = 0) -> bool:
        for k in range(loop.extent):
            self.index[loop.name] = ix.add(first, k)
            if not self.statements(loop.body):
                return False
        return True

    def statements(self, body: Sequence[Stmt]) -> bool:
        """Write out the statements of one iteration; return whether they are straight."""
        return all(self._statement(s, last=k == len(body) - 1) for k, s in enumerate(body))

    def _statement(self, s: Stmt, *, last: bool) -> bool:
        match s:
            case For(role=LoopRole.UNROLLED) | For(few_points=True):
                return self.append_iterations(s)
            case If(orelse=()) if last:
                tests = [self._value(t) for t in conjuncts(s.condition)]
                self.here += tests
                straight = self._enter(_tests(self.here)) and self.statements(s.then)
                del self.here[len(self.here) - len(tests) :]
                return straight
            case Let():
                self._let(s)
            case LetIndex():
                self._let_index(s)
            case Alloc():
                name = self._new(s.buffer.name)
                self.arrays[s.buffer.name] = replace(s.buffer, name=name)
                self.append(Alloc(self.arrays[s.buffer.name]))
            case Store():
                if _asked(_tests(self.here)) != _asked(self.asked):
                    return False  # it stands outside the guard of an earlier one
                buffer, index = self._buffer(s.buffer), self._index(s.index)
                self.append(replace(s, buffer=buffer, index=index, value=self._value(s.value)))
            case AsyncCopy():
                if _asked(_tests(self.here)) != _asked(self.asked):
                    return False
                source_index = self._index(s.source_index)
                self.append(replace(s, index=self._index(s.index), source_index=source_index))
            case WarpReduce():
                if self.asked:
                    return False  # every lane takes part
                self.append(replace(s, buffer=self._buffer(s.buffer), index=self._index(s.index)))
            case Comment():
                if all(s not in stage.statements for stage in self.stages):
                    self.append(s)
            case _:
                return False
        return True

    def _new(self, name: str) -> str:
        found = self.namer(name)
        self.bound.add(found)
        return found

    def _let(self, s: Let) -> None:
        value = self._value(s.value)
        if isinstance(value, VarRef | ConstValue):
            self.values[s.name] = value
            return
        lasting = not any(isinstance(v, BufferRead) and self._changes(v.buffer) for v in walk_values(value))
        key = value_key(value)
        if not lasting or key not in self.known:
            self.known[key] = VarRef(self._new(s.name), value.dtype)
            self.append(Let(self.known[key].name, value))
        self.values[s.name] = self.known[key]

    def _changes(self, buffer: Buffer) -> bool:
        return buffer.in_registers or buffer.name in self.stored

    def _let_index(self, s: LetIndex) -> None:
        index = self._index(s.index)
        linear = ix.sub(index, index.const) if isinstance(index, ix.Affine) else 0
        if isinstance(linear, ix.Affine) and not _is_variable(linear):
            key = ("index", linear.key)
            if key not in self.known:
                self.known[key] = self._new(s.name)
                self.append(LetIndex(self.known[key], linear))
            index = ix.add(ix.var(self.known[key], *linear.interval), ix.sub(index, linear))
        self.index[s.name] = index

    # What names stand for

    def _buffer(self, buffer: Buffer) -> Buffer:
        return self.arrays.get(buffer.name, buffer)

    def _index(self, e: ix.Index) -> ix.Index:
        def on_data(t: ix.Atom) -> object:
            value = self._value(t.payload)
            if t.kind == "select":
                return (bool(value.value), "") if isinstance(value, ConstValue) else (value, _text(value))
            if isinstance(value, ConstValue):
                return int(value.value)
            return ix.data(value, *t.interval, text=_text(value))

        found: ix.Index = ix.substitute(e, self.index, on_data)
        return found

    def _value(self, v: Value) -> Value:
        match v:
            case VarRef():
                return self.values.get(v.name, v)
            case BufferRead():
                return BufferRead(self._buffer(v.buffer), self._index(v.index), v.site)
            case IndexValue():
                return IndexValue(self._index(v.index), v.dtype)
            case CompareIndex():
                return CompareIndex(v.op, self._index(v.a), self._index(v.b), v.dtype)
            case Op():
                return Op(v.name, tuple(self._value(a) for a in v.args), v.dtype)
        return v

    # Guards

    def _enter(self, tests: Tests) -> bool:
        """Begin a stage where a guard asks for more than those before; return False if it asks for less."""
        if any(key not in tests or tests[key][0] < const for key, (const, _) in self.asked.items()):
            return False
        fresh = [test for key, (const, test) in tests.items() if key not in self.asked or const > self.asked[key][0]]
        if fresh:
            guard = fresh[0]
            for test in fresh[1:]:
                guard = Op("and", (guard, test), bool_)
            self.stages.append(GuardStage(guard, []))
            self.asked = tests
        return True

    def guards_are_from_outside(self) -> bool:
        """Whether no guard uses what is bound in the loop, or never holds."""
        tests = [t for stage in self.stages if stage.guard is not None for t in conjuncts(stage.guard)]
        return not any(names_of(t) & self.bound or _never(t) for t in tests)


def _tests(conditions: Sequence[Value]) -> Tests:
    found: Tests = {}
    for test in conditions:
        key: Any = value_key(test)
        const = 0
        if isinstance(test, CompareIndex) and test.op == "le":
            over = ix.sub(test.a, test.b)
            if isinstance(over, ix.Affine):
                linear = ix.sub(over, over.const)
                step = known_divisor(linear, {})  # linear <= -const where it is at most the multiple below
                key, const = ix.key(linear), -(-over.const // step) * step
            elif over <= 0:
                continue
        if key not in found or const > found[key][0]:
            found[key] = const, test
    return found


def _asked(tests: Tests) -> dict[Any, int]:
    return {key: const for key, (const, _) in tests.items()}


def _never(test: Value) -> bool:
    if not isinstance(test, CompareIndex) or test.op != "le":
        return False
    over = ix.sub(test.a, test.b)
    return not isinstance(over, ix.Affine) and over > 0


def _is_variable(e: ix.Affine) -> bool:
    return e.const == 0 and len(e.terms) == 1 and isinstance(e.terms[0][0], ix.LoopVar) and e.terms[0][1] == 1


def conjuncts(v: Value) -> Iterator[Value]:
    """Yield the tests of which a condition says that all hold."""
    if isinstance(v, Op) and v.name == "and":
        for a in v.args:
            yield from conjuncts(a)
    else:
        yield v


def names_of(v: Value) -> set[str]:
    """Return the names that a value reads, those in indices included."""
    found: set[str] = set()
    for part in walk_values(v):
        match part:
            case VarRef(name=name):
                found.add(name)
            case BufferRead(index=index) | IndexValue(index=index):
                found |= _names_of_index(index)
            case CompareIndex():
                found |= _names_of_index(part.a) | _names_of_index(part.b)
    return found


def _names_of_index(e: ix.Index) -> set[str]:
    found = set(ix.loop_vars(e))
    for t in ix.atoms(e):
        if isinstance(t, ix.Atom) and t.kind in ("data", "select") and t.payload is not None:
            found |= names_of(t.payload)
    return found


def value_key(v: Value) -> Any:
    """Return what tells values apart; 0.0 from -0.0 too, which are equal."""
    match v:
        case VarRef():
            return ("ref", v.name)
        case ConstValue():
            return ("constant", repr(v.value), v.dtype.name)
        case BufferRead():
            return ("read", v.buffer.name, ix.key(v.index))
        case IndexValue():
            return ("index", ix.key(v.index), v.dtype.name)
        case CompareIndex():
            return (v.op, ix.key(v.a), ix.key(v.b))
        case Op():
            return (v.name, v.dtype.name, *(value_key(a) for a in v.args))
    return v


def _text(v: Value) -> str:
    return v.name if isinstance(v, VarRef) else repr(v)
