"""Unroll a loop fully into straight-line code with common subexpressions computed once.

    for s < 4: { at = 4*x + s; v = load a[at]; store b[at] = v }
    ->  at = 4*x; v = load a[at]; store b[at] = v; v1 = load a[at + 1]; store b[at + 1] = v1; ...

Points with equal guards share one ``if``. Points with stricter guards are nested in it, under the additional tests.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from autosched.analysis.identifiers import Namer
from autosched.analysis.indices import index as ix
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
    Let,
    LetIndex,
    LoopRole,
    Stmt,
    Store,
    Value,
    VarRef,
    WarpReduce,
    walk,
    walk_values,
)
from autosched.lower.ir_queries import conjunction, conjuncts, names_in_value, value_key
from autosched.lower.ir_visitor import map_parts

Tests = dict[Any, tuple[int, Value]]
"""Guards of a point by key: the constant of ``linear + const <= 0``, or 0 for any other test, and the test."""


@dataclass(slots=True)
class GuardStage:
    """Statements under one guard, which is tested in addition to the guards of the stages before."""

    guard: Value | None
    statements: list[Stmt]


@dataclass(frozen=True, slots=True)
class StraightLineCode:
    """An unrolled loop: stages, each nested in the guard of the stage before."""

    stages: tuple[GuardStage, ...]


def unroll(loop: For, namer: Namer, first: ix.Index = 0) -> StraightLineCode | None:
    """Return a loop fully unrolled.

    None if the body is no straight-line code (rolled loops, branches with two arms), or if the guard of a point is
    weaker than that of an earlier point.

    Args:
        loop: An unrolled loop, or one over few points.
        namer: Returns names that are new in the kernel.
        first: First value of the loop variable.
    """
    stored = frozenset(s.buffer.name for s in walk(loop.body) if isinstance(s, Store))
    unroller = _Unroller(namer, stored)
    if not unroller.append_iterations(loop, first) or not unroller.guards_are_from_outside():
        return None
    return StraightLineCode(tuple(unroller.stages))


@dataclass
class _Unroller:
    """The iterations unrolled so far.

    Attributes:
        namer: Returns names that are new in the kernel.
        stored: Names of the buffers that the loop stores to.
        stages: The statements.
        tested: Guards of the current stage and all before.
        index: Value of each bound index in the current iteration, by its name in the loop.
        values: Value of each bound scalar in the current iteration.
        arrays: Copy of each declared array that belongs to the current iteration.
        memo: Names of the common subexpressions, by key.
        bound: Names bound by the unrolled code.
        guards: Guards around the current statement.
    """

    namer: Namer
    stored: frozenset[str]
    stages: list[GuardStage] = field(default_factory=lambda: [GuardStage(None, [])])
    tested: Tests = field(default_factory=dict)
    index: dict[str, ix.Index] = field(default_factory=dict)
    values: dict[str, Value] = field(default_factory=dict)
    arrays: dict[str, Buffer] = field(default_factory=dict)
    memo: dict[Any, Any] = field(default_factory=dict)
    bound: set[str] = field(default_factory=set)
    guards: list[Value] = field(default_factory=list)

    def append(self, s: Stmt) -> None:
        """Add a statement to the current stage."""
        self.stages[-1].statements.append(s)

    def append_iterations(self, loop: For, first: ix.Index = 0) -> bool:
        for k in range(loop.extent):
            self.index[loop.name] = ix.add(first, k)
            if not self.statements(loop.body):
                return False
        return True

    def statements(self, body: Sequence[Stmt]) -> bool:
        """Append the statements of one iteration; return whether they are straight-line code."""
        return all(self._statement(s, last=k == len(body) - 1) for k, s in enumerate(body))

    def _statement(self, s: Stmt, *, last: bool) -> bool:
        match s:
            case For(role=LoopRole.UNROLLED) | For(few_points=True):
                return self.append_iterations(s)
            case If(orelse=()) if last:
                tests = [self._value(t) for t in conjuncts(s.condition)]
                self.guards += tests
                straight = self._enter(_tests(self.guards)) and self.statements(s.then)
                del self.guards[len(self.guards) - len(tests) :]
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
                if not self._is_in_stage():
                    return False  # its guard is weaker than that of an earlier statement
                buffer, index = self._buffer(s.buffer), self._index(s.index)
                self.append(replace(s, buffer=buffer, index=index, value=self._value(s.value)))
            case AsyncCopy():
                if not self._is_in_stage():
                    return False
                source_index = self._index(s.source_index)
                self.append(replace(s, index=self._index(s.index), source_index=source_index))
            case WarpReduce():
                if self.tested:
                    return False  # all lanes must execute it
                self.append(replace(s, buffer=self._buffer(s.buffer), index=self._index(s.index)))
            case Comment():
                if all(s not in stage.statements for stage in self.stages):
                    self.append(s)
            case _:
                return False
        return True

    def _new(self, name: str) -> str:
        new = self.namer(name)
        self.bound.add(new)
        return new

    def _let(self, s: Let) -> None:
        value = self._value(s.value)
        if isinstance(value, VarRef | ConstValue):
            self.values[s.name] = value
            return
        is_constant = not any(isinstance(v, BufferRead) and self._changes(v.buffer) for v in walk_values(value))
        key = value_key(value)
        if not is_constant or key not in self.memo:
            self.memo[key] = VarRef(self._new(s.name), value.dtype)
            self.append(Let(self.memo[key].name, value))
        self.values[s.name] = self.memo[key]

    def _changes(self, buffer: Buffer) -> bool:
        return buffer.in_registers or buffer.name in self.stored

    def _let_index(self, s: LetIndex) -> None:
        index = self._index(s.index)
        linear = ix.sub(index, index.const) if isinstance(index, ix.Affine) else 0
        if isinstance(linear, ix.Affine) and not _is_variable(linear):
            key = ("index", linear.key)
            if key not in self.memo:
                self.memo[key] = self._new(s.name)
                self.append(LetIndex(self.memo[key], linear))
            index = ix.add(ix.var(self.memo[key], *linear.interval), ix.sub(index, linear))
        self.index[s.name] = index

    # Values of names in the current iteration

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

        substituted: ix.Index = ix.substitute(e, self.index, on_data)
        return substituted

    def _value(self, v: Value) -> Value:
        match v:
            case VarRef():
                return self.values.get(v.name, v)
            case BufferRead():
                return BufferRead(self._buffer(v.buffer), self._index(v.index), v.site)
        return map_parts(v, values=self._value, indices=self._index)

    # Guards

    def _enter(self, tests: Tests) -> bool:
        """Begin a stage where tests are stricter than those before; return False if some are weaker."""
        if any(key not in tests or tests[key][0] < const for key, (const, _) in self.tested.items()):
            return False
        added = [test for key, (const, test) in tests.items() if key not in self.tested or const > self.tested[key][0]]
        if added:
            self.stages.append(GuardStage(conjunction(added), []))
            self.tested = tests
        return True

    def _is_in_stage(self) -> bool:
        """Whether the guards around the current statement are those of the current stage."""
        return _constants(_tests(self.guards)) == _constants(self.tested)

    def guards_are_from_outside(self) -> bool:
        """Whether no guard uses a name bound in the loop, and each can hold."""
        tests = [t for stage in self.stages if stage.guard is not None for t in conjuncts(stage.guard)]
        return not any(names_in_value(t) & self.bound or _never(t) for t in tests)


def _tests(conditions: Sequence[Value]) -> Tests:
    tests: Tests = {}
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
        if key not in tests or const > tests[key][0]:
            tests[key] = const, test
    return tests


def _constants(tests: Tests) -> dict[Any, int]:
    return {key: const for key, (const, _) in tests.items()}


def _never(test: Value) -> bool:
    """Whether a test is false for all points."""
    if not isinstance(test, CompareIndex) or test.op != "le":
        return False
    over = ix.sub(test.a, test.b)
    return not isinstance(over, ix.Affine) and over > 0


def _is_variable(e: ix.Affine) -> bool:
    return e.const == 0 and len(e.terms) == 1 and isinstance(e.terms[0][0], ix.LoopVar) and e.terms[0][1] == 1


def _text(v: Value) -> str:
    return v.name if isinstance(v, VarRef) else repr(v)
