"""Loop nests of one step: threads, the points of a thread, reductions, accumulators, guards and stores."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from autosched.analysis.indices import index as ix
from autosched.lang.dtypes import bool_
from autosched.lower.builder import CheckedIndex
from autosched.lower.emit.register_blocking import emit_promoted
from autosched.lower.emit.warp_reduction import emit_warp_reduction
from autosched.lower.ir import Alloc, Buffer, Comment, CompareIndex, For, If, LoopRole, Memory, Op, Stmt, Store, Value
from autosched.lower.lower_expressions import EvalPoint
from autosched.schedule.kernel.thread_fusion import is_private_tile, thread_loops
from autosched.schedule.kernel.tile_ownership import OwnedBox
from autosched.schedule.plan import Nest, NestLoop
from autosched.schedule.policy import in_registers, is_unrolled
from autosched.schedule.types import LoopKind

if TYPE_CHECKING:
    from autosched.lower.lower_kernel import KernelBuilder

Group = Sequence[Nest]
_Visit = Callable[[Mapping[str, ix.Index]], None]
_Action = Callable[[], None]


class ThreadNestEmitter:
    """Emits thread nests and the THREAD members inside them.

    Attributes:
        steps: The loop over steps of a kernel whose windows slide, by its name, where not all of them are meant.
    """

    def __init__(self, body: KernelBuilder) -> None:
        self.body = body
        self.out = body.out
        self.plan = body.plan
        self.steps: Mapping[str, ix.Index] = {}

    def emit(self, group: Group, work: _Action | None = None) -> tuple[Stmt, ...]:
        """Return the statements of one step: the thread loops around all stages of the group, or around other work."""
        threads = self._thread_axes(group)
        self.out.push((), fence=True)
        self.out.push((p.name for p in threads if p is not None), fence=True)
        self.body.writing = group[0].stage.func
        if work is None:
            self._stages(group)
        else:
            work()
        self.body.writing = ""
        statements = self.out.pop()
        for axis in range(3):
            loop = threads[axis]
            extent = loop.extent if loop is not None else 1
            if self.plan.block[axis] > 1 or extent > 1:
                name = loop.name if loop is not None else self.body.namer("idle", "xyz"[axis])
                note = f"{loop.dim}: {extent} threads" if loop is not None else ""
                statements = (For(name, extent, LoopRole.THREAD, statements, axis, comment=note),)
        self.out.append(Comment(self._title(group[0])))
        for s in statements:
            self.out.append(s)
        return self.out.pop()

    def _thread_axes(self, group: Group) -> list[NestLoop | None]:
        loops: list[NestLoop | None] = [*thread_loops(group)]
        return loops + [None] * (3 - len(loops))

    def _title(self, n: Nest) -> str:
        allocation = self.plan.allocations.get(n.stage.func)
        if allocation is None:
            return f"{n.id}: this block's tile"
        size = " x ".join(str(e) for e in allocation.extents) or "1"
        return f"{n.id}: {size} points in shared memory"

    def _stages(self, group: Group) -> None:
        if any(n.lanes is not None for n in group):
            emit_warp_reduction(self, group)
            return
        func = self.body.bound.funcs[group[0].stage.func]
        owns = all(is_private_tile(func, n.stage) for n in group)
        repeated = len(group) > 1 or group[0].stage.is_update
        if owns and repeated and bool(in_registers(group[0].serial_points, len(func.dtypes))):
            emit_promoted(self, group)
        else:
            for n in group:
                self.stage(n, None)

    def for_each_point(self, n: Nest, visit: _Visit) -> None:
        """Run ``visit`` at each point of the thread (no reduction loops)."""
        limited = n.stage.func not in self.body.filled
        self._open(n, _points(n), 0, lambda: self._guarded(n, visit, limited=limited))

    def for_whole_tile(self, n: Nest, visit: _Action) -> None:
        """Run ``visit`` at each point of the thread, in the domain or not."""
        self._open(n, _points(n), 0, visit)

    def _open(self, n: Nest, loops: Sequence[NestLoop], k: int, inside: _Action) -> None:
        """Open loops from position ``k`` on around ``inside``."""
        if k == len(loops):
            inside()
            return
        loop = loops[k]
        if loop.extent == 1:
            self._open(n, loops, k + 1, inside)
            return
        self.out.push((loop.name,), serial=True)
        depth = self.out.scope.depth - 1
        self._open(n, loops, k + 1, inside)
        body = self.out.pop()
        role, few = self._role(n, loop), _has_few_points(n, loop)
        self.out.append(For(loop.name, loop.extent, role, body, depth=depth, comment=_note(loop), few_points=few))

    def _role(self, n: Nest, loop: NestLoop) -> LoopRole:
        unrolled = n.unrolls_terms if loop.kind is LoopKind.REDUCTION else n.unrolls_points
        return LoopRole.UNROLLED if unrolled else LoopRole.SERIAL

    def stage(self, n: Nest, registers: Sequence[Buffer] | None) -> None:
        """Emit one stage's loops inside the thread, THREAD members at their depths, and the definition itself."""
        loops = list(n.loops)
        outside = (LoopKind.BLOCK, LoopKind.THREAD)
        start = 1 + max((k for k, p in enumerate(loops) if p.kind in outside or p in n.walked), default=-1)
        early = [p for p in loops[:start] if p in n.inner]
        self._open(n, early, 0, lambda: self._from(n, start, registers))

    def _from(self, n: Nest, position: int, registers: Sequence[Buffer] | None) -> None:
        for group in self.plan.nests_at(n.id, position):
            self._thread_member(group)
        if position == len(n.loops):
            adding = bool(self.body.filled) and n is self.plan.streamed
            limited = n.stage.func not in self.body.filled and not adding
            self._guarded(n, lambda at: self._define(n, at, registers), limited=limited)
            return
        loop = n.loops[position]
        self._open(n, [loop], 0, lambda: self._from(n, position + 1, registers))

    def _thread_member(self, group: Group) -> None:
        func = self.body.bound.funcs[group[0].stage.func]
        outer = self.body.writing
        self.body.writing = func.name
        for k in range(len(func.dtypes)):
            self.out.append(Alloc(self.body.local_buffer(func.name, k)))
        for n in group:
            if n.stage.values and not n.stage.is_empty:
                self.stage(n, None)
        self.body.writing = outer

    def _guarded(self, n: Nest, visit: _Visit, *, limited: bool = True) -> None:
        """Run ``visit`` at the nest's point, under a guard where the point may lie beyond the region.

        Where that is not ``limited``, all points of the tile are visited.
        """
        at = n.point()
        guard: Value | None = None

        def add(test: Value) -> None:
            nonlocal guard
            guard = test if guard is None else Op("and", (guard, test), bool_)

        for dim, i in at.items():
            if n.padded_extent(dim) > n.extents[dim]:  # threads and unrolled points beyond the box
                add(CompareIndex("le", ix.sub(i, n.low[dim]), n.extents[dim] - 1, bool_))
            for limit in self.upper_bounds(n, dim) if limited else ():
                add(CompareIndex("le", i, limit, bool_))
            if dim in n.lower_bound and self._may_lie_before(n, dim):
                add(CompareIndex("ge", i, n.lower_bound[dim], bool_))
        if guard is None:
            visit(at)
            return
        self.out.push((), guard=True)
        visit(at)
        self.out.append(If(guard, self.out.pop()))

    def upper_bounds(self, n: Nest, dim: str) -> list[ix.Index]:
        """Return what some points of a nest's tile may lie beyond: where nothing does is decided by the interior."""
        found = []
        full = ix.add(n.low[dim], n.extents[dim] - 1)
        for limit in min_operands(n.high[dim]):
            room = ix.sub(limit, full)
            if ix.interval(room)[0] < 0:
                self.out.note(room)
                self.out.require(CheckedIndex("nonnegative", room))
                found.append(limit)
        return found

    def _may_lie_before(self, n: Nest, dim: str) -> bool:
        """Whether some points of a nest may lie before the first that is needed of a window."""
        room = ix.substitute(ix.sub(n.low[dim], n.lower_bound[dim]), self.steps)
        if ix.interval(room)[0] >= 0:
            return False
        self.out.note(room)
        self.out.require(CheckedIndex("nonnegative", room))
        return True

    def _value_point(self, n: Nest, p: EvalPoint) -> EvalPoint:
        """Return where a definition is evaluated: at the edge for points beyond it, where these are filled."""
        if n.stage.func not in self.body.filled:
            return p
        return EvalPoint(
            n.stage, {d: functools.reduce(ix.minimum, self.upper_bounds(n, d), i) for d, i in p.at.items()}
        )

    def _define(self, n: Nest, at: Mapping[str, ix.Index], registers: Sequence[Buffer] | None) -> None:
        """Evaluate the definition at a point and store all components."""
        p = EvalPoint(n.stage, at)
        inside = self._value_point(n, p)
        values = [self.body.values.value(e, inside) for e in n.stage.values]
        owned = self.plan.owned.get(n.stage.func)
        if len(values) > 1 or owned is not None:
            values = [self.out.let(v, f"{self.body.names[n.stage.func]}_{k}") for k, v in enumerate(values)]
        index = [self.body.values.symbolic(i, p) for i in n.stage.store]
        for k, v in enumerate(values):
            if registers is not None:
                own = self.body.accumulators[n.stage.func][1]
                self.out.append(Store(registers[k], own, v, self.out.new_site(self.out.scope.depth)))
            else:
                buffer, flat = self.body.address(n.stage.func, index, k)
                self.store(buffer, flat, v, n.stage.func, n.stage.combine[k] if n.stage.combine else "")
        if owned is not None:
            self._store_owned(n.stage.func, owned, at, index, values)

    def _store_owned(
        self, name: str, owned: OwnedBox, at: Mapping[str, ix.Index], index: Sequence[ix.Index], values: Sequence[Value]
    ) -> None:
        """Store a point of a Member to global memory as well, if the block owns it."""
        tests = _owner_tests(owned, at)
        if tests is None:
            return
        if tests:
            self.out.push((), guard=True)
        for k, v in enumerate(values):
            self.store(*self.body.global_address(name, index, k), v, name)
        if tests:
            guard = functools.reduce(lambda a, b: Op("and", (a, b), bool_), tests)
            self.out.append(If(guard, self.out.pop()))

    def store(self, buffer: Buffer, flat: ix.Index, value: Value, name: str, combine: str = "") -> None:
        """Write one element of what is to hold a Func, or combine it with what is there."""
        self.out.note(flat)
        if buffer.memory is Memory.GLOBAL:
            self.body.used.setdefault(buffer.name, buffer)
            self.body.written.add(buffer.name)
        if not buffer.in_registers:
            flat = self.out.base_index(flat, self.body.names[name])
        later = self.body.asynchronous and buffer.memory is Memory.SHARED
        self.out.append(Store(buffer, flat, value, self.out.new_site(self.out.scope.depth), later, combine))


