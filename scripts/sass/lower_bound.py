"""Lower bound of a kernel's instructions, counted from its IR for one block.

It counts the arithmetic of stored values, with common subexpressions once per thread; one load for each distinct
element a thread reads; one store for each element it writes. Index arithmetic, clamps of coordinates, guards, loops and
barriers are free. Fused instructions count once: a product with its sums (FFMA, IMAD), a sum of three integers (IADD3),
a change of sign with its reader.

The IR is evaluated for all threads of the block at once. Iterations of a loop that is not unrolled share values only if
these do not depend on the loop.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from autosched.analysis.indices import index as ix
from autosched.lang.dtypes import DType
from autosched.lower.ir import (
    Alloc,
    Barrier,
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
    LoopRole,
    Op,
    Stmt,
    Store,
    Value,
    VarRef,
)

Lanes = np.ndarray[Any, np.dtype[Any]]
COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal, "eq": np.equal, "ne": np.not_equal,
}  # fmt: skip
_LOGIC = frozenset({"and", "or", "xor", "not"})
_SUMS = frozenset({"add", "sub"})


@dataclass(frozen=True, slots=True)
class Opaque:
    """A data-dependent index: its canonical text, the loops it depends on, and the values it reads."""

    key: tuple[Any, ...]
    reads: tuple[int, ...]


@dataclass(slots=True)
class Node:
    """A value of the block's dataflow: ``kind`` is ``operation``, ``load``, ``store`` or ``free``."""

    kind: str
    name: str
    dtype: DType | None
    args: tuple[int, ...]
    lanes: Lanes
    constants: tuple[Any, ...] = ()
    buffer: str = ""


@dataclass(frozen=True, slots=True)
class LowerBound:
    """Counts of one block, in instructions of threads.

    Attributes:
        arithmetic: Operations after fusion.
        loads: Loads by memory (``global`` or ``shared``).
        stores: Stores by memory.
        operations: Operations before fusion, by name.
    """

    arithmetic: int
    loads: Mapping[str, int]
    stores: Mapping[str, int]
    operations: Mapping[str, int]

    @property
    def total(self) -> int:
        """Number of all instructions."""
        return self.arithmetic + sum(self.loads.values()) + sum(self.stores.values())


Cost = Callable[[Node, tuple[DType, ...]], int]


def lower_bound(kernel: KernelIR, block: Sequence[int], cost: Cost) -> LowerBound:
    """Count one block.

    Args:
        kernel: The kernel.
        block: Position of the block in each of the kernel's block loops.
        cost: Instructions of an unfused operation, from its node and its operands' types.
    """
    run = _Run(kernel, block)
    run.statements(kernel.body, np.ones(kernel.threads, bool))
    return _counted(run.nodes, cost)


