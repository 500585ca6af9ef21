"""Where statements go while a loop nest is built: scopes, reuse of values, hoisting out of loops.

A value is bound once (`IRBuilder.let`) in the outermost scope where everything it depends on is known, but never
moved out of a guard: what a guard protects may be out of range elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from autosched.analysis.identifiers import Namer
from autosched.analysis.indices import index as ix
from autosched.lower.ir import (
    Buffer,
    BufferRead,
    CompareIndex,
    ConstValue,
    IndexValue,
    Let,
    LetIndex,
    Op,
    Stmt,
    Value,
    VarRef,
)

Deps = frozenset[str]
NOTHING: Deps = frozenset()


@dataclass
class Scope:
    """A list of statements under construction.

    ``loops`` are the loop variables it introduces; ``guard`` says that it is entered conditionally; ``depth`` counts
    the enclosing serial loops; ``memo`` holds what is already bound here.
    """

    loops: Deps
    guard: bool
    depth: int
    statements: list[Stmt] = field(default_factory=list)
    memo: dict[Any, Any] = field(default_factory=dict)


class IRBuilder:
    """Builds the statements of one kernel body."""

    def __init__(self, namer: Namer) -> None:
        self.namer = namer
        self.scopes: list[Scope] = []
        self.site_depths: list[int] = []
        self.conditions: dict[str, CheckedIndex] = {}
        self._deps: dict[str, Deps] = {}
        self._seen_atoms: set[str] = set()

    @property
    def scope(self) -> Scope:
        """The innermost scope."""
        return self.scopes[-1]

    def push(
        self, loops: Iterable[str] = (), *, guard: bool = False, serial: bool = False, fence: bool = False
    ) -> None:
        """Open a scope; ``fence`` starts a nest out of which nothing is hoisted."""
        depth = self.scope.depth if self.scopes else 0
        names = frozenset(loops)
        for name in names:
            self._deps[name] = frozenset((name,))
        self.scopes.append(Scope(names, guard or fence, depth + serial))

    def pop(self) -> tuple[Stmt, ...]:
        """Close the innermost scope and return its statements."""
        return tuple(self.scopes.pop().statements)

    def append(self, s: Stmt) -> None:
        """Add a statement to the innermost scope."""
        self.scope.statements.append(s)

    def lookup(self, key: Any) -> Any:
        """Return what is bound under a key in any open scope, or None."""
        for scope in reversed(self.scopes):
            found = scope.memo.get(key)
            if found is not None:
                return found
        return None

    def memoise(self, key: Any, value: Any, deps: Deps) -> None:
        """Record a value that needs no statement."""
        self._innermost_scope(deps).memo[key] = value

    def _innermost_scope(self, deps: Deps) -> Scope:
        k = len(self.scopes) - 1
        while k > 0 and not self.scopes[k].guard and not (self.scopes[k].loops & deps):
            k -= 1
        return self.scopes[k]

    def new_site(self, depth: int) -> int:
        """Number a memory access that stands inside ``depth`` serial loops."""
        self.site_depths.append(depth)
        return len(self.site_depths) - 1

    def let(self, value: Value, hint: str, key: Any = None) -> Value:
        """Bind a value and return a reference to it; constants and references stay as they are."""
        if isinstance(value, VarRef | ConstValue):
            return value
        if key is not None and (known := self.lookup(key)) is not None:
            return known  # type: ignore[no-any-return]
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
        """Return the element of a buffer; when nothing in this nest writes it (``fixed``), it is read only once."""
        self.note(index)
        if buffer.in_registers:  # stays where it is: what fills the registers stands before it
            return self._bind_here(BufferRead(buffer, index, self.new_site(self.scope.depth)), hint)
        if not fixed:
            at = self.base_index(index, hint)
            return self._bind_here(BufferRead(buffer, at, self.new_site(self.scope.depth)), hint)
        key = ("read", buffer.name, ix.key(index))
        known = self.lookup(key)
        if known is not None:
            return known  # type: ignore[no-any-return]
        at = self.base_index(index, hint)
        deps = self.index_deps(at)
        scope = self._innermost_scope(deps)
        name = self.namer(hint, "v")
        self._deps[name] = deps
        scope.statements.append(Let(name, BufferRead(buffer, at, self.new_site(scope.depth))))
        scope.memo[key] = ref = VarRef(name, buffer.dtype)
        return ref

    def _bind_here(self, value: Value, hint: str) -> Value:
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
        """Return the loop variables a value depends on."""
        match value:
            case VarRef():
                return self._deps.get(value.name, NOTHING)
            case IndexValue():
                return self.index_deps(value.index)
            case BufferRead(buffer=buffer):
                if buffer.in_registers:
                    return frozenset().union(*(s.loops for s in self.scopes))
                return self.index_deps(value.index)
            case Op():
                return frozenset().union(*(self.deps(a) for a in value.args))
            case CompareIndex():
                return self.index_deps(value.a) | self.index_deps(value.b)
        return NOTHING

    def index_deps(self, e: ix.Index) -> Deps:
        """Return the loop variables an index depends on, through data as well."""
        found: set[str] = set()
        for t in ix.atoms(e):
            if isinstance(t, ix.LoopVar):
                found |= self._deps.get(t.name, NOTHING)
            elif t.kind in ("data", "select") and t.payload is not None:
                found |= self.deps(t.payload)
        return frozenset(found)

    def note(self, e: ix.Index) -> None:
        """Remember clamps, remainders and the like that the current ranges do not decide."""
        for t in ix.atoms(e):
            if isinstance(t, ix.Atom) and t.key not in self._seen_atoms:
                self._seen_atoms.add(t.key)
                if t.kind in ("min", "max"):
                    self.require(CheckedIndex("sign", ix.sub(t.args[0], t.args[1])))
                elif t.kind == "mod":
                    self.require(CheckedIndex("quotient", t.args[0], t.payload))

    def require(self, condition: CheckedIndex) -> None:
        """Remember something that must be decided for all points of a block in the interior."""
        self.conditions[f"{condition.kind}{ix.key(condition.index)}"] = condition


@dataclass(frozen=True, slots=True)
class CheckedIndex:
    """Something the interior of a kernel decides once and for all.

    ``sign``: the index is nowhere positive or nowhere negative; ``nonnegative``: it is never negative; ``nonzero``:
    always zero, always positive or always negative; ``quotient``: its floor quotient by ``divisor`` is one constant.
    """

    kind: str
    index: ix.Index
    divisor: int = 1