def _points(n: Nest) -> list[NestLoop]:
    """Return the loops over a thread's points."""
    return [p for p in n.inner if p.kind is LoopKind.SERIAL]


def _has_few_points(n: Nest, loop: NestLoop) -> bool:
    """Whether a loop and those inside it are over points alone, and few enough to be written out."""
    inside = n.inner[n.inner.index(loop) :]
    points = all(p.kind is LoopKind.SERIAL for p in inside)
    return points and bool(is_unrolled(math.prod(p.extent for p in inside)))


def _owner_tests(owned: OwnedBox, at: Mapping[str, ix.Index]) -> list[Value] | None:
    """Return what must hold for a block to own a point, None if it cannot."""
    tests: list[Value] = []
    for block in owned.first:
        lo, hi = ix.interval(block)
        if lo > 0:
            return None
        if hi > 0:
            tests.append(CompareIndex("eq", block, 0, bool_))
    for e in owned.edges:
        lo, hi = ix.interval(e.block)
        if lo == e.last or ix.interval(ix.sub(e.next, at[e.dim]))[0] > 0:
            continue
        before: Value = CompareIndex("lt", ix.sub(at[e.dim], e.next), 0, bool_)
        is_last = CompareIndex("eq", e.block, e.last, bool_)
        tests.append(before if hi < e.last else Op("or", (before, is_last), bool_))
    return tests


def min_operands(limit: ix.Index) -> list[ix.Index]:
    """Return indices whose minimum is ``limit``: a point is below it when it is below each of them."""
    for t, c in ix.terms_of(limit):
        if isinstance(t, ix.Atom) and c == 1 and t.kind == "min":
            rest = ix.sub(limit, ix.Affine(((t, 1),), 0))
            parts = [part for a in t.args for part in min_operands(ix.add(rest, a))]
            return list({ix.key(p): p for p in parts}.values())
    return [limit]


def _note(loop: NestLoop) -> str:
    what = "points" if loop.kind is LoopKind.SERIAL else "terms"
    return f"{loop.dim}: {loop.extent} {what}"