@dataclass
class _Run:
    kernel: KernelIR
    block: Sequence[int]
    nodes: list[Node] = field(default_factory=list)
    known: dict[Any, int] = field(default_factory=dict)
    index: dict[str, Any] = field(default_factory=dict)
    names: dict[str, Any] = field(default_factory=dict)
    registers: dict[tuple[str, int], int] = field(default_factory=dict)
    versions: dict[str, int] = field(default_factory=dict)
    iterations: dict[str, int] = field(default_factory=dict)
    depends: dict[str, frozenset[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.index.update({name: int(k) for (name, _), k in zip(self.kernel.grid_loops, self.block, strict=True)})
        x, y, _ = self.kernel.block
        thread = np.arange(self.kernel.threads)
        self.axes = (thread % x, thread // x % y, thread // (x * y))

    # Statements

    def statements(self, body: Sequence[Stmt], lanes: Lanes) -> None:
        for s in body:
            self._statement(s, lanes)

    def _statement(self, s: Stmt, lanes: Lanes) -> None:
        match s:
            case For(role=LoopRole.THREAD):
                self.index[s.name] = self.axes[s.axis]
                self.statements(s.body, lanes & (self.axes[s.axis] < s.extent))
            case For():
                self._loop(s, lanes)
            case If():
                self._if(s, lanes)
            case Let():
                self.names[s.name] = self._value(s.value, lanes)
            case LetIndex():
                self.index[s.name] = self._at(s.index, lanes)
                self.depends[s.name] = self._serial(s.index)
            case Store():
                self._store(s, lanes)
            case Alloc() | Barrier() | Comment():
                pass

    def _loop(self, s: For, lanes: Lanes) -> None:
        self.depends.pop(s.name, None)  # an index of the prologue may have the name of the main loop's variable
        for k in range(s.extent):
            self.index[s.name] = k
            if s.role in (LoopRole.SERIAL, LoopRole.MAINLOOP):
                self.iterations[s.name] = k
            self.statements(s.body, lanes)
        self.iterations.pop(s.name, None)

    def _if(self, s: If, lanes: Lanes) -> None:
        condition = self._value(s.condition, lanes)
        if isinstance(condition, int) and not isinstance(condition, bool):  # data-dependent: both branches, merged
            self._node("free", "branch", None, (condition,), lanes)
            self.statements(s.then, lanes)
            self.statements(s.orelse, lanes)
            return
        held = np.broadcast_to(np.asarray(condition, bool), lanes.shape)
        for way, body in ((lanes & held, s.then), (lanes & ~held, s.orelse)):
            if way.any():
                self.statements(body, way)

    def _store(self, s: Store, lanes: Lanes) -> None:
        value = self._as_node(self._value(s.value, lanes), s.buffer.dtype, lanes)
        at = self._at(s.index, lanes)
        if s.buffer.in_registers:
            place = s.buffer.name, int(at)
            old = self.registers.get(place)
            if old is not None and not self.nodes[value].lanes.all() and not lanes.all():
                value = self._node("free", "merge", s.buffer.dtype, (old, value), lanes)
            self.registers[place] = value
            return
        reads = at.reads if isinstance(at, Opaque) else ()
        self._node("store", "store", s.buffer.dtype, (value, *reads), lanes, buffer=s.buffer.memory.value)
        self.versions[s.buffer.name] = self.versions.get(s.buffer.name, 0) + 1

    # Indices

    def _at(self, e: ix.Index, lanes: Lanes) -> Any:
        """Return an index as an integer, an array over threads, or `Opaque`."""
        if not isinstance(e, ix.Affine):
            return e
        opaque: list[Opaque] = []
        total: Any = e.const
        for t, c in e.terms:
            part = self._term(t, lanes)
            if isinstance(part, Opaque):
                opaque.append(part)
            else:
                total = total + c * part
        if not opaque:
            return total
        places = tuple((n, _key(self.index[n])) for n in sorted(ix.loop_vars(e)) if not _opaque(self.index[n]))
        return Opaque((e.key, places, *(o.key for o in opaque)), tuple(r for o in opaque for r in o.reads))

    def _term(self, t: ix.Term, lanes: Lanes) -> Any:
        if isinstance(t, ix.LoopVar):
            return self.index[t.name]
        args = [self._at(a, lanes) for a in t.args]
        if t.kind in ("data", "select"):
            read = self._value(t.payload, lanes)
            if t.kind == "select" and isinstance(read, bool | np.ndarray) and not any(map(_opaque, args)):
                return np.where(read, args[0], args[1])
            reads = tuple(r for a in args if isinstance(a, Opaque) for r in a.reads)
            return Opaque((t.kind, read if isinstance(read, int) else _key(read)), (*reads, *_node_ids(read)))
        hidden = [a for a in args if isinstance(a, Opaque)]
        if hidden:
            return Opaque((t.key, *(h.key for h in hidden)), tuple(r for h in hidden for r in h.reads))
        match t.kind:
            case "div":
                return args[0] // t.payload
            case "mod":
                return args[0] % t.payload
            case "min":
                return np.minimum(args[0], args[1])
            case "max":
                return np.maximum(args[0], args[1])
        return args[0] * args[1]

    def _serial(self, e: ix.Index) -> frozenset[str]:
        """Return the loops of an index that are not unrolled."""
        loops: set[str] = set()
        for name in ix.loop_vars(e):
            loops |= self.depends.get(name, frozenset())
            if name in self.iterations:
                loops.add(name)
        return frozenset(loops)

    # Values

    def _value(self, v: Value, lanes: Lanes) -> Any:
        """Return the node of a value, or the outcome of a condition on indices."""
        match v:
            case ConstValue():
                return self._node("free", "constant", v.dtype, (), lanes, (repr(v.value),))
            case VarRef():
                known = self.names.get(v.name)
                return self._node("free", v.name, v.dtype, (), lanes) if known is None else known
            case BufferRead():
                return self._read(v, lanes)
            case IndexValue():
                at = self._at(v.index, lanes)
                reads = at.reads if isinstance(at, Opaque) else ()
                name = "cast" if v.dtype.is_float else "index"
                kind = "operation" if v.dtype.is_float else "free"
                return self._node(kind, name, v.dtype, reads, lanes, (_key(at),))
            case CompareIndex():
                a, b = self._at(v.a, lanes), self._at(v.b, lanes)
                hidden = [o for o in (a, b) if isinstance(o, Opaque)]
                if hidden:
                    reads = tuple(r for h in hidden for r in h.reads)
                    return self._node("operation", v.op, v.dtype, reads, lanes, (v.a, v.b))
                return COMPARE[v.op](a, b)
            case Op():
                return self._operation(v, lanes)
        raise TypeError(type(v).__name__)

    def _read(self, v: BufferRead, lanes: Lanes) -> int:
        at = self._at(v.index, lanes)
        if v.buffer.in_registers:
            return self.registers[v.buffer.name, int(at)]
        loops = tuple((n, self.iterations[n]) for n in sorted(self._serial(v.index)))
        key = (v.buffer.name, _key(at), self.versions.get(v.buffer.name, 0), loops)
        reads = at.reads if isinstance(at, Opaque) else ()
        return self._node("load", "load", v.dtype, reads, lanes, key, v.buffer.memory.value)

    def _operation(self, v: Op, lanes: Lanes) -> Any:
        args = [self._value(a, lanes) for a in v.args]
        if v.name in _LOGIC and all(isinstance(a, bool | np.bool_ | np.ndarray) for a in args):
            joined = {"and": np.logical_and, "or": np.logical_or, "xor": np.logical_xor}
            return np.logical_not(args[0]) if v.name == "not" else joined[v.name](*args)
        if v.name == "select" and isinstance(args[0], bool | np.bool_ | np.ndarray):
            held = np.broadcast_to(np.asarray(args[0], bool), lanes.shape)[lanes]
            if held.all() or not held.any():
                return args[1] if held.all() else args[2]
        nodes = tuple(self._as_node(a, o.dtype, lanes) for a, o in zip(args, v.args, strict=True))
        constants = tuple(a.value if isinstance(a, ConstValue) else None for a in v.args)
        if nodes and all(self.nodes[n].name == "constant" for n in nodes):
            return self._node("free", "constant", v.dtype, nodes, lanes, (v.name,))
        return self._node("operation", v.name, v.dtype, nodes, lanes, constants)

    def _as_node(self, value: Any, dtype: DType, lanes: Lanes) -> int:
        if isinstance(value, int) and not isinstance(value, bool):
            return value
        return self._node("free", "condition", dtype, (), lanes, (_key(value),))

    def _node(
        self, kind: str, name: str, dtype: DType | None, args: tuple[int, ...], lanes: Lanes,
        constants: tuple[Any, ...] = (), buffer: str = "",
    ) -> int:  # fmt: skip
        key = (kind, name, dtype, args, constants, buffer)
        found = self.known.get(key) if kind != "store" else None
        if found is None:
            found = len(self.nodes)
            self.known[key] = found
            self.nodes.append(Node(kind, name, dtype, args, lanes, constants, buffer))
        return found


def _key(at: Any) -> Any:
    return at.tobytes() if isinstance(at, np.ndarray) else at.key if isinstance(at, Opaque) else int(at)


def _opaque(at: Any) -> bool:
    return isinstance(at, Opaque)


def _node_ids(value: Any) -> tuple[int, ...]:
    return (value,) if isinstance(value, int) and not isinstance(value, bool) else ()


def _counted(nodes: Sequence[Node], cost: Cost) -> LowerBound:
    needed = [np.zeros(len(n.lanes), bool) for n in nodes]
    users: list[list[int]] = [[] for _ in nodes]
    for k in reversed(range(len(nodes))):  # a node follows its operands
        if nodes[k].kind == "store" or nodes[k].name == "branch":
            needed[k] = nodes[k].lanes
        if needed[k].any():
            for a in nodes[k].args:
                needed[a] = needed[a] | needed[k]
                users[a].append(k)
    joined = _joined(nodes, users)
    arithmetic = 0
    loads: dict[str, int] = {"global": 0, "shared": 0}
    stores = dict(loads)
    operations: dict[str, int] = {}
    for k, node in enumerate(nodes):
        lanes = int(needed[k].sum())
        if node.kind == "load":
            loads[node.buffer] += lanes
        elif node.kind == "store":
            stores[node.buffer] += lanes
        elif node.kind == "operation" and lanes:
            operations[node.name] = operations.get(node.name, 0) + lanes
            types = tuple(t for t in (nodes[a].dtype for a in node.args) if t is not None)
            arithmetic += 0 if k in joined else lanes * cost(node, types)
    return LowerBound(arithmetic, loads, stores, operations)


def _joined(nodes: Sequence[Node], users: Sequence[Sequence[int]]) -> set[int]:
    """Return the free operations, which are fused into the instructions of their only readers."""
    found: set[int] = set()
    taken: set[int] = set()
    for k, node in enumerate(nodes):
        if node.kind != "operation" or not users[k]:
            continue
        product = node.name == "mul"
        if not product and not (node.name in _SUMS and node.dtype is not None and node.dtype.is_int):
            continue
        into = [nodes[u] for u in users[k]]
        sums = all(u.name in _SUMS and u.kind == "operation" and u.dtype == node.dtype for u in into)
        if not sums or any(u in taken for u in users[k]) or (not product and (len(set(users[k])) > 1 or k in taken)):
            continue
        found.add(k)
        taken.update(users[k])
    return found
