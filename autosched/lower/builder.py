"""IR builder: scopes, reuse of values and loop-invariant code motion while a kernel body is built.

Each value is bound once (`IRBuilder.let`), in the outermost scope that binds everything the value depends on. No value
is hoisted out of a guard on variables that it depends on: its operands may be out of range elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from autosched.analysis.identifiers import Namer
from autosched.analysis.indices import index as ix
from autosched.lang.dtypes import bool_
from autosched.lower.ir import (
    Buffer,
    BufferRead,
    CompareIndex,
    ConstValue,
    IndexValue,
    Let,
    LetIndex,
    Memory,
    Op,
    ShuffleRead,
    Stmt,
    Store,
    Value,
    VarRef,
)

Deps = frozenset[str]
NOTHING: Deps = frozenset()


@dataclass
class Scope:
    """A list of statements under construction.

    Attributes:
        loops: Loop variables that the scope introduces.
        guard: Whether nothing is hoisted out of the scope, as it is entered conditionally or begins a nest.
        tested: Variables of the condition of a guard out of which values that do not depend on them are hoisted; None
            for other scopes.
        depth: Number of enclosing serial loops.
        statements: The statements so far.
        memo: Values and index names bound in the scope, by key.
    """

    loops: Deps
    guard: bool
    depth: int
    statements: list[Stmt] = field(default_factory=list)
    memo: dict[Any, Any] = field(default_factory=dict)
    tested: Deps | None = None

    def holds(self, deps: Deps) -> bool:
        """Whether a value with these dependences stays inside the scope."""
        if self.guard and (self.tested is None or self.tested & deps):
            return True
        return bool(self.loops & deps)


class IRBuilder:
    """Builds the statements of one kernel body.

    Attributes:
        scopes: Open scopes, outermost first.
        site_depths: Number of enclosing serial loops of each access site.
        conditions: Conditions that must be decided throughout the interior, by kind and index.
        global_buffers: Arrays in global memory that are accessed, by name, in order of first access.
        written: Names of the arrays in global memory that are written.
        lane_scope: The scope that all threads of the current nest execute, for shuffles; None outside of such nests.
    """

    def __init__(self, namer: Namer) -> None:
        self.namer = namer
        self.scopes: list[Scope] = []
        self.site_depths: list[int] = []
        self.conditions: dict[str, CheckedIndex] = {}
        self.global_buffers: dict[str, Buffer] = {}
        self.written: set[str] = set()
        self.lane_scope: Scope | None = None
        self._deps: dict[str, Deps] = {}
        self._seen_atoms: set[str] = set()

    @property
    def scope(self) -> Scope:
        """The innermost scope."""
        return self.scopes[-1]

    def push(
        self, loops: Iterable[str] = (), *, guard: bool = False, serial: bool = False, fence: bool = False,
        tested: Deps | None = None,
    ) -> None:  # fmt: skip
        """Open a scope; ``fence`` starts a nest out of which nothing is hoisted. For ``tested`` see `Scope`."""
        depth = self.scope.depth if self.scopes else 0
        names = frozenset(loops)
        for name in names:
            self._deps[name] = frozenset((name,))
        self.scopes.append(Scope(names, guard or fence, depth + serial, tested=tested))

    def pop(self) -> tuple[Stmt, ...]:
        """Close the innermost scope and return its statements."""
        return tuple(self.scopes.pop().statements)

    def append(self, s: Stmt) -> None:
        """Add a statement to the innermost scope."""
        self.scope.statements.append(s)

    def lookup(self, key: Any) -> Any:
        """Return the value memoised under a key in any open scope, or None."""
        for scope in reversed(self.scopes):
            value = scope.memo.get(key)
            if value is not None:
                return value
        return None

    def _innermost_scope(self, deps: Deps) -> Scope:
        """Return the outermost scope that a value with these dependences can be hoisted to."""
        k = len(self.scopes) - 1
        while k > 0 and not self.scopes[k].holds(deps):
            k -= 1
        return self.scopes[k]

    def tested(self, tests: Iterable[CompareIndex]) -> Deps:
        """Return the variables that conditions depend on."""
        return NOTHING.union(*(self.deps(test) for test in tests))

    def is_invariant(self, value: Value) -> bool:
        """Whether a value can be hoisted out of the innermost serial loop."""
        return self._innermost_scope(self.deps(value)).depth < self.scope.depth

    def new_site(self, depth: int) -> int:
        """Return the number of a new access site inside ``depth`` serial loops."""
        self.site_depths.append(depth)
        return len(self.site_depths) - 1

    def site(self) -> int:
        """Return the number of a new access site in the innermost scope."""
        return self.new_site(self.scope.depth)

    def let(self, value: Value, hint: str, key: Any = None) -> Value:
        """Bind a value and return a reference to it; constants and references are returned unchanged."""
        if isinstance(value, VarRef | ConstValue):
            return value
        if key is not None and (bound := self.lookup(key)) is not None:
            return bound  # type: ignore[no-any-return]
        deps = self.deps(value)
        scope = self._innermost_scope(deps)
        name = self.namer(hint)
        self._deps[name] = deps
        scope.statements.append(Let(name, value))
        ref = VarRef(name, value.dtype)
        if key is not None:
            scope.memo[key] = ref
        return ref

    def read(self, buffer: Buffer, index: ix.Index, hint: str, *, fixed: bool) -> Value:
        """Return an element of a buffer; it is loaded once if nothing in the nest writes the buffer (``fixed``)."""
        self._record(buffer)
        self.require_atoms(index)
        if buffer.in_registers:  # not hoisted: the statements that fill the registers precede the read
            return self._bind_here(BufferRead(buffer, index, self.site()), hint)
        if not fixed:
            at = self.base_index(index, hint)
            return self._bind_here(BufferRead(buffer, at, self.site()), hint)
        key = ("read", buffer.name, ix.key(index))
        bound = self.lookup(key)
        if bound is not None:
            return bound  # type: ignore[no-any-return]
        at = self.base_index(index, hint)
        deps = self.index_deps(at)
        scope = self._innermost_scope(deps)
        name = self.namer(hint, "v")
        self._deps[name] = deps
        scope.statements.append(Let(name, BufferRead(buffer, at, self.new_site(scope.depth))))
        scope.memo[key] = ref = VarRef(name, buffer.dtype)
        return ref

    def read_before(self, offset: ix.Index, buffer: Buffer, index: ix.Index, value: Value, hint: str) -> Value:
        """Return an element of a buffer where an index is negative, and a value elsewhere; all are read at once."""
        self.require_atoms(index)
        test = CompareIndex("lt", offset, 0, bool_)
        at = self.base_index(index, hint)
        return self._bind_here(Op("select", (test, BufferRead(buffer, at, self.site()), value), buffer.dtype), hint)

    def shuffle(self, read: ShuffleRead, hint: str) -> Value:
        """Return an element of another lane, read outside of all guards; equal shuffles are executed once.

        Args:
            read: The read, whose site is numbered here.
            hint: Name of the value.
        """
        scope = self.lane_scope
        assert scope is not None, "shuffles are emitted in nests of one warp"
        key = ("shuffle", read.buffer.name, ix.key(read.index), ix.key(read.lane))
        bound = scope.memo.get(key)
        if bound is not None:
            return bound  # type: ignore[no-any-return]
        self.require_atoms(read.lane)
        outer = next(k for k, s in enumerate(self.scopes) if s is scope)
        name = self.namer(hint, "v")
        self._deps[name] = frozenset().union(*(s.loops for s in self.scopes[: outer + 1]))
        scope.statements.append(Let(name, replace(read, site=self.new_site(scope.depth))))
        ref = scope.memo[key] = VarRef(name, read.dtype)
        return ref

    def store(
        self, buffer: Buffer, index: ix.Index, value: Value, hint: str, *, asynchronous: bool = False, combine: str = ""
    ) -> None:
        """Store a value to an element of a buffer, or combine both by the operator ``combine``."""
        self._record(buffer, written=True)
        self.require_atoms(index)
        at = index if buffer.in_registers else self.base_index(index, hint)
        self.append(Store(buffer, at, value, self.site(), asynchronous, combine))

    def _record(self, buffer: Buffer, *, written: bool = False) -> None:
        """Record an access to an array in global memory."""
        if buffer.memory is Memory.GLOBAL:
            self.global_buffers.setdefault(buffer.name, buffer)
            if written:
                self.written.add(buffer.name)

    def _bind_here(self, value: Value, hint: str) -> Value:
        """Bind a value in the innermost scope."""
        name = self.namer(hint, "v")
        self._deps[name] = frozenset().union(*(s.loops for s in self.scopes))
        self.append(Let(name, value))
        return VarRef(name, value.dtype)

    def base_index(self, index: ix.Index, hint: str) -> ix.Index:
        """Bind the variable part of a flat index, so that neighbouring accesses differ by a constant."""
        if not isinstance(index, ix.Affine):
            return index
        if len(index.terms) == 1 and isinstance(index.terms[0][0], ix.LoopVar) and index.terms[0][1] == 1:
            return index
        linear = ix.sub(index, index.const)
        key = ("index", linear.key)
        name = self.lookup(key)
        if name is None:
            deps = self.index_deps(linear)
            scope = self._innermost_scope(deps)
            name = self.namer(hint, "at")
            self._deps[name] = deps
            scope.statements.append(LetIndex(name, linear))
            scope.memo[key] = name
        lo, hi = linear.interval
        return ix.Affine(((ix.LoopVar(name, lo, hi), 1),), index.const)

    def deps(self, value: Value) -> Deps:
        """Return the loop variables that a value depends on."""
        match value:
            case VarRef():
                return self._deps.get(value.name, NOTHING)
            case IndexValue():
                return self.index_deps(value.index)
            case BufferRead(buffer=buffer):
                if buffer.in_registers:
                    return frozenset().union(*(s.loops for s in self.scopes))
                return self.index_deps(value.index)
            case ShuffleRead():
                return frozenset().union(*(s.loops for s in self.scopes))
            case Op():
                return frozenset().union(*(self.deps(a) for a in value.args))
            case CompareIndex():
                return self.index_deps(value.a) | self.index_deps(value.b)
        return NOTHING

    def index_deps(self, e: ix.Index) -> Deps:
        """Return the loop variables that an index depends on, directly or through data."""
        names: set[str] = set()
        for t in ix.atoms(e):
            if isinstance(t, ix.LoopVar):
                names |= self._deps.get(t.name, NOTHING)
            elif t.kind in ("data", "select") and t.payload is not None:
                names |= self.deps(t.payload)
        return frozenset(names)

    def require_atoms(self, e: ix.Index) -> None:
        """Require one outcome in the interior of every clamp and remainder of an index."""
        for t in ix.atoms(e):
            if isinstance(t, ix.Atom) and t.key not in self._seen_atoms:
                self._seen_atoms.add(t.key)
                if t.kind in ("min", "max"):
                    self.require(CheckedIndex("sign", ix.sub(t.args[0], t.args[1])))
                elif t.kind == "mod":
                    self.require(CheckedIndex("quotient", t.args[0], t.payload))

    def require(self, condition: CheckedIndex) -> None:
        """Require one outcome of a condition for all points of the interior."""
        self.conditions[f"{condition.kind}{ix.key(condition.index)}"] = condition


@dataclass(frozen=True, slots=True)
class CheckedIndex:
    """A condition on an index that has one outcome for all points of a kernel's interior.

    Attributes:
        kind: ``sign``: the index is never positive or never negative; ``nonnegative``: never negative; ``split``: never
            negative or always negative; ``nonzero``: always zero, always positive or always negative; ``quotient``: its
            floor quotient by ``divisor`` is constant.
        index: The index.
        divisor: Divisor of a ``quotient``.
    """

    kind: str
    index: ix.Index
    divisor: int = 1
