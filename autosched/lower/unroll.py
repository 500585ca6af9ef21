"""Write an unrolled loop out as one straight run of code, in which what its iterations share is computed once.

    for s < 4: { at = 4*x + s; v = load a[at]; store b[at] = v }
    ->  at = 4*x; v = load a[at]; store b[at] = v; v1 = load a[at + 1]; store b[at + 1] = v1; ...

Conditions around the points of the loop become one, which says that all of them hold.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from autosched.analysis import index as ix
from autosched.analysis.naming import Namer
from autosched.lang.dtypes import bool_
from autosched.lower.ir import (
    Alloc,
    Buffer,
    Comment,
    CompareIndex,
    ConstValue,
    For,
    If,
    IndexValue,
    Let,
    LetIndex,
    LoopRole,
    Memory,
    Op,
    Read,
    Ref,
    Stmt,
    Store,
    Value,
    walk,
    walk_values,
)

Tests = dict[Any, tuple[int, Value]]
"""What a point is guarded by: ``linear + const <= 0`` by the linear part, or any other test by itself with 0."""


@dataclass(frozen=True, slots=True)
class Straight:
    """A loop written out.

    Attributes:
        statements: The statements of all iterations.
        guard: What must hold for all of its points to be computed; None where they always are.
        same: Whether the guard is that of every single point.
    """

    statements: tuple[Stmt, ...]
    guard: Value | None
    same: bool


def written_out(loop: For, namer: Namer) -> Straight | None:
    """Return a loop written out; None if what it contains is not straight: other loops, branches with two arms.

    Args:
        loop: An unrolled loop.
        namer: Gives names that are new in the kernel.
    """
    stored = frozenset(s.buffer.name for s in walk(loop.body) if isinstance(s, Store))
    run = _Run(namer, stored)
    if not run.iterations(loop) or not run.guards_are_from_outside():
        return None
    return Straight(tuple(run.out), run.guard(), run.is_same())


@dataclass
class _Run:
    """The loop as far as it is written out; ``index``, ``values`` and ``arrays`` say what its names stand for now."""

    namer: Namer
    stored: frozenset[str]
    out: list[Stmt] = field(default_factory=list)
    index: dict[str, ix.Index] = field(default_factory=dict)
    values: dict[str, Value] = field(default_factory=dict)
    arrays: dict[str, Buffer] = field(default_factory=dict)
    known: dict[Any, Any] = field(default_factory=dict)
    bound: set[str] = field(default_factory=set)
    here: list[Value] = field(default_factory=list)
    guards: list[Tests] = field(default_factory=list)

    def iterations(self, loop: For) -> bool:
        for k in range(loop.extent):
            self.index[loop.name] = k
            if not self.statements(loop.body):
                return False
        return True

    def statements(self, body: Sequence[Stmt]) -> bool:
        """Write out the statements of one iteration; return whether they are straight."""
        return all(self._statement(s, last=k == len(body) - 1) for k, s in enumerate(body))

    def _statement(self, s: Stmt, *, last: bool) -> bool:
        match s:
            case For(role=LoopRole.UNROLLED):
                return self.iterations(s)
            case If(orelse=()) if last:
                tests = [self._value(t) for t in conjuncts(s.condition)]
                self.here += tests
                straight = self.statements(s.then)
                del self.here[len(self.here) - len(tests) :]
                return straight
            case Let():
                self._let(s)
            case LetIndex():
                self._let_index(s)
            case Alloc():
                name = self._new(s.buffer.name)
                self.arrays[s.buffer.name] = replace(s.buffer, name=name)
                self.out.append(Alloc(self.arrays[s.buffer.name]))
            case Store():
                self.guards.append(_tests(self.here))
                self.out.append(Store(self._buffer(s.buffer), self._index(s.index), self._value(s.value), s.site))
            case Comment():
                if s not in self.out:
                    self.out.append(s)
            case _:
                return False
        return True

    def _new(self, name: str) -> str:
        found = self.namer(name)
        self.bound.add(found)
        return found

    def _let(self, s: Let) -> None:
        value = self._value(s.value)
        if isinstance(value, Ref | ConstValue):
            self.values[s.name] = value
            return
        lasting = not any(isinstance(v, Read) and self._changes(v.buffer) for v in walk_values(value))
        key = value_key(value)
        if not lasting or key not in self.known:
            self.known[key] = Ref(self._new(s.name), value.dtype)
            self.out.append(Let(self.known[key].name, value))
        self.values[s.name] = self.known[key]

    def _changes(self, buffer: Buffer) -> bool:
        return buffer.memory is Memory.REGISTER or buffer.name in self.stored

    def _let_index(self, s: LetIndex) -> None:
        index = self._index(s.index)
        linear = ix.sub(index, index.const) if isinstance(index, ix.Affine) else 0
        if isinstance(linear, ix.Affine) and not _is_variable(linear):
            key = ("index", linear.key)
            if key not in self.known:
                self.known[key] = self._new(s.name)
                self.out.append(LetIndex(self.known[key], linear))
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
            case Ref():
                return self.values.get(v.name, v)
            case Read():
                return Read(self._buffer(v.buffer), self._index(v.index), v.site)
            case IndexValue():
                return IndexValue(self._index(v.index), v.dtype)
            case CompareIndex():
                return CompareIndex(v.op, self._index(v.a), self._index(v.b), v.dtype)
            case Op():
                return Op(v.name, tuple(self._value(a) for a in v.args), v.dtype)
        return v

    # Guards

    def guards_are_from_outside(self) -> bool:
        """Whether no guard uses what is bound in the loop, or never holds."""
        tests = [t for guard in self.guards for t in guard.values()]
        if any(names_of(test) & self.bound for _, test in tests):
            return False
        return not any(_never(test) for _, test in tests)

    def is_same(self) -> bool:
        """Whether all points have the same guard."""
        return len({tuple(sorted((str(k), const) for k, (const, _) in g.items())) for g in self.guards}) <= 1

    def guard(self) -> Value | None:
        """Return what must hold for all points together."""
        strictest: Tests = {}
        for guard in self.guards:
            for key, (const, test) in guard.items():
                if key not in strictest or const > strictest[key][0]:
                    strictest[key] = const, test
        result: Value | None = None
        for _, test in strictest.values():
            result = test if result is None else Op("and", (result, test), bool_)
        return result


def _tests(conditions: Sequence[Value]) -> Tests:
    found: Tests = {}
    for test in conditions:
        key: Any = value_key(test)
        const = 0
        if isinstance(test, CompareIndex) and test.op == "le":
            over = ix.sub(test.a, test.b)
            if isinstance(over, ix.Affine):
                key, const = ix.key(ix.sub(over, over.const)), over.const
            elif over <= 0:
                continue
        if key not in found or const > found[key][0]:
            found[key] = const, test
    return found


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
            case Ref(name=name):
                found.add(name)
            case Read(index=index) | IndexValue(index=index):
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
        case Ref():
            return ("ref", v.name)
        case ConstValue():
            return ("constant", repr(v.value), v.dtype.name)
        case Read():
            return ("read", v.buffer.name, ix.key(v.index))
        case IndexValue():
            return ("index", ix.key(v.index), v.dtype.name)
        case CompareIndex():
            return (v.op, ix.key(v.a), ix.key(v.b))
        case Op():
            return (v.name, v.dtype.name, *(value_key(a) for a in v.args))
    return v


def _text(v: Value) -> str:
    return v.name if isinstance(v, Ref) else repr(v)
