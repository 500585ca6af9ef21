"""Value numbering: structurally equal expressions of a stage get one number, operands before users."""

from __future__ import annotations

from autosched.lang.expr import Binary, Call, Cast, Const, Expr, Load, Param, RVar, Select, ShapeDim, Source, Unary, Var
from autosched.lang.expr import children as operands_of
from autosched.reference.buffers import LoopKey


class Numbering:
    """The expressions of one stage as a flat list.

    Attributes:
        nodes: A representative node of each number.
        operands: The numbers of its operands.
        loops: The loop variables in its tree.
        sources: The Funcs and Inputs that its tree loads.
        guarded: The reads whose index may be out of range where they have no effect.
    """

    def __init__(self) -> None:
        self.nodes: list[Expr] = []
        self.operands: list[tuple[int, ...]] = []
        self.loops: list[frozenset[LoopKey]] = []
        self.sources: list[frozenset[Source]] = []
        self.guarded: frozenset[int] = frozenset()
        self._by_key: dict[tuple[object, ...], int] = {}
        self._by_identity: dict[int, int] = {}

    def number(self, root: Expr) -> int:
        """Return the number of an expression; iterative, because long sums are deep trees."""
        stack = [root]
        while stack:
            e = stack[-1]
            if id(e) in self._by_identity:
                stack.pop()
                continue
            pending = [c for c in operands_of(e) if id(c) not in self._by_identity]
            if pending:
                stack.extend(pending)
                continue
            stack.pop()
            self._by_identity[id(e)] = self._insert(e, tuple(self._by_identity[id(c)] for c in operands_of(e)))
        return self._by_identity[id(root)]

    def reachable(self, *roots: int) -> list[int]:
        """Return the numbers in the trees of the roots, operands first."""
        reached: set[int] = set()
        stack = list(roots)
        while stack:
            n = stack.pop()
            if n not in reached:
                reached.add(n)
                stack.extend(self.operands[n])
        return sorted(reached)

    def _insert(self, e: Expr, operands: tuple[int, ...]) -> int:
        key = (*_head(e), *operands)
        number = self._by_key.get(key)
        if number is not None:
            return number
        n = len(self.nodes)
        self._by_key[key] = n
        self.nodes.append(e)
        self.operands.append(operands)
        own_loop = frozenset[LoopKey]() if not isinstance(e, Var | RVar) else frozenset([loop_key(e)])
        self.loops.append(own_loop.union(*(self.loops[o] for o in operands)))
        own_source = frozenset([e.source]) if isinstance(e, Load) else frozenset[Source]()
        self.sources.append(own_source.union(*(self.sources[o] for o in operands)))
        return n


def loop_key(v: Var | RVar) -> LoopKey:
    """Return the key of a loop variable: the name of a Var, the order of an RVar."""
    return v.name if isinstance(v, Var) else v.order


def _head(e: Expr) -> tuple[object, ...]:
    match e:
        case Const():
            return "const", repr(e.value), e.dtype, e.weak  # repr distinguishes 0.0 from -0.0 and 1 from True
        case Var() | RVar():
            return "loop", loop_key(e)
        case Param():
            return "param", e.name
        case ShapeDim():
            return "shape", e.input.name, e.axis
        case Load():
            return "load", id(e.source), e.component
        case Unary() | Binary():
            return e.op, e.dtype, e.weak
        case Select():
            return "select", e.dtype, e.weak
        case Cast():
            return "cast", e.dtype
        case Call():
            return "call", e.name, e.dtype
    raise TypeError(f"{type(e).__name__} cannot be interpreted")
